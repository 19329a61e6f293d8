"""Cost of offloads: a copy stores no data, a volume may be far larger than the array, memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.term import count, seconds, size
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "offload"
MIB, GIB = 1 << 20, 1 << 30
MEMORY = GIB
ZERO_SECONDS = 30.0


def run(lab: Lab) -> Iterator[Result]:
    host = Host(lab.bin)
    gib = 10 if lab.full else 1
    data = ["--size", str(gib * GIB), "--seed", "7"]
    with Array(lab.bin, capacity="64GiB", base=lab.scratch("arrays")) as array:
        array.start()
        source, copy, big, empty = (
            array.volume(name, "1TiB", lun) for lun, name in enumerate(("source", "copy", "big", "empty"), 1)
        )

        def bounded(detail: str) -> str:
            peak = array.process.peak_memory()
            assert peak < MEMORY, f"{size(peak)} of memory, more than {size(MEMORY)}"
            return f"{detail}; at most {size(peak)} of memory"

        def zeros(url: str, off: int, length: int) -> None:
            """Checks that the range reads like an unwritten volume."""
            host.verb("compare", url, empty, "--first-off", str(off), "--size", str(length))

        def stored() -> int:
            array.settled()
            return array.stored()

        def fill() -> str:
            r = host.verb("fill", source, *data)
            return bounded(f"{count(r['mib_s'])} MiB/s")

        def copies() -> str:
            before = stored()
            assert before >= gib * GIB, f"{size(before)} stored of {gib} GiB of incompressible data"
            r = host.verb("deploy", source, copy, "--method", "xcopy", "--chunk", "16M", "--size", str(gib * GIB))
            grown = stored() - before
            assert grown <= 0, f"the copy stored {size(grown)} of new data"
            return bounded(f"{seconds(r['secs'])}, 0 bytes of data stored")

        def equal() -> str:
            host.verb("verify", source, *data)
            host.verb("verify", copy, *data)
            return bounded("source and copy hold what was written")

        def after_kill() -> str:
            array.kill()
            array.start()
            equal()
            return "after SIGKILL and a restart too"

        def apart() -> str:
            """Writing to the copy does not change the source."""
            host.verb("fill", copy, "--size", "64MiB", "--seed", "8")
            host.verb("verify", source, *data)
            return bounded("the source does not change with its copy")

        def zero_all() -> str:
            marks = [n * (1 << 38) + (5 << 20) for n in range(4)] + [(1 << 40) - (8 << 20)]
            for at in marks:
                host.verb("fill", big, "--off", str(at), "--size", "8MiB", "--seed", "9")
            held = stored()
            r = host.verb("zero", big, "--method", "write-same", "--qd", "32")
            assert r["bytes"] == 1 << 40, f"{r['bytes']} bytes zeroed"
            assert r["secs"] < ZERO_SECONDS, f"{seconds(r['secs'])}, more than {seconds(ZERO_SECONDS)}"
            for at in marks:
                zeros(big, at - MIB, min(10 * MIB, (1 << 40) - at + MIB))
            given = held - stored()
            assert given >= len(marks) * 8 * MIB, f"{size(given)} released of {len(marks)} × 8 MiB that were zeroed"
            return bounded(
                f"{seconds(r['secs'])}, {count(r['commands'] / r['secs'])} commands/s through one connection; the previous data is gone"
            )

        def unmap_all() -> str:
            r = host.verb("reclaim", copy, "--method", "unmap", "--size", str(gib * GIB))
            zeros(copy, 0, gib * GIB)
            host.verb("verify", source, *data)
            return bounded(f"{seconds(r['secs'])}; the copy reads as zeros, the source is unchanged")

        steps: list[tuple[str, Callable[[], str]]] = [
            (f"fill {gib} GiB of a 1 TiB volume", fill),
            (f"EXTENDED COPY of {gib} GiB", copies),
            ("source and copy are equal", equal),
            ("… after SIGKILL and restart", after_kill),
            ("… and are two volumes", apart),
            ("1 TiB zeroed by WRITE SAME", zero_all),
            (f"UNMAP of the {gib} GiB copy", unmap_all),
        ]
        yield from checks(SUITE, steps)
