"""Proves the rows of docs/coming-from-apache.md: the cases of apache_rows.py and apache_proxy_rows.py are answered by
Howdah as by Apache.

Each group of cases is one Apache and one Howdah, and each case a host of its own. Both get the same bytes. Status,
header fields, bodies, lines of access logs and the requests to servers behind the two are the same.
"""

import email.utils
import json
import os
import re
import socket
import time

from apache_proxy_rows import GROUPS, PROXY_CASES
from apache_rows import CASES as FILE_CASES
from apache_rows import FILES, LINKS
from peers import Programs, apache, free_port
from peers.processes import PATIENCE
from recorder import Recorder

LOG_PATIENCE = 10  # seconds for lines that wait to be written
FIELDS = ["content-type", "location", "cache-control", "expires", "last-modified", "content-range", "www-authenticate",
          "set-cookie", "retry-after"]

APACHE = """
Listen 127.0.0.1:{port}
LogFormat "%v:%p %h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" vhost_combined
LogFormat "%h %l %u %t \\"%r\\" %>s %B \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\"" combined
LogFormat "%h %l %u %t \\"%r\\" %>s %B" common
DocumentRoot {tmp}/srv
StartServers 2
<Directory />
    Require all denied
</Directory>
<Directory {tmp}/srv>
    Require all granted
    AllowOverride None
    Options FollowSymLinks
</Directory>
<IfModule mod_php.c>
    <FilesMatch "\\.php$">
        SetHandler application/x-httpd-php
    </FilesMatch>
</IfModule>
{own}
<VirtualHost *:{port}>
    ServerName none.test
    Redirect 404 /
</VirtualHost>
"""


class Response:
    """The parts of a response that are compared."""

    def __init__(self, data):
        self.whole = data
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else None
        self.fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.fields.setdefault(name.lower(), []).append(value.strip())
        if "chunked" in self.fields.get("transfer-encoding", []):
            body = unchunked(body)
        self.body = body.decode("utf-8", "replace")

    def comparable(self, case):
        kept = {name: values for name, values in self.fields.items() if name in FIELDS or name.startswith("x-")}
        kept.pop("x-powered-by", None)
        if "location" in kept:  # Apache writes the whole URL
            kept["location"] = [re.sub(rf"^http://{re.escape(case.name)}\.test(:\d+)?(?=/)", "", value) for value in kept["location"]]
        if "expires" in kept and "date" in self.fields:
            moments = [email.utils.parsedate_to_datetime(self.fields[name][0]) for name in ("expires", "date")]
            seconds = (moments[0] - moments[1]).total_seconds()
            if seconds < 10 * 365 * 86400:  # from now; otherwise from the time of the file, which does not change
                kept["expires"] = [str(round(seconds / 10))]
            kept["cache-control"] = [re.sub(r"max-age=(\d+)", lambda age: "max-age" if abs(int(age[1]) - seconds) < 5 else age[0], value)
                                     for value in kept.get("cache-control", [])]
        body = self.body
        if self.status and self.status >= 300 and re.search(r"(?i)^\s*<!doctype html", body):  # a page of the server itself
            kept.pop("content-type", None)
            body = ""
        if not body:
            kept.pop("content-type", None)
        if self.status != 200:  # of a page for an error, and not needed by a client that has the file
            kept.pop("last-modified", None)
        if self.status == 416:
            kept.pop("content-range", None)
        if "x-server" not in self.fields:
            kept["version"] = any("/" in value for value in self.fields.get("server", []))
        kept = {name: [value.lower().replace("; ", ";") for value in values] if name == "content-type" else values
                for name, values in kept.items()}
        return self.status, kept, body


def unchunked(body):
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size.split(b";")[0] or b"0", 16)
        if not length:
            break
        whole, body = whole + body[:length], body[length + 2:]
    return whole


def raw(request, host):
    """The bytes of a request."""
    head, _, body = request.partition(" || ")
    line, *fields = head.split(" | ")
    names = {field.split(":")[0].lower() for field in fields}
    fields = [field for field in fields if field != "Host:"]
    if "host" not in names:
        fields.insert(0, f"Host: {host}.test")
    if body and not names & {"transfer-encoding", "content-length"}:
        fields.append(f"Content-Length: {len(body)}")
    version = "" if line.count(" ") != 1 else " HTTP/1.1"
    return "\r\n".join([line + version, *fields, "Connection: close", "", body]).encode("latin-1")


