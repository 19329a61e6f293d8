"""ESXi's commands against a running array: claim, list, set, fail over, esxtop and check, each in its own process."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "esx"
PORTALS = 4
ADAPTERS = 2


class Esx:
    """One simulated host: every call is a process, and the host outlives all of them."""

    def __init__(self, lab: Lab, home: str):
        self.program = str(lab.bin / "ibid-host")
        self.env = {**os.environ, "IBID_HOST_HOME": home, "IBID_HOST": "esx01"}

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run([self.program, *words], env=self.env, capture_output=True, text=True, timeout=120)
        if done.returncode != code:
            raise Failed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def esxcli(self, line: str, **more) -> str:
        return self.run("esxcli", *line.split(), **more)

    def start(self, *words: str) -> subprocess.Popen:
        return subprocess.Popen([self.program, *words], env=self.env, stdout=subprocess.PIPE, text=True)


def field(text: str, name: str) -> str:
    found = re.search(rf"^   {re.escape(name)}: (.*)$", text, re.MULTILINE)
    assert found, f"no {name} in {text[:200]!r}"
    return found[1]


def run(lab: Lab) -> Iterator[Result]:
    with Array(lab.bin, capacity="8GiB", portals=PORTALS, base=lab.scratch("arrays")) as array:
        array.start()
        array.volume("one", "1TiB", 1)
        array.volume("two", "10GiB", 2)
        yield from checks(SUITE, steps(array, Esx(lab, str(array.dir / "hosts"))))


def steps(array: Array, esx: Esx) -> list[tuple[str, Callable[[], str | None]]]:
    names: list[str] = []

    def claim() -> str:
        names.extend(esx.run("claim", f"iscsi://127.0.0.1:{array.ports[0]}").split())
        assert len(names) == 2 and all(re.fullmatch(r"naa\.624a9370[0-9a-f]{24}", name) for name in names), names
        again = esx.run("claim", f"iscsi://127.0.0.1:{array.ports[1]}").split()
        assert again == names, again
        return f"{len(names)} devices through any of {PORTALS} portals"

    def lists() -> str:
        text = esx.esxcli(f"storage core device list -d {names[0]}")
        for name, value in [
            ("Size", "1048576"),
            ("Vendor", "IBID    "),
            ("Status", "on"),
            ("Is SSD", "true"),
            ("Thin Provisioning Status", "yes"),
            ("VAAI Status", "unknown"),
        ]:
            assert field(text, name) == value, (name, field(text, name))
        paths = json.loads(esx.esxcli(f"--formatter json storage core path list -d {names[0]}"))
        assert len(paths) == PORTALS * ADAPTERS and {path["State"] for path in paths} == {"active"}, paths
        assert len({path["UID"] for path in paths}) == len(paths), "each path has a UID of its own"
        rows = list(csv.DictReader(io.StringIO(esx.esxcli("--formatter=csv storage nmp path list"))))
        assert len(rows) == 2 * len(paths) and {row["GroupState"] for row in rows} == {"active"}, rows
        tree = ElementTree.fromstring(esx.esxcli("--formatter=xml storage core device list"))
        assert len(tree.findall(".//{*}structure")) == 2
        assert "Record.Plugin.string=NMP\n" in esx.esxcli("--formatter=keyvalue storage core claimrule list")
        assert int(field(esx.esxcli(f"storage core device stats get -d {names[0]}"), "Failed Commands")) == 0
        return f"{len(paths)} paths"

    def policies() -> None:
        config = "Path Selection Policy Device Config"
        one = f"-d {names[0]}"
        assert "policy=iops,iops=1," in field(esx.esxcli(f"storage nmp device list {one}"), config)
        esx.esxcli(f"storage nmp device set {one} -P VMW_PSP_MRU")
        assert field(esx.esxcli(f"storage nmp device list {one}"), config) == "Current Path=vmhba64:C0:T0:L1"
        esx.esxcli(f"storage nmp psp roundrobin deviceconfig set {one} --iops 1", code=2)
        esx.esxcli(f"storage nmp device set {one} -P VMW_PSP_RR")
        assert "policy=rr,iops=1000," in field(esx.esxcli(f"storage nmp device list {one}"), config)
        esx.esxcli(f"storage nmp psp roundrobin deviceconfig set {one} --type iops --iops 1")

    def settings() -> None:
        text = esx.esxcli("system settings advanced list -o /VMFS3/HardwareAcceleratedLocking")
        assert text.splitlines()[:3] == [
            "   Path: /VMFS3/HardwareAcceleratedLocking",
            "   Type: integer",
            "   Int Value: 1",
        ]
        path = "/DataMover/MaxHWTransferSize"
        assert esx.run("esxcfg-advcfg", "-g", path) == "Value of MaxHWTransferSize is 4096\n"
        assert esx.run("esxcfg-advcfg", "-s", "16384", path) == "Value of MaxHWTransferSize is 16384\n"
        esx.run("esxcfg-advcfg", "-s", "16385", path, code=2)
        assert field(esx.esxcli(f"system settings advanced list -o {path}"), "Int Value") == "16384"

    def check() -> str:
        found = json.loads(esx.run("check", "--json", code=1))
        wrong = [finding for finding in found if not finding["ok"]]
        assert [finding["practice"] for finding in wrong] == ["UNMAP of guests reaches the array"], wrong
        fix = wrong[0]["fix"].split()
        assert fix[0] == "ibid-host", fix
        esx.run(*fix[1:])
        esx.run("check")
        return f"{len(found)} practices, one fixed by the command that it names"

    def disabled() -> None:
        one = f"-d {names[1]}"
        esx.esxcli(f"storage core device vaai status set {one} --clone disable")
        assert field(esx.esxcli(f"storage core device vaai status get {one}"), "Clone Status") == "supported (disabled)"
        esx.esxcli(f"storage core device vaai status set {one} --clone enable")

    def captured() -> str:
        """An esxtop capture during a load of another process, parsed by Python's csv."""
        esx.run("esxtop", "-b", "-d", "0.1", "-n", "1")
        capture = esx.start("esxtop", "-b", "-a", "-d", "0.3", "-n", "3")
        esx.esxcli("storage core device list")
        text, _ = capture.communicate(timeout=60)
        header, *lines = list(csv.reader(io.StringIO(text)))
        assert header[0] == "(PDH-CSV 4.0) (UTC)(0)" and len(lines) == 3, text[:300]
        assert all(len(line) == len(header) for line in lines)
        counters = {name.rsplit("\\", 1)[1] for name in header[1:]}
        for column in (
            "CLONE_RD CLONE_WR CLONE_F MBC_RD/s MBC_WR/s ATS ATSF ZERO ZERO_F MBZERO/s DELETE DELETE_F MBDEL/s "
            "CAVG/suc CAVG/f AAVG/suc AAVG/f AVG/suc ZAVG/f"
        ).split():
            assert column in counters, column
        assert f"\\\\esx01\\Physical Disk SCSI Device({names[0]})\\Commands/sec" in header
        [float(cell) for line in lines for cell in line[1:]]
        return f"{len(header)} columns"

    def array_away() -> str:
        array.kill()
        text = esx.esxcli(f"storage core device list -d {names[0]}")
        assert (field(text, "Status"), field(text, "Is Offline")) == ("dead", "true")
        array.start()
        assert field(esx.esxcli(f"storage core device list -d {names[0]}"), "Status") == "on"
        return "dead while the array is, on when it is back"

    def unclaim() -> None:
        esx.run("unclaim", names[1])
        esx.esxcli(f"storage core device list -d {names[1]}", code=2)
        esx.esxcli(f"iscsi adapter discovery sendtarget add -a 127.0.0.1:{array.ports[0]}")
        esx.esxcli("storage core adapter rescan -A vmhba70", code=2)
        esx.esxcli("storage nmp satp rule add -s VMW_SATP_ALUA -V IBID -P VMW_PSP_RR -O iops=7")
        esx.esxcli("storage core adapter rescan --all")
        config = field(esx.esxcli(f"storage nmp device list -d {names[1]}"), "Path Selection Policy Device Config")
        assert "policy=iops,iops=7," in config, config
        esx.esxcli(f"storage core device list -d {names[1]}")

    return [
        ("claim by discovery", claim),
        ("esxcli storage core device and path list", lists),
        ("esxcli storage nmp: policies", policies),
        ("advanced settings in both syntaxes", settings),
        ("check, and the command that fixes", check),
        ("one offload off for one device", disabled),
        ("esxtop in batch mode", captured),
        ("an array outage", array_away),
        ("unclaim, and rescan", unclaim),
    ]
