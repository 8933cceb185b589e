#!/usr/bin/env python3
"""Changes files of some sites at random, reloads the server and kills processes, while clients ask for other sites.

usage: tests/tools/random_changes.py HOWDAH [--seconds N] [--seed N] [--keep]

Half of the sites are left alone: each of their requests must be answered with the right content. The files of the
other half (scripts, directories, `.htaccess`, php.ini, certificates, included parts of the document) are created, cut,
replaced by links and FIFOs, given other modes and owners, and filled with wrong content; so is the document. Their
processes are killed and stopped, and so are processes of the server that are there for all sites. In the end the
included parts are restored and the document is read again; then all other files are restored, and each site must answer
again without another reload.

A request on a connection that is open when the router is killed is lost with it, and is sent again once, as one on a
connection that was kept. It fails if it is not answered then.

HOWDAH is a built program with its howdah-php beside it. Takes root and openssl. Prints figures and the seed, and exits
with 1 if a request for an untouched site has failed, or a site has not recovered.
"""

import argparse
import atexit
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
sys.dont_write_bytecode = True

from peers import free_port  # noqa: E402
from upgrades import children, descriptors, end  # noqa: E402 - it sits beside this file

KINDS = ("classic", "htaccess", "worker", "settings")
# Existing users without files of their own.
USERS = ("www-data", "nobody", "daemon")
# Titles of the processes that are there for all sites, without the router.
SHARED = re.compile("howdah: (control|files|tables|mail|PHP .* zygote)")
MIN_SECONDS_BETWEEN_ROUTERS = 20
RECOVERY_SECONDS = 30

WORKER = """<?php
while (frankenphp_handle_request(function () { echo '%s from a worker'; }));
"""


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("howdah", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--keep", action="store_true", help="keep the files and the log")
    options = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("the sites have users of their own: run it as root")
    if not shutil.which("openssl"):
        parser.error("openssl is missing; install it")
    return options


class Site:
    """A site with its files, its part of the document and its certificate."""

    def __init__(self, place, name, kind, number):
        self.name, self.kind, self.user = name, kind, USERS[number % len(USERS)]
        self.host = f"{name}.example"
        self.place = place / "sites" / name
        self.root = self.place / "www"
        self.part = place / "conf.d" / f"{name}.json"
        self.certificate = place / "certificates" / name

    def answers(self):
        """Returns the paths of the site with the content of each."""
        pages = {"/a.txt": f"{self.name} has a file", "/index.php": f"{self.name} runs a script"}
        if self.kind == "worker":
            pages["/index.php"] = f"{self.name} from a worker"
        if self.kind == "htaccess":
            pages["/rewritten"] = pages["/index.php"]
        return pages

    def restore(self):
        """Writes every file of the site, and replaces any other content."""
        if self.place.is_symlink() or self.place.is_file():
            self.place.unlink()
        self.place.mkdir(mode=0o755, parents=True, exist_ok=True)
        self.place.chmod(0o755)
        if self.root.is_symlink() or self.root.exists() and not self.root.is_dir():
            self.root.unlink()
        self.root.mkdir(exist_ok=True)
        self.root.chmod(0o755)
        shutil.chown(self.root, self.user)
        for path, content in self.files().items():
            replace(path, content)
        for path in (self.root / "a.txt", self.root / "index.php"):
            shutil.chown(path, self.user)

    def files(self):
        pages = self.answers()
        script = f"<?php echo '{pages['/index.php']}';"
        if self.kind == "worker":
            script = WORKER % self.name
        found = {
            self.root / "a.txt": pages["/a.txt"],
            self.root / "index.php": script,
            self.part: json.dumps(self.document()),
            self.certificate / "chain.pem": (self.certificate / "chain.good").read_text(),
            self.certificate / "key.pem": (self.certificate / "key.good").read_text(),
        }
        if self.kind == "htaccess":
            found[self.root / ".htaccess"] = "RewriteEngine on\nRewriteRule ^rewritten$ index.php\n"
        if self.kind == "settings":
            found[self.place / "php.ini"] = "memory_limit = 64M\n"
        return found

    def document(self):
        application = {"type": "php", "root": str(self.root), "user": self.user,
                       "processes": {"max": 2, "spare": 1, "idle_timeout": 5}}
        if self.kind == "worker":
            application |= {"script": "index.php", "worker": {"script": "index.php"}}
        if self.kind == "settings":
            application["options"] = {"file": str(self.place / "php.ini")}
        share = {"share": f"{self.root}$uri"}
        if self.kind == "worker":
            share |= {"types": ["!application/x-httpd-php"], "fallback": {"pass": f"applications/{self.name}"}}
        else:
            share["scripts"] = f"applications/{self.name}"
        if self.kind == "htaccess":
            share["htaccess"] = True
        return {"routes": {self.host: [{"action": share}]}, "applications": {self.name: application}}

    def make_certificate(self):
        self.certificate.mkdir(parents=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", f"/CN={self.host}", "-addext",
                        f"subjectAltName=DNS:{self.host}", "-keyout", self.certificate / "key.good", "-out",
                        self.certificate / "chain.good"], check=True, capture_output=True)


