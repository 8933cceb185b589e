"""The documents of docs/examples are those that `howdah import` makes of the originals beside them.

With GENERATE=1 in the environment, they are written. tests/migration/run compares their answers with those of the originals.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import imported
from peers import nginx

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

# The newest PHP of the machine, whose php.ini an application has.
VERSION = re.compile(r"(?<=/etc/php/)\d+\.\d+")


def needs():
    """The missing requirement; None if all are met. The originals include files of nginx's package."""
    return None if Path(nginx.PROGRAM).exists() else "nginx"


def run(arguments):
    """Compares the documents. Returns how many differ."""
    differing = 0
    examples = imported.chosen(sorted(path for path in EXAMPLES.iterdir() if path.is_dir()), arguments.cases)
    for example in examples:
        if problem := difference(arguments, example):
            print(f"FAIL: examples/{example.name}: {problem}")
            differing += 1
    print(f"examples: {len(examples) - differing} passed, {differing} failed", flush=True)
    return differing


def difference(arguments, example):
    """In what the document differs from that of the importer; empty if in nothing."""
    kind = "apache" if (example / "apache.conf").exists() else "nginx"
    pools = ["--fpm", example / "fpm.conf"] if (example / "fpm.conf").exists() else []
    with tempfile.TemporaryDirectory() as tmp:
        output = Path(tmp) / "howdah.json"
        program = [arguments.importer] if arguments.importer else [arguments.howdah, "import"]
        command = [*program, kind, example / f"{kind}.conf", *pools, "--output", output]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=imported.PATIENCE)
        if done.returncode:
            return f"status {done.returncode}: {done.stderr}"
        made = VERSION.sub("8.2", output.read_text())
    document = example / "howdah.json"
    if os.environ.get("GENERATE") == "1":
        document.write_text(made)
    if not document.exists() or document.read_text() != made:
        return f"{document} is not what the importer makes; GENERATE=1 writes it"
    return ""
