"""The cases of tests/migration/apache_rows.py, and the examples of the documentation: the imported document is answered as the
original."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "migration"))

import apache_rows  # noqa: E402
import sites  # noqa: E402
from apache_cases import Case  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"

# Cases that are about something that a configuration of a host cannot say, or about files that these trees do not have.
LEFT_OUT = {"include", "error-log", "global-log", "no-links", "all-links", "request-headers", "trailers", "path-info",
            "alias-htaccess"}
FRAME = """<VirtualHost *:80>
ServerName {name}.test
DocumentRoot /srv/rows
<Directory /srv/rows>
    Require all granted
    AllowOverride None
    Options FollowSymLinks
</Directory>
{text}
</VirtualHost>
"""


def request(text, host):
    """A request in the form of this directory; None if it has none."""
    head, _, body = text.partition(" || ")
    line, *fields = head.split(" | ")
    words = line.split(" ")
    if len(words) != 2 or "×" in text or text.startswith("session ") or any(field.startswith("Host") for field in fields):
        return None
    return " | ".join([f"{line} {host}", *fields]) + (f" || {body}" if body else "")


def rows():
    for case in apache_rows.CASES:
        if case.name in LEFT_OUT or case.group != "sites" or case.logs:
            continue
        text = case.apache.replace("@SRV@", "/srv/rows").replace("@TMP@", "/srv/log")
        requests = [request(one, f"{case.name}.test") for one in case.requests if one not in case.but]
        tree = {f"/srv/rows/{name}": content for name, content in apache_rows.FILES.items()}
        yield Case(f"row-{case.name}", FRAME.format(name=case.name, text=text), [one for one in requests if one], tree=tree,
                   modules="expires", statuses={"*": True})


def examples():
    for name in ("apache-virtual-host", "apache-wordpress"):
        host, files, requests = sites.SITES[name]
        tree = {f"/srv/{file}": sites.CONTENTS.get(file, apache_rows.TELL if file.endswith((".php", ".phtml")) else None) for file in files}
        asked = []
        for one in requests:
            line, _, field = one.partition(" {")
            method, target = line.split(" ", 1)
            wanted = host
            if target.startswith("//"):
                wanted, slash, rest = target[2:].partition("/")
                target = slash + rest
            asked.append(f"{method} {target} {wanted}" + (f" | {field.rstrip('}')}" if field else ""))
        yield Case(f"example-{name}", (EXAMPLES / name / "apache.conf").read_text(), asked, tree=tree, modules="rewrite")


ROWS = [*rows(), *examples()]
