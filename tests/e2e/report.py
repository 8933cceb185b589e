"""One line a step, and the count at the end."""

import contextlib
import time

from machine import Unusable


class Stop(Exception):
    """Ends an application's steps: the rest depends on the step that failed."""


class Failure(Exception):
    """A step has found a mistake; the message gives the observation and the expectation."""


def check(condition, message):
    """Fails the step unless the condition holds. Not `assert`, which -O removes."""
    if not condition:
        raise Failure(message)


def equal(what, found, expected):
    """Fails the step unless both are equal."""
    check(found == expected, f"{what}: {found!r} instead of {expected!r}")


class Report:
    """Collects and prints the results of all steps."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.on_failure = None

    @contextlib.contextmanager
    def step(self, name, needed=False):
        """Runs a step. When it is needed by those after it, its failure ends the application."""
        start = time.monotonic()
        try:
            yield
        except Exception as problem:  # after any failure, the other steps still have to run
            self.fail(name, describe(problem), time.monotonic() - start)
            if self.on_failure:
                self.on_failure(name)
            if needed:
                raise Stop from problem
        else:
            self.passed += 1
            print(f"ok    {name} ({time.monotonic() - start:.1f} s)", flush=True)

    def fail(self, name, message, seconds=None):
        """Records a failure, with its message indented below."""
        self.failed += 1
        took = "" if seconds is None else f" ({seconds:.1f} s)"
        print(f"FAIL  {name}{took}")
        for line in message.splitlines():
            print(f"          {line}")
        print(end="", flush=True)

    @staticmethod
    def note(line):
        """Prints something that is worth knowing and neither passes nor fails."""
        print(f"          {line}", flush=True)

    def close(self):
        """Prints the count and returns the exit status."""
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


def describe(problem):
    """A failure's message; other exceptions also have their type."""
    text = str(problem).strip()
    return text if isinstance(problem, (Failure, Unusable)) else f"{type(problem).__name__}: {text}"
