"""A slice of the lab: experiments against an array, tgt and a pair of arrays; checks the report as page, JSON and CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.peer import Tgt
from ibid_tests.kit.procs import run as command
from ibid_tests.outside.result import Lab, Result, checks

SUITE = "lab"
GIB = 1 << 30


def run(lab: Lab) -> Iterator[Result]:
    host, out = Host(lab.bin), lab.scratch("lab")
    array_out, tgt_out = out / "ibid", out / "tgt"

    def measure(names: list[str], targets: list[str], into: Path) -> dict:
        options = [word for url in targets for word in ("--target", url)]
        command(
            [host.program, "lab", "run", *names, "--repeat", "1", "--quiet", "--out", str(into), *options], limit=600
        )
        report = json.loads((into / "report.json").read_text())
        assert [o["name"] for o in report["outcomes"]] == names, "the report has other experiments than requested"
        for outcome in report["outcomes"]:
            assert outcome["ending"]["state"] == "done", f"{outcome['name']}: {outcome['ending']}"
        return report

    def against_the_array() -> str:
        with Array(lab.bin, capacity="16GiB", base=lab.scratch("arrays")) as array:
            array.start()
            urls = [array.volume(f"lab{lun}", "2TiB", lun) for lun in (1, 2)]
            report = measure(["transfer-size", "terabyte"], urls, array_out)
        for outcome in report["outcomes"]:
            found = outcome["findings"]
            assert not [n for n in found["notes"] if n["kind"] == "unsupported"], f"{outcome['name']}: {found['notes']}"
            assert found["figures"][0]["measured"] and found["seen"], f"{outcome['name']} has no text"
            assert found["outstanding"]["write_same"] == 64 and "WRITE SAME 64" in found["setup"], found["setup"]
        return "; ".join(f"{o['id']}: {o['findings']['figures'][0]['measured']:.1f}×" for o in report["outcomes"])

    def on_two_arrays() -> str:
        scratch = ["--scratch", str(lab.scratch("arrays"))]
        command(
            [
                host.program,
                "lab",
                "run",
                "L12",
                "L13",
                "--repeat",
                "1",
                "--quiet",
                "--out",
                str(out / "pair"),
                *scratch,
            ],
            limit=600,
        )
        outcomes = {o["id"]: o for o in json.loads((out / "pair" / "report.json").read_text())["outcomes"]}
        for outcome in outcomes.values():
            assert outcome["ending"]["state"] == "done", outcome["ending"]
            assert outcome["published"]["quotes"] and outcome["findings"]["plots"], f"{outcome['id']}: {outcome}"
        found = outcomes["L12"]["findings"]
        assert not [n for n in found["notes"] if n["kind"] == "unsupported"], found["notes"]
        link = {
            sample["case"]: sample["value"]
            for sample in found["samples"]
            if sample["measure"] == "link" and sample["setting"] == "XCOPY on"
        }
        data = 128
        assert link["on one array"] < 1, link
        assert 0.9 * data < link["into a pod"] < 1.3 * data, link
        assert max(link[case] for case in ("into a pod again", "within a pod", "to another pod")) < 0.05 * data, link
        for figure in outcomes["L13"]["findings"]["figures"][:3]:
            limit, value = next(iter(figure["goal"].items())), figure["measured"]
            assert value <= limit[1] if limit[0] == "at_most" else value >= limit[1], figure
        said = "; ".join(f"{case}: {mib:.1f} MiB" for case, mib in link.items())
        return f"{said}; both sides fell {outcomes['L13']['findings']['figures'][0]['measured']:.1f} s after UNMAP"

    def a_report_for_people_and_scripts() -> str:
        report = json.loads((array_out / "report.json").read_text())
        html = (array_out / "report.html").read_text()
        plots = sum(len(o["findings"]["plots"]) + len(o["published"]["plots"]) for o in report["outcomes"])
        assert html.count("data-plot=") == plots > 0, "a plot is missing in the page"
        assert "<link" not in html and 'src="' not in html, "the page refers to another file"
        with (array_out / "samples.csv").open(newline="") as f:
            rows = list(csv.DictReader(f))
        samples = sum(len(o["findings"]["samples"]) for o in report["outcomes"])
        assert len(rows) == samples > 0 and all(float(row["value"]) >= 0 for row in rows), (
            "samples.csv is not the report's samples"
        )
        return f"{plots} plots, {samples} samples"

    def against_tgt() -> str:
        with Tgt(lab.scratch("packages"), base=lab.scratch("tgt")) as tgt:
            tgt.start()
            urls = [tgt.volume(8 * GIB, lun) for lun in (1, 2)]
            report = measure(["transfer-size"], urls, tgt_out)
        notes = report["outcomes"][0]["findings"]["notes"]
        assert [n for n in notes if n["kind"] == "unsupported"], (
            "tgt has no EXTENDED COPY, and the report does not say so"
        )
        return "no EXTENDED COPY: reported, and the fallback measured"

    def a_comparison() -> str:
        page = out / "compare.html"
        names = [f"ibid={array_out / 'report.json'}", f"tgt={tgt_out / 'report.json'}"]
        done = command([host.program, "lab", "compare", *names, "--out", str(page)])
        assert "faster with 16 MB" in done.stdout and "tgt:" in done.stdout, done.stdout
        assert "faster with 16 MB" in page.read_text(), "the page lacks a figure"
        return "two targets on one page"

    def explained() -> str:
        with Array(lab.bin, capacity="16GiB", base=lab.scratch("arrays")) as array:
            array.start()
            targets = [word for lun in (1, 2) for word in ("--target", array.volume(f"lab{lun}", "2TiB", lun))]
            names = ["primitives", "deploy", "--explain", "--repeat", "1", "--quiet"]
            done = command([host.program, "lab", "run", *names, "--out", str(out / "explained"), *targets], limit=600)
        report = json.loads((out / "explained" / "report.json").read_text())
        found = report["outcomes"][1]["findings"]
        settings = [timeline["title"].split(", ")[1] for timeline in found["timelines"]]
        assert settings == ["XCOPY off", "XCOPY on"] and "EXTENDED COPY" in done.stdout, done.stdout
        rows = found["timelines"][1]["rows"]
        copies = sum(row["commands"] for row in rows if row["command"] == "EXTENDED COPY")
        # 512 MiB by 16 MiB. A template in two runs of blocks has one copy that ends with the first run.
        assert copies in (32, 33), copies
        times = {p["setting"]: (p["commands"] + p["metadata"], p["seen"]) for p in found["predictions"]}
        assert set(times) == {"XCOPY off", "XCOPY on"} and min(min(pair) for pair in times.values()) > 0, times
        return "; ".join(f"{name}: predicted {p:.3f} s, seen {seen:.3f} s" for name, (p, seen) in times.items())

    def captures_of_hosts() -> str:
        device = "\\\\esx1\\Physical Disk SCSI Device(naa.6001)\\"
        header = ["(PDH-CSV 4.0) (UTC)(0)", *(device + name for name in ("Commands/sec", "CLONE_RD"))]
        lines = [header, ["11/23/2026 09:00:00", "12.00", "0"], ["11/23/2026 09:00:05", "90.00", "64"]]
        capture, log, into = out / "esxtop.csv", out / "vmkernel.log", out / "imported"
        capture.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
        log.write_text("2026-11-23T09:00:01Z cpu0:1)Unmap: Async Unmapped 200 blocks from volume 5a1-b\n")
        command(
            [
                host.program,
                "lab",
                "import",
                f"esx={capture}",
                str(log),
                str(array_out / "report.json"),
                "--out",
                str(into),
            ]
        )
        outcomes = json.loads((into / "report.json").read_text())["outcomes"]
        assert [o["id"] for o in outcomes] == ["C1", "C3", "C5", "L6", "L8"], [o["id"] for o in outcomes]
        assert "200 blocks in 1 iterations" in (into / "report.html").read_text()
        return "commands, offloads, a log and a report of the lab on one page"

    def full_disks_are_left_alone() -> str:
        with Array(lab.bin, capacity="4GiB", base=lab.scratch("arrays")) as array:
            array.start()
            url = array.volume("precious", "1GiB", 1)
            host.verb("fill", url, "--size", "16MiB", "--seed", "1")
            done = command(
                [host.program, "lab", "run", "L8", "--target", url, "--out", str(out / "refused")], check=False
            )
            assert done.returncode == 2 and "--erase" in done.stderr, f"exit {done.returncode}: {done.stderr}"
            host.verb("verify", url, "--size", "16MiB", "--seed", "1")
        return "refused, and nothing was written"

    yield from checks(
        SUITE,
        [
            ("two experiments", against_the_array),
            ("on two arrays", on_two_arrays),
            ("the report", a_report_for_people_and_scripts),
            ("tgt", against_tgt),
            ("a comparison", a_comparison),
            ("predicted and explained", explained),
            ("captures of hosts", captures_of_hosts),
            ("a disk with other content", full_disks_are_left_alone),
        ],
    )
