"""A minimal iSCSI initiator (RFC 7143) for hostile tests: builds any PDU, valid or not, and reads answers.

It is deliberately not the project's own initiator, because it must be able to send what that one never sends.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

NOP_OUT, SCSI_COMMAND, TASK_MGMT, LOGIN, TEXT, DATA_OUT, LOGOUT = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
NOP_IN, SCSI_RESPONSE, TASK_MGMT_RESPONSE, LOGIN_RESPONSE, TEXT_RESPONSE = 0x20, 0x21, 0x22, 0x23, 0x24
DATA_IN, LOGOUT_RESPONSE, R2T, ASYNC, REJECT = 0x25, 0x26, 0x31, 0x32, 0x3F
IMMEDIATE = 0x40


class Closed(Exception):
    """The target closed the connection."""


@dataclass
class Pdu:
    """A received PDU: its 48-byte header, and its data segment without padding."""

    header: bytes
    data: bytes

    @property
    def opcode(self) -> int:
        return self.header[0] & 0x3F

    @property
    def tag(self) -> int:
        return struct.unpack(">I", self.header[16:20])[0]

    @property
    def status(self) -> int:
        """SCSI status of a SCSI Response or a Data-In with the S bit (RFC 7143 11.4.2)."""
        return self.header[3]

    @property
    def sense(self) -> tuple[int, int, int]:
        """Key, ASC, ASCQ of fixed format sense data, which follows a two-byte length (RFC 7143 11.4.7.2)."""
        s = self.data[2:]
        if s and s[0] & 0x7F in (0x72, 0x73):
            return s[1] & 0xF, s[2], s[3]
        return (s[2] & 0xF, s[12], s[13]) if len(s) >= 14 else (0, 0, 0)


def header(
    opcode: int,
    flags: int = 0x80,
    *,
    length: int = 0,
    ahs: int = 0,
    lun: int = 0,
    tag: int = 0,
    word20: int = 0,
    cmd_sn: int = 0,
    stat_sn: int = 0,
    rest: bytes = b"",
) -> bytes:
    """The 48 bytes of a basic header segment (RFC 7143 11.2.1); `rest` begins at byte 32."""
    bhs = bytes([opcode, flags, 0, 0, ahs]) + length.to_bytes(3, "big")
    bhs += struct.pack(">BB6x", 0, lun) + struct.pack(">IIII", tag, word20, cmd_sn, stat_sn)
    return (bhs + rest).ljust(48, b"\0")[:48]


def crc32c(data: bytes) -> bytes:
    """The digest in wire format (RFC 7143 13.1, 8.2.1)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return struct.pack("<I", crc ^ 0xFFFFFFFF)


def _crc32c_table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


CRC32C_TABLE = _crc32c_table()


def text(**keys: str) -> bytes:
    return b"".join(f"{k}={v}\0".encode() for k, v in keys.items())


