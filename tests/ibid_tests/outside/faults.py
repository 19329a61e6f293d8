"""A drive that fails or does not answer: EIO and delays on every system call of the data path, injected with strace.

The client is the minimal initiator of the kit. It writes blocks with their number and version and notes every answer.
After each fault the array is restarted: every block must have its acknowledged version, or that of a later request without
an answer.
"""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.strace import Injection, missing
from ibid_tests.kit.term import count
from ibid_tests.kit.wire import Closed, Connection
from ibid_tests.outside.result import Lab, Result, Skip, checks

SUITE = "faults"
NOT_READY = (0x2, 0x04, 0x03)
MEDIUM_ERROR = (0x3, 0x11, 0x00)
# Exit codes of `ibid serve`.
STOPPED, ABANDONED = 3, 4
ALERT_SECONDS = 10
EXIT_SECONDS = 12
BLOCKS, BLOCK = 2000, 4096


def good(connection: Connection, cdb: bytes, **more):
    """The answer to a command, after the unit attentions of a new nexus."""
    for _ in range(10):
        answer = connection.command(cdb, lun=1, **more)
        if answer.opcode == 0x25 or answer.status != 2 or answer.sense[0] != 6:
            return answer
    raise Failed("unit attentions without end")


def cdb(opcode: int, block: int, blocks: int = 1) -> bytes:
    return bytes([opcode, 0]) + (block * 8).to_bytes(4, "big") + b"\0" + (blocks * 8).to_bytes(2, "big") + b"\0"


def content(block: int, version: int) -> bytes:
    return struct.pack("<QQ", block, version) + random.Random(block << 32 | version).randbytes(BLOCK - 16)


class Load(threading.Thread):
    """Writes blocks of 4 KiB, one after the other, until an error ends it."""

    def __init__(self, array: Array, initiator: str):
        super().__init__(daemon=True)
        self.connection = Connection(array.ports[0], limit=120)
        self.connection.login(array.iqn, initiator)
        self.acknowledged: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.over = threading.Event()
        self.ended_with: object = None
        self.chance = random.Random(initiator)

    def run(self) -> None:
        version = 0
        while not self.over.is_set():
            version += 1
            block = self.chance.randrange(BLOCKS)
            self.open[block] = version
            try:
                answer = good(self.connection, cdb(0x2A, block), out=content(block, version))
            except (Closed, OSError) as e:
                self.ended_with = e
                return
            if answer.status != 0:
                self.ended_with = answer.sense
                return
            self.acknowledged[block] = version
            del self.open[block]

    def stop(self) -> None:
        self.over.set()
        self.join()
        self.connection.socket.close()

    def verify(self, array: Array) -> int:
        """Compares all blocks with the answers; returns the number of acknowledged writes."""
        with Connection(array.ports[0]) as c:
            c.login(array.iqn, "iqn.2026-11.test:verifier")
            for block, version in self.acknowledged.items():
                answer = good(c, cdb(0x28, block), read=BLOCK)
                assert answer.opcode == 0x25, f"block {block}: {answer.sense}"
                allowed = [content(block, v) for v in {version, self.open.get(block, version)}]
                assert answer.data in allowed, f"block {block} has lost its acknowledged version {version}"
        return len(self.acknowledged)


class Rig:
    """An array with a volume of 2 GiB as LUN 1, under the load."""

    def __init__(self, lab: Lab, name: str):
        self.lab, self.name = lab, name.replace(" ", "-")
        # strace cannot inject faults into a single asynchronous read: it does not know its file.
        args = ["--exit-after-failure", str(EXIT_SECONDS), "--memory", "64M", "--io", "threads"]
        self.array = Array(lab.bin, capacity="4GiB", portals=1, base=lab.scratch("arrays"), args=args)

    def __enter__(self) -> Rig:
        self.array.start()
        self.url = self.array.volume("v", "2GiB", 1)
        self.load = Load(self.array, f"iqn.2026-11.test:{self.name}")
        self.load.start()
        time.sleep(1)
        return self

    def __exit__(self, *_):
        self.load.over.set()
        self.array.__exit__()

    def inject(self, calls: str, fault: str, *more: str) -> Injection:
        trace = self.lab.scratch("faults") / f"{self.name}.strace"
        trace.unlink(missing_ok=True)
        return Injection(self.array.process.pid, self.array.data / "array", calls, fault, trace, more)

    def unit_ready(self) -> tuple[int, int, int] | None:
        """The sense data of TEST UNIT READY on a new session; None for GOOD."""
        with Connection(self.array.ports[0]) as c:
            c.login(self.array.iqn, "iqn.2026-11.test:poller")
            answer = good(c, bytes(6))
            return None if answer.status == 0 else answer.sense

    def alerts(self, text: str) -> list[dict]:
        return [a for a in self.array.admin("alert", "list") if text in a["summary"] and a["severity"] == "critical"]

    def await_alert(self, text: str, limit: float) -> float:
        begin = time.monotonic()
        while not self.alerts(text):
            assert time.monotonic() - begin < limit, f"no alert '{text}' within {limit} s"
            time.sleep(0.2)
        return time.monotonic() - begin

    def await_log(self, text: str, limit: float) -> None:
        end = time.monotonic() + limit
        while text not in self.array.log.read_text(errors="replace"):
            assert time.monotonic() < end, f"no log line '{text}' within {limit} s:\n{self.array.process.tail()}"
            time.sleep(0.05)

    def recovered(self) -> str:
        """fsck is clean, and after a restart all acknowledged data is present and the array serves."""
        self.array.fsck()
        self.array.start()
        found = self.load.verify(self.array)
        assert found > 0, "nothing was acknowledged"
        assert self.unit_ready() is None, "not ready after the restart"
        assert self.array.admin("array", "show")["array"]["status"] == "ok"
        code = self.array.stop()
        assert code == 0, f"exit {code} after SIGTERM"
        self.array.fsck()
        return f"{count(found)} blocks intact"


