"""A verifying load on one volume that two arrays serve: sessions to both write and read the same blocks all the time.

Every block of 4 KiB says which block and which version it is. Of each block the load knows the newest version that a host
has been told of, and the newest that it has sent. A read that begins after an answer must not return an older version,
whichever array answers it: so blocks that are lost, torn, old or somebody else's are found while the load runs.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections import Counter

from .array import Array
from .procs import Failed
from .wire import DATA_IN, REJECT, SCSI_RESPONSE, Closed, Connection, Pdu

BLOCK = 4096
SECTORS = BLOCK // 512
"""Blocks that a session writes: a few at a time, so that most reads meet a block that has just been written."""
WINDOW, REGION = 32, 8192
"""Seconds between two commands of a session, and the interruption of a session that is recorded."""
PACE, GAP = 0.001, 0.1
"""Answers that a host meets while arrays lose each other or start: it tries again."""
UNIT_ATTENTION, NOT_READY, ABORTED = 0x6, 0x2, 0xB
CHECK_CONDITION, BUSY, TASK_SET_FULL, TASK_ABORTED = 0x02, 0x08, 0x28, 0x40


def payload(block: int, version: int) -> bytes:
    return struct.pack(">QQQQ", block, version, block ^ version, ~version & (1 << 64) - 1) * (BLOCK // 32)


def version_of(block: int, data: bytes) -> int:
    """The version of a block that was read; raises if it is torn or another block."""
    if data == bytes(BLOCK):
        return 0
    if len(data) != BLOCK:
        raise ValueError(f"{len(data)} bytes")
    version = struct.unpack(">Q", data[8:16])[0]
    if data != payload(block, version):
        said = [struct.unpack(">QQ", data[at : at + 16]) for at in (0, BLOCK // 2)]
        raise ValueError(f"is torn or another block: (block, version) of its halves are {said}")
    return version


def read_cdb(block: int) -> bytes:
    return struct.pack(">BBIBHB", 0x28, 0, block * SECTORS, 0, SECTORS, 0)


def write_cdb(block: int) -> bytes:
    return struct.pack(">BBIBHB", 0x2A, 0, block * SECTORS, 0, SECTORS, 0)


class Blocks:
    """The versions of all blocks: what a host was told (`floor`), and what was sent (`ceiling`)."""

    def __init__(self):
        self.floor: dict[int, int] = {}
        self.ceiling: dict[int, int] = {}
        self.told: dict[int, float] = {}
        self.lock = threading.Lock()
        self.problems: list[str] = []

    def begin(self, block: int) -> int:
        with self.lock:
            version = self.ceiling[block] = self.ceiling.get(block, 0) + 1
            return version

    def raise_floor(self, block: int, version: int) -> None:
        with self.lock:
            self.floor[block] = max(self.floor.get(block, 0), version)
            self.told[block] = time.monotonic()

    def check(self, block: int, floor: int, data: bytes, at: str) -> None:
        """Compares a block that was read with its floor when the read began."""
        try:
            version = version_of(block, data)
            if not floor <= version <= self.ceiling.get(block, 0):
                said = f"version {version}, but {floor} was acknowledged before the read"
                raise ValueError(f"{said} and {self.ceiling.get(block, 0)} is the newest that was sent")
        except ValueError as e:
            self.problems.append(f"block {block} at {at}: {e}")
        else:
            self.raise_floor(block, version)


class Session:
    """A login at one array that is made again whenever it is lost."""

    def __init__(self, array: Array, lun: int, initiator: str, limit: float = 60):
        self.array, self.lun, self.initiator, self.limit = array, lun, initiator, limit
        self.connection: Connection | None = None
        self.isid: bytes | None = None
        """The initiator port; another one for each login without it."""

    def connect(self) -> Connection:
        if not self.connection:
            connection = Connection(self.array.ports[0], limit=self.limit)
            connection.isid = self.isid or connection.isid
            try:
                connection.login(self.array.iqn, self.initiator)
            except BaseException:
                connection.socket.close()
                raise
            self.connection = connection
        return self.connection

    def close(self) -> None:
        if self.connection:
            self.connection.socket.close()
            self.connection = None


class Worker(threading.Thread):
    """One session. It writes blocks of its own and reads those of all, one command at a time."""

    def __init__(self, load: Load, number: int, array: Array, path: str):
        super().__init__(daemon=True)
        self.load, self.array, self.path = load, array, path
        self.session = Session(array, load.lun, f"iqn.2026-11.test:load-{number}")
        self.chance = random.Random(load.seed * 1000 + number)
        self.fresh = list(range(number * REGION, (number + 1) * REGION))
        self.mine = [self.fresh.pop() for _ in range(WINDOW)]
        self.writes, self.reads, self.last = 0, 0, time.monotonic()
        self.doing, self.sent = "", self.last
        self.gaps: list[tuple[float, float]] = []
        """When each interruption of the answered writes began and ended."""

    def run(self) -> None:
        try:
            while not self.load.ending.is_set():
                self.once()
        except Exception as e:
            self.load.blocks.problems.append(f"the load at {self.path} ended: {type(e).__name__}: {e}")
        finally:
            self.session.close()

    def once(self) -> None:
        try:
            self.doing, self.sent = "login", time.monotonic()
            connection = self.session.connect()
            if self.chance.random() < 0.6:
                self.write(connection)
            else:
                self.read(connection)
        except (Closed, OSError) as e:
            self.again(type(e).__name__)
            self.session.close()
        self.load.ending.wait(PACE)

    def again(self, reason: str) -> None:
        self.load.retries[f"{self.path}: {reason}"] += 1
        self.load.ending.wait(0.02)

    def write(self, connection: Connection) -> None:
        at = self.chance.randrange(WINDOW)
        block, good = self.mine[at], False
        version = self.load.blocks.begin(block)
        self.doing, self.sent = f"write of version {version} of block {block}", time.monotonic()
        try:
            good = self.is_good(connection.command(write_cdb(block), lun=self.load.lun, out=payload(block, version)))
        finally:
            if not good:
                # Without an answer, an array may carry out this write at any later time: the block is not written again.
                self.mine[at] = self.fresh.pop()
        if good:
            self.load.blocks.raise_floor(block, version)
            self.writes += 1
            now = time.monotonic()
            if now > self.last + GAP:
                self.gaps.append((self.last, now))
            self.last = now

    def read(self, connection: Connection) -> None:
        block = self.chance.choice(self.chance.choice(self.load.workers).mine)
        floor = self.load.blocks.floor.get(block, 0)
        self.doing, self.sent = f"read of block {block}", time.monotonic()
        pdu = connection.command(read_cdb(block), lun=self.load.lun, read=BLOCK)
        if self.is_good(pdu):
            self.reads += 1
            self.load.blocks.check(block, floor, pdu.data, self.path)

    def is_good(self, pdu: Pdu) -> bool:
        """Whether a command succeeded. Waits a little if the host has to repeat it; everything else is a problem."""
        reason = refusal(pdu)
        if reason is None:
            return True
        if not may_repeat(pdu):
            self.load.blocks.problems.append(f"{self.path} answered {reason}")
        self.again(reason)
        return False

    def pause(self, since: float) -> float:
        """The longest interruption of the answered writes that ended after this time, or has not ended."""
        now = time.monotonic()
        return max([end - max(begin, since) for begin, end in self.gaps if end > since] + [now - max(self.last, since)])


def refusal(pdu: Pdu) -> str | None:
    """The status of a command that failed, in words."""
    if pdu.opcode == REJECT:
        return f"REJECT {pdu.header[2]:02x}"
    if pdu.status == CHECK_CONDITION:
        return "sense {:x}/{:02x}/{:02x}".format(*pdu.sense)
    return f"status {pdu.status:02x}" if pdu.status else None


def may_repeat(pdu: Pdu) -> bool:
    """Whether hosts repeat a command that failed so, at this or the other array."""
    if pdu.opcode == REJECT:
        return False
    if pdu.status == CHECK_CONDITION:
        return pdu.sense[0] in (UNIT_ATTENTION, NOT_READY, ABORTED)
    return pdu.status in (BUSY, TASK_SET_FULL, TASK_ABORTED)


class Load:
    """Sessions to both arrays. As a context manager it runs inside of the block; `check` raises if anything was wrong."""

    def __init__(self, arrays: dict[str, Array], lun: int, sessions: int = 2, seed: int = 1):
        self.lun, self.seed, self.arrays = lun, seed, arrays
        self.blocks, self.retries, self.ending = Blocks(), Counter(), threading.Event()
        self.workers = [
            Worker(self, index * sessions + n, array, name)
            for index, (name, array) in enumerate(arrays.items())
            for n in range(sessions)
        ]

    def of(self, array: Array) -> list[Worker]:
        return [worker for worker in self.workers if worker.array is array]

    def pause(self, array: Array, since: float) -> float:
        """The longest time since then for which a session at this array had no write answered."""
        return max(worker.pause(since) for worker in self.of(array))

    def wait_answered(self, *arrays: Array, limit: float = 30) -> float:
        """Waits until every session at these arrays has had another write answered; returns the seconds."""
        begin = time.monotonic()
        while any(worker.last < begin for array in arrays for worker in self.of(array)):
            if time.monotonic() > begin + limit:
                raise Failed(f"no write is answered for {limit:.0f} s; {self.told()}")
            if self.blocks.problems:
                self.check()
            time.sleep(0.01)
        return time.monotonic() - begin

    @property
    def writes(self) -> int:
        return sum(worker.writes for worker in self.workers)

    @property
    def reads(self) -> int:
        return sum(worker.reads for worker in self.workers)

    def check(self) -> None:
        """Raises if anything was wrong since the last call."""
        if problems := self.blocks.problems[:]:
            del self.blocks.problems[: len(problems)]
            raise Failed(f"{len(problems)} problems: {'; '.join(problems[:3])}")

    def told(self) -> str:
        """The answers after which sessions have tried again."""
        return ", ".join(f"{n} × {reason}" for reason, n in self.retries.most_common()) or "no command was repeated"

    def probe(self, array: Array) -> Probe:
        return Probe(self, array)

    def verify(self, array: Array) -> int:
        """Reads all blocks of the load through one array; returns their number."""
        blocks = sorted(self.blocks.ceiling)
        session = Session(array, self.lun, "iqn.2026-11.test:verify")
        name = next(name for name, a in self.arrays.items() if a is array)
        for block in blocks:
            floor, end = self.blocks.floor.get(block, 0), time.monotonic() + 30
            while True:
                pdu = session.connect().command(read_cdb(block), lun=self.lun, read=BLOCK)
                if refusal(pdu) is None:
                    break
                if not may_repeat(pdu) or time.monotonic() > end:
                    raise Failed(f"{name} answers a read with {refusal(pdu)}")
                time.sleep(0.02)
            self.blocks.check(block, floor, pdu.data, name)
        session.close()
        self.check()
        return len(blocks)

    def start(self) -> Load:
        for worker in self.workers:
            worker.start()
        self.wait_answered(*self.arrays.values())
        return self

    def stop(self, limit: float = 15) -> None:
        """Ends the load. A session that still waits for an answer is a problem."""
        self.ending.set()
        end = time.monotonic() + limit
        for worker in self.workers:
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive():
                waited = time.monotonic() - worker.sent
                self.blocks.problems.append(f"{worker.path} has not answered for {waited:.0f} s: {worker.doing}")
                worker.session.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Probe:
    """Reads that wait in the socket of an array that is stopped, and are answered when it runs again."""

    def __init__(self, load: Load, array: Array, count: int = 16):
        self.load, self.count = load, count
        self.session = Session(array, load.lun, "iqn.2026-11.test:probe")
        connection = self.session.connect()
        while refusal(connection.command(bytes(6), lun=load.lun)):  # TEST UNIT READY: takes the unit attentions
            time.sleep(0.02)
        self.waiting: dict[int, tuple[int, int]] = {}

    def send(self) -> None:
        """Sends reads of blocks that have just been written."""
        connection, blocks = self.session.connect(), self.load.blocks
        with blocks.lock:
            newest = sorted(blocks.floor, key=lambda block: blocks.told[block])[-self.count :]
            floors = {block: blocks.floor[block] for block in newest}
        for block, floor in floors.items():
            tag = connection.send_command(read_cdb(block), lun=self.load.lun, read=BLOCK)
            self.waiting[tag] = (block, floor)

    def collect(self) -> tuple[int, int]:
        """Receives the answers and checks them; returns the number of reads that were answered with data, and of all."""
        asked, good = len(self.waiting), 0
        try:
            while self.waiting:
                pdu = self.session.connect().receive()
                if pdu.tag not in self.waiting or pdu.opcode not in (DATA_IN, SCSI_RESPONSE, REJECT):
                    continue
                block, floor = self.waiting.pop(pdu.tag)
                if pdu.opcode == DATA_IN and refusal(pdu) is None:
                    good += 1
                    self.load.blocks.check(block, floor, pdu.data, "the array that was stopped")
        except (Closed, OSError):
            pass  # an array may end its sessions
        self.session.close()
        self.load.check()
        return good, asked
