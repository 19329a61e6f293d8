"""Administration of a pod on two arrays: verification with damage on a drive, a full array, an array put back to an image,
and refusals. Each check begins and ends with both arrays in step."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.load import BLOCK, Session, read_cdb, refusal
from ibid_tests.kit.pair import LUN, POD, VOLUME, Pair, wait
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import seconds
from ibid_tests.outside.etcd import in_place_of_mediator
from ibid_tests.outside.pods import refused
from ibid_tests.outside.result import Check, Lab, Result, checks

SUITE = "pods-admin"
MIB = 1 << 20
"""A block with this content is looked for on the drive: its second half cannot be compressed."""
MARK_LBA = 700 * MIB // 512
"""Seconds in which a full array must not come into step."""
CALM = 5.0


def run(lab: Lab) -> Iterator[Result]:
    with Pair(lab.bin, lab.scratch("arrays"), capacity="2GiB") as pair:
        site = Site(lab, pair)
        yield from checks(SUITE, site.all())


def write_block(array: Array, lba: int, data: bytes) -> None:
    """Writes at an array; repeats as a host does."""
    session = Session(array, LUN, "iqn.2026-11.test:admin")
    cdb = bytes([0x8A, 0]) + lba.to_bytes(8, "big") + (len(data) // 512).to_bytes(4, "big") + b"\0\0"
    try:
        end = time.monotonic() + 30
        while refusal(pdu := session.connect().command(cdb, lun=LUN, out=data)):
            if time.monotonic() > end:
                raise Failed(f"not written: {refusal(pdu)}")
            time.sleep(0.1)
    finally:
        session.close()


def read_block(array: Array, block: int) -> bytes:
    session = Session(array, LUN, "iqn.2026-11.test:admin")
    try:
        end = time.monotonic() + 30
        while refusal(pdu := session.connect().command(read_cdb(block), lun=LUN, read=BLOCK)):
            if time.monotonic() > end:
                raise Failed(f"not read: {refusal(pdu)}")
            time.sleep(0.1)
        return pdu.data
    finally:
        session.close()


def drive_of(array: Array) -> Path:
    """The file with the array's data: its largest."""
    return max((path for path in array.data.rglob("*") if path.is_file()), key=lambda path: path.stat().st_blocks)


