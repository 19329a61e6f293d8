"""What offloads cost the array: a copy stores nothing, a volume may be far larger than the array, memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kit.array import Array
from kit.host import Host
from kit.term import count, seconds, size
from outside.result import Lab, Result, checks

SUITE = "offload"
GIB = 1 << 30
MEMORY = GIB
ZERO_SECONDS = 30.0


def run(lab: Lab) -> Iterator[Result]:
    host = Host(lab.bin)
    gib = 10 if lab.full else 1
    data = ["--size", str(gib * GIB), "--seed", "7"]
    with Array(lab.bin, capacity="64GiB", base=lab.scratch("arrays")) as array:
        array.start()
        source, copy, big = (array.volume(name, "1TiB", lun) for lun, name in enumerate(("source", "copy", "big"), 1))

        def bounded(detail: str) -> str:
            peak = array.process.memory()
            assert peak < MEMORY, f"{size(peak)} of memory, more than {size(MEMORY)}"
            return f"{detail}; memory {size(peak)}"

        def fill() -> str:
            r = host.verb("fill", source, *data)
            return bounded(f"{count(r['mib_s'])} MiB/s")

        def copies() -> str:
            before = array.stored()
            r = host.verb("deploy", source, copy, "--method", "xcopy", "--chunk", "16M", "--size", str(gib * GIB))
            grown = array.stored() - before
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
            """Writing to the copy leaves the source alone."""
            host.verb("fill", copy, "--size", "64MiB", "--seed", "8")
            host.verb("verify", source, *data)
            return bounded("the source does not change with its copy")

        def zero_all() -> str:
            r = host.verb("zero", big, "--method", "write-same", "--qd", "32")
            assert r["bytes"] == 1 << 40, f"{r['bytes']} bytes zeroed"
            assert r["secs"] < ZERO_SECONDS, f"{seconds(r['secs'])}, more than {seconds(ZERO_SECONDS)}"
            return bounded(f"{seconds(r['secs'])}, {count(r['commands'] / r['secs'])} commands/s through one connection")

        def unmap_all() -> str:
            r = host.verb("reclaim", copy, "--method", "unmap", "--size", str(gib * GIB))
            host.verb("verify", source, *data)
            return bounded(f"{seconds(r['secs'])}; the source is whole")

        steps: list[tuple[str, Callable[[], str]]] = [
            (f"fill {gib} GiB of a 1 TiB volume", fill),
            (f"EXTENDED COPY of {gib} GiB", copies),
            ("source and copy are equal", equal),
            ("… and stay so", after_kill),
            ("… and are two volumes", apart),
            ("1 TiB zeroed by WRITE SAME", zero_all),
            (f"UNMAP of the {gib} GiB copy", unmap_all),
        ]
        yield from checks(SUITE, steps)
