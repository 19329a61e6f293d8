"""Faults of system calls, injected into a running process with strace."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from .procs import Failed, Process

# strace is killed when the process ends; this bounds the wait for it to attach.
ATTACH_SECONDS = 20


def missing() -> str:
    """The reason why faults cannot be injected, if there is one."""
    return "" if shutil.which("strace") else "strace is not installed"


class Injection:
    """Injects a fault into all calls of `calls` on one file by a process, while the context lasts.

    `fault` is strace's: error=EIO, delay_enter=8s. `more` are faults of further calls: preadv2:error=EAGAIN.
    """

    def __init__(self, pid: int, path: Path, calls: str, fault: str, log: Path, more: tuple[str, ...] = ()):
        self.calls = calls
        command = ["strace", "-f", "-q", "-p", str(pid), "-P", str(path), "-o", str(log)]
        command += ["-e", "trace=" + ",".join([calls, *(other.split(":")[0] for other in more)])]
        for injected in (f"{calls}:{fault}", *more):
            command += ["-e", f"inject={injected}"]
        self.trace, self.log, self.pid, self.command = log, log.with_suffix(".err"), pid, command
        self.process: Process | None = None

    def __enter__(self) -> Injection:
        self.process = Process(self.command, self.log)
        end = time.monotonic() + ATTACH_SECONDS
        while not self.is_attached():
            if not self.process.alive():
                raise Failed(f"strace ended with {self.process.child.returncode}:\n{self.process.tail()}")
            if time.monotonic() > end:
                raise Failed(f"strace did not attach within {ATTACH_SECONDS} s")
            time.sleep(0.05)
        return self

    def is_attached(self) -> bool:
        """Every thread has a tracer."""
        tasks = list(Path(f"/proc/{self.pid}/task").glob("*/status"))
        return bool(tasks) and all("TracerPid:\t0\n" not in task.read_text() for task in tasks)

    def count(self) -> int:
        """Calls that got the fault."""
        text = self.trace.read_text(errors="replace") if self.trace.exists() else ""
        return text.count("(INJECTED)") + text.count("(DELAYED)")

    def kill(self) -> None:
        """Ends the injection at once, delays included."""
        if self.process:
            self.process.kill()

    def __exit__(self, *_):
        if self.process and self.process.alive():
            self.process.child.terminate()
            try:
                self.process.child.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
