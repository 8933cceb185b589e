#!/usr/bin/env python3
"""Prints the section of CHANGELOG.md for a version: packaging/changes.py VERSION

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


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = section((ROOT / "CHANGELOG.md").read_text(), sys.argv[1])
    if not found:
        sys.exit(f"CHANGELOG.md has no changes of version {sys.argv[1]}")
    print(f"# Howdah {sys.argv[1]}\n\n{found}")


if __name__ == "__main__":
    main()
