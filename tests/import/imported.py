"""`howdah import`, and its report."""

import json
import re
import subprocess

PATIENCE = 60  # seconds

STATUSES = ("converted", "not needed", "changed", "not converted")


def run(howdah, kind, files, directory, *options):
    """Exit status, document, report and messages; document and report are None if they were not written."""
    document, report = directory / "document.json", directory / "report.json"
    command = [howdah, "import", kind, *files, "--output", document, "--report", report, *options]
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
