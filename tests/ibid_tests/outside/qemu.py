"""QEMU's block layer as a client, as virtual machines use it without a kernel initiator."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "qemu"
MIB = 1 << 20
PATTERN = "0x5a"


def image(path: Path, mib: int) -> Path:
    """A raw image with data, holes, repeated words and noise, the same on every run."""
    with path.open("wb") as f:
        for n in range(mib):
            kind = n % 4
            if kind == 0:
                f.write(hashlib.shake_128(n.to_bytes(4, "big")).digest(MIB))
            elif kind == 1:
                f.seek(MIB, os.SEEK_CUR)
            elif kind == 2:
                f.write(b"\xde\xad\xbe\xef" * (MIB // 4))
            else:
                f.write((f"line {n} of a text that compresses well\n" * MIB)[:MIB].encode())
        f.truncate(mib * MIB)
    return path


def qemu_io(url: str, *commands: str) -> str:
    """Runs commands in qemu-io. It exits 0 even if a pattern differs, so its output is checked too."""
    args = [a for c in commands for a in ("-c", c)]
    said = run_command(["qemu-io", "-f", "raw", *args, url]).stdout
    for word in ("failed", "Pattern verification", "error"):
        if word in said:
            raise Failed(f"qemu-io: {said.strip()}")
    return said


def run(lab: Lab) -> Iterator[Result]:
    mib = 1024 if lab.full else 128
    scratch = lab.scratch("qemu")
    source = image(scratch / "source.raw", mib)
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        first, second, third = (array.volume(f"qemu-{n}", f"{mib}MiB", n) for n in (1, 2, 3))

        def info() -> str:
            said = json.loads(run_command(["qemu-img", "info", "--output=json", first]).stdout)
            assert said["virtual-size"] == mib * MIB, said
            return f"{said['virtual-size'] // MIB} MiB"

        def copy_in() -> str:
            run_command(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(source), first], limit=300)
            run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", str(source), first], limit=300)
            return f"{mib} MiB written, read back equal"

        def copy_across() -> str:
            # -C lets QEMU offload the copy to the target (EXTENDED COPY) if possible.
            run_command(["qemu-img", "convert", "-n", "-C", "-W", "-f", "raw", "-O", "raw", first, second], limit=300)
            run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", first, second], limit=300)
            return "volume to volume, compared over two sessions"

        def copy_out() -> str:
            back = scratch / "back.raw"
            run_command(["qemu-img", "convert", "-f", "raw", "-O", "raw", second, str(back)], limit=300)
            digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (source, back)]
            assert digests[0] == digests[1], "the image read back differs"
            back.unlink()
            return f"sha256 {digests[0][:12]}… on both sides"

        def patterns() -> str:
            qemu_io(
                third,
                f"write -P {PATTERN} 0 4M",
                f"read -P {PATTERN} 0 4M",
                "write -P 0x11 512 3584",
                "read -P 0x11 512 3584",
                f"read -P {PATTERN} 0 512",
                f"read -P {PATTERN} 4096 64k",
            )
            return "whole and part blocks"

        def zeroes() -> str:
            qemu_io(
                third,
                f"write -P {PATTERN} 8M 4M",
                "write -z 9M 1M",
                "read -P 0 9M 1M",
                f"read -P {PATTERN} 8M 1M",
                f"read -P {PATTERN} 10M 2M",
                "write -z -u 8M 1M",
                "read -P 0 8M 2M",
            )
            return "with and without unmap"

        def discard() -> str:
            qemu_io(
                third,
                f"write -P {PATTERN} 16M 4M",
                "discard 17M 1M",
                "read -P 0 17M 1M",
                f"read -P {PATTERN} 18M 2M",
                "flush",
            )
            return "reads as zeros, neighbours untouched"

        def vectors() -> str:
            qemu_io(
                third,
                "writev -P 0x33 24M 512 4096 65536 512",
                "readv -P 0x33 24M 4096 512 512 65536",
                "aio_write -P 0x44 25M 1M",
                "aio_write -P 0x45 26M 1M",
                "aio_flush",
                "read -P 0x44 25M 1M",
                "read -P 0x45 26M 1M",
            )
            return "scattered and asynchronous"

        yield from checks(
            SUITE,
            [
                ("qemu-img info", info),
                ("qemu-img convert, file to volume", copy_in),
                ("qemu-img convert, volume to volume", copy_across),
                ("qemu-img convert, volume to file", copy_out),
                ("qemu-io write and read", patterns),
                ("qemu-io write zeroes", zeroes),
                ("qemu-io discard", discard),
                ("qemu-io vectored and asynchronous", vectors),
            ],
        )
    source.unlink()
