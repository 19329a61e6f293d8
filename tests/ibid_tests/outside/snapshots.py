"""Snapshots and clones, made by an administrator and read by a host: content of one instant, regardless of later writes,
before and after a kill."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import seconds, size
from ibid_tests.outside.result import Lab, Result, checks, fsck_agrees

SUITE = "snapshots"
OLD, NEW = ["--seed", "1"], ["--seed", "2"]


def run(lab: Lab) -> Iterator[Result]:
    host = Host(lab.bin)
    length = (1024 if lab.full else 128) << 20
    span = ["--size", str(length)]
    many = 1000 if lab.full else 50
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        vm = array.volume("vm", "1TiB", 1)
        urls: dict[str, str] = {}

        def holds(url: str, what: list[str]) -> None:
            host.verb("verify", url, *span, *what)

        def take() -> str:
            host.verb("fill", vm, *span, *OLD)
            before = array.settled()
            begin = time.monotonic()
            array.admin("snap", "create", "vm", "--suffix", "one")
            took = time.monotonic() - begin
            array.settled()
            grown = array.stored() - (before["unique"] + (before["shared"] or 0) + before["snapshots"])
            assert grown <= 0, f"the snapshot stored {size(grown)} of data"
            host.verb("fill", vm, *span, *NEW)
            holds(vm, NEW)
            return f"of a 1 TiB volume, by the command line in {seconds(took)}, 0 bytes of data"

        def read_only() -> str:
            urls["one"] = array.connect("vm.one", 2)
            holds(urls["one"], OLD)
            try:
                host.verb("fill", urls["one"], "--size", "1MiB")
            except Failed as e:
                assert "27/00" in str(e), f"a write to the snapshot failed with {e}"
            else:
                raise AssertionError("a write to the snapshot was taken")
            holds(urls["one"], OLD)
            return "read as it was; a write is refused with 07/27/00"

        def clone() -> str:
            array.admin("volume", "copy", "vm.one", "clone")
            urls["clone"] = array.connect("clone", 3)
            holds(urls["clone"], OLD)
            host.verb("fill", urls["clone"], *span, "--seed", "3")
            holds(urls["one"], OLD)
            holds(vm, NEW)
            return "written, and neither the snapshot nor the volume changed"

        def restore() -> str:
            array.admin("volume", "copy", "vm.one", "vm", "--overwrite")
            holds(vm, OLD)
            host.verb("fill", vm, "--size", "1MiB", "--seed", "4")
            holds(urls["one"], OLD)
            host.verb("fill", vm, "--size", "1MiB", *OLD)
            return "the volume holds what the snapshot holds, and is written on"

        def group() -> str:
            """Two volumes are written alternately: a snapshot of both has the write to the second only if it has the one to the first."""
            first, second = array.volume("data", "1GiB", 4), array.volume("log", "1GiB", 5)
            for url in (first, second):
                host.verb("fill", url, "--size", "16MiB", *OLD)
            array.admin("snap", "create", "data", "log", "--suffix", "pair")
            for url in (first, second):
                host.verb("fill", url, "--size", "16MiB", *NEW)
            for lun, name in ((6, "data.pair"), (7, "log.pair")):
                urls[name] = array.connect(name, lun)
                host.verb("verify", urls[name], "--size", "16MiB", *OLD)
            return "two volumes by one command"

        def after_kill() -> str:
            array.kill()
            array.start()
            holds(urls["one"], OLD)
            holds(vm, OLD)
            host.verb("verify", urls["clone"], *span, "--seed", "3")
            host.verb("verify", urls["data.pair"], "--size", "16MiB", *OLD)
            return "all of them, after SIGKILL"

        def a_row() -> str:
            """Many snapshots of one volume, each with another state."""
            for n in range(many):
                host.verb(
                    "fill", vm, "--off", str(n << 20), "--from", str(n << 20), "--size", "64KiB", "--seed", str(100 + n)
                )
                array.admin("snap", "create", "vm", "--suffix", f"n{n}")
            for lun, n in enumerate((0, many // 2, many - 1), 10):
                url = array.connect(f"vm.n{n}", lun)
                host.verb(
                    "verify",
                    url,
                    "--off",
                    str(n << 20),
                    "--from",
                    str(n << 20),
                    "--size",
                    "64KiB",
                    "--seed",
                    str(100 + n),
                )
                if n + 1 < min(many, 128):
                    host.verb(
                        "verify", url, "--off", str(n + 1 << 20), "--from", str(n + 1 << 20), "--size", "64KiB", *OLD
                    )
            return f"{many}, each with the data written before it"

        def gone() -> str:
            """Eradication releases space; objects that shared it stay intact."""
            array.settled()
            before = array.stored()
            array.admin("host", "disconnect", "any", "clone")
            array.admin("volume", "destroy", "clone")
            array.admin("volume", "eradicate", "clone")
            array.settled()
            given = before - array.stored()
            # All of the clone was overwritten, so it held its own data.
            assert given >= length, f"{size(given)} released of a clone with {size(length)} of its own"
            holds(urls["one"], OLD)
            return f"{size(given)} released, {size(array.stored())} of data stored"

        steps: list[tuple[str, Callable[[], str]]] = [
            ("a snapshot", take),
            ("… connected for reading", read_only),
            ("a clone of it", clone),
            ("a restore from it", restore),
            ("a snapshot of a group", group),
            ("SIGKILL", after_kill),
            ("many snapshots", a_row),
            ("a clone eradicated", gone),
            ("fsck at the end", lambda: fsck_agrees(array)),
        ]
        yield from checks(SUITE, steps)
