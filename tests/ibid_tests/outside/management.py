"""Public management clients against a running array: py-pure-client, with every call that reads, and Ansible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.outside.result import Lab, Result, Skip

SUITE = "management"
CLIENTS = Path(__file__).resolve().parents[1] / "clients"
PURE, COLLECTION = CLIENTS / "pure.py", CLIENTS / "collection.py"
LIMIT = 600


def interpreter(lab: Lab) -> Path:
    """The Python of the clients' environment, which scripts/setup.sh makes below the build folder."""
    for folder in (lab.bin, *lab.bin.parents):
        python = folder / "clients/bin/python"
        if python.exists():
            return python
    raise Skip("py-pure-client is not installed; scripts/setup.sh test installs it from PyPI")


def run(lab: Lab) -> Iterator[Result]:
    python = interpreter(lab)
    yield from flows(lab, [str(python), str(PURE)])
    folder = next(python.parents[1].glob("collections-*"), None)
    if folder is None:
        yield Result(
            SUITE, "ansible", "skip", 0.0, "Ansible is not installed; scripts/setup.sh test installs it from PyPI"
        )
    else:
        yield from flows(lab, [str(python), str(COLLECTION)], [str(folder)])


def flows(lab: Lab, program: list[str], more: list[str] | None = None) -> Iterator[Result]:
    """Runs a client against an array of its own."""
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        token = (array.data / "admin-token").read_text().strip()
        done = run_command([*program, f"127.0.0.1:{array.api_port}", token, *(more or [])], limit=LIMIT)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if not lines:
            raise Failed("the client tested nothing")
        for name, status, secs, detail in lines:
            yield Result(SUITE, name, status, secs, detail)
