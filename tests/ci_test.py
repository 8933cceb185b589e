#!/usr/bin/env python3
"""Tests tools/ci.py: its counts, and its exit status."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import ci  # noqa: E402

CARGO = """running 4 tests
test files::a ... ok
skipped: files::b: it takes root
test files::b ... ok
test files::c ... skipped: files::c: there is no python3
ok
test files::d ... FAILED
skipped: files::b: it takes root, which is said twice
test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"""


class Counting(unittest.TestCase):
    def summary(self, *texts):
        count = ci.Count()
        for line in "\n".join(texts).split("\n"):
            count.read(line)
        return count.summary()

    def test_nothing_is_nothing(self):
        self.assertEqual(self.summary(""), ["0 skipped", "0 passed, 0 failed"])

    def test_what_cannot_run_is_named_and_has_not_passed(self):
        self.assertEqual(self.summary(CARGO), [
            "2 skipped", "    files::b: it takes root", "    files::c: there is no python3", "failed: files::d",
            "1 passed, 1 failed"])

    def test_a_test_that_fails_is_not_skipped(self):
        self.assertEqual(self.summary(CARGO, "skipped: files::d: a part of it"), self.summary(CARGO))

    def test_suites_are_added_up(self):
        python = "Ran 10 tests in 0.1s\n\nFAILED (failures=2, errors=1)"
        self.assertEqual(self.summary(CARGO, "5 passed, 1 failed", python)[-1], "13 passed, 5 failed")

    def test_the_reports_of_failed_tests_are_repeated_at_the_end(self):
        cargo = """---- files::d stdout ----

thread 'files::d' panicked at tests/files/d.rs:7:5:
the answer was 404

failures:
    files::d

test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"""
        python = """======================================================================
FAIL: test_one (__main__.Suite.test_one)
----------------------------------------------------------------------
AssertionError: 1 != 2
----------------------------------------------------------------------
Ran 3 tests in 0.1s

FAILED (failures=1)"""
        self.assertEqual(self.summary(cargo, python), [
            "failed: files::d", "    thread 'files::d' panicked at tests/files/d.rs:7:5:", "    the answer was 404",
            "failed: test_one", "    AssertionError: 1 != 2", "0 skipped", "failed: files::d", "failed: test_one",
            "5 passed, 2 failed"])

    def test_lines_of_programs_that_name_an_error_are_no_failed_tests(self):
        self.assertEqual(self.summary("ERROR: [pool www] no user\nERROR: 3 (of 4)\n2 passed, 0 failed"), ["0 skipped", "2 passed, 0 failed"])

    def test_the_reports_of_our_own_suites_are_repeated(self):
        rows = """FAIL: gzip-types (gzip_types)
GET /a.css
      nginx: 200 instead of 404
--- 0.log
a line of a server
115 passed, 1 failed"""
        case = "FAIL a request: status: 200 | 404\nintended    1  a field is empty\nnginx: 3 passed, 1 failed"
        self.assertEqual(self.summary(rows, case), [
            "failed: gzip-types", "    GET /a.css", "          nginx: 200 instead of 404",
            "failed: a request: status: 200 | 404", "0 skipped", "failed: a request: status: 200 | 404", "failed: gzip-types",
            "118 passed, 2 failed"])

    def test_a_long_report_is_shortened(self):
        self.assertEqual(len(self.summary("---- a stdout ----", *["x"] * 100)), 1 + ci.REPEATED + 3)


class Running(unittest.TestCase):
    def run_beside(self, first, *others):
        """The results, the last lines and the output of shell scripts."""
        count, output = ci.Count(), io.StringIO()
        with contextlib.redirect_stdout(output):
            results = ci.run_beside(count, ["sh", "-c", first], [["sh", "-c", other] for other in others])
        return results, count.summary(), output.getvalue()

    def test_a_command_and_the_first_of_the_others_run_at_the_same_time(self):
        with tempfile.TemporaryDirectory() as directory:
            meet = f"cd {directory}; >$0 && while ! [ -e $1 ]; do sleep 0.05; done; echo '1 passed, 0 failed'"
            results, summary, _ = self.run_beside(meet.replace("$0", "a").replace("$1", "b"),
                                                  meet.replace("$0", "b").replace("$1", "a"))
        self.assertEqual(results, [True, True])
        self.assertEqual(summary[-1], "2 passed, 0 failed")

    def test_each_command_runs_and_counts_whatever_happens_to_another(self):
        results, summary, _ = self.run_beside("echo '2 passed, 1 failed'; exit 1", "exit 3", "echo '4 passed, 0 failed'",
                                              "echo 'test a ... FAILED'; echo 'skipped: b: no b'; exit 1")
        self.assertEqual(results, [False, True, False, False])
        unnamed = "sh -c echo 'test a ... FAILED'; echo 'skipped: b: no b'; exit 1"
        self.assertEqual(summary, ["1 skipped", "    b: no b", "failed: a", f"failed: {unnamed}", "failed: sh -c exit 3",
                                   "5 passed, 3 failed"])

    def test_reports_of_commands_that_run_at_the_same_time_do_not_mix(self):
        report = "echo 'FAIL: NAME (x)'; for n in 1 2 3; do echo NAME $n; sleep 0.05; done; echo '0 passed, 1 failed'"
        _, summary, output = self.run_beside(report.replace("NAME", "one"), report.replace("NAME", "two"))
        for name in ("one", "two"):
            lines = [line.strip() for line in summary]
            begin = lines.index(f"failed: {name}")
            self.assertEqual(lines[begin + 1:begin + 4], [f"{name} 1", f"{name} 2", f"{name} 3"])
        self.assertIn("FAIL: two (x)\ntwo 1\ntwo 2\ntwo 3\n0 passed, 1 failed\n== ", output)


if __name__ == "__main__":
    unittest.main()
