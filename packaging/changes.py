#!/usr/bin/env python3
"""Prints the section of CHANGELOG.md for a version.

    packaging/changes.py VERSION        as it is, in Markdown
    packaging/changes.py --rpm VERSION  as entries of the change log of an RPM package

Before a version has a section of its own, that is the section of unreleased changes. Fails if it is empty.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def sections(text):
    """The texts below the headings of a changelog, by version; those of unreleased changes are `Unreleased`."""
    parts = re.split(r"^## \[(.*?)\].*\n", text, flags=re.MULTILINE)
    # Links are defined at the end of the file.
    return {name: re.sub(r"^\[.*?\]: .*\n?", "", found, flags=re.MULTILINE).strip()
            for name, found in zip(parts[1::2], parts[2::2])}


def section(text, version):
    """The text below the heading of a version, or of unreleased changes."""
    found = sections(text)
    return found.get(version) or found.get("Unreleased") or ""


def entries(found):
    """The items of a section as lines of a change log, without headings, links and code marks."""
    items = re.findall(r"^- (.*(?:\n  .*)*)", found, flags=re.MULTILINE)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(item.split())).replace("`", "") for item in items)
    # rpmbuild expands macros.
    return "\n".join(f"- {item.replace('%', '%%')}" for item in plain)


def main():
    *options, version = sys.argv[1:] or [None]
    if version is None or options not in ([], ["--rpm"]):
        sys.exit(__doc__)
    found = section((ROOT / "CHANGELOG.md").read_text(), version)
    if not found:
        sys.exit(f"CHANGELOG.md has no changes of version {version}")
    print(entries(found) if options else f"# Howdah {version}\n\n{found}")


if __name__ == "__main__":
    main()
