"""Two arrays that are connected, a mediator, and a pod with one volume that both arrays serve."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .array import Array
from .procs import Failed, Process, free_ports, run

POD, VOLUME, LUN = "dc1", "dc1::vm1", 1
"""Seconds until a pod is in step again. It takes two in most cases; a machine may be busy."""
LIMIT = 30.0


def wait(what: str, is_so: Callable[[], bool], limit: float = LIMIT) -> float:
    """Waits until it is so; returns the seconds."""
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() > begin + limit:
            raise Failed(f"not {what} within {limit:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - begin


class Pair:
    """Arrays alpha and beta, and a mediator, as processes. As a context manager all are killed at the end."""

    def __init__(self, bin_dir: Path, base: Path, capacity: str = "4GiB", portals: int = 1):
        base.mkdir(parents=True, exist_ok=True)
        self.dir = Path(tempfile.mkdtemp(prefix="pair-", dir=base))
        self.ibid = str(bin_dir / "ibid")
        *links, mediator = free_ports(3)
        self.links = [f"127.0.0.1:{port}" for port in links]
        self.mediator_address = f"127.0.0.1:{mediator}"
        self.arrays = [
            Array(
                bin_dir,
                capacity=capacity,
                portals=portals,
                base=self.dir / name,
                args=["--name", name, "--number", str(number), "--link", link],
            )
            for number, (name, link) in enumerate(zip(("alpha", "beta"), self.links, strict=True), 1)
        ]
        self.alpha, self.beta = self.arrays
        self.names = {"alpha": self.alpha, "beta": self.beta}
        self.mediator: Process | None = None
        self.mediator_data = self.dir / "mediator"

    def start(self) -> Pair:
        """Starts the arrays and the mediator, and connects the arrays."""
        for array in self.arrays:
            array.start()
        self.start_mediator()
        for array in self.arrays:
            self.run_mediator("allow", certificate(array))
        self.connect_arrays()
        return self

    def connect_arrays(self) -> None:
        key = self.beta.admin("array", "connection-key")["connection_key"]
        self.alpha.admin("array", "connect", "beta", "--address", self.links[1], "--key", key)

    def start_mediator(self) -> None:
        self.mediator_data.mkdir(exist_ok=True)
        command = [self.ibid, "mediator", "serve", "--data", str(self.mediator_data), "--listen", self.mediator_address]
        self.mediator = Process(command, self.dir / "mediator.log")
        self.mediator.await_ports([int(self.mediator_address.rsplit(":", 1)[1])])

    def stop_mediator(self) -> None:
        """SIGKILL."""
        self.mediator.kill()

    def run_mediator(self, *args: str) -> str:
        return run([self.ibid, "mediator", *args, "--data", str(self.mediator_data)]).stdout

    def create(self, size: str = "1GiB") -> None:
        """Creates the pod with its volume on alpha."""
        self.alpha.admin("pod", "create", POD)
        self.alpha.volume(VOLUME, size, LUN)

    def stretch(self) -> float:
        """Brings the pod to beta and connects the volume there; returns the seconds until both serve it."""
        begin = time.monotonic()
        self.alpha.admin("pod", "stretch", POD, "beta", "--mediator", self.mediator_address)
        took = time.monotonic() - begin
        self.beta.connect(VOLUME, LUN)
        self.wait_sync()
        return took

    def url(self, array: Array) -> str:
        return array.url(LUN)

    def other(self, array: Array) -> Array:
        return self.beta if array is self.alpha else self.alpha

    def name(self, array: Array) -> str:
        return "alpha" if array is self.alpha else "beta"

    def state(self, array: Array) -> dict | None:
        """The pod as this array sees it; none if the array has no such pod on two arrays, or does not answer."""
        try:
            found = array.admin("pod", "list", "--replication")
        except Failed:
            return None
        return next((pod for pod in found or [] if pod["name"] == POD), None)

    def sequencer(self) -> Array:
        """The array that orders the changes of both. The other one follows."""
        for array in self.arrays:
            state = self.state(array)
            if state and (found := [a["name"] for a in state["arrays"] if a["is_sequencer"]]):
                return self.names[found[0]]
        raise Failed("no array orders the changes of the pod")

    def is_sync(self, array: Array, mediator: bool = True) -> bool:
        """Whether an array says that both serve, and (with `mediator`) that the mediator will decide."""
        state = self.state(array)
        if not state or state["state"] != "sync":
            return False
        decides = state["tie_rule"] == "mediator" and state["is_tie_rule_in_force"]
        this = next(a for a in state["arrays"] if a["is_this"])
        return not mediator or (decides and this["mediator_status"] == "online")

    def wait_state(self, array: Array, *states: str, limit: float = LIMIT) -> float:
        return wait(
            f"{' or '.join(states)} at {self.name(array)} ({self.why(array)})",
            lambda: (self.state(array) or {}).get("state") in states,
            limit,
        )

    def wait_sync(self, mediator: bool = True, limit: float = LIMIT) -> float:
        """Waits until both arrays say that they serve, and that the mediator will decide; returns the seconds."""
        try:
            return wait("in step", lambda: all(self.is_sync(array, mediator) for array in self.arrays), limit)
        except Failed as e:
            raise Failed(f"{e}; {'; '.join(f'{self.name(a)}: {self.why(a)}' for a in self.arrays)}") from None

    def why(self, array: Array) -> str:
        return (self.state(array) or {}).get("explanation", "no answer")

    def cut(self, direction: str = "both") -> None:
        """Cuts the link as a broken network does. `none` ends it."""
        self.alpha.admin("array", "distance", "beta", "--cut", direction)

    def freeze(self, array: Array) -> None:
        os.kill(array.process.pid, signal.SIGSTOP)

    def thaw(self, array: Array) -> None:
        os.kill(array.process.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self, array: Array) -> Iterator[None]:
        self.freeze(array)
        try:
            yield
        finally:
            self.thaw(array)

    def heal(self) -> None:
        """Starts whatever does not run."""
        if not self.mediator.alive():
            self.start_mediator()
        for array in self.arrays:
            if not array.process.alive():
                array.start()

    def close(self, keep: bool = False) -> None:
        for array in self.arrays:
            array.kill()
        if self.mediator:
            self.mediator.kill()
        if not keep:
            shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def certificate(array: Array) -> str:
    """The SHA-256 of the certificate of an array's links, as `ibid mediator allow` takes it."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert((array.data / "link.pem").read_text())).hexdigest()
