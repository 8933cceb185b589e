#!/usr/bin/env python3
"""Every row of docs/coming-from-php-fpm.md with an equivalent is in a case of fpm_rows.py, or in its list of rows that
cannot be observed."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from fpm_rows import CASES, GROUPS, UNOBSERVABLE, Differs  # noqa: E402
from test_tables import ANSWER, tables  # noqa: E402


def rows():
    """{name: answer}; names of [global] have "global:" in front."""
    page = tables("php-fpm")
    return {("global:" if section == "global" else "") + name: answer
            for section, answers in page.items() for name, answer in answers.items()}


class RowsTest(unittest.TestCase):
    def test_every_row_with_an_equivalent_has_a_case_or_a_reason(self):
        proven = {name for case in CASES for name in case.rows.split()}
        equivalents = {name for name, answer in rows().items() if not ANSWER.match(answer)}
        self.assertEqual(sorted(equivalents - proven - set(UNOBSERVABLE)), [], "rows without a case")
        self.assertEqual(sorted((proven | set(UNOBSERVABLE)) - set(rows())), [], "there are no such rows")
        self.assertEqual(sorted(proven & set(UNOBSERVABLE)), [], "rows with a case and a reason")

    def test_differences_are_in_the_rows(self):
        for case in CASES:
            for _, value in case.observed:
                if isinstance(value, Differs):
                    with self.subTest(case=case.name):
                        self.assertTrue(any(value.words in rows()[name] for name in case.rows.split()), value.words)

    def test_names_of_cases_differ_and_their_groups_exist(self):
        names = [case.name for case in CASES]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual({case.group for case in CASES}, set(GROUPS))


if __name__ == "__main__":
    unittest.main()
