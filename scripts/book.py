#!/usr/bin/env python3
"""Builds the pages of docs/ and of the repository's root as a book, and checks every link in it.

    book.py --mdbook PROGRAM --out FOLDER

The book has the folders of the repository, so the links between the pages stay as they are. Other files that a page
links to are copied. docs/SUMMARY.md is the table of contents.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def stage(source: Path) -> None:
    """Copies the pages, and the files that they link to, into the source of the book."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = {name for name in listed if name.startswith("docs/") or (name.endswith(".md") and "/" not in name)}
    for page in [name for name in wanted if name.endswith(".md")]:
        for target in LINK.findall((ROOT / page).read_text()):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.split("#")[0]))
            if not urlsplit(target).scheme and not path.endswith(".md") and (ROOT / path).is_file():
                wanted.add(path)
    for name in wanted - {"docs/SUMMARY.md", "docs/book.toml"}:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, source / name)
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    moved = LINK.sub(lambda link: f"]({posixpath.normpath(posixpath.join('docs', link[1]))})", summary)
    (source / "SUMMARY.md").write_text(moved)
    shutil.copyfile(ROOT / "docs/book.toml", source / "book.toml")


class Page(HTMLParser):
    """The targets of the links of a page, and the places that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[name] for name in ("href", "src") if found.get(name)]
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}


def broken(book: Path) -> list[str]:
    """Returns the links of the book whose page or place does not exist."""
    pages = {path: Page(path.read_text()) for path in sorted(book.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            # The page of errors is found by servers only, from any folder.
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.is_file() or (place and target in pages and place not in pages[target].places):
                found.append(f"{path.relative_to(book)}: {link}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mdbook", type=Path, required=True, help="the program mdbook")
    parser.add_argument("--out", type=Path, required=True, help="folder of the book; replaced")
    options = parser.parse_args()
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    source, book = out / "source", out / "html"
    source.mkdir(parents=True)
    stage(source)
    subprocess.run([options.mdbook.resolve(), "build", source, "--dest-dir", book], check=True)
    # mdBook names the page of a README index.html, and leaves the links to it alone.
    for readme in source.rglob("README.md"):
        folder = book / readme.relative_to(source).parent
        shutil.copyfile(folder / "index.html", folder / "README.html")
    found = broken(book)
    for line in found:
        print(f"broken link: {line}", file=sys.stderr)
    print(f"{book}/index.html: {len(list(book.rglob('*.html')))} pages, {len(found)} broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
