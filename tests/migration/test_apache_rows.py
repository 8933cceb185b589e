#!/usr/bin/env python3
"""Every row of docs/coming-from-apache.md with an equivalent is in a case of apache_rows.py or apache_proxy_rows.py, or in
the list of rows that cannot be observed."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from apache_proxy_rows import PROXY_CASES  # noqa: E402
from apache_rows import CASES  # noqa: E402
from test_tables import ANSWER, tables  # noqa: E402

# Rows with an equivalent that no case has, and why.
HIDDEN = {
    "PidFile": "apache_proof.py compares the files of all servers that it starts",
    "MaxConnectionsPerChild": "Apache counts connections of processes that serve all sites, Howdah requests of one application",
    "MaxRequestsPerChild": "the same as MaxConnectionsPerChild",
    "RLimitCPU": "Apache limits CGI programs, which Howdah does not run",
    "RLimitMEM": "the same as RLimitCPU",
    "RLimitNPROC": "the same as RLimitCPU",
    "LogLevel": "levels and texts of the two logs differ",
    "BufferedLogs": "only the time at which lines are written differs",
}


class RowsTest(unittest.TestCase):
    def test_every_row_with_an_equivalent_has_a_case_or_a_reason(self):
        rows = {name: answer for module in tables("apache").values() for name, answer in module.items()}
        proven = {name for case in CASES + PROXY_CASES for name in case.rows}
        equivalents = {name for name, answer in rows.items() if not ANSWER.match(answer)}
        self.assertEqual(sorted(equivalents - proven - set(HIDDEN)), [], "rows without a case")
        self.assertEqual(sorted((proven | set(HIDDEN)) - set(rows)), [], "there are no such rows")
        self.assertEqual(sorted(set(HIDDEN) & proven), [], "rows with a case and a reason")

    def test_listed_differences_are_in_the_rows(self):
        page = {name: answer for module in tables("apache").values() for name, answer in module.items()}
        for case in CASES + PROXY_CASES:
            for request, (_, _, words) in case.but.items():
                with self.subTest(case=case.name, request=request[:60]):
                    self.assertIn(request, case.requests)
                    self.assertTrue(any(words in page[name] for name in case.rows), words)

    def test_names_of_cases_differ(self):
        names = [case.name for case in CASES + PROXY_CASES]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
