"""`ibid-host` for scripts: the JSON result of each command as a dict."""

from __future__ import annotations

import json
from pathlib import Path

from .procs import Failed, Process, run


class Host:
    """Runs commands of `ibid-host`."""

    def __init__(self, bin_dir: Path):
        self.program = str(bin_dir / "ibid-host")
        if not Path(self.program).exists():
            raise Failed(f"{self.program} is not there; `make build` makes it")

    def verb(self, *args: str, limit: float = 600) -> dict:
        """Runs a command to its end; raises with its output if it fails."""
        said = run([self.program, *args, "--json"], limit=limit).stdout
        try:
            return json.loads(said.strip().splitlines()[-1])
        except (IndexError, ValueError) as e:
            raise Failed(f"ibid-host {args[0]} said no JSON: {said[-300:]!r}") from e

    def bench(self, url: str, op: str, *, size: str = "4K", qd: int = 32, secs: float = 2, **more) -> dict:
        """Runs a load. Keyword arguments are options: seq=True, span="1G", fua=True."""
        options = []
        for name, value in more.items():
            options += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
        return self.verb(
            "bench", url, "--op", op, "--size", size, "--qd", str(qd), "--secs", str(secs), *options, limit=secs + 60
        )

    def torture(self, url: str, journal: Path, log: Path, seed: int) -> Process:
        """Starts the verifying load, which runs until its target is gone. It journals each operation before sending it
        and after its answer."""
        options = ["--journal", str(journal), "--until-killed", "--seed", str(seed)]
        return Process([self.program, "torture", url, *options], log)

    def torture_verify(self, url: str, journal: Path) -> dict:
        """Checks after a crash: acknowledged operations are present, all others entirely or not at all."""
        found = self.verb("torture-verify", url, "--journal", str(journal))
        return {**found, "acknowledged": found["operations"] - found["open"]}
