"""A Linux guest in QEMU: Debian's kernel, open-iscsi and multipath-tools, on loopback ports of this machine.

Nothing is installed and no privilege is needed: the root is an image of unpacked packages below the build folder, the
network is QEMU's own, and QEMU emulates the processor, so that it is the same everywhere. Commands go in and answers
come out over a virtio port.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import packages
from .procs import Failed, Process, run

HERE = Path(__file__).parent / "guest"
QEMU = "qemu-system-x86_64"
KERNEL = "linux-image-amd64"
WANTED = [
    "busybox-static",
    "open-iscsi",
    "multipath-tools",
    "udev",
    "sg3-utils",
    "util-linux",
    "mount",
    "kmod",
    "iproute2",
    "bash",
    "coreutils",
    "grep",
    "sed",
]
# Modules of the root, and those that the first step loads to find it. Those that they need come along.
MODULES = ["virtio_net", "virtio_console", "sd_mod", "sg", "iscsi_tcp", "scsi_dh_alua", "dm-multipath"]
MODULES += ["dm-queue-length", "dm-service-time", "dm-round-robin"]
FIRST_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic"]
MEMORY = 384
"""The address of this machine's loopback ports, as the guest sees it."""
GATEWAY = "10.0.2.2"
INITIATOR = "iqn.2026-11.test:guest"
"""Seconds until the guest runs, and until the answer of a command, on a busy machine."""
BOOT, ANSWER = 180.0, 120.0


def why_not() -> str:
    """The reason why this machine cannot run the guest, or nothing."""
    if os.uname().machine != "x86_64":
        return "the guest's kernel is Debian's for x86_64"
    for program in (QEMU, "apt-get", "dpkg-deb", "mke2fs", "cc"):
        if not shutil.which(program) and not Path("/usr/sbin", program).exists():
            return f"there is no {program}"
    return ""


