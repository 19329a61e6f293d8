"""Public management clients against a running array: py-pure-client, with every call that reads, purestorage with REST 1.x, and
Ansible. Mail about alerts, `ibid top`, and volumes that move in and out of pods while a host uses them."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.host import Host
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.kit.term import count
from ibid_tests.outside import top
from ibid_tests.outside.result import Lab, Result, Skip, checks

SUITE = "management"
CLIENTS = Path(__file__).resolve().parents[1] / "clients"
PURE, OLD = CLIENTS / "pure.py", CLIENTS / "old.py"
COLLECTION, SCHEMAS = CLIENTS / "collection.py", CLIENTS / "schemas.py"
LIMIT = 600


# Calls that end the session of the checker, that do not end, or that make the array call a machine with a name out of
# the document.
UNCHECKED = "/(login|logout|events|admins|alert-w|smtp-|snmp-|syslog-)"
# Seconds, and the seed of the generated calls.
CHECK_TIME, CHECK_SEED = 15, 18
# Seconds for which a volume moves between pods.
MOVE_TIME = 2


def interpreter(lab: Lab) -> Path:
    """The Python of the clients' environment, which scripts/setup.sh makes below the build folder."""
    for folder in (lab.bin, *lab.bin.parents):
        python = folder / "clients/bin/python"
        if python.exists():
            return python
    raise Skip("py-pure-client is not installed; scripts/setup.sh test installs it from PyPI")


def run(lab: Lab) -> Iterator[Result]:
    own = [("alerts-by-mail", alerts_by_mail), ("top", top.in_a_terminal), ("openapi", openapi)]
    own += [("pods-under-load", pods_under_load)]
    yield from checks(SUITE, [(name, lambda check=check: check(lab)) for name, check in own])
    python = interpreter(lab)
    yield from flows(lab, [str(python), str(PURE)])
    yield from old_client(lab, python)
    folder = next(python.parents[1].glob("collections-*"), None)
    if folder is None:
        yield Result(
            SUITE, "ansible", "skip", 0.0, "Ansible is not installed; scripts/setup.sh test installs it from PyPI"
        )
    else:
        yield from flows(lab, [str(python), str(COLLECTION)], [str(folder)])


def old_client(lab: Lab, python: Path) -> Iterator[Result]:
    """The client of REST 1.x."""
    if not any(python.parents[1].glob("lib/python3*/site-packages/purestorage")):
        detail = "purestorage is not installed; scripts/setup.sh test installs it from PyPI"
        yield Result(SUITE, "rest1", "skip", 0.0, detail)
        return
    yield from flows(lab, [str(python), str(OLD)])


def flows(lab: Lab, program: list[str], more: list[str] | None = None) -> Iterator[Result]:
    """Runs a client against an array of its own."""
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        token = (array.data / "admin-token").read_text().strip()
        done = run_command([*program, f"127.0.0.1:{array.api_port}", token, *(more or [])], limit=LIMIT)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if not lines:
            raise Failed("the client tested nothing")
        for name, status, secs, detail in lines:
            yield Result(SUITE, name, status, secs, detail)


def openapi(lab: Lab) -> str:
    """Each list has the form that the OpenAPI document says, and so have the answers to calls that schemathesis makes."""
    candidates = (folder / "schemathesis/bin/schemathesis" for folder in (lab.bin, *lab.bin.parents))
    program = next((candidate for candidate in candidates if candidate.exists()), None)
    if program is None:
        raise Skip("schemathesis is not installed; scripts/setup.sh test installs it from PyPI")
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        array.admin("vgroup", "create", "vg")
        array.admin("volume", "create", "vg/v1", "--size", "1G")
        array.admin("snap", "create", "vg/v1")
        array.admin("pod", "create", "p1", "--quota", "2G")
        array.admin("volume", "create", "p1::v1", "--size", "1G")
        array.admin("host", "create", "h1", "--iqn", "iqn.1998-01.com.vmware:h1")
        array.admin("host", "connect", "h1", "vg/v1")
        array.admin("delivery", "add", "mail", "ops@example.org")
        array.admin("policy", "create", "p1", "--every", "1h", "--keep", "1d")
        url = f"https://127.0.0.1:{array.api_port}"
        token = (array.data / "admin-token").read_text().strip()
        context = ssl._create_unverified_context()
        call = urllib.request.Request(f"{url}/api/2.26/login", headers={"api-token": token}, method="POST")
        session = urllib.request.urlopen(call, context=context, timeout=30).headers["x-auth-token"]
        call = urllib.request.Request(f"{url}/api/2.26/openapi.json", headers={"x-auth-token": session})
        python = str(program.with_name("python"))
        lists = run_command([python, str(SCHEMAS), f"127.0.0.1:{array.api_port}", session], limit=LIMIT).stdout.strip()
        document = array.data.parent / "openapi.json"
        document.write_bytes(urllib.request.urlopen(call, context=context, timeout=30).read())
        checker = [str(program), "run", str(document), "--url", url, "--tls-verify", "false", "--no-color"]
        checker += ["-H", f"x-auth-token: {session}", "--exclude-path-regex", UNCHECKED, "--seed", str(CHECK_SEED)]
        checker += ["--phases", "fuzzing", "--max-examples", "3", "--max-time", str(CHECK_TIME)]
        checker += ["--checks", "not_a_server_error,status_code_conformance,content_type_conformance"]
        checker += ["--checks", "response_schema_conformance", "--suppress-health-check", "all", "--no-shrink"]
        checker += ["--generation-database", "none", "--warnings", "off", "--continue-on-failure"]
        done = run_command(checker, limit=LIMIT, cwd=array.data.parent, check=False)
        if done.returncode != 0:
            raise Failed(done.stdout[-3000:] + done.stderr[-1000:])
        counts = [line.strip() for line in done.stdout.splitlines() if " generated, " in line]
        if not counts:
            raise Failed(f"no calls were made: {done.stdout[-1000:]}")
        return "; ".join([lists, *counts])


