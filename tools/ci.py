#!/usr/bin/env python3
"""What has to pass before a change goes in: `make test` and `make lint`, and `make e2e` if it is early enough.

Shows what they print and ends with a line "N passed, N failed" that counts every test and, as
one each, the lint and whatever failed without naming a test. The exit status is 0 if nothing
failed. CI_E2E=always or CI_E2E=never takes the decision about the browser tests away.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A run shall take less than 25 minutes; the browser tests take up to 7 of them.
LATEST_E2E = 16 * 60

# How the suites report: cargo, Python's unittest, and our own.
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
OWN = re.compile(r"^(\d+) passed, (\d+) failed$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_FAILED = re.compile(r"^FAILED \((.*)\)")


class Count:
    """Adds up what the suites report."""

    def __init__(self):
        self.passed = self.failed = 0

    def read(self, line):
        if found := CARGO.match(line) or OWN.match(line):
            self.passed += int(found.group(1))
            self.failed += int(found.group(2))
        elif found := UNITTEST_RAN.match(line):
            self.passed += int(found.group(1))
        elif found := UNITTEST_FAILED.match(line):
            bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", found.group(1)))
            self.passed -= bad
            self.failed += bad


def run(count, *command):
    """Runs a command and returns whether it succeeded. Its failures are counted, at least one."""
    print(f"== {' '.join(command)}", flush=True)
    begin = time.monotonic()
    before = count.failed
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        count.read(line.rstrip("\n"))
    status = process.wait()
    if status and count.failed == before:
        count.failed += 1
    print(f"== {' '.join(command)}: status {status} after {time.monotonic() - begin:.0f} s", flush=True)
    return status == 0


def main():
    begin = time.monotonic()
    count = Count()
    os.environ.setdefault("CI", "true")
    os.environ.setdefault("CARGO_TERM_COLOR", "never")
    # What is built once only needs no state for the next build; without it a run takes gigabytes less disk.
    os.environ.setdefault("CARGO_INCREMENTAL", "0")
    if not run(count, "tools/require.sh", "make", "git"):
        return finish(count)
    # All tests run even if some fail: one run shows everything.
    tests = run(count, "make", "--keep-going", "test")
    if run(count, "make", "lint"):
        count.passed += 1
    wish = os.environ.get("CI_E2E", "")
    early = time.monotonic() - begin < LATEST_E2E
    if wish == "always" or (wish != "never" and early and tests):
        run(count, "make", "e2e", "PROFILE=dev")
    else:
        print("== make e2e: left out")
    return finish(count)


def finish(count):
    print(f"{count.passed} passed, {count.failed} failed", flush=True)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
