#!/usr/bin/env python3
"""Lists the libraries that the programs contain, from Cargo's metadata.

    packaging/components.py sbom      a software bill of materials, in CycloneDX's JSON
    packaging/components.py licenses  the texts of their licenses, as those demand

Only the code that is linked into `howdah` and `howdah-php` on this kind of machine is listed: no libraries of
tests and of build scripts. The output depends on Cargo.lock and on the libraries' files alone.
"""

import json
import os
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("howdah", "howdah-php")
LICENSE_FILES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def metadata(directory=ROOT):
    """Cargo's description of the workspace in a directory, for this kind of machine."""
    host = next(line.split(": ")[1] for line in
                subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout.splitlines()
                if line.startswith("host: "))
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version=1", "--locked",
               f"--filter-platform={host}"]
    return json.loads(subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout)


def linked(data):
    """The packages that the programs contain, and of each those that it uses, by their ids."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    uses = {}
    waiting = [package["id"] for package in data["packages"]
               if package["name"] in PROGRAMS and package["source"] is None]
    while waiting:
        name = waiting.pop()
        if name in uses:
            continue
        # Macros run in the compiler.
        is_macro = any("proc-macro" in target["kind"] for target in packages[name]["targets"])
        normal = [] if is_macro else [
            dependency["pkg"] for dependency in nodes[name]["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])]
        uses[name] = sorted(normal)
        waiting.extend(normal)
    return {name: packages[name] for name in sorted(uses)}, uses


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums():
    """The checksums of Cargo.lock, by name and version."""
    import tomllib
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    return {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}


def component(package, sums):
    found = {"type": "library", "bom-ref": purl(package), "name": package["name"],
             "version": package["version"], "purl": purl(package)}
    if package.get("description"):
        found["description"] = " ".join(package["description"].split())
    if package.get("license"):
        # Cargo permits a slash, which SPDX does not.
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if digest := sums.get((package["name"], package["version"])):
        found["hashes"] = [{"alg": "SHA-256", "content": digest}]
    if package.get("repository"):
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def sbom():
    packages, uses = linked(metadata())
    sums = checksums()
    root = next(package for package in packages.values() if package["name"] == "howdah" and not package["source"])
    when = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), timezone.utc)
    components = [component(package, sums) for package in packages.values() if package is not root]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": component(root, sums) | {"type": "application"},
        },
        "components": components,
        "dependencies": [{"ref": purl(packages[name]), "dependsOn": [purl(packages[one]) for one in used]}
                         for name, used in sorted(uses.items())],
    }
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}"
    json.dump(document, sys.stdout, indent=2, sort_keys=True)
    print()


def licenses():
    packages, _ = linked(metadata())
    texts = {}
    for package in packages.values():
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}"
        directory = Path(package["manifest_path"]).parent
        files = [file for file in sorted(directory.iterdir())
                 if file.is_file() and file.name.lower().startswith(LICENSE_FILES)]
        if not files:
            text = f"License: {package.get('license')}\nAuthors: {', '.join(package['authors']) or 'not named'}"
            texts.setdefault(text, []).append(name)
        for file in files:
            text = file.read_text("utf-8", "replace").strip().replace("\r\n", "\n")
            texts.setdefault(text, []).append(name)
    print("Libraries that the programs of Howdah contain, and their licenses. Howdah uses libraries under several\n"
          "licenses under the first of these that they offer: Apache-2.0, MIT, BSD-3-Clause, ISC, Unicode-3.0, Zlib.")
    for text, names in texts.items():
        print(f"\n{'=' * 100}\n{', '.join(dict.fromkeys(names))}\n{'=' * 100}\n\n{text}")


def main():
    kinds = {"sbom": sbom, "licenses": licenses}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit(__doc__)
    kinds[sys.argv[1]]()


if __name__ == "__main__":
    main()
