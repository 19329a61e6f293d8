"""Hostile clients: many connections of every kind, opened again when the array closes them.

    python3 -m ibid_tests.kit.hostile --iscsi PORT --api PORT --iqn NAME --initiator NAME --count N [--kind KIND...]

Runs until it is killed. Prints `ready` when each connection was tried once. Some come from the address of the measured
hosts, 127.0.0.1, the others from seven more. A process of its own, so that it shares no interpreter with a measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import ssl
import sys
from collections.abc import Awaitable, Callable

from .wire import IMMEDIATE, LOGIN, NOP_OUT, SCSI_COMMAND, TEXT, header, text

# Seconds before a closed connection is opened again.
PAUSE = 0.2
SOURCES = [f"127.0.0.{n}" for n in range(1, 9)]
# Bytes of NOP-Outs in one write.
BATCH = 64 << 10
# Sessions of one host that the array admits.
SESSIONS = 128
# Reads of 1 MiB that a deaf session asks for.
READS = 64
MIB = 1 << 20

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def discard(reader: asyncio.StreamReader) -> None:
    """Reads until the array closes the connection."""
    while await reader.read(1 << 16):
        pass


class Crowd:
    """Hostile clients of one array."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.numbers = itertools.count()
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        self.kinds: dict[str, Callable[[str], Awaitable[None]]] = {
            "silent": self.silent,
            "discovery-nops": self.discovery_nops,
            "session-nops": self.session_nops,
            "deaf-nops": self.deaf_nops,
            "deaf-reads": self.deaf_reads,
            "wrong-names": self.wrong_name,
            "half-logins": self.half_login,
            "huge-text": self.huge_text,
            "silent-tcp": self.silent_api,
            "silent-tls": self.silent_tls,
            "slow-heads": self.slow_head,
            "deaf-api": self.deaf_api,
            "wrong-tokens": self.wrong_token,
        }

    async def iscsi(self, source: str) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.args.iscsi, local_addr=(source, 0))

    async def login(self, source: str, initiator: str, **keys: str) -> Streams:
        reader, writer = await self.iscsi(source)
        said = text(InitiatorName=initiator, **keys)
        bhs = bytearray(header(LOGIN | IMMEDIATE, 0x87, length=len(said), tag=1, cmd_sn=1))
        bhs[8:14] = b"\x80" + next(self.numbers).to_bytes(4, "big") + b"\0"
        writer.write(bytes(bhs) + said + b"\0" * (-len(said) % 4))
        answer = await reader.readexactly(48)
        if answer[36]:
            raise ConnectionError("login refused")
        return reader, writer

    async def silent(self, source: str) -> None:
        reader, _ = await self.iscsi(source)
        await discard(reader)

    async def flood(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Immediate NOP-Outs with answers, as fast as the array takes them. The answers are read."""
        nop = header(NOP_OUT | IMMEDIATE, tag=1, word20=0xFFFFFFFF, cmd_sn=1)
        batch = nop * (BATCH // len(nop))
        reading = asyncio.create_task(discard(reader))
        try:
            while not reading.done():
                writer.write(batch)
                await writer.drain()
                await asyncio.sleep(0)
        finally:
            reading.cancel()

    async def discovery_nops(self, source: str) -> None:
        name = f"iqn.2026-11.test:nobody{next(self.numbers)}"
        await self.flood(*await self.login(source, name, SessionType="Discovery"))

    async def session_nops(self, source: str) -> None:
        keys = {"SessionType": "Normal", "TargetName": self.args.iqn}
        await self.flood(*await self.login(source, self.args.initiator, **keys))

    async def deaf_nops(self, source: str) -> None:
        """A flood of NOP-Outs whose answers are not read."""
        name = f"iqn.2026-11.test:nobody{next(self.numbers)}"
        _, writer = await self.login(source, name, SessionType="Discovery")
        await self.send_only(writer, header(NOP_OUT | IMMEDIATE, tag=1, word20=0xFFFFFFFF, cmd_sn=1) * 64)

    async def deaf_reads(self, source: str) -> None:
        """Reads of 1 MiB whose answers are not read, then NOP-Outs."""
        keys = {"SessionType": "Normal", "TargetName": self.args.iqn}
        _, writer = await self.login(source, self.args.initiator, **keys)
        cdb = b"\x28" + bytes(6) + (MIB // 512).to_bytes(2, "big") + b"\0"
        for n in range(READS):
            more = {"word20": MIB, "cmd_sn": 1 + n, "rest": cdb.ljust(16, b"\0")}
            writer.write(header(SCSI_COMMAND, 0xC0, lun=1, tag=10 + n, **more))
        await self.send_only(writer, header(NOP_OUT | IMMEDIATE, tag=1, word20=0xFFFFFFFF, cmd_sn=1 + READS))

    async def send_only(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        """Sends a piece without end, and pauses the reading, so that answers fill the buffers of the system."""
        writer.transport.pause_reading()
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.1)

    async def wrong_name(self, source: str) -> None:
        """A login of an initiator that belongs to no host."""
        keys = {"SessionType": "Normal", "TargetName": self.args.iqn}
        await self.login(source, f"iqn.2026-11.test:nobody{next(self.numbers)}", **keys)

    async def half_login(self, source: str) -> None:
        reader, writer = await self.iscsi(source)
        said = text(InitiatorName="iqn.2026-11.test:half", TargetName=self.args.iqn)
        whole = header(LOGIN | IMMEDIATE, 0x87, length=len(said), tag=1, cmd_sn=1) + said
        writer.write(whole[: 1 + next(self.numbers) % (len(whole) - 1)])
        await discard(reader)

    async def huge_text(self, source: str) -> None:
        """Text requests of 8 KiB that announce more text to follow, without end."""
        name = f"iqn.2026-11.test:nobody{next(self.numbers)}"
        reader, writer = await self.login(source, name, SessionType="Discovery")
        said = text(**{f"X-key-{n}": "v" * 240 for n in range(32)})
        bhs = header(TEXT | IMMEDIATE, 0x40, length=len(said), tag=2, word20=0xFFFFFFFF, cmd_sn=1)
        reading = asyncio.create_task(discard(reader))
        try:
            while not reading.done():
                writer.write(bhs + said + b"\0" * (-len(said) % 4))
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            reading.cancel()

    async def api(self, source: str, tls: bool) -> Streams:
        secure = {"ssl": self.tls, "server_hostname": "localhost"} if tls else {}
        return await asyncio.open_connection("127.0.0.1", self.args.api, local_addr=(source, 0), **secure)

    async def silent_api(self, source: str) -> None:
        reader, _ = await self.api(source, tls=False)
        await discard(reader)

    async def silent_tls(self, source: str) -> None:
        reader, _ = await self.api(source, tls=True)
        await discard(reader)

    async def slow_head(self, source: str) -> None:
        """A request whose head comes byte by byte."""
        reader, writer = await self.api(source, tls=True)
        reading = asyncio.create_task(discard(reader))
        try:
            for byte in itertools.cycle(b"GET /api/api_version HTTP/1.1\r\nhost: a\r\nx-a: b\r\n"):
                if reading.done():
                    return
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(1)
        finally:
            reading.cancel()

    async def deaf_api(self, source: str) -> None:
        """Requests whose answers are not read."""
        _, writer = await self.api(source, tls=True)
        await self.send_only(writer, b"GET /console/ HTTP/1.1\r\nhost: a\r\n\r\n" * 16)

    async def wrong_token(self, source: str) -> None:
        """Logins with wrong tokens, ten a second on each connection."""
        reader, writer = await self.api(source, tls=True)
        guess = (
            "POST /api/2.26/login HTTP/1.1\r\nhost: a\r\n"
            f"api-token: 00000000-0000-4000-8000-{next(self.numbers):012x}\r\ncontent-length: 0\r\n\r\n"
        )
        reading = asyncio.create_task(discard(reader))
        try:
            while not reading.done():
                writer.write(guess.encode())
                await writer.drain()
                await asyncio.sleep(0.1)
        finally:
            reading.cancel()

    async def repeat(self, client: Callable[[str], Awaitable[None]], source: str, tried: asyncio.Semaphore) -> None:
        first = True
        while True:
            task = asyncio.create_task(client(source))
            if first:
                await asyncio.wait([task], timeout=2)
                tried.release()
                first = False
            with contextlib.suppress(OSError, EOFError, ssl.SSLError):
                await task
            await asyncio.sleep(PAUSE)

    async def run(self) -> None:
        kinds = self.args.kind or list(self.kinds)
        tried = asyncio.Semaphore(0)
        tasks = []
        counts: dict[str, int] = {}
        for n in range(self.args.count):
            kind = kinds[n % len(kinds)]
            if kind in ("session-nops", "deaf-reads") and counts.get(kind, 0) >= SESSIONS // 2:
                kind = "silent"
            source = SOURCES[n // len(kinds) % len(SOURCES)]
            counts[kind] = counts.get(kind, 0) + 1
            tasks.append(asyncio.create_task(self.repeat(self.kinds[kind], source, tried)))
        for _ in tasks:
            await tried.acquire()
        print("\nready\n", flush=True)
        await asyncio.gather(*tasks)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--iscsi", type=int, required=True, help="port of a portal")
    options.add_argument("--api", type=int, required=True, help="port of the REST API")
    options.add_argument("--iqn", required=True, help="name of the target")
    options.add_argument("--initiator", required=True, help="name of a configured host, for sessions")
    options.add_argument("--count", type=int, default=1024, help="number of connections (1024)")
    options.add_argument("--kind", action="append", help="only this kind (all)")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Crowd(options.parse_args()).run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
