#!/usr/bin/env python3
"""What hostile clients and greedy hosts do to others: latency, memory, logins, administration.

    scripts/hostile.py [--bin DIR] [--out DIR] [--secs S] [--connections N] [PART...]

  verify   8 sessions of one host with 120 VERIFY(16) of 32 MiB each: worst TEST UNIT READY of another host
  reads    8 sessions of one host with 64 reads of 1 MiB each: p99 of another host
  nops     4 sessions that flood NOP-Outs, 2 of them for discovery: p99 of a host's reads
  crowd    1 024 hostile connections of every kind: memory, logins of a configured host, answers of the REST API

Each latency is measured alone, beside processes that only use the processors (the control: this is the scheduler of the
machine, not the array), and beside the load. The array, the load and the measurement share the machine. A control that
misses a bound itself makes the bound void on this machine, and the result says so. Writes DIR/hostile.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import ssl
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed, Process
from ibid_tests.kit.term import say, seconds, size, table
from ibid_tests.kit.wire import IMMEDIATE, NOP_IN, NOP_OUT, SCSI_COMMAND, SCSI_RESPONSE, Closed, Connection, header

MIB = 1 << 20
VICTIM, GREEDY = "iqn.2026-11.test:victim", "iqn.2026-11.test:greedy"
MEMORY = 256 * MIB
# Allowed beyond the memory budget: wire memory.
BEYOND = 256 * MIB
VOLUME = 512 * MIB
SESSIONS, VERIFIES, VERIFY_BLOCKS = 8, 120, 32 * MIB // 512
HOGS = 4
LOGINS = 100
# Answers of the API that are timed beside the hogs.
CONTROLS = 20
TEST_UNIT_READY = bytes(6)
READ_4K = b"\x28" + bytes(6) + b"\0\x08\0"


class Measures:
    """The results, and whether each promise is met."""

    def __init__(self):
        self.rows: list[dict] = []

    def add(self, name: str, value: float, bound: float | None, show: Callable[[float], str], void: bool = False):
        verdict = "" if bound is None else "met" if value <= bound else "void" if void else "MISSED"
        row = {"name": name, "value": value, "bound": bound, "verdict": verdict, "shown": show(value)}
        row["limit"] = "" if bound is None else show(bound)
        self.rows.append(row)
        judged = f" (promised {row['limit']}: {verdict})" if verdict else ""
        say(f"  {name}: {row['shown']}{judged}")

    def print(self) -> None:
        cells = [[row["name"], row["shown"], row["limit"], row["verdict"]] for row in self.rows]
        say()
        print(table(["measure", "value", "promised", ""], cells, right={1, 2}))

    def missed(self) -> bool:
        return any(row["verdict"] == "MISSED" for row in self.rows)


def join(array: Array, initiator: str) -> Connection:
    """Logs in and consumes the unit attentions of a new nexus."""
    c = Connection(array.ports[0], limit=120)
    c.login(array.iqn, initiator, MaxRecvDataSegmentLength="262144")
    for _ in range(8):
        if c.command(TEST_UNIT_READY, lun=1).status == 0:
            return c
    raise Failed("TEST UNIT READY is never GOOD")


def latencies(array: Array, cdb: bytes, until: Callable[[], bool]) -> list[float]:
    """Times one command after another in a session of the measured host."""
    read = 4096 if cdb == READ_4K else 0
    times = []
    with join(array, VICTIM) as c:
        while not until():
            begin = time.perf_counter()
            if c.command(cdb, lun=1, read=read).status:
                raise Failed("a command of the measured host failed")
            times.append(time.perf_counter() - begin)
    return times


def timer(secs: float) -> Callable[[], bool]:
    end = time.monotonic() + secs
    return lambda: time.monotonic() > end


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


@contextlib.contextmanager
def hogs(number: int) -> Iterator[None]:
    """Processes that only use the processors."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def verify_session(array: Array, barrier: threading.Barrier) -> None:
    """Sends the VERIFY commands of one session at once, and waits for the answers."""
    cdb = b"\x8f\0" + struct.pack(">QI", 0, VERIFY_BLOCKS) + b"\0\0"
    with join(array, GREEDY) as c:
        barrier.wait()
        for n in range(VERIFIES):
            bhs = header(SCSI_COMMAND, 0x80, lun=1, tag=1000 + n, cmd_sn=c.cmd_sn + n, stat_sn=c.exp_stat_sn, rest=cdb)
            c.socket.sendall(bhs)
        answered = 0
        while answered < VERIFIES:
            answer = c.receive()
            if answer.opcode == NOP_IN:
                c.send(header(NOP_OUT | IMMEDIATE, tag=0xFFFFFFFF, word20=struct.unpack(">I", answer.header[20:24])[0]))
            elif answer.opcode == SCSI_RESPONSE and answer.status == 0:
                answered += 1
            else:
                raise Failed(f"VERIFY ended with opcode {answer.opcode:#x}, status {answer.status}")


