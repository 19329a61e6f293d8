"""Datastores of larger blocks and with several extents: the rules of XCOPY that depend on the datastore."""

from __future__ import annotations

import re
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.outside.qemu import image

IMAGE_MIB = 64


class Layouts:
    """Devices of two arrays, claimed by one host for the time of the test."""

    def __init__(self, node, array: Array, other: Array, home: Path):
        self.node, self.array, self.other, self.home = node, array, other, home
        self.image = image(home / "layouts.raw", IMAGE_MIB)
        self.claimed: list[str] = []

    def device(self, array: Array, name: str, size: str, lun: int) -> str:
        """Creates a volume and returns the host's name for it."""
        (device,) = self.node.run(f"claim {array.volume(name, size, lun)}").split()
        self.claimed.append(device)
        return device

    def copied(self, source: str, target: str, expected: str, more: str = "") -> None:
        """Copies a disk; the terminal and the log must tell how, and the data must be the image's."""
        said = self.node.run(f"vmkfstools -i {source}.vmdk {target}.vmdk {more}")
        reason = re.search(r"Not offloaded: (.*)", said)
        line = self.node.log.read_text().splitlines()[-1]
        assert (reason[1] if reason else "") == expected, (expected, said)
        assert line.endswith(f"software data mover: {expected}" if expected else " XCOPY commands"), line
        back = self.home / "back.raw"
        self.node.run(f"vmfs get {target}-flat.vmdk {back}")
        with self.image.open("rb") as one, back.open("rb") as two:
            assert one.read() == two.read(IMAGE_MIB << 20), target
            assert not two.read().strip(b"\0"), "data after the end of the disk"
        back.unlink()
        self.node.run(f"vmkfstools -U {target}.vmdk")

    def release(self) -> None:
        for device in self.claimed:
            self.node.run(f"unclaim {device}")
        self.image.unlink()


def layouts(node, array: Array, other: Array, home: Path) -> str:
    """The rules on block sizes, on extents on several arrays, and on two arrays."""
    site = Layouts(node, array, other, home)
    at = "/vmfs/volumes"
    large, head = site.device(array, "large", "1GiB", 11), site.device(array, "head", "512MiB", 12)
    near, far = site.device(array, "near", "512MiB", 13), site.device(other, "far", "512MiB", 1)
    away = site.device(other, "away", "512MiB", 2)
    node.run(f"vmkfstools --import {site.image} -d zeroedthick {at}/ds1/image.vmdk")
    refused = node.run(f"vmkfstools -C vmfs6 -b 8m -S large {large}:1", code=2)
    assert "file blocks of 1 MiB" in refused and "hint: use -C vmfs5" in refused, refused
    node.run(f"vmkfstools -C vmfs5 -b 8m -S large {large}:1")
    assert "file blocks * 8388608" in node.run(f"vmkfstools -P {at}/large")
    sizes = "the source and destination VMFS volumes have different block sizes"
    for disk_format in ("thin", "zeroedthick", "eagerzeroedthick"):
        site.copied(f"{at}/ds1/image", f"{at}/large/copy", sizes, f"-d {disk_format}")
    node.run(f"vmkfstools --import {site.image} -d thin {at}/large/image.vmdk")
    site.copied(f"{at}/large/image", f"{at}/ds1/copy", sizes)
    site.copied(f"{at}/large/image", f"{at}/large/copy", "")

    node.run(f"vmkfstools -C vmfs5 -S wide {head}:1")
    small = node.free()["wide"]
    refused = node.run(f"vmkfstools -Z {large}:1 {head}:1", code=1)
    assert "the device holds a datastore" in refused, refused
    node.run(f"vmkfstools -Z {near}:1 {head}:1")
    assert node.free()["wide"] > small + (500 << 20)
    listed = node.run("esxcli --formatter=csv storage vmfs extent list")
    assert [line.split(",")[3] for line in listed.splitlines() if near in line or head in line] == [head, near], listed
    assert "spanning 2 partitions" in node.run(f"vmkfstools -P {at}/wide")
    # The disk fills the first extent: the image is on the second one, or on both.
    node.run(f"vmkfstools -c {(small >> 20) - IMAGE_MIB // 2}M {at}/wide/filler.vmdk")
    site.copied(f"{at}/ds1/image", f"{at}/wide/copy", "")
    node.run(f"vmkfstools -i {at}/ds1/image.vmdk {at}/wide/image.vmdk")
    site.copied(f"{at}/wide/image", f"{at}/ds1/copy", "")
    node.run("esxcli storage vmfs unmap -l wide")
    node.run(f"vmkfstools -C vmfs6 -S away {away}:1")
    site.copied(f"{at}/ds1/image", f"{at}/away/copy", "the copy is between one array and another")
    node.run(f"vmkfstools -Z {far}:1 {head}:1")
    extents = "the VMFS datastore has extents on different arrays"
    site.copied(f"{at}/ds1/image", f"{at}/wide/copy", extents)
    site.copied(f"{at}/wide/image", f"{at}/ds1/copy", extents)
    for device in (large, head, away):
        assert "Total Errors Found:           0" in node.run(f"voma -m vmfs -f check -d {device}:1")
    node.run(f"unclaim {far}")
    site.claimed.remove(far)
    refused = node.run(f"vmkfstools -P {at}/wide", code=1)
    assert "extents of the datastore on no device of the host: 1" in refused, refused
    node.run(f"vmkfstools -U {at}/ds1/image.vmdk")
    site.release()
    return "blocks of 8 MiB, two extents with XCOPY, three on two arrays, and two arrays; contents compared"
