"""The web console in a real browser (playwright-core with Debian's chromium): tasks by mouse and keyboard, other origins,
layout and accessibility of every page. The checks are web/browser/*.mjs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed
from ibid_tests.outside.result import Lab, Result

SUITE = "console"
WEB = Path(__file__).resolve().parents[3] / "web"
NODE = Path(os.environ.get("CARGO_TARGET_DIR", WEB.parent / "target")) / "node" / "bin" / "node"
LIMIT_SECS = 600
# Names of the browser in distributions.
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def run(lab: Lab) -> Iterator[Result]:
    browser = next((path for name in BROWSERS if (path := which(name))), None)
    node = str(NODE) if NODE.exists() else which("node")
    if not browser:
        yield Result(SUITE, "browser", "skip", detail="no Chromium: apt-get install chromium")
        return
    if not node or not (WEB / "node_modules").exists():
        raise Failed("the suite needs Node and its libraries: scripts/setup.sh test console")
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        environment = {
            **os.environ,
            "IBID_DATA": str(array.data),
            "IBID_PID": str(array.process.pid),
            "IBID_OUT": str(lab.scratch("console").resolve()),
            "IBID_HOST": str(lab.bin / "ibid-host"),
            "CHROMIUM": browser,
        }
        command = [node, "browser/run.mjs"]
        with subprocess.Popen(command, cwd=WEB, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                result = json.loads(line)
                yield Result(SUITE, result["name"], result["status"], result["secs"], result["detail"])
            if process.wait(LIMIT_SECS) != 0:
                yield Result(SUITE, "browser", "error", detail=f"node ended with {process.returncode}")