def verify_storm(array: Array) -> None:
    barrier = threading.Barrier(SESSIONS)
    with ThreadPoolExecutor(SESSIONS) as pool:
        for session in [pool.submit(verify_session, array, barrier) for _ in range(SESSIONS)]:
            session.result()


def with_verifies(array: Array, cdb: bytes) -> tuple[list[float], float]:
    """Times a command until the VERIFY commands of a process of their own have ended."""
    storm = multiprocessing.get_context("fork").Process(target=verify_storm, args=(array,))
    storm.start()
    begin = time.monotonic()
    times = latencies(array, cdb, lambda: not storm.is_alive())
    took = time.monotonic() - begin
    if storm.exitcode:
        raise Failed("the VERIFY commands failed")
    return times, took


def verify(array: Array, measures: Measures, args: argparse.Namespace) -> None:
    alone = latencies(array, TEST_UNIT_READY, timer(args.secs))
    with hogs(HOGS):
        control = latencies(array, TEST_UNIT_READY, timer(args.secs))
    loaded, took = with_verifies(array, TEST_UNIT_READY)
    measures.add("TEST UNIT READY alone, worst", max(alone), None, seconds)
    measures.add(f"TEST UNIT READY beside {HOGS} CPU hogs, worst", max(control), None, seconds)
    measures.add(f"{SESSIONS} x {VERIFIES} VERIFY of 32 MiB, duration", took, None, seconds)
    measures.add("TEST UNIT READY beside VERIFY, worst", max(loaded), 0.1, seconds, void=max(control) > 0.1)


def bounded(array: Array, measures: Measures, args: argparse.Namespace, name: str, load: list[list[str]]) -> None:
    """Measures reads and TEST UNIT READY of a host alone, beside hogs, and beside processes."""
    for label, cdb in (("4 KiB read", READ_4K), ("TEST UNIT READY", TEST_UNIT_READY)):
        alone = p99(latencies(array, cdb, timer(args.secs)))
        with hogs(len(load)):
            control = p99(latencies(array, cdb, timer(args.secs)))
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in load]
        try:
            time.sleep(1)
            loaded = latencies(array, cdb, timer(args.secs))
            if any(process.poll() is not None for process in running):
                raise Failed(f"{name}: the load ended early")
        finally:
            for process in running:
                process.kill()
                process.wait()
        measures.add(f"{label} alone, p99", alone, None, seconds)
        measures.add(f"{label} beside {len(load)} CPU hogs, p99", control, None, seconds)
        measures.add(f"{label} beside {name}, p99", p99(loaded), 0.03, seconds, void=control > 0.03)
        measures.add(f"{label} beside {name}, worst", max(loaded), None, seconds)


def reads(array: Array, measures: Measures, args: argparse.Namespace) -> None:
    command = [str(args.bin / "ibid-host"), "bench", array.url(1), "--op", "read", "--size", "1M", "--qd", "64"]
    command += ["--secs", str(int(args.secs) + 10), "--initiator", GREEDY, "--json"]
    bounded(array, measures, args, f"{SESSIONS} x 64 reads of 1 MiB", [command] * SESSIONS)


def crowd_command(array: Array, count: int, *kinds: str) -> list[str]:
    command = [sys.executable, "-m", "ibid_tests.kit.hostile", "--iscsi", str(array.ports[0])]
    command += ["--api", str(array.api_port), "--iqn", array.iqn, "--initiator", GREEDY, "--count", str(count)]
    return command + [word for kind in kinds for word in ("--kind", kind)]


def nops(array: Array, measures: Measures, args: argparse.Namespace) -> None:
    # One process each, so that each flood is as fast as Python can send.
    floods = [crowd_command(array, 1, kind) for kind in ("discovery-nops", "session-nops")]
    bounded(array, measures, args, "4 floods of NOPs", floods * 2)


