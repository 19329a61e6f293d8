"""tgt, the user-space iSCSI target of Debian, with its defaults: the comparison target."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from . import packages
from .procs import Process, free_ports, run

IQN = "iqn.2026-11.org.example:tgt"


class Tgt:
    """`tgtd` in the background on a loopback port, LUNs in sparse files. As a context manager it is killed at the end."""

    def __init__(self, cache: Path, *, base: Path | None = None):
        self.env = dict(os.environ)
        if shutil.which("tgtd"):
            self.tgtd, self.tgtadm = "tgtd", "tgtadm"
        else:
            root = packages.unpack(["tgt"], cache)
            self.tgtd, self.tgtadm = str(root / "usr/sbin/tgtd"), str(root / "usr/sbin/tgtadm")
            self.env["LD_LIBRARY_PATH"] = packages.library_path(root)
        if base:
            base.mkdir(parents=True, exist_ok=True)
        self.dir = Path(tempfile.mkdtemp(prefix="tgt-", dir=base))
        self.env["TGT_IPC_SOCKET"] = str(self.dir / "ipc")
        (self.port,) = free_ports(1)
        self.control = str(1000 + os.getpid() % 30000)
        self.iqn = IQN

    def start(self) -> Tgt:
        portal = f"portal=127.0.0.1:{self.port}"
        self.process = Process([self.tgtd, "-f", "-C", self.control, "--iscsi", portal], self.dir / "log", self.env)
        self.process.await_ports([self.port])
        self._adm("target", "new", "--tid", "1", "-T", IQN)
        self._adm("target", "bind", "--tid", "1", "-I", "ALL")
        return self

    def volume(self, size: int, lun: int, thin: bool = True) -> str:
        """Creates a LUN in a sparse file; returns its URL. With `thin`, UNMAP punches holes. The write cache is on (default)."""
        backing = self.dir / f"lun{lun}"
        with backing.open("wb") as f:
            f.truncate(size)
        self._adm("logicalunit", "new", "--tid", "1", "--lun", str(lun), "-b", str(backing))
        if thin:
            self._adm("logicalunit", "update", "--tid", "1", "--lun", str(lun), "--params", "thin_provisioning=1")
        return f"iscsi://127.0.0.1:{self.port}/{IQN}/{lun}"

    def write_cache(self, lun: int, on: bool) -> None:
        """Mode page 08h, byte 2, bit 2 (WCE): with it off, tgt writes through."""
        page = "0x8:0:18:" + ":".join(["0x14" if on else "0x10", *["0"] * 17])
        self._adm("logicalunit", "update", "--tid", "1", "--lun", str(lun), "--params", f"mode_page={page}")

    def _adm(self, mode: str, op: str, *args: str) -> None:
        run([self.tgtadm, "-C", self.control, "--lld", "iscsi", "--mode", mode, "--op", op, *args], env=self.env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        shutil.rmtree(self.dir, ignore_errors=True)
