"""Public management clients against a running array: py-pure-client, with every call that reads, and Ansible. Mail about alerts."""

from __future__ import annotations

import email
import email.policy
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

from ibid_tests.kit.array import Array
from ibid_tests.kit.procs import Failed, run as run_command
from ibid_tests.outside.result import Lab, Result, Skip, checks

SUITE = "management"
CLIENTS = Path(__file__).resolve().parents[1] / "clients"
PURE, COLLECTION = CLIENTS / "pure.py", CLIENTS / "collection.py"
LIMIT = 600


def interpreter(lab: Lab) -> Path:
    """The Python of the clients' environment, which scripts/setup.sh makes below the build folder."""
    for folder in (lab.bin, *lab.bin.parents):
        python = folder / "clients/bin/python"
        if python.exists():
            return python
    raise Skip("py-pure-client is not installed; scripts/setup.sh test installs it from PyPI")


def run(lab: Lab) -> Iterator[Result]:
    yield from checks(SUITE, [("alerts-by-mail", lambda: alerts_by_mail(lab))])
    python = interpreter(lab)
    yield from flows(lab, [str(python), str(PURE)])
    folder = next(python.parents[1].glob("collections-*"), None)
    if folder is None:
        yield Result(
            SUITE, "ansible", "skip", 0.0, "Ansible is not installed; scripts/setup.sh test installs it from PyPI"
        )
    else:
        yield from flows(lab, [str(python), str(COLLECTION)], [str(folder)])


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
