#!/usr/bin/env python3
"""Checks of a change before it goes in: all tests and `make lint`, and `make e2e` if it is early enough.

    tools/ci.py            all of it
    tools/ci.py TARGET...  these targets of the Makefile, counted in the same way

Shows their output. The tests of cargo and the suites of programs run beside each other, because both mostly wait; the output
of a suite is shown when it has ended. At the end it repeats the output of failed tests, for a log of which only the end
is kept, names the tests that could not run on this machine, with the reason of each, and those that failed. Its last line, "N passed, N failed", counts
every other test and, as one each, the lint and commands that failed without the name of a test. The exit status is 0 if all passed. CI_E2E=always or
CI_E2E=never takes the decision about the browser tests away.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A run shall take less than 25 minutes; the browser tests take up to 7 of them.
LATEST_E2E = 16 * 60
# Time in seconds for the last lines of a command that has ended.
LATEST_OUTPUT = 30

# What cargo runs, and what runs beside it.
RUST = "test-rust"
SUITES = ("test-tools", "test-demo", "test-differential", "test-fastcgi", "test-cache")

# How the suites report: cargo, Python's unittest, and our own.
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
OWN = re.compile(r"^(?:[\w-]+: )?(\d+) passed, (\d+) failed$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in ")
UNITTEST_FAILED = re.compile(r"^FAILED \((.*)\)")
FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$")
# The report of a failed test begins with a line of the first form, of cargo, unittest or our own; the second ends all.
REPORT = re.compile(r"^(?:---- (\S+) stdout ----|(?:FAIL|ERROR): (\S+) \([\w.]+\).*|FAIL (.+))$")
REPORTED = re.compile(r"^(?:failures:|Intended differences:|Ran \d+ tests? in .*|intended +\d+ .*|(?:[\w-]+: )?\d+ (?:passed, \d+ failed|cases).*|--- .*)$")
# That many lines of a report are repeated: its first ones, which name the cause.
REPEATED = 25
# The output of a test that cannot run, on a line of its own or behind its name; cargo counts it as passed.
SKIPPED = re.compile(r"(?:^|^test \S+ \.\.\. )skipped: (\S+): (.+)$")


class Count:
    """Adds up the results of the suites."""

    def __init__(self):
        self.passed = self.failed = 0
        # Names and reasons; a test may leave out a part, and fail in another.
        self.skipped = {}
        self.broken = set()
        # The reports of failed tests, and the one that is being read.
        self.reports = {}
        self.report = None

    def read(self, line):
        self.read_report(line)
        if found := SKIPPED.match(line):
            self.skipped.setdefault(found.group(1), found.group(2))
        elif found := FAILED.match(line):
            self.broken.add(found.group(1))
        elif found := CARGO.match(line) or OWN.match(line):
            self.passed += int(found.group(1))
            self.failed += int(found.group(2))
        elif found := UNITTEST_RAN.match(line):
            self.passed += int(found.group(1))
        elif found := UNITTEST_FAILED.match(line):
            bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", found.group(1)))
            self.passed -= bad
            self.failed += bad

    def read_report(self, line):
        if begin := REPORT.match(line):
            self.report = self.reports.setdefault(next(filter(None, begin.groups())), [])
        elif REPORTED.match(line):
            self.report = None
        elif self.report is not None and len(self.report) < REPEATED and line.strip("-= "):
            self.report.append(line)

    def add(self, other):
        """Adds the results of suites that ran beside these."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped |= other.skipped
        self.broken |= other.broken
        self.reports |= other.reports

    def repeated(self):
        """The output of failed tests."""
        return [line for name, report in self.reports.items() for line in (f"failed: {name}", *("    " + r for r in report))]

    def summary(self):
        """The last lines of a run."""
        skipped = {name: reason for name, reason in self.skipped.items() if name not in self.broken}
        failed = sorted(self.broken | self.reports.keys())
        return [*self.repeated(), f"{len(skipped)} skipped", *(f"    {name}: {reason}" for name, reason in skipped.items()),
                *(f"failed: {name}" for name in failed), f"{self.passed - len(skipped)} passed, {self.failed} failed"]


# Lines of programs that run beside each other do not mix.
OUTPUT = threading.Lock()


def show(text):
    with OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()


def read(count, output, shown):
    """Counts the output of a command, and shows each line."""
    with output:
        for line in output:
            shown(line)
            count.read(line.rstrip("\n"))


def run(count, *command, beside=False):
    """Runs a command and returns whether it succeeded. Its failures are counted, at least one.

    The output of a command that runs beside another one is shown when it has ended.
    """
    kept = []
    shown = kept.append if beside else show
    shown(f"== {' '.join(command)}\n")
    begin = time.monotonic()
    before = count.failed
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    reader = threading.Thread(target=read, args=(count, process.stdout, shown), daemon=True)
    reader.start()
    status = process.wait()
    # A process that a test has left behind may have the pipe open for ever.
    reader.join(LATEST_OUTPUT)
    if status and count.failed == before:
        count.failed += 1
        count.broken.add(" ".join(command))
    shown(f"== {' '.join(command)}: status {status} after {time.monotonic() - begin:.0f} s\n")
    show("".join(kept))
    return status == 0


def run_beside(count, first, others):
    """Runs a command, and beside it others one after the other. Returns whether each succeeded, the first command last."""
    counts = (count, Count())
    results = []

    def run_others():
        results.extend(run(counts[1], *command, beside=True) for command in others)

    beside = threading.Thread(target=run_others)
    beside.start()
    succeeded = run(counts[0], *first)
    beside.join()
    count.add(counts[1])
    return [*results, succeeded]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    targets = parser.parse_args().targets
    count = Count()
    if not targets:
        return everything(count)
    if RUST in targets:
        test(count, [["make", target] for target in targets if target != RUST])
    else:
        run(count, "make", "--keep-going", *targets)
    return finish(count)


def test(count, others):
    """Runs the tests of cargo, and other commands beside them. All run even if some fail: one run shows everything.

    Returns whether each succeeded, the tests of cargo last.
    """
    # Before: a build needs all processors, and the suites need the programs.
    run(count, "make", "test-build")
    return run_beside(count, ["make", RUST], others)


def everything(count):
    begin = time.monotonic()
    os.environ.setdefault("CI", "true")
    os.environ.setdefault("CARGO_TERM_COLOR", "never")
    # A single build needs no state for the next one; without it a run takes gigabytes less disk.
    os.environ.setdefault("CARGO_INCREMENTAL", "0")
    if not run(count, "tools/require.sh", "make", "git"):
        return finish(count)
    *suites, lint, rust = test(count, [*(["make", suite] for suite in SUITES), ["make", "lint"]])
    count.passed += lint
    wish = os.environ.get("CI_E2E", "")
    early = time.monotonic() - begin < LATEST_E2E
    if wish == "always" or (wish != "never" and early and rust and all(suites)):
        # The walk through the cached WordPress takes minutes in a build without optimisation.
        run(count, "make", "e2e", "PROFILE=dev", "E2E=--steps 300")
    else:
        print("== make e2e: left out")
    return finish(count)


def finish(count):
    print("\n".join(count.summary()), flush=True)
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
