"""The cases, in the order in which they run."""

from dataclasses import replace

from . import bodies, files, headers, malformed, methods, paths, responses, variables

GROUPS = (
    ("Files", files.CASES),
    ("Paths", paths.CASES),
    ("Variables", variables.CASES),
    ("Methods", methods.CASES),
    ("Request header fields", headers.CASES),
    ("Request bodies", bodies.CASES),
    ("Responses of scripts", responses.CASES),
    ("Malformed messages", malformed.CASES),
)


def all_cases():
    """Every case with the name of its group; names are unique."""
    cases = [replace(case, group=group) for group, members in GROUPS for case in members]
    names = [case.name for case in cases]
    doubles = {name for name in names if names.count(name) > 1}
    if doubles:
        raise ValueError(f"names of cases occur twice: {sorted(doubles)}")
    return cases
