"""An etcd cluster of one member, with TLS and client certificates."""

from __future__ import annotations

import shutil
from pathlib import Path

from .packages import unpack
from .procs import Process, free_ports, run


class Etcd:
    """Serves until `kill`; a later `start` continues with its data. As a context manager it is killed at the end."""

    def __init__(self, unpacked: Path, base: Path, clients: list[Path]):
        """`clients` are certificates of clients, which are their own authorities."""
        self.program = shutil.which("etcd") or str(unpack(["etcd-server"], unpacked, "etcd-server") / "usr/bin/etcd")
        self.dir = base
        base.mkdir(parents=True)
        self.certificate, self.key = base / "server.pem", base / "server.key"
        name = ["-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
        files = ["-keyout", str(self.key), "-out", str(self.certificate)]
        run(["openssl", "req", "-x509", *curve, *name, *files])
        # The gateway of etcd is a client of its own, with the certificate of the server.
        self.trusted = base / "trusted.pem"
        self.trusted.write_text("".join(path.read_text() for path in (self.certificate, *clients)))
        self.port, self.peer_port = free_ports(2)
        self.url = f"https://127.0.0.1:{self.port}"
        self.process: Process | None = None

    def start(self, data: str = "data") -> Etcd:
        """Another `data` is a cluster that was made again: with the same id, at the same address."""
        peer = f"http://127.0.0.1:{self.peer_port}"
        command = [self.program, "--name", "one", "--data-dir", str(self.dir / data)]
        command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"one={peer}"]
        command += ["--cert-file", str(self.certificate), "--key-file", str(self.key)]
        command += ["--client-cert-auth", "--trusted-ca-file", str(self.trusted)]
        self.process = Process(command, self.dir / "etcd.log")
        self.process.await_ports([self.port])
        return self

    def kill(self) -> None:
        if self.process:
            self.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
