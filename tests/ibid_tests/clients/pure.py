"""Flows of py-pure-client against one array. Prints one JSON object for each test: name, status and detail.

pure.py HOST:PORT TOKEN
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pypureclient import PureError, flasharray
from pypureclient.flasharray import ErrorResponse

GIB = 1 << 30
# Arguments that the client requires for a call; any other call is made without arguments.
REQUIRED = {"names": ["none"], "block_size": 4096, "segment_length": 1 << 20}
# The client's own helpers, which call nothing.
LOCAL = {"get_access_token", "get_rest_version"}


def ok(response):
    """Returns the items of an answer; an error fails the test."""
    assert not isinstance(response, ErrorResponse), f"{[(e.context, e.message) for e in response.errors]}"
    return list(response.items or [])


def one(response):
    items = ok(response)
    assert len(items) == 1, f"{len(items)} items"
    return items[0]


def refused(response, words: str) -> None:
    assert isinstance(response, ErrorResponse), "not refused"
    message = response.errors[0].message
    assert words in message, message


def enumerate_all(array) -> str:
    """Calls every `get_*`. Each one returns items, or says in words that it is not supported."""
    answered, unsupported, wrong = [], [], []
    for name in sorted(dir(array)):
        if not name.startswith("get_") or name in LOCAL:
            continue
        call = getattr(array, name)
        needed = inspect.signature(call).parameters
        arguments = {k: REQUIRED[k] for k, p in needed.items() if p.default is inspect.Parameter.empty}
        try:
            response = call(**arguments)
            if isinstance(response, ErrorResponse):
                message = response.errors[0].message
                (unsupported if "does not support" in message else wrong).append(f"{name}: {message}")
            else:
                [item.to_dict() for item in response.items or []]
                answered.append(name)
        except (PureError, AttributeError, TypeError, ValueError) as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error)[:120]}")
    print(json.dumps({"answered": answered, "unsupported": unsupported, "wrong": wrong}), file=sys.stderr)
    assert not wrong, "; ".join(wrong)
    return f"{len(answered)} answered, {len(unsupported)} refused in words"


def volumes(array) -> str:
    made = one(array.post_volumes(names=["v1"], volume=flasharray.VolumePost(provisioned=GIB)))
    assert (made.name, made.provisioned, made.subtype, made.promotion_status) == ("v1", GIB, "regular", "promoted")
    assert made.priority_adjustment.priority_adjustment_value == 0
    one(array.patch_volumes(names=["v1"], volume=flasharray.VolumePatch(provisioned=2 * GIB)))
    limits = flasharray.Qos(iops_limit=1000, bandwidth_limit=10 << 20)
    one(array.patch_volumes(names=["v1"], volume=flasharray.VolumePatch(qos=limits)))
    found = one(array.get_volumes(filter="name='V*' and provisioned > 1", sort=["name-"], total_item_count=True))
    assert (found.provisioned, found.qos.iops_limit, found.id) == (2 * GIB, 1000, made.id)
    assert one(array.get_volumes(ids=[made.id])).serial == made.serial
    refused(array.get_volumes(names=["none"]), "does not exist")
    refused(array.post_volumes(names=["v1"], volume=flasharray.VolumePost(provisioned=GIB)), "already exists")
    one(array.patch_volumes(names=["v1"], volume=flasharray.VolumePatch(name="v2")))
    assert one(array.get_volumes_space(names=["v2"])).space.total_provisioned == 2 * GIB
    one(array.patch_volumes(names=["v2"], volume=flasharray.VolumePatch(destroyed=True)))
    assert one(array.get_volumes(names=["v2"], destroyed=True)).time_remaining > 0
    one(array.patch_volumes(names=["v2"], volume=flasharray.VolumePatch(destroyed=False)))
    one(array.patch_volumes(names=["v2"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["v2"]))
    assert ok(array.get_volumes()) == []
    return "created, resized, limited, found, renamed, destroyed, recovered, eradicated"


def pages(array) -> str:
    names = [f"p{n:02}" for n in range(25)]
    ok(array.post_volumes(names=names, volume=flasharray.VolumePost(provisioned=1 << 20)))
    found, token = [], None
    for _ in range(3):
        page = array.get_volumes(limit=10, filter="name='p*'", continuation_token=token)
        found += [volume.name for volume in page.items]
        token = page.continuation_token
    assert found == names and token is None, found
    first = array.get_volumes(limit=10, offset=5, sort=["name"], total_item_count=True)
    assert first.total_item_count == 25 and first.continuation_token
    ok(array.patch_volumes(names=names, volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=names))
    return "25 volumes in pages of 10"


def snapshots(array) -> str:
    ok(array.post_volumes(names=["a", "b"], volume=flasharray.VolumePost(provisioned=GIB)))
    taken = ok(
        array.post_volume_snapshots(
            source_names=["a", "b"], volume_snapshot=flasharray.VolumeSnapshotPost(suffix="daily")
        )
    )
    assert sorted(s.name for s in taken) == ["a.daily", "b.daily"] and taken[0].source.name == "a"
    copy = flasharray.VolumePost(source=flasharray.Reference(name="a.daily"))
    clone = one(array.post_volumes(names=["clone"], volume=copy))
    assert clone.source.name == "a.daily" and clone.provisioned == GIB
    one(array.post_volumes(names=["a"], overwrite=True, volume=copy))
    patch = flasharray.VolumeSnapshotPatch
    one(array.patch_volume_snapshots(names=["b.daily"], volume_snapshot=patch(name="weekly")))
    one(array.patch_volume_snapshots(names=["b.weekly"], volume_snapshot=patch(destroyed=True)))
    one(array.patch_volume_snapshots(names=["b.weekly"], volume_snapshot=patch(destroyed=False)))
    one(array.patch_volume_snapshots(names=["b.weekly"], volume_snapshot=patch(destroyed=True)))
    ok(array.delete_volume_snapshots(names=["b.weekly"]))
    assert [s.name for s in ok(array.get_volume_snapshots(destroyed=False))] == ["a.daily"]
    ok(array.patch_volumes(names=["a", "b", "clone"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["a", "b", "clone"]))
    return "taken of two volumes, cloned, restored, renamed, destroyed, recovered, eradicated"


def hosts(array) -> str:
    iqn = "iqn.1998-01.com.vmware:esx1"
    made = one(array.post_hosts(names=["esx1"], host=flasharray.HostPost(iqns=[iqn], personality="esxi")))
    assert (made.iqns, made.personality, made.vlan, made.is_local) == ([iqn], "esxi", "any", True)
    assert one(array.get_hosts(filter=f"iqns='{iqn}' and is_local")).name == "esx1"
    secret = flasharray.Chap(host_user="esx", host_password="twelve bytes")
    assert one(array.patch_hosts(names=["esx1"], host=flasharray.HostPatch(chap=secret))).chap.host_user == "esx"
    one(array.post_volumes(names=["v"], volume=flasharray.VolumePost(provisioned=GIB)))
    made = one(
        array.post_connections(host_names=["esx1"], volume_names=["v"], connection=flasharray.ConnectionPost(lun=7))
    )
    assert (made.host.name, made.volume.name, made.lun) == ("esx1", "v", 7)
    assert one(array.get_connections(host_names=["esx1"])).lun == 7
    assert one(array.get_hosts_space(names=["esx1"])).space.total_provisioned == GIB
    gone = flasharray.VolumePatch(destroyed=True)
    refused(array.patch_volumes(names=["v"], volume=gone), "due to existing connections")
    ok(array.delete_connections(host_names=["esx1"], volume_names=["v"]))
    ok(array.delete_hosts(names=["esx1"]))
    ok(array.patch_volumes(names=["v"], volume=gone))
    ok(array.delete_volumes(names=["v"]))
    return "created, found by initiator, CHAP, connected at LUN 7, disconnected, deleted"


def host_groups(array) -> str:
    one(array.post_volumes(names=["v"], volume=flasharray.VolumePost(provisioned=GIB)))
    ok(array.post_hosts(names=["h1", "h2"], host=flasharray.HostPost()))
    one(array.post_host_groups(names=["cluster"]))
    ok(array.post_host_groups_hosts(group_names=["cluster"], member_names=["h1"]))
    lun = flasharray.ConnectionPost(lun=5)
    one(array.post_connections(host_group_names=["cluster"], volume_names=["v"], connection=lun))
    ok(array.post_host_groups_hosts(group_names=["cluster"], member_names=["h2"]))
    assert [(c.host.name, c.lun) for c in ok(array.get_connections(host_group_names=["cluster"]))] == [
        ("h1", 5),
        ("h2", 5),
    ]
    assert one(array.get_hosts(names=["h2"])).host_group.name == "cluster"
    refused(array.post_host_groups_hosts(group_names=["cluster"], member_names=["h1"]), "already belongs to")
    ok(array.delete_connections(host_group_names=["cluster"], volume_names=["v"]))
    ok(array.delete_host_groups_hosts(group_names=["cluster"], member_names=["h1", "h2"]))
    ok(array.delete_host_groups(names=["cluster"]))
    ok(array.delete_hosts(names=["h1", "h2"]))
    tag = flasharray.TagBatch(key="owner", value="ops", namespace="n", copyable=True)
    ok(array.put_volumes_tags_batch(resource_names=["v"], tag=[tag]))
    assert one(array.get_volumes_tags(resource_names=["v"], namespaces=["n"])).value == "ops"
    ok(array.delete_volumes_tags(resource_names=["v"], namespaces=["n"]))
    ok(array.patch_volumes(names=["v"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["v"]))
    return "two hosts at one LUN, left and deleted; tags of a volume"


def volume_groups(array) -> str:
    post, patch = flasharray.VolumeGroupPost, flasharray.VolumeGroupPatch
    made = one(array.post_volume_groups(names=["vg"], volume_group=post()))
    assert (made.name, made.volume_count, made.destroyed) == ("vg", 0, False)
    assert made.priority_adjustment.priority_adjustment_value == 0
    ok(array.post_volumes(names=["vg/a", "b"], volume=flasharray.VolumePost(provisioned=GIB)))
    to = lambda name: flasharray.VolumePatch(volume_group=flasharray.Reference(name=name))  # noqa: E731
    moved = one(array.patch_volumes(names=["b"], volume=to("vg")))
    assert (moved.name, moved.volume_group.name) == ("vg/b", "vg")
    assert [pair.member.name for pair in ok(array.get_volume_groups_volumes(group_names=["vg"]))] == ["vg/a", "vg/b"]
    assert one(array.get_volumes_volume_groups(member_names=["vg/a"])).group.name == "vg"
    assert one(array.get_volume_groups_space(names=["vg"])).space.total_provisioned == 2 * GIB
    assert one(array.get_volume_groups_performance(names=["vg"])).reads_per_sec == 0
    taken = flasharray.VolumeSnapshotPost(suffix="s")
    assert one(array.post_volume_snapshots(source_names=["vg/a"], volume_snapshot=taken)).name == "vg/a.s"
    one(array.patch_volume_groups(names=["vg"], volume_group=patch(name="prod")))
    assert one(array.get_volume_snapshots(names=["prod/a.s"])).source.name == "prod/a"
    assert one(array.patch_volumes(names=["prod/b"], volume=flasharray.VolumePatch(name="c"))).name == "prod/c"
    assert one(array.patch_volumes(names=["prod/c"], volume=to(""))).name == "c"
    limits = flasharray.Qos(iops_limit=1000, bandwidth_limit=100 << 20)
    limited = one(array.patch_volume_groups(names=["prod"], volume_group=patch(qos=limits)))
    assert (limited.qos.iops_limit, limited.qos.bandwidth_limit) == (1000, 100 << 20)
    refused(array.post_volumes(names=["none/v"], volume=flasharray.VolumePost(provisioned=GIB)), "does not exist")
    one(array.patch_volume_groups(names=["prod"], volume_group=patch(destroyed=True)))
    assert one(array.get_volumes(names=["prod/a"])).destroyed
    refused(array.get_volume_groups(names=["prod"], destroyed=False), "has been destroyed")
    one(array.patch_volume_groups(names=["prod"], volume_group=patch(destroyed=False)))
    assert not one(array.get_volumes(names=["prod/a"])).destroyed
    one(array.patch_volume_groups(names=["prod"], volume_group=patch(destroyed=True)))
    ok(array.delete_volume_groups(names=["prod"]))
    one(array.patch_volumes(names=["c"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["c"]))
    assert ok(array.get_volumes()) == [] and ok(array.get_volume_groups()) == []
    return "volumes created in it, moved in and out, limited together, renamed with it, destroyed, recovered and eradicated with it"


def pods(array) -> str:
    post, patch = flasharray.PodPost, flasharray.PodPatch
    made = one(array.post_pods(names=["p"], pod=post()))
    assert (made.name, made.array_count, made.promotion_status, made.link_target_count) == ("p", 1, "promoted", 0)
    assert (made.arrays[0].id, made.arrays[0].status) == (one(array.get_arrays()).id, "online")
    assert not hasattr(made.arrays[0], "frozen_at") and not made.arrays[0].pre_elected
    ok(array.post_volumes(names=["p::a", "b"], volume=flasharray.VolumePost(provisioned=GIB)))
    to = lambda name: flasharray.VolumePatch(pod=flasharray.Reference(name=name))  # noqa: E731
    moved = one(array.patch_volumes(names=["b"], volume=to("p")))
    assert (moved.name, moved.pod.name) == ("p::b", "p")
    assert [volume.name for volume in ok(array.get_volumes(filter="pod.name='p'"))] == ["p::a", "p::b"]
    assert one(array.get_pods_space(names=["p"])).space.total_provisioned == 2 * GIB
    assert one(array.get_pods_performance(names=["p"])).reads_per_sec == 0
    assert one(array.get_pods_arrays(group_names=["p"])).member.name == made.arrays[0].name
    assert ok(array.get_pods_performance_replication()) == ok(array.get_pod_replica_links()) == []
    assert one(array.get_container_default_protections(names=["p"])).default_protections == []
    taken = flasharray.VolumeSnapshotPost(suffix="s")
    assert one(array.post_volume_snapshots(source_names=["p::a"], volume_snapshot=taken)).pod.name == "p"
    one(array.patch_pods(names=["p"], pod=patch(name="dc1")))
    assert one(array.get_volume_snapshots(names=["dc1::a.s"])).source.name == "dc1::a"
    limited = one(array.patch_pods(names=["dc1"], pod=patch(quota_limit=2 * GIB)))
    assert limited.quota_limit == limited.space.used_provisioned == 2 * GIB
    more = flasharray.VolumePost(provisioned=GIB)
    refused(array.post_volumes(names=["dc1::c"], volume=more), "limit reached")
    assert not hasattr(one(array.patch_pods(names=["dc1"], pod=patch(quota_limit=""))), "quota_limit")
    clone = one(array.post_pods(names=["copy"], pod=post(source=flasharray.Reference(name="dc1"))))
    assert clone.source.name == "dc1" and one(array.get_volumes(names=["copy::b"])).source.name == "dc1::b"
    assert one(array.patch_volumes(names=["dc1::b"], volume=to(""))).name == "b"
    refused(array.post_pods_arrays(group_names=["dc1"], member_names=["other"]), "cannot be stretched to other")
    refused(array.patch_pods(names=["dc1"], pod=patch(requested_promotion_state="demoted")), "does not support")
    refused(array.patch_pods(names=["dc1"], pod=patch(destroyed=True)), "not empty")
    both = ["dc1", "copy"]
    ok(array.patch_pods(names=both, destroy_contents=True, pod=patch(destroyed=True)))
    assert one(array.get_volumes(names=["dc1::a"])).destroyed
    refused(array.get_pods(names=["dc1"], destroyed=False), "has been destroyed")
    one(array.patch_pods(names=["dc1"], pod=patch(destroyed=False)))
    assert not one(array.get_volumes(names=["dc1::a"])).destroyed
    one(array.patch_pods(names=["dc1"], destroy_contents=True, pod=patch(destroyed=True)))
    refused(array.delete_pods(names=both), "not empty")
    ok(array.delete_pods(names=both, eradicate_contents=True))
    one(array.patch_volumes(names=["b"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["b"]))
    assert ok(array.get_volumes()) == [] and ok(array.get_pods()) == []
    return "volumes created in it, moved in and out, cloned, renamed, a quota; destroyed, recovered and eradicated with them"


def protection_groups(array) -> str:
    ok(array.post_volumes(names=["a", "b"], volume=flasharray.VolumePost(provisioned=GIB)))
    one(array.post_protection_groups(names=["pg"]))
    ok(array.post_protection_groups_volumes(group_names=["pg"], member_names=["a", "b"]))
    taken = one(
        array.post_protection_group_snapshots(
            source_names=["pg"], protection_group_snapshot=flasharray.ProtectionGroupSnapshotPost(suffix="x")
        )
    )
    assert (taken.name, taken.source.name) == ("pg.x", "pg")
    assert one(array.get_volume_snapshots(names=["pg.x.a"])).source.name == "a"
    clone = flasharray.VolumePost(source=flasharray.Reference(name="pg.x.b"))
    one(array.post_volumes(names=["clone"], volume=clone))
    group = flasharray.ProtectionGroup(
        snapshot_schedule=flasharray.SnapshotSchedule(enabled=True, frequency=300_000),
        source_retention=flasharray.RetentionPolicy(all_for_sec=3600, per_day=4, days=2),
    )
    changed = one(array.patch_protection_groups(names=["pg"], protection_group=group))
    assert changed.snapshot_schedule.enabled and changed.source_retention.per_day == 4
    gone = flasharray.ProtectionGroup(destroyed=True)
    one(array.patch_protection_groups(names=["pg"], protection_group=gone))
    assert one(array.get_protection_group_snapshots(names=["pg.x"])).destroyed
    ok(array.delete_protection_groups(names=["pg"]))
    ok(array.patch_volumes(names=["a", "b", "clone"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["a", "b", "clone"]))
    return "members, snapshot, clone of it, schedule, retention, destroyed, eradicated"


def snapshot_policies(array) -> str:
    hour = 3_600_000
    one(array.post_volumes(names=["v"], volume=flasharray.VolumePost(provisioned=GIB)))
    one(array.post_policies_snapshot(names=["p"], policy=flasharray.PolicyPost(enabled=True)))
    rule = flasharray.PolicyrulesnapshotpostRules(every=hour, keep_for=24 * hour, client_name="hourly")
    rules = flasharray.PolicyRuleSnapshotPost(rules=[rule])
    assert one(array.post_policies_snapshot_rules(policy_names=["p"], rules=rules)).keep_for == 24 * hour
    member = flasharray.ReferenceWithType(name="v", resource_type="volumes")
    members = flasharray.PolicyMemberPost(members=[flasharray.PolicymemberpostMembers(member=member)])
    assert one(array.post_policies_snapshot_members(policy_names=["p"], members=members)).member.name == "v"
    found = []
    for _ in range(150):  # The array looks for due snapshots several times a minute.
        found = [s.name for s in ok(array.get_volume_snapshots(source_names=["v"]))]
        if found:
            break
        time.sleep(0.2)
    assert found == ["v.hourly-1"], found
    assert one(array.get_policies(names=["p"])).policy_type == "snapshot"
    assert one(array.get_policies_snapshot_rules(policy_names=["p"])).client_name == "hourly"
    assert one(array.get_policies_members(policy_names=["p"])).member.resource_type == "volumes"
    off = flasharray.PolicyPatch(enabled=False)
    assert not one(array.patch_policies_snapshot(names=["p"], policy=off)).enabled
    directory = flasharray.ReferenceWithType(name="d", resource_type="directories")
    members = flasharray.PolicyMemberPost(members=[flasharray.PolicymemberpostMembers(member=directory)])
    refused(
        array.post_policies_snapshot_members(policy_names=["p"], members=members), "does not support policies of dir"
    )
    ok(array.delete_policies_snapshot_rules(policy_names=["p"], names=["p.1"]))
    ok(array.delete_policies_snapshot_members(policy_names=["p"], member_names=["v"], member_types=["volumes"]))
    ok(array.delete_policies_snapshot(names=["p"]))
    ok(array.patch_volumes(names=["v"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(array.delete_volumes(names=["v"]))
    return "policy, rule, member, a snapshot taken by it; disabled, removed; directories refused"


def parts(array) -> str:
    shown = one(array.get_arrays())
    assert shown.version == "6.4.10" and not shown.encryption.data_at_rest.enabled
    assert shown.space.total_used >= 0 and shown.eradication_config.eradication_delay == 86_400_000
    delay = flasharray.EradicationConfig(eradication_delay=172_800_000)
    assert one(array.patch_arrays(array=flasharray.Arrays(eradication_config=delay))).eradication_config == (
        one(array.get_arrays()).eradication_config
    )
    assert one(array.get_arrays_space()).space.total_physical >= 0
    assert one(array.get_controllers(filter="status='ready'")).mode == "primary"
    assert one(array.get_hardware(filter="type='controller'")).model
    assert one(array.get_drives()).capacity > 0
    assert all(port.iqn for port in ok(array.get_ports(filter="name='CT0.*'")))
    assert one(array.get_admins()).role.name == "array_admin"
    assert one(array.get_subscriptions()).id == shown.id
    ok(array.get_alerts(filter="state='open'"))
    return "array, space, controller, hardware, drive, ports, admins, alerts"


def private_key(name: str) -> tuple[str, str]:
    """Makes an RSA key. Returns the path of the private key and the text of the public one."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    with open(name, "wb") as file:
        file.write(private)
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    return name, key.public_key().public_bytes(serialization.Encoding.PEM, public).decode()


