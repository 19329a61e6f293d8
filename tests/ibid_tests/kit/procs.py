"""Background processes, each stopped by the code that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path


class Failed(Exception):
    """A required step failed; the text is for the user."""


def free_ports(n: int) -> list[int]:
    """Free loopback ports. All are held open together, so that they are different."""
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in holders:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in holders]


def listens(port: int) -> bool:
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A background server with its output in a file. As a context manager it is killed at the end."""

    def __init__(self, command: list[str], log: Path, env: dict[str, str] | None = None):
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self.log_begins = out.tell()
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # a Ctrl-C on the terminal is ours to hand on
            )

    @property
    def pid(self) -> int:
        return self.child.pid

    def alive(self) -> bool:
        return self.child.poll() is None

    def await_ports(self, ports: list[int], limit: float = 60) -> None:
        """Returns when the process listens on all of `ports`; raises if it ends or takes longer than `limit`."""
        end = time.monotonic() + limit
        waiting = list(ports)
        while waiting:
            if not self.alive():
                raise Failed(f"{self.name()} ended with {self.child.returncode}:\n{self.tail()}")
            if time.monotonic() > end:
                raise Failed(f"{self.name()} does not listen on {waiting} after {limit:.0f} s:\n{self.tail()}")
            waiting = [p for p in waiting if not listens(p)]
            if waiting:
                time.sleep(0.02)

    def await_line(self, line: str, limit: float) -> None:
        """Returns when the process has printed this line since its start."""
        end = time.monotonic() + limit
        while f"\n{line}\n" not in "\n" + self.log.read_text(errors="replace")[self.log_begins :]:
            if not self.alive():
                raise Failed(f"{self.name()} ended with {self.child.returncode}:\n{self.tail()}")
            if time.monotonic() > end:
                raise Failed(f"{self.name()} is not ready after {limit:.0f} s:\n{self.tail()}")
            time.sleep(0.01)

    def name(self) -> str:
        return Path(self.child.args[0]).name

    def tail(self, lines: int = 15) -> str:
        return "\n".join("    " + line for line in self.log.read_text(errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """SIGKILL: the process has no opportunity to clean up."""
        if self.alive():
            self.child.kill()
        self.child.wait()

    def stop(self, limit: float = 30) -> int:
        """Sends SIGTERM and returns the exit code. A process that does not end in time is killed and reported."""
        if self.alive():
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.name()} did not stop within {limit:.0f} s of SIGTERM:\n{self.tail()}") from None

    def memory(self) -> int:
        """Resident anonymous memory of the process in bytes, without file pages and page cache."""
        return self._status("RssAnon")

    def peak_memory(self) -> int:
        return self._status("VmHWM")

    def written(self) -> int:
        """Bytes that the process has written to block devices, log and cleaning included."""
        found = dict(line.split(": ") for line in Path(f"/proc/{self.pid}/io").read_text().splitlines())
        return int(found["write_bytes"])

    def _status(self, key: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
        return 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def run(command: list[str], limit: float = 120, check: bool = True, **more) -> subprocess.CompletedProcess:
    """Runs a command and returns its output. With `check`, raises with the output if the exit code is not 0."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=limit, stdin=subprocess.DEVNULL, **more
        )
    except subprocess.TimeoutExpired as e:
        raise Failed(f"{' '.join(command)}\n    did not end within {limit:.0f} s") from e
    except FileNotFoundError as e:
        raise Failed(f"{command[0]}: not found") from e
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise Failed(f"{' '.join(command)}\n    exit {done.returncode}: {said}")
    return done