class Site:
    def __init__(self, lab: Lab, pair: Pair):
        self.lab, self.pair, self.host = lab, pair, Host(lab.bin)

    def all(self) -> list[tuple[str, Check]]:
        return [
            ("check before", self.check_before),
            ("stretch", self.stretch),
            ("check", self.check),
            ("top --once", self.top),
            ("etcd", lambda: in_place_of_mediator(self.pair, self.lab.scratch("etcd"))),
            ("resync limit", self.limited),
            ("evacuate", self.evacuated),
            ("refused names", self.names),
            ("verify equal arrays", self.verified),
            ("verify with damage on a drive", self.damaged),
            ("full follower", self.full),
            ("array put back to an image", self.restored),
            ("diverged, alpha kept", lambda: self.diverged(self.pair.alpha)),
            ("diverged, beta kept", lambda: self.diverged(self.pair.beta)),
            ("forget", self.forgotten),
            ("fsck", self.fsck),
        ]

    def lines(self, array: Array, *args: str) -> dict[str, str]:
        """The results of a check: the worst one of each topic."""
        import json
        import subprocess

        command = [str(array.ibid), "pod", "check", POD, *args, "--data", str(array.data), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found: dict[str, str] = {}
        for line in json.loads(done.stdout):
            rank = ["ok", "warning", "error"].index
            found[line["topic"]] = max(found.get(line["topic"], "ok"), line["status"], key=rank)
        worst = max(found.values(), key=["ok", "warning", "error"].index)
        assert done.returncode == {"ok": 0, "warning": 3, "error": 1}[worst], done
        return found

    def check_before(self) -> str:
        pair = self.pair
        pair.start()
        pair.create()
        found = self.lines(pair.alpha, "beta", "--mediator", pair.mediator_address)
        topics = ("link", "clocks", "version", "numbers", "name", "space", "mediator")
        assert found == dict.fromkeys(topics, "ok"), found
        assert self.lines(pair.alpha, "beta")["mediator"] == "warning"
        assert self.lines(pair.alpha, "gamma") == {"link": "error"}
        pair.beta.admin("pod", "create", POD)
        assert self.lines(pair.alpha, "beta")["name"] == "error"
        pair.beta.admin("pod", "destroy", POD)
        pair.beta.admin("pod", "eradicate", POD)
        return "all is well; and without a mediator, with an unknown array, with a pod of that name"

    def check(self) -> str:
        pair = self.pair
        for array in pair.arrays:
            found = self.lines(array)
            topics = ("link", "clocks", "version", "numbers", "state", "preference", "space", "mediator", "hosts")
            assert found == dict.fromkeys(topics, "ok"), found
        pair.stop_mediator()
        assert self.lines(pair.alpha)["mediator"] == "error"
        pair.start_mediator()
        pair.beta.admin("host", "create", "one", "--iqn", "iqn.2026-11.test:one")
        pair.beta.admin("host", "connect", "one", VOLUME, "--lun", "7")
        found = self.lines(pair.alpha)
        pair.beta.admin("host", "disconnect", "one", VOLUME)
        pair.wait_sync()
        assert found["hosts"] in ("ok", "warning"), found
        return "all is well at both; and with a lost mediator"

    def top(self) -> str:
        found = self.pair.alpha.admin("pod", "top", "--once")
        assert [reading["pod"]["name"] for reading in found] == [POD], found
        assert found[0]["pod"]["room_bytes"] > 0, found
        return f"{found[0]['pod']['room_bytes'] // MIB} MiB of room lent"

    def limited(self) -> str:
        """Data come with 4 MiB/s until the limit is removed; both arrays have it."""
        pair, one = self.pair, self.pair.sequencer()
        other, limit = pair.other(one), 4 * MIB
        refused(one, "1 MiB to 1 TiB a second", "pod", "set", POD, "--resync-limit", "5")
        one.admin("pod", "set", POD, "--resync-limit", "4M")
        wait("limited at both", lambda: all(a.admin("pod", "list")[0]["resync_limit"] == limit for a in pair.arrays))
        other.kill()
        pair.wait_state(one, "solo")
        self.host.verb("fill", pair.url(one), "--off", str(256 * MIB), "--size", str(64 * MIB), "--seed", "4")
        other.start()
        pair.wait_state(one, "resync")
        begin, before = time.monotonic(), pair.state(one)["behind_bytes"]
        time.sleep(4)
        state, took = pair.state(one), time.monotonic() - begin
        rate = (before - state["behind_bytes"]) / took / MIB
        assert state["state"] == "resync" and 0.5 < rate < 5, f"{state['state']} after {rate:.1f} MiB/s"
        assert "with 4MiB/s at most" in pair.why(one), pair.why(one)
        one.admin("pod", "set", POD, "--resync-limit", "none")
        rest = pair.wait_sync()
        self.host.verb("verify", pair.url(other), "--off", str(256 * MIB), "--size", str(64 * MIB), "--seed", "4")
        assert rest < state["behind_bytes"] / limit / 2, f"in step {rest:.1f} s after the limit was removed"
        return f"64 MiB come with {rate:.1f} MiB/s; without the limit, the rest takes {seconds(rest)}"

    def evacuated(self) -> str:
        pair = self.pair
        one = pair.sequencer()
        other = pair.other(one)
        planned = one.admin("pod", "evacuate", "--check")
        assert [(pod["name"], pod["status"]) for pod in planned] == [(POD, "handed_over")], planned
        assert pair.sequencer() is one, "a check hands nothing over"
        begin = time.monotonic()
        done = one.admin("pod", "evacuate", "--yes")
        took = time.monotonic() - begin
        assert [pod["status"] for pod in done] == ["handed_over"], done
        assert pair.sequencer() is other and pair.is_sync(one, mediator=False)
        again = one.admin("pod", "evacuate", "--yes")
        assert [pod["status"] for pod in again] == ["not_needed"], again
        pair.wait_sync()
        return f"{pair.name(other)} orders, both serve after {seconds(took)}; nothing to do at the second time"

    def stretch(self) -> str:
        pair = self.pair
        self.host.verb("fill", pair.url(pair.alpha), "--size", str(64 * MIB), "--seed", "1")
        took = pair.stretch()
        return f"in step after {seconds(took)}"

    def names(self) -> str:
        alpha = pair_first = self.pair.sequencer()
        refused(alpha, "reserved for snapshots of verifications", "snap", "create", VOLUME, "--suffix", "ibid-verify")
        refused(alpha, "reserved for snapshots of verifications", "snap", "create", VOLUME, "--suffix", "Ibid-Verify")
        alpha.admin("snap", "create", VOLUME, "--suffix", "mine")
        refused(pair_first, "reserved", "snap", "rename", f"{VOLUME}.mine", "ibid-verify")
        alpha.admin("snap", "destroy", f"{VOLUME}.mine")
        alpha.admin("snap", "eradicate", f"{VOLUME}.mine")
        return "ibid-verify is no suffix of administrators, in any case of letters"

    def snapshots(self) -> int:
        return sum(len(array.admin("snap", "list", "--all")) for array in self.pair.arrays)

    def verified(self) -> str:
        pair = self.pair
        one = pair.sequencer()
        other = pair.other(one)
        refused(other, "the other array orders its changes now", "pod", "verify", POD)
        refused(one, "it is not being verified", "pod", "verify", POD, "--stop")
        begin = time.monotonic()
        found = one.admin("pod", "verify", POD)
        took = time.monotonic() - begin
        assert (found["state"], found["different_bytes"]) == ("complete", 0), found
        assert found["compared_bytes"] == found["total_bytes"] == 1 << 30, found
        wait("without snapshots", lambda: self.snapshots() == 0)
        # The other array is silent: it is stopped at once all the same.
        one.admin("pod", "verify", POD, "--detach")
        with pair.frozen(other):
            begin = time.monotonic()
            stopped = one.admin("pod", "verify", POD, "--stop")
            pause = time.monotonic() - begin
        assert stopped["state"] == "stopped", stopped
        assert pause < 2, f"stopped after {pause:.1f} s"
        pair.wait_sync()
        wait("without snapshots", lambda: self.snapshots() == 0, 60)
        return f"1 GiB in {seconds(took)}: equal; stopped beside a silent array after {seconds(pause)}"

    def open_alerts(self, array: Array, code: int) -> list[dict]:
        return [alert for alert in array.admin("alert", "list") if alert["code"] == code]

    def alert(self, array: Array, code: int, words: str) -> None:
        wait(f"alert {code}", lambda: any(words in alert["summary"] for alert in self.open_alerts(array, code)))

    def damaged(self) -> str:
        """A byte on beta's drive is flipped while it is stopped. Hosts read the block at alpha; the comparison names it."""
        pair, beta = self.pair, self.pair.beta
        mark = os.urandom(BLOCK)
        write_block(pair.alpha, MARK_LBA, mark)
        # Changes of which the other array has not heard yet are sent again, and would repair the block.
        wait("heard", lambda: all(pair.state(array)["unheard_records"] == 0 for array in pair.arrays))
        time.sleep(1)
        assert beta.stop() == 0
        drive = drive_of(beta)
        content, places, at = drive.read_bytes(), [], -1
        while (at := content.find(mark[:64], at + 1)) >= 0:
            places.append(at)
        del content
        assert places, f"the block is not on {drive}"
        with drive.open("r+b") as file:
            for place in places:
                file.seek(place + 8)
                file.write(bytes([mark[8] ^ 1]))
        beta.start()
        pair.wait_sync()
        one = pair.sequencer()
        assert one is pair.alpha, "alpha has served alone"
        found = self.different(one)
        assert found["state"] == "complete" and found["different_bytes"] == BLOCK, found
        expected = {"volume": VOLUME, "offset": MARK_LBA * 512, "length": BLOCK, "kind": "unreadable_there"}
        assert found["differences"] == [expected], found
        self.alert(one, 24, "dc1 differs between alpha and beta: 4KiB")
        assert read_block(pair.alpha, MARK_LBA * 512 // BLOCK) == mark
        # A host writes the block again: both have it.
        write_block(pair.alpha, MARK_LBA, mark)
        found = one.admin("pod", "verify", POD)
        assert (found["state"], found["differences"]) == ("complete", []), found
        wait("without the alert", lambda: not self.open_alerts(one, 24))
        return f"{len(places)} copies of a byte flipped at beta: 4 KiB found, alert 24; gone after a write and a clean comparison"

    def different(self, array: Array) -> dict:
        """Verifies, and expects a difference: exit code 3."""
        array.admin("pod", "verify", POD, "--detach")

        def over() -> bool:
            return array.admin("pod", "verify", POD, "--status")["ended"] is not None

        try:
            wait("verified", over)
        except Failed as e:
            assert "differ" in str(e), e
        return self.report(array)

    def report(self, array: Array) -> dict:
        """The last verification, also if it has found a difference, for which the command fails."""
        import json
        import subprocess

        command = [str(array.ibid), "pod", "verify", POD, "--status", "--data", str(array.data), "--json"]
        for _ in range(200):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = json.loads(done.stdout)
            if found["ended"] is not None:
                assert done.returncode == (3 if found["different_bytes"] else 0), done
                return found
            time.sleep(0.1)
        raise Failed("the comparison does not end")

    def full(self) -> str:
        """Plain data fills beta's pool. It yields, and comes back when that is gone."""
        pair, alpha, beta = self.pair, self.pair.alpha, self.pair.beta
        if pair.sequencer() is not alpha:
            beta.admin("pod", "resign", POD)
            wait("handed over", lambda: pair.sequencer() is alpha and pair.is_sync(alpha))
            pair.wait_sync()
        plain = beta.volume("plain", "8GiB", 9)
        size = off = 0
        for piece in (64 * MIB, 4 * MIB, MIB):
            while True:
                try:
                    self.host.verb("fill", plain, "--off", str(off), "--size", str(piece), "--seed", "2")
                except Failed:
                    break
                off += piece
                size += piece
                if pair.state(alpha)["state"] != "sync":
                    break
        begin = time.monotonic()
        # Hosts of the pod need room now, if it has not yielded already.
        write_block(alpha, 96 * MIB // 512, os.urandom(BLOCK))
        self.host.verb("fill", pair.url(alpha), "--off", str(128 * MIB), "--size", str(64 * MIB), "--seed", "3")
        pause = time.monotonic() - begin

        def is_full() -> bool:
            found = pair.state(alpha) or {}
            return any(array["is_full"] and array["name"] == "beta" for array in found.get("arrays", []))

        wait("full at beta", is_full)
        assert (pair.state(alpha) or {})["waits_for"]["event"] in ("peer_room", "peer_state", "mask")
        for array in pair.arrays:
            self.alert(array, 23, "beta has too little free space for pod dc1: alpha serves it alone")
        until = time.monotonic() + CALM
        while time.monotonic() < until:
            state = (pair.state(alpha) or {})["state"]
            assert state in ("resync", "solo"), f"{state} although beta is full"
            time.sleep(0.1)
        listed = pair.state(alpha)
        beta.admin("host", "disconnect", "any", "plain")
        beta.admin("volume", "destroy", "plain")
        beta.admin("volume", "eradicate", "plain")
        back = pair.wait_sync(limit=90)
        self.host.verb("verify", pair.url(beta), "--off", str(128 * MIB), "--size", str(64 * MIB), "--seed", "3")
        assert one_clean(pair), "the arrays differ"
        for array in pair.arrays:
            wait("without alert 23", lambda a=array: not self.open_alerts(a, 23))
        (self.lab.out / "pods-admin-full.txt").write_text(str(listed))
        return (
            f"beta yields after {size // MIB} MiB of plain data; 64 MiB written meanwhile in {seconds(pause)}; "
            f"calm for {CALM:.0f} s; in step {seconds(back)} after the plain volume is gone"
        )

    def restored(self) -> str:
        """Beta's directory is put back to a copy: with --restored, it gets all content; alone, it serves nothing."""
        pair, alpha, beta = self.pair, self.pair.alpha, self.pair.beta
        assert beta.stop() == 0
        image = pair.dir / "image"
        shutil.copytree(beta.data, image)
        beta.start()
        pair.wait_sync()
        self.host.verb("fill", pair.url(alpha), "--off", str(256 * MIB), "--size", str(16 * MIB), "--seed", "4")
        alpha.kill()
        beta.kill()
        shutil.rmtree(beta.data)
        shutil.copytree(image, beta.data)
        shutil.rmtree(image)
        beta.args.append("--restored")
        beta.start()
        wait("hurt", lambda: (pair.state(beta) or {}).get("state") == "hurt")
        time.sleep(3)
        assert (pair.state(beta) or {})["state"] == "hurt", "it serves, by the mediator"
        refused(beta, "put back to an image", "pod", "promote", POD)
        beta.args.remove("--restored")
        alpha.start()
        took = pair.wait_sync()
        self.host.verb("verify", pair.url(beta), "--off", str(256 * MIB), "--size", str(16 * MIB), "--seed", "4")
        assert one_clean(pair), "the arrays differ"
        events = [event["event"] for event in pair.state(alpha)["events"]]
        assert "peer_lost_log" in events, events
        return f"hurt while alone; all content again, in step {seconds(took)} after alpha's start"

    def diverged(self, kept: Array) -> str:
        """Without the mediator and the link, beta is promoted by force: both serve. When they meet, both stop."""
        pair, alpha, beta = self.pair, self.pair.alpha, self.pair.beta
        gone = pair.other(kept)
        pair.wait_sync()
        pair.stop_mediator()

        def ruled() -> bool:
            found = pair.state(alpha) or {}
            return found.get("only") == "alpha" and found["is_tie_rule_in_force"]

        wait("only alpha may continue", ruled)
        pair.cut()
        pair.wait_state(alpha, "solo")
        pair.wait_state(beta, "paused")
        time.sleep(2.5)
        assert "A forced promotion here: This array has everything" in pair.why(beta), pair.why(beta)
        beta.admin("pod", "promote", POD, "--force", "--yes")
        pair.wait_state(beta, "solo")
        marks = {array: bytes([65 + n]) * BLOCK for n, array in enumerate(pair.arrays)}
        for array in pair.arrays:
            write_block(array, MARK_LBA + 800, marks[array])
        pair.cut("none")
        stopped = [array for array in pair.arrays if wait_stopped(pair, array)]
        assert stopped, "neither has stopped"
        if len(stopped) == 2:
            for array in pair.arrays:
                wait(
                    "refused",
                    lambda a=array: is_refused(a, "the other array has stopped, too", "pod", "discard", POD, "--yes"),
                )
            kept.admin("pod", "promote", POD, "--force", "--yes")
            pair.wait_state(kept, "solo", "resync")
        elif gone not in stopped:
            raise Failed(f"{pair.name(kept)} has stopped, and {pair.name(gone)} serves")
        wait("discarded", lambda: is_done(gone, "pod", "discard", POD, "--yes"))
        pair.start_mediator()
        took = pair.wait_sync()
        block = (MARK_LBA + 800) * 512 // BLOCK
        for array in pair.arrays:
            assert read_block(array, block) == marks[kept], pair.name(array)
        assert one_clean(pair), "the arrays differ"
        return f"{len(stopped)} stopped; {pair.name(kept)}'s content at both, in step {seconds(took)} after the discard"

    def forgotten(self) -> str:
        """Beta is away while the pod is removed from it. When it is back, it cannot serve its pod, and removes it."""
        pair, alpha, beta = self.pair, self.pair.alpha, self.pair.beta
        if pair.sequencer() is not alpha:
            beta.admin("pod", "resign", POD)
            wait("handed over", lambda: pair.sequencer() is alpha)
            pair.wait_sync()
        refused(beta, "this array serves it", "pod", "forget", POD, "--yes")
        beta.kill()
        pair.wait_state(alpha, "solo")
        alpha.admin("array", "disconnect", "beta")
        alpha.admin("pod", "unstretch", POD, "beta", "--yes")
        beta.start()
        pair.wait_state(beta, "lost", "paused")
        beta.admin("pod", "forget", POD, "--yes")
        assert not beta.admin("pod", "list", "--all") and not beta.admin("volume", "list", "--all")
        self.host.verb("verify", pair.url(alpha), "--size", str(64 * MIB), "--seed", "1")
        return "beta has no pod and no volume, alpha serves its own"

    def fsck(self) -> str:
        for array in self.pair.arrays:
            assert array.stop() == 0
            array.fsck()
        return "both clean"


def one_clean(pair: Pair) -> bool:
    """Whether a comparison finds both arrays equal."""
    found = pair.sequencer().admin("pod", "verify", POD)
    return (found["state"], found["different_bytes"]) == ("complete", 0)


def wait_stopped(pair: Pair, array: Array) -> bool:
    """Whether an array has diverged, some seconds after both have met."""
    try:
        pair.wait_state(array, "diverged", limit=8)
    except Failed:
        return False
    return True


def is_refused(array: Array, words: str, *command: str) -> bool:
    try:
        array.admin(*command)
    except Failed as e:
        return words in str(e)
    raise Failed(f"not refused: {' '.join(command)}")


def is_done(array: Array, *command: str) -> bool:
    try:
        array.admin(*command)
    except Failed:
        return False
    return True
