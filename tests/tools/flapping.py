#!/usr/bin/env python3
"""Three back ends in trouble: one is killed and comes back, one is slow, one flaps.

Clients send GET and POST through Howdah meanwhile. While one back end is well, no GET may fail; and
no POST may be delivered twice: each has a number, and back ends record the requests that reach them.

    tests/tools/flapping.py [--howdah PROGRAM] [--toxiproxy PROGRAM] [--seconds 120]

Toxiproxy stands before the slow one and the flapping one. It is built with
`GOBIN=DIRECTORY go install github.com/Shopify/toxiproxy/v2/cmd/server@latest`, as DIRECTORY/server.
"""

import argparse
import asyncio
import collections
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from peers import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = 24
# Seconds for which a failed back end gets no requests.
LEFT_ALONE = 1


# -- the back ends --

async def serve(port, name, log):
    """Answers requests, and writes down the body of each POST before its answer."""
    async def connection(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = await reader.readexactly(length)
                if head.startswith(b"POST"):
                    log.write(body + b"\n")
                    log.flush()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
    server = await asyncio.start_server(connection, "127.0.0.1", port)
    await server.serve_forever()


def start_backend(port, name, log):
    return subprocess.Popen([sys.executable, __file__, "--serve", str(port), name, str(log)])


def wait_for(port):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


# -- trouble --

class Toxiproxy:
    def __init__(self, program, log):
        self.port = free_port()
        self.process = subprocess.Popen([program, "-host", "127.0.0.1", "-port", str(self.port)], stdout=log, stderr=log)
        wait_for(self.port)

    def ask(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request(method, path, json.dumps(value) if value is not None else None)
        response = connection.getresponse()
        said = response.read()
        connection.close()
        if response.status >= 300:
            sys.exit(f"toxiproxy: {method} {path}: {response.status} {said!r}")

    def proxy(self, name, port):
        listen = free_port()
        self.ask("POST", "/proxies", {"name": name, "listen": f"127.0.0.1:{listen}", "upstream": f"127.0.0.1:{port}"})
        return listen


async def in_thread(function, *arguments):
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


async def flap(toxiproxy, end):
    """Takes the back end away and brings it back, in one of several ways."""
    changes = 0
    await asyncio.sleep(2)
    while time.monotonic() < end:
        way = random.choice(("closed", "closed", "reset_peer", "timeout"))
        if way == "closed":
            await in_thread(toxiproxy.ask, "POST", "/proxies/flapping", {"enabled": False})
        else:
            toxic = {"name": "toxic", "type": way, "stream": "downstream", "attributes": {"timeout": 0 if way == "reset_peer" else 200}}
            await in_thread(toxiproxy.ask, "POST", "/proxies/flapping/toxics", toxic)
        await asyncio.sleep(random.uniform(0.1, 1))
        if way == "closed":
            await in_thread(toxiproxy.ask, "POST", "/proxies/flapping", {"enabled": True})
        else:
            await in_thread(toxiproxy.ask, "DELETE", "/proxies/flapping/toxics/toxic")
        await asyncio.sleep(random.uniform(0.1, 2))
        changes += 1
    return changes


async def kill(backends, port, log, end):
    """Kills the back end, and starts it again after a while."""
    kills = 0
    while time.monotonic() < end - 4:
        await asyncio.sleep(random.uniform(2, 5))
        backends["killed"].send_signal(signal.SIGKILL)
        backends["killed"].wait()
        kills += 1
        await asyncio.sleep(random.uniform(0.5, 4))
        backends["killed"] = start_backend(port, "killed", log)
    return kills


# -- the load --

class Tally:
    def __init__(self):
        self.number = 0
        self.statuses = collections.Counter()
        self.failed = []
        self.by = collections.Counter()
        self.slowest = 0.0

    def next(self):
        self.number += 1
        return self.number


async def client(port, tally, end):
    reader = writer = None
    while time.monotonic() < end:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        number = tally.next()
        method, body = ("POST", b"post %d" % number) if number % 4 == 0 else ("GET", b"")
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        begun = time.monotonic()
        status, keeps, answer = "cut", False, b""
        try:
            writer.write(f"{method} /{number} HTTP/1.1\r\nHost: a\r\n{length}\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            status = int(head.split(b" ", 2)[1])
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
            answer = await reader.readexactly(int(fields[b"content-length"]))
            keeps = fields.get(b"connection") != b"close"
        except (asyncio.IncompleteReadError, ConnectionError, KeyError):
            status = "cut"
        tally.statuses[method, status] += 1
        tally.slowest = max(tally.slowest, time.monotonic() - begun)
        if status == 200:
            tally.by[answer.decode()] += 1
        elif method == "GET":
            tally.failed.append((number, status))
        if not keeps:
            writer.close()
            writer = None
        await asyncio.sleep(0.005)
    if writer:
        writer.close()


async def trouble(port, toxiproxy, backends, killed, log, seconds):
    tally, end = Tally(), time.monotonic() + seconds
    clients = [client(port, tally, end) for _ in range(CLIENTS)]
    changes, kills, *_ = await asyncio.gather(flap(toxiproxy, end), kill(backends, killed, log, end), *clients)
    return tally, changes, kills


def document(port, servers):
    return {
        "listeners": {f"127.0.0.1:{port}": {"pass": "upstreams/all"}},
        "upstreams": {"all": {
            "servers": {f"127.0.0.1:{server}": {} for server in servers},
            "tries": 3, "keepalive": 8, "failures": {"max": 1, "time": LEFT_ALONE},
            "timeouts": {"connect": 2, "first_byte": 5},
        }},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target/release/howdah", metavar="PROGRAM")
    parser.add_argument("--toxiproxy", default="toxiproxy-server", metavar="PROGRAM")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        port, name, log = options.serve
        with open(log, "ab") as file:
            asyncio.run(serve(int(port), name.encode(), file))
    with tempfile.TemporaryDirectory(prefix="howdah-flapping-") as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        ports = {which: free_port() for which in ("killed", "slow", "flapping")}
        logs = {which: directory / which for which in ports}
        backends, others = {}, []
        with open(directory / "output", "wb") as output:
            try:
                for which, port in ports.items():
                    backends[which] = start_backend(port, which, logs[which])
                    wait_for(port)
                toxiproxy = Toxiproxy(options.toxiproxy, output)
                others.append(toxiproxy.process)
                slow, flapping = (toxiproxy.proxy(which, ports[which]) for which in ("slow", "flapping"))
                latency = {"name": "latency", "type": "latency", "stream": "downstream", "attributes": {"latency": 60, "jitter": 50}}
                toxiproxy.ask("POST", "/proxies/slow/toxics", latency)
                port = free_port()
                config = directory / "config.json"
                config.write_text(json.dumps(document(port, (ports["killed"], slow, flapping))))
                howdah = subprocess.Popen([options.howdah, "serve", "--config", config, "--control", f"unix:{directory}/control",
                                           "--log", directory / "log"], stdout=output, stderr=output)
                others.append(howdah)
                wait_for(port)
                tally, changes, kills = asyncio.run(
                    trouble(port, toxiproxy, backends, ports["killed"], logs["killed"], options.seconds))
            finally:
                for process in (*backends.values(), *reversed(others)):
                    process.terminate()
                    process.wait()
        delivered = collections.Counter(line for log in logs.values() if log.exists() for line in log.read_text().splitlines())
        text = (directory / "log").read_text(errors="replace") if (directory / "log").exists() else ""
    twice = [post for post, times in delivered.items() if times > 1]
    posts = sum(count for (method, _), count in tally.statuses.items() if method == "POST")
    lost = posts - tally.statuses["POST", 200]
    print(f"{tally.number} requests in {options.seconds:g} s; {kills} kills, {changes} times away; answered by {dict(tally.by)}; "
          f"the slowest took {tally.slowest:.2f} s")
    print("  ".join(f"{method} {status}: {count}" for (method, status), count in sorted(tally.statuses.items(), key=str)))
    print(f"GETs that failed: {len(tally.failed)}; POSTs not answered with 200: {lost} of {posts}; "
          f"POSTs delivered twice: {len(twice)}; lines of the log: {text.count(chr(10))}")
    for number, status in tally.failed[:10]:
        print(f"  GET /{number}: {status}", *(line for line in text.splitlines() if f"GET /{number} " in line), sep="\n    ")
    return 1 if tally.failed or twice or not tally.number or kills == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