class Image:
    """The files that the guest is started from; created once below `cache`."""

    def __init__(self, cache: Path):
        self.cache = cache
        self.kernel, self.disk, self.modules = cache / "vmlinuz", cache / "root.img", cache / "modules"
        self.busybox = cache / "busybox"

    def build(self) -> Image:
        done, recipe = self.cache / ".done", " ".join([KERNEL, *WANTED, *MODULES, *FIRST_MODULES])
        if done.exists() and done.read_text() == recipe:
            return self
        shutil.rmtree(self.cache, ignore_errors=True)
        root = packages.system(WANTED, self.cache)
        self.unpack_kernel(root)
        shutil.copy(root / "usr/bin/busybox", self.busybox)
        size = sum(f.lstat().st_size for f in root.rglob("*") if f.is_file() and not f.is_symlink())
        mke2fs = shutil.which("mke2fs") or "/usr/sbin/mke2fs"
        mib = size * 3 // 2 // (1 << 20) + 32
        run([mke2fs, "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(root), str(self.disk), f"{mib}M"])
        shutil.rmtree(root)
        done.write_text(recipe)
        return self

    def unpack_kernel(self, root: Path) -> None:
        """Takes the kernel and the modules that are needed out of the newest kernel package."""
        found = re.findall(r"Depends: (linux-image-\d\S+)", run(["apt-cache", "depends", KERNEL]).stdout)
        kernel = packages.unpack(found[:1] or [KERNEL], self.cache / "kernel")
        (version,) = [folder.name for folder in (kernel / "lib/modules").iterdir()]
        shutil.copy(kernel / "boot" / f"vmlinuz-{version}", self.kernel)
        self.depmod(root, kernel, version)
        source = kernel / "lib/modules" / version
        needs = {}
        for line in (source / "modules.dep").read_text().splitlines():
            path, _, others = line.partition(":")
            needs[name_of(path)] = [*reversed(others.split()), path]
        for name in MODULES:
            for path in needs[name_of(name)]:
                to = root / "usr/lib/modules" / version / path
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / path, to)
        for listed in ("modules.builtin", "modules.order"):
            shutil.copy(source / listed, root / "usr/lib/modules" / version / listed)
        self.depmod(root, root, version)
        first = list(dict.fromkeys(path for name in FIRST_MODULES for path in needs[name_of(name)]))
        self.modules.mkdir()
        for path in first:
            shutil.copy(source / path, self.modules / Path(path).name)
        (self.modules / "list").write_text("".join(f"{Path(path).name}\n" for path in first))
        shutil.rmtree(self.cache / "kernel")

    def depmod(self, root: Path, base: Path, version: str) -> None:
        """Lists what each module needs, with the program of the guest."""
        env = {**os.environ, "LD_LIBRARY_PATH": packages.library_path(root)}
        subprocess.run(["depmod", "-b", base, version], executable=root / "usr/bin/kmod", env=env, check=True)


def name_of(module: str) -> str:
    """The name of a module as `modules.dep` and the kernel write it in one form."""
    return Path(module).name.split(".")[0].replace("-", "_")


def archive(files: dict[str, bytes | None]) -> bytes:
    """A cpio archive (newc) of programs, and folders (None), as the kernel takes it for its first root."""
    packed = b""
    for number, (name, data) in enumerate([*files.items(), ("TRAILER!!!", b"")], 1):
        mode, path, body = (0o40755 if data is None else 0o100755), name.encode() + b"\0", data or b""
        fields = [number, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(path), 0]
        packed += b"070701" + b"".join(b"%08x" % field for field in fields) + path
        packed += bytes(-len(packed) % 4) + body
        packed += bytes(-len(packed) % 4)
    return packed


class Port:
    """A virtio port of the guest: lines in both directions."""

    def __init__(self, name: str, folder: Path):
        self.name, self.path = name, folder / name
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(1)
        self.connection: socket.socket | None = None
        self.buffer = b""

    def options(self) -> list[str]:
        channel = f"socket,id={self.name},path={self.path}"
        return ["-chardev", channel, "-device", f"virtserialport,chardev={self.name},name={self.name}"]

    def send(self, line: str) -> None:
        self.connection.sendall(line.encode() + b"\n")

    def line(self, end: float) -> str:
        """The next line; raises at `end`, a time of the monotonic clock."""
        while b"\n" not in self.buffer:
            self.connection.settimeout(max(0.01, end - time.monotonic()))
            try:
                data = self.connection.recv(1 << 16)
            except TimeoutError:
                raise Failed(f"the guest does not answer on its port {self.name}") from None
            if not data:
                raise Failed(f"the guest has closed its port {self.name}")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode("utf8", "replace").rstrip("\r")

    def close(self) -> None:
        for s in (self.connection, self.listener):
            if s:
                s.close()


class Guest:
    """A running guest. As a context manager it is killed at the end."""

    def __init__(self, image: Image, scratch: Path, files: dict[str, bytes] | None = None):
        """`files` are found in /run/guest."""
        self.image, self.scratch, self.files = image, scratch, files or {}
        # The path of a socket has at most 107 bytes.
        self.sockets = Path(tempfile.mkdtemp(prefix="ibid-guest-"))
        self.control, self.load = Port("control", self.sockets), Port("load", self.sockets)
        self.process: Process | None = None
        self.kernel_version = ""

    def start(self) -> Guest:
        initramfs = {"bin": None, "root": None, "dev": None, "modules": None, "guest": None}
        initramfs |= {"bin/busybox": self.image.busybox.read_bytes(), "init": (HERE / "initramfs.sh").read_bytes()}
        initramfs |= {f"modules/{f.name}": f.read_bytes() for f in sorted(self.image.modules.iterdir())}
        initramfs |= {"guest/init.sh": (HERE / "init.sh").read_bytes()}
        initramfs |= {f"guest/{name}": data for name, data in self.files.items()}
        initrd = self.sockets / "initrd"
        initrd.write_bytes(archive(initramfs))
        console = self.scratch / "console.log"
        console.parent.mkdir(parents=True, exist_ok=True)
        console.unlink(missing_ok=True)
        words = "console=ttyS0 quiet loglevel=5 panic=-1 net.ifnames=0 mitigations=off tsc=unstable"
        command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(MEMORY)]
        command += ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none"]
        command += ["-serial", "stdio", "-kernel", str(self.image.kernel), "-initrd", str(initrd), "-append", words]
        # The image stays as it is: changes go to a temporary file.
        command += ["-drive", f"file={self.image.disk},format=raw,if=virtio,snapshot=on"]
        command += ["-netdev", "user,id=net,net=10.0.2.0/24", "-device", "virtio-net-pci,netdev=net,romfile="]
        command += ["-device", "virtio-serial-pci", *self.control.options(), *self.load.options()]
        self.process = Process(command, console)
        end = time.monotonic() + BOOT
        for port in (self.control, self.load):
            port.listener.settimeout(30)
            try:
                port.connection, _ = port.listener.accept()
            except TimeoutError:
                raise Failed(f"{QEMU} does not start:\n{self.process.tail()}") from None
        try:
            while not (line := self.control.line(end)).startswith("@@ready"):
                pass
        except Failed as e:
            raise Failed(f"{e}:\n{self.process.tail()}") from None
        self.kernel_version = line.split()[2]
        return self

    def status(self, script: str, limit: float = ANSWER) -> tuple[int, str]:
        """Runs a script of bash; returns its exit status and its output."""
        self.control.send(base64.b64encode(script.encode()).decode())
        end, lines = time.monotonic() + limit, []
        while not (line := self.control.line(end)).startswith("@@end "):
            lines.append(line)
        return int(line.split()[1]), "\n".join(lines).strip()

    def run(self, script: str, limit: float = ANSWER) -> str:
        """Runs a script; raises with its output if it fails."""
        status, said = self.status(script, limit)
        if status:
            raise Failed(f"in the guest: {script.strip().splitlines()[0]}: exit {status}: {said[-1500:]}")
        return said

    def write(self, path: str, text: str) -> None:
        encoded = base64.b64encode(text.encode()).decode()
        self.run(f"mkdir -p $(dirname {path}); base64 -d >{path} <<<'{encoded}'")

    def close(self) -> None:
        if self.process:
            self.process.kill()
        for port in (self.control, self.load):
            port.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self.sockets)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
