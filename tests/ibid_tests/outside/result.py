"""Results of outside tests, and the environment of a suite."""

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
    """The outcome of one check. `status` is pass, skip, wrong (a defective test, see docs/outside-tests.md), fail,
    crash (of the client), timeout or error."""

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
    """This machine cannot run the check; the text is the reason."""


@dataclass
class Lab:
    """The environment of a suite: folders of programs and results, and the sizes to use."""

    bin: Path
    out: Path
    full: bool = False

    def scratch(self, name: str) -> Path:
        path = self.out / name
        path.mkdir(parents=True, exist_ok=True)
        return path


Check = Callable[[], str | None]


def checks(suite: str, named: list[tuple[str, Check]]) -> Iterator[Result]:
    """Runs checks in order. A check passes if it returns (a line of detail, or None)."""
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
    """Restarts the array: fsck must find no damage and count the same data as the array."""
    code = array.stop()  # a clean stop destages all data
    assert code == 0, f"exit {code} after SIGTERM"
    counted = array.fsck()["data_bytes"]
    array.start()
    array.settled()
    assert array.stored() == counted, f"the array reports {array.stored()} bytes of data, fsck counts {counted}"
    return f"clean, {size(counted)} of data counted by both"


def where(e: Exception) -> str:
    frame = traceback.extract_tb(e.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}: {frame.line}"
