"""The processor time of a process by kind of work, from samples of `perf`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

# The first kind of which a pattern matches. Kernel samples are judged by their whole stack, others by the innermost function.
KERNEL = [
    ("network", r"tcp_|inet_|sock_|_recvfrom|_recvmsg|_sendto|_sendmsg|net_rx|loopback"),
    ("files", r"vfs_|ext4_|filemap|_pread|_pwrite|_preadv|_pwritev|iomap|blk_|fsync|fdatasync|do_sync|writeback"),
    ("waits", r"futex|schedule|epoll|try_to_wake|nanosleep|eventfd"),
    ("kernel", r""),
]
PROGRAM = [
    ("checksums", r"crc"),
    ("fingerprints", r"xxh|blake"),
    ("compression", r"lz4|zstd|compress|reduction::"),
    ("copies", r"memcpy|memmove|memset|memcmp|memmem"),
    ("memory", r"malloc|calloc|realloc|cfree|_mi_|mi_free|alloc::alloc|rallocx|sdallocx|je_|drop_in_place"),
    ("map", r"blockmap|rustc_hash|hashbrown"),
    ("engine", r"engine::|wal::|ondisk::|smallvec|bytes::"),
    ("protocol", r"iscsi|scsi"),
    ("threads", r"tokio|mio::|parking_lot|std::|core::|pthread|syscall|__lll|epoll|recv|send|__libc"),
    ("other", r""),
]
GROUPS = [name for name, _ in KERNEL + PROGRAM]


def has_perf() -> bool:
    """True if samples can be taken here."""
    if not shutil.which("perf"):
        return False
    probe = ["perf", "stat", "-e", "cpu-clock", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


class Samples:
    """Samples of a process, from the start until [`Samples.shares`]."""

    def __init__(self, pid: int, scratch: Path):
        self.data = scratch / "perf.data"
        command = ["perf", "record", "-e", "cpu-clock", "-F", "499", "-g", "-o", str(self.data), "-p", str(pid)]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def shares(self) -> dict[str, float]:
        """Ends the samples. Returns the part of each kind, in percent of the processor time of the process."""
        self.child.terminate()
        self.child.wait()
        command = ["perf", "script", "-i", str(self.data), "-F", "ip,sym,dso"]
        out = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        self.data.unlink(missing_ok=True)
        counts = dict.fromkeys(GROUPS, 0)
        stacks = [stack for stack in out.split("\n\n") if stack.strip()]
        for stack in stacks:
            counts[kind(stack)] += 1
        return {name: round(100 * n / len(stacks), 1) for name, n in counts.items() if n} if stacks else {}


def kind(stack: str) -> str:
    """The kind of work of one sample. `stack` has a line for each function, the innermost first."""
    innermost = stack.strip().splitlines()[0]
    is_kernel = "[kernel" in innermost or ".ko" in innermost
    groups, text = (KERNEL, stack) if is_kernel else (PROGRAM, innermost)
    return next(name for name, pattern in groups if re.search(pattern, text, re.IGNORECASE))
