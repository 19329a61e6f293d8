#!/usr/bin/env python3
"""How fast the web console is, and what it costs: the first page, the files, scrolling, an idle page.

    scripts/console_speed.py [--bin DIR] [--out DIR] [--loads N] [--scroll S] [--idle S]

  files   all files of the console, compressed as they are sent
  load    the first page in a browser without a cache: until it shows its figures and answers, the worst of N loads
  scroll  frames of the browser while a list of 10 000 volumes is scrolled for S seconds
  idle    processor time of the array with the first page open for S seconds, less that without a page

Chromium, Node and the array share the machine; Chromium draws without a graphics processor. Writes DIR/console_speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed
from ibid_tests.kit.term import say, size, table
from ibid_tests.outside.console import BROWSERS, NODE, WEB

FILES = 600 << 10
LOAD_MS = 1000
# A screen of 60 Hz shows 60 frames a second; one in 50 may be missed.
FRAMES = 0.98 * 60
IDLE = 0.01


def measured(bin_dir: Path, scratch: Path, arguments: list[str]) -> dict[str, dict]:
    browser = next((path for name in BROWSERS if (path := which(name))), None)
    node = str(NODE) if NODE.exists() else which("node")
    if not browser or not node or not (WEB / "node_modules").exists():
        raise Failed("Chromium, Node and its libraries are needed: scripts/setup.sh test console")
    with Array(bin_dir, base=scratch) as array:
        array.start()
        environment = {
            **os.environ,
            "IBID_DATA": str(array.data),
            "IBID_PID": str(array.process.pid),
            "CHROMIUM": browser,
        }
        command = [node, "browser/speed.mjs", *arguments]
        found = {}
        with subprocess.Popen(command, cwd=WEB, env=environment, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                measure = json.loads(line)
                found[measure.pop("name")] = measure
                say(f"  {line.strip()}", "dim")
        if process.returncode != 0:
            raise Failed(f"node ended with {process.returncode}")
        return found


def judged(found: dict[str, dict]) -> list[tuple[str, str, str, bool | None]]:
    """Name, value and goal of each measure, and whether it meets the goal."""
    load, scroll, idle = found["load"], found["scroll"], found["idle"]
    cost = idle["open"] - idle["closed"]
    return [
        ("all files, compressed", size(found["bundle"]["bytes"]), "600 KiB", found["bundle"]["bytes"] < FILES),
        ("first page, worst", f"{load['most']:.0f} ms", f"{LOAD_MS} ms", load["most"] < LOAD_MS),
        ("first page, median", f"{load['p50']:.0f} ms", "", None),
        ("frames while scrolling", f"{scroll['rate']:.1f}/s", "60/s, less 1 in 50", scroll["rate"] >= FRAMES),
        ("time of a frame, median", f"{scroll['p50']:.1f} ms", "", None),
        ("time of a frame, 99 of 100", f"{scroll['p99']:.1f} ms", "", None),
        ("idle page, of a processor", f"{100 * cost:.2f} %", "1 %", cost < IDLE),
        ("the array without a page", f"{100 * idle['closed']:.2f} %", "", None),
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bin", type=Path, default=ROOT / "target/release", help="folder of ibid")
    options.add_argument("--out", type=Path, default=ROOT / "target/bench", help="folder for the results")
    options.add_argument("--loads", type=int, default=10, help="loads of the first page")
    options.add_argument("--scroll", type=int, default=10, help="seconds of scrolling")
    options.add_argument("--idle", type=int, default=60, help="seconds of each idle measurement")
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()
    found = measured(args.bin.resolve(), args.out / "arrays", [str(n) for n in (args.loads, args.scroll, args.idle)])
    rows = judged(found)
    (args.out / "console_speed.json").write_text(json.dumps({"load": load, **found}, indent=1) + "\n")
    verdict = {None: "", True: "met", False: "MISSED"}
    say()
    print(table(["measure", "value", "goal", ""], [[*row[:3], verdict[row[3]]] for row in rows], right={1, 2}))
    return 1 if any(row[3] is False for row in rows) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"error: {error}")
