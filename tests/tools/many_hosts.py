#!/usr/bin/env python3
"""Many hosts in one document: how long it takes to parse and apply, what it needs in memory, and what a
request costs beside a document with one host.

    tests/tools/many_hosts.py [--howdah PROGRAM] [--hosts 10000] [--seconds 3]

Each host has two names, a directory and a file. wrk sends the requests.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORT = 18980


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def document(directory, count, extra=""):
    def step(number):
        name = f"site{number:05}.example"
        return {
            "match": {"host": [name, f"www.{name}"]},
            "action": {"share": f"{directory}/{number}$uri", "response_headers": {"X-Site": f"{number}{extra}"}},
        }

    steps = [step(number) for number in range(count)]
    return {
        "listeners": {f"127.0.0.1:{PORT}": {"pass": "routes"}},
        "routes": steps + [{"action": {"return": 404}}],
    }


def put(control, value):
    body = json.dumps(value)
    start = time.monotonic()
    connection = UnixConnection(control)
    connection.request("PUT", "/config", body)
    response = connection.getresponse()
    said = response.read()
    if response.status != 200:
        sys.exit(f"{response.status}: {said[:500]!r}")
    return time.monotonic() - start, len(body)


def memory(server):
    """Proportional set size of each process of the server, in MB."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            if server not in (parent, int(process.name)):
                continue
            title = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            name = title.removeprefix("howdah: ") if title.startswith("howdah: ") else "supervisor"
            text = (process / "smaps_rollup").read_text()
            found[name] = round(int(re.search(r"^Pss: *(\d+)", text, re.M)[1]) / 1024, 1)
        except (OSError, TypeError):
            continue
    return found


def requests(host, seconds):
    command = ["wrk", "-t2", "-c32", f"-d{seconds}s", "-H", f"Host: {host}", f"http://127.0.0.1:{PORT}/a.txt"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(re.search(r"Requests/sec: *([\d.]+)", said)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target" / "release" / "howdah")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        for number in range(options.hosts):
            site = pathlib.Path(directory, str(number))
            site.mkdir()
            (site / "a.txt").write_text("thirteen byte")
        control, log = f"{directory}/control.sock", f"{directory}/log"
        one = document(directory, 1)
        many = document(directory, options.hosts)
        config = pathlib.Path(directory, "many.json")
        config.write_text(json.dumps(many))
        start = time.monotonic()
        subprocess.run([options.howdah, "check", config], check=True, capture_output=True)
        print(f"howdah check: {time.monotonic() - start:.2f} s for {config.stat().st_size / 1e6:.1f} MB")
        server = subprocess.Popen([options.howdah, "serve", "--control", f"unix:{control}",
                                   "--state", f"{directory}/state", "--log", log])
        try:
            while not os.path.exists(control):
                time.sleep(0.05)
            put(control, one)
            time.sleep(1)
            print("memory with one host, MB:", memory(server.pid))
            single = [requests("site00000.example", options.seconds) for _ in range(2)]
            print("requests/s with one host:", [round(rate) for rate in single])
            for extra in ("", "x"):
                seconds, size = put(control, document(directory, options.hosts, extra))
                print(f"PUT of {options.hosts} hosts ({size / 1e6:.1f} MB): {seconds:.2f} s")
            time.sleep(1)
            print("memory, MB:", memory(server.pid))
            last = options.hosts - 1
            for number in (0, last // 2, last):
                rates = [requests(f"www.site{number:05}.example", options.seconds) for _ in range(2)]
                print(f"requests/s to host {number}:", [round(rate) for rate in rates])
            print("requests/s with one host again:", end=" ")
            put(control, one)
            print([round(requests("site00000.example", options.seconds)) for _ in range(2)])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    main()