def stops(lab: Lab, name: str, call: str, trigger: Callable[[Rig], None], fault: str = "error=EIO") -> str:
    """EIO on a call that writes: the engine stops and reports it, the process ends, a restart recovers everything."""
    with Rig(lab, name) as rig:
        with rig.inject(call, fault):
            trigger(rig)
            rig.await_log("engine I/O failed", 30)
            alerted = rig.await_alert("engine stopped", ALERT_SECONDS)
            sense = rig.unit_ready()
            assert sense == NOT_READY, f"TEST UNIT READY ended with {sense}"
            assert rig.array.admin("array", "show")["array"]["status"] == "stopped"
            read = still_reads(rig)
            code = rig.array.process.child.wait(EXIT_SECONDS + 30)
        assert code == STOPPED, f"exit {code} after a drive error:\n{rig.array.process.tail()}"
        rig.load.stop()
        return f"alert after {alerted:.1f} s, 02/04/03, {read} blocks read meanwhile, exit {code}; {rig.recovered()}"


def still_reads(rig: Rig) -> int:
    """The stopped array serves reads of blocks without a request in progress."""
    rig.load.join(30)
    assert not rig.load.is_alive(), "a write has no answer although the engine has stopped"
    with Connection(rig.array.ports[0]) as c:
        c.login(rig.array.iqn, "iqn.2026-11.test:reader")
        blocks = [block for block in rig.load.acknowledged if block not in rig.load.open][:200]
        for block in blocks:
            answer = good(c, cdb(0x28, block), read=BLOCK)
            assert answer.opcode == 0x25, f"block {block} was refused with {answer.sense}"
            assert answer.data == content(block, rig.load.acknowledged[block]), f"block {block} is wrong"
    return len(blocks)


def nothing(_: Rig) -> None:
    """The load itself causes the call."""


def checkpoint(rig: Rig) -> None:
    """Counting space takes a checkpoint, which fails here."""
    with contextlib.suppress(Failed):
        rig.array.admin("array", "space", "--refresh")


def grow(rig: Rig) -> None:
    """Growth flushes the file. That flush fails, so the flush of the checkpoint after it must fail as well: the system
    reports a lost write only once."""
    try:
        rig.array.admin("array", "grow", "--capacity", "5GiB")
    except Failed as e:
        assert "cannot grow" in str(e), e
    else:
        raise AssertionError("the array has grown although the flush failed")
    checkpoint(rig)


def fill(rig: Rig) -> None:
    """Fills segments until the file system has to reserve new ones."""
    with contextlib.suppress(Failed):
        Host(rig.lab.bin).verb("fill", rig.url, "--size", "512MiB", "--off", "1GiB", "--seed", "5")


def reads_fail(lab: Lab) -> str:
    """EIO on reads: medium errors and an alert, never other data; the engine runs on."""
    with Rig(lab, "EIO read") as rig:
        rig.load.stop()
        assert rig.array.stop() == 0
        rig.array.start()  # with an empty cache
        refused = 0
        with rig.inject("pread64,preadv2", "error=EIO"), Connection(rig.array.ports[0]) as c:
            c.login(rig.array.iqn, "iqn.2026-11.test:reader")
            for block in list(rig.load.acknowledged)[:50]:
                answer = good(c, cdb(0x28, block), read=BLOCK)
                if answer.opcode == 0x25:
                    assert answer.data == content(block, rig.load.acknowledged[block]), f"block {block} is wrong"
                else:
                    assert answer.sense == MEDIUM_ERROR, f"block {block}: {answer.sense}"
                    refused += 1
            assert refused > 0, "no read reached the drive"
            alerted = rig.await_alert("damaged", ALERT_SECONDS)
            assert rig.unit_ready() is None, "not ready after failed reads"
        rig.load.verify(rig.array)
        assert rig.array.stop() == 0
        return f"{refused} reads 03/11, alert after {alerted:.1f} s, all readable afterwards; {rig.recovered()}"


