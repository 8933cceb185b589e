#!/usr/bin/env python3
"""Holds many idle sessions of streams and mail: the memory of each, and whether reloads and upgrades
cut one. Needs openssl.

usage: tests/tools/sessions.py HOWDAH [--sessions N] [--reloads N]

HOWDAH is a built program; a release build for figures to publish. The memory of a session is that
by which the router grows (anonymous memory, PSS); the kernel's own for the sockets is not in it.
Then as many sessions of all kinds of connections stay open, and each repeats a line after each reload and
after an upgrade; the next one would have to wait for the sessions of the first. Prints the figures,
and exits with 1 if a session was cut.
"""

import argparse
import asyncio
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

# Sessions before the first measurement: tables and allocators grow with them, and stay.
FIRST = 100
# Sessions that are opened at once.
AT_ONCE = 50


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


async def echo(reader, writer):
    """The server of a stream."""
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def imap(reader, writer):
    """A server of IMAP that takes every password, and then repeats what comes."""
    writer.write(b"* OK ready\r\n")
    tag = (await reader.readline()).split(b" ")[0]
    for _ in range(2):
        writer.write(b"+ go on\r\n")
        await reader.readline()
    writer.write(tag + b" OK done\r\n")
    await echo(reader, writer)


class Datagrams(asyncio.DatagramProtocol):
    """A server of datagrams that repeats what comes."""

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        self.transport.sendto(data, addr)


class Session:
    """A session of a client."""

    def __init__(self, server, kind):
        self.server, self.kind = server, kind

    async def open(self):
        port, context = self.server.ports[self.kind], self.server.trust if "TLS" in self.kind else None
        if self.kind == "UDP":
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.setblocking(False)
            self.socket.connect(("127.0.0.1", port))
        else:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        if self.kind.startswith("IMAP"):
            await self.reader.readline()
            self.writer.write(b"a LOGIN me secret\r\n")
            if (reply := await self.reader.readline()) != b"a OK done\r\n":
                sys.exit(f"the login is answered with {reply}")
        if not await self.lives():
            sys.exit(f"a session of {self.kind} does not begin: {self.server.log.read_text()[-2000:]}")

    async def lives(self):
        """Whether a line comes back."""
        try:
            if self.kind == "UDP":
                self.socket.send(b"line\n")
                loop = asyncio.get_running_loop()
                return await asyncio.wait_for(loop.sock_recv(self.socket, 100), 20) == b"line\n"
            self.writer.write(b"line\n")
            return await asyncio.wait_for(self.reader.readline(), 60) == b"line\n"
        except (OSError, asyncio.TimeoutError):
            return False

    async def close(self):
        if self.kind == "UDP":
            self.socket.close()
        else:
            self.writer.close()


