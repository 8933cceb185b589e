"""A configuration of nginx and the document that is imported from it, side by side."""

import json
import os
import re
import socket
import ssl
import subprocess
import time
from email.utils import parsedate_to_datetime
from pathlib import Path

from backend import Backend
from nginx_cases import LOSSES, all_cases
from nginx_cases.case import Case
from nginx_proof import FILES, make_certificate, parse
from peers import Programs, Unusable, fpm, free_port, nginx
from peers.processes import PATIENCE
from sites import CONTENTS, SITES, TELL

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

# Fields that are always compared.
FIELDS = ["content-type", "location", "cache-control", "www-authenticate", "x-powered-by", "expires", "content-range", "set-cookie",
          "content-encoding", "refresh", "last-modified", "content-length"]

# A page that a server writes itself.
OWN_PAGE = re.compile(rb"<hr><center>nginx|^<!doctype html><title>\d\d\d</title>")

# What a comparison adds to each configuration, with the status in its report.
USUAL = {"client_body_temp_path": "changed", "fastcgi_param SERVER_SOFTWARE": "changed",
         "fastcgi_param SERVER_NAME": "changed", "fastcgi_param REMOTE_USER": "changed"}

NGINX = """
    server_names_hash_bucket_size 128;
    access_log off;
"""


def example_cases():
    """The configurations of docs/examples, each with its requests."""
    for directory in sorted(EXAMPLES.glob("*/nginx.conf")):
        name = directory.parent.name
        if name not in SITES:
            continue
        host, files, requests = SITES[name]
        usual = {file: CONTENTS.get(file, TELL if file.endswith(".php") else f"content of {Path(file).name}\n") for file in files}
        text = re.sub(r"unix:/run/php/[a-z0-9.-]+\.sock", "unix:/run/php.sock", directory.read_text())
        text = re.sub(r"listen 80( default_server)?;", r"listen @PORT@\1;", text)
        yield Case(name, text, [example_request(request) for request in requests], host=host, files=usual, php=True, losses=LOSSES.get(name, []), is_loose=True)


def example_request(text):
    fields = re.findall(r"\{([^}]*)\}", text)
    text = re.sub(r" *\{[^}]*\}", "", text)
    method, target = text.split(" ", 1)
    if target.startswith("//"):
        host, _, rest = target[2:].partition("/")
        return f"{method} /{rest} | Host: {host}" + "".join(f" | {field}" for field in fields)
    return f"{method} {target}" + "".join(f" | {field}" for field in fields)


def directive_cases():
    """The configurations that prove the tables."""
    from directives.all import CASES as ROWS
    for row in ROWS:
        requests = [request.split(" ", 1)[1] for request in row.requests if isinstance(request, str)]
        if not requests:
            continue
        text = f"{row.http}\nserver {{ listen @PORT@ {row.listen}; server_name {row.name}.test *.{row.name}.test; {row.nginx} }}"
        text = text.replace("127.0.0.1:PORT", "@PORT@")
        yield Case(row.name, text, requests, host=f"{row.name}.test", files=row.files, php="php.sock" in text, fields=row.fields, is_loose=True, is_tls=" ssl" in f" {row.listen} ", body=row.body,
                   losses=LOSSES.get(row.name, []))


class Loss(str):
    """A difference of answers that a case with losses may have."""


class Side:
    """A running server."""

    def __init__(self, name, port, host, is_tls):
        self.name, self.port, self.host, self.is_tls = name, port, host, is_tls

    def ask(self, request):
        line, *more = [part.strip() for part in request.split(" | ")]
        method, target = line.split(" ", 1)
        body = next((part[5:] for part in more if part.startswith("body=")), "")
        port = self.port
        fields = [part for part in more if not part.startswith("body=")]
        if not any(part.lower().startswith("host:") for part in fields):
            fields.insert(0, f"Host: {self.host}")
        if body or method == "POST":
            fields.append(f"Content-Length: {len(body)}")
        head = "\r\n".join([f"{method} {target} HTTP/1.1", *fields, "Connection: close", "", ""])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            if self.is_tls:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                client = context.wrap_socket(client, server_hostname=self.host)
            client.sendall((head + body).encode())
            parts = []
            try:
                while part := client.recv(65536):
                    parts.append(part)
            except (ConnectionResetError, ssl.SSLError):
                pass
        return parse(b"".join(parts))


