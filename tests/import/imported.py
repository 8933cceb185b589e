"""`howdah import`, its report, and the comparison of a kind's cases."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from peers import Unusable

PATIENCE = 60  # seconds

STATUSES = ("converted", "not needed", "changed", "not converted")


def run(arguments, kind, files, directory, *options):
    """Exit status, document, report and messages; document and report are None if they were not written."""
    document, report = directory / "document.json", directory / "report.json"
    program = [arguments.importer] if arguments.importer else [arguments.howdah, "import"]
    command = [*program, kind, *files, "--output", document, "--report", report, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE)
    read = [json.loads(path.read_text()) if path.exists() else None for path in (document, report)]
    return done.returncode, *read, done.stderr


def is_accepted(howdah, directory):
    """What `howdah check --syntax` says against the document; empty if nothing."""
    command = [howdah, "check", "--syntax", directory / "document.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE)
    return "" if done.returncode == 0 else done.stderr


def expected_lines(text, comment):
    """{line: [status]} of a file in which each directive has its status behind it as a comment."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.search(rf"{re.escape(comment)} *((?:{'|'.join(STATUSES)})(?:, (?:{'|'.join(STATUSES)}))*)$", line):
            found[number] = match[1].split(", ")
    return found


def wrong_lines(report, file, expected):
    """In what the report of a file differs from the expected statuses."""
    found = {}
    for entry in report:
        if entry["file"] == str(file):
            found.setdefault(entry["line"], []).append(entry)
        if entry["status"] not in STATUSES or entry["status"] != "converted" and not entry.get("reason"):
            yield f"not an entry: {entry}"
    for line in sorted(found.keys() | expected.keys()):
        statuses = [entry["status"] for entry in found.get(line, [])]
        if statuses != expected.get(line, []):
            yield f"line {line}: {found.get(line, 'not in the report')}, expected: {expected.get(line, 'nothing')}"


def chosen(cases, names, name_of=lambda case: case.name):
    """The cases of these names; all without a name. Ends the program if there is no case of a name."""
    known = {name_of(case) for case in cases}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"There is no case {', '.join(unknown)}. There are: {', '.join(sorted(known))}")
    return [case for case in cases if not names or name_of(case) in names]


def differences(compare, case):
    """The result of a comparison. A case that is broken must not hide the others."""
    try:
        return list(compare(case))
    except Exception:
        return [traceback.format_exc()]


def compare(name, kind, arguments):
    """Compares the cases of a kind. Returns how many have failed."""
    cases = chosen(kind.cases(), arguments.cases)
    tmp = Path(tempfile.mkdtemp(prefix=f"howdah-import-{name}-"))
    tmp.chmod(0o755)
    comparison = kind.Comparison(tmp, arguments, cases)
    try:
        comparison.start()
        found = [(case.name, differences(comparison.compare, case)) for case in cases]
    except (OSError, Unusable, subprocess.SubprocessError) as problem:
        found = [(case.name, [f"not started: {problem}"]) for case in cases[:1]]
        for path in sorted(tmp.glob("**/*.log")):
            print(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}")
    finally:
        comparison.stop()
        if arguments.keep:
            print(f"Kept {tmp}")
        else:
            shutil.rmtree(tmp)
    for case, all_of_it in found:
        for difference in all_of_it:
            print(f"FAIL: {name}/{case}\n{difference}")
    failed = sum(bool(all_of_it) for _, all_of_it in found)
    print(f"{name}: {len(found)} cases")
    print(f"{len(found) - failed} passed, {failed} failed", flush=True)
    return failed