def rest_answer(array: Array) -> float:
    """Logs in over TLS as a new client, and returns the time until the array is shown."""
    begin = time.perf_counter()
    tls = ssl.create_default_context(cafile=str(array.data / "certificate.pem"))
    url = f"https://localhost:{array.api_port}/api/2.26"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
    token = (array.data / "admin-token").read_text().strip()
    login = urllib.request.Request(f"{url}/login", method="POST", headers={"api-token": token})
    with opener.open(login, timeout=20) as answer:
        session = answer.headers["x-auth-token"]
    with opener.open(urllib.request.Request(f"{url}/arrays", headers={"x-auth-token": session}), timeout=20) as answer:
        json.load(answer)
    return time.perf_counter() - begin


def local_answer(array: Array) -> float:
    begin = time.perf_counter()
    array.admin("array", "show")
    return time.perf_counter() - begin


def crowd(array: Array, measures: Measures, args: argparse.Namespace) -> None:
    idle = array.process.memory()
    with hogs(HOGS):
        controls = [[answer(array) for _ in range(CONTROLS)] for answer in (rest_answer, local_answer)]
    slowest_rest, slowest_local = (max(times) for times in controls)
    with Process(crowd_command(array, args.connections), args.out / "crowd.log") as hostile:
        hostile.await_line("ready", 120)
        most, descriptors, end = 0, 0, threading.Event()

        def watch() -> None:
            nonlocal most, descriptors
            while not end.wait(0.1):
                most = max(most, array.process.memory())
                descriptors = max(descriptors, len(os.listdir(f"/proc/{array.process.pid}/fd")))

        watcher = threading.Thread(target=watch)
        watcher.start()
        refused, logins, rest, local = 0, [], [], []
        try:
            for n in range(LOGINS):
                begin = time.perf_counter()
                try:
                    with join(array, VICTIM):
                        logins.append(time.perf_counter() - begin)
                except (Closed, OSError):
                    refused += 1
                if n % 5 == 0:
                    try:
                        rest.append(rest_answer(array))
                    except OSError:
                        rest.append(float("inf"))
                    local.append(local_answer(array))
        finally:
            end.set()
            watcher.join()
        if not hostile.alive():
            raise Failed(f"the hostile clients ended:\n{hostile.tail()}")
    measures.add("open files of the array, most", descriptors, None, lambda n: f"{n:.0f}")
    measures.add("memory before", idle, None, size)
    measures.add(f"memory, {args.connections} hostile connections, most", most, MEMORY + BEYOND, size)
    measures.add(f"refused logins of {LOGINS}", refused, 0, lambda n: f"{n:.0f}")
    measures.add("login of a configured host, worst", max(logins, default=float("inf")), None, seconds)
    name = "REST over TLS: login and one call"
    measures.add(f"{name} beside {HOGS} CPU hogs, worst", slowest_rest, None, seconds)
    measures.add(f"{name}, worst", max(rest), 1.0, seconds, void=slowest_rest > 1.0)
    name = "`ibid array show` over the Unix socket"
    measures.add(f"{name} beside {HOGS} CPU hogs, worst", slowest_local, None, seconds)
    measures.add(f"{name}, worst", max(local), 1.0, seconds, void=slowest_local > 1.0)


PARTS = {"verify": verify, "reads": reads, "nops": nops, "crowd": crowd}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid and ibid-host")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for results and scratch files")
    options.add_argument("--secs", type=float, default=10, help="seconds of each measurement (10)")
    options.add_argument("--connections", type=int, default=1024, help="hostile connections (1024)")
    options.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART")
    args = options.parse_args()
    args.bin, args.out = args.bin.resolve(), args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPATH"] = str(ROOT / "tests")
    measures = Measures()
    try:
        memory = ["--memory", str(MEMORY)]
        with Array(args.bin, capacity="4GiB", portals=1, base=args.out / "scratch", args=memory) as array:
            array.start()
            for host, iqn in (("victim", VICTIM), ("greedy", GREEDY)):
                array.admit(host, iqn)
                array.volume(host, str(VOLUME), 1, host=host)
                Host(args.bin).verb("fill", array.url(1), "--initiator", iqn, "--seed", "1")
            array.settled()
            for part in args.parts or PARTS:
                say(f"{part}", "bold")
                PARTS[part](array, measures, args)
    except Failed as e:
        say(f"  {e}", "red")
        return 1
    measures.print()
    report = {
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "at": time.strftime("%FT%TZ", time.gmtime()),
        "measures": measures.rows,
    }
    (args.out / "hostile.json").write_text(json.dumps(report, indent=1) + "\n")
    return 1 if measures.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