def replace(path, content):
    """Puts a file with this content at `path`, as an editor does: in one step."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(content)
    temporary.chmod(0o644)
    temporary.replace(path)


class Chaos:
    """The random changes. Each method of CHANGES takes a site and describes its change."""

    def __init__(self, chance, server, program, document, environment):
        self.chance, self.server, self.program, self.environment = chance, server, program, environment
        self.document = document
        self.stopped = []
        self.reloads = {"accepted": 0, "refused": 0}
        self.kills = {"sites": 0, "shared": 0, "router": 0}
        # The time of the last signal for the router.
        self.router_killed = 0.0

    def some_file(self, site):
        files = [path for path in site.files() if path.is_symlink() or path.is_file()]
        return self.chance.choice(files) if files else site.part

    def cut(self, site):
        path = self.some_file(site)
        if path.is_file():
            os.truncate(path, self.chance.randrange(1 + path.stat().st_size))
        return f"cut {path}"

    def spoil(self, site):
        path = self.some_file(site)
        garbage = self.chance.choice([b"", b"{", b"<?php function (", b"\0\xff" * 900, b"Require group x\n" * 99,
                                      b'{"applications": {"x": {"type": "php", "rot": "/"}}}', b"memory_limit = ${",
                                      b"RewriteRule ( x\n", b"-----BEGIN CERTIFICATE-----\n", b"[]", b"null"])
        if path.parent.is_dir() and not path.is_dir():
            path.unlink(missing_ok=True)
            path.write_bytes(garbage)
        return f"spoil {path} with {garbage[:20]!r}"

    def remove(self, site):
        path = self.some_file(site)
        if not path.is_dir():
            path.unlink(missing_ok=True)
        return f"remove {path}"

    def link(self, site):
        path = self.some_file(site)
        target = self.chance.choice(["/nonexistent", "/etc/shadow", "/", str(path), "/dev/zero", "/proc/self/mem"])
        if path.parent.is_dir() and not path.is_dir():
            path.unlink(missing_ok=True)
            path.symlink_to(target)
        return f"link {path} to {target}"

    def special(self, site):
        path = self.some_file(site)
        if path.parent.is_dir() and not path.is_dir():
            path.unlink(missing_ok=True)
            self.chance.choice([os.mkfifo, os.mkdir])(path)
        return f"a FIFO or directory at {path}"

    def mode(self, site):
        path = self.chance.choice([self.some_file(site), site.root, site.place])
        if path.exists() and not path.is_symlink():
            path.chmod(self.chance.choice([0, 0o400, 0o600, 0o700, 0o755, 0o4777]))
        return f"chmod {path}"

    def owner(self, site):
        path = self.chance.choice([self.some_file(site), site.root])
        if path.exists() and not path.is_symlink():
            shutil.chown(path, self.chance.choice(["root", *USERS]))
        return f"chown {path}"

    def lose(self, site):
        if site.root.is_dir() and not site.root.is_symlink():
            shutil.rmtree(site.root)
        return f"remove {site.root}"

    def mend(self, site):
        site.restore()
        return f"mend {site.name}"

    def user(self, site):
        document = site.document()
        document["applications"][site.name]["user"] = "no-such-user"
        if not site.part.is_dir():
            replace(site.part, json.dumps(document))
        return f"an unknown user for {site.name}"

    def kill(self, site):
        titles = children(self.server()).items()
        mine = [pid for pid, title in titles if f'"{site.name}"' in title]
        if not mine:
            return f"no process of {site.name} to kill"
        return self.signal("sites", self.chance.choice(mine), site.name, [
            signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGSTOP, signal.SIGUSR1])

    def kill_shared(self, _):
        found = [(pid, title) for pid, title in children(self.server()).items() if SHARED.search(title)]
        if not found:
            return "no shared process to kill"
        pid, title = self.chance.choice(found)
        # A stopped control process cannot reload, so no change would follow.
        stop = [] if "control" in title else [signal.SIGSTOP]
        return self.signal("shared", pid, title, [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, *stop])

    def kill_router(self, _):
        routers = [(pid, title) for pid, title in children(self.server()).items() if "router" in title]
        if not routers or time.monotonic() < self.router_killed + MIN_SECONDS_BETWEEN_ROUTERS:
            return "the router is left alone"
        self.router_killed = time.monotonic()
        return self.signal("router", *self.chance.choice(routers), [signal.SIGKILL, signal.SIGSEGV])

    def signal(self, kind, pid, name, numbers):
        number = self.chance.choice(numbers)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return f"process {pid} of {name} has gone"
        self.kills[kind] += 1
        if number == signal.SIGSTOP:
            self.stopped.append(pid)
        return f"signal {number} for {pid} of {name}"

    def resume(self):
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.stopped.clear()

    def reload(self, _):
        if self.chance.random() < 0.5:
            os.kill(self.server(), signal.SIGHUP)
            return "SIGHUP"
        return self.command("reload")

    def command(self, name):
        result = subprocess.run([self.program, name], env=self.environment, capture_output=True, text=True,
                                check=False, timeout=180)
        self.reloads["refused" if result.returncode else "accepted"] += 1
        return f"{name}: {result.returncode} {result.stderr.strip()[:200]}"

    def spoil_document(self, _):
        """Reloads with a document that cannot be used, and puts the right one back."""
        right = self.document.read_text()
        self.document.write_text(self.chance.choice(["", "{", "[]", '{"listeners": {"x": 1}}', right[:len(right) // 2]]))
        try:
            return f"a wrong document; {self.reload(None)}"
        finally:
            replace(self.document, right)

    CHANGES = (cut, spoil, spoil, remove, link, special, mode, owner, lose, user, mend, mend, kill, kill, reload,
               reload, kill_shared, kill_router, spoil_document)

    def step(self, sites):
        change, site = self.chance.choice(self.CHANGES), self.chance.choice(sites)
        if self.chance.random() < 0.1:
            self.resume()
        try:
            return change(self, site)
        except OSError as error:
            return f"{change.__name__} of {site.name}: {error}"


class History:
    """The changes in their order, which are also written to a file as they happen."""

    def __init__(self, path):
        self.lines, self.file = [], path.open("w", buffering=1)

    def append(self, text):
        self.lines.append(f"{time.strftime('%H:%M:%S')} {text}")
        try:
            self.file.write(self.lines[-1] + "\n")
        except OSError:
            pass  # a full disk, which the server must survive as well


class Visitor(threading.Thread):
    """Asks for the pages of one site until it is told to end. `failures` has the failures."""

    def __init__(self, site, plain, secure, chaos, ended):
        super().__init__()
        self.site, self.plain, self.secure, self.chaos, self.ended = site, plain, secure, chaos, ended
        self.requests = self.repeated = self.lost = 0
        self.slowest = 0.0
        self.failures = []

    def connect(self, secure):
        if not secure:
            return http.client.HTTPConnection("127.0.0.1", self.plain, timeout=30)
        context = ssl.create_default_context(cafile=self.site.certificate / "chain.good")
        connection = http.client.HTTPSConnection(self.site.host, self.secure, timeout=30, context=context)
        connection._create_connection = lambda _, *rest: socket.create_connection(("127.0.0.1", self.secure), *rest)
        return connection

    def run(self):
        pages = list(self.site.answers().items())
        kept = {}
        number = 0
        while not self.ended.is_set():
            path, content = pages[number % len(pages)]
            secure, keep = number // 2 % 2 == 1, number // 4 % 2 == 1
            number += 1
            begun = time.monotonic()
            try:
                connection = kept.pop(secure, None) if keep else None
                was_kept = connection is not None
                connection = connection or self.connect(secure)
                try:
                    status, body = self.ask(connection, path)
                except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError, ssl.SSLEOFError):
                    # A kept connection may be closed at any time (RFC 9112, 9.5); a new one may not.
                    if self.chaos.router_killed >= begun:
                        self.lost += 1
                    elif was_kept:
                        self.repeated += 1
                    else:
                        raise
                    connection = self.connect(secure)
                    status, body = self.ask(connection, path)
                if keep:
                    kept[secure] = connection
                else:
                    connection.close()
                if (status, body) != (200, content):
                    self.fail(f"{path}: {status} {body[:60]!r}")
            except (OSError, http.client.HTTPException) as error:
                self.fail(f"{path} ({'TLS' if secure else 'plain'}): {error!r}")
            self.requests += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)
            self.ended.wait(0.01)

    def ask(self, connection, path):
        connection.request("GET", path, headers={"Host": self.site.host})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")

    def fail(self, text):
        self.failures.append(f"{time.strftime('%H:%M:%S')} {self.site.name}{text}")


def answers(site, plain):
    """Returns the pages of a site that are not answered as they should be."""
    wrong = []
    for path, content in site.answers().items():
        try:
            connection = http.client.HTTPConnection("127.0.0.1", plain, timeout=10)
            connection.request("GET", path, headers={"Host": site.host, "Connection": "close"})
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
            if (answer.status, body) != (200, content):
                wrong.append(f"{site.name}{path}: {answer.status} {body[:60]!r}")
        except (OSError, http.client.HTTPException) as error:
            wrong.append(f"{site.name}{path}: {error!r}")
    return wrong


def all_answer(sites, plain, seconds):
    """Waits until all pages of these sites are answered. Returns those that are not in the end."""
    deadline = time.monotonic() + seconds
    while True:
        wrong = [line for site in sites for line in answers(site, plain)]
        if not wrong or time.monotonic() > deadline:
            return wrong
        time.sleep(0.25)


def main():
    options = arguments()
    program = options.howdah.resolve()
    place = pathlib.Path(tempfile.mkdtemp(prefix="howdah-changes-"))
    place.chmod(0o755)
    untouched = [Site(place, f"u{number}", kind, number) for number, kind in enumerate(KINDS)]
    touched = [Site(place, f"t{number}", kind, number) for number, kind in enumerate(KINDS * 2)]
    for site in untouched + touched:
        site.make_certificate()
        site.restore()
    plain, secure = free_port(), free_port()
    certificates = [{"chain": str(site.certificate / "chain.pem"), "key": str(site.certificate / "key.pem")}
                    for site in untouched + touched]
    document = {"include": "conf.d/*.json", "listeners": {
        f"127.0.0.1:{plain}": {"pass": "routes/$host"},
        f"127.0.0.1:{secure}": {"pass": "routes/$host", "tls": {"certificate": certificates}},
    }}
    (place / "howdah.json").write_text(json.dumps(document))
    environment = dict(os.environ, HOWDAH_RUNTIME_DIR=f"{place}/run", XDG_STATE_HOME=f"{place}/state")
    server = subprocess.Popen(
        [program, "serve", "--config", place / "howdah.json", "--log", place / "log", "--pid", place / "pid"],
        env=environment, stdout=subprocess.DEVNULL)
    atexit.register(end, place / "pid")
    while not (place / "log").exists():
        if server.poll() is not None:
            sys.exit("the server does not start")
        time.sleep(0.05)
    problems = [f"at the start: {line}" for line in all_answer(untouched + touched, plain, RECOVERY_SECONDS)]
    before = {process: descriptors(pid) for pid, process in watched(server.pid)}

    ended = threading.Event()
    chaos = Chaos(random.Random(options.seed), lambda: int((place / "pid").read_text()), program,
                  place / "howdah.json", environment)
    visitors = [Visitor(site, plain, secure, chaos, ended) for site in untouched]
    for visitor in visitors:
        visitor.start()
    history = History(place / "changes")
    deadline = time.monotonic() + options.seconds
    while time.monotonic() < deadline and not problems and server.poll() is None:
        history.append(chaos.step(touched))
        time.sleep(chaos.chance.random() * 0.2)
    chaos.resume()
    for site in touched:
        replace(site.part, site.files()[site.part])
    history.append(f"all parts are restored; {chaos.command('reload')}")
    for site in touched:
        site.restore()
    problems += [f"has not recovered: {line}" for line in all_answer(touched, plain, RECOVERY_SECONDS)]
    ended.set()
    for visitor in visitors:
        visitor.join()
    problems += [line for visitor in visitors for line in visitor.failures]
    if server.poll() is not None:
        problems.append(f"the server has ended with {server.returncode}")
    log = (place / "log").read_text(errors="replace")
    problems += [line for line in log.splitlines() if "panicked" in line]
    after = {process: descriptors(pid) for pid, process in watched(server.pid)}

    requests = sum(visitor.requests for visitor in visitors)
    print(f"seed {options.seed}: {len(history.lines)} changes, reloads {chaos.reloads}, kills {chaos.kills}, "
          f"{requests} requests, "
          f"{sum(len(visitor.failures) for visitor in visitors)} failed, "
          f"{sum(visitor.repeated for visitor in visitors)} sent again on a new connection, "
          f"{sum(visitor.lost for visitor in visitors)} lost with a router and sent again, "
          f"slowest {max(visitor.slowest for visitor in visitors):.2f} s")
    print(f"descriptors before {before}, after {after}; {len(log.splitlines())} lines in the log")
    if problems:
        print("last changes:", *history.lines[-30:], sep="\n    ")
    for problem in problems[:30]:
        print("problem:", problem)
    end(place / "pid")
    if options.keep:
        print("kept:", place)
    else:
        server.wait(60)
        shutil.rmtree(place)
    sys.exit(1 if problems else 0)


def watched(pid):
    """Yields supervisor and router, whose descriptors are counted."""
    yield pid, "supervisor"
    yield from ((child, "router") for child, title in children(pid).items() if re.search("router", title))


if __name__ == "__main__":
    main()
