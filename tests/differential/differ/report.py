"""The output at the end, and docs/differences.md."""

from .judge import PEERS, TITLES, matches

HEAD = """# Differences from nginx + PHP-FPM and Apache + mod_php

`tests/differential/run` sends {count} exact requests to Howdah without any configuration, to nginx with PHP-FPM and to
Apache (prefork) with mod_php. All three serve the same document root with the same PHP settings. The program compares
status, header fields, body, framing, the variables of scripts, and how the connection ends. The whole response of
Howdah must equal that of one of the two peers; for the variables of scripts the reference is nginx with PHP-FPM. This
page lists the exceptions.

Regardless of the peers, no response may contain the source of a script or a file from outside the document root.

`tests/differential/run` generates this page; the reasons are in `tests/differential/differ/intended.py`.

"""

SHOWN = 4


def effects(entry, verdicts):
    """The cases in which an entry was needed."""
    return [verdict for verdict in verdicts if entry in verdict.intended]


def outcome(seen):
    """An answer in a word."""
    if "unreachable" in seen:
        return "no connection"
    if seen.get("refused") == "yes":
        return "refused"
    status = seen.get("status") or seen.get("1.status")
    if status is None:
        return "no answer"
    return status + (" " + seen["framing"] if "framing" in seen else "")


def counted(words):
    """`200 (3), 404`: words with their numbers, most frequent first."""
    counts = {word: words.count(word) for word in words}
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return ", ".join(word if len(counts) == 1 or counts[word] == 1 else f"{word} ({counts[word]})" for word in ordered[:SHOWN])


def peer_words(entry, peer, cases):
    """The behaviour of a peer where the entry applies: the first aspect that the entry sets apart."""
    words = []
    for verdict in cases:
        seen = verdict.seen
        names = sorted({name for aspects in seen.values() for name in aspects if any(matches(name, p) for p in entry.expect)})
        apart = [n for n in names if any(seen[other].get(n) != seen["howdah"].get(n) for other in PEERS)]
        if entry.alone or "status" in apart or not apart:
            words.append(outcome(seen[peer]))
        elif seen[peer].get("status", "200") != seen["howdah"].get("status", "200"):
            words.append(outcome(seen[peer]))
        else:
            words.append(short(seen[peer].get(apart[0])))
    return counted(words)


def short(value):
    if value is None:
        return "absent"
    if value == "":
        return "empty"
    return f"`{value if len(value) <= 40 else value[:37] + '...'}`"


def escape(text):
    printable = "".join(c if " " <= c != "\x7f" else f"\\x{ord(c):02x}" for c in text)
    return printable.replace("|", "\\|").replace("<", "&lt;")


def table(verdicts):
    """Prints the intended differences that occurred."""
    entries = []
    for verdict in verdicts:
        entries += [entry for entry in verdict.intended if entry not in entries]
    if not entries:
        return
    print("Intended differences:")
    for entry in entries:
        cases = effects(entry, verdicts)
        peers = "; ".join(f"{TITLES[peer]}: {peer_words(entry, peer, cases)}" for peer in PEERS)
        print(f"  {len(cases):4}  {entry.title}  [{escape(peers)}]")


def write(path, verdicts, table):
    """Writes the page unless it is there already."""
    text = page(verdicts, table)
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"Wrote {path}")


def page(verdicts, table):
    out = [HEAD.format(count=len(verdicts)), "## Intended differences\n"]
    topics = list(dict.fromkeys(entry.topic for entry in table))
    for topic in topics:
        out.append(f"\n### {topic}\n\n| Howdah | {TITLES['nginx']} | {TITLES['apache']} | Reason | Seen in |\n| --- | --- | --- | --- | --- |\n")
        for entry in (e for e in table if e.topic == topic):
            cases = effects(entry, verdicts)
            cells = [entry.title, *(escape(peer_words(entry, peer, cases)) for peer in PEERS), entry.reason, names(cases)]
            out.append("| " + " | ".join(cells) + " |\n")
    out.append(FOLLOWED)
    groups = list(dict.fromkeys(v.case.group for v in verdicts))
    for group in groups:
        for peer, other in (PEERS, reversed(PEERS)):
            cases = [v for v in verdicts if v.case.group == group and v.like == peer and not v.intended and outcome(v.seen[other]) != outcome(v.seen["howdah"])]
            if cases:
                listed = "; ".join(f"{escape(v.case.name)} ({outcome(v.seen['howdah'])}, not {outcome(v.seen[other])})" for v in cases)
                out.append(f"- **{group}, as {TITLES[peer]}:** {listed}.\n")
    return "".join(out)


FOLLOWED = """
## Where the peers differ in the status

Howdah does the same as one of them.

"""


def names(cases):
    listed = ", ".join(escape(v.case.name) for v in cases[:SHOWN])
    more = len(cases) - SHOWN
    return listed + (f" and {more} more" if more > 0 else "")
