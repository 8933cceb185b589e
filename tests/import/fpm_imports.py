"""Pools of PHP-FPM, asked by FastCGI, beside the applications that are imported from them.

A case is a file in `fpm`. Each of its directives has its status in the report behind it, as a comment. Comments at its
beginning are requests:

    ;> PATH                 both respond the same
    ;# PATH                 both respond with the same status and kind of content
    ;! PATH STATUS STATUS   the statuses of PHP-FPM and of Howdah

`@tmp@` stands for the directory of the comparison, which has scripts in `srv`, and `@port@` for a free port.
"""

import http.client
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import fastcgi_client
import imported
from peers import Process, accepts, fpm, free_port, wait_for

DIRECTORY = Path(__file__).resolve().parent
COMPARED = ("content-type", "x-powered-by", "location", "cache-control")


@dataclass
class Case:
    name: str
    text: str

    def requests(self):
        """[(how they are compared, path, statuses)]"""
        found = re.findall(r"^;([>#!]) (\S+)(?: (\d+) (\d+))?$", self.text, re.MULTILINE)
        return [(how, path, [int(status) for status in statuses if status]) for how, path, *statuses in found]


def cases():
    return [Case(path.stem, path.read_text()) for path in sorted((DIRECTORY / "fpm").glob("*.conf"))]


def needs():
    """The missing requirement; None if all are met."""
    return None if fpm.programs() else "php-fpm"


def run(arguments):
    return imported.compare("fpm", sys.modules[__name__], arguments)


class Comparison:
    def __init__(self, tmp, arguments, cases):
        self.tmp, self.arguments, self.howdah, self.cases = tmp, arguments, arguments.howdah, cases
        self.imports, self.listeners, self.processes = {}, {}, []
        shutil.copytree(DIRECTORY / "scripts", tmp / "srv")
        shutil.copytree(DIRECTORY / "scripts", tmp / "jail/srv")
        for name in ("run", "log", "work"):
            (tmp / name).mkdir()
            (tmp / name).chmod(0o777)
        for path in [*(tmp / "srv").rglob("*"), *(tmp / "jail").rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def start(self):
        document = {"listeners": {}, "routes": {}, "applications": {}}
        for case in self.cases:
            directory = self.tmp / "cases" / case.name
            directory.mkdir(parents=True)
            file = directory / f"{case.name}.conf"
            file.write_text(case.text.replace("@tmp@", str(self.tmp)).replace("@port@", str(free_port())))
            self.imports[case.name] = result = imported.run(self.arguments, "php-fpm", [file], directory)
            if not case.requests():
                continue
            self.start_fpm(directory, file)
            application = result[1]["applications"][case.name]
            application["root"] = "/srv" if "isolation" in application else f"{self.tmp}/srv"
            document["applications"][case.name] = application
            document["routes"][case.name] = result[1]["routes"][case.name]
            self.listeners[case.name] = port = free_port()
            document["listeners"][f"127.0.0.1:{port}"] = {"pass": f"routes/{case.name}"}
        file = self.tmp / "howdah.json"
        file.write_text(json.dumps(document, indent=1))
        command = [self.howdah, "serve", "--config", file, "--no-control", "--tmp", self.tmp / "work"]
        self.processes.append(Process("howdah", list(map(str, command)), self.tmp / "howdah.log"))
        for port in self.listeners.values():
            wait_for("Howdah", lambda: not self.processes[-1].alive() or accepts(port))

    def start_fpm(self, directory, file):
        main = directory / "fpm.conf"
        main.write_text(f"[global]\ndaemonize = no\nerror_log = {self.tmp}/log/fpm.log\ninclude = {file}\n")
        program = str(fpm.programs()[-1])
        done = subprocess.run([program, "-t", "-y", str(main)], capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{file.name}: {done.stderr}")
        process = Process("php-fpm", [program, "-y", str(main)], self.tmp / "log/fpm.out")
        self.processes.append(process)
        address = self.address(directory.name)
        wait_for("php-fpm", lambda: not process.alive() or (
            Path(address).exists() if isinstance(address, str) else accepts(address[1])))

    def address(self, name):
        """The address of a pool."""
        text = (self.tmp / "cases" / name / f"{name}.conf").read_text()
        listen = re.search(r"^listen *= *\"?([^\s;\"]+)", text, re.MULTILINE)[1].replace("$pool", name)
        return ("127.0.0.1", int(listen.rpartition(":")[2])) if not listen.startswith("/") else listen

    def compare(self, case):
        directory = self.tmp / "cases" / case.name
        status, document, report, messages = self.imports[case.name]
        if document is None:
            yield f"not imported: {messages}"
            return
        expected = imported.expected_lines(case.text, ";")
        yield from imported.wrong_lines(report, directory / f"{case.name}.conf", expected)
        wanted = 3 if any("not converted" in statuses for statuses in expected.values()) else 0
        if status != wanted:
            yield f"exit status {status}, expected: {wanted}"
        if problem := imported.is_accepted(self.howdah, directory):
            yield f"the document is refused: {problem}"
        for how, path, statuses in case.requests():
            answers = self.ask_fpm(case.name, path), self.ask_howdah(case.name, path)
            if how == "!":
                found = [answer[0] for answer in answers]
                if found != statuses:
                    yield f"{path}: {found}, expected: {statuses}"
                continue
            shown = [self.comparable(answer, how) for answer in answers]
            if shown[0] != shown[1]:
                yield f"{path}:\n  php-fpm {shown[0]}\n  howdah  {shown[1]}"

    @staticmethod
    def comparable(answer, how):
        status, fields, body = answer
        if status >= 300:
            # Pages of the servers themselves.
            return status, {}, b""
        kept = {name: fields[name].lower().replace("; ", ";") for name in COMPARED if name in fields}
        if how == "#":
            return status, kept.get("content-type", "").split(";")[0]
        return status, kept, body

    def ask_fpm(self, name, request):
        path, _, query = request.partition("?")
        text = (self.tmp / "cases" / name / f"{name}.conf").read_text()
        root = "/srv" if re.search(r"^chroot", text, re.MULTILINE) else f"{self.tmp}/srv"
        params = {"SCRIPT_FILENAME": root + path, "SCRIPT_NAME": path, "REQUEST_URI": request, "QUERY_STRING": query,
                  "REQUEST_METHOD": "GET", "DOCUMENT_ROOT": root, "SERVER_PROTOCOL": "HTTP/1.1",
                  "REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "site.test", "REDIRECT_STATUS": "200"}
        return fastcgi_client.ask(self.address(name), params)[:3]

    def ask_howdah(self, name, request):
        client = http.client.HTTPConnection("127.0.0.1", self.listeners[name], timeout=60)
        try:
            client.request("GET", request, headers={"Host": "site.test", "Connection": "close"})
            response = client.getresponse()
            return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
        except (http.client.HTTPException, ConnectionError):
            return 502, {}, b""
        finally:
            client.close()

    def stop(self):
        for process in self.processes:
            process.stop()