def ask(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(data)
        answer = b""
        try:
            while part := client.recv(65536):
                answer += part
        except ConnectionResetError:
            pass  # of a body that was not read
        return Response(answer)


def make_tree(tmp):
    srv = tmp / "srv"
    for name, text in FILES.items():
        path = srv / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"content of {path.name}\n" if text is None else text)
    (srv / "conf/a.conf").write_text("Redirect 302 /included /elsewhere\n")
    (srv / "conf/steps.json").write_text(json.dumps(
        [{"match": {"uri": "/included"}, "action": {"return": 302, "location": "/elsewhere"}}]))
    (tmp / "outside.txt").write_text("outside\n")
    for path in [srv, *srv.rglob("*"), tmp / "outside.txt"]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    for name, (target, is_roots) in LINKS.items():
        (srv / name).symlink_to(target.replace("/@TMP@", str(tmp)))
        if not is_roots:
            os.chown(srv / name, 65534, 65534, follow_symlinks=False)


def document(group, cases, port):
    """One document with the steps of all cases."""
    document = {"listeners": {f"127.0.0.1:{port}": {"pass": "routes/all hosts"} | GROUPS[group].get("listener", {})},
                "routes": {"all hosts": []}, "applications": {}, "upstreams": {}, "settings": GROUPS[group].get("settings", {})}
    if "php" in GROUPS[group]["modules"].split():
        document["applications"]["site"] = {"type": "php", "root": "@SRV@", "user": "www-data"}
    for case in cases:
        own = dict(case.own)
        hosts = own.pop("host", f"{case.name}.test")
        document["routes"]["all hosts"].append({"match": {"host": hosts}, "action": {"pass": f"routes/{case.name}"}})
        document["routes"][case.name] = case.steps
        for section, members in own.items():
            document.setdefault(section, {}).update(members)
    return document | GROUPS[group].get("document", {})


def answer(port, case, request):
    """The compared parts of the responses to a request."""
    if request == "h2c":
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            return client.recv(9, socket.MSG_WAITALL)[3:4] == b"\x04", {}, ""  # its settings
    if times := re.match(r"(\d+) × (.*)", request):
        last = raw(times[2], case.name)
        response = ask(port, last.replace(b"Connection: close\r\n", b"") * (int(times[1]) - 1) + last)
        text = response.whole.decode("latin-1")
        return response.status, {name: text.count(f'"server": "{name}"') for name in ("one", "two")}, ""
    if request.startswith("session "):
        request = request.removeprefix("session ")
        response = ask(port, raw(request, case.name))
        cookie = response.fields["set-cookie"][0].split(";")[0]
        further = [ask(port, raw(f"{request} | Cookie: {cookie}", case.name)) for _ in range(6)]
        return response.status, {}, len({each.fields["x-server"][0] for each in [response, *further]})
    return ask(port, raw(request, case.name)).comparable(case)


def differences_of(case, ports):
    found = []
    for request in case.requests:
        answers = [answer(port, case, request) for port in ports]
        told = f"\n    Apache: {answers[0]}\n    Howdah: {answers[1]}"
        if request in case.but:
            if tuple(answer[0] for answer in answers) != case.but[request][:2]:
                found.append(f"{request}: not the listed difference{told}")
        elif answers[0] != answers[1]:
            found.append(request + told)
    return found


def lines_of(path):
    """The lines of a log in an order of their own, because threads write at different times; without what the two have
    to differ in: times, ports, the size of pages of the server itself and of heads, and the form of quotation marks."""
    text = path.read_text(errors="replace") if path.exists() else ""
    lines = [re.sub(r"\[\d\d/\w{3}/\d{4}[^]]*\]", "[TIME]", line) for line in text.splitlines()]
    lines = [re.sub(r"(?<=\" 404) \d+", " SIZE", line).replace('\\"', "\\x22") for line in lines]
    if path.name == "vhost.log":
        lines = [re.sub(r"(?<=\" \d{3}) (\d+|SIZE)", " SIZE", re.sub(r"^(\S+):\d+", r"\1:PORT", line)) for line in lines]
    return sorted(line for line in lines if path.name != "document.log" or "/logged" in line)


