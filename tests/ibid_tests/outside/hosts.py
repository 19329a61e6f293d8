"""Simulated hosts as real processes on shared datastores: refusals, kill -9, Ctrl-C, array outages, and a campaign of all."""

from __future__ import annotations

import csv
import io
import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, free_ports, run as run_command
from ibid_tests.outside.campaign import Campaign
from ibid_tests.outside.layouts import layouts
from ibid_tests.outside.qemu import image as image_file
from ibid_tests.outside.result import Lab, Result, Skip, checks

SUITE = "hosts"
HOSTS = ["esx01", "esx02", "esx03", "esx04"]
VOLUMES = ["ds1", "ds2"]
VERBS, FULL_VERBS = 48, 500
OUTAGE = 20
"""Size of a disk that has two files in the format 2gbsparse, in MiB."""
SPARSE_MIB = 2050
"""Seconds until every machine must run again."""
RECOVERY = 25


class Node:
    """One simulated host. Every call is a process."""

    def __init__(self, lab: Lab, home: Path, name: str):
        self.program, self.name = str(lab.bin / "ibid-host"), name
        self.env = {**os.environ, "IBID_HOST_HOME": str(home), "IBID_HOST": name}
        self.log = home / name / "vmkernel.log"

    def start(self, line: str) -> subprocess.Popen:
        words = [self.program, *line.split()]
        return subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, line: str, code: int = 0, limit: float = 120) -> str:
        """Runs a command to its end and returns its output, standard error first."""
        process = self.start(line)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as e:
            process.kill()
            raise Failed(f"{self.name}: {line} did not end in {limit:.0f} s") from e
        if process.returncode != code:
            raise Failed(f"{self.name}: {line} ended with {process.returncode}: {err.strip()[-300:]}")
        return err + out

    def free(self) -> dict[str, int]:
        """Free bytes of each datastore."""
        lines = self.run("vmfs df --bytes").splitlines()[1:]
        return {line.split()[-1].rsplit("/", 1)[1]: int(line.split()[3]) for line in lines if "/vmfs/" in line}

    def machines(self) -> list[str]:
        found = self.run("vm list").splitlines()[1:]
        return sorted({words[1] for words in (line.split() for line in found) if words and words[0].isdigit()})


class Site:
    """An array, four hosts, and two datastores with a template and machines."""

    def __init__(self, lab: Lab, array: Array):
        self.array, self.home = array, array.dir / "hosts"
        self.nodes = [Node(lab, self.home, name) for name in HOSTS]
        self.one, self.two = self.nodes[:2]
        array.start()
        for lun, name in enumerate(VOLUMES, 1):
            array.volume(name, "64GiB", lun)
        for node in self.nodes:
            self.devices = node.run(f"claim iscsi://127.0.0.1:{array.ports[0]}").split()
        for name, device in zip(VOLUMES, self.devices, strict=True):
            self.one.run(f"vmkfstools -C vmfs6 -S {name} {device}:1")
        self.one.run("vm create template -d ds1 --disk 64M:eagerzeroedthick --memory 16 --template")

    def clean(self) -> None:
        """Fails unless the checker finds no problem, and all space that is not free belongs to files."""
        for name, device in zip(VOLUMES, self.devices, strict=True):
            found = self.one.run(f"voma -m vmfs -f check -d {device}:1")
            used = re.search(r"(\d+) of (\d+) blocks used", found)
            assert "Total Errors Found:           0" in found and used, found[-800:]
            listed = sum(self.blocks(f"/vmfs/volumes/{name}"))
            free = self.one.free()[name] >> 20
            assert int(used[2]) - free == listed == int(used[1]), (name, used[0], free, listed)

    def blocks(self, path: str) -> Iterator[int]:
        for line in self.one.run(f"vmfs ls -l {path}").splitlines():
            words = line.split()
            if words[0].startswith("d"):
                yield from self.blocks(f"{path}/{words[-1]}")
            else:
                yield int(words[2].rstrip("M"))


