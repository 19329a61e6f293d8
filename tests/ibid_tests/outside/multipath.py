"""A Linux guest with multipath: two portals of one array, then two arrays, under a verifying load.

The guest (kit/guest.py) has the settings of docs/guides/two-arrays.md, read from the page. No command of its load
(kit/guest/load.c) may fail, and each block states its version. `make pod-soak-linux` repeats the faults at random times.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.guest import Guest, Image, why_not
from ibid_tests.kit.guest_load import GuestLoad, program
from ibid_tests.kit.multipath_host import DEVICE, MultipathHost
from ibid_tests.kit.pair import POD, VOLUME, Pair, wait
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.kit.relay import Relay
from ibid_tests.kit.term import seconds, size
from ibid_tests.outside.result import Check, Lab, Result, Skip, checks

SUITE = "multipath"
GIB = 1 << 30
"""A command of the guest is answered within this time, in seconds, on a busy machine. It takes 2 to 3.5 on another."""
ANSWERED = 15.0
ACTIVE = 50  # the priority of active/optimized paths


def run(lab: Lab) -> Iterator[Result]:
    if reason := why_not():
        raise Skip(reason)
    try:
        image = Image(lab.out.parent / "guest-multipath").build()
    except Failed as e:
        raise Skip(str(e)) from None
    scratch = lab.scratch("guest-multipath")
    with Guest(image, scratch, {"load": program(scratch)}) as guest:
        host = MultipathHost(guest)
        with Array(lab.bin, portals=2, base=lab.scratch("arrays")) as array:
            one = OneArray(host, array.start())
            yield from checks(SUITE, one.checks())
            one.close()
        with Pair(lab.bin, lab.scratch("arrays")) as pair:
            yield from checks(SUITE, TwoArrays(host, pair).checks())


def longest(load: GuestLoad) -> float:
    """The longest command since the mark; raises if one failed, or took too long."""
    found = load.check().longest
    assert found < ANSWERED, f"a command of the guest took {found:.1f} s"
    return found


class OneArray:
    """An array with two portals, each by a relay, so that one way can be cut."""

    def __init__(self, host: MultipathHost, array: Array):
        self.host, self.array = host, array
        self.ways = [Relay("127.0.0.1", port) for port in array.ports]
        self.ports = [way.port for way in self.ways]
        self.load = GuestLoad(host.guest, DEVICE)

    def checks(self) -> list[tuple[str, Check]]:
        return [
            ("one array: boot and log in", self.boot),
            ("one array: one way is cut", self.cut),
            ("one array: kill -9", self.killed),
            ("one array: a larger volume", self.resize),
            ("one array: unmap", self.unmap),
        ]

    def close(self) -> None:
        """Ends the load, also after a check that failed, and the sessions."""
        with contextlib.suppress(Failed):
            self.load.end()
        self.host.logout()
        for way in self.ways:
            way.__exit__()

    def boot(self) -> str:
        begin = time.monotonic()
        self.host.guest.start()
        booted = time.monotonic() - begin
        self.array.volume("vm1", "1GiB", 1)
        self.host.start()
        for port in self.ports:
            self.host.login(self.array.iqn, port)
        self.host.wait_used(*self.ports)
        assert {path.priority for path in self.host.paths().values()} == {ACTIVE}
        assert self.host.size() == GIB, self.host.size()
        self.load.start()
        return (
            f"Linux {self.host.guest.kernel_version} after {seconds(booted)}; one disk, two paths of priority {ACTIVE}"
        )

    def cut(self) -> str:
        self.load.mark()
        self.ways[0].cut()
        self.host.wait_used(self.ports[1])
        self.load.wait_answered()
        self.ways[0].join()
        took = self.host.wait_used(*self.ports)
        return f"longest command {longest(self.load):.1f} s; both used {took:.1f} s after the way is back"

    def killed(self) -> str:
        self.load.mark()
        self.array.kill()
        self.host.wait_used()
        self.array.start()
        begin = time.monotonic()
        self.load.wait_answered()
        took = time.monotonic() - begin
        self.host.wait_used(*self.ports)
        self.load.check()
        return f"no command failed; answered {took:.1f} s after the start"

    def resize(self) -> str:
        self.array.admin("volume", "resize", "vm1", "--size", "2GiB")
        self.host.rescan()
        assert self.host.size() == 2 * GIB, self.host.size()
        self.load.wait_answered()
        self.load.check()
        return "2 GiB after a rescan, under load"

    def unmap(self) -> str:
        blocks = self.load.verify()
        self.load.stop()
        before = self.array.settled()["unique"]
        self.host.guest.run(f"blkdiscard {DEVICE}")
        after = self.array.settled()["unique"]
        assert after < before / 10, f"{size(before)} before, {size(after)} after"
        read = f"dd if={DEVICE} bs=1M count=16 iflag=direct 2>/dev/null"
        self.host.guest.run(f"set -o pipefail; {read} | busybox cmp -n 16777216 - /dev/zero")
        return f"{blocks} blocks were right; {size(before)} of data before, {size(after)} after"


class TwoArrays:
    """A stretched volume with a path to each array. Each fault begins and ends in step, with both paths in use."""

    def __init__(self, host: MultipathHost, pair: Pair):
        self.host, self.pair = host, pair
        self.load = GuestLoad(host.guest, DEVICE, seed=2)

    def checks(self) -> list[tuple[str, Check]]:
        pair = self.pair
        return [
            ("two arrays: log in", self.log_in),
            ("two arrays: kill -9 of the one that orders", lambda: self.killed(pair.sequencer())),
            ("two arrays: kill -9 of the one that follows", lambda: self.killed(pair.other(pair.sequencer()))),
            ("two arrays: stop the one that orders", lambda: self.stopped(pair.sequencer())),
            ("two arrays: cut the link", self.cut),
            ("two arrays: resign", self.resign),
            ("two arrays: a larger volume", self.resize),
            ("two arrays: unmap while one is away", self.unmap),
            ("two arrays: stop in order, compare, fsck", self.compare),
        ]

    def used(self, *arrays: Array) -> float:
        return self.host.wait_used(*(array.ports[0] for array in arrays))

    def log_in(self) -> str:
        pair, host = self.pair, self.host
        pair.start().create()
        pair.stretch()
        for array in pair.arrays:
            host.login(array.iqn, array.ports[0])
        self.used(*pair.arrays)
        paths = host.paths()
        assert {path.priority for path in paths.values()} == {ACTIVE}, paths
        said = host.guest.run(f"multipath -ll; sg_rtpg -d /dev/{paths[pair.alpha.ports[0]].disk}")
        groups = re.findall(r"group id : 0x(\d).*\n.*\((\S+)\)", said)
        assert groups == [("1", "active/optimized"), ("2", "active/optimized")], groups
        assert said.count("policy=") == 1 and "hwhandler='1 alua'" in said, said
        self.load.start()
        return f"one disk, a path to each array, one group of priority {ACTIVE}, target port groups 1 and 2"

    def fault(self, begin: Callable[[], object], whole: Array, end: Callable[[], object]) -> str:
        """One fault: the guest uses the whole array alone, and both again afterwards."""
        pair, load = self.pair, self.load
        pair.heal()
        pair.wait_sync()
        self.used(*pair.arrays)
        load.check()
        load.mark()
        begin()
        try:
            pair.wait_state(whole, "solo")
            load.wait_answered()
            self.used(whole)
        finally:
            end()
        sync = pair.wait_sync()
        back = self.used(*pair.arrays)
        return (
            f"longest command {longest(load):.1f} s; in step after {sync:.1f} s, both paths after {sync + back:.1f} s"
        )

    def killed(self, array: Array) -> str:
        return f"{self.pair.name(array)}; {self.fault(array.kill, self.pair.other(array), array.start)}"

    def stopped(self, array: Array) -> str:
        pair = self.pair
        said = self.fault(lambda: pair.freeze(array), pair.other(array), lambda: pair.thaw(array))
        return f"{pair.name(array)}; {said}"

    def cut(self) -> str:
        pair = self.pair
        pair.alpha.admin("pod", "prefer", POD, "alpha")
        for array in pair.arrays:
            wait("preferred", lambda a=array: (pair.state(a) or {}).get("preferred") == "alpha")
        return f"alpha continues; {self.fault(pair.cut, pair.alpha, lambda: pair.cut('none'))}"

    def resign(self) -> str:
        pair, load = self.pair, self.load
        array = pair.sequencer()
        load.mark()
        array.admin("pod", "resign", POD)
        wait("handed over", lambda: pair.sequencer() is not array)
        pair.wait_sync()
        load.wait_answered()
        self.used(*pair.arrays)
        return f"longest command {longest(load):.1f} s"

    def resize(self) -> str:
        self.pair.sequencer().admin("volume", "resize", VOLUME, "--size", "2GiB")
        self.host.rescan()
        wait("2 GiB in the guest", lambda: self.host.rescan() or self.host.size() == 2 * GIB)
        self.load.wait_answered()
        self.load.check()
        return "2 GiB after a rescan, under load"

    def unmap(self) -> str:
        """What is unmapped while an array is away is unmapped there, too, when it is back."""
        pair, load, host = self.pair, self.load, self.host
        blocks = load.verify()
        load.stop()
        before = [array.settled()["unique"] for array in pair.arrays]
        pair.beta.kill()
        pair.wait_state(pair.alpha, "solo")
        host.guest.run(f"blkdiscard --offset 0 --length 512M {DEVICE}")
        pair.beta.start()
        pair.wait_sync()
        after = [array.settled()["unique"] for array in pair.arrays]
        assert all(new < old / 10 for old, new in zip(before, after, strict=True)), (before, after)
        self.used(*pair.arrays)
        return f"{blocks} blocks were right; {size(before[1])} at beta before, {size(after[1])} after"

    def compare(self) -> str:
        """The guest is still logged in when the arrays stop, one after the other."""
        pair = self.pair
        self.host.guest.run(f"head -c 8M /dev/urandom | dd of={DEVICE} bs=1M oflag=direct iflag=fullblock 2>&1")
        run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", *(pair.url(a) for a in pair.arrays)], limit=300)
        for array in pair.arrays:
            code = array.stop()
            assert code == 0, f"exit {code} of {pair.name(array)} after SIGTERM"
            array.fsck()
        return "equal byte by byte; both clean"
