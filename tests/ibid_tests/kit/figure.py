"""A figure as an SVG file: curves over one axis, written as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df")


def steps(most: float, about: int = 5) -> list[float]:
    """Round values from 0 to at most `most`, at steps of 1, 2 or 5 times a power of ten."""
    step, power = 1.0, 10.0**-6
    while (step := next((n * power for n in (1, 2, 5) if most / (n * power) <= about), 0.0)) == 0.0:
        power *= 10
    return [n * step for n in range(int(most / step + 1e-9) + 1)]


@dataclass
class Figure:
    """Curves of points (x, y). `levels` are horizontal lines; `bands` are named ranges of x."""

    title: str
    x: str
    y: str
    curves: dict[str, list[tuple[float, float]]]
    levels: dict[str, float] = field(default_factory=dict)
    bands: list[tuple[float, float, str]] = field(default_factory=list)
    width: int = 860
    height: int = 340

    def svg(self) -> str:
        left, right, top, bottom = 64, self.width - 20, 52, self.height - 46
        points = [p for curve in self.curves.values() for p in curve]
        most_x = max(p[0] for p in points) or 1.0
        most_y = max([p[1] for p in points] + list(self.levels.values())) * 1.08 or 1.0
        at_x = lambda x: left + (right - left) * x / most_x  # noqa: E731
        at_y = lambda y: bottom - (bottom - top) * y / most_y  # noqa: E731
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
            f'<text x="{left}" y="20" font-size="14">{escape(self.title)}</text>',
        ]
        for n, (begin, end, name) in enumerate(self.bands):
            wide = at_x(end) - at_x(begin)
            out.append(
                f'<rect x="{at_x(begin):.1f}" y="{top}" width="{wide:.1f}" height="{bottom - top}" fill="{"#f6f8fa" if n % 2 else "#fff"}"/>'
            )
            # A name wider than its band is rotated.
            middle = at_x(begin) + wide / 2
            place = (
                f'x="{middle:.1f}" y="{top - 6}"'
                if wide > 7 * len(name)
                else f'transform="translate({middle + 4:.1f} {bottom - 6}) rotate(-90)"'
            )
            out.append(
                f'<text {place} text-anchor="{"middle" if wide > 7 * len(name) else "start"}" fill="#57606a">{escape(name)}</text>'
            )
        for y in steps(most_y):
            out.append(
                f'<line x1="{left}" x2="{right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#ddd"/>'
                f'<text x="{left - 8}" y="{at_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>'
            )
        for x in steps(most_x, 8):
            out.append(
                f'<line x1="{at_x(x):.1f}" x2="{at_x(x):.1f}" y1="{bottom}" y2="{bottom + 4}" stroke="#888"/>'
                f'<text x="{at_x(x):.1f}" y="{bottom + 18}" text-anchor="middle">{x:g}</text>'
            )
        out.append(
            f'<text x="{right}" y="{self.height - 10}" text-anchor="end">{escape(self.x)}</text><text x="8" y="{top - 6}">{escape(self.y)}</text>'
        )
        for name, y in self.levels.items():
            out.append(
                f'<line x1="{left}" x2="{right}" y1="{at_y(y):.1f}" y2="{at_y(y):.1f}" stroke="#57606a" stroke-dasharray="5 4"/>'
                f'<text x="{left + 6}" y="{at_y(y) - 5:.1f}" fill="#57606a">{escape(name)}</text>'
            )
        for n, (name, curve) in enumerate(self.curves.items()):
            colour = COLOURS[n % len(COLOURS)]
            line = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in curve)
            out.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
                f'<text x="{left + 150 * n}" y="{self.height - 10}" fill="{colour}">{escape(name)}</text>'
            )
        return "\n".join([*out, "</svg>"]) + "\n"