def run(lab: Lab) -> Iterator[Result]:
    with Array(lab.bin, capacity="16GiB", portals=2, base=lab.scratch("arrays")) as array:
        site = Site(lab, array)
        yield from checks(SUITE, steps(lab, site, FULL_VERBS if lab.full else VERBS))


def wait_for(path: Path, text: str, limit: float = 60) -> None:
    end = time.monotonic() + limit
    while text not in (path.read_text() if path.exists() else ""):
        assert time.monotonic() < end, f"no {text!r} in {path.name}"
        time.sleep(0.2)


def powered_on(node: Node, name: str, more: str = "") -> subprocess.Popen:
    process = node.start(f"vm power on {name} {more}")
    assert process.stdout.readline().startswith("Powering on")
    end = time.monotonic() + 30
    while "Powered on" not in node.run(f"vm power state {name}"):
        assert process.poll() is None and time.monotonic() < end, f"{name} does not power on"
    return process


def ended(process: subprocess.Popen, limit: float = 240) -> tuple[int, str]:
    out, err = process.communicate(timeout=limit)
    return process.returncode, err + out


def export(node: Node, name: str, more: str = "") -> tuple[subprocess.Popen, str]:
    """Starts an NBD server of a machine's first disk; returns it with its URL."""
    port = free_ports(1)[0]
    process = node.start(f"vm export {name} --nbd 127.0.0.1:{port} {more}")
    url = process.stdout.readline().strip()
    assert url == f"nbd://127.0.0.1:{port}/{name}", (url, process.poll())
    return process, url


def follow(server: subprocess.Popen) -> tuple[list[str], threading.Thread]:
    """Collects the output of a server until it ends."""
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(server.stdout.readline, "")), daemon=True)
    reader.start()
    return said, reader


def blocks(verb: str) -> list[str]:
    """qemu-io's options for 32 blocks of 1 MiB from 128 MiB on, each with a pattern of its own."""
    return [word for i in range(32) for word in ("-c", f"{verb} -P {i + 1} {128 + i}M 1M")]


def fio(url: str, pattern: str, more: str) -> None:
    """Runs a job of fio on an exported disk. It ends with the first error or wrong block."""
    size = "" if "--bs" in more else "--bsrange=4k-64k --blockalign=4k"
    verify = "--verify_fatal=1 --do_verify=1" if "--verify=" in more else ""
    verify += " --verify_state_save=0"
    job = f"--name=guest --ioengine=nbd --uri={url} --rw={pattern} --iodepth=16 {size} {verify} {more}"
    run_command(["fio", "--output-format=terse", *job.split()])


def stopped(server: subprocess.Popen) -> str:
    """Ends a server; returns its messages."""
    server.send_signal(signal.SIGINT)
    code, said = ended(server)
    assert code == 0, said[-300:]
    return said


def verify(url: str, model: dict[int, int], write: bool) -> None:
    """Writes blocks of 64 KiB with a pattern each, and reads them all back."""
    writes = [f"aio_write -P {byte} {at} 64k" for at, byte in model.items()][-16:] if write else []
    reads = [f"read -P {byte} {at} 64k" for at, byte in model.items()]
    commands = [word for line in [*writes, "aio_flush", *reads] for word in ("-c", line)]
    said = run_command(["qemu-io", "-f", "raw", "-t", "none", *commands, url])
    text = said.stdout + said.stderr
    assert "Pattern verification failed" not in text and "error" not in text.lower(), text[-500:]