def read(rig: Rig) -> None:
    """Reads blocks that are not in memory until one does not answer."""
    with contextlib.suppress(Closed, OSError), Connection(rig.array.ports[0], limit=200) as c:
        c.login(rig.array.iqn, "iqn.2026-11.test:reader")
        for block in list(rig.load.acknowledged):
            good(c, cdb(0x28, block), read=BLOCK)


def owner_block(lab: Lab) -> str:
    """EIO on the owner block, which no data depends on: a log line, and everything continues."""
    with Rig(lab, "EIO pwrite64") as rig:
        with rig.inject("pwrite64", "error=EIO"):
            rig.await_log("owner block not written", 30)
            assert rig.unit_ready() is None
        rig.load.stop()
        assert rig.load.ended_with is None, f"a write failed: {rig.load.ended_with}"
        assert rig.array.stop() == 0
        return rig.recovered()


def hangs(lab: Lab, call: str, trigger: Callable[[Rig], None], *more: str) -> str:
    """A call that does not end: a warning, an alert, and SIGTERM ends the process nevertheless."""
    with Rig(lab, f"hang {call}") as rig, rig.inject(call, "delay_enter=300s", *more) as injection:
        thread = threading.Thread(target=trigger, args=(rig,), daemon=True)
        thread.start()
        rig.await_log("I/O takes long", 30)
        assert not rig.alerts("does not answer"), "alert before 30 s"
        rig.await_alert("does not answer", 45)
        begin = time.monotonic()
        rig.array.process.child.terminate()
        rig.await_log("array not stopped in order", 20)
        took = time.monotonic() - begin
        # A thread that strace delays ends only with strace.
        injection.kill()
        code = rig.array.stop()
        assert code == ABANDONED, f"exit {code}:\n{rig.array.process.tail()}"
        rig.load.stop()
        thread.join()
        return f"warning, alert, exit {code} after {took:.0f} s; {rig.recovered()}"


def slow(lab: Lab) -> str:
    """A call that takes 7 s: a warning, and everything continues."""
    with Rig(lab, "slow pwritev2") as rig:
        with rig.inject("pwritev2", "delay_enter=7s:when=3"):
            rig.await_log("slow I/O ended", 40)
            assert rig.unit_ready() is None
        time.sleep(0.5)
        rig.load.stop()
        assert rig.load.ended_with is None, f"a write failed: {rig.load.ended_with}"
        assert rig.array.stop() == 0
        return rig.recovered()


def run(lab: Lab) -> Iterator[Result]:
    if reason := missing():
        raise Skip(reason)
    scenarios: list[tuple[str, Callable[[], str]]] = [
        ("EIO on pwritev2 (log)", lambda: stops(lab, "EIO pwritev2", "pwritev2", nothing)),
        ("EIO on pwritev (segments)", lambda: stops(lab, "EIO pwritev", "pwritev", checkpoint)),
        ("EIO on fdatasync", lambda: stops(lab, "EIO fdatasync", "fdatasync", checkpoint)),
        ("EIO on fallocate", lambda: stops(lab, "EIO fallocate", "fallocate", fill)),
        ("EIO on one fdatasync", lambda: stops(lab, "EIO one", "fdatasync", checkpoint, "error=EIO:when=1")),
        ("EIO on one fsync (growth)", lambda: stops(lab, "EIO fsync", "fsync", grow, "error=EIO:when=1")),
        ("EIO on pwrite64 (owner block)", lambda: owner_block(lab)),
        ("EIO on pread64 and preadv2", lambda: reads_fail(lab)),
        ("pwritev2 of 7 s", lambda: slow(lab)),
        ("pwritev2 that hangs", lambda: hangs(lab, "pwritev2", nothing)),
        ("fdatasync that hangs", lambda: hangs(lab, "fdatasync", checkpoint)),
        ("fallocate that hangs", lambda: hangs(lab, "fallocate", fill)),
        # The attempt without waiting finds nothing in the page cache, so each read of the drive may wait.
        ("pread64 that hangs", lambda: hangs(lab, "pread64", read, "preadv2:error=EAGAIN")),
    ]
    # Mostly waiting, so several run at a time. Each has an array of its own.
    with ThreadPoolExecutor(4) as pool:
        started: list[tuple[str, Future]] = [(name, pool.submit(scenario)) for name, scenario in scenarios]
        yield from checks(SUITE, [(name, future.result) for name, future in started])
