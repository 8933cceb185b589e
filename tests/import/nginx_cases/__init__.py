"""Configurations of nginx."""

from importlib import import_module
from pathlib import Path

# What cannot be converted of a configuration of docs/examples or tests/migration: beginnings of directives that the report
# names as changed or not converted. The answers may differ then, but are never open.
LOSSES = {
    # A field that is too long has 431, where nginx has 400.
    "header-size": ["large_client_header_buffers"],
    # PHP of a pool that is imported runs in the server itself, and gets the whole request.
    "pass-request": ["fastcgi_pass_request_headers", "fastcgi_pass_request_body"],
    # Files of an unknown type in one place have the default type of the whole server.
    "without-type": ["default_type"],
}


def all_cases():
    """The cases of all modules."""
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if file.stem not in ("__init__", "case"):
            yield from import_module(f"nginx_cases.{file.stem}").CASES
