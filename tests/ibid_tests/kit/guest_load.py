"""The verifying load of a guest (guest/load.c): every block states its version, and no command may fail."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from .guest import HERE, Guest, Port
from .procs import Failed, run

"""Blocks of 4 KiB that each thread writes."""
BLOCKS = 4096
"""Seconds until every thread has begun and ended another command, after a fault that ends by itself."""
ANSWERED = 90.0


@dataclass
class Report:
    """Counts since the start. `longest` is the longest command since the mark, `quiet` the time since which each thread
    has begun and ended a command, in seconds."""

    writes: int
    reads: int
    errors: int
    wrong: int
    longest: float
    quiet: float


def program(scratch: Path) -> bytes:
    """The load as a program for the guest."""
    built = scratch / "guest-load"
    scratch.mkdir(parents=True, exist_ok=True)
    run(["cc", "-O2", "-static", "-pthread", "-o", str(built), str(HERE / "load.c")])
    return built.read_bytes()


class GuestLoad:
    """A load on one device of a guest, which has `program` as its file `load`. As a context manager it runs inside of
    the block; `check` raises if anything was wrong."""

    def __init__(self, guest: Guest, device: str, threads: int = 4, seed: int = 1):
        self.guest, self.device, self.threads, self.seed = guest, device, threads, seed
        self.problems: list[str] = []
        self.is_running = False

    @property
    def port(self) -> Port:
        return self.guest.load

    def answer(self, word: str, limit: float) -> str:
        end = time.monotonic() + limit
        while not (line := self.port.line(end)).startswith(word):
            self.problems.append(line.removeprefix("problem "))
        return line

    def ask(self, command: str, word: str, limit: float = 60) -> str:
        self.port.send(command)
        return self.answer(word, limit)

    def start(self) -> GuestLoad:
        base = int(time.time()) << 24
        load = f"/run/guest/load {self.device} {self.threads} {BLOCKS} {self.seed} {base}"
        self.guest.run(f"setsid {load} <>/run/ports/load >&0 2>&1 3<&- &")
        self.answer("started", 60)
        self.is_running = True
        self.wait_answered()
        return self

    def mark(self) -> None:
        """Begins an interval for `Report.longest`."""
        self.ask("mark", "marked")

    def report(self) -> Report:
        return self.parse(self.ask("report", "report"))

    def parse(self, line: str) -> Report:
        found = dict(re.findall(r"(\w+)=(\d+)", line))
        counts = {name: int(found[name]) for name in ("writes", "reads", "errors", "wrong")}
        return Report(**counts, longest=int(found["longest"]) / 1e6, quiet=int(found["quiet"]) / 1e6)

    def wait_answered(self, limit: float = ANSWERED) -> float:
        """Waits until each thread has begun and ended a command since now; returns the seconds."""
        begin = time.monotonic()
        while (quiet := self.report().quiet) > time.monotonic() - begin:
            if time.monotonic() > begin + limit:
                raise Failed(f"the guest's load has waited {quiet:.0f} s for an answer")
            time.sleep(0.05)
        return time.monotonic() - begin

    def check(self) -> Report:
        """Raises if a command failed, or a block was wrong."""
        return self.checked(self.report())

    def checked(self, report: Report) -> Report:
        if report.errors or report.wrong:
            said = f"{report.errors} I/O errors and {report.wrong} wrong blocks in the guest"
            raise Failed(f"{said}: {'; '.join(self.problems[:3])}")
        return report

    def verify(self) -> int:
        """Reads every block that was written; returns their number."""
        blocks = int(self.ask("verify", "verified", 300).partition("blocks=")[2])
        self.check()
        return blocks

    def stop(self) -> Report:
        """Ends the load, and raises if anything was wrong."""
        self.is_running = False
        return self.checked(self.parse(self.ask("stop", "report", ANSWERED)))

    def end(self) -> None:
        """Ends the load, if it runs."""
        if self.is_running:
            self.stop()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.end()
