#!/usr/bin/env python3
"""Tests tools/ci.py: what it counts, and how it ends."""

import sys
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
            "2 skipped", "    files::b: it takes root", "    files::c: there is no python3", "1 passed, 1 failed"])

    def test_a_test_that_fails_is_not_skipped(self):
        self.assertEqual(self.summary(CARGO, "skipped: files::d: a part of it"), self.summary(CARGO))

    def test_suites_are_added_up(self):
        python = "Ran 10 tests in 0.1s\n\nFAILED (failures=2, errors=1)"
        self.assertEqual(self.summary(CARGO, "5 passed, 1 failed", python)[-1], "13 passed, 5 failed")


if __name__ == "__main__":
    unittest.main()
