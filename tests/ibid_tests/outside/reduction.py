"""A slice of the data-reduction benchmark (`scripts/reduction.py --slice`), with limits for each kind of data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from ibid_tests.kit.procs import run as run_command
from ibid_tests.kit.term import size
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "reduction"
SCRIPT = Path(__file__).resolve().parents[3] / "scripts/reduction.py"
# Minimum ratios: program text; two similar trees; a database; noise (which may grow by headers only). Clones: see CLONES.
TEXT, CLONES, RELEASES, DATABASE, NOISE = 2.0, 1.05, 3.0, 1.3, 0.98


def run(lab: Lab) -> Iterator[Result]:
    out = lab.scratch("reduction")
    found: dict[str, dict] = {}

    def measure() -> str:
        run_command([str(SCRIPT), "--slice", "--alone", "--bin", str(lab.bin), "--out", str(out)], limit=600)
        found.update((s["name"], s) for s in json.loads((out / "reduction.json").read_text())["sets"])
        return f"{size(sum(s['written'] for s in found.values()))} written"

    def ratio(name: str, least: float) -> Callable[[], str]:
        def check() -> str:
            got = found[name]["ratio"]
            assert got >= least, f"{got:.2f}, less than {least}"
            return f"{got:.2f}"

        return check

    def clones() -> str:
        cost = found["clones"]["stored"] / found["image"]["stored"]
        assert cost <= CLONES, f"{cost:.3f} times one disk, more than {CLONES}"
        return f"{cost:.3f} times one disk"

    yield from checks(
        SUITE,
        [
            ("write every set", measure),
            ("program text", ratio("image", TEXT)),
            ("sixteen clones, each written", clones),
            ("two trees that differ a little", ratio("releases", RELEASES)),
            ("a database after transactions", ratio("database", DATABASE)),
            ("noise", ratio("noise", NOISE)),
        ],
    )
