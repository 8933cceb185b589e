"""The steps for a framework in worker mode: the same application also runs in the classic way beside it.

Each application in frameworks/ has public/index.php for classic mode and public/worker.php for worker mode,
and the pages that visitor.py uses.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import threading
from collections import Counter
from pathlib import Path

import machine
import servers
from compare import Comparison, Mask, Request, crawl, fetch
from crowd import Crowd
from report import Failure, check, equal
from visitor import FORM, Visitor, token, upload

SOURCES = Path(__file__).resolve().parent / "frameworks"
PROCESSES = 3
# The limit counts processor time, so a busy machine does not change its effect.
SETTINGS = {"memory_limit": "64M", "max_execution_time": "3"}
VISITORS = 8
# A worker may keep the caches of a framework for later requests, but no memory of each request: bytes a
# request, and bytes for late caches.
MAX_GROWTH = 20
MAX_CACHED = 64 << 10
# Number of differences that a failed step prints.
MAX_SHOWN = 12

# Changes of a request that do not end its process.
CHANGES = ("locale", "directory", "variable", "time-zone", "umask", "time-limit", "max-execution-time",
           "error-handler", "exception-handler", "buffer", "session", "superglobals", "headers",
           "header-callback", "late-header", "warning", "random", "finish", "nested", "open-file", "abort")
# Changes that end the process, and the reason under which its end is counted.
ENDINGS = {"setting": "changed state: environment", "exit": "exit", "exit-after-output": "exit",
           "fatal": "fatal", "memory": "fatal", "time": "timeout"}

# Exceptions that are thrown while a request ends. A worker may continue after them or not.
LATE_EXCEPTIONS = ("broken-session", "broken-buffer", "broken-header")

# Requests whose clients do not wait for the answer, or do not send all.
UNFINISHED = tuple(head.replace(b"\n", b"\r\n") for head in (
    b"GET /form HTTP/1.1\nHost: x\n\n",
    b"GET /slow?ms=200 HTTP/1.1\nHost: x\n\n",
    b"GET /stream?lines=100000 HTTP/1.1\nHost: x\n\n",
    b"POST /json HTTP/1.1\nHost: x\nContent-Length: 100000\n\n" + b"x" * 5000,
    b"POST /upload HTTP/1.1\nHost: x\nContent-Type: multipart/form-data; boundary=x\nContent-Length: 9000\n\n"
    b"--x\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\n\nabc",
))

TOKEN = Mask(rb'(?<=type="hidden" value=")[^"]+', "a form's token: random in each answer")


class Framework:
    """One application, served in both modes."""

    def __init__(self, session, name, masks=(), accepted=(), worker=None, environment=None):
        """`worker` has further members of the application's `worker`, `environment` its variables."""
        self.session = session
        self.name = name
        self.masks = (TOKEN, *masks)
        self.accepted = accepted
        self.worker = {"script": "worker.php", **(worker or {})}
        self.environment = environment or {}
        self.home = session.directory / name
        self.root = self.home / "site"
        shutil.copytree(SOURCES / name, self.root)
        for path in (SOURCES / "shared").iterdir():
            shutil.copy(path, self.root)
        self.kept = self.root / "var"
        for directory in ("sessions", "cache", "views"):
            (self.kept / directory).mkdir(parents=True)
        machine.give_away(self.root)
        self.classic = self.serve("classic", {})
        self.resident = self.serve("resident", {"worker": {**self.worker, "requests": 0}})
        self.host = f"127.0.0.1:{self.resident.port}"

    def serve(self, mode, members, processes=PROCESSES):
        """Starts a server with the application."""
        def document(address):
            return {
                "listeners": {address: {"pass": "applications/site"}},
                "applications": {"site": {
                    "type": "php", "root": str(self.root / "public"), "script": "index.php",
                    "processes": processes, "environment": self.environment, "options": {"admin": SETTINGS}, **members,
                }},
            }
        # A site has the usual worker mode only.
        is_site = self.session.options.sites and mode in ("classic", "resident")
        site = {
            "worker": self.worker["script"] if members else False, "front_controller": "index.php",
            "environment": self.environment, "php": {"ini": SETTINGS, "processes": processes}, "htaccess": False,
        }
        server = self.session.own(servers.Howdah(
            self.session.howdah, self.directory(mode), self.root, document, controlled=True,
            site=site if is_site else None))
        server.title = mode
        return server

    def directory(self, mode):
        """A new directory for a server."""
        count = len(list(self.home.glob(f"{mode}*")))
        return self.home / (f"{mode}{count}" if count else mode)

    def run(self):
        """All steps."""
        step, name = self.session.report.step, self.name
        with step(f"{name}: the worker script boots, and workers are forked from it", needed=True):
            self.boots()
        with step(f"{name}: every page as in classic mode"):
            self.pages()
        with step(f"{name}: a visit with forms, login, cookies and upload as in classic mode"):
            self.visit()
        with step(f"{name}: {self.session.options.requests} requests of {VISITORS} visitors, each with its own data"):
            self.crowd()
        with step(f"{name}: nothing that a request changes reaches the next one"):
            self.changes()
        with step(f"{name}: nor what the script changes between two requests"):
            self.changes_between()
        with step(f"{name}: an exception at the end of a request is answered as in classic mode"):
            self.late_exceptions()
        with step(f"{name}: no change reaches visitors that are served meanwhile"):
            self.changes_under_load()
        with step(f"{name}: restarts fail no request"):
            self.restarts()
        with step(f"{name}: reloads, killed templates and workers of 5 requests each fail no request"):
            self.replacements()
        with step(f"{name}: visitors that go away disturb no other"):
            self.departures()
        with step(f"{name}: a killed worker costs its own request only"):
            self.kills()

    def status(self, server):
        """The `worker` member of the application's status."""
        return json.loads(server.control("/status/php/site"))["worker"]

    def value(self, server, path):
        """The value of a page that answers with JSON."""
        answer = fetch(server.port, self.host, Request(path))
        check(answer.status == 200 and answer.kind == "application/json",
              f"{server.title}: {path}: status {answer.status}: {answer.body[:500].decode('utf-8', 'replace')}")
        return json.loads(answer.body)

    def boots(self):
        found = self.status(self.resident)
        check(found["template"] and found["boot_ms"] >= 0, f"the status says {found}")

    def comparison(self):
        return Comparison(self.resident, self.classic, self.host, self.masks, self.accepted)

    def finish(self, comparison, differences):
        self.session.report.note(f"answers compared: {comparison.summary()}")
        self.session.note_accepted(comparison)
        if differences:
            more = [f"and {len(differences) - MAX_SHOWN} more"] if len(differences) > MAX_SHOWN else []
            raise Failure("\n".join([*differences[:MAX_SHOWN], *more]))

    # ---- the same answers ----

    def pages(self):
        comparison = self.comparison()
        differences = crawl(comparison, ["/"])
        for request in (
            Request("/", "HEAD"), Request("/json", "HEAD"), Request("/json", "DELETE"), Request("/json", "PUT"),
            Request("/json?a[]=1&a[x]=2&b=%00%ff&c", headers=(("X-Request-Id", "é\u00ff"),)),
            Request("/json", "POST", FORM, b"a[]=1&a[]=2&a[b][c]=3&d=%2B+"),
            Request("/json", "POST", FORM, b"&".join(b"f%d=1" % n for n in range(1500))),
            Request("/json", "POST", (("Content-Type", "application/json"),), b'{"a": [1, 2'),
            Request("/json", headers=(("Cookie", "visitor=x%20y; a[b]=c; =; ;"),)),
            Request("/notes", headers=(("Cookie", "PHPSESSID=../../etc; session=\"x\""),)),
            Request("/notes", headers=(("Cookie", "PHPSESSID=0123456789abcdefghijkl"),)),
            Request("/form", "POST", FORM, b"token=wrong&note=x"), Request("/form", "POST", FORM, b""),
            Request("/login", "POST", FORM, b"user=user1&password=secret1"),
            Request("/upload", "POST"), Request("/upload", "POST", FORM, b"file=x"),
            upload("a label", "empty", b""), upload("ä", "häßlich \"x\".txt", b"x" * 70_000),
            upload("too big", "big", b"x" * 2_500_000),
            Request("/download", headers=(("Range", "bytes=10-19"),)),
            Request("/download", headers=(("Range", "bytes=999999-"),)), Request("/download", "HEAD"),
            Request("/stream?lines=3000"), Request("/stream", "HEAD"), Request("/cookie?value=a%20b;c"),
            Request("/error"), Request("/error", "POST", FORM, b"x=y"), Request("/error", "HEAD"),
            Request("/missing/x/y?z"), Request("//json"), Request("/json/"), Request("/index.php"),
            Request("/index.php/json"), Request("/form", "DELETE"), Request("/account"), Request("/logout"),
        ):
            differences += comparison.compare(request)[0]
        self.finish(comparison, differences)

    def visit(self):
        """The steps of one visitor, taken on both servers with a session on each."""
        comparison = self.comparison()
        visitors = [Visitor(server.port, self.host, 1) for server in (self.resident, self.classic)]
        differences = []

        def take(request):
            """Sends the request, which may depend on the page before, on both; returns the answers."""
            requests = [request(page) if callable(request) else request for page in pages or (None, None)]
            found, expected = (visitor.send(one) for visitor, one in zip(visitors, requests))
            comparison.statuses[expected.status] += 1
            differences.extend(text for what, text in comparison.differences(requests[0], found, expected)
                               if not comparison.is_accepted(requests[0], what))
            return [found, expected]

        def form(path, fields):
            """A form with the token of the page before."""
            return lambda page: Request(
                path, "POST", FORM, f"token={token(page)}&_token={token(page)}&{fields}".encode())

        pages = None
        for request in (
            Request("/notes"), Request("/form"), form("/form", "note=first"), Request("/notes"), Request("/notes"),
            Request("/form"), form("/form", "note="), Request("/form"), form("/form", "note=%3Cb%3E+%26"), Request("/notes"),
            Request("/account"), Request("/login"), form("/login", "user=user1&password=wrong"), Request("/login"),
            form("/login", "user=user1&password=secret1"), Request("/account"), Request("/notes"), Request("/"),
            Request("/cookie?value=one"), Request("/cookie?value=two"), Request("/json"), Request("/error"),
            Request("/account"), upload("mine", "a.bin", bytes(range(256)) * 100), Request("/redirect"),
            Request("/logout"), Request("/account"), Request("/notes"), Request("/json"),
        ):
            pages = take(request)
        for visitor in visitors:
            visitor.close()
        self.finish(comparison, differences)

    # ---- many visitors ----

    def crowd(self):
        options = self.session.options
        classic = Crowd(self.classic.port, self.host, VISITORS, max(300, options.requests // 10))
        classic.run()
        resident = Crowd(self.resident.port, self.host, VISITORS, options.requests)
        resident.run()
        note = self.session.report.note
        note(f"{classic.answered} requests in classic mode, {classic.rate:.0f} a second; "
             f"{resident.answered} in worker mode, {resident.rate:.0f} a second")
        retired = self.status(self.resident)["retired"]
        if self.session.options.sites:
            retired.pop("requests", None)  # workers of a site end after the usual number of requests
        equal("retired workers", retired, {})
        memory = resident.memory()
        check(memory or resident.answered < 1000, "no process was seen often enough")
        grown = []
        for pid, facts in memory.items():
            third = len(facts) // 3
            first, last = (min(amount for _, amount in part) for part in (facts[third:2 * third], facts[-third:]))
            requests = facts[-1][0] - facts[third][0]
            note(f"process {pid}: {facts[-1][0]} requests, {first >> 10} KiB in the second third, "
                 f"{last >> 10} KiB in the last; private {private_memory(pid) >> 10} KiB")
            if last - first > MAX_CACHED + MAX_GROWTH * requests:
                grown.append(f"process {pid} has grown by {last - first} bytes in {requests} requests")
        # The caches of the first use of a rare page come to each process at another time; the memory that it keeps
        # of each request comes to all of them.
        check(len(grown) < max(1, len(memory)), "; ".join(grown))

    # ---- state ----

    def changes(self):
        """Each change, with one process, so that the next request meets its leftovers."""
        self.change_alone([f"/disturb/{what}" for what in (*CHANGES, *ENDINGS, "crash", *reversed(CHANGES))],
                          dict(Counter(ENDINGS.values())))

    def changes_between(self):
        """Each change, after the answer and outside of the request."""
        # A nested call is an ordinary one there.
        names = (*CHANGES, *ENDINGS, "crash", *reversed(CHANGES), "loop")
        self.change_alone([f"/later/{what}" for what in names if what != "nested"])

    def late_exceptions(self):
        """Exceptions that are thrown while a request ends."""
        self.change_alone([f"/disturb/{what}" for what in (*LATE_EXCEPTIONS, *LATE_EXCEPTIONS)])

    def change_alone(self, paths, retired=None):
        """Requests these pages from one process and looks at its state after each.

        `retired` are the expected numbers of retired workers.
        """
        with self.started("single", {"worker": {**self.worker, "requests": 0}}, 1) as single:
            comparison = Comparison(single, self.classic, self.host, self.masks, self.accepted)
            differences = []
            expected = fetch(self.classic.port, self.host, Request("/state"))
            pid = None
            for path in paths:
                what = path.rpartition("/")[2]
                differences += comparison.compare(Request(path))[0]
                for _ in range(2):
                    found = fetch(single.port, self.host, Request("/state"))
                    differences += [f"after {path}: {text}" for _, text in
                                    comparison.differences(Request("/state"), found, expected)]
                before, pid = pid, self.value(single, "/worker")["pid"]
                if what in CHANGES and before not in (None, pid):
                    differences.append(f"{path}: the worker was replaced")
                if (what in ENDINGS or what in ("crash", "loop")) and before == pid:
                    differences.append(f"{path}: the worker goes on")
            if retired is not None and (found := self.status(single)["retired"]) != retired:
                differences.append(f"retired workers: {found} instead of {retired}")
            self.finish(comparison, differences)

    def changes_under_load(self):
        """Changes while visitors are served by the same processes."""
        chosen = random.Random(1)
        crowd = Crowd(self.resident.port, self.host, VISITORS)
        expected = self.value(self.classic, "/state")
        count = max(40, self.session.options.requests // 50)
        with crowd.busy():
            for _ in range(count):
                what = chosen.choice((*CHANGES, *CHANGES, *ENDINGS)) if chosen.random() < 0.95 else "crash"
                fetch(self.resident.port, self.host, Request(f"/disturb/{what}"))
                equal(f"state after {what}", self.value(self.resident, "/state"), expected)
        self.session.report.note(f"{count} changes during {crowd.answered} requests of visitors; "
                                 f"retired: {self.status(self.resident)['retired']}")

    # ---- restarts and kills ----

    def restarts(self):
        crowd = Crowd(self.resident.port, self.host, VISITORS)
        before = self.status(self.resident)["generation"]
        with crowd.busy():
            for _ in range(5):
                self.resident.command("restart", "site")
                crowd.wait_for(200)
        after = self.status(self.resident)["generation"]
        check(after >= before + 5, f"the generation was {before} and is {after}")
        self.session.report.note(f"5 restarts during {crowd.answered} requests")

    def replacements(self):
        with self.started("replaced", {"worker": {**self.worker, "requests": 5}}, PROCESSES) as server:
            crowd = Crowd(server.port, self.host, VISITORS)
            with crowd.busy():
                for _ in range(2):
                    server.command("reload")
                    crowd.wait_for(100)
                    self.kill_template(server)
                    crowd.wait_for(100)
            self.session.report.note(f"2 reloads and 2 killed templates during {crowd.answered} requests; "
                                     f"retired: {self.status(server)['retired']}")

    @staticmethod
    def kill_template(server):
        """Kills the template, once there is one: it may be starting.

        A process with its title that does not sleep may be a worker that it has just forked.
        """
        def is_killed():
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                pid = server.process.descendant('howdah: "site" template')
                if pid and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S":
                    os.kill(pid, signal.SIGKILL)
                    return True
            return False
        server.process.wait_for(is_killed, "template")

    def departures(self):
        """Connections that end in the middle of a request or of its answer."""
        chosen = random.Random(2)
        crowd = Crowd(self.resident.port, self.host, VISITORS)
        count = max(60, self.session.options.requests // 20)
        with crowd.busy():
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", self.resident.port)) as connection:
                    connection.sendall(chosen.choice(UNFINISHED))
                    if chosen.random() < 0.5:
                        # Closed with a reset instead of an orderly end.
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.session.report.note(f"{count} visitors left during {crowd.answered} requests of others")

    def kills(self):
        crowd = Crowd(self.resident.port, self.host, VISITORS)
        with crowd.busy():
            for number in range(5):
                self.kill(f"kill{number}")
                crowd.wait_for(100)
        self.session.report.note(f"5 workers killed during {crowd.answered} requests")

    def kill(self, name):
        """Kills the worker that is in the middle of a request of its own."""
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            fetch(self.resident.port, self.host, Request(f"/hold/{name}"))))
        thread.start()
        try:
            held = self.kept / f"{name}.held"
            self.resident.process.wait_for(held.exists, "request that is held")
            os.kill(int(held.read_text()), signal.SIGKILL)
        finally:
            thread.join(60)
        check(answers, "the request of the killed worker was not answered")
        equal("status of the killed worker's request", answers[0].status, 502)

    @contextlib.contextmanager
    def started(self, mode, members, processes):
        """A server for one step."""
        server = self.serve(mode, members, processes)
        try:
            yield server
        finally:
            server.stop()


def private_memory(pid):
    """The memory in bytes that a process shares with no other."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
