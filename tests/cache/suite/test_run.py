#!/usr/bin/env python3
"""Tests of the expectations of `run` for each case."""

import importlib.machinery
import importlib.util
import json
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("run", str(HERE / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)

LEFT_OUT = {"cookies": "They are for one client."}


def judged(identifier, kind, result):
    case = {"id": identifier, "kind": kind, "name": "A cache", "needs": [], "result": result}
    return [case for case, _ in run.judge({identifier: case}, LEFT_OUT)]


class Judge(unittest.TestCase):
    def test_cases_that_are_not_left_out_pass(self):
        for kind in ("required", "optimal"):
            self.assertEqual(judged("age", kind, True), [])
            self.assertEqual(judged("age", kind, ["Assertion", "Age is 1"]), ["age"])
            self.assertEqual(judged("age", kind, ["Setup", "Status is 502"]), ["age"])
            self.assertEqual(judged("age", kind, None), ["age"])

    def test_a_case_that_is_left_out_does_not_pass(self):
        self.assertEqual(judged("cookies", "required", ["Assertion", "not stored"]), [])
        self.assertEqual(judged("cookies", "required", True), ["cookies"])

    def test_questions_have_no_right_answer(self):
        self.assertEqual(judged("age", "check", ["Assertion", "Age is 1"]), [])
        self.assertEqual(judged("age", "check", True), [])

    def test_the_list_names_cases_that_are_judged(self):
        cases = {"cookies": {"id": "cookies", "kind": "check"}}
        self.assertEqual([entry for entry, _ in run.unknown(cases, LEFT_OUT)], ["cookies"])
        cases["cookies"]["kind"] = "optimal"
        self.assertEqual(run.unknown(cases, LEFT_OUT), [])

    def test_each_case_that_is_left_out_has_a_reason(self):
        for case, reason in json.loads(run.LEFT_OUT.read_text("utf-8")).items():
            self.assertRegex(reason, r"^[A-Z].*\.$", case)


if __name__ == "__main__":
    unittest.main()