def steps(lab: Lab, site: Site, verbs: int) -> list[tuple[str, Callable[[], str | None]]]:
    one, two, array = site.one, site.two, site.array

    def in_use() -> str:
        one.run("vm create busy -d ds1 --disk 64M --memory 16")
        before = one.run("vmfs ls /vmfs/volumes/ds1/busy")
        guest = powered_on(one, "busy")
        begin = time.monotonic()
        for line in ["vm destroy busy", "vmkfstools -U /vmfs/volumes/ds1/busy/busy.vmdk", "vm migrate busy -d ds2"]:
            two.run(line, code=1)
        took = (time.monotonic() - begin) / 3
        guest.send_signal(signal.SIGINT)
        assert ended(guest)[0] == 0
        names = one.run("vmfs ls /vmfs/volumes/ds1/busy").split()
        assert set(before.split()) <= set(names), names
        one.run("vm power on busy --secs 0")
        two.run("vm destroy busy")
        site.clean()
        return f"three refusals of {took:.1f} s each changed nothing"

    def deployments() -> str:
        started = [site.nodes[i % 4].start(f"vm deploy template copy{i} -d ds2") for i in range(8)]
        codes = [ended(process) for process in started]
        assert all(code == 0 for code, _ in codes), codes
        for i in range(8):
            one.run(f"vm destroy copy{i}")
        site.clean()
        return "8 of 8 at once"

    def killed() -> str:
        one.run("vm create victim -d ds1 --disk 64M --memory 16")
        waits = []
        for heir in (one, two):
            guest = powered_on(one, "victim")
            guest.kill()
            guest.communicate()
            begin = time.monotonic()
            said = heir.run("vm power on victim --secs 0")
            waits.append(time.monotonic() - begin)
            assert "Waiting for host 'esx01'" in said, said
        assert waits[0] < 12 and waits[1] < RECOVERY, waits
        one.run("vm destroy victim")
        site.clean()
        return f"power on after kill -9: {waits[0]:.1f} s on the same host, {waits[1]:.1f} s on another"

    def interrupted() -> str:
        one.run("vmkfstools -c 2G -d eagerzeroedthick /vmfs/volumes/ds1/big.vmdk")
        one.run("esxcfg-advcfg -s 0 /DataMover/HardwareAcceleratedMove")
        before, tried = one.free(), 0
        for line in [
            "vmkfstools -i /vmfs/volumes/ds1/big.vmdk /vmfs/volumes/ds2/copy.vmdk --distance 30",
            "vmkfstools -i /vmfs/volumes/ds1/big.vmdk /vmfs/volumes/ds1/copy.vmdk --distance 30",
            "vmkfstools -i /vmfs/volumes/ds1/big.vmdk -d 2gbsparse /vmfs/volumes/ds2/copy.vmdk --distance 1000",
            "vm deploy template late -d ds2 --distance 200",
            "vm create late -d ds2 --disk 30G:eagerzeroedthick --distance 100",
            "esxcli storage vmfs unmap -l ds1 -n 10",
        ]:
            for sent in (signal.SIGINT, signal.SIGTERM):
                process = one.start(line)
                time.sleep(1.5 if "esxcli" not in line else 0.7)
                process.send_signal(sent)
                code, said = ended(process)
                assert code == 130, (line, code, said[-300:])
                assert one.free() == before, line
                tried += 1
        one.run("esxcfg-advcfg -s 1 /DataMover/HardwareAcceleratedMove")
        names = one.run("vmfs ls /vmfs/volumes/ds2") + one.run("vmfs ls /vmfs/volumes/ds1")
        assert names.split() == ["big-flat.vmdk", "big.vmdk", "template"], names
        two.run("vmkfstools -U /vmfs/volumes/ds1/big.vmdk")
        site.clean()
        return f"{tried} commands: exit code 130, no file and no lock left"

    def outage() -> str:
        one.run("esxcfg-advcfg -s 0 /DataMover/HardwareAcceleratedMove")
        for name in ("guest", "mover", "source"):
            one.run(f"vm create {name} -d ds1 --disk 1G:eagerzeroedthick --memory 16")
        guest = powered_on(two, "guest")
        moving = one.start("vm migrate mover -d ds2 --running --distance 20")
        cloning = one.start("vm clone source target -d ds2 --distance 20")
        time.sleep(3)
        assert moving.poll() is None and cloning.poll() is None, "too fast to be met by the outage"
        array.kill()
        time.sleep(OUTAGE)
        array.start()
        for process in (moving, cloning):
            code, said = ended(process)
            assert code == 0, said[-400:]
        wait_for(two.log, "Successfully restored access to volume")
        log = two.log.read_text()
        assert re.search(r"Lost access to volume \S+ \(ds1\) due to connectivity issues\.", log), log[-500:]
        assert guest.poll() is None, "the running guest ended"
        log = one.log.read_text()
        for text in ["has entered the All Paths Down state.", "has exited the All Paths Down state.", '"OFFLINE"']:
            assert text in log, f"no {text!r} in vmkernel.log"
        assert "FSDisk: clone of source to target: software data mover: /DataMover/HardwareAccelerated" in log
        guest.send_signal(signal.SIGINT)
        code, said = ended(guest)
        assert code == 0, said[-400:]
        one.run("esxcfg-advcfg -s 1 /DataMover/HardwareAcceleratedMove")
        for name in ("guest", "mover", "source", "target"):
            one.run(f"vm power on {name} --secs 0")
            one.run(f"vm destroy {name}")
        site.clean()
        return f"{OUTAGE} s without the array: a migration, a clone and a running guest continue"

    def files() -> str:
        local = site.home / "local"
        local.write_bytes(os.urandom(3_000_000))
        one.run(f"vmfs put {local} /vmfs/volumes/ds1/a")
        two.run("vmfs cp /vmfs/volumes/ds1/a /vmfs/volumes/ds2/template-a")
        back = site.home / "back"
        one.run(f"vmfs get /vmfs/volumes/ds2/template-a {back}")
        assert back.read_bytes() == local.read_bytes()
        one.run(f"vmfs get /vmfs/volumes/ds1/a {back}", code=2)
        line = one.run("vmfs ls -l /vmfs/volumes/ds1/a").split()
        assert line[:3] == ["--", "3000000", "3M"], line
        one.run("vmfs rm /vmfs/volumes/ds1/template", code=2)
        one.run("vmfs rm /vmfs/volumes/ds1/a /vmfs/volumes/ds2/template-a")
        assert one.run("vmfs ls").split() == VOLUMES
        local.write_text("cut off")
        for bad, good in (VOLUMES, VOLUMES[::-1]):
            # As a killed migration leaves it: one configuration is invalid.
            one.run(f"vm create twice -d {bad} --disk 1M:thin --memory 4")
            one.run(f"vmfs rm /vmfs/volumes/{bad}/twice/twice.vmx")
            one.run(f"vmfs put {local} /vmfs/volumes/{bad}/twice/twice.vmx")
            two.run(f"vm create twice -d {good} --disk 1M:thin --memory 4")
            two.run("vm power on twice --secs 0")
            two.run("vm destroy twice")
            one.run(f"vmfs rm -r /vmfs/volumes/{bad}/twice")
        site.clean()
        return "put, cp, get, ls, rm, df; an invalid machine does not hide a valid one of its name"

    def exported() -> str:
        """QEMU writes and verifies an exported disk while it moves to the other datastore."""
        mib = 192
        image = image_file(site.home / "image.raw", mib)
        for line in [
            f"vm create nb -d ds1 --disk {mib}M --memory 16",
            "vmkfstools -U /vmfs/volumes/ds1/nb/nb.vmdk",
            f"vmkfstools --import {image} -d zeroedthick /vmfs/volumes/ds1/nb/nb.vmdk",
            "esxcfg-advcfg -s 0 /DataMover/HardwareAcceleratedMove",
        ]:
            one.run(line)
        server, url = export(one, "nb", "--distance 5")
        run_command(["qemu-img", "compare", "-f", "raw", "-F", "raw", str(image), url])
        assert stopped(server) == ""
        server, url = export(one, "nb", "--distance 5 --migrate ds2")
        model: dict[int, int] = {}
        said, reader = follow(server)
        chance, rounds = random.Random(1), 0
        while not any("100%" in line for line in said) or rounds < 3:
            assert server.poll() is None and rounds < 400, said
            for _ in range(16):
                at = chance.randrange(mib * 16) << 16
                model.pop(at, None)  # the last 16 are those to write
                model[at] = chance.randrange(1, 256)
            verify(url, model, write=True)
            rounds += 1
        server.send_signal(signal.SIGINT)
        reader.join(60)
        assert server.wait(60) == 0, server.stderr.read()[-300:]
        one.run("esxcfg-advcfg -s 1 /DataMover/HardwareAcceleratedMove")
        assert "nb" in one.run("vmfs ls /vmfs/volumes/ds2").split()
        server, url = export(two, "nb")
        verify(url, model, write=False)
        assert stopped(server) == ""
        one.run("vm destroy nb")
        site.clean()
        return f"{len(model)} blocks written and verified in {rounds} rounds, from the first request to after the move"

    def rules() -> str:
        """Copies that ESXi's rules exclude from XCOPY name the rule."""
        at = "/vmfs/volumes/ds1"
        array.volume("raw", "16MiB", 3)
        device = (set(one.run(f"claim iscsi://127.0.0.1:{array.ports[0]}").split()) - set(site.devices)).pop()
        one.run(f"vmkfstools -r /vmfs/devices/disks/{device} {at}/raw.vmdk")
        one.run(f"vmkfstools -c 16M -d eagerzeroedthick {at}/eager.vmdk")
        one.run("vm create snapped -d ds1 --disk 16M --memory 16")
        one.run("vm snapshot create snapped --label first")
        assert one.run("vm snapshot list snapped").split() == ["1", "first"]
        found = []
        for source, to, rule in [
            ("raw", "thin.vmdk -d thin", "the source file type is RDM"),
            ("eager", "thin.vmdk -d thin", "the source virtual disk type is eagerzeroedthick"),
            ("eager", "hosted.vmdk -d monoflat", "a sparse or hosted format"),
            ("eager", "snapped/more.vmdk", "the target virtual machine has snapshots"),
        ]:
            said = one.run(f"vmkfstools -i {at}/{source}.vmdk {at}/{to}")
            assert "Not offloaded: " in said and rule in said, said
            assert f"software data mover: {said.split('Not offloaded: ')[1].strip()}" in one.log.read_text()
            one.run(f"vmkfstools -U {at}/{to.split()[0]}")
            found.append(rule)
        for name in ("raw", "eager"):
            one.run(f"vmkfstools -U {at}/{name}.vmdk")
        one.run("vm destroy snapped")
        one.run(f"unclaim {device}")
        site.clean()
        return f"{len(found)} rules named on the terminal and in the log"

    def sparse() -> str:
        """Disks in the hosted sparse formats are those of qemu-img, in both directions."""
        at, rule, local = "/vmfs/volumes/ds1", "a sparse or hosted format", site.home / "sparse"
        local.mkdir()
        raw = local / "image.raw"
        with raw.open("wb") as file:
            file.truncate(SPARSE_MIB << 20)
            for mib in (0, 1, 700, 2046, 2047, SPARSE_MIB - 1):  # the second file begins at 2047 MiB
                file.seek((mib << 20) + (mib << 12))
                file.write(os.urandom(300_000))

        def same(disk: str, *parts: str) -> None:
            for name in (disk, *parts):
                (local / name).unlink(missing_ok=True)
                one.run(f"vmfs get {at}/{name} {local / name}")
            run_command(["qemu-img", "check", "-f", "vmdk", str(local / disk)])
            run_command(["qemu-img", "compare", "-f", "vmdk", "-F", "raw", str(local / disk), str(raw)])

        def copied(source: str, to: str) -> None:
            said = one.run(f"vmkfstools -i {at}/{source}.vmdk {at}/{to}")
            assert "Not offloaded: " in said and rule in said, said

        one.run(f"vmkfstools --import {raw} -d thin {at}/plain.vmdk")
        copied("plain", "split.vmdk -d 2gbsparse")
        same("split.vmdk", "split-s001.vmdk", "split-s002.vmdk")
        copied("split", "back.vmdk -d thin")
        copied("back", "mono.vmdk -d monosparse")
        same("mono.vmdk")
        one.run(f"vmkfstools -E {at}/split.vmdk {at}/moved.vmdk")
        assert "Disk chain is consistent." in two.run(f"vmkfstools -e {at}/moved.vmdk")
        for words in ("-j", "-X 4G"):
            assert "the disk has a hosted format; copy it" in one.run(f"vmkfstools {words} {at}/moved.vmdk", code=1)
        for name in ("plain", "back", "mono", "moved"):
            one.run(f"vmkfstools -U {at}/{name}.vmdk")
        formats = {"monolithicSparse": "q.vmdk", "twoGbMaxExtentSparse": "t.vmdk", "streamOptimized": "c.vmdk"}
        for form, name in formats.items():
            options = ["-O", "vmdk", "-o", f"subformat={form}"]
            run_command(["qemu-img", "convert", "-f", "raw", *options, str(raw), str(local / name)])
        one.run(f"vmkfstools --import {local / 'q.vmdk'} -d thin {at}/imported.vmdk")
        for name in ("q.vmdk", "t.vmdk", "t-s001.vmdk", "t-s002.vmdk"):
            one.run(f"vmfs put {local / name} {at}/{name}")
        for name in ("imported", "q", "t"):
            one.run(f"vmkfstools -i {at}/{name}.vmdk -d monosparse {at}/mono.vmdk")
            same("mono.vmdk")
            for gone in (name, "mono"):
                one.run(f"vmkfstools -U {at}/{gone}.vmdk")
        bad = f"vmkfstools --import {local}/%s {at}/bad.vmdk"
        assert "compressed disks are not supported" in one.run(bad % "c.vmdk", code=1)
        assert "put all files on a datastore" in one.run(bad % "t.vmdk", code=2)
        assert one.run(f"vmfs ls {at}").split() == ["template"]
        one.run("vm create hosted -d ds1 --disk 24M --data 8M --seed 3 --memory 16")
        one.run(f"vmkfstools -E {at}/hosted/hosted.vmdk {at}/hosted/flat.vmdk")
        one.run(f"vmkfstools -i {at}/hosted/flat.vmdk -d 2gbsparse {at}/hosted/hosted.vmdk")
        refused = two.run("vm power on hosted --secs 0", code=1)
        assert "Unsupported or invalid disk type for 'scsi0:0'" in refused and "vmkfstools -i" in refused, refused
        assert rule in two.run("vm clone hosted native -d ds2")
        two.run("vm guest native read --size 8M --seed 3")
        for name in ("hosted", "native"):
            one.run(f"vm destroy {name}")
        site.clean()
        return f"2gbsparse and monosparse of {SPARSE_MIB} MiB, written and read by both; power-on refused"

    def shapes() -> str:
        with Array(lab.bin, capacity="4GiB", portals=1, base=lab.scratch("arrays")) as other:
            other.start()
            said = layouts(one, array, other, site.home)
        site.clean()
        return said

    def linked() -> str:
        """Snapshots and linked clones keep their own data, protect their parent, and are copied by the host."""
        one.run("vm create base -d ds1 --disk 24M:thin --memory 16")
        one.run("vm guest base fill --seed 1")
        refused = one.run("vm clone base early --linked", code=1)
        assert "a linked clone needs a snapshot" in refused, refused
        one.run("vm snapshot create base")
        one.run("vm guest base write --size 2M --offset 3M --seed 2")
        free = one.free()["ds1"]
        assert "no data is copied" in one.run("vm clone base twig --linked")
        assert free - one.free()["ds1"] < 8 << 20
        for verb in ("read", "write --size 4M --seed 3", "read --offset 4M"):
            two.run(f"vm guest twig {verb if '--seed' in verb else verb + ' --seed 1'}")
        refused = two.run("vm destroy base", code=1)
        assert "the linked clone 'twig' needs disks of this machine" in refused, refused
        assert "linked clone" in one.run("vm migrate twig -d ds2", code=1)
        said = one.run("vm clone twig whole -d ds2")
        assert "Not offloaded: the source or destination virtual disk is a sparse or hosted format" in said, said
        one.run("vm guest whole read --size 4M --seed 3")
        one.run("vm guest whole read --offset 4M --seed 1")
        one.run("vm destroy twig")
        one.run("vm guest base read --size 2M --offset 3M --seed 2")
        one.run("vm snapshot create base")
        one.run("vm guest base fill --seed 9")
        one.run("vm snapshot revert base")
        one.run("vm guest base read --size 2M --offset 3M --seed 2")
        one.run("vm snapshot remove base")
        one.run("vm guest base read --size 3M --seed 1")
        one.run("vm guest base read --size 2M --offset 3M --seed 2")
        assert one.run("vmfs ls /vmfs/volumes/ds1/base").count("000") == 0
        for name in ("base", "whole"):
            one.run(f"vm destroy {name}")
        site.clean()
        return "two snapshots, a linked clone and a copy of it; contents compared"

    def measured() -> str:
        """fio writes and verifies an exported disk while it moves, and while it is cloned."""
        if not shutil.which("fio") or "nbd" not in run_command(["fio", "--enghelp"]).stdout:
            raise Skip("fio with its NBD engine is not installed")
        one.run("vm create work -d ds1 --disk 160M:thin --memory 16")
        one.run("esxcfg-advcfg -s 0 /DataMover/HardwareAcceleratedMove")
        server, url = export(one, "work")
        port = url.split(":")[2].split("/")[0]
        listed = run_command(["qemu-nbd", "--list", "-b", "127.0.0.1", "-p", port]).stdout
        assert "export: 'work'" in listed and f"size:  {160 << 20}" in listed, listed
        # The last 32 MiB are not changed afterwards: the clone must have them.
        run_command(["qemu-io", "-f", "raw", *blocks("write"), url])
        assert stopped(server) == ""
        counts = []
        for more in ("--migrate ds2", "--clone twin --clone-to ds1"):
            server, url = export(one, "work", f"--distance 5 {more}")
            said, reader = follow(server)
            rounds = during = 0
            while rounds < during + 2:
                assert server.poll() is None and rounds < 100, said
                during += not any("100%" in line for line in said)
                fio(url, "randwrite", f"--size=128M --io_size=24M --verify=crc32c --randseed={rounds}")
                rounds += 1
            server.send_signal(signal.SIGINT)
            reader.join(60)
            assert server.wait(60) == 0, server.stderr.read()[-300:]
            counts.append(during)
        one.run("esxcfg-advcfg -s 1 /DataMover/HardwareAcceleratedMove")
        one.run("esxcfg-advcfg -s 1 /VMFS3/EnableBlockDelete")
        server, url = export(two, "twin")
        text = run_command(["qemu-io", "-f", "raw", *blocks("read"), url]).stdout
        assert "Pattern verification failed" not in text and text.count("read 1048576") == 32, text[-500:]
        assert stopped(server) == ""
        two.run("vm destroy twin")
        # Heartbeats change the figures of the array: no host runs when they are read.
        stored, free = [], []
        for pattern, more in (("write", "--size=160M --refill_buffers"), ("trim", "--size=160M --bs=4M")):
            server, url = export(one, "work")
            fio(url, pattern, more)
            assert stopped(server) == ""
            free.append(two.free()["ds2"])
            array.settled()
            stored.append(array.stored())
        freed = stored[0] - stored[1]
        assert free[1] - free[0] == 160 << 20 and freed > 140 << 20, (freed, free)
        one.run("vm destroy work")
        site.clean()
        return (
            f"0 errors in {counts[0]} rounds while it moved and {counts[1]} while it was cloned; a trim by the guest freed "
            f"{freed >> 20} MiB of the array"
        )

    def seen_by_esxtop(machine: str) -> bool:
        """Whether batch mode of another process shows the reads of a machine's disk, and its sessions."""
        load = one.start(f"vm guest {machine} load --profile oltp --secs 6")
        end = time.monotonic() + 30
        rates: dict[str, float] = {}
        while time.monotonic() < end and not rates.get(f"Virtual Disk({machine}:scsi0:0)\\Reads/sec"):
            header, line = list(csv.reader(io.StringIO(one.run("esxtop -b -d 1 -n 1"))))
            rates = {name.split("\\", 3)[3]: float(cell) for name, cell in zip(header[1:], line[1:], strict=True)}
        assert ended(load)[0] == 0
        sessions = [name for name in rates if name.startswith("Network Port(iSCSI:1:vmhba64:C0:T0:L1)\\MBits ")]
        assert len(sessions) == 2, list(rates)
        return rates.get(f"Virtual Disk({machine}:scsi0:0)\\Average MilliSec/Read", 0) > 0

    def guest() -> str:
        one.run("vm create hand -d ds1 --disk 128M:thin --memory 16")
        assert "Written: 128 MiB" in one.run("vm guest hand fill --seed 5")
        one.run("vm guest hand read --seed 5")
        assert "differs from the data of seed 6" in ended(one.start("vm guest hand read --seed 6"))[1]
        one.run("vm guest hand write --offset 32M --size 8M --seed 9")
        one.run("vm guest hand read --offset 32M --size 8M --seed 9")
        one.run("esxcfg-advcfg -s 1 /VMFS3/EnableBlockDelete")
        array.settled()
        before, free = array.stored(), one.free()["ds1"]
        assert "Freed: 96 blocks" in one.run("vm guest hand trim --offset 32M")
        array.settled()
        after = array.stored()
        assert one.free()["ds1"] - free == 96 << 20 and before - after > 80 << 20, (before, after)
        one.run("vm guest hand read --size 32M --seed 5")
        for profile in ("oltp", "stream", "boot"):
            assert "IOPS" in one.run(f"vm guest hand load --profile {profile} --secs 1")
        assert seen_by_esxtop("hand"), "esxtop shows no reads of the guest"
        job = site.home / "job.fio"
        job.write_text(
            "[a]\nrw=randrw\nbs=16k\niodepth=8\nsize=64m\nio_size=8m\nverify=crc32c\n[b]\nstonewall\nrw=read\nsize=1m\n"
        )
        said = one.run(f"vm guest hand load --profile {job}")
        assert re.search(r"^a: \d+ reads, \d+ writes in .* MiB verified$", said, re.MULTILINE), said
        assert re.search(r"^b: 256 reads, 0 writes in ", said, re.MULTILINE), said
        job.write_text("sd=sd1,lun=/dev/sdb\nwd=wd1,sd=sd1,xfersize=32k,rdpct=20\nrd=rd1,wd=wd1,iorate=max,elapsed=1\n")
        assert re.search(
            r"^wd1: \d+ reads, [1-9]\d* writes", one.run(f"vm guest hand load --profile {job}"), re.MULTILINE
        )
        one.run("vm create filled -d ds1 --disk 64M --data 32M --seed 7 --template --memory 16")
        assert "Offloaded: " in one.run("vm deploy filled copied -d ds2")
        one.run("vm guest copied read --size 32M --seed 7")
        for name in ("hand", "filled", "copied"):
            one.run(f"vm destroy {name}")
        site.clean()
        return f"fill, write, read, load; a trim of 96 MiB freed {(before - after) >> 20} MiB of the array"

    return [
        ("a machine in use is not removed", in_use),
        ("eight deployments of one template", deployments),
        ("kill -9 of a running machine", killed),
        ("Ctrl-C leaves nothing", interrupted),
        ("an array outage of 20 s", outage),
        ("files of a datastore", files),
        ("a disk exported by NBD, while it moves", exported),
        ("rules that exclude XCOPY", rules),
        ("hosted sparse formats", sparse),
        ("block sizes, extents, and two arrays", shapes),
        ("snapshots and linked clones", linked),
        ("fio on an exported disk, moved and cloned", measured),
        ("a guest by hand", guest),
        ("campaign of random commands and faults", lambda: Campaign(site, verbs, RECOVERY).run()),
    ]
