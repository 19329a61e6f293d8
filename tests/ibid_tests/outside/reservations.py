"""Persistent reservations of a volume that comes to two arrays, loses one of them, and leaves the second."""

from __future__ import annotations

import struct
import time

from ibid_tests.kit.array import Array
from ibid_tests.kit.load import CHECK_CONDITION, SECTORS, Session, payload
from ibid_tests.kit.pair import POD, Pair, wait
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.wire import Closed, Pdu

FENCE, FENCE_LUN = f"{POD}::fence", 9
GOOD, BUSY, CONFLICT = 0, 8, 0x18
UNIT_ATTENTION, NOT_READY = 6, 2
"""Service actions of PERSISTENT RESERVE OUT and IN, and the type (SPC-4 6.15, 6.16)."""
REGISTER, RESERVE, PREEMPT_AND_ABORT = 0, 1, 5
READ_KEYS = 0
WRITE_EXCLUSIVE = 1
PATIENCE = 15


class Node:
    """A cluster node with one path. Its initiator port keeps its name over reconnections."""

    def __init__(self, number: int, array: Array):
        self.key, self.array = 0xA0 + number, array
        self.session = Session(array, FENCE_LUN, f"iqn.2026-11.test:node-{number}")
        self.session.isid = b"\x80\0\0\0" + bytes([number]) + b"\0"

    def run(self, cdb: bytes, read: int = 0, out: bytes = b"") -> Pdu:
        """One command, again while the array answers BUSY, not ready or with a unit attention, or is lost."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                pdu = self.session.connect().command(cdb, lun=FENCE_LUN, read=read, out=out)
                repeats = pdu.status == BUSY or (
                    pdu.status == CHECK_CONDITION and pdu.sense[0] in (UNIT_ATTENTION, NOT_READY)
                )
            except (Closed, OSError):
                self.session.close()
                repeats = True
            if not repeats:
                return pdu
            if time.monotonic() > end:
                raise Failed(f"node {self.key:x} gets no answer")
            time.sleep(0.05)

    def reserve_out(self, action: int, key: int, service_key: int, persist: bool = False) -> int:
        cdb = struct.pack(">BBB2xIB", 0x5F, action, WRITE_EXCLUSIVE, 24, 0)
        return self.run(cdb, out=struct.pack(">QQ4xB3x", key, service_key, persist)).status

    def register(self, persist: bool = False) -> None:
        status = self.reserve_out(REGISTER, 0, self.key, persist)
        assert status == GOOD, f"REGISTER of {self.key:x}: status {status:x}"

    def keys(self) -> list[int]:
        data = self.run(struct.pack(">BB5xHB", 0x5E, READ_KEYS, 256, 0), read=256).data
        count = struct.unpack(">I", data[4:8])[0] // 8
        return sorted(struct.unpack(f">{count}Q", data[8 : 8 + 8 * count]))

    def write(self) -> int:
        return self.run(struct.pack(">BBIBHB", 0x2A, 0, 0, 0, SECTORS, 0), out=payload(0, self.key)).status


class Cluster:
    """Two nodes, one at each array, that share a volume of the pod."""

    def __init__(self, pair: Pair):
        self.pair = pair
        self.first, self.second = Node(1, pair.alpha), Node(2, pair.beta)

    def close(self) -> None:
        for node in (self.first, self.second):
            node.session.close()

    def begin(self) -> None:
        """Makes the volume, which the first node reserves, before the pod is stretched."""
        self.pair.alpha.volume(FENCE, "64MiB", FENCE_LUN)
        self.first.register(persist=True)
        assert self.first.reserve_out(RESERVE, self.first.key, 0) == GOOD

    def arrive(self) -> None:
        """The reservation is that of the second array, too."""
        self.pair.beta.connect(FENCE, FENCE_LUN)
        assert self.second.keys() == self.first.keys() == [self.first.key]
        assert (self.first.write(), self.second.write()) == (GOOD, CONFLICT)

    def fenced(self) -> str:
        """The node whose array was killed is preempted at the other one, and stays out when its array is back."""
        pair, first, second = self.pair, self.first, self.second
        second.register(persist=True)
        pair.alpha.kill()
        began = time.monotonic()
        assert second.write() == CONFLICT, "the reservation of the lost array's node holds"
        assert second.reserve_out(PREEMPT_AND_ABORT, second.key, first.key) == GOOD
        took = time.monotonic() - began
        assert second.write() == GOOD
        pair.alpha.start()
        statuses = {first.write() for _ in range(20)}
        pair.wait_sync()
        statuses |= {first.write() for _ in range(20)}
        assert statuses == {CONFLICT}, f"a preempted node's writes: {statuses}"
        assert first.keys() == second.keys() == [second.key]
        first.register(persist=True)
        assert second.keys() == [first.key, second.key]
        for array in pair.arrays:
            array.kill()
        for array in pair.arrays:
            array.start()
        pair.wait_sync()
        assert (first.write(), second.write()) == (CONFLICT, GOOD), "after a crash of both arrays"
        return f"preempted {took:.1f} s after the loss of an array; no write of it later; kept over a crash of both"

    def stay(self, array: Array) -> None:
        """The array that has the pod alone keeps the reservations, also over a restart."""
        node = self.first if array is self.pair.alpha else self.second
        expected = [self.first.key, self.second.key]
        assert node.keys() == expected, node.keys()
        assert array.stop() == 0
        array.start()
        wait("keys after a restart", lambda: node.keys() == expected)
        assert node.write() == (GOOD if node is self.second else CONFLICT)