class Comparison:
    def __init__(self, tmp, howdah, importer):
        self.tmp, self.howdah, self.importer = tmp, howdah, importer
        self.backends = [Backend(), Backend()]
        # No server listens at the third address.
        self.addresses = [*(backend.port for backend in self.backends), free_port()]
        self.programs = Programs(tmp)
        self.socket = tmp / "php.sock"
        self.pool = fpm.pool(self.socket, "pm = static\npm.max_children = 6\ncatch_workers_output = yes")
        self.pool_file = tmp / "pool.conf"

    def start(self):
        (self.tmp / "srv").mkdir()
        make_certificate(self.tmp / "srv" / "tls")
        self.backends.append(Backend(self.tmp / "srv" / "tls"))
        self.addresses.append(self.backends[-1].port)
        (self.tmp / "srv/users").write_text("ann:$apr1$ca6gXBAM$xn0zHYElBGTGB/lIsmlE50\n")
        self.pool_file.write_text(self.pool)
        self.programs.start("php-fpm", fpm.command(self.tmp, self.pool))
        self.programs.wait_for("socket of PHP-FPM", self.socket.exists)

    def stop(self):
        self.programs.stop()

    def place(self, text, case, directory, port, second):
        for number, address in enumerate(self.addresses, 1):
            text = text.replace(f"10.0.0.{number}:8080", f"127.0.0.1:{address}")
        text = text.replace("@NUMBER@", str(port))
        # The file of users is that of all cases; files in a directory of this name are those of the case.
        text = re.sub(r"/srv/users(?!/)", f"{self.tmp}/users-of-all", text)
        return (text.replace("@TMP@", str(directory)).replace("@PORT@", f"127.0.0.1:{port}").replace("@PORT2@", f"127.0.0.1:{second}").replace("/srv/tls", f"{self.tmp}/tls-of-all")
                .replace("/var/log/", f"{directory}/log/").replace("/srv", f"{directory}/srv").replace("/run/php.sock", str(self.socket))
                .replace("-of-all", "").replace(f"{self.tmp}/tls", f"{self.tmp}/srv/tls").replace(f"{self.tmp}/users", f"{self.tmp}/srv/users")
                .replace("{directory}", str(directory)))

    def compare(self, case):
        """The differences of a case, with PHP-FPM's pool imported and without."""
        modes = [True, False] if case.php else [False]
        has_lost = False
        for has_pool in modes:
            suffix = "pool" if has_pool else "plain"
            directory = self.tmp / f"{case.name}-{suffix}"
            found = list(self.compare_once(case, has_pool, directory))
            lost = [difference for difference in found if isinstance(difference, Loss)] if case.losses else []
            if lost:
                has_lost = True
                found = [difference for difference in found if difference not in lost]
                found += losses_without_entry(case, json.loads((directory / "report.json").read_text()))
            for difference in found:
                yield f"({suffix}) {difference}"
        if case.losses and not has_lost:
            yield "nothing differs: remove it from LOSSES"

    def compare_once(self, case, has_pool, directory):
        (directory / "log").mkdir(parents=True)
        for name in ("fastcgi.conf", "fastcgi_params", "uwsgi_params", "scgi_params", "proxy_params", "snippets"):
            (directory / name).symlink_to(Path("/etc/nginx") / name)
        make_files(directory / "srv", FILES | case.files if not case.is_loose or case.name not in SITES else case.files)
        ports, seconds = [free_port(), free_port()], [free_port(), free_port()]
        text = self.place(case.text, case, directory, ports[0], seconds[0])
        programs = Programs(directory)
        main = nginx.configuration(directory, NGINX + text)
        report_file, document_file = directory / "report.json", directory / "howdah.json"
        try:
            command = nginx.command(directory, main)
            pools = ["--fpm", self.pool_file] if has_pool else []
            importer = [self.importer] if self.importer else [self.howdah, "import"]
            made = subprocess.run([str(part) for part in [*importer, "nginx", directory / "nginx.conf", *pools, "--output", document_file,
                                                          "--report", report_file]], capture_output=True, text=True)
            if made.returncode not in (0, 3):
                yield f"import ends with {made.returncode}: {made.stdout[-500:]}{made.stderr[-1500:]}"
                return
            report = json.loads(report_file.read_text())
            if not case.is_loose:
                yield from self.check_report(case, report, made.returncode)
            document = document_file.read_text()
            for one, other in (ports, seconds):
                document = document.replace(f"127.0.0.1:{one}", f"127.0.0.1:{other}").replace(f"*:{one}", f"*:{other}")
            document = document.replace(f"{directory}/log/", f"{directory}/log-howdah/")
            (directory / "log-howdah").mkdir()
            served = directory / "served.json"
            served.write_text(document)
            programs.start("nginx", command)
            (work := directory / "work").mkdir()
            work.chmod(0o777)
            programs.start("howdah", [self.howdah, "serve", "--config", served, "--no-control", "--log", directory / "howdah.log", "--tmp", work])
            programs.wait_for_ports(ports)
            sides = [Side(name, port, case.host, case.is_tls) for name, port in zip(("nginx", "Howdah"), ports)]
            for request in case.requests:
                yield from self.compare_request(case, sides, request)
            if case.log:
                lines = [lines_of(directory / name / case.log, len(case.requests)) for name in ("log", "log-howdah")]
                lines = [[line.replace(str(port), "PORT") for line in own] for own, port in zip(lines, ports)]
                # Threads of Howdah write lines of different connections in the order in which they come to it.
                if sorted(lines[0]) != sorted(lines[1]):
                    yield f"{case.log}\n      nginx:  {lines[0]}\n      Howdah: {lines[1]}"
        finally:
            programs.stop()

    def compare_request(self, case, sides, request):
        may_differ = request.startswith("~")
        request = request.removeprefix("~")
        answers = [side.ask(request) for side in sides]
        statuses = [answer[0] for answer in answers]
        if statuses[0] in (401, 403, 404, 405, 410, 0) and 200 <= statuses[1] < 300:
            yield f"{request}\n      OPEN: nginx {statuses[0]}, Howdah {statuses[1]}"
        if may_differ:
            return
        if statuses[0] != statuses[1]:
            yield Loss(f"{request}\n      nginx:  {shown(answers[0])}\n      Howdah: {shown(answers[1])}")
            return
        values = [comparable(side, answer, case) for side, answer in zip(sides, answers)]
        times = [kept.get("expires") for kept, _ in values]
        if None not in times and 0 < abs(seconds_of(times[0]) - seconds_of(times[1])) < 10:
            # The two requests are made one behind the other.
            values[1][0]["expires"] = times[0]
        if values[0] != values[1]:
            yield Loss(f"{request} ({statuses[0]})\n      nginx:  {values[0]}\n      Howdah: {values[1]}")

    def check_report(self, case, report, status):
        """Each directive that is changed or not converted is expected to be."""
        left = dict(USUAL) | case.report
        found = {}
        for entry in report:
            if entry["status"] in ("changed", "not converted"):
                key = next((key for key in left if entry["directive"].startswith(key)), None)
                if key is None or left[key] != entry["status"]:
                    yield f"report: {entry['line']} {entry['directive']}: {entry['status']} ({entry.get('reason')})"
                else:
                    found[key] = True
            if entry["status"] != "converted" and not entry.get("reason"):
                yield f"report: {entry['directive']} has no reason"
        for key in left:
            if key not in found and key not in USUAL:
                yield f"report: no \"{key}\" that is {left[key]}"
        lost = any(entry["status"] == "not converted" for entry in report)
        if status != (3 if lost else 0):
            yield f"status {status}"


