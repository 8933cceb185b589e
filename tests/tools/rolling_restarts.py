#!/usr/bin/env python3
"""Restarts two servers in turn behind HAProxy, which learns of their end five seconds later, while a
client sends requests, and counts those that fail. Needs haproxy.

usage: tests/tools/rolling_restarts.py HOWDAH [--restarts N] [--delay SECONDS] [--rate N]

HOWDAH is a built program with its howdah-php beside it. HAProxy does not repeat requests: one that
a server does not answer is a failure. Prints the figures, and exits with 1 if a request has failed.
With a delay that is shorter than five seconds, requests fail: that shows that they are counted.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import shutil
import signal
import socket
import sys
import tempfile
import time

# Seconds from the signal until the balancer sends a server no more requests. Health checks would take
# about as long, and longer on a busy machine.
NOTICE = 5

BALANCER = """
global
    maxconn 2000
    stats socket {socket} level admin
defaults
    mode http
    retries 0
    timeout connect 5s
    # The client keeps its connections, however long it does not need them.
    timeout client 1h
    timeout server 30s
frontend site
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    balance roundrobin
"""

SCRIPT = "<?php usleep(random_int(0, 20000)); echo 'answer of ', getmypid(), ' to ', $_GET['n'];"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A server that is started again and again at the same address."""

    def __init__(self, program, directory, delay, balancer):
        self.program, self.directory = program, directory
        self.port, self.balancer = free_port(), balancer
        directory.mkdir()
        (directory / "a.php").write_text(SCRIPT)
        directory.chmod(0o755)
        self.document = directory / "config.json"
        self.document.write_text(json.dumps({
            "listeners": {f"127.0.0.1:{self.port}": {"pass": "applications/site"}},
            "applications": {"site": {
                "type": "php", "root": str(directory), "script": "a.php", "processes": 4}},
            "settings": {"shutdown_delay": delay},
        }))

    async def start(self):
        log = (self.directory / "log").open("a")
        self.process = await asyncio.create_subprocess_exec(
            self.program, "serve", "--config", self.document, "--no-control",
            stdout=asyncio.subprocess.PIPE, stderr=log)
        while b"Serving" not in (line := await self.process.stdout.readline()):
            if not line:
                sys.exit(f"the server does not start: {(self.directory / 'log').read_text()}")

    async def restart(self):
        self.process.send_signal(signal.SIGQUIT)
        ended = asyncio.create_task(self.process.wait())
        await asyncio.sleep(NOTICE)
        await self.tell_balancer("maint")
        if status := await ended:
            sys.exit(f"the server has ended with {status}")
        await self.start()
        await self.tell_balancer("ready")

    async def tell_balancer(self, state):
        reader, writer = await asyncio.open_unix_connection(self.balancer)
        writer.write(f"set server servers/{self.directory.name} state {state}\n".encode())
        if answer := (await reader.read()).strip():
            sys.exit(f"haproxy: {answer.decode()}")
        writer.close()


class Client:
    """Sends requests at a rate, whatever becomes of those before, over kept connections."""

    def __init__(self, port):
        self.port, self.idle, self.sent = port, collections.deque(), 0
        self.failures, self.answers = collections.Counter(), collections.Counter()
        self.slowest = 0.0

    async def ask(self, number):
        begun = time.monotonic()
        try:
            kept = self.idle.pop() if self.idle else None
            reader, writer = kept or await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(f"GET /?n={number} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            if "content-length" in fields:
                body = await reader.readexactly(int(fields["content-length"]))
            else:
                body = b""
                while (size := int(await reader.readline(), 16)) > 0:
                    body += (await reader.readexactly(size + 2))[:-2]
                await reader.readline()
            status = head.split(" ")[1]
            if status != "200" or not body.endswith(f" to {number}".encode()):
                self.failures[f"status {status}"] += 1
            self.answers[body.split(b" to ")[0]] += 1
            if fields.get("connection") == "close":
                writer.close()
            else:
                self.idle.append((reader, writer))
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            self.failures[type(error).__name__] += 1
        self.slowest = max(self.slowest, time.monotonic() - begun)

    async def run(self, rate):
        begun, waiting = time.monotonic(), set()
        try:
            while True:
                due = begun + self.sent / rate
                await asyncio.sleep(max(0, due - time.monotonic()))
                self.sent += 1
                task = asyncio.create_task(self.ask(self.sent))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        except asyncio.CancelledError:
            await asyncio.gather(*waiting)


async def measure(arguments, place):
    admin, port, lines = str(place / "haproxy.sock"), free_port(), []
    servers = [Server(arguments.howdah, place / name, arguments.delay, admin) for name in ("a", "b")]
    for server in servers:
        await server.start()
        lines.append(f"    server {server.directory.name} 127.0.0.1:{server.port}\n")
    file = place / "haproxy.cfg"
    file.write_text(BALANCER.format(port=port, socket=admin) + "".join(lines))
    balancer = await asyncio.create_subprocess_exec(
        "haproxy", "-db", "-f", file, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL)
    while not pathlib.Path(admin).exists():
        await asyncio.sleep(0.1)
    client, begun = Client(port), time.monotonic()
    load = asyncio.create_task(client.run(arguments.rate))
    for number in range(arguments.restarts):
        await servers[number % 2].restart()
        await asyncio.sleep(0.5)
        print(f"restart {number + 1}: {client.sent} requests, failed: "
              f"{dict(client.failures) or 'none'}", flush=True)
    load.cancel()
    await load
    seconds = time.monotonic() - begun
    for process in [*(server.process for server in servers), balancer]:
        process.terminate()
        await process.wait()
    print(f"{arguments.restarts} restarts in {seconds:.0f} s, {client.sent} requests "
          f"({client.sent / seconds:.0f} a second), answered by {len(client.answers)} processes, "
          f"slowest {client.slowest:.2f} s, failed: {dict(client.failures) or 'none'}")
    return 1 if client.failures else 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("howdah", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--restarts", type=int, default=50)
    parser.add_argument("--delay", type=int, default=7)
    parser.add_argument("--rate", type=int, default=200)
    arguments = parser.parse_args()
    if shutil.which("haproxy") is None:
        sys.exit("there is no haproxy; install it (apt-get install haproxy)")
    with tempfile.TemporaryDirectory() as directory:
        place = pathlib.Path(directory)
        place.chmod(0o755)
        return asyncio.run(measure(arguments, place))


if __name__ == "__main__":
    sys.exit(main())
