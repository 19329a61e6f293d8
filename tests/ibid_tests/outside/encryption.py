"""An array that is encrypted at rest: SIGKILL under a verifying load, and an independent program that decrypts the drive."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.kit.term import count
from ibid_tests.outside import crash
from ibid_tests.outside.management import interpreter
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "encryption"
DECRYPT = Path(__file__).resolve().parents[1] / "clients/decrypt.py"
CYCLES, FULL_CYCLES = 4, 40
NAME = "payroll-of-the-board"


def run(lab: Lab) -> Iterator[Result]:
    key = lab.scratch("encryption") / "passphrase"
    key.write_text("correct horse battery staple\n")
    key.chmod(0o600)
    with Array(lab.bin, capacity="2GiB", base=lab.scratch("arrays"), args=["--key-file", str(key)]) as array:
        array.start()
        url = array.volume(NAME, "1GiB", 1)
        yield from checks(
            SUITE,
            [
                ("kills", lambda: kills(lab, array, url)),
                ("independent program", lambda: decrypted(lab, array, key)),
            ],
        )


def kills(lab: Lab, array: Array, url: str) -> str:
    host, chance, scratch = Host(lab.bin), random.Random(1), lab.scratch("encryption")
    cycles = FULL_CYCLES if lab.full else CYCLES
    found = sum(crash.kill(array, host, url, scratch, seed + 1, chance)[1] for seed in range(cycles))
    if not found:
        raise Failed("nothing was acknowledged before a kill: they tested nothing")
    return f"{cycles} kills, {count(found)} acknowledged operations, 0 lost; fsck clean each time"


def decrypted(lab: Lab, array: Array, key: Path) -> str:
    """The name of a volume is in no byte of the file, and in what another implementation decrypts."""
    python = interpreter(lab)
    if array.stop():
        raise Failed("the array did not stop cleanly")
    image = array.data / "array"
    for words, is_readable in (([], True), (["--raw"], False)):
        said = run_command([str(python), str(DECRYPT), *words, str(image), str(key), NAME], limit=600).stdout.strip()
        if said != ("found" if is_readable else "absent"):
            raise Failed(f"{' '.join(words) or 'decrypted'}: {said}")
    return "the name of a volume is readable with the key only"
