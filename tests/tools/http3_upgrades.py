#!/usr/bin/env python3
"""Upgrades and reloads a server again and again while clients download over HTTP/3, and counts what is
cut. Needs openssl and aioquic (pip install aioquic).

usage: tests/tools/http3_upgrades.py HOWDAH [--upgrades N] [--reloads N] [--clients N] [--size BYTES]

HOWDAH is a built program with its howdah-php beside it. The reloads are spread over the upgrades. A
request that the server rejects before it has answered (H3_REQUEST_REJECTED, or GOAWAY with the end of the
connection) is sent again on another connection, as the standard says, and counted as such. Prints the
figures, and exits with 1 if a download was cut or a handshake has failed.
"""

import argparse
import asyncio
import collections
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

NO_ERROR, REQUEST_REJECTED = 0x100, 0x10B


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cut(Exception):
    """A download has ended before its end."""


class Rejected(Exception):
    """The request was not processed."""


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http, self.downloads = H3Connection(self._quic), {}

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            for stream in list(self.downloads):
                self.end(stream, event.error_code)
        elif isinstance(event, StreamReset):
            self.end(event.stream_id, event.error_code)
        for event in self.http.handle_event(event):
            download = self.downloads.get(event.stream_id)
            if download is None:
                continue
            if isinstance(event, HeadersReceived):
                download["head"] = dict(event.headers)
            elif isinstance(event, DataReceived):
                download["length"] += len(event.data)
            if event.stream_ended:
                self.downloads.pop(event.stream_id)["done"].set_result(None)

    def end(self, stream, code):
        download = self.downloads.pop(stream, None)
        if download and not download["done"].done():
            is_unprocessed = not download["head"] and code in (NO_ERROR, REQUEST_REJECTED)
            error = Rejected() if is_unprocessed else Cut(f"{download['length']} bytes, {code:#x}")
            download["done"].set_exception(error)

    async def get(self, path):
        stream = self._quic.get_next_available_stream_id()
        done = asyncio.get_running_loop().create_future()
        self.downloads[stream] = download = {"done": done, "length": 0, "head": {}}
        self.http.send_headers(stream, [
            (b":method", b"GET"), (b":scheme", b"https"),
            (b":authority", b"localhost"), (b":path", path.encode())], end_stream=True)
        self.transmit()
        await done
        return download["head"].get(b":status"), download["length"]


class Load:
    def __init__(self, port, size):
        self.port, self.size, self.done, self.ending = port, size, False, []
        self.counts, self.problems = collections.Counter(), collections.Counter()

    async def run(self, number):
        configuration = QuicConfiguration(
            alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE, idle_timeout=60,
            server_name="localhost")
        while not self.done:
            connection = connect(
                "127.0.0.1", self.port, configuration=configuration, create_protocol=Client)
            try:
                client = await connection.__aenter__()
                self.counts["connections"] += 1
                try:
                    while not self.done:
                        answer = await client.get("/large.bin")
                        if answer != (b"200", self.size):
                            raise Cut(f"{answer}")
                        self.counts["downloads"] += 1
                finally:
                    # It takes several round trips to end.
                    self.ending.append(asyncio.create_task(connection.__aexit__(None, None, None)))
            except Rejected:
                self.counts["sent again"] += 1
            except Cut as cut:
                self.problems[f"cut: {cut}"] += 1
            except (ConnectionError, OSError) as error:
                self.problems[f"handshake: {error}"] += 1


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stdout}{done.stderr}")


async def steps(arguments, control, load):
    """Makes the upgrades and reloads. Returns how often an upgrade had to wait for the former server."""
    waits = 0
    for number in range(arguments.upgrades):
        while True:
            upgrade = await asyncio.create_subprocess_exec(
                arguments.howdah, "upgrade", "--control", control,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
            said = (await upgrade.communicate())[0].decode()
            if upgrade.returncode == 0:
                break
            if "still finishes requests" not in said:
                sys.exit(f"upgrade {number}: {said}")
            waits += 1
        reloads = arguments.reloads * (number + 1) // arguments.upgrades
        for _ in range(reloads - arguments.reloads * number // arguments.upgrades):
            reload = await asyncio.create_subprocess_exec(
                arguments.howdah, "reload", "--control", control,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
            said = (await reload.communicate())[1].decode()
            if reload.returncode:
                sys.exit(f"reload: {said}")
    return waits


async def measure(arguments, directory):
    port, control = free_port(), f"unix:{directory}/control.sock"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", f"{directory}/key.pem", "-out", f"{directory}/chain.pem", "-days", "2",
        "-subj", "/CN=localhost")
    www = directory / "www"
    www.mkdir()
    (www / "large.bin").write_bytes(b"x" * arguments.size)
    for path in (directory, www):
        path.chmod(0o755)
    tls = {"certificate": {"chain": f"{directory}/chain.pem", "key": f"{directory}/key.pem"}}
    document = directory / "config.json"
    document.write_text(json.dumps({
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes", "tls": tls, "http3": True}},
        "routes": [{"action": {"share": f"{www}$uri"}}]}))
    log = (directory / "log").open("w")
    server = await asyncio.create_subprocess_exec(
        arguments.howdah, "serve", "--config", document, "--control", control,
        "--pid", directory / "pid", stdout=log, stderr=log)
    while not (directory / "pid").exists() or not (directory / "control.sock").exists():
        if server.returncode is not None:
            sys.exit((directory / "log").read_text())
        await asyncio.sleep(0.05)
    load = Load(port, arguments.size)
    clients = [asyncio.create_task(load.run(number)) for number in range(arguments.clients)]
    while load.counts["downloads"] < arguments.clients and not load.problems:
        await asyncio.sleep(0.05)
    begun = time.monotonic()
    try:
        waits = await steps(arguments, control, load)
        seconds = time.monotonic() - begun
        load.done = True
        await asyncio.gather(*clients)
        await asyncio.gather(*load.ending)
    finally:
        run("kill", "-TERM", (directory / "pid").read_text().strip())
    if load.problems:
        print((directory / "log").read_text())
    print(f"{arguments.upgrades} upgrades, {arguments.reloads} reloads, {arguments.clients} clients, "
          f"{seconds:.0f} s; {waits} upgrades waited for the former server")
    for name, count in sorted(load.counts.items()):
        print(f"{name}: {count}")
    for name, count in load.problems.items():
        print(f"FAILED {name}: {count}")
    return 1 if load.problems else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("howdah")
    parser.add_argument("--upgrades", type=int, default=50)
    parser.add_argument("--reloads", type=int, default=200)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--size", type=int, default=1 << 20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(asyncio.run(measure(arguments, pathlib.Path(directory))))


if __name__ == "__main__":
    main()