class Connection:
    """A TCP connection to a target, with the minimal state for a test."""

    def __init__(self, port: int, host: str = "127.0.0.1", limit: float = 20):
        self.socket = socket.create_connection((host, port), timeout=limit)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.cmd_sn, self.exp_stat_sn, self.tag = 1, 0, 1
        self.isid = b"\x80" + struct.pack(">I", id(self) & 0xFFFFFFFF) + b"\0"
        self.header_digest = self.data_digest = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, bhs: bytes, data: bytes = b"") -> None:
        """Sends a header and its data segment, padded to four bytes (RFC 7143 11.7), with the negotiated digests."""
        padded = data + b"\0" * (-len(data) % 4)
        header_digest = crc32c(bhs) if self.header_digest else b""
        data_digest = crc32c(padded) if self.data_digest and padded else b""
        self.socket.sendall(bhs + header_digest + padded + data_digest)

    def receive(self) -> Pdu:
        bhs = self._exactly(48)
        if bhs[4]:
            self._exactly(4 * bhs[4])
        if self.header_digest:
            self._exactly(4)
        length = int.from_bytes(bhs[5:8], "big")
        data = self._exactly(length + -length % 4)[:length]
        if length and self.data_digest:
            self._exactly(4)
        pdu = Pdu(bhs, data)
        if pdu.opcode != DATA_IN or bhs[1] & 1:
            self.exp_stat_sn = struct.unpack(">I", bhs[24:28])[0] + 1
        return pdu

    def _exactly(self, n: int) -> bytes:
        got = bytearray()
        while len(got) < n:
            try:
                part = self.socket.recv(n - len(got))
            except (ConnectionResetError, BrokenPipeError) as e:
                raise Closed from e
            if not part:
                raise Closed
            got += part
        return bytes(got)

    def closed(self) -> bool:
        """Drops input until the target closes the connection (True) or sends nothing more (False)."""
        try:
            while self.socket.recv(65536):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True

    def login_pdu(self, keys: bytes, *, flags: int = 0x87, version: int = 0) -> Pdu:
        """One Login Request, by default straight from operational negotiation to full feature (0x87), and its answer."""
        bhs = bytearray(
            header(
                LOGIN | IMMEDIATE, flags, length=len(keys), tag=self.tag, cmd_sn=self.cmd_sn, stat_sn=self.exp_stat_sn
            )
        )
        bhs[2] = bhs[3] = version
        bhs[8:14], bhs[14:16], bhs[20:24] = self.isid, b"\0\0", b"\0\0\0\0"
        self.send(bytes(bhs), keys)
        return self.receive()

    def login(self, target: str | None, initiator: str = "iqn.2026-11.test:outside", **keys: str) -> Pdu:
        """Logs in, to a discovery session if no target is given. Raises if the login is refused."""
        said = {
            "InitiatorName": initiator,
            **({"SessionType": "Normal", "TargetName": target} if target else {"SessionType": "Discovery"}),
            **keys,
        }
        answer = self.login_pdu(text(**said))
        if answer.opcode != LOGIN_RESPONSE or answer.header[36] != 0:
            raise Closed(f"login refused: class {answer.header[36]}, detail {answer.header[37]}")
        self.header_digest = b"HeaderDigest=CRC32C" in answer.data
        self.data_digest = b"DataDigest=CRC32C" in answer.data
        return answer

    def send_command(self, cdb: bytes, *, lun: int = 0, read: int = 0, out: bytes = b"") -> int:
        """Sends one SCSI command with immediate data only, and returns its tag."""
        flags = 0x80 | (0x40 if read else 0) | (0x20 if out else 0)
        self.tag += 1
        bhs = header(
            SCSI_COMMAND,
            flags,
            length=len(out),
            lun=lun,
            tag=self.tag,
            word20=read or len(out),
            cmd_sn=self.cmd_sn,
            stat_sn=self.exp_stat_sn,
            rest=cdb.ljust(16, b"\0"),
        )
        self.cmd_sn += 1
        self.send(bhs, out)
        return self.tag

    def command(self, cdb: bytes, *, lun: int = 0, read: int = 0, out: bytes = b"") -> Pdu:
        """Runs one SCSI command with immediate data only, and returns its SCSI Response (or final Data-In)."""
        self.send_command(cdb, lun=lun, read=read, out=out)
        data = b""
        while True:
            pdu = self.receive()
            if pdu.opcode == DATA_IN:
                data += pdu.data
                if pdu.header[1] & 1:
                    return Pdu(pdu.header, data)
            elif pdu.opcode in (SCSI_RESPONSE, REJECT):
                return pdu

    def function(self, code: int, *, lun: int = 0) -> int:
        """Sends a task management function (RFC 7143 11.5), and returns its response."""
        self.tag += 1
        bhs = header(
            TASK_MGMT | IMMEDIATE,
            0x80 | code,
            lun=lun,
            tag=self.tag,
            word20=0xFFFFFFFF,
            cmd_sn=self.cmd_sn,
            stat_sn=self.exp_stat_sn,
        )
        self.send(bhs)
        while True:
            pdu = self.receive()
            if pdu.opcode == TASK_MGMT_RESPONSE and pdu.tag == self.tag:
                return pdu.header[2]

    def ping(self) -> bool:
        """Sends a NOP-Out that requests the same bytes back (RFC 7143 11.18)."""
        self.tag += 1
        payload = b"the quick brown fox."
        self.send(
            header(
                NOP_OUT | IMMEDIATE,
                length=len(payload),
                tag=self.tag,
                word20=0xFFFFFFFF,
                cmd_sn=self.cmd_sn,
                stat_sn=self.exp_stat_sn,
            ),
            payload,
        )
        while True:
            pdu = self.receive()
            if pdu.opcode == NOP_IN and pdu.tag == self.tag:
                return pdu.data == payload


def discover(port: int, host: str = "127.0.0.1") -> dict[str, list[str]]:
    """SendTargets=All: the targets of a portal and the addresses each reports (RFC 7143 Appendix C)."""
    with Connection(port, host) as c:
        c.login(None)
        keys = text(SendTargets="All")
        c.send(
            header(
                TEXT | IMMEDIATE, length=len(keys), tag=7, word20=0xFFFFFFFF, cmd_sn=c.cmd_sn, stat_sn=c.exp_stat_sn
            ),
            keys,
        )
        found: dict[str, list[str]] = {}
        name = ""
        for pair in c.receive().data.decode().split("\0"):
            key, _, value = pair.partition("=")
            if key == "TargetName":
                name = value
                found[name] = []
            elif key == "TargetAddress":
                found[name].append(value)
        return found
