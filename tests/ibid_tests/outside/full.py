"""A full array: commands that take space are refused with 07/27/07, no acknowledged data is lost, commands that release
space succeed, and writes then continue without a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import count, seconds, size
from ibid_tests.kit.wire import Connection
from ibid_tests.outside.result import Lab, Result, checks, fsck_agrees

SUITE = "full"
GIB = 1 << 30
NO_ROOM = (0x7, 0x27, 0x07)
THRESHOLD_REACHED = (0x6, 0x38, 0x07)
# Near the limit, data is written in ever smaller pieces.
PIECES = ["1M", "64K", "4K"]
RETURN_SECONDS = 120
# Limit for the end of the alert about refused writes.
ALERT_SECONDS = 60
# Minimum share of the capacity for data; the rest is log, reserve and metadata.
LEAST = 0.8


class Watcher:
    """A host that polls a LUN with TEST UNIT READY every second and records its unit attentions."""

    def __init__(self, array: Array, lun: int, initiator: str):
        self.connection, self.lun = Connection(array.ports[0]), lun
        self.connection.login(array.iqn, initiator)
        self.heard: list[tuple[int, int, int]] = []
        self.listen()
        self.heard.clear()  # the unit attentions of a new nexus
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def listen(self) -> None:
        while (answer := self.connection.command(bytes(6), lun=self.lun)).status == 2:
            self.heard.append(answer.sense)

    def work(self) -> None:
        while not self.over.wait(1):
            self.listen()

    def stop(self) -> list[tuple[int, int, int]]:
        """All unit attentions since the start."""
        self.over.set()
        self.thread.join()
        self.listen()
        return self.heard


def refused(connection: Connection, lun: int, cdb: bytes, data: bytes) -> tuple[int, int, int]:
    """The sense data of a command that must be refused, after the unit attentions of a new nexus."""
    for _ in range(10):
        answer = connection.command(cdb, lun=lun, out=data)
        assert answer.status == 2, f"{cdb.hex()} ended with status {answer.status:#04x}"
        if answer.sense[0] != 6:
            return answer.sense
    raise Failed("unit attentions without end")


def run(lab: Lab) -> Iterator[Result]:
    host = Host(lab.bin)
    capacity = 16 if lab.full else 2
    scratch = lab.scratch("full")
    still = ["--size", "64MiB", "--seed", "3"]
    reach = 0
    with Array(lab.bin, capacity=f"{capacity}GiB", base=lab.scratch("arrays")) as array:
        array.start()
        big = array.volume("big", f"{capacity * 4}GiB", 1)
        load, calm = array.volume("load", "1GiB", 2), array.volume("calm", "1GiB", 3)
        host.verb("fill", calm, *still)
        array.admin("array", "set", "--threshold", "80")
        watchers = [Watcher(array, lun, f"iqn.2026-11.test:watcher-{lun}") for lun in (2, 3)]

        def fill(chunk: str, off: int) -> int:
            """Fills `big` from the offset on; returns the offset at which the array was full."""
            r = host.verb(
                "fill", big, "--seed", "1", "--off", str(off), "--from", str(off), "--chunk", chunk, "--until-full"
            )
            assert r.get("full_at") is not None, (
                f"{capacity} GiB of capacity took {size(r['bytes'])} of noise and were not full"
            )
            return off + r["full_at"]

        def fill_up() -> str:
            nonlocal reach
            for chunk in PIECES:
                reach = fill(chunk, reach)
            assert reach >= LEAST * capacity * GIB, f"full after {size(reach)} of noise, in {capacity} GiB"
            return f"{size(reach)} of noise in {capacity} GiB"

        def told() -> str:
            for lun, heard in [(watcher.lun, watcher.stop()) for watcher in watchers]:
                assert heard.count(THRESHOLD_REACHED) == 1, f"LUN {lun} heard {heard}"
            return "06/38/07 once on each path"

        def all_refused() -> str:
            """Commands that take space are refused with 07/27/07."""
            noise = b"".join(bytes([n]) * 7 + bytes([n * 7 & 255, n * 13 & 255]) for n in range(256)).ljust(
                4096, b"\x5a"
            )
            lba = (capacity * 4 * GIB >> 9) - 4096  # an unwritten range
            takers = {
                "WRITE(10)": (bytes([0x2A, 0]) + lba.to_bytes(4, "big") + bytes([0, 0, 8, 0]), noise),
                "WRITE(16)": (bytes([0x8A, 0]) + lba.to_bytes(8, "big") + bytes([0, 0, 0, 8, 0, 0]), noise),
                "WRITE SAME(16)": (bytes([0x93, 0]) + lba.to_bytes(8, "big") + bytes([0, 0, 0, 8, 0, 0]), noise[:512]),
                "COMPARE AND WRITE": (
                    bytes([0x89, 0]) + lba.to_bytes(8, "big") + bytes([0, 0, 0, 1, 0, 0]),
                    bytes(512) + noise[:512],
                ),
                "ORWRITE(16)": (bytes([0x8B, 0]) + lba.to_bytes(8, "big") + bytes([0, 0, 0, 8, 0, 0]), noise),
                "WRITE ATOMIC(16)": (bytes([0x9C, 0]) + lba.to_bytes(8, "big") + bytes([0, 0, 0, 8, 0, 0]), noise),
            }
            with Connection(array.ports[0]) as connection:
                connection.login(array.iqn, "iqn.2026-11.test:taker")
                for name, (cdb, data) in takers.items():
                    sense = refused(connection, 1, cdb, data)
                    assert sense == NO_ROOM, f"{name} was refused with {sense}"
            return f"{', '.join(takers)}: 07/27/07"

        def refusals() -> list[dict]:
            alerts = array.admin("alert", "list")
            return [a for a in alerts if "writes are refused" in a["summary"] and a["severity"] == "critical"]

        def reported() -> str:
            """A critical alert says that writes are refused, and since when."""
            [alert] = refusals()
            age = time.time() - alert["created"] / 1000
            assert 0 <= age < 3600, f"refused since {age:.0f} s"
            assert array.admin("array", "show")["array"]["status"] == "degraded"
            return f"{alert['summary']}, for {seconds(age)}"

        def no_longer_reported() -> str:
            begin = time.monotonic()
            while refusals():
                assert time.monotonic() - begin < ALERT_SECONDS, f"still open after {ALERT_SECONDS} s"
                time.sleep(1)
            return f"closed after {seconds(time.monotonic() - begin)}"

        def load_on_full() -> str:
            journal = scratch / "journal"
            journal.unlink(missing_ok=True)
            r = host.verb("torture", load, "--journal", str(journal), "--secs", "5", "--span", "64M")
            assert r["full"] > 0, "nothing was refused: the array was not full"
            checked = host.torture_verify(load, journal)
            assert checked["acknowledged"] > 0, "no operation was acknowledged"
            return f"{count(checked['acknowledged'])} acknowledged, {count(r['full'])} refused, every block as answered"

        def killed() -> str:
            journal = scratch / "journal-killed"
            journal.unlink(missing_ok=True)
            with host.torture(load, journal, scratch / "torture.log", 7) as process:
                time.sleep(2)
                if not process.alive():
                    raise Failed(f"the load ended before the kill:\n{process.tail()}")
                array.kill()
            begin = time.monotonic()
            array.start()
            took = time.monotonic() - begin
            checked = host.torture_verify(load, journal)
            assert checked["acknowledged"] > 0, "no operation was acknowledged before the kill"
            return (
                f"serving again after {seconds(took)}; {count(checked['acknowledged'])} acknowledged operations, 0 lost"
            )

        def nothing_lost() -> str:
            host.verb("verify", calm, *still)
            host.verb("verify", big, "--size", str(reach), "--seed", "1")
            return f"{size(reach)} verified"

        def unmap_and_go_on() -> str:
            """After UNMAP of half of the data, writes succeed again without a restart."""
            half = reach // 2 & -(1 << 20)
            host.verb("reclaim", big, "--method", "unmap", "--size", str(half))
            pid, begin, at = array.process.pid, time.monotonic(), 0
            while at < half // 2:
                r = host.verb(
                    "fill",
                    big,
                    "--seed",
                    "9",
                    "--off",
                    str(at),
                    "--from",
                    str(at),
                    "--size",
                    str(half // 2 - at),
                    "--until-full",
                )
                at += r.get("full_at", r["bytes"])
                assert time.monotonic() - begin < RETURN_SECONDS, (
                    f"{size(at)} of {size(half // 2)} written within {RETURN_SECONDS} s of the UNMAP"
                )
            took = time.monotonic() - begin
            assert array.process.pid == pid and array.process.alive()
            host.verb("verify", big, "--seed", "9", "--size", str(half // 2))
            host.verb(
                "verify", big, "--seed", "1", "--off", str(half), "--from", str(half), "--size", str(reach - half)
            )
            host.verb("verify", calm, *still)
            return f"{size(half // 2)} written again within {seconds(took)}"

        steps: list[tuple[str, Callable[[], str]]] = [
            ("fill until 4 KiB writes are refused", fill_up),
            ("the soft threshold is reported", told),
            ("commands that take space are refused", all_refused),
            ("the refusals are reported", reported),
            ("a verifying load on the full array", load_on_full),
            ("SIGKILL at 100 %", killed),
            ("nothing acknowledged is lost", nothing_lost),
            ("UNMAP, and writes continue", unmap_and_go_on),
            ("the alert closes", no_longer_reported),
            ("fsck at the end", lambda: fsck_agrees(array)),
        ]
        yield from checks(SUITE, steps)