def log_differences(case, tmp):
    found = []
    for name in case.logs:
        paths = [tmp / "apache" / name, tmp / "howdah" / name]
        wait_for_lines(lambda: len(lines_of(paths[0])) == len(lines_of(paths[1])))
        lines = [lines_of(path) for path in paths]
        if lines[0] != lines[1] or not lines[0]:
            lines = ["\n        ".join(each) for each in lines]
            found.append(f"{name}\n    Apache:\n        {lines[0]}\n    Howdah:\n        {lines[1]}")
    for server in ("apache", "howdah") if case.told else ():
        path = tmp / server / f"{case.group}.error"
        if not wait_for_lines(lambda: case.told in path.read_text(errors="replace")):
            found.append(f"the log of {server} has no {case.told!r}")
    return found


def wait_for_lines(condition):
    end = time.monotonic() + LOG_PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Comparison:
    threads = 1

    def __init__(self, tmp, howdah, cases):
        self.tmp, self.howdah, self.cases = tmp, howdah, cases
        for name in ("apache", "howdah", "run"):
            (tmp / name).mkdir()
        make_tree(tmp)
        self.recorders = [Recorder("one"), Recorder("two")]
        self.programs, self.dead = Programs(tmp), free_port()
        self.ports = {group: (free_port(), free_port()) for group in GROUPS if any(case.group == group for case in cases)}

    def start(self):
        for group, ports in self.ports.items():
            members = [case for case in self.cases if case.group == group]
            self.start_apache(group, members, ports[0])
            self.start_howdah(group, members, ports[1])
        self.programs.wait_for_ports([port for pair in self.ports.values() for port in pair])

    def place(self, text, group):
        """A text with the places of this comparison."""
        one, two = (recorder.address for recorder in self.recorders)
        for name, value in {"SRV": self.tmp / "srv", "TMP": self.tmp, "ONE": one, "TWO": two,
                            "DEAD": f"127.0.0.1:{self.dead}", "PORT": self.ports[group][0]}.items():
            text = text.replace(f"@{name}@", str(value))
        return text

    def start_apache(self, group, cases, port):
        own = GROUPS[group]
        text = APACHE.format(tmp=self.tmp, port=port, own=self.place(own["apache"], group))
        for case in cases:
            text += f"<VirtualHost *:{port}>\nServerName {case.name}.test\n{self.place(case.apache, group)}\n</VirtualHost>\n"
        text = apache.configuration(self.tmp / "run", own["modules"].split(), text, root=self.tmp, server="nothing.test",
                                    errors=self.tmp / f"apache/{group}.error", name=group)
        self.programs.start(f"apache-{group}", apache.command(self.tmp / "run", text, group))

    def start_howdah(self, group, cases, port):
        file, work = self.tmp / f"{group}.json", self.tmp / f"work-{group}"
        file.write_text(self.place(json.dumps(document(group, cases, port), indent=1), group))
        work.mkdir()
        work.chmod(0o777)
        self.programs.start(f"howdah-{group}", [
            self.howdah, "serve", "--config", file, "--no-control", "--log", self.tmp / f"howdah/{group}.error", "--tmp", work,
            "--pid", self.tmp / f"run/howdah-{group}.pid"])

    def compare(self, case):
        """The differences of a case."""
        return differences_of(case, self.ports[case.group])

    def compare_afterwards(self, case):
        """The differences of the logs, which have lines of all cases."""
        return log_differences(case, self.tmp)

    def compare_processes(self):
        """The files with process ids name the processes that were started."""
        ids = {process.pid for process in self.programs.running}
        files = sorted((self.tmp / "run").glob("*.pid"))
        wrong = [path.name for path in files if int(path.read_text()) not in ids]
        return [f"{name}: another process" for name in wrong] + ([] if len(files) == len(ids) else ["a pid file is missing"])

    def stop(self):
        self.programs.stop()
        for recorder in self.recorders:
            recorder.stop()


CASES = FILE_CASES + PROXY_CASES


def needs():
    """The missing requirement; None if all are met."""
    return None if apache.has_php() else "Apache with mod_php"
