#!/usr/bin/env python3
"""Writes the source of the program that runs PHP, so that it can be built on another system without a network.

    packaging/worker_source.py DIR    writes it to DIR, which must not exist

DIR has the crates of the workspace from which `howdah-php` is built, without their tests, and the libraries that
they use, with their licenses, in DIR/vendor. The versions are those of Cargo.lock. Libraries of other systems are
only a manifest and an empty file: Cargo reads the manifests of all libraries in Cargo.lock, and builds none of
these on Linux. Cargo downloads libraries that are not in its cache yet.

The same commit gives the same bytes.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import components

ROOT = components.ROOT
PROGRAM = "howdah-php"
CARGO = os.environ.get("CARGO", "cargo")
# Tables of a manifest that only builds of tests and of other programs read.
UNUSED = ("package", "lints", "dependencies", "dev-dependencies", "bin", "bench", "test")
SOURCES = """\
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"""


def needed(data):
    """The packages that a build of the program on this kind of machine compiles, by their ids."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    waiting = [name for name, package in packages.items() if package["name"] == PROGRAM and package["source"] is None]
    found = {}
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = packages[name]
            waiting.extend(dependency["pkg"] for dependency in nodes[name]["deps"]
                           if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]))
    return found


def tables(text):
    """The tables of a manifest in their order, with the lines of each: [("workspace", "[workspace]\\n…"), …]."""
    parts = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    return [(re.match(r"\[+(.*?)\]", part)[1].strip(), part) for part in parts if part.startswith("[")]


def workspace_manifest(text, members, names):
    """The manifest of the workspace with these members, which use these dependencies only."""
    out = []
    for name, table in tables(text):
        if name == "workspace":
            table = re.sub(r"members = \[.*?\]", f"members = {json.dumps(members)}", table, flags=re.DOTALL)
        elif name == "workspace.dependencies":
            lines = [line for line in table.split("\n")[1:] if line.split(" = ")[0] in names]
            table = "\n".join(["[workspace.dependencies]", *lines, "", ""])
        elif name in UNUSED:
            continue
        out.append(table)
    return "".join(out).rstrip() + "\n"


def crate_manifest(text):
    """The manifest of a crate without what its tests need."""
    kept = [table for name, table in tables(text) if name not in ("dev-dependencies", "bench", "test")]
    return "".join(kept).rstrip() + "\n"


def files_of(directory):
    """The files of a directory that belong to the project."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "ls-files", "-z", "--", directory], cwd=ROOT,
                            capture_output=True, text=True)
    if listed.returncode == 0 and listed.stdout:
        return sorted(Path(name) for name in listed.stdout.split("\0") if name)
    # An unpacked archive of the source.
    return sorted(path.relative_to(ROOT) for path in (ROOT / directory).rglob("*") if path.is_file())


def copy_crate(directory, out):
    for path in files_of(directory):
        if {"tests", "benches"} & set(path.relative_to(directory).parts[:1]):
            continue
        target = out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.name == "Cargo.toml":
            target.write_text(crate_manifest((ROOT / path).read_text()))
        else:
            shutil.copy(ROOT / path, target)


def run(*command, cwd):
    done = subprocess.run([CARGO, *command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{sys.argv[0]}: cargo {command[0]} fails:\n{done.stderr}")
    return done.stdout


def empty(directory):
    """Leaves the manifest of a library and the files that it names, without their content."""
    manifest = tomllib.loads((directory / "Cargo.toml").read_text())
    checksum = json.loads((directory / ".cargo-checksum.json").read_text())
    named = {manifest.get("lib", {}).get("path", "src/lib.rs")}
    if isinstance(manifest["package"].get("build"), str):
        named.add(manifest["package"]["build"])
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.parent != directory or path.name not in ("Cargo.toml", ".cargo-checksum.json"):
            path.unlink()
    for name in named:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("")
    # Cargo compares the files that are listed here.
    (directory / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksum["package"]}))


def write(out):
    crates = sorted(str(Path(package["manifest_path"]).parent.relative_to(ROOT))
                    for package in needed(components.metadata()).values() if package["source"] is None)
    out.mkdir(parents=True)
    for directory in crates:
        copy_crate(directory, out)
    manifests = [tomllib.loads((out / directory / "Cargo.toml").read_text()) for directory in crates]
    names = {name for manifest in manifests for kind in ("dependencies", "build-dependencies")
             for name in manifest.get(kind, {})}
    (out / "Cargo.toml").write_text(workspace_manifest((ROOT / "Cargo.toml").read_text(), crates, names))
    shutil.copy(ROOT / "LICENSE", out)
    # Cargo keeps the versions, and drops the libraries that nothing uses.
    shutil.copy(ROOT / "Cargo.lock", out)
    run("metadata", "--format-version=1", cwd=out)
    run("vendor", "--locked", "--versioned-dirs", "vendor", cwd=out)
    # Of this workspace: in the whole one, other crates turn on features.
    compiled = {f"{package['name']}-{package['version']}" for package in needed(components.metadata(out)).values()}
    for directory in sorted((out / "vendor").iterdir()):
        if directory.name not in compiled:
            empty(directory)
    (out / ".cargo").mkdir()
    (out / ".cargo" / "config.toml").write_text(SOURCES)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    out = Path(sys.argv[1]).absolute()
    if out.exists():
        sys.exit(f"{sys.argv[0]}: {out} exists already")
    write(out)


if __name__ == "__main__":
    main()
