"""Random commands of several hosts at once, with kill -9, Ctrl-C and array outages."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibid_tests.outside.hosts import Node, Site

VOLUMES = ["ds1", "ds2"]
# Seconds.
OUTAGES = [1, 3, 20]
# With more machines or disks than this, commands remove one instead of creating one.
ENOUGH = 8
# In a campaign of this many commands, each kind must succeed.
ALL_KINDS = 200


class Names:
    """Machines or disks, as far as the ended commands show. A command with an unknown outcome makes a name unknown."""

    def __init__(self, prefix: str):
        self.prefix, self.count = prefix, 0
        self.places: dict[str, str] = {}
        self.busy: set[str] = set()
        self.unknown: list[tuple[str, str]] = []

    def fresh(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"

    def pick(self, chance: random.Random) -> str:
        """A name that no other command uses, except for one time in ten."""
        idle = [name for name in self.places if name not in self.busy]
        if idle and chance.random() < 0.9:
            return chance.choice(idle)
        return chance.choice(list(self.places) or [f"{self.prefix}0"])


class Step:
    """A command, the names that it uses, and the change of the names if it succeeds."""

    def __init__(self, line: str, names: Names | None = None, uses: str = "", makes: str = "", volume: str = ""):
        self.line, self.names, self.uses = line, names, uses
        self.makes, self.volume = makes, volume


class Campaign:
    """Each host runs the kinds of commands in random order, most of them on names that exist and are not in use."""

    def __init__(self, site: Site, verbs: int, recovery: float):
        self.site, self.verbs, self.left, self.recovery = site, verbs, verbs, recovery
        self.seed = int(os.environ.get("IBID_SEED", random.SystemRandom().getrandbits(32)))
        self.turn, self.up = threading.Lock(), threading.Event()
        self.up.set()
        self.machines, self.disks = Names("vm"), Names("disk")
        self.faults: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.refusals: list[str] = []

    def run(self) -> str:
        site = self.site
        for i in range(4):
            name, volume = self.machines.fresh(), VOLUMES[i % 2]
            site.one.run(f"vm create {name} -d {volume} --disk 64M:thin --disk 64M --memory 16")
            self.machines.places[name] = volume
        threads = [threading.Thread(target=self.host, args=(i,)) for i in range(len(site.nodes))]
        for thread in threads:
            thread.start()
        chance = random.Random(self.seed)
        while any(thread.is_alive() for thread in threads):
            time.sleep(chance.uniform(8, 20))
            if self.left > 0 and chance.random() < 0.5:
                self.outage(chance.choice(OUTAGES))
        for thread in threads:
            thread.join()
        assert not self.wrong, f"seed {self.seed}: {self.wrong[0]} (and {len(self.wrong) - 1} more)"
        # A killed command may have recorded a change that the next user of its lock completes. A
        # listing does not show it, and a machine may be gone afterwards: complete all.
        for device in site.devices:
            assert "Total Errors Found:           0" in site.one.run(f"voma -m vmfs -f check -d {device}:1")
            site.one.run(f"voma -m vmfs -f fix -d {device}:1")
        names = site.one.machines()
        worst = 0.0
        for name in names:
            begin = time.monotonic()
            if name != "template":
                site.nodes[-1].run(f"vm power on {name} --secs 0", limit=self.recovery)
                worst = max(worst, time.monotonic() - begin)
        site.clean()
        faults = ", ".join(f"{n} {what}" for what, n in sorted(self.faults.items()))
        kinds = set(self.kinds())
        assert self.faults["refused"] * 3 < self.verbs, f"seed {self.seed}: {faults}: {self.refusals}"
        assert self.verbs < ALL_KINDS or set(self.done) == kinds, f"never done: {kinds - set(self.done)}"
        return (
            f"seed {self.seed}: {faults}; {len(self.done)} of {len(kinds)} kinds done; {len(names)} machines, "
            f"slowest power on {worst:.1f} s"
        )

    def outage(self, secs: int) -> None:
        """Kills the array. Commands that run at that time are met; others start afterwards."""
        self.faults["array killed"] += 1
        self.up.clear()
        self.site.array.kill()
        time.sleep(secs)
        self.site.array.start()
        self.up.set()

    def host(self, index: int) -> None:
        chance = random.Random(self.seed * 31 + index)
        deck: list[str] = []
        while True:
            self.up.wait()
            with self.turn:
                if self.left <= 0 or self.wrong:
                    return
                self.left -= 1
                if not deck:
                    deck = list(self.kinds())
                    chance.shuffle(deck)
                kind = deck.pop()
                step = self.kinds()[kind](chance)
                if step.names and step.uses:
                    step.names.busy.add(step.uses)
            code = self.command(self.site.nodes[index], step.line, chance)
            with self.turn:
                self.account(kind, step, code)

    def account(self, kind: str, step: Step, code: int) -> None:
        self.faults["commands"] += 1
        self.faults["refused"] += code in (1, 2)
        self.done[kind] += code == 0
        if not (names := step.names):
            return
        names.busy.discard(step.uses)
        name = step.makes or step.uses
        before = names.places.get(name)
        if step.volume == before or code in (1, 2) or (code == 130 and step.volume):
            return
        if code != 0:
            names.unknown.append((name, step.volume or before or VOLUMES[0]))
        if code == 0 and step.volume:
            names.places[name] = step.volume
        else:
            names.places.pop(name, None)

    def kinds(self) -> dict[str, Callable[[random.Random], Step]]:
        return {
            "power on": lambda c: self.keep(self.machines, c, "vm power on {name} --secs 1"),
            "power on, no time": lambda c: self.keep(self.machines, c, "vm power on {name} --secs 0"),
            "power state": lambda c: self.keep(self.machines, c, "vm power state {name}"),
            "guest write": lambda c: self.keep(self.machines, c, "vm guest {name} write --size 8M"),
            "guest trim": lambda c: self.keep(self.machines, c, "vm guest {name} trim --disk 0 --size 8M"),
            "migrate": lambda c: self.migrate(c, ""),
            "migrate running": lambda c: self.migrate(c, "--running"),
            "clone": lambda c: self.make(self.machines, c, "vm clone {name} {fresh} -d {volume}"),
            "deploy": lambda c: self.make(self.machines, c, "vm deploy template {fresh} -d {volume} -f thin"),
            "create": lambda c: self.make(
                self.machines, c, "vm create {fresh} -d {volume} --disk 64M:thin --disk 64M --memory 16"
            ),
            "destroy": lambda c: self.remove(self.machines, c, "vm destroy {name}"),
            "list": lambda c: Step("vm list"),
            "vmkfstools -c": lambda c: self.make(
                self.disks, c, f"vmkfstools -c 64M -d {c.choice(['thin', 'zeroedthick', 'eagerzeroedthick'])} {{to}}"
            ),
            "vmkfstools -c again": lambda c: self.make(self.disks, c, "vmkfstools -c 32M -d thin {to}"),
            "vmkfstools -i": lambda c: self.make(self.disks, c, "vmkfstools -i {path} {to}"),
            "vmkfstools -i -d": lambda c: self.make(
                self.disks, c, f"vmkfstools -i {{path}} -d {c.choice(['2gbsparse', 'monosparse'])} {{to}}"
            ),
            "vmkfstools -j": lambda c: self.keep(self.disks, c, "vmkfstools -j {path}"),
            "vmkfstools -U": lambda c: self.remove(self.disks, c, "vmkfstools -U {path}"),
            "vmfs ls": lambda c: Step(f"vmfs ls -l /vmfs/volumes/{c.choice(VOLUMES)}"),
            "vmfs rm": self.remove_rest,
            "unmap": lambda c: Step(f"esxcli storage vmfs unmap -l {c.choice(VOLUMES)} -n 600"),
        }

    def path(self, name: str) -> str:
        return f"/vmfs/volumes/{self.disks.places.get(name, VOLUMES[0])}/{name}.vmdk"

    def keep(self, names: Names, chance: random.Random, line: str) -> Step:
        name = names.pick(chance)
        volume = names.places.get(name, "")
        return Step(line.format(name=name, path=self.path(name)), names, name, volume=volume)

    def make(self, names: Names, chance: random.Random, line: str) -> Step:
        if len(names.places) > ENOUGH:
            verb = "vm destroy {name}" if names is self.machines else "vmkfstools -U {path}"
            return self.remove(names, chance, verb)
        name, fresh, volume = names.pick(chance), names.fresh(), chance.choice(VOLUMES)
        uses = name if "{name}" in line or "{path}" in line else ""
        to = f"/vmfs/volumes/{volume}/{fresh}.vmdk"
        words = {"name": name, "fresh": fresh, "volume": volume, "path": self.path(name), "to": to}
        return Step(line.format(**words), names, uses, fresh, volume)

    def remove(self, names: Names, chance: random.Random, line: str) -> Step:
        name = names.pick(chance)
        return Step(line.format(name=name, path=self.path(name)), names, name)

    def migrate(self, chance: random.Random, more: str) -> Step:
        name = self.machines.pick(chance)
        volume = "ds1" if self.machines.places.get(name) == "ds2" else "ds2"
        return Step(f"vm migrate {name} -d {volume} {more}", self.machines, name, volume=volume)

    def remove_rest(self, chance: random.Random) -> Step:
        """Removes the files of a command that was killed, or of a whole machine."""
        if self.machines.unknown and chance.random() < 0.5:
            name, volume = self.machines.unknown.pop()
            return Step(f"vmfs rm -r /vmfs/volumes/{volume}/{name}")
        name = self.machines.pick(chance)
        volume = self.machines.places.get(name, VOLUMES[0])
        return Step(f"vmfs rm -r /vmfs/volumes/{volume}/{name}", self.machines, name)

    def command(self, node: Node, line: str, chance: random.Random) -> int:
        process = node.start(f"{line} --distance {chance.choice([0, 3, 10])}")
        fault = chance.random()
        if fault < 0.5:
            try:
                process.wait(chance.uniform(0.05, 1.5))
            except subprocess.TimeoutExpired:
                kill = fault < 0.25
                process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
                self.faults["killed" if kill else "interrupted"] += 1
        try:
            out, err = process.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.wrong.append(f"{node.name}: {line} did not end: {err[-300:]}")
        code = process.returncode
        if code not in (0, 1, 2, 130, -signal.SIGKILL) or "damaged" in err or "panicked" in err:
            self.wrong.append(f"{node.name}: {line} ended with {code}: {err[-300:]}")
        if code in (1, 2):
            reason = err.strip().splitlines()[0] if err.strip() else "no text"
            self.refusals.append(f"{line}: {reason}")
        return code