def pods_under_load(lab: Lab) -> str:
    """A volume moves between pods under a verifying load; no command fails, and no acknowledged operation is lost. A clone of
    a pod holds what its volumes held."""
    host, scratch = Host(lab.bin), lab.scratch("pods")
    journal, moves = scratch / "journal", 0
    journal.unlink(missing_ok=True)
    with Array(lab.bin, base=lab.scratch("arrays")) as array:
        array.start()
        array.admin("pod", "create", "dc1", "dc2")
        url, still = array.volume("vm", "1GiB", 1), array.volume("dc1::still", "1GiB", 2)
        host.verb("fill", still, "--size", "4MiB", "--seed", "1")
        serial = array.admin("volume", "list", "vm")[0]["serial"]
        with host.torture(url, journal, scratch / "torture.log", 1) as load:
            end = time.monotonic() + MOVE_TIME
            while time.monotonic() < end or not moves:
                array.admin("volume", "move", "vm", "dc1")
                array.admin("pod", "clone", "dc1", f"copy{moves}")
                array.admin("volume", "move", "dc1::vm", "dc2")
                array.admin("pod", "rename", "dc2", "renamed")
                array.admin("pod", "rename", "renamed", "dc2")
                array.admin("volume", "move", "dc2::vm", "--out")
                moves += 3
            if not load.alive():
                raise Failed(f"the load ended during the moves:\n{load.tail()}")
        found = host.torture_verify(url, journal)["acknowledged"]
        ended = array.admin("volume", "list", "vm")[0]["serial"]
        if ended != serial or not found:
            raise Failed(f"serial number {serial} became {ended}; {found} acknowledged operations")
        host.verb("fill", still, "--size", "4MiB", "--seed", "2")
        host.verb("verify", array.connect("copy0::still", 3), "--size", "4MiB", "--seed", "1")
        return f"{moves} moves, {count(found)} acknowledged operations, 0 lost"


class MailReceiver(socketserver.StreamRequestHandler):
    """Takes the mails of one SMTP connection (RFC 5321) without TLS."""

    def handle(self) -> None:
        self.wfile.write(b"220 test\r\n")
        while line := self.rfile.readline():
            command = line.split()[0].upper() if line.split() else b""
            if command == b"DATA":
                self.wfile.write(b"354 go\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.mails.append(b"".join(lines))
            self.wfile.write(b"221 bye\r\n" if command == b"QUIT" else b"250 ok\r\n")
            if command == b"QUIT":
                return


def alerts_by_mail(lab: Lab) -> str:
    """A test of the delivery sends a mail that Python's parser understands, and a failure names its cause."""
    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), MailReceiver) as server,
        Array(lab.bin, base=lab.scratch("arrays")) as array,
    ):
        server.mails = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        array.start()
        relay = f"127.0.0.1:{server.server_address[1]}"
        array.admin("delivery", "mail-server", "--relay", relay, "--sender-domain", "example.org")
        array.admin("delivery", "add", "mail", "ops@example.org", "--severity", "warning")
        results = array.admin("delivery", "test")
        server.shutdown()
        if [result["success"] for result in results] != [True] or len(server.mails) != 1:
            raise Failed(f"{results}, {len(server.mails)} mails")
        mail = email.message_from_bytes(server.mails[0], policy=email.policy.default)
        if mail["To"] != "ops@example.org" or mail.defects or "test of the delivery" not in mail.get_content():
            raise Failed(f"unexpected mail: {server.mails[0]!r}")
        status = array.admin("delivery", "list")["mail"][0]["delivery"]
        if status["last_error"] or not status["last_success"]:
            raise Failed(f"unexpected state: {status}")
        return mail["Subject"]
