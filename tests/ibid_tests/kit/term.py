"""Terminal output: colours, tables and a progress line."""

from __future__ import annotations

import os
import shutil
import sys
import time

# Whether one thread alone writes to the terminal, so that a progress line may be overwritten.
ONE_WRITER = True
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def coloured(stream=None) -> bool:
    """Colours only on a terminal, and never if NO_COLOR is set (https://no-color.org)."""
    stream = stream or sys.stdout
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, *styles: str) -> str:
    if not styles or not coloured():
        return text
    return f"\x1b[{';'.join(CODES[s] for s in styles)}m{text}\x1b[0m"


def say(text: str = "", *styles: str) -> None:
    print(paint(text, *styles), flush=True)


def heading(text: str) -> None:
    say()
    say(text, "bold")


class Progress:
    """A line on a terminal that is overwritten; no output to a file."""

    def __init__(self, total: int, unit: str = ""):
        self.total, self.unit, self.done, self.shown_at = total, unit, 0, 0.0

    def step(self, note: str = "", by: int = 1) -> None:
        self.done += by
        if ONE_WRITER and sys.stdout.isatty() and time.monotonic() - self.shown_at > 0.05:
            self.shown_at = time.monotonic()
            filled = 24 * self.done // max(self.total, 1)
            bar = "━" * filled + paint("━" * (24 - filled), "dim")
            width = shutil.get_terminal_size().columns
            room = width - 24 - 2 * len(str(self.total)) - len(self.unit) - 8
            print(f"\r  {bar} {self.done}/{self.total}{self.unit} {note[: max(room, 0)]}\x1b[K", end="", flush=True)

    def finish(self) -> None:
        if ONE_WRITER and sys.stdout.isatty():
            print("\r\x1b[K", end="", flush=True)


def table(head: list[str], rows: list[list[str]], right: set[int] = frozenset(), styles=None) -> str:
    """A table with a line under its head. `right` lists right-aligned columns; `styles(row, column)` returns a colour."""
    widths = [max(len(str(r[i])) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str], paint_cell) -> str:
        out = []
        for i, cell in enumerate(cells):
            text = str(cell).rjust(widths[i]) if i in right else str(cell).ljust(widths[i])
            out.append(paint_cell(text, i))
        return ("  " + "   ".join(out)).rstrip()

    lines = [line(head, lambda t, _: paint(t, "dim"))]
    lines.append(paint("  " + "─" * (sum(widths) + 3 * (len(widths) - 1)), "dim"))
    for n, row in enumerate(rows):
        lines.append(line(row, lambda t, i, n=n: paint(t, *(styles(n, i) if styles else ()))))
    return "\n".join(lines)


def count(n: float) -> str:
    """Formats a number: 12 345, 1 234 567; two decimals if it is small."""
    if n >= 100 or n == int(n):
        return f"{n:,.0f}".replace(",", " ")
    return f"{n:.1f}" if n >= 10 else f"{n:.2f}"


def size(n: float) -> str:
    """Formats bytes with a binary unit: 4 KiB, 1.5 GiB."""
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"]:
        if abs(n) < 1024 or unit == "TiB":
            return f"{n:.0f} {unit}" if n == int(n) or n >= 100 else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError("the loop returns")


def seconds(n: float) -> str:
    if n < 0.001:
        return f"{n * 1e6:.0f} µs"
    if n < 1:
        return f"{n * 1e3:.0f} ms" if n >= 0.01 else f"{n * 1e3:.1f} ms"
    return f"{n:.1f} s" if n < 90 else f"{round(n) // 60} min {round(n) % 60} s"
