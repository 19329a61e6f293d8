"""Two arrays that are connected: keys, a simulated distance, cuts, SIGKILL, SIGSTOP, and strangers at the link."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, free_ports
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "links"
LIMIT = 30.0
LINK_LOST = 16
STRANGERS = 40


def run(lab: Lab) -> Iterator[Result]:
    (port,) = free_ports(1)
    there = f"127.0.0.1:{port}"
    settings = {"capacity": "1GiB", "portals": 1, "base": lab.scratch("arrays")}
    with (
        Array(lab.bin, args=["--name", "alpha", "--number", "1"], **settings) as alpha,
        Array(lab.bin, args=["--name", "beta", "--number", "2", "--link", there], **settings) as beta,
    ):
        alpha.start()
        beta.start()
        yield from checks(
            SUITE,
            [
                ("refusals", lambda: refusals(alpha, beta, there)),
                ("connect", lambda: connect(alpha, beta, there)),
                ("4 ms", lambda: distance(alpha, beta)),
                ("cut", lambda: cut(alpha, beta)),
                ("kill -9", lambda: killed(alpha, beta)),
                ("stopped process", lambda: stopped(alpha, beta)),
                ("strangers", lambda: strangers(alpha, beta, port)),
                ("disconnect", lambda: disconnect(alpha, beta)),
            ],
        )


def link(array: Array) -> dict:
    return array.admin("array", "connections")[0]


def wait(what: str, is_so: Callable[[], bool]) -> float:
    """Waits until it is so; returns the seconds."""
    begin = time.monotonic()
    while not is_so():
        if time.monotonic() > begin + LIMIT:
            raise Failed(f"not {what} within {LIMIT:.0f} s")
        time.sleep(0.05)
    return time.monotonic() - begin


def is_up(array: Array) -> bool:
    now = link(array)
    return now["status"] == "connected" and now["rtt"] is not None


def wait_up(*arrays: Array) -> float:
    return max(wait("connected", lambda array=array: is_up(array)) for array in arrays)


def wait_down(array: Array) -> float:
    return wait("lost", lambda: link(array)["status"] == "connecting" and link(array)["problem"])


def key_of(array: Array) -> str:
    return array.admin("array", "connection-key")["connection_key"]


def refused(array: Array, words: str, *command: str) -> None:
    try:
        array.admin("array", *command)
    except Failed as e:
        assert words in str(e), f"{words!r} is not in: {e}"
    else:
        raise Failed(f"not refused: {' '.join(command)}")


def refusals(alpha: Array, beta: Array, there: str) -> str:
    def attempt(words: str, key: str, address: str = there, *name: str) -> None:
        refused(alpha, words, "connect", *name, "--address", address, "--key", key)

    refused(alpha, "start it with --link", "connection-key")
    wrong = key_of(beta)
    right = key_of(beta)
    attempt("mistyped", right[:-1] + ("0" if right[-1] != "0" else "1"))
    attempt("is not the link of an array", right, f"127.0.0.1:{beta.api_port}")
    attempt("is not the link of an array", right, f"127.0.0.1:{beta.ports[0]}")
    attempt("Connection refused", right, "127.0.0.1:1")
    refused(beta, "to itself", "connect", "--address", there, "--key", right)
    attempt("wrong connection key", wrong)
    attempt("has been used", right)
    attempt("is beta, not gamma", key_of(beta), there, "gamma")
    assert not alpha.admin("array", "connections") and not beta.admin("array", "connections")
    return "keys wrong, used and mistyped; other services; itself; another name"


def connect(alpha: Array, beta: Array, there: str) -> str:
    alpha.admin("array", "connect", "beta", "--address", there, "--key", key_of(beta))
    wait_up(alpha, beta)
    near, far = link(alpha), link(beta)
    assert (near["name"], far["name"]) == ("beta", "alpha"), (near["name"], far["name"])
    assert (near["management_address"], far["management_address"]) == (there, None)
    refused(alpha, "already connected", "connect", "--address", there, "--key", key_of(beta))
    for file in ("link.key", "links.json"):
        mode = (alpha.data / file).stat().st_mode & 0o777
        assert mode == 0o600, f"{file} has mode {mode:o}"
    test = alpha.admin("array", "link-test", "beta")
    rates = [test[f"{direction}_bytes_per_second"] >> 20 for direction in ("sent", "received")]
    assert all(rates) and not test["unanswered"], test
    return f"RTT {near['rtt']['median_usec'] / 1000:.2f} ms; {rates[0]} and {rates[1]} MiB/s"


def distance(alpha: Array, beta: Array) -> str:
    def shortest(array: Array) -> float:
        wait_up(array)
        return link(array)["rtt"]["min_usec"] / 1000

    near = shortest(alpha)
    alpha.admin("array", "distance", "beta", "--rtt", "4ms")
    time.sleep(3)  # fifteen heartbeats
    far = shortest(alpha)
    assert 4.0 <= far <= 4.0 + near + 0.5, f"{far:.2f} ms, {near:.2f} ms without the distance"
    back = link(beta)["rtt"]["median_usec"] / 1000
    assert back >= 4.0 and link(alpha)["simulated_distance"]["rtt_usec"] == 4000, back
    return f"measured {far:.2f} ms at the least ({near:.2f} ms without); {back:.2f} ms from the other side"


def cut(alpha: Array, beta: Array) -> str:
    def alerts() -> list:
        return [alert for alert in alpha.admin("alert", "list") if alert["code"] == LINK_LOST]

    times = []
    for direction in ("in", "out", "both"):
        alpha.admin("array", "distance", "beta", "--cut", direction)
        times.append(max(wait_down(alpha), wait_down(beta)))
        if direction == "in":
            wait("an alert", lambda: bool(alerts()))
        alpha.admin("array", "distance", "beta", "--cut", "none")
        wait_up(alpha, beta)
    wait("the end of the alert", lambda: not alerts())
    alpha.admin("array", "distance", "beta", "--off")
    assert max(times) < 3, times
    return f"in, out, both: noticed after {max(times):.1f} s at most; an alert opened and closed"


def killed(alpha: Array, beta: Array) -> str:
    beta.kill()
    down = wait_down(alpha)
    beta.start()
    up = wait_up(alpha, beta)
    alpha.kill()
    wait_down(beta)
    alpha.start()
    wait_up(alpha, beta)
    return f"noticed after {down:.1f} s; back {up:.1f} s after the start; either side"


def stopped(alpha: Array, beta: Array) -> str:
    os.kill(beta.process.pid, signal.SIGSTOP)
    try:
        down = wait_down(alpha)
    finally:
        os.kill(beta.process.pid, signal.SIGCONT)
    up = wait_up(alpha, beta)
    return f"noticed after {down:.1f} s; back after {up:.1f} s"


def strangers(alpha: Array, beta: Array, port: int) -> str:
    sessions = link(alpha)["sessions"]
    held = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT) for _ in range(STRANGERS)]
    for number, stranger in enumerate(held):
        try:
            stranger.sendall((b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", b"", b"IBIDLINK")[number % 4])
        except OSError:
            continue  # it had to give way
    begin = time.monotonic()
    for stranger in held:
        try:
            while stranger.recv(4096):
                pass
        except ConnectionError:
            pass
        stranger.close()
    ended = time.monotonic() - begin
    assert link(alpha)["sessions"] == sessions and is_up(alpha), link(alpha)
    return f"{STRANGERS} connections ended within {ended:.1f} s; the link was not lost"


def disconnect(alpha: Array, beta: Array) -> str:
    beta.admin("array", "disconnect", "alpha")
    wait("gone on both", lambda: not alpha.admin("array", "connections") and not beta.admin("array", "connections"))
    trail = alpha.admin("admin", "audit")
    entries = [entry for entry in trail if "array-connections" in json.dumps(entry)]
    assert len(entries) > 5 and "****" in json.dumps(entries), trail[:3]
    return "removed by one array, gone on both; in the audit trail"
