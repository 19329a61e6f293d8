"""Faults of a pair of arrays, one after the other: what campaigns and suites have in common."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable

from .array import Array
from .host import Host
from .pair import Pair
from .procs import Failed

MIB = 1 << 20
AREA, AREA_SIZE, AREAS = 512 * MIB, 4 * MIB, 16
"""Upper ends of the classes of pauses, in seconds."""
CLASSES = [0.25, 0.5, 1, 2, 3, 5, 10, 30]
"""Each fault once: what is done, to which array or direction, and when the mediator is lost."""
FAULTS = [
    ("kill", "alpha", "there"),
    ("stop", "beta", "there"),
    ("cut", "both", "there"),
    ("kill", "beta", "lost before"),
    ("kill", "alpha", "lost after"),
    ("stop", "alpha", "there"),
    ("kill", "beta", "there"),
    ("cut", "in", "there"),
    ("kill", "both", "there"),
    ("stop", "beta", "lost before"),
    ("cut", "out", "lost after"),
    ("stop", "alpha", "lost before"),
    ("kill", "alpha", "lost before"),
    ("kill", "both", "lost before"),
    ("stop", "beta", "lost after"),
    ("cut", "both", "lost before"),
]


class Faults:
    """Makes faults, and writes ranges of the volume in them that both arrays must have afterwards."""

    def __init__(self, pair: Pair, host: Host, seed: int):
        self.pair, self.host, self.chance, self.seed = pair, host, random.Random(seed), seed * 1_000_000

    def fill(self, array: Array) -> list[str]:
        """Writes the next range through an array; returns the range, for `verify`."""
        self.seed += 1
        off = AREA + self.seed % AREAS * AREA_SIZE
        area = ["--off", str(off), "--size", str(AREA_SIZE), "--seed", str(self.seed)]
        self.host.verb("fill", self.pair.url(array), *area)
        return area

    def verify(self, area: list[str]) -> None:
        for array in self.pair.arrays:
            self.host.verb("verify", self.pair.url(array), *area)

    def choose(self, number: int) -> tuple[str, str, str]:
        """The fault of a round: each one once, then any."""
        return FAULTS[number] if number < len(FAULTS) else self.chance.choice(FAULTS)

    def hit(self, kind: str, where: str) -> list[Array]:
        """The arrays that a fault hits. A cut hits none."""
        pair = self.pair
        return [] if kind == "cut" else [pair.names[where]] if where in pair.names else list(pair.arrays)

    def begin(self, kind: str, where: str) -> Callable[[], None]:
        """Begins a fault; returns its end."""
        pair, hit = self.pair, self.hit(kind, where)

        def each(work: Callable[[Array], object]) -> Callable[[], None]:
            return lambda: [work(array) for array in hit] and None

        if kind == "cut":
            pair.cut(where)
            return lambda: pair.cut("none")
        if kind == "stop":
            each(pair.freeze)()
            return each(pair.thaw)
        each(Array.kill)()
        self.chance.shuffle(hit)
        return each(Array.start)

    def during(
        self, hit: list[Array], until: float, mediator: str, answered: Callable[[Array], object]
    ) -> list[list[str]]:
        """Writes ranges through an array that serves alone, if one does, until the time has come. `answered` waits until
        the load has an answer of that array."""
        pair, areas, decided = self.pair, [], False
        while time.monotonic() < until or (mediator == "lost after" and not decided):
            for array in pair.arrays:
                if array not in hit and (pair.state(array) or {}).get("state") == "solo":
                    answered(array)
                    if len(areas) < AREAS // 2:
                        areas.append(self.fill(array))
                    if mediator == "lost after" and not decided:
                        pair.stop_mediator()
                    decided = True
            if not decided and time.monotonic() > until + 30:
                raise Failed(f"no array serves alone: {'; '.join(pair.why(a) for a in pair.arrays if a not in hit)}")
            time.sleep(0.05)
        return areas


def histogram(columns: Iterable[list[float]]) -> list[list[str]]:
    """Rows of a table: the classes, the median and the longest of each list of pauses, in seconds."""
    columns, rows, begin = list(columns), [], 0.0
    for end in CLASSES:
        rows.append([f"{begin:g} to {end:g}", *(str(sum(begin <= n < end for n in found)) for found in columns)])
        begin = end
    for name, work in (("median", statistics.median), ("max", max)):
        rows.append([name, *(f"{work(found):.2f}" if found else "-" for found in columns)])
    return rows
