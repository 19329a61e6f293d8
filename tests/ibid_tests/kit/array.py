"""An Ibid array for one test: its own folder, its own loopback ports, managed with `ibid`."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path

from .procs import Failed, Process, free_ports, run
from .wire import discover


class Array:
    """`ibid serve` in the background. As a context manager it is killed at the end, and its data removed."""

    def __init__(
        self,
        bin_dir: Path,
        *,
        capacity: str = "16GiB",
        portals: int = 2,
        address: str = "127.0.0.1",
        args: list[str] = (),
        base: Path | None = None,
    ):
        self.ibid = bin_dir / "ibid"
        if not self.ibid.exists():
            raise Failed(f"{self.ibid} is not there; `make build` makes it")
        if base:
            base.mkdir(parents=True, exist_ok=True)
        self.dir = Path(tempfile.mkdtemp(prefix="ibid-", dir=base))
        self.data, self.log = self.dir / "data", self.dir / "serve.log"
        self.data.mkdir()
        *self.ports, self.api_port = free_ports(portals + 1)
        self.capacity, self.address, self.args = capacity, address, list(args)
        self.process: Process | None = None
        self.iqn = ""
        self.hosts: set[str] = set()

    def start(self, limit: float = 120) -> Array:
        """Starts the array, or restarts it on the same data; returns when it serves."""
        command = [str(self.ibid), "serve", "--data", str(self.data), "--capacity", self.capacity, "--overcommit"]
        for port in self.ports:
            command += ["--iscsi", f"{self.address}:{port}"]
        command += ["--api", f"127.0.0.1:{self.api_port}", *self.args]
        self.process = Process(command, self.log)
        self.process.await_line("ready", limit)
        self.iqn = next(iter(discover(self.ports[0], self.address)), "")
        if not self.iqn:
            raise Failed(f"the array reports no target on port {self.ports[0]}:\n{self.process.tail()}")
        return self

    def admin(self, *args: str):
        """Runs `ibid ARGS --json` against this array and returns the result."""
        out = run([str(self.ibid), *args, "--data", str(self.data), "--json"]).stdout
        return json.loads(out) if out.strip() else None

    def volume(self, name: str, size: str, lun: int, host: str = "any") -> str:
        """Creates a volume and connects it to every initiator as `lun`; returns its URL."""
        self.admin("volume", "create", name, "--size", size)
        return self.connect(name, lun, host)

    def connect(self, name: str, lun: int, host: str = "any") -> str:
        """Connects a volume or snapshot to every initiator as `lun`; returns its URL."""
        self.admit(host)
        self.admin("host", "connect", host, name, "--lun", str(lun))
        return self.url(lun)

    def admit(self, host: str = "any", iqn: str = "*") -> None:
        """Creates a host with this name unless it exists."""
        if host not in self.hosts:
            self.admin("host", "create", host, "--iqn", iqn)
            self.hosts.add(host)

    def space(self) -> dict:
        """The array's space figures, in bytes."""
        return self.admin("array", "show")["array"]["space"]

    def stored(self) -> int:
        """Bytes of data that the array stores, after reduction."""
        space = self.space()
        return space["unique"] + (space["shared"] or 0) + space["snapshots"]

    def settled(self, limit: float = 300) -> dict:
        """The space figures after they have settled: all data is destaged and all freed space released."""
        before, end = None, time.monotonic() + limit
        while (now := self.space()) != before:
            if time.monotonic() > end:
                raise Failed(f"the space of the array still changes after {limit:.0f} s")
            before = now
            time.sleep(1.5)
        return now

    def url(self, lun: int, portal: int = 0) -> str:
        return f"iscsi://{self.address}:{self.ports[portal]}/{self.iqn}/{lun}"

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    def fsck(self) -> dict:
        """Runs fsck on the stopped array and returns the report. Damage is a failure."""
        key = self.args[self.args.index("--key-file") :][:2] if "--key-file" in self.args else []
        return json.loads(run([str(self.ibid), "fsck", str(self.data), *key, "--json"], limit=600).stdout)

    def stop(self) -> int:
        return self.process.stop() if self.process else 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)
