#!/usr/bin/env python3
"""Writes the generated parts of files; tools/lint.py checks that they are up to date.

    tools/generate.py    writes them

In the pages for those who come from another server, the table below each heading "### `MODULE`" is generated from
the rows of crates/advice/src/foreign/PEER.tsv: the name of a module on a line of its own, then a line for each row with
the directives, a tab and their replacement.

In the table of crates in ARCHITECTURE.md, the column "depends on" is generated from the manifests of the crates.
"""

import re
import sys
import tomllib
from pathlib import Path

PEERS = {"nginx": "nginx", "apache": "Apache", "php-fpm": "PHP-FPM"}
TABLE = re.compile(r"^### `(\w+)`\n\n(?:[^|#\n].*\n\n?)*(?P<table>(?:\|.*\n)*)", re.MULTILINE)


def directives(text):
    """{module: {directives, separated by spaces: their replacement}} of a peer."""
    modules, rows = {}, {}
    for line in text.splitlines():
        names, tab, answer = line.partition("\t")
        if tab:
            rows[names] = answer
        elif line:
            rows = modules.setdefault(line, {})
    return modules


def page_of(peer):
    return f"docs/coming-from-{peer}.md"


def table_of(peer):
    return f"crates/advice/src/foreign/{peer}.tsv"


def with_tables(page, peer, modules):
    """The page with the tables of these modules; fails if the page has other modules."""
    found = [heading[1] for heading in TABLE.finditer(page)]
    if found != list(modules):
        raise ValueError(f"{page_of(peer)} has the modules {found}, {table_of(peer)} has {list(modules)}")

    def table(heading):
        rows = "".join(f"| {', '.join(f'`{name}`' for name in names.split())} | {answer} |\n"
                       for names, answer in modules[heading[1]].items())
        before = heading[0][:heading.start("table") - heading.start()]
        return f"{before}| {PEERS[peer]} | Howdah |\n| --- | --- |\n{rows}"
    return TABLE.sub(table, page)


def dependencies(manifest):
    """The name of a crate, and the crates of this project that it depends on; tests may use more."""
    manifest = tomllib.loads(manifest)
    own = {name.removeprefix("howdah-") for section in ("dependencies", "build-dependencies")
           for name in manifest.get(section, {}) if name.startswith("howdah-")}
    return manifest["package"]["name"].removeprefix("howdah-"), own


def with_dependencies(page, manifests):
    """The page with the table of crates as their manifests have it; each crate after those that it depends on."""
    known = dict(map(dependencies, manifests))
    names = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)

    def row(found):
        own = [name for name in names if name in known.get(found[2], ())]
        return f"{found[1]}{', '.join(own) or '–'}{found[3]}"
    return re.sub(r"^(\| `([\w-]+)` \| [^|]+ \| )[^|]+( \| (?:none|budgeted) \|)$", row, page, flags=re.MULTILINE)


def generated(read, names):
    """{file: its text with the generated parts}; `read` returns the text of a file, `names` are those of all files."""
    pages = {page_of(peer): with_tables(read(page_of(peer)), peer, directives(read(table_of(peer)))) for peer in PEERS}
    manifests = [read(name) for name in sorted(names)
                 if re.fullmatch(r"Cargo\.toml|(?:crates/[^/]+|tests/(?:harness|requirements))/Cargo\.toml", name)]
    return pages | {name: with_dependencies(read(name), manifests) for name in ["ARCHITECTURE.md"] if name in names}


def main():
    root = Path(__file__).resolve().parent.parent
    files = [root / "ARCHITECTURE.md", root / "Cargo.toml", *root.glob("*/*/Cargo.toml")]
    names = [str(path.relative_to(root)) for path in files]
    for name, text in generated(lambda name: (root / name).read_text("utf-8"), names).items():
        if (root / name).read_text("utf-8") != text:
            (root / name).write_text(text, "utf-8")
            print(f"{name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
