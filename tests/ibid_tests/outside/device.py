"""An array on a block device (a loop device): every second user is refused, and nothing that it tries harms the array.

Second users are other servers, through the same and through another device node, through another device over the same medium,
mkfs, wipefs and blkdiscard, `ibid fsck`, and another machine, which is simulated by an owner block with beats of its own. Needs
root for the loop device.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import run as run_command
from ibid_tests.kit.wire import crc32c
from ibid_tests.outside.result import Lab, Result, Skip, checks

SUITE = "device"
MIB = 1 << 20
DEVICE_BYTES = 512 * MIB
STILL = ["--size", "64MiB", "--seed", "3"]
# Exit codes of `ibid serve` and `ibid fsck`.
FAILED, CLEAN, NOT_RUN = 1, 0, 8
NOBODY = 65534
# The owner block: see docs/format.md.
OWNER_AT, OWNER_BYTES = 4096, 512
MD_MAGIC = 0xA92B4EFC


@contextlib.contextmanager
def loop_device(path: Path) -> Iterator[Path]:
    """A loop device of DEVICE_BYTES over a new sparse file."""
    with path.open("wb") as file:
        file.truncate(DEVICE_BYTES)
    found = run_command(["losetup", "--find", "--show", str(path)], check=False)
    if found.returncode != 0:
        raise Skip(f"no loop device: {found.stderr.strip()}")
    device = Path(found.stdout.strip())
    try:
        yield device
    finally:
        run_command(["losetup", "--detach", str(device)])
        path.unlink()


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user may write."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


def owner_block(array: bytes, beat: int) -> bytes:
    """The owner block of a running array on another machine."""
    block = b"IBIDOWN\0" + struct.pack("<HHI", 1, 1, 4321) + array + struct.pack("<QQ", 1 << 32, beat) + bytes([7] * 16)
    block = (block + b"node-b".ljust(64, b"\0") + b"east".ljust(64, b"\0")).ljust(OWNER_BYTES - 4, b"\0")
    return (block + crc32c(block)).ljust(4096, b"\0")


@contextlib.contextmanager
def other_machine(device: Path) -> Iterator[None]:
    """Writes owner blocks to the device as an array on another machine does."""
    over = threading.Event()
    node = os.open(device, os.O_RDWR | os.O_DSYNC)
    array = os.pread(node, 32, OWNER_AT)[16:]

    def work() -> None:
        beat = 1
        while True:
            os.pwrite(node, owner_block(array, beat), OWNER_AT)
            beat += 1
            if over.wait(0.5):
                return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        os.close(node)


class Rivals:
    """Programs that try to use the device of an array."""

    def __init__(self, lab: Lab, scratch: Path):
        self.ibid, self.scratch = str(lab.bin / "ibid"), scratch

    def serve(self, device: Path | None, data: str = "rival") -> str:
        """The error of a server that must not start."""
        command = [
            self.ibid,
            "serve",
            "--data",
            str(self.scratch / data),
            "--iscsi",
            "127.0.0.1:0",
            "--api",
            "127.0.0.1:0",
        ]
        said = run_command(command + (["--device", str(device)] if device else []), check=False, limit=60)
        assert said.returncode == FAILED, f"exit {said.returncode}: {said.stdout}{said.stderr}"
        return said.stderr

    def without_root(self, data: str, *args: str) -> str:
        """The error of a server that an unprivileged user starts."""
        with open_folder() as folder:
            # A copy, because the folders above the program may be closed to other users.
            program = shutil.copy(self.ibid, folder)
            command = [program, "serve", "--data", data, "--iscsi", "127.0.0.1:0", "--api", "127.0.0.1:0", *args]
            said = run_command(command, check=False, cwd="/", user=NOBODY, group=NOBODY, extra_groups=[])
        assert said.returncode == FAILED, f"exit {said.returncode}: {said.stdout}{said.stderr}"
        return said.stderr

    def fsck(self, path: Path, expected: int) -> str:
        said = run_command([self.ibid, "fsck", str(path), "--json"], check=False, limit=300)
        assert said.returncode == expected, f"fsck {path}: exit {said.returncode}: {said.stdout}{said.stderr}"
        return said.stdout + said.stderr

    def refused(self, *command: str) -> str:
        """Runs a program that must fail because the device is in use."""
        if not shutil.which(command[0]):
            return f"{command[0]} is not installed"
        said = run_command(list(command), check=False)
        assert said.returncode != 0, f"{' '.join(command)} succeeded on the device of a running array"
        assert "in use" in said.stderr or "busy" in said.stderr, f"{' '.join(command)}: {said.stderr}"
        return f"{command[0]} is refused"


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(lab: Lab) -> Iterator[Result]:
    if os.geteuid() != 0:
        yield Result(SUITE, "device", "skip", detail="a loop device needs root")
        return
    scratch = lab.scratch("device")
    shutil.rmtree(scratch)
    scratch.mkdir()
    try:
        with loop_device(scratch / "medium") as device:
            yield from checks(SUITE, users(lab, scratch, device))
        yield from checks(SUITE, [("content at the end of a device is kept", lambda: kept_content(lab, scratch))])
    except Skip as e:
        yield Result(SUITE, "device", "skip", detail=str(e))


def users(lab: Lab, scratch: Path, device: Path) -> list[tuple[str, Callable[[], str | None]]]:
    """The checks on one array, in order."""
    host, rivals = Host(lab.bin), Rivals(lab, scratch)
    array = Array(lab.bin, capacity="512MiB", args=["--device", str(device)], base=scratch)
    node = scratch / "node"
    url = ""

    def start() -> None:
        nonlocal url
        array.start()
        url = array.volume("still", "1GiB", 1)
        host.verb("fill", url, *STILL)

    def other_users() -> str:
        error = rivals.without_root("/root/array")
        assert "Permission denied" in error and "choose a --data directory that this user can write" in error, error
        with open_folder() as folder:
            error = rivals.without_root(str(folder / "data"), "--device", str(device))
            assert not list(folder.iterdir()), "a refused server left files"
        assert f"{device}: permission denied" in error and "as a user of the group" in error, error
        return "a directory and a device that the user cannot write: the hint says what to do"

    def second_servers() -> str:
        number = os.stat(device).st_rdev
        os.mknod(node, stat.S_IFBLK | 0o600, number)
        for path in (device, node):
            error = rivals.serve(path)
            assert f"process {array.process.pid} on host" in error, error
        assert not (scratch / "rival").exists(), "a refused server left files"
        return "refused on both nodes; the process is named"

    def same_file() -> str:
        """Another loop device over the same file is another device for the system: only the owner block shows the array."""
        medium = scratch / "medium"
        found = run_command(["losetup", "--find", "--show", str(medium)])
        second = Path(found.stdout.strip())
        try:
            error = rivals.serve(second)
            assert f"process {array.process.pid} on host" in error, error
            for path in (second, medium):
                said = rivals.fsck(path, NOT_RUN)
                assert f"process {array.process.pid} " in said, said
        finally:
            run_command(["losetup", "--detach", str(second)])
        assert array.process.alive(), "the first array was displaced"
        assert not (scratch / "rival").exists(), "a refused server left files"
        return "a second loop device and the file itself are refused; the process is named"

    def tools() -> str:
        try:
            os.close(os.open(node, os.O_RDWR | os.O_EXCL))
        except OSError as e:
            assert e.errno == 16, e
        else:
            raise AssertionError("the device could be opened exclusively")
        done = [
            rivals.refused("mkfs.ext4", "-q", str(device)),
            rivals.refused("mkfs.ext4", "-q", "-F", str(node)),
            rivals.refused("wipefs", "--all", str(device)),
            rivals.refused("blkdiscard", str(node)),
        ]
        return "; ".join(done)

    def fsck_of_a_running_array() -> None:
        for path in (array.data, device, node):
            said = rivals.fsck(path, NOT_RUN)
            assert f"process {array.process.pid} " in said, said

    def content() -> None:
        host.verb("verify", url, *STILL)

    def fsck_of_a_stopped_array() -> str:
        assert array.stop() == 0
        found = [json.loads(rivals.fsck(path, CLEAN)) for path in (array.data, device, node, scratch / "medium")]
        assert all(report["status"] == "clean" and report["volumes"] == 1 for report in found), found
        return "clean by directory, device, other node and file"

    def directory_follows() -> None:
        array.args = []
        array.start()
        content()
        assert not (array.data / "array").exists(), "a second array was made"
        array.kill()

    def another_machine() -> str:
        with other_machine(device):
            for error in (rivals.serve(None, str(array.data.relative_to(scratch))), rivals.fsck(device, NOT_RUN)):
                assert "array 'east', process 4321 on host 'node-b'" in error, error
        # The other machine no longer beats.
        array.start()
        content()
        assert array.stop() == 0
        return "refused while it beats, by its name; started once it had stopped"

    return [
        ("array on a loop device", start),
        ("server without root", other_users),
        ("second servers on both device nodes", second_servers),
        ("second device over the same file", same_file),
        ("mkfs, wipefs, blkdiscard while serving", tools),
        ("fsck while serving", fsck_of_a_running_array),
        ("data after all of that", content),
        ("fsck of directory, device and file", fsck_of_a_stopped_array),
        ("directory follows its device", directory_follows),
        ("owner on another machine", another_machine),
    ]


def kept_content(lab: Lab, scratch: Path) -> str:
    rivals = Rivals(lab, scratch)
    gpt = b"EFI PART".ljust(512, b"\1")
    ends = {
        "the backup of a GPT partition table": (DEVICE_BYTES - 512, gpt),
        "RAID member (md)": (DEVICE_BYTES - 2 * 65536, struct.pack("<I", MD_MAGIC)),
    }
    for named, (offset, content) in ends.items():
        medium = scratch / "medium"
        with loop_device(medium) as device:
            with device.open("r+b") as file:
                file.seek(offset)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            before = digest(device)
            error = rivals.serve(device)
            assert named in error and "it was not changed" in error, error
            assert digest(device) == before, "the refused device has changed"
    return "GPT and md at the end are recognised; 0 bytes changed"
