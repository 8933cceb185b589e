"""Compares Apache with Howdah under the imported document.

Each case is a file of virtual hosts, with Debian's configuration around it, or a whole configuration. It has a file system
of its own in mount namespaces: /etc/apache2, /srv, /var/www, /var/log/apache2 and /run/php.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import imported

HERE = Path(__file__).resolve().parent
PROGRAM = "/usr/sbin/apache2"
STATUSES = ["converted", "not needed", "changed", "not converted"]


def needs():
    """The missing requirement; None if all are met."""
    modules = Path("/usr/lib/apache2/modules")
    return None if Path(PROGRAM).exists() and list(modules.glob("libphp*.so")) else "Apache with mod_php"


def cases():
    from apache_cases import CASES
    from apache_more_cases import MORE
    from apache_nasty_cases import CASES as NASTY
    from apache_panel_cases import CASES as PANELS
    from apache_place_cases import CASES as PLACES
    from apache_row_cases import ROWS
    return CASES + MORE + ROWS + PANELS + PLACES + NASTY


def run(arguments):
    return imported.compare("apache", sys.modules[__name__], arguments)


class Comparison:
    def __init__(self, tmp, arguments, _):
        self.tmp, self.arguments = tmp, arguments

    def start(self):
        """Each case has servers of its own."""

    def compare(self, case):
        """The differences of a case."""
        tmp = self.tmp / case.name
        tmp.mkdir()
        tmp.chmod(0o755)
        return differences(case, tmp, self.arguments)

    def stop(self):
        """They have ended."""


def differences(case, tmp, arguments):
    make_tree(case, tmp)
    answers = {}
    for server in ("apache", "howdah"):
        command = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-B",
                   str(HERE / "apache_inside.py"),
                   server, str(tmp), str(arguments.howdah), str(arguments.importer.resolve() if arguments.importer else "")]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, start_new_session=True)
        if done.returncode:
            log = "".join(path.read_text(errors="replace")[-3000:] for path in [*tmp.glob(f"{server}*.log")])
            yield f"{server} failed:\n{done.stdout[-4000:]}\n{log}"
            return
        answers[server] = json.loads((tmp / f"{server}.json").read_text())
    report = json.loads((tmp / "report.json").read_text())
    yield from report_differences(case, tmp, report)
    for request, theirs, ours in zip(case.requests, answers["apache"], answers["howdah"]):
        if request in case.but:
            if [theirs[0], ours[0]] != list(case.but[request]):
                yield f"{request}: not the listed difference\n    Apache: {theirs}\n    Howdah: {ours}"
        elif theirs != ours:
            yield f"{request}\n    Apache: {theirs}\n    Howdah: {ours}"
    for name in case.logs:
        lines = [lines_of(tmp / "log" / server / name) for server in ("apache", "howdah")]
        if lines[0] != lines[1] or not lines[0]:
            yield f"{name}\n    Apache: {lines[0]}\n    Howdah: {lines[1]}"


def lines_of(path):
    """The lines of a log, without times and sizes of pages of the server itself."""
    text = path.read_text(errors="replace") if path.exists() else ""
    lines = [re.sub(r"\[\d\d/\w{3}/\d{4}[^]]*\]", "[TIME]", line) for line in text.splitlines()]
    lines = [re.sub(r"(?<=\" )(\d{3}) \d+", r"\1 SIZE", line) for line in lines if "/none" not in line]
    return sorted(lines)


def report_differences(case, tmp, report):
    """Each directive is in the report once, with its line."""
    lines = {}
    for path in case.all_files():
        number = 0
        continued = False
        text = (tmp / "etc" / path).read_text()
        for number, line in enumerate(text.split("\n"), 1):
            is_directive = not continued and line.strip() and not line.strip().startswith(("#", "</"))
            continued = line.endswith("\\")
            if is_directive:
                lines[(f"/etc/apache2/{path}", number)] = line.strip()
    seen = set()
    for entry in report:
        key = (re.sub(r"^.*?(?=/etc/apache2/)", "", entry["file"]), entry["line"])
        if key in seen:
            yield f"report: {key} is there twice"
        seen.add(key)
        if entry["status"] not in STATUSES or (entry["status"] != "converted") != bool(entry.get("reason")):
            yield f"report: {entry}"
    for key, line in lines.items():
        if key not in seen:
            yield f"report: {key} ({line}) is missing"
    for text, status in case.statuses.items():
        if text == "*":
            continue
        found = [entry["status"] for entry in report if entry["directive"].startswith(text)]
        if not found or any(one != status for one in found):
            yield f"report: {text} is {found}, not {status}"
    if not case.statuses.get("*"):
        worst = [entry for entry in report if entry["status"] == "not converted" and
                 not any(entry["directive"].startswith(text) for text in case.statuses)]
        for entry in worst:
            yield f"report: {entry['directive']} (line {entry['line']}) is not converted: {entry['reason']}"


def make_tree(case, tmp):
    """The files of a case below the directory."""
    etc = tmp / "etc"
    for name in ("apache2.conf", "ports.conf", "envvars", "magic", "mods-available", "conf-available"):
        source = Path("/etc/apache2") / name
        etc.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, etc / name)
        else:
            shutil.copy(source, etc / name)
    for name in ("mods-enabled", "conf-enabled", "sites-enabled", "sites-available"):
        (etc / name).mkdir()
    for module in case.modules:
        for ending in ("load", "conf"):
            if (etc / f"mods-available/{module}.{ending}").exists():
                (etc / f"mods-enabled/{module}.{ending}").symlink_to(f"../mods-available/{module}.{ending}")
    for name in ("charset", "localized-error-pages", "other-vhosts-access-log", "security", "serve-cgi-bin"):
        (etc / f"conf-enabled/{name}.conf").symlink_to(f"../conf-available/{name}.conf")
    for name, text in case.etc.items():
        path = etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in case.certificates:
        certificate(etc / name, name)
    for top in ("srv", "www", "log", "run", "work"):
        (tmp / top).mkdir()
        (tmp / top).chmod(0o777)
    for name, text in case.tree.items():
        path = tmp / ("www" if name.startswith("/var/www/") else "srv") / name.removeprefix("/var/www/").removeprefix("/srv/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {name}\n" if text is None else text)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    for path in [*tmp.glob("srv/**/*"), *tmp.glob("www/**/*")]:
        path.chmod(0o755 if path.is_dir() or path.read_bytes().startswith(b"#!") else 0o644)
    (tmp / "case.json").write_text(json.dumps({
        "requests": case.requests, "inputs": [f"/etc/apache2/{name}" for name in case.inputs], "fpm": case.fpm,
        "backend": case.backend, "joins": case.joins}))


def certificate(path, name):
    """A certificate for a host, beside its key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9",
                    "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", f"{path}.key", "-out", f"{path}.pem"],
                   check=True, stderr=subprocess.DEVNULL, start_new_session=True)
