"""Configurations of nginx."""

from importlib import import_module
from pathlib import Path

EXAMPLE_LOSSES = {}


def all_cases():
    """The cases of all modules."""
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem not in ("__init__", "case"):
            yield from import_module(f"nginx_cases.{file.stem}").CASES
