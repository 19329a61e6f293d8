"""What a test from outside reports, and what every suite is given."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import size


@dataclass
class Result:
    """The outcome of one check. `status` is pass, skip, wrong (the test itself is, and docs/outside-tests.md says how), fail,
    crash (the client died), timeout or error."""

    suite: str
    name: str
    status: str
    secs: float = 0.0
    detail: str = ""
    more: dict = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return self.status in ("pass", "skip", "wrong")


class Skip(Exception):
    """This machine cannot run the check; the text says why."""


@dataclass
class Lab:
    """What a suite is given: where the programs are, where to leave what it made, and how far to go."""

    bin: Path
    out: Path
    full: bool = False

    def scratch(self, name: str) -> Path:
        path = self.out / name
        path.mkdir(parents=True, exist_ok=True)
        return path


Check = Callable[[], str | None]


def checks(suite: str, named: list[tuple[str, Check]]) -> Iterator[Result]:
    """Runs checks one after the other. A check passes when it returns (a line of detail, or nothing)."""
    for name, check in named:
        begin = time.monotonic()
        status, detail = "pass", ""
        try:
            detail = check() or ""
        except Skip as e:
            status, detail = "skip", str(e)
        except (AssertionError, Failed) as e:
            status, detail = "fail", str(e) or where(e)
        except Exception as e:
            status, detail = "error", f"{type(e).__name__}: {e} ({where(e)})"
        yield Result(suite, name, status, time.monotonic() - begin, detail)


def fsck_agrees(array: Array) -> str:
    """Stops the array and starts it again: fsck finds nothing, and counts the data that the array then says it stores."""
    code = array.stop()  # which reduces and stores what had waited for that in memory and in the log
    assert code == 0, f"exit {code} after SIGTERM"
    counted = array.fsck()["data_bytes"]
    array.start()
    array.settled()
    assert array.stored() == counted, (
        f"the array says that it stores {array.stored()} bytes of data, fsck counts {counted}"
    )
    return f"clean, {size(counted)} of data counted by both"


def where(e: Exception) -> str:
    frame = traceback.extract_tb(e.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