async def each(act, items):
    """Does the same with all, some at once. Returns the results."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def one(item):
        async with turn:
            return await act(item)
    return await asyncio.gather(*map(one, items))


class Server:
    """Howdah with a listener for each kind of sessions."""

    def __init__(self, program, place, behind):
        self.log, self.control = place / "log", place / "control"
        self.ports = {kind: free_port() for kind in ("TCP", "TCP with TLS", "IMAP", "IMAP with TLS", "UDP")}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", place / "key.pem", "-out", place / "chain.pem"], check=True, capture_output=True)
        (place / "key.pem").chmod(0o644)
        self.trust = ssl.create_default_context()
        self.trust.check_hostname, self.trust.verify_mode = False, ssl.CERT_NONE
        tls = {"tls": {"certificate": {"chain": f"{place}/chain.pem", "key": f"{place}/key.pem"}}}
        stream, mail = {"protocol": "tcp", "pass": "upstreams/echo"}, {"pass": "mail/imap"}
        kinds = {"TCP": stream, "TCP with TLS": {**stream, **tls}, "IMAP": mail, "IMAP with TLS": {**mail, **tls},
                 "UDP": {"protocol": "udp", "pass": "upstreams/datagrams"}}
        self.document = {
            "listeners": {f"127.0.0.1:{self.ports[kind]}": listener for kind, listener in kinds.items()},
            "mail": {"imap": {"protocol": "imap", "backend": "upstreams/imap"}},
            "upstreams": {**{name: {"servers": {f"127.0.0.1:{behind[name]}": {}}} for name in ("echo", "imap")},
                          "datagrams": {"servers": {f"127.0.0.1:{behind['datagrams']}": {}}, "timeouts": {"tunnel": 3600}}},
        }
        (place / "config.json").write_text(json.dumps(self.document))
        with self.log.open("w") as log:
            self.process = subprocess.Popen([program, "serve", "--config", place / "config.json", "--control", f"unix:{self.control}"],
                                            stdout=log, stderr=log)
        self.pid, end = self.process.pid, time.monotonic() + 60
        while "listeners" not in self.ask("GET", "/status"):
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit(f"the server does not start: {self.log.read_text()}")
            time.sleep(0.1)

    def ask(self, method, path, body=None):
        """A question to the control API; {} if nothing answers."""
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(self.control))
            connection.request(method, path, body)
            return json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            return {}

    def reload(self, number):
        answer = self.ask("PUT", "/config", json.dumps({**self.document, "settings": {"last_requests": number % 50}}))
        if "success" not in answer:
            sys.exit(f"the reload is answered with {answer}")

    def upgrade(self):
        answer = self.ask("POST", "/control/upgrade")
        if "pid" not in answer:
            sys.exit(f"the upgrade is answered with {answer}")
        self.pid = answer["pid"]

    def memory(self):
        """Bytes of the router."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = re.search(r"^PPid:\s*(\d+)", (entry / "status").read_text(), re.M)[1]
                if int(parent) == self.pid and (entry / "cmdline").read_bytes().startswith(b"howdah: router"):
                    return int(re.search(r"^Pss_Anon:\s+(\d+)", (entry / "smaps_rollup").read_text(), re.M)[1]) * 1024
            except (OSError, TypeError):
                continue
        sys.exit("there is no router")

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        self.process.wait()


async def hold(server, kinds, count):
    """Opens sessions of some kinds in turn."""
    sessions = [Session(server, kinds[number % len(kinds)]) for number in range(count)]
    await each(Session.open, sessions)
    return sessions


async def measure(start, count):
    """Prints the memory of an idle session of each kind, each on a server of its own."""
    for kind in ("TCP", "TCP with TLS", "IMAP", "IMAP with TLS", "UDP"):
        server = start()
        try:
            await each(Session.close, await hold(server, [kind], FIRST))
            await asyncio.sleep(2)
            before = server.memory()
            sessions = await hold(server, [kind], count)
            await asyncio.sleep(5)
            print(f"{kind}: {(server.memory() - before) / count:,.0f} bytes a session", flush=True)
            await each(Session.close, sessions)
        finally:
            server.stop()


async def change(start, count, reloads):
    """Reloads and upgrades a server beside its sessions. Returns the number of those that were cut."""
    server, cut = start(), 0
    try:
        # The next server gets the datagrams, so their sessions are others.
        sessions = await hold(server, ["TCP", "TCP with TLS", "IMAP", "IMAP with TLS"], count)
        for name, number, act in (("reload", reloads, server.reload), ("upgrade", 1, lambda _: server.upgrade())):
            for turn in range(number):
                await asyncio.to_thread(act, turn)
                lives = await each(Session.lives, sessions)
                cut += lives.count(False)
                sessions = [session for session, lived in zip(sessions, lives) if lived]
                print(f"{name} {turn + 1}: {len(sessions)} sessions, {cut} cut", flush=True)
        await each(Session.close, sessions)
    finally:
        server.stop()
    return cut


async def run(arguments, directory):
    behind = {"echo": free_port(), "imap": free_port(), "datagrams": free_port()}
    await asyncio.start_server(echo, "127.0.0.1", behind["echo"], backlog=1024)
    await asyncio.start_server(imap, "127.0.0.1", behind["imap"], backlog=1024)
    await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, ("127.0.0.1", behind["datagrams"]))

    def start():
        place = pathlib.Path(tempfile.mkdtemp(dir=directory))
        place.chmod(0o755)
        return Server(arguments.howdah, place, behind)
    await measure(start, arguments.sessions)
    cut = await change(start, arguments.sessions, arguments.reloads)
    await asyncio.sleep(1)  # until the servers behind have noticed the end
    return 1 if cut else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("howdah", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--reloads", type=int, default=10)
    arguments = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as directory:
        pathlib.Path(directory).chmod(0o755)
        return asyncio.run(run(arguments, directory))


if __name__ == "__main__":
    sys.exit(main())