def losses_without_entry(case, report):
    """The losses of a case that its report does not name."""
    named = [entry["directive"] for entry in report if entry["status"] in ("changed", "not converted")]
    for loss in case.losses:
        if not any(directive.startswith(loss) for directive in named):
            yield f"report: no \"{loss}\" that is changed or not converted"


def seconds_of(date):
    """Seconds since 1970; 0 for what is no date."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return 0


def lines_of(file, number):
    """The lines of a log without times; waits for as many."""
    end = time.monotonic() + PATIENCE
    while (not file.exists() or file.read_text().count("\n") < number) and time.monotonic() < end:
        time.sleep(0.05)
    text = file.read_text() if file.exists() else ""
    text = re.sub(r"\d\d/\w\w\w/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "TIME", text)
    return [re.sub(r"\b\d+\.\d{3}\b", "SECONDS", line) for line in text.splitlines()]


def shown(answer):
    status, fields, body = answer
    return f"{status} {fields.get('location', '')} {body[:120]}"


def comparable(side, answer, case):
    """The parts that must be the same, without the status."""
    status, fields, body = answer
    names = FIELDS + case.fields.lower().split()
    kept = {name: fields[name] for name in names if name in fields}
    if "location" in kept:  # nginx writes the whole URL.
        own = rf"^https?://({re.escape(side.host)}|127\.0\.0\.1)(:{side.port})?(?=/)"
        kept["location"] = re.sub(own, "", kept["location"])
    if "www-authenticate" in kept:
        kept["www-authenticate"] = kept["www-authenticate"].replace(', charset="UTF-8"', "")
    is_own_page = status >= 300 and OWN_PAGE.search(body)
    if is_own_page or not body:
        # Pages of the servers themselves differ in text.
        kept.pop("content-type", None)
        kept.pop("content-length", None)
    # The report of charset says that it gets one.
    if kept.get("content-type", "").startswith("text/css"):
        kept["content-type"] = "text/css"
    if status in (304, 416):
        kept.pop("last-modified", None)
    kept.pop("content-length", None)
    body = b"" if is_own_page or not case.body else body
    if body.startswith(b"File not found.") or body.startswith(b"Access denied."):
        return {}, b""
    return kept, body.replace(str(side.port).encode(), b"PORT")


def make_files(srv, files):
    for name, content in files.items():
        path = srv / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content[3:])
            continue
        path.write_text(content)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        path.chmod(0o644)


def needs():
    """The missing requirement; None if all are met."""
    return None if Path(nginx.PROGRAM).exists() and fpm.programs() else "nginx and php-fpm"
