"""Task management functions at one of two arrays, and their effect at the other."""

from __future__ import annotations

import struct

from ibid_tests.kit.array import Array
from ibid_tests.kit.load import BLOCK, CHECK_CONDITION, SECTORS, TASK_ABORTED, UNIT_ATTENTION, Session, payload
from ibid_tests.kit.pair import LUN, VOLUME, Pair, wait

"""Functions and their responses (RFC 7143 11.5.1, 11.6.1)."""
CLEAR, RESET_UNIT, RESET_TARGET = 4, 5, 6
COMPLETE, REJECTED = 0, 255
"""The unit attentions of both arrays after each function."""
EXPECTED = {RESET_UNIT: [(0x29, 0x03)], RESET_TARGET: [(0x29, 0x00)], CLEAR: []}
MIB = 1 << 20
"""Writes of 64 KiB that wait for a limit of 1 MiB/s, and the first of their blocks."""
WRITES, BLOCKS, FIRST = 64, 16, 800 * MIB // BLOCK


def attentions(session: Session) -> list[tuple[int, int]]:
    found = []
    while (pdu := session.connect().command(bytes(6), lun=LUN)).status:
        key, *code = pdu.sense
        assert key == UNIT_ATTENTION, pdu.sense
        found.append(tuple(code))
    return found


def limit(array: Array) -> int | None:
    return array.admin("volume", "list", VOLUME)[0]["qos"]["bandwidth_limit"]


def aborted(pair: Pair, session: Session, other: Session) -> int:
    """The number of writes that wait at one array when a reset at the other aborts them."""
    pair.sequencer().admin("volume", "set", VOLUME, "--bandwidth", "1M")
    wait("the limit at both", lambda: all(limit(array) == MIB for array in pair.arrays))
    connection = other.connect()
    for block in range(FIRST, FIRST + WRITES * BLOCKS, BLOCKS):
        cdb = struct.pack(">BBIBHB", 0x2A, 0, block * SECTORS, 0, BLOCKS * SECTORS, 0)
        connection.send_command(cdb, lun=LUN, out=payload(block, 1) * BLOCKS)
    assert session.connect().function(RESET_UNIT, lun=LUN) == COMPLETE
    status = [connection.receive().status for _ in range(WRITES)]
    # A write that arrives after the reset reports it, and those after that one are executed.
    found, reported = status.count(TASK_ABORTED), status.count(CHECK_CONDITION)
    assert found and reported <= 1 and status.count(0) + found + reported == WRITES, status
    pair.sequencer().admin("volume", "set", VOLUME, "--bandwidth", "none")
    wait("no limit", lambda: not any(limit(array) for array in pair.arrays))
    assert attentions(session) == EXPECTED[RESET_UNIT] and (reported or attentions(other) == EXPECTED[RESET_UNIT])
    return found


def resets(pair: Pair) -> str:
    """Each function has the same effect at both arrays, and is rejected if that is not certain."""
    sessions = [Session(array, LUN, f"iqn.2026-11.test:reset-{n}") for n, array in enumerate(pair.arrays)]
    ways = (sessions, sessions[::-1])
    try:
        for session in sessions:
            attentions(session)
        for one, other in ways:
            for function, expected in EXPECTED.items():
                assert one.connect().function(function, lun=LUN) == COMPLETE
                seen = attentions(other), attentions(one)
                assert seen == (expected, expected), (function, seen)
        counts = [aborted(pair, one, other) for one, other in ways]
        with pair.frozen(pair.beta):
            said = sessions[0].connect().function(RESET_UNIT, lun=LUN)
        assert said == REJECTED, said
        pair.wait_sync()
    finally:
        for session in sessions:
            session.close()
    return f"{counts} of {WRITES} writes at the other array aborted; rejected while the other is silent"
