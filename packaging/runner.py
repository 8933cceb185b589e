"""Runs the tests of an object: its methods whose names begin with `test_`. tools/ci.py reads what is printed."""

import sys
import traceback


class Skip(Exception):
    """The reason for which a test cannot run here."""


def run(tests, only=""):
    """Runs the tests whose names contain `only`. Returns how many have passed, with the skipped ones, and failed."""
    passed = failed = 0
    for name in names(tests, only):
        try:
            getattr(tests, name)()
        except Skip as reason:
            print(f"skipped: {name}: {reason}", flush=True)
            passed += 1
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print(f"test {name} ... FAILED", flush=True)
            failed += 1
        else:
            print(f"test {name} ... ok", flush=True)
            passed += 1
    return passed, failed


def names(tests, only=""):
    """The names of the tests, in the order in which they are written."""
    kind = tests if isinstance(tests, type) else type(tests)
    return [name for name in vars(kind) if name.startswith("test_") and only in name]
