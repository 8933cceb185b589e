#!/usr/bin/env python3
"""Checks that the version of Cargo.toml, the tag of the last commit, and CHANGELOG.md agree: packaging/agreement.py

A commit with a tag such as v1.2.0 is a release: anything that disagrees is an error. Otherwise the packages are none of
a release, and the differences are only printed.
"""

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))

import changes  # noqa: E402

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.]+)?")


def problems(version, here, tags, changelog, is_kept):
    """Whether the last commit is a release, and the reasons why it is no correct one.

    `here` has the tags of the last commit, `tags` has all. `is_kept` says whether tests/published has the documents of this tree.
    """
    wanted = f"v{version}"
    here = [tag for tag in here if VERSION.fullmatch(tag.removeprefix("v"))]
    sections = changes.sections(changelog)
    released = [name for name in sections if VERSION.fullmatch(name)]
    found = [f"the last commit has the tag {tag}, and Cargo.toml has version {version}: remove the tag, or correct the version"
             for tag in here if tag != wanted]
    if not here:
        if wanted in tags:
            found.append(f"the tag {wanted} is that of another commit: raise the version in Cargo.toml, or two different "
                         "packages have the same version")
        else:
            found.append(f"the last commit has no tag {wanted}")
    if not sections.get(version):
        found.append(f"CHANGELOG.md has no section, or an empty one, for version {version}: add it")
    elif released[0] != version:
        found.append(f"the newest section of CHANGELOG.md is that of version {released[0]}, and Cargo.toml has version {version}: "
                     "correct one of them")
    elif sections.get("Unreleased"):
        found.append(f"CHANGELOG.md has unreleased changes: move them to the section of version {version}")
    if not is_kept:
        found.append(f"tests/published/{version} is missing, or is not that of this tree: write it with tests/published/add")
    return bool(here), found


def git(*words):
    """The lines that git prints."""
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def main():
    version = subprocess.run([HERE / "version"], capture_output=True, text=True, check=True).stdout.strip()
    kept = ROOT / "tests" / "published" / version / "documents" / "example.json"
    is_kept = kept.exists() and kept.read_text() == (ROOT / "packaging" / "example.json").read_text()
    is_release, found = problems(version, git("tag", "--points-at", "HEAD"), git("tag"),
                                 (ROOT / "CHANGELOG.md").read_text(), is_kept)
    for problem in found:
        print(f"{'error' if is_release else 'This is no release'}: {problem}", file=sys.stderr)
    sys.exit(1 if is_release and found else 0)


if __name__ == "__main__":
    main()
