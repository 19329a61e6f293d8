"""Bad input: each piece gets the standard's answer or a closed connection, a line in the log, and no other session
notices. A witness stays logged in all the while; after every check it must still be served, and the memory of the array
must not have grown beyond what its connections are entitled to."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Process
from ibid_tests.kit.term import size
from ibid_tests.kit.wire import (
    DATA_OUT,
    IMMEDIATE,
    LOGIN,
    LOGIN_RESPONSE,
    NOP_OUT,
    REJECT,
    SCSI_COMMAND,
    TEXT,
    Closed,
    Connection,
    crc32c,
    header,
    text,
)
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "bad-input"
MIB = 1 << 20
GOOD, CHECK_CONDITION, RESERVATION_CONFLICT = 0x00, 0x02, 0x18
ILLEGAL_REQUEST, COPY_ABORTED = 0x05, 0x0A
OWNER, THIEF = "iqn.2026-11.test:owner", "iqn.2026-11.test:thief"
# Memory allowed for one connection: its buffers, and the commands in its window.
PER_CONNECTION = 4 * MIB
CROWD = 400
HOSTILE = 128


class Scene:
    """An array with two volumes of two hosts, and a control session on the first."""

    def __init__(self, array: Array):
        self.array = array
        self.port = array.ports[0]
        self.witness = self.join(OWNER)
        self.settle(self.witness)
        self.memory = array.process.memory()

    def connect(self) -> Connection:
        return Connection(self.port)

    def join(self, initiator: str, **keys: str) -> Connection:
        c = self.connect()
        c.login(self.array.iqn, initiator, **keys)
        return c

    def settle(self, c: Connection, lun: int = 1) -> Connection:
        """Consumes the unit attentions of a new nexus."""
        for _ in range(8):
            if c.command(bytes(6), lun=lun).status == GOOD:
                return c
        raise AssertionError("TEST UNIT READY is never GOOD")

    def unharmed(self, connections: int = 1) -> str:
        """Checks that the control session is served, and that memory is within the limit for `connections` connections."""
        assert self.witness.ping(), "the control session's NOP came back changed"
        assert self.witness.command(bytes(6), lun=1).status == GOOD, "the control session is not served"
        grown = self.array.process.memory() - self.memory
        allowed = 32 * MIB + connections * PER_CONNECTION
        assert grown <= allowed, f"memory grew by {size(grown)}, more than {size(allowed)}"
        return f"memory {'+' if grown >= 0 else '-'}{size(abs(grown))}"

    def log_grew(self, act: Callable[[], None]) -> None:
        before = self.array.log.stat().st_size
        act()
        assert self.array.log.stat().st_size > before, "the array logged nothing about it"


def answered_or_closed(c: Connection) -> int | None:
    """The opcode of the answer, or None if the target closed the connection. A timeout raises."""
    try:
        return c.receive().opcode
    except TimeoutError:
        raise AssertionError("neither answered nor closed") from None
    except (Closed, OSError):
        return None


def strangers(scene: Scene) -> list[tuple[str, Callable[[], str]]]:
    """Input before a login."""
    chance = random.Random(20261121)

    def sends(*pieces: bytes, logged: bool = False) -> Callable[[], str]:
        # Later lines of the same kind may be suppressed, so that a client cannot fill the log.
        def check() -> str:
            def act() -> None:
                for piece in pieces:
                    with scene.connect() as c, contextlib.suppress(OSError):
                        c.socket.sendall(piece)
                        if len(piece) < 48:  # less than a header: the target waits for more until the end of the stream
                            c.socket.shutdown(socket.SHUT_WR)
                        assert answered_or_closed(c) in (None, REJECT, LOGIN_RESPONSE)
                        assert c.closed(), "the connection stays open"

            scene.log_grew(act) if logged else act()
            return scene.unharmed()

        return check

    def refused(klass: int, detail: int | None, keys: bytes, **more: int) -> Callable[[], str]:
        def check() -> str:
            with scene.connect() as c:
                answer = c.login_pdu(keys, **more)
                got = answer.header[36], answer.header[37]
                assert answer.opcode == LOGIN_RESPONSE, f"opcode {answer.opcode:#x}"
                assert got[0] == klass and detail in (None, got[1]), f"status {got[0]:02x}{got[1]:02x}"
                assert c.closed(), "the connection stays open after a refused login"
            scene.unharmed()
            return f"status {got[0]:02x}{got[1]:02x}"

        return check

    def half_logins() -> str:
        keys = text(InitiatorName=OWNER, TargetName=scene.array.iqn)
        whole = header(LOGIN | IMMEDIATE, 0x87, length=len(keys), tag=1, cmd_sn=1) + keys
        with contextlib.ExitStack() as stack:
            for n in range(100):
                c = stack.enter_context(scene.connect())
                c.socket.sendall(whole[: 1 + n % (len(whole) - 1)])
            with scene.join(OWNER) as late:
                scene.settle(late)
            return scene.unharmed(connections=101)

    iqn = scene.array.iqn
    name = dict(InitiatorName=OWNER)
    command = header(SCSI_COMMAND, 0x80, tag=1, lun=1)
    huge_login = header(LOGIN | IMMEDIATE, 0x87, length=0xFFFFFF, tag=1) + bytes(4096)
    return [
        ("garbage on the port", sends(*(b"\x3f" + chance.randbytes(n) for n in (47, 48, 1000, 65536)), logged=True)),
        (
            "another protocol on the port",
            sends(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(48), bytes.fromhex("160301020001") + bytes(64)),
        ),
        ("a command before login", sends(command)),
        ("a login of 16 MiB", sends(huge_login)),
        ("a login with 1020 bytes of additional header", sends(header(LOGIN | IMMEDIATE, 0x87, ahs=255) + bytes(2048))),
        ("login: version too high (0205)", refused(2, 5, text(**name, TargetName=iqn), version=0x7F)),
        ("login: no initiator name (0207)", refused(2, 7, text(TargetName=iqn))),
        ("login: no target name (0207)", refused(2, 7, text(**name, SessionType="Normal"))),
        ("login: unknown target (0203)", refused(2, 3, text(**name, TargetName="iqn.2026-11.test:nobody"))),
        ("login: from stage 1 back to 0", refused(2, None, text(**name, TargetName=iqn), flags=0x84)),
        ("login: text without end or equals sign", refused(2, None, b"\xff" * 100)),
        ("half a login, a hundred times", half_logins),
    ]


def guests(scene: Scene) -> list[tuple[str, Callable[[], str]]]:
    """Invalid input of a host that is logged in."""

    def digest(kind: str, expected: tuple) -> Callable[[], str]:
        def check() -> str:
            keys = {
                "HeaderDigest": "CRC32C" if kind == "header" else "None",
                "DataDigest": "CRC32C" if kind == "data" else "None",
            }
            with scene.join(OWNER, **keys) as c:
                assert (c.header_digest, c.data_digest) == (kind == "header", kind == "data"), "digest not agreed to"
                scene.settle(c)
                payload = b"ping"
                bhs = header(
                    NOP_OUT | IMMEDIATE, length=4, tag=9, word20=0xFFFFFFFF, cmd_sn=c.cmd_sn, stat_sn=c.exp_stat_sn
                )
                wrong = bytes(b ^ 1 for b in crc32c(bhs if kind == "header" else payload))
                c.socket.sendall(bhs + wrong + payload if kind == "header" else bhs + payload + wrong)
                got = answered_or_closed(c)
                assert got in expected, f"answered with opcode {got}"
            scene.unharmed()
            return "closed" if got is None else "rejected"

        return check

    def unasked() -> str:
        """Data without a command may be late data of an aborted one: it is dropped, and the session continues."""
        with scene.join(OWNER) as c:
            scene.settle(c)
            c.send(header(DATA_OUT, length=512, tag=0x1234, word20=0x1234, stat_sn=c.exp_stat_sn), bytes(512))
            assert c.ping() and c.command(bytes(6), lun=1).status == GOOD, "the session did not continue"
        scene.unharmed()
        return "dropped"

    def pdu(bhs: Callable[[Connection], bytes], then: bytes = b"") -> Callable[[], str]:
        def check() -> str:
            with scene.join(OWNER) as c:
                scene.settle(c)
                with contextlib.suppress(OSError):
                    c.socket.sendall(bhs(c) + then)
                got = answered_or_closed(c)
                assert got in (None, REJECT), f"answered with opcode {got:#x}"
            scene.unharmed()
            return "closed" if got is None else "rejected"

        return check

    def out_of_window() -> str:
        with scene.join(OWNER) as c:
            scene.settle(c)
            for sn in (c.cmd_sn - 1, c.cmd_sn + 1_000_000, c.cmd_sn - 1_000_000):
                c.send(
                    header(
                        SCSI_COMMAND,
                        0x80,
                        lun=1,
                        tag=sn & 0xFFFF | 0x10000,
                        cmd_sn=sn & 0xFFFFFFFF,
                        stat_sn=c.exp_stat_sn,
                    )
                )
            # Commands outside the window are dropped silently (RFC 7143 4.2.2.1), and the next one is served.
            assert c.command(bytes(6), lun=1).tag == c.tag, "a command outside the window was answered"
        return scene.unharmed()

    def every_cdb() -> str:
        """Every operation code with all other bits set, and with no other bit set."""
        counts = {"good": 0, "check": 0}
        with scene.join(OWNER) as c:
            scene.settle(c)
            for opcode in range(256):
                for fill in (0xFF, 0x00):
                    answer = c.command(bytes([opcode]) + bytes([fill]) * 15, lun=1)
                    assert answer.opcode != REJECT, f"operation code {opcode:#04x}: rejected"
                    good = answer.status == GOOD
                    assert good or answer.status in (CHECK_CONDITION, RESERVATION_CONFLICT), (
                        f"{opcode:#04x}: status {answer.status:#x}"
                    )
                    assert good or answer.status == RESERVATION_CONFLICT or answer.sense[0] != 0, (
                        f"{opcode:#04x}: no sense"
                    )
                    counts["good" if good else "check"] += 1
            # Release the reservations that these commands took.
            c.command(b"\x17", lun=1)
        scene.settle(scene.witness)
        scene.unharmed()
        return f"{counts['check']} refused, {counts['good']} done"

    def parameter_lists() -> str:
        """Parameter lists with wrong lengths: UNMAP, EXTENDED COPY, PERSISTENT RESERVE OUT, MODE SELECT."""
        with scene.join(OWNER) as c:
            scene.settle(c)
            unmap, xcopy, prout, select = (
                b"\x42" + bytes(6),
                b"\x83" + bytes(9),
                b"\x5f" + bytes(6),
                b"\x55\x10" + bytes(5),
            )
            lists = [
                b"\xff" * 8,
                b"\xff" * 24,
                b"\xff\xff\xff\xff" + bytes(20),
                b"\0\6\0\1" + b"\xff" * 60,
                b"\xff" * 4096,
            ]
            for lie in lists:
                for cdb, width in ((unmap, 2), (xcopy, 4), (prout, 2), (select, 2)):
                    answer = c.command(cdb + len(lie).to_bytes(width, "big") + b"\0", lun=1, out=lie)
                    names_blocks = min(len(lie) - 8, int.from_bytes(lie[2:4], "big")) >= 16 and any(lie[8:])
                    if cdb is unmap and not names_blocks and answer.status == GOOD:
                        continue  # no whole descriptor, or one of no blocks: nothing to do is no error (SBC-4 5.31)
                    if cdb is prout and answer.status == RESERVATION_CONFLICT:
                        continue  # a list of the right length with a key that is not registered (SPC-4 5.13.6)
                    assert answer.status == CHECK_CONDITION, (
                        f"{cdb[0]:#04x} with a list of {len(lie)}: status {answer.status:#x}"
                    )
                    assert answer.sense[0] == ILLEGAL_REQUEST, f"{cdb[0]:#04x}: sense {answer.sense}"
        return scene.unharmed()

    def bhs(opcode: int, **more: int) -> Callable[[Connection], bytes]:
        return lambda c: header(opcode, tag=5, cmd_sn=c.cmd_sn, stat_sn=c.exp_stat_sn, **more)

    return [
        ("header digest that is wrong", digest("header", (None,))),
        ("data digest that is wrong", digest("data", (None, REJECT))),
        ("an opcode that there is not", pdu(bhs(0x1C | IMMEDIATE))),
        ("a data segment of 16 MiB", pdu(bhs(NOP_OUT | IMMEDIATE, length=0xFFFFFF, word20=0xFFFFFFFF), bytes(MIB))),
        ("data out that nobody asked for", unasked),
        ("text that is not UTF-8", pdu(bhs(TEXT | IMMEDIATE, length=64, word20=0xFFFFFFFF), b"\xff" * 64)),
        ("a second login in full feature phase", pdu(bhs(LOGIN | IMMEDIATE, length=0))),
        ("commands outside the window", out_of_window),
        ("every operation code, every reserved bit", every_cdb),
        ("parameter lists that lie about their length", parameter_lists),
    ]


def naa_of(c: Connection, lun: int) -> bytes:
    """The NAA designator of a LUN, from VPD page 83h (SPC-4 7.8.6)."""
    page = c.command(b"\x12\x01\x83\x01\x00\x00", lun=lun, read=256).data
    at = 4
    while at + 4 <= len(page):
        code_set, kind, length = page[at] & 0xF, page[at + 1] & 0xF, page[at + 3]
        if (code_set, kind) == (1, 3):
            return page[at + 4 : at + 4 + length]
        at += 4 + length
    raise AssertionError("VPD page 83h names no NAA")


def xcopy_list(source: bytes, destination: bytes, blocks: int) -> bytes:
    """EXTENDED COPY(LID1): two E4h designators, one block to block segment (SPC-4 6.4.3, 6.4.6.2)."""

    def cscd(naa: bytes) -> bytes:
        designator = bytes([1, 3, 0, len(naa)]) + naa
        return b"\xe4\x00\x00\x00" + designator.ljust(24, b"\0") + b"\x00" + (512).to_bytes(3, "big")

    segment = b"\x02\x00" + struct.pack(">HHHHHQQ", 24, 0, 1, 0, blocks, 0, 0)
    return struct.pack(">BBHIII", 0, 0, 64, 0, len(segment), 0) + cscd(source) + cscd(destination) + segment


def masking(scene: Scene) -> list[tuple[str, Callable[[], str]]]:
    """A host reaches only its own volumes, by any identifier (CVE-2020-28374)."""

    def xcopy(c: Connection, source: bytes, destination: bytes):
        parameters = xcopy_list(source, destination, 8)
        return c.command(b"\x83" + bytes(9) + len(parameters).to_bytes(4, "big") + b"\0\0", lun=1, out=parameters)

    def theft() -> str:
        with scene.join(THIEF) as thief:
            scene.settle(thief)
            mine, theirs = naa_of(thief, 1), naa_of(scene.witness, 1)
            assert xcopy(thief, mine, mine).status == GOOD, "a copy within the host's own volume is refused"
            for source, destination in ((theirs, mine), (mine, theirs)):
                answer = xcopy(thief, source, destination)
                assert answer.status == CHECK_CONDITION, (
                    f"EXTENDED COPY reached a volume of another host: {answer.status}"
                )
                assert answer.sense[0] in (ILLEGAL_REQUEST, COPY_ABORTED), f"sense {answer.sense}"
            read = thief.command(b"\x28" + bytes(6) + b"\0\x08\0", lun=1, read=4096).data
            assert b"owner" not in read, "the other host's data arrived"
        with_owner = scene.witness.command(b"\x28" + bytes(6) + b"\0\x08\0", lun=1, read=4096).data
        assert with_owner == b"owner".ljust(512, b".") * 8, "the owner's data changed"
        scene.unharmed()
        return f"sense {answer.sense[0]:02X}/{answer.sense[1]:02X}/{answer.sense[2]:02X}"

    def unknown_lun() -> str:
        answer = scene.witness.command(b"\x28" + bytes(9), lun=77, read=512)
        assert answer.status == CHECK_CONDITION and answer.sense[:2] == (ILLEGAL_REQUEST, 0x25), f"sense {answer.sense}"
        return "sense 05/25/00"

    def stranger() -> str:
        """An initiator without a host is refused, or sees no LUN."""
        try:
            c = scene.join("iqn.2026-11.test:stranger")
        except Closed as e:
            return str(e)
        with c:
            answer = c.command(b"\xa0" + bytes(5) + (256).to_bytes(4, "big") + b"\0\0", read=256)
            listed = int.from_bytes(answer.data[:4], "big") // 8
            luns = [answer.data[8 + 8 * n + 1] for n in range(listed)]
            assert not set(luns) - {0}, f"an unknown initiator sees LUNs {luns}"
            assert c.command(b"\x28" + bytes(9), lun=1, read=512).status == CHECK_CONDITION, (
                "an unknown initiator reads"
            )
        return "admitted, and sees nothing"

    return [
        ("EXTENDED COPY of another host's volume", theft),
        ("a LUN that there is not", unknown_lun),
        ("an initiator that nobody knows", stranger),
    ]


def crowds(scene: Scene) -> list[tuple[str, Callable[[], str]]]:
    def idle() -> str:
        with contextlib.ExitStack() as stack:
            for _ in range(CROWD):
                stack.enter_context(scene.connect())
            return f"{CROWD} connections, {scene.unharmed(CROWD // 4)}"

    def sessions() -> str:
        with contextlib.ExitStack() as stack:
            for _ in range(CROWD // 4):
                c = stack.enter_context(scene.join(OWNER))
                c.command(bytes(6), lun=1)
            return f"{CROWD // 4} sessions, {scene.unharmed(CROWD // 4)}"

    def deaf() -> str:
        """Hosts that request much and read nothing: their output is bounded."""
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                c = stack.enter_context(scene.join(OWNER))
                scene.settle(c)
                for n in range(32):
                    c.tag += 1
                    cdb = b"\x28" + bytes(6) + (2048).to_bytes(2, "big") + b"\0"
                    c.send(
                        header(
                            SCSI_COMMAND,
                            0xC0,
                            lun=1,
                            tag=c.tag,
                            word20=MIB,
                            cmd_sn=c.cmd_sn + n,
                            stat_sn=c.exp_stat_sn,
                            rest=cdb.ljust(16, b"\0"),
                        )
                    )
            grown = scene.unharmed(connections=8 * 8)
        return f"256 MiB requested and not read, {grown}"

    def gone() -> str:
        """Sessions that end in the middle of a write leave no state."""
        for _ in range(200):
            with scene.join(OWNER) as c:
                cdb = b"\x2a" + bytes(4) + b"\x10\0" + (2048).to_bytes(2, "big") + b"\0"
                c.send(header(SCSI_COMMAND, 0xA0, lun=1, tag=3, word20=MIB, cmd_sn=1, rest=cdb.ljust(16, b"\0")))
        return scene.unharmed(connections=4)

    def hostile() -> str:
        """Every kind of hostile client at once; see scripts/hostile.py for the measurement."""
        array = scene.array
        command = [sys.executable, "-m", "ibid_tests.kit.hostile", "--iscsi", str(scene.port), "--iqn", array.iqn]
        command += ["--api", str(array.api_port), "--initiator", THIEF, "--count", str(HOSTILE)]
        with Process(command, array.dir / "hostile.log", {"PYTHONPATH": str(Path(__file__).parents[2])}) as clients:
            clients.await_line("ready", 120)
            for _ in range(20):
                with scene.join(OWNER) as c:
                    scene.settle(c)
            shown = array.admin("array", "show")
            assert shown["array"]["space"], "the API does not answer"
            grown = scene.unharmed(connections=HOSTILE)
            assert clients.alive(), f"the hostile clients ended:\n{clients.tail()}"
        return f"{HOSTILE} connections of every kind, 20 of 20 logins, {grown}"

    return [
        (f"{CROWD} silent connections", idle),
        (f"{CROWD // 4} sessions at once", sessions),
        ("hosts that ask and do not read", deaf),
        ("hosts that vanish in the middle of a write", gone),
        (f"{HOSTILE} hostile clients of every kind", hostile),
    ]


def run(lab: Lab) -> Iterator[Result]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with Array(lab.bin, portals=1, base=lab.scratch("arrays")) as array:
        array.start()
        array.admit("owner", OWNER)
        array.admit("thief", THIEF)
        array.volume("owned", "256MiB", 1, host="owner")
        array.volume("thieves", "256MiB", 1, host="thief")
        scene = Scene(array)
        block = b"owner".ljust(512, b".") * 8
        assert scene.witness.command(b"\x2a" + bytes(6) + b"\0\x08\0", lun=1, out=block).status == GOOD
        for part in (strangers, guests, masking, crowds):
            # every_cdb overwrites blocks: write the owner's blocks again for the next tests.
            scene.witness.command(b"\x2a" + bytes(6) + b"\0\x08\0", lun=1, out=block)
            yield from checks(SUITE, part(scene))
        yield from checks(SUITE, [("the array stops when it is told to", lambda: f"exit {stopped(array)}")])


def stopped(array: Array) -> int:
    code = array.stop()
    assert code == 0, f"exit {code} after SIGTERM"
    return code
