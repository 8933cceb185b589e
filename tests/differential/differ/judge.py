"""Decides about a case: the answer equals that of a peer, or differs in an intended way, or is wrong.

An intended difference says for some cases which aspects Howdah answers on its own, and how. All
other aspects must be those of one and the same peer, unless the entry says that the whole answer
is its own (`alone`).
"""

import fnmatch
import re
from dataclasses import dataclass, field

# The order matters: where both peers agree with Howdah, the first is named.
PEERS = ("nginx", "apache")
TITLES = {"nginx": "nginx + PHP-FPM", "apache": "Apache + mod_php", "howdah": "Howdah"}


@dataclass(frozen=True)
class Intended:
    """One deliberate difference from both peers, and its reason."""

    title: str
    reason: str
    # Names of cases, as patterns.
    cases: tuple
    # Aspects and their values; a tuple stands for any of its members, None for absence, a
    # regular expression for what it matches in full. Keys are patterns.
    expect: dict = field(default_factory=dict)
    # Aspects that must be so as well, but are no difference from the peers.
    given: dict = field(default_factory=dict)
    # Values that the peer must have for an aspect to be excused.
    instead: dict = field(default_factory=dict)
    # Only the expected aspects are looked at.
    alone: bool = False
    # The section of the page that it belongs to.
    topic: str = "Other"
    # The first release of a peer that does the same, if there is one.
    until: str = ""

    def concerns(self, case):
        return any(fnmatch.fnmatchcase(case.name, pattern) for pattern in self.cases)

    def covers(self, aspect, theirs=None):
        if not any(matches(aspect, pattern) for pattern in self.expect):
            return False
        return all(allows(wanted, theirs) for pattern, wanted in self.instead.items() if matches(aspect, pattern))

    def holds(self, seen):
        """The first expected aspect that is not as expected, or None."""
        for pattern, wanted in {**self.given, **self.expect}.items():
            found = [name for name in seen if matches(name, pattern)]
            values = [seen[name] for name in found] or [None]
            for value in values:
                if not allows(wanted, value):
                    return f"{pattern} should be {show(wanted)}, is {show(value)}"
        return None


def allows(wanted, value):
    if isinstance(wanted, tuple):
        return any(allows(one, value) for one in wanted)
    if isinstance(wanted, re.Pattern):
        return value is not None and wanted.fullmatch(value) is not None
    return wanted == value


def show(wanted):
    if isinstance(wanted, tuple):
        return " or ".join(map(show, wanted))
    if isinstance(wanted, re.Pattern):
        return f"like {wanted.pattern!r}"
    return "absent" if wanted is None else repr(wanted)


def matches(name, pattern):
    """A pattern without the number of an answer is for every answer of the connection."""
    if not pattern[:1].isdigit():
        name = re.sub(r"^\d+\.", "", name)
    # Names hold brackets, which are no character classes here.
    return name == pattern or fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


@dataclass
class Verdict:
    """The decision about a case."""

    case: object
    passed: bool
    # The peer that Howdah equals, if one.
    like: str = ""
    # Entries of the table that were needed.
    intended: tuple = ()
    # Differences in words, when it failed.
    problems: tuple = ()
    seen: dict = field(default_factory=dict)


def differences(ours, theirs):
    """Aspects whose values differ, as (name, ours, theirs); None where absent."""
    names = sorted(set(ours) | set(theirs))
    return [(n, ours.get(n), theirs.get(n)) for n in names if ours.get(n) != theirs.get(n)]


def judge(case, seen, table):
    """`seen` holds the aspects by server."""
    ours = seen["howdah"]
    leaks = [value for name, value in ours.items() if matches(name, "leak")]
    if leaks:
        return Verdict(case, False, problems=(f"leaks {leaks[0]!r}, whatever the peers do",), seen=seen)
    for peer in PEERS:
        if not differences(ours, seen[peer]):
            return Verdict(case, True, like=peer, seen=seen)
    entries = [entry for entry in table if entry.concerns(case)]
    problems = []
    for entry in entries:
        if entry.alone:
            wrong = entry.holds(ours)
            if wrong is None:
                return Verdict(case, True, intended=(entry,), seen=seen)
            problems.append(f"{entry.title}: {wrong}")
    entries = [entry for entry in entries if not entry.alone]
    for peer in PEERS:
        left, needed = [], []
        for difference in differences(ours, seen[peer]):
            entry = next((e for e in entries if e.covers(difference[0], difference[2]) and e.holds(ours) is None), None)
            if entry is None:
                left.append(difference)
            elif entry not in needed:
                needed.append(entry)
        if not left:
            return Verdict(case, True, like=peer, intended=tuple(needed), seen=seen)
        problems.append(f"unlike {TITLES[peer]}: " + "; ".join(word(*d) for d in left[:6]) + (" …" if len(left) > 6 else ""))
    return Verdict(case, False, problems=tuple(problems), seen=seen)


def word(name, ours, theirs):
    def short(value):
        return "absent" if value is None else repr(value if len(value) < 90 else value[:87] + "…")
    return f"{name}: {short(ours)}, not {short(theirs)}"
