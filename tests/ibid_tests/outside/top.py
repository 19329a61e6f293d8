"""`ibid top` in a terminal of its own: screens, keys, another size, and the terminal afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed
from ibid_tests.outside.result import Lab

PATIENCE = 20
SEQUENCE = re.compile(r"\x1b\[([?>]?[\d;]*)([A-Za-z])")
LOAD = ["--secs", "300", "--warm", "0", "--qd", "1", "--span", "64M", "--size", "4K", "--op", "write"]


class Terminal:
    """A program on a pseudo terminal, and the characters that it shows."""

    def __init__(self, command: list[str], env: dict[str, str], size: tuple[int, int]):
        self.near, self.far = pty.openpty()
        self.cells: dict[tuple[int, int], str] = {}
        self.row, self.column, self.raw, self.left = 0, 0, "", ""
        self.resize(*size)
        self.modes = termios.tcgetattr(self.far)
        self.process = subprocess.Popen(
            command, stdin=self.far, stdout=self.far, stderr=self.far, env=env, start_new_session=True
        )

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        fcntl.ioctl(self.far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self.near, keys.encode())

    def read(self, secs: float) -> None:
        """Takes what the program writes within a time."""
        ready, _, _ = select.select([self.near], [], [], secs)
        if not ready:
            return
        text = os.read(self.near, 1 << 16).decode(errors="replace")
        self.raw += text
        text = self.left + text
        # The last sequence may be incomplete.
        cut = text.rfind("\x1b")
        is_whole = cut < 0 or SEQUENCE.match(text, cut)
        text, self.left = (text, "") if is_whole else (text[:cut], text[cut:])
        self.show(text)

    def show(self, text: str) -> None:
        at = 0
        while at < len(text):
            sequence = SEQUENCE.match(text, at)
            if sequence:
                self.obey(*sequence.groups())
                at = sequence.end()
                continue
            if text[at] >= " ":
                self.cells[self.row, self.column] = text[at]
                self.column += 1
            at += 1

    def obey(self, numbers: str, code: str) -> None:
        if code == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
        elif code == "J" or (numbers == "?1049" and code in "hl"):
            self.cells.clear()

    def lines(self) -> list[str]:
        columns, rows = self.size
        return ["".join(self.cells.get((y, x), " ") for x in range(columns)).rstrip() for y in range(rows)]

    def until(self, condition, what: str) -> list[str]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.2)
            if condition(lines := self.lines()):
                return lines
        raise Failed(f"{what} is not shown:\n" + "\n".join(self.lines()))

    def end(self) -> int:
        """Waits for the end of the program, and checks that it left the terminal as it was."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        code = self.process.wait(1)
        self.read(0.1)
        assert self.raw.rstrip("\r\n").find("\x1b[?1049l") > self.raw.find("\x1b[?1049h") >= 0, "the screen is not left"
        assert self.raw.rfind("\x1b[?25h") > self.raw.rfind("\x1b[?25l"), "the cursor is hidden"
        assert termios.tcgetattr(self.far) == self.modes, "the modes of the terminal are not restored"
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.near)
        os.close(self.far)


@contextmanager
def top(array: Array, *args: str, size=(80, 24), **more: str):
    env = {**os.environ, "TERM": "xterm-256color", **more}
    terminal = Terminal([str(array.ibid), "top", "--data", str(array.data), *args], env, size)
    try:
        yield terminal
    finally:
        terminal.close()


def in_a_terminal(lab: Lab) -> str:
    with Array(lab.bin, portals=1, base=lab.scratch("arrays")) as array:
        array.start()
        unit = array.volume("busy", "1GiB", 1)
        load = subprocess.Popen([str(lab.bin / "ibid-host"), "bench", unit, *LOAD], stdout=subprocess.DEVNULL)
        try:
            screens(array)
        finally:
            load.kill()
            load.wait()
        return ends(array)


def screens(array: Array) -> None:
    with top(array, NO_COLOR="1") as terminal:
        active = re.compile(r"busy +\d+ +[1-9]")
        lines = terminal.until(lambda lines: active.match(lines[5]), "the active volume")
        assert lines[4].split() == "VOLUME R/S W/S READ/S WRITTEN/S R MEAN W MEAN".split(" "), lines[4]
        assert "writes" in lines[1] and lines[2].startswith("VAAI: ATS 0"), lines[:3]
        terminal.press("3")
        terminal.until(lambda lines: lines[4].startswith("HOST ") and lines[5].startswith("any "), "the active host")
        terminal.press("4")
        terminal.until(lambda lines: lines[5].startswith("any/busy "), "the host on the volume")
        terminal.press("6")
        terminal.until(lambda lines: "No host has used an offload" in lines[5], "the empty screen of VAAI commands")
        terminal.press("1")
        terminal.until(lambda lines: any("commands/s, at most" in line for line in lines), "the curve of the array")
        terminal.resize(120, 40)
        terminal.until(lambda lines: lines[39].startswith("q quit"), "the array on the larger screen")
        terminal.press("2")
        terminal.until(lambda lines: "OTHER/S" in lines[4] and lines[39].startswith("q quit"), "the larger screen")
        terminal.press("q")
        assert terminal.end() == 0
        colours = re.findall(r"\x1b\[(?:3\d|9\d|38;[\d;]+)m", terminal.raw)
        assert not colours, f"colours in spite of NO_COLOR: {colours[:3]}"


def ends(array: Array) -> str:
    shown = subprocess.run(
        [str(array.ibid), "top", "--data", str(array.data), "--screen", "ports"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert shown.returncode == 0 and "PORT " in shown.stdout and "CT0.ETH0" in shown.stdout, shown
    assert "\x1b" not in shown.stdout, "a pipe gets sequences of a terminal"
    with top(array) as terminal:
        terminal.until(lambda lines: "VOLUME" in lines[4], "the volumes")
        terminal.press("\x03")
        assert terminal.end() == 0, "Ctrl-C"
    with top(array) as terminal:
        terminal.until(lambda lines: "VOLUME" in lines[4], "the volumes")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end() == 0, "SIGTERM"
    with top(array) as terminal:
        terminal.until(lambda lines: "VOLUME" in lines[4], "the volumes")
        array.kill()
        terminal.until(lambda lines: "no figures" in lines[0], "that the array does not answer")
        terminal.press("q")
        assert terminal.end() == 0, "q without an array"
    return "six screens at 80x24 and 120x40; q, Ctrl-C and SIGTERM restore the terminal; an array that stops is said"