def api_clients(array) -> str:
    """The client exchanges an ID token that it signs. It stores its access token in the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            return exchange(array)
        finally:
            os.chdir(before)


def exchange(array) -> str:
    file, public = private_key("own.pem")
    post = flasharray.ApiClientPost(max_role="storage_admin", public_key=public, issuer="tests")
    made = one(array.post_api_clients(names=["robot"], api_clients=post))
    assert (made.enabled, made.issuer, made.max_role) == (False, "tests", "storage_admin")

    def log_in(file: str):
        ids = {"username": "admin", "client_id": made.id, "key_id": made.key_id, "issuer": "tests"}
        return flasharray.Client(sys.argv[1], private_key_file=file, verify_ssl=False, **ids)

    def fails(call: Callable, words: str) -> None:
        try:
            call()
        except PureError as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"no error '{words}'")

    fails(lambda: log_in(file), "no enabled API client")
    patch = flasharray.ApiClientPatch
    assert one(array.patch_api_clients(names=["robot"], api_clients=patch(enabled=True))).enabled
    other, _ = private_key("other.pem")
    fails(lambda: log_in(other), "no enabled API client")
    robot = log_in(file)
    assert one(robot.post_volumes(names=["made"], volume=flasharray.VolumePost(provisioned=GIB))).name == "made"
    refused(robot.patch_arrays(array=flasharray.Arrays(name="other")), "not permitted")
    one(robot.patch_volumes(names=["made"], volume=flasharray.VolumePatch(destroyed=True)))
    ok(robot.delete_volumes(names=["made"]))
    audits = ok(array.get_audits(filter="command='/volumes' and subcommand='DELETE'", sort=["time-"]))
    assert audits[0].user == "admin"
    one(array.patch_api_clients(names=["robot"], api_clients=patch(enabled=False)))
    fails(robot.get_volumes, "no enabled API client")
    ok(array.delete_api_clients(names=["robot"]))
    assert ok(array.get_api_clients()) == []
    return "tokens exchanged, limited to the role of the client, refused after it was disabled"


TESTS: list[Callable] = [
    volumes,
    pages,
    snapshots,
    hosts,
    host_groups,
    volume_groups,
    pods,
    protection_groups,
    snapshot_policies,
    parts,
    api_clients,
    enumerate_all,
]


def main() -> int:
    warnings.simplefilter("ignore")
    target, token = sys.argv[1:]
    array = flasharray.Client(target, api_token=token, verify_ssl=False)
    for test in TESTS:
        begin, status = time.monotonic(), "pass"
        try:
            detail = test(array)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)
            line = next((f.lineno for f in reversed(place) if f.filename == __file__), 0)
            status, detail = "fail", f"{type(error).__name__}: {error} (line {line})"
        print(json.dumps([test.__name__, status, time.monotonic() - begin, detail]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
