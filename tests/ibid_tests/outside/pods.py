"""A pod on two arrays with a mediator, under a verifying load through both arrays: kills, stopped processes, cuts.

The load (kit/load.py) notices each block that is lost, torn or old at the moment when an array answers with it. A number
that both arrays count up with COMPARE AND WRITE must equal the steps that succeeded. Ranges that only one array has written
while the other was away are compared at the other one when it is back.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.ats import Ats
from ibid_tests.kit.host import Host
from ibid_tests.kit.load import BLOCK, SECTORS, Load, Session, may_repeat, read_cdb, refusal
from ibid_tests.kit.pair import LUN, POD, VOLUME, Pair, wait
from ibid_tests.kit.procs import Failed, free_ports
from ibid_tests.kit.term import seconds
from ibid_tests.outside.near import Near
from ibid_tests.outside.reservations import FENCE, Cluster
from ibid_tests.outside.resets import resets
from ibid_tests.outside.result import Check, Lab, Result, checks

SUITE = "pods"
MIB = 1 << 20
"""A write that the other array gets while an array is lost is answered within this time, in seconds."""
ANSWERED = 5.0
"""A stopped process has lost its lease after this time, in seconds."""
STOPPED = 6.0
"""Ranges of the volume besides that of the load: written before all faults, and in each fault."""
STILL = ["--off", str(512 * MIB), "--size", str(32 * MIB), "--seed", "7"]
FAULT_OFF, FAULT_SIZE = 640 * MIB, 8 * MIB
ATS_LBA = 1000 * MIB // 512


def run(lab: Lab) -> Iterator[Result]:
    with Pair(lab.bin, lab.scratch("arrays")) as pair:
        site = Site(lab, pair)
        yield from checks(SUITE, site.before())
        load = site.load = Load(pair.names, LUN)
        assert max(load.workers[-1].fresh) * SECTORS * 512 < 512 * MIB
        with load:
            yield from checks(SUITE, site.faults())
        yield from checks(SUITE, site.after())


def refused(array: Array, words: str, *command: str) -> None:
    try:
        array.admin(*command)
    except Failed as e:
        assert words in str(e), f"{words!r} is not in: {e}"
    else:
        raise Failed(f"not refused: {' '.join(command)}")


def read_block(array: Array, lun: int, block: int) -> bytes:
    session = Session(array, lun, "iqn.2026-11.test:block")
    try:
        while refusal(pdu := session.connect().command(read_cdb(block), lun=lun, read=BLOCK)):
            assert may_repeat(pdu), refusal(pdu)
        return pdu.data
    finally:
        session.close()


class Site:
    """The pair, and the checks in their order. Each fault begins and ends with both arrays in step."""

    def __init__(self, lab: Lab, pair: Pair):
        self.lab, self.pair, self.host = lab, pair, Host(lab.bin)
        self.load: Load | None = None
        self.ats: Ats | None = None
        self.cluster = Cluster(pair)
        self.seed = 100
        self.numbers = 0

    @property
    def alpha(self) -> Array:
        return self.pair.alpha

    @property
    def beta(self) -> Array:
        return self.pair.beta

    def before(self) -> list[tuple[str, Check]]:
        return [
            ("refusals", self.refusals),
            ("stretch", self.stretch),
            ("equal content", self.content),
            ("COMPARE AND WRITE", self.counted),
            ("offloads", self.offloads),
            ("preferred arrays", self.preferred),
            ("resets", lambda: resets(self.pair)),
            ("reservations", self.cluster.fenced),
            ("refusals of a stretched pod", self.stretched_refusals),
            ("volumes and snapshots", self.objects),
        ]

    def faults(self) -> list[tuple[str, Check]]:
        pair = self.pair
        return [
            ("kill -9 of the array that orders", lambda: self.killed(pair.sequencer())),
            ("kill -9 of the array that follows", lambda: self.killed(pair.other(pair.sequencer()))),
            ("kill -9 of both", self.both),
            ("stop the array that orders", lambda: self.stopped(pair.sequencer())),
            ("stop the array that follows", lambda: self.stopped(pair.other(pair.sequencer()))),
            ("cut the link, both directions", lambda: self.cut("both", self.alpha)),
            ("cut the link, to alpha", lambda: self.cut("in", self.alpha)),
            ("cut the link, from alpha, beta preferred", lambda: self.cut("out", self.beta)),
            ("volumes and snapshots while alone", self.changes_alone),
            ("mediator lost while alone", self.mediator_lost_alone),
            ("mediator lost before beta", self.mediator_lost_before),
            ("mediator lost with alpha", self.mediator_lost_with),
        ]

    def after(self) -> list[tuple[str, Check]]:
        return [
            ("every block through both arrays", self.compared),
            ("unstretch", self.unstretch),
            ("fsck", self.fsck),
        ]

    def fill(self, array: Array, *area: str) -> None:
        self.host.verb("fill", self.pair.url(array), *area)

    def verify(self, array: Array, *area: str) -> None:
        self.host.verb("verify", self.pair.url(array), *area)

    def refusals(self) -> str:
        pair, alpha = self.pair, self.alpha
        pair.start()
        pair.create()
        stretch = ("pod", "stretch", POD)
        refused(alpha, "is not connected to it", *stretch, "gamma")
        refused(alpha, "Pod does not exist", "pod", "stretch", "dc2", "beta")
        refused(alpha, "already belongs to pod", *stretch, "alpha")
        refused(alpha, "on this array alone", "pod", "promote", POD, "--force", "--yes")
        refused(alpha, "is not on array beta", "pod", "unstretch", POD, "beta", "--yes")
        refused(alpha, "need a second array", "pod", "prefer", POD, "alpha")
        link = f"127.0.0.1:{free_ports(1)[0]}"
        third = ["--name", "gamma", "--number", "1", "--link", link]
        with Array(self.lab.bin, capacity="1GiB", portals=1, base=pair.dir, args=third) as gamma:
            gamma.start()
            refused(alpha, "is not connected to it", *stretch, "gamma")
            key = gamma.admin("array", "connection-key")["connection_key"]
            alpha.admin("array", "connect", "gamma", "--address", link, "--key", key)
            wait("connected", lambda: {at["status"] for at in alpha.admin("array", "connections")} == {"connected"})
            refused(alpha, "both arrays have the number 1", *stretch, "gamma")
            alpha.admin("pod", "unstretch", POD, "gamma", "--yes")
            alpha.admin("array", "disconnect", "gamma")
        assert pair.state(alpha) is None and pair.state(self.beta) is None
        return "unknown, unconnected, itself, equal numbers; promote, prefer and unstretch of a pod on one array"

    def stretch(self) -> str:
        pair = self.pair
        self.fill(self.alpha, *STILL)
        self.cluster.begin()
        took = pair.stretch()
        self.cluster.arrive()
        self.verify(self.beta, *STILL)
        serials = [array.admin("volume", "list", VOLUME)[0]["serial"] for array in pair.arrays]
        assert serials[0] == serials[1], serials
        return f"in step after {seconds(took)}; the same serial number and content at the other array"

    def content(self) -> str:
        area = ["--size", str(64 * MIB), "--off", str(FAULT_OFF)]
        for n, (one, other) in enumerate(((self.alpha, self.beta), (self.beta, self.alpha)), 1):
            self.fill(one, *area, "--seed", str(n))
            self.verify(other, *area, "--seed", str(n))
            self.verify(one, *area, "--seed", str(n))
        return "64 MiB written at each, read at the other"

    def counted(self) -> str:
        with Ats(self.pair.names, LUN, ATS_LBA) as ats:
            time.sleep(2)
        said = {ats.check(array) for array in self.pair.arrays}
        assert len(said) == 1 and all(ats.done[name] for name in self.pair.names) and ats.lost, (said, ats.done)
        assert not ats.open, f"{ats.open} steps without an answer"
        return said.pop()

    def offloads(self) -> str:
        """Copies, zeroes and unmaps at one array, read at the other."""
        alpha, beta, names = self.alpha, self.beta, {f"{POD}::from": 2, f"{POD}::to": 3}
        area = ["--size", str(48 * MIB), "--seed", "3"]
        for name in names:
            alpha.admin("volume", "create", name, "--size", "64MiB")
        wait("both at beta", lambda: self.names(beta, "volume") >= set(names), ANSWERED)
        urls = {(array, lun): array.connect(name, lun) for array in self.pair.arrays for name, lun in names.items()}
        self.host.verb("fill", urls[alpha, 2], *area)
        self.host.verb("deploy", urls[beta, 2], urls[beta, 3], "--method", "xcopy", "--size", str(48 * MIB))
        for array in self.pair.arrays:
            self.host.verb("verify", urls[array, 3], *area)
        self.host.verb("zero", urls[beta, 3], "--size", str(16 * MIB))
        self.host.verb("reclaim", urls[alpha, 3], "--method", "unmap", "--off", str(16 * MIB), "--size", str(16 * MIB))
        rest = ["--off", str(32 * MIB), "--size", str(16 * MIB), "--seed", "3"]
        for array in self.pair.arrays:
            for mib in range(32):
                found = read_block(array, 3, mib * MIB // BLOCK)
                assert found == bytes(BLOCK), f"the block at {mib} MiB has data at {self.pair.name(array)}"
            self.host.verb("verify", urls[array, 3], *rest)
            self.host.verb("verify", urls[array, 2], *area)
            for name in names:
                array.admin("host", "disconnect", "any", name)
        for verb in ("destroy", "eradicate"):
            alpha.admin("volume", verb, *names)
        wait("gone at beta", lambda: self.names(beta, "volume", "--all") == {VOLUME, FENCE}, ANSWERED)
        return "XCOPY and WRITE SAME through beta, UNMAP through alpha: equal at both"

    def preferred(self) -> str:
        name, near, pair = f"{POD}::near", Near(self.lab, self.pair), self.pair
        pair.sequencer().admin("volume", "create", name, "--size", "64MiB")
        wait("at both", lambda: all(name in self.names(array, "volume") for array in pair.arrays), ANSWERED)
        near.connect(name)
        near.prefer(self.alpha)
        at_alpha, none = near.reads()
        near.prefer(self.beta)
        no_more, at_beta = near.reads()
        assert at_alpha and at_beta and not none and not no_more, (at_alpha, none, no_more, at_beta)
        self.beta.kill()
        pair.wait_state(self.alpha, "solo")
        (lost, _) = near.reads()
        self.beta.start()
        pair.wait_sync()
        (_, back) = near.reads()
        near.prefer()
        assert lost and back, (lost, back)
        near.close(name)
        for verb in ("destroy", "eradicate"):
            pair.sequencer().admin("volume", verb, name)
        return f"{at_alpha} reads at alpha, {at_beta} at beta, 0 at the other; {lost} at alpha while beta is lost"

    def names(self, array: Array, kind: str, *options: str) -> set[str]:
        return {found["name"] for found in array.admin(kind, "list", *options)}

    def stretched_refusals(self) -> str:
        alpha, beta = self.alpha, self.beta
        for array in self.pair.arrays:
            refused(array, "this array serves it", "pod", "promote", POD, "--force", "--yes")
        refused(alpha, "already belongs to pod", "pod", "stretch", POD, "beta")
        refused(alpha, "by beta only", "pod", "unstretch", POD, "alpha", "--yes")
        refused(beta, "by alpha only", "pod", "unstretch", POD, "beta", "--yes")
        refused(alpha, "is not on array gamma", "pod", "unstretch", POD, "gamma", "--yes")
        refused(beta, "on two arrays", "pod", "destroy", POD, "--contents")
        refused(beta, "is on both arrays", "array", "disconnect", "alpha")
        refused(alpha, "", "pod", "prefer", POD, "gamma")
        refused(beta, "", "pod", "discard", POD, "--yes")
        self.pair.wait_sync()
        return "promote while it serves, unstretch at the wrong array, a second stretch, destroy"

    def objects(self) -> str:
        alpha, beta, longest = self.alpha, self.beta, 0.0
        area = ["--size", str(8 * MIB)]

        def appears(array: Array, kind: str, name: str, there: bool = True) -> None:
            nonlocal longest
            what = f"{name}{'' if there else ' gone'} at {self.pair.name(array)}"
            longest = max(longest, wait(what, lambda: (name in self.names(array, kind)) is there, ANSWERED))

        name = f"{POD}::vm2"
        for one, other, new in ((alpha, beta, f"{POD}::new"), (beta, alpha, f"{POD}::newer")):
            if self.pair.sequencer() is not one:
                other.admin("pod", "resign", POD)
                wait("handed over", lambda one=one: self.pair.sequencer() is one and self.pair.is_sync(one))
            there = f"ordered by the other array {self.pair.name(one)} now"
            refused(other, there, "volume", "create", name, "--size", "64MiB")
            one.admin("volume", "create", name, "--size", "64MiB")
            appears(other, "volume", name)
            urls = {array: array.connect(name, 2) for array in (one, other)}
            self.host.verb("fill", urls[one], *area, "--seed", "1")
            one.admin("snap", "create", name, "--suffix", "s")
            appears(other, "snap", f"{name}.s")
            self.host.verb("fill", urls[other], *area, "--seed", "2")
            snaps = {array: array.connect(f"{name}.s", 3) for array in (one, other)}
            for array in (one, other):
                self.host.verb("verify", snaps[array], *area, "--seed", "1")
                self.host.verb("verify", urls[array], *area, "--seed", "2")
            refused(other, there, "volume", "rename", name, new)
            one.admin("volume", "rename", name, new)
            appears(other, "volume", new)
            appears(other, "volume", name, there=False)
            appears(other, "snap", f"{new}.s")
            for array in (one, other):
                array.admin("host", "disconnect", "any", f"{new}.s")
                array.admin("host", "disconnect", "any", new)
            one.admin("volume", "destroy", new)
            appears(other, "volume", new, there=False)
            appears(other, "snap", f"{new}.s", there=False)
            one.admin("volume", "eradicate", new)
        return f"made, renamed and destroyed at either, after resign; at the other after {seconds(longest)} at most"

    def begin(self) -> None:
        """Both arrays are in step, and answer the load, also after a check that failed."""
        self.pair.heal()
        self.pair.wait_sync()
        self.load.wait_answered(*self.pair.arrays)
        self.load.check()
        self.load.retries.clear()
        self.numbers += 1
        self.ats = Ats(self.pair.names, LUN, ATS_LBA + self.numbers)

    def alone(self, array: Array, since: float) -> float:
        """Waits until an array serves alone, and writes a range; returns the pause of the load."""
        pair, load = self.pair, self.load
        pair.wait_state(array, "solo")
        load.wait_answered(array)
        pause = load.pause(array, since)
        assert pause < ANSWERED, f"no write was answered for {pause:.1f} s; {load.told()}"
        self.seed += 1
        self.fill(array, *self.range())
        return pause

    def silent(self, array: Array, secs: float) -> None:
        """Fails if an array answers a write or read of the load within this time."""
        workers = self.load.of(array)
        before = sum(worker.writes + worker.reads for worker in workers)
        time.sleep(secs)
        answered = sum(worker.writes + worker.reads for worker in workers) - before
        assert not answered, f"{self.pair.name(array)} has answered {answered} commands"

    def range(self) -> list[str]:
        """What an array has written last while it was alone."""
        off = FAULT_OFF + self.seed % 8 * FAULT_SIZE
        return ["--off", str(off), "--size", str(FAULT_SIZE), "--seed", str(self.seed)]

    def back(self, came: Array, mediator: bool = True) -> float:
        """Waits until both serve again, and compares the other array's writes at the array that came back."""
        took = self.pair.wait_sync(mediator)
        self.load.wait_answered(*self.pair.arrays)
        for array in (came, self.pair.other(came)):
            self.verify(array, *STILL)
            self.verify(array, *self.range())
        self.load.check()
        return took

    def killed(self, array: Array) -> str:
        pair, other = self.pair, self.pair.other(array)
        self.begin()
        with self.ats as ats:
            time.sleep(0.5)
            begin = time.monotonic()
            array.kill()
            pause = self.alone(other, begin)
            array.start()
            took = self.back(array)
        assert pair.sequencer() is other, "the array that came back orders"
        ats.check(array)
        return f"{pair.name(array)}; pause {pause:.1f} s; in step {took:.1f} s after the start; {ats.check(other)}"

    def both(self) -> str:
        pair = self.pair
        self.begin()
        with self.ats as ats:
            time.sleep(0.5)
            for array in pair.arrays:
                array.kill()
            for array in (self.beta, self.alpha):
                array.start()
            took = pair.wait_sync()
            self.load.wait_answered(*pair.arrays)
        for array in pair.arrays:
            self.verify(array, *STILL)
        self.load.check()
        return f"in step {took:.1f} s after the start; {ats.check(self.alpha)}"

    def stopped(self, array: Array) -> str:
        pair, load, other = self.pair, self.load, self.pair.other(array)
        self.begin()
        probe = load.probe(array)
        begin = time.monotonic()
        with self.ats as ats:
            with pair.frozen(array):
                pause = self.alone(other, begin)
                time.sleep(max(0.0, begin + STOPPED - time.monotonic()))
                # These reads are in the socket of the stopped process. The blocks have changed since it was stopped.
                probe.send()
                time.sleep(0.2)
            good, asked = probe.collect()
            took = self.back(array)
        assert pair.sequencer() is other, "the array that was stopped orders"
        said = f"{asked} reads that waited: {good} with new data, {asked - good} refused"
        return f"{pair.name(array)}; pause {pause:.1f} s; in step after {took:.1f} s; {said}; {ats.check(array)}"

    def cut(self, direction: str, preferred: Array) -> str:
        """Both arrays run, and the preferred one continues."""
        pair, other = self.pair, self.pair.other(preferred)
        self.begin()
        self.alpha.admin("pod", "prefer", POD, pair.name(preferred))
        for array in pair.arrays:
            wait("preferred", lambda a=array: (pair.state(a) or {}).get("preferred") == pair.name(preferred))
        with self.ats as ats:
            begin = time.monotonic()
            pair.cut(direction)
            try:
                pause = self.alone(preferred, begin)
                state = (pair.state(other) or {}).get("state")
                assert state not in ("solo", "sync", "resync"), f"{pair.name(other)} serves, too: {state}"
                self.silent(other, 1)
            finally:
                pair.cut("none")
            took = self.back(other)
        return f"{pair.name(preferred)} continues after {pause:.1f} s; in step {took:.1f} s after; {ats.check(other)}"

    def changes_alone(self) -> str:
        """Volumes and snapshots that were changed at one array while the other one was away."""
        pair, gone = self.pair, self.pair.sequencer()
        stays, old, new = pair.other(gone), f"{POD}::old", f"{POD}::while-alone"
        area = ["--size", str(8 * MIB)]
        self.begin()
        for name in (old, f"{POD}::left"):
            gone.admin("volume", "create", name, "--size", "64MiB")
        wait("both at the other array", lambda: self.names(stays, "volume") >= {old, f"{POD}::left"}, ANSWERED)
        begin = time.monotonic()
        gone.kill()
        self.alone(stays, begin)
        stays.admin("volume", "rename", old, new)
        stays.admin("volume", "resize", new, "--size", "96MiB")
        self.host.verb("fill", stays.connect(new, 2), *area, "--seed", "1")
        stays.admin("snap", "create", new, "--suffix", "s")
        self.host.verb("fill", stays.url(2), *area, "--seed", "2")
        stays.admin("volume", "destroy", f"{POD}::left")
        gone.start()
        self.back(gone)
        for kind in ("volume", "snap"):
            lists = [
                [(x["name"], x["destroyed"], x["serial"], x["provisioned"]) for x in array.admin(kind, "list", "--all")]
                for array in pair.arrays
            ]
            assert lists[0] == lists[1] and new in str(lists[0]), lists
        self.host.verb("verify", gone.connect(new, 2), *area, "--seed", "2")
        self.host.verb("verify", gone.connect(f"{new}.s", 3), *area, "--seed", "1")
        gone.admin("host", "disconnect", "any", f"{new}.s")
        for array in pair.arrays:
            array.admin("host", "disconnect", "any", new)
        stays.admin("volume", "destroy", new)
        stays.admin("volume", "eradicate", new, f"{POD}::left")
        wait("gone", lambda: self.names(gone, "volume", "--all") == {VOLUME, FENCE}, ANSWERED)
        return "created, renamed, resized, written and destroyed at one array, equal at the other when it is back"

    def mediator_lost_alone(self) -> str:
        """The mediator has decided, and is lost: an array that serves alone goes on, and the other one comes back."""
        pair, load = self.pair, self.load
        self.begin()
        self.alpha.admin("pod", "prefer", POD, "alpha")
        begin = time.monotonic()
        self.alpha.kill()
        self.alone(self.beta, begin)
        pair.stop_mediator()
        begin = time.monotonic()
        time.sleep(2)
        pause = load.pause(self.beta, begin)
        assert pause < 1, f"no write was answered for {pause:.1f} s"
        self.alpha.start()
        took = self.back(self.alpha, mediator=False)
        pair.start_mediator()
        rule = pair.wait_sync()
        return (
            f"in step {took:.1f} s after the start, without the mediator; it decides again {rule:.1f} s after its own"
        )

    def mediator_lost_before(self) -> str:
        """While the mediator is away, the rule names one array: it continues without the other, which does not without it."""
        pair, load = self.pair, self.load
        self.begin()
        begin = time.monotonic()
        pair.stop_mediator()

        def ruled() -> bool:
            found = pair.state(self.alpha) or {}
            return found.get("only") == "alpha" and found["is_tie_rule_in_force"]

        rule = wait("only alpha may continue", ruled)
        pause = max(load.pause(array, begin) for array in pair.arrays)
        assert pause < 1, f"hosts waited {pause:.1f} s for the mediator"
        begin = time.monotonic()
        self.beta.kill()
        first = self.alone(self.alpha, begin)
        self.beta.start()
        took = self.back(self.beta, mediator=False)
        wait("only alpha may continue", ruled)
        self.alpha.kill()
        time.sleep(ANSWERED / 2)
        self.silent(self.beta, ANSWERED / 2)
        state = (pair.state(self.beta) or {}).get("state")
        assert state not in ("solo", "sync"), f"beta serves alone against the rule: {state}"
        self.alpha.start()
        self.back(self.alpha, mediator=False)
        pair.start_mediator()
        pair.wait_sync()
        return f"only alpha after {rule:.1f} s; without beta, pause {first:.1f} s; in step after {took:.1f} s; beta waits for alpha"

    def mediator_lost_with(self) -> str:
        """The mediator and an array are lost at the same moment: the other one serves when one of them is back."""
        pair, load = self.pair, self.load
        self.begin()
        pair.stop_mediator()
        self.alpha.kill()
        time.sleep(ANSWERED / 2)
        self.silent(self.beta, ANSWERED / 2)
        state = (pair.state(self.beta) or {}).get("state")
        assert state not in ("solo", "sync"), f"beta serves alone without a decision: {state}"
        pair.start_mediator()
        begin = time.monotonic()
        pair.wait_state(self.beta, "solo")
        load.wait_answered(self.beta)
        decided = time.monotonic() - begin
        self.seed += 1
        self.fill(self.beta, *self.range())
        self.alpha.start()
        took = self.back(self.alpha)
        return (
            f"beta {state}, then serves {decided:.1f} s after the mediator's start; in step {took:.1f} s after alpha's"
        )

    def compared(self) -> str:
        self.load.check()
        counts = {self.load.verify(array) for array in self.pair.arrays}
        assert len(counts) == 1 and self.load.writes and self.load.reads
        return f"{counts.pop()} blocks; {self.load.writes} writes and {self.load.reads} reads of the load, 0 wrong"

    def unstretch(self) -> str:
        pair = self.pair
        pair.wait_sync()
        stays = pair.sequencer()
        leaves = pair.other(stays)
        name, gone = pair.name(stays), pair.name(leaves)
        self.fill(leaves, *self.range())
        refused(leaves, f"{name} orders its changes now", "pod", "unstretch", POD, name, "--yes")
        begin = time.monotonic()
        stays.admin("pod", "unstretch", POD, gone, "--yes")
        took = time.monotonic() - begin
        assert pair.state(stays) is None, pair.state(stays)
        wait(f"without a pod at {gone}", lambda: not leaves.admin("pod", "list"), ANSWERED)
        assert not leaves.admin("volume", "list"), f"{gone} has the volume"
        self.cluster.stay(stays)
        self.verify(stays, *STILL)
        self.verify(stays, *self.range())
        self.load.verify(stays)
        try:
            self.verify(leaves, *self.range())
        except Failed:
            return f"{gone} left after {seconds(took)}; {name} has every block, {gone} no pod"
        raise Failed(f"{gone} still serves the volume")

    def fsck(self) -> str:
        for array in self.pair.arrays:
            code = array.stop()
            assert code == 0, f"exit {code} of {self.pair.name(array)} after SIGTERM"
            array.fsck()
        return "both clean"
