"""Flows of purestorage 1.19, the client of REST 1.x, against one array. Prints one JSON list for each test: name, status, seconds, detail.

old.py HOST:PORT TOKEN
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from collections.abc import Callable

import purestorage

GIB = 1 << 30
IQN = "iqn.2026-11.org.example:old"


def refused(call: Callable, words: str) -> str:
    try:
        call()
    except purestorage.PureHTTPError as error:
        assert words in error.text, error.text
        return error.text
    raise AssertionError(f"not refused: {words}")


def session(address: str, token: str, array: purestorage.FlashArray) -> str:
    assert array.get_rest_version() == "1.19", array.get_rest_version()
    assert array.get()["array_name"] and array.get(space=True)[0]["capacity"] > GIB
    assert array.get(action="monitor")[0]["reads_per_sec"] == 0
    assert [port["iqn"] for port in array.list_ports()]
    refused(lambda: purestorage.FlashArray(address, api_token="wrong"), "not valid")
    refused(lambda: purestorage.FlashArray(address, username="admin", password="x"), "no passwords")
    other = purestorage.FlashArray(address, api_token=token, rest_version="1.4")
    other.invalidate_cookie()
    # The client logs in again by itself.
    assert other.list_volumes() == []
    return f"REST {array.get_rest_version()}, and 1.4 after the end of its session"


def volumes(array: purestorage.FlashArray) -> str:
    made = array.create_volume("old-1", "1G")
    assert (made["name"], made["size"]) == ("old-1", GIB) and len(made["serial"]) == 24, made
    assert array.copy_volume("old-1", "old-2")["source"] == "old-1"
    assert array.copy_volume("old-1", "old-2", overwrite=True)["name"] == "old-2"
    assert array.create_snapshot("old-1", suffix="s")["name"] == "old-1.s"
    assert len(array.create_snapshots(["old-1", "old-2"])) == 2
    assert len(array.get_volume("old-1", snap=True)) == 2
    assert array.extend_volume("old-1", "2G")["size"] == 2 * GIB
    assert array.truncate_volume("old-1", GIB)["size"] == GIB
    assert array.rename_volume("old-2", "old-3")["name"] == "old-3"
    array.destroy_volume("old-3")
    assert [volume["name"] for volume in array.list_volumes()] == ["old-1"]
    assert [volume["name"] for volume in array.list_volumes(pending_only=True)] == ["old-3"]
    assert array.recover_volume("old-3")["name"] == "old-3"
    array.destroy_volume("old-3")
    array.eradicate_volume("old-3")
    assert array.get_volume("old-1", space=True)["size"] == GIB
    assert array.list_volumes(action="monitor", names=["old-1"])[0]["writes_per_sec"] == 0
    refused(lambda: array.get_volume("old-3"), "Volume does not exist")
    refused(lambda: array.create_volume("old-1", "1G"), "already exists")
    return "made, copied, snapshots, resized, renamed, destroyed, recovered, eradicated"


def hosts(array: purestorage.FlashArray) -> str:
    made = array.create_host("old-host", iqnlist=[IQN])
    assert made["iqn"] == [IQN], made
    array.set_host("old-host", personality="esxi")
    assert array.get_host("old-host", personality=True)["personality"] == "esxi"
    array.set_host("old-host", host_user="user", host_password="twelve bytes!")
    assert array.get_host("old-host", chap=True)["host_user"] == "user"
    assert array.connect_host("old-host", "old-1", lun=7)["lun"] == 7
    refused(lambda: array.connect_host("old-host", "old-1"), "already exists")
    assert array.list_volume_private_connections("old-1")[0]["host"] == "old-host"
    assert array.list_host_connections("old-host")[0]["vol"] == "old-1"
    assert array.list_hosts(all=True)[0]["lun"] == 7
    refused(lambda: array.delete_host("old-host"), "connect")
    array.disconnect_host("old-host", "old-1")
    assert array.create_hgroup("old-group", hostlist=["old-host"])["hosts"] == ["old-host"]
    array.connect_hgroup("old-group", "old-1")
    assert array.list_volume_shared_connections("old-1")[0]["hgroup"] == "old-group"
    assert array.list_hgroup_connections("old-group")[0]["vol"] == "old-1"
    array.disconnect_hgroup("old-group", "old-1")
    assert array.set_hgroup("old-group", remhostlist=["old-host"])["hosts"] == []
    array.delete_hgroup("old-group")
    array.rename_host("old-host", "old-host-2")
    array.delete_host("old-host-2")
    refused(lambda: array.create_host("fibre", wwnlist=["0123456789abcdef"]), "iSCSI ports only")
    return "host with CHAP and personality, LUN 7, a group, connections of both"


def protection(array: purestorage.FlashArray) -> str:
    assert array.create_pgroup("old-p", vollist=["old-1"])["volumes"] == ["old-1"]
    assert array.create_pgroup_snapshot("old-p", suffix="s")["name"] == "old-p.s"
    array.set_pgroup("old-p", snap_frequency=3600, all_for=7200, per_day=3, days=2)
    array.enable_pgroup_snapshots("old-p")
    schedule = array.get_pgroup("old-p", schedule=True)
    assert (schedule["snap_enabled"], schedule["snap_frequency"]) == (True, 3600), schedule
    assert array.get_pgroup("old-p", retention=True)["per_day"] == 3
    array.disable_pgroup_snapshots("old-p")
    array.remove_volume("old-1", "old-p")
    array.add_volume("old-1", "old-p")
    array.destroy_pgroup("old-p")
    array.recover_pgroup("old-p")
    array.destroy_pgroup("old-p")
    array.eradicate_pgroup("old-p")
    assert array.list_pgroups(pending=True) == []
    return "members, a snapshot, schedule, retention, destroyed, recovered, eradicated"


def main(address: str, token: str) -> None:
    # The certificate is self-signed.
    warnings.simplefilter("ignore")
    array = purestorage.FlashArray(address, api_token=token)
    flows = {
        "rest1-session": lambda: session(address, token, array),
        "rest1-volumes": lambda: volumes(array),
        "rest1-hosts": lambda: hosts(array),
        "rest1-protection": lambda: protection(array),
    }
    for name, flow in flows.items():
        start = time.monotonic()
        try:
            status, detail = "pass", flow()
        except Exception:
            status, detail = "fail", traceback.format_exc()[-1500:]
        print(json.dumps([name, status, time.monotonic() - start, detail]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
