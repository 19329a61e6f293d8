"""An etcd cluster in the place of the mediator of a pod."""

from __future__ import annotations

import time
from pathlib import Path

from ibid_tests.kit.etcd import Etcd
from ibid_tests.kit.pair import POD, Pair, wait


def in_place_of_mediator(pair: Pair, unpacked: Path) -> str:
    """The cluster decides when an array is lost, and may be lost itself; another one at its address is refused."""
    certificates = [array.data / "link.pem" for array in pair.arrays]
    with Etcd(unpacked, pair.dir / "etcd", certificates).start() as etcd:
        begin = time.monotonic()
        pair.alpha.admin("pod", "mediator", POD, etcd.url)
        pair.stop_mediator()
        pair.wait_sync()
        ready = time.monotonic() - begin
        lost = pair.sequencer()
        stays, begin = pair.other(lost), time.monotonic()
        lost.kill()
        pair.wait_state(stays, "solo")
        pause = time.monotonic() - begin
        lost.start()
        pair.wait_sync()
        etcd.kill()
        wait("only one array may continue without it", lambda: pair.state(stays)["tie_rule"] != "mediator")
        etcd.start(data="another")
        wait("another cluster is refused", lambda: "another one than before" in pair.why(stays))
        assert not pair.is_sync(stays)
        etcd.kill()
        etcd.start()
        pair.wait_sync()
        pair.start_mediator()
        pair.alpha.admin("pod", "mediator", POD, pair.mediator_address)
        pair.wait_sync()
    return f"decides after {ready:.1f} s; an array continues {pause:.1f} s after a loss; another cluster is refused"
