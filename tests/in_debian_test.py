#!/usr/bin/env python3
"""Tests tests/in_debian.py as far as it needs no root: where a root comes from, and that none is no failure."""

import contextlib
import io
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import in_debian  # noqa: E402


class Mirror(unittest.TestCase):
    def test_it_is_that_of_the_main_archive(self):
        targets = ("Debian main bookworm-updates http://a/debian/\nDebian main bookworm-security http://b/security/\n"
                   "Google main stable http://c/\nDebian contrib bookworm http://d/\nDebian main bookworm http://e/debian/\n")
        self.assertEqual(in_debian.chosen(targets), "http://e/debian/")

    def test_a_system_without_one_has_none(self):
        for targets in ("", "\n", "Ubuntu main noble http://a/ubuntu/\n", "Debian\n"):
            self.assertIsNone(in_debian.chosen(targets))


class Running(unittest.TestCase):
    def test_a_system_that_cannot_run_it_skips_with_a_reason(self):
        output = io.StringIO()
        with mock.patch("os.geteuid", return_value=1000), mock.patch("sys.argv", ["x", "trixie", "true"]), \
                contextlib.redirect_stdout(output):
            self.assertEqual(in_debian.main(), 0)
        self.assertEqual(output.getvalue(), "skipped: trixie: it takes root\n")


if __name__ == "__main__":
    unittest.main()
