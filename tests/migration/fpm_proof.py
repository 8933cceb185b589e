"""Proves the rows of docs/coming-from-php-fpm.md: the pools and applications of fpm_rows.py do the same.

Each case is a pool of PHP-FPM and an application of Howdah, and the observation of both must be the value that the case
names. PHP-FPM is asked by FastCGI, without a web server, Howdah by HTTP.
"""

import http.client
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import fastcgi_client
from fpm_rows import CASES, FILES, GROUPS, Differs
from peers import Process, accepts, fpm, free_port, user_id, wait_for
from peers.processes import PATIENCE, title_of, tree

ENVIRONMENT = {"FROM_OUTSIDE": "1", "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}


class Server:
    """A running PHP-FPM or Howdah, with the pools or applications of a group."""

    def __init__(self, name, group, tmp, command):
        self.name, self.group, self.tmp = name, group, tmp
        self.pid_file = tmp / "run" / f"{name}-{group}.pid"
        self.log_file = tmp / f"{name}-{group}.log"
        self.child = self.pid = None
        output = tmp / f"{name}-{group}.out"
        if GROUPS[group].background:
            with open(output, "wb") as log:
                subprocess.run(command, check=True, timeout=PATIENCE, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
        else:
            self.child = Process(name, ["setpriv", "--pdeathsig", "TERM", *command], output, only=ENVIRONMENT)
        wait_for(f"file with the process id of {name} ({group})", lambda: self.has_ended() or self.written_pid())
        self.pid = self.written_pid()
        if not self.pid or self.child and self.pid != self.child.pid:
            raise OSError(f"{self.pid_file} has {self.pid} in place of the server's process")

    def written_pid(self):
        text = self.pid_file.read_text().strip() if self.pid_file.exists() else ""
        return int(text) if text.isdigit() else None

    def has_ended(self):
        if self.child:
            return not self.child.alive()
        return self.pid is not None and not Path(f"/proc/{self.pid}").exists()

    def processes(self, name):
        """The ids of the processes that run the scripts of a pool or application."""
        titles = (f"php-fpm: pool {name}", f'howdah: "{name}" application')
        return [pid for pid in tree(self.pid) if title_of(pid) in titles]

    def signal(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def wait(self):
        end = time.monotonic() + PATIENCE
        while not self.has_ended() and time.monotonic() < end:
            time.sleep(0.02)
        return self.has_ended()

    def stop(self):
        self.signal(signal.SIGTERM)
        if not self.wait():
            self.signal(signal.SIGKILL)


class Side:
    """A pool or an application, as a case sees it."""

    def __init__(self, server, case, address, own_address):
        self.server, self.case, self.address, self.own_address = server, case, address, own_address
        self.tmp, self.name, self.is_fpm = server.tmp, server.name, server.name == "fpm"
        self.user_id = user_id()

    def ask(self, request, own=False, source=None):
        """Status, fields, body and messages of a response; 502 without a complete one."""
        address = self.own_address if own else self.address
        if self.is_fpm:
            return fastcgi_client.ask(address, self.params(request), source=source)
        client = http.client.HTTPConnection("127.0.0.1", address, timeout=PATIENCE, source_address=source and (source, 0))
        try:
            client.request("GET", request, headers={"Host": f"{self.case.name}.test", "User-Agent": "proof", "Connection": "close"})
            response = client.getresponse()
            return response.status, dict(response.getheaders()), response.read(), b""
        except (http.client.HTTPException, ConnectionError):
            return 502, {}, b"", b""
        finally:
            client.close()

    def params(self, request):
        path, _, query = request.partition("?")
        root = "/site" if self.case.inside else f"{self.tmp}/srv"
        return {"SCRIPT_FILENAME": root + path, "SCRIPT_NAME": path, "REQUEST_URI": request, "QUERY_STRING": query,
                "REQUEST_METHOD": "GET", "DOCUMENT_ROOT": root, "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
                "HTTP_HOST": f"{self.case.name}.test", "HTTP_USER_AGENT": "proof", "REDIRECT_STATUS": "200"}

    def processes(self):
        return self.server.processes(self.case.name)

    def log(self):
        return self.server.log_file.read_text(errors="replace") if self.server.log_file.exists() else ""

    def read(self, path):
        file = Path(place(path, self.tmp, self.name))
        return file.read_text(errors="replace") if file.exists() else ""

    def quit(self):
        self.server.signal(signal.SIGQUIT)
        self.server.wait()


def place(text, tmp, name):
    """A text with the places of this comparison."""
    return re.sub(r"(?<![\w/])/(srv|log|run)/", lambda found: f"{tmp}/{found[1]}{'-' + name if found[1] == 'log' else ''}/", text)


class Comparison:
    # Most of the time is spent in waiting.
    threads = 4

    def __init__(self, tmp, howdah, cases):
        self.tmp, self.howdah, self.cases = tmp, howdah, cases
        make_tree(tmp)
        self.fpm = fpm.programs()[-1]
        self.servers, self.ports = {}, {}
        self.tcp_ports = {case.name: free_port() for case in cases if case.tcp}
        self.listeners = {case.name: free_port() for case in cases if case.listener}

    def start(self):
        for group in sorted({case.group for case in self.cases}):
            members = [case for case in self.cases if case.group == group]
            self.ports[group] = free_port()
            self.servers["fpm", group] = Server("fpm", group, self.tmp, self.start_fpm(group, members))
            self.servers["howdah", group] = Server("howdah", group, self.tmp, self.start_howdah(group, members))
        for case in self.cases:
            sides = self.sides(case)
            wait_for(f"the pool {case.name}", lambda: case.tcp or Path(sides[0].address).exists() or sides[0].server.has_ended())
            wait_for("Howdah", lambda: sides[1].server.has_ended() or accepts(sides[1].address))

    def start_fpm(self, group, members):
        directory = self.tmp / f"pools-{group}"
        directory.mkdir()
        for case in members:
            listen = f"127.0.0.1:{self.tcp_ports[case.name]}" if case.tcp else f"/run/{case.name}.sock"
            own = "" if re.search(r"^user =", case.pool, re.MULTILINE) else "user = www-data\ngroup = www-data\n"
            text = f"[{case.name}]\n{own}listen = {listen}\n{case.pool}\n"
            (directory / f"{case.name}.conf").write_text(place(text, self.tmp, "fpm"))
        file = self.tmp / f"fpm-{group}.conf"
        is_background = GROUPS[group].background
        file.write_text(f"[global]\npid = {self.tmp}/run/fpm-{group}.pid\nerror_log = {self.tmp}/fpm-{group}.log\n"
                        f"daemonize = {'yes' if is_background else 'no'}\n{GROUPS[group].globals}\n"
                        f"include = {directory}/*.conf\n")
        return [str(self.fpm), "-y", str(file)]

    def start_howdah(self, group, members):
        directory = self.tmp / f"applications-{group}"
        directory.mkdir()
        hosts, routes = [], {}
        listeners = {f"127.0.0.1:{self.ports[group]}": {"pass": "routes/hosts"}}
        for case in members:
            application = {"type": "php", "root": "/srv/."} | case.application
            if (settings := self.settings()) and "rootfs" not in application.get("isolation", {}):
                application["options"] = {"file": settings} | application.get("options", {})
            text = json.dumps({case.name: application})
            (directory / f"{case.name}.json").write_text(place(text, self.tmp, "howdah").replace("/srv/.", "/srv"))
            routes[case.name] = case.routes or [{"action": {"pass": f"applications/{case.name}"}}]
            routes |= case.further
            hosts.append({"match": {"host": f"{case.name}.test"}, "action": {"pass": f"routes/{case.name}"}})
            if case.listener:
                listeners[f"127.0.0.1:{self.listeners[case.name]}"] = {"pass": f"routes/{case.listener}"}
        document = GROUPS[group].document | {"listeners": listeners, "routes": routes | {"hosts": hosts},
                                             "applications": {"include": f"{directory.name}/*.json"}}
        file, work = self.tmp / f"howdah-{group}.json", self.tmp / f"work-{group}"
        file.write_text(json.dumps(document, indent=1))
        work.mkdir()
        work.chmod(0o777)
        return [str(self.howdah), "serve", "--config", str(file), "--no-control", "--tmp", str(work),
                "--log", str(self.tmp / f"howdah-{group}.log"), "--pid", str(self.tmp / "run" / f"howdah-{group}.pid"),
                *(["--daemon"] if GROUPS[group].background else [])]

    def settings(self):
        """The `php.ini` of PHP-FPM, for both."""
        version = re.search(r"[\d.]+$", self.fpm.name)
        file = Path("/etc/php") / (version[0] if version else "") / "fpm/php.ini"
        return str(file) if file.exists() else None

    def sides(self, case):
        tcp = ("127.0.0.1", self.tcp_ports[case.name]) if case.tcp else f"{self.tmp}/run/{case.name}.sock"
        return [Side(self.servers["fpm", case.group], case, tcp, f"{self.tmp}/run/own-status.sock"),
                Side(self.servers["howdah", case.group], case, self.ports[case.group], self.listeners.get(case.name))]

    def compare(self, case):
        for observe, expected in case.observed:
            for side in self.sides(case):
                found = json.loads(json.dumps(observe(side)))
                wanted = getattr(expected, side.name) if isinstance(expected, Differs) else expected
                if found != json.loads(json.dumps(wanted)):
                    yield f"{observe.__name__}: {side.name}: {found}, expected: {wanted}"

    def stop(self):
        for server in self.servers.values():
            server.stop()


def make_tree(tmp):
    for name in ("srv/other", "srv/inside/site", "run", "log-fpm", "log-howdah"):
        (tmp / name).mkdir(parents=True)
    for name in ("run", "log-howdah"):  # Applications open their own files.
        (tmp / name).chmod(0o777)
    for directory in ("srv", "srv/inside/site"):
        for name, text in FILES.items():
            (tmp / directory / name).write_text(text)
    (tmp / "srv/inside/inside.txt").write_text("inside\n")


def needs():
    """The missing requirement; None if all are met."""
    return None if fpm.programs() else "php-fpm"
