"""A number in one block that sessions to two arrays count up with COMPARE AND WRITE, as hosts lock files."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections import Counter

from .array import Array
from .load import Session, may_repeat, refusal
from .procs import Failed
from .wire import Closed, Connection

SECTOR = 512
MISCOMPARE = 0xE


def content(number: int, session: int) -> bytes:
    return struct.pack(">QQ", number, session).ljust(SECTOR, b"\0")


class Ats:
    """One session for each array. Each step succeeds for one of them only: the number equals the steps that succeeded."""

    def __init__(self, arrays: dict[str, Array], lun: int, lba: int):
        self.lun, self.lba, self.ending = lun, lba, threading.Event()
        self.done: Counter[str] = Counter()
        self.lost, self.open, self.lock, self.problems = 0, 0, threading.Lock(), []
        self.threads = [
            threading.Thread(target=self.run, args=(name, array, n), daemon=True)
            for n, (name, array) in enumerate(arrays.items())
        ]
        self.sessions = {name: Session(array, lun, f"iqn.2026-11.test:ats-{name}") for name, array in arrays.items()}

    def run(self, name: str, array: Array, number: int) -> None:
        chance = random.Random(number)
        try:
            while not self.ending.is_set():
                try:
                    self.step(name, number, self.sessions[name].connect())
                except (Closed, OSError):
                    self.sessions[name].close()
                    self.ending.wait(0.02)
                self.ending.wait(chance.random() * 0.002)
        except Exception as e:
            self.problems.append(f"{name}: {type(e).__name__}: {e}")
        finally:
            self.sessions[name].close()

    def read(self, connection: Connection) -> bytes | None:
        pdu = connection.command(struct.pack(">BBIBHB", 0x28, 0, self.lba, 0, 1, 0), lun=self.lun, read=SECTOR)
        if (reason := refusal(pdu)) is None:
            return pdu.data
        if not may_repeat(pdu):
            raise Failed(f"a read is answered with {reason}")
        self.ending.wait(0.02)
        return None

    def step(self, name: str, number: int, connection: Connection) -> None:
        old = self.read(connection)
        if old is None:
            return
        new = content(struct.unpack(">Q", old[:8])[0] + 1, number)
        cdb = struct.pack(">BBQ3xBBB", 0x89, 0, self.lba, 1, 0, 0)
        is_known = False
        try:
            pdu = connection.command(cdb, lun=self.lun, out=old + new)
            is_known = refusal(pdu) is None or pdu.sense[0] == MISCOMPARE
        finally:
            if not is_known:
                with self.lock:
                    self.open += 1
        if refusal(pdu) is None:
            self.done[name] += 1
        elif pdu.sense[0] == MISCOMPARE:
            with self.lock:
                self.lost += 1
        elif not may_repeat(pdu):
            raise Failed(f"COMPARE AND WRITE is answered with {refusal(pdu)}")

    def check(self, array: Array) -> str:
        """Compares the number with the steps, after the end. Steps without an answer were carried out or not."""
        if self.problems:
            raise Failed("; ".join(self.problems[:5]))
        session, end = Session(array, self.lun, "iqn.2026-11.test:ats-check"), time.monotonic() + 30
        while (block := self.read(session.connect())) is None:
            if time.monotonic() > end:
                raise Failed("the number cannot be read")
        session.close()
        number, done = struct.unpack(">Q", block[:8])[0], self.done.total()
        if not done <= number <= done + self.open:
            raise Failed(f"{done} steps succeeded and {self.open} had no answer, but the number is {number}")
        return f"{number} steps, {self.lost} lost to the other session, {self.open} without an answer"

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(90)
