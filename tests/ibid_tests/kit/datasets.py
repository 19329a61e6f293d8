"""Reproducible data sets: trees of Debian packages as disk images, a database, changed clones, noise.

Nothing is installed: packages are downloaded by apt-get with lists of its own under the cache, and unpacked. Seeds
decide everything random. The packages are the current ones of the mirror; their versions are in the manifest beside the
image.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
from pathlib import Path

from .procs import Failed, run
from .term import say

MIB, GIB = 1 << 20, 1 << 30
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Packages of a typical server.
SERVER = (
    "systemd-sysv udev dbus openssh-server linux-image-amd64 initramfs-tools cron rsyslog logrotate man-db locales less nano vim git curl wget "
    "ca-certificates python3 python3-numpy perl gcc g++ make postgresql nginx php-cli redis-server default-jdk-headless nodejs tcpdump "
    "strace rsync tmux zstd"
).split()
SMALL = "systemd-sysv udev dbus openssh-server cron rsyslog man-db less nano vim git curl python3 perl gcc make".split()


class Release:
    """One release of Debian, through apt-get with separate state."""

    def __init__(self, name: str, cache: Path):
        self.name, self.dir = name, cache / name
        etc, lists, archives = self.dir / "etc", self.dir / "lists/partial", self.dir / "archives/partial"
        for folder in (etc, lists, archives):
            folder.mkdir(parents=True, exist_ok=True)
        (etc / "sources.list").write_text(f"deb [signed-by={KEYRING}] {MIRROR} {name} main\n")
        options = {
            "APT::Sandbox::User": "root",
            "Dir::Etc::sourcelist": etc / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self.dir / "lists",
            "Dir::Cache": self.dir,
            "Dir::State::status": "/dev/null",
            "Acquire::Languages": "none",
            "APT::Architecture": "amd64",
        }
        self.options = [f"-o{key}={value}" for key, value in options.items()]

    def apt(self, *args: str, limit: float = 1800, **more) -> str:
        return run(["apt-get", "-q", *self.options, *args], limit=limit, **more).stdout

    def tree(self, wanted: list[str], name: str) -> Path:
        """The unpacked tree of these packages and their dependencies; created once."""
        root, manifest = self.dir / name, self.dir / f"{name}.packages"
        if manifest.exists():
            return root
        if not shutil.which("apt-get"):
            raise Failed("the data are Debian's packages, and there is no apt-get here")
        say(f"  fetching {name} of {self.name}", "dim")
        shutil.rmtree(root, ignore_errors=True)
        self.apt("update")
        plan = self.apt("install", "-s", "--no-install-recommends", *wanted)
        names = sorted({line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")})
        debs = self.dir / "debs"
        debs.mkdir(exist_ok=True)
        self.apt("download", *names, cwd=debs)
        found = sorted(deb for deb in debs.glob("*.deb") if deb.name.split("_")[0] in names)
        for folder in ("bin", "sbin", "lib", "lib64"):
            (root / "usr" / folder).mkdir(parents=True, exist_ok=True)
            (root / folder).symlink_to(f"usr/{folder}")
        for deb in found:
            archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE)
            subprocess.run(
                ["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root)],
                stdin=archive.stdout,
                check=True,
            )
            archive.wait()
        manifest.write_text("\n".join(deb.name for deb in found) + "\n")
        return root


def image(tree: Path, path: Path, size: int) -> Path:
    """An ext4 disk image of `size` bytes with the tree. The same tree gives the same bytes."""
    if not path.exists():
        made = path.with_suffix(".part")
        made.unlink(missing_ok=True)
        with made.open("wb") as disk:
            disk.truncate(size)
        env = {**os.environ, "E2FSPROGS_FAKE_TIME": "1700000000", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        fixed = "hash_seed=1b1d0000-0000-4000-8000-000000000002,lazy_itable_init=0,lazy_journal_init=0"
        run(
            [
                "mke2fs",
                "-q",
                "-F",
                "-t",
                "ext4",
                "-b",
                "4096",
                "-m",
                "0",
                "-U",
                "1b1d0000-0000-4000-8000-000000000001",
                "-E",
                fixed,
                "-d",
                str(tree),
                str(made),
            ],
            limit=600,
            env=env,
        )
        made.rename(path)
    return path


WORDS = (
    "account annual balance branch carrier clerk complaint contract cost credit customer date debit delivery deposit discount due express final "
    "foreign invoice item late ledger limit list market monthly north office order overdue paid part payment pending period price quick rate "
    "receipt regular return sale secure ship south standard stock supplier tax terms total transfer urgent west"
).split()


def database(path: Path, rows: int, seed: int = 1) -> Path:
    """A SQLite file of `rows` accounts (about 250 bytes each) after pgbench's transactions (TPC-B: update an account, a
    teller and a branch, insert a line of history), one for every fourth row, with accounts added and deleted."""
    if path.exists():
        return path
    chance, made = random.Random(seed), path.with_suffix(".part")
    made.unlink(missing_ok=True)
    with sqlite3.connect(made, isolation_level=None) as db:
        db.executescript("""
            PRAGMA page_size = 8192; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;
            CREATE TABLE branches (bid INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
            CREATE TABLE tellers (tid INTEGER PRIMARY KEY, bid INTEGER, balance INTEGER, filler TEXT);
            CREATE TABLE accounts (aid INTEGER PRIMARY KEY, bid INTEGER, balance INTEGER, iban TEXT, token BLOB, name TEXT, note TEXT);
            CREATE TABLE history (tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, at TEXT, filler TEXT);
            CREATE INDEX by_iban ON accounts (iban);""")

        def account(aid: int) -> tuple:
            note = " ".join(chance.choices(WORDS, k=chance.randint(8, 24)))
            name = f"{chance.choice(WORDS).title()} {chance.choice(WORDS).title()} {chance.randint(1, 9999)}"
            return (
                aid,
                aid % 100,
                chance.randint(-99999, 99999),
                f"DE{chance.randrange(10**20):020}",
                chance.randbytes(16),
                name,
                note,
            )

        insert = "INSERT OR REPLACE INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?)"
        db.execute("BEGIN")
        db.executemany("INSERT INTO branches VALUES (?, 0, ?)", ((n, " " * 88) for n in range(100)))
        db.executemany("INSERT INTO tellers VALUES (?, ?, 0, ?)", ((n, n // 10, " " * 84) for n in range(1000)))
        db.executemany(insert, map(account, range(rows)))
        for n in range(rows // 4):
            aid, tid, delta = chance.randrange(rows), chance.randrange(1000), chance.randint(-5000, 5000)
            db.execute("UPDATE accounts SET balance = balance + ? WHERE aid = ?", (delta, aid))
            db.execute("UPDATE tellers SET balance = balance + ? WHERE tid = ?", (delta, tid))
            db.execute("UPDATE branches SET balance = balance + ? WHERE bid = ?", (delta, tid // 10))
            db.execute(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?)",
                (tid, tid // 10, aid, delta, f"2026-11-{n % 28 + 1:02} {n % 86400:05}", " " * 22),
            )
            if n % 20 == 0:
                db.execute("DELETE FROM accounts WHERE aid = ?", (chance.randrange(rows),))
                db.execute(insert, account(chance.randrange(rows)))
        db.execute("COMMIT")
    db.close()
    with made.open("ab") as disk:
        disk.truncate(-(-made.stat().st_size // MIB) * MIB)
    made.rename(path)
    return path


def noise(path: Path, size: int, seed: int = 1) -> Path:
    """Unique, incompressible bytes."""
    if not path.exists():
        chance, made = random.Random(seed), path.with_suffix(".part")
        with made.open("wb") as disk:
            for _ in range(size // MIB):
                disk.write(chance.randbytes(MIB))
        made.rename(path)
    return path


def drift(original: Path, path: Path, seed: int, percent: float) -> Path:
    """A changed clone: runs of 4 to 64 KiB, `percent` of the blocks in total, have unique content (log lines, half of
    it words)."""
    chance = random.Random(seed)
    run(["cp", "--sparse=always", "--reflink=auto", str(original), str(path)], limit=600)
    size = path.stat().st_size
    left = int(size * percent / 100)
    with path.open("r+b") as disk:
        while left > 0:
            blocks = chance.choice((1, 2, 4, 8, 16))
            disk.seek(chance.randrange(size // 4096 - blocks) * 4096)
            lines = b"".join(
                f"{chance.getrandbits(64):016x} {' '.join(chance.choices(WORDS, k=4))}\n".encode()
                for _ in range(blocks * 96)
            )
            disk.write(lines[: blocks * 4096].ljust(blocks * 4096, b"\0"))
            left -= blocks * 4096
    return path
