#!/usr/bin/env python3
"""WebSockets through the proxy, judged by Autobahn's test suite (some 500 cases).

Runs the suite's client against an echo server twice, directly and through Howdah, and compares
case by case: cases that the server passes without a proxy must pass behind one.

    tests/tools/websocket.py [--howdah PROGRAM] [--cases '1.*,2.*'] [--tools DIRECTORY]

The suite is for Python 2.7 (pyenv has it; PYTHON2 names another one); it and the echo server's
library come from pip, and are kept in DIRECTORY (~/.cache/howdah-websocket).
"""

import argparse
import glob
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from peers import free_port  # noqa: E402

SUITE = "autobahntestsuite==25.10.1"
LIBRARY = "websockets==15.0.1"
ECHO = """
import asyncio, sys, websockets

async def echo(connection):
    async for message in connection:
        await connection.send(message)

async def main():
    options = dict(max_size=None, max_queue=None, ping_interval=None)
    async with websockets.serve(echo, "127.0.0.1", int(sys.argv[1]), **options):
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""
RIGHT = {"OK", "NON-STRICT", "INFORMATIONAL"}


def python2():
    found = [os.environ.get("PYTHON2", "")]
    found += glob.glob(os.path.expanduser("~/.pyenv/versions/2.7*/bin/python2.7"))
    found += ["/usr/bin/python2.7"]
    return next((path for path in found if os.access(path, os.X_OK)), None)


def prepare(tools, old):
    """Installs missing packages; returns the interpreter of the echo server."""
    suite, venv = tools / "suite", tools / "venv"
    if not (suite / "autobahntestsuite").exists():
        subprocess.run([old, "-m", "pip", "install", "-q", "--target", suite, SUITE], check=True)
        (suite / "zope" / "__init__.py").touch()
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", LIBRARY], check=True)
    return venv / "bin" / "python"


def wait_for(port):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nobody listens on port {port}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--howdah", default="target/debug/howdah")
    parser.add_argument("--cases", default="*")
    parser.add_argument("--tools", default="~/.cache/howdah-websocket")
    options = parser.parse_args()
    old = python2() or sys.exit("Python 2.7 is needed: pyenv install 2.7.18")
    tools = pathlib.Path(options.tools).expanduser()
    python = prepare(tools, old)
    running = []
    with tempfile.TemporaryDirectory(prefix="howdah-websocket-") as directory:
        work = pathlib.Path(directory)
        work.chmod(0o755)
        echo, proxy = free_port(), free_port()
        (work / "echo.py").write_text(ECHO)
        (work / "config.json").write_text(json.dumps({
            "listeners": {f"127.0.0.1:{proxy}": {"pass": "routes"}},
            "routes": [{"action": {"proxy": f"http://127.0.0.1:{echo}"}}],
        }))
        (work / "spec.json").write_text(json.dumps({
            "outdir": str(work / "reports"),
            "servers": [
                {"agent": "direct", "url": f"ws://127.0.0.1:{echo}"},
                {"agent": "howdah", "url": f"ws://127.0.0.1:{proxy}"},
            ],
            "cases": options.cases.split(","),
            "exclude-cases": [],
            "exclude-agent-cases": {},
        }))
        try:
            # It reports each violation that the suite commits.
            running.append(subprocess.Popen(
                [python, work / "echo.py", str(echo)], stderr=subprocess.DEVNULL))
            wait_for(echo)
            serve = [options.howdah, "serve", "--config", work / "config.json"]
            running.append(subprocess.Popen(
                [*serve, "--tmp", work, "--log", work / "log"], stdout=subprocess.DEVNULL))
            wait_for(proxy)
            with open(work / "output", "wb") as output:
                start = "from autobahntestsuite.wstest import run; run()"
                subprocess.run(
                    [old, "-c", start, "-m", "fuzzingclient", "-s", work / "spec.json"],
                    env={**os.environ, "PYTHONPATH": str(tools / "suite")},
                    stdout=output, stderr=output, check=False,
                )
            index = work / "reports" / "index.json"
            if not index.exists():
                sys.exit((work / "output").read_text(errors="replace")[-3000:])
            return compare(json.loads(index.read_text()))
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait()


def compare(index):
    direct, proxied = index["direct"], index["howdah"]
    right = lambda result: result["behavior"] in RIGHT and result["behaviorClose"] in RIGHT
    shown = lambda result: f"{result['behavior']}/{result['behaviorClose']}"
    same = lambda one, other: shown(one) == shown(other)
    for name in sorted(direct, key=lambda name: [int(part) for part in name.split(".")]):
        if not same(direct[name], proxied[name]):
            print(f"{name}: direct {shown(direct[name])}, through Howdah {shown(proxied[name])}")
    wrong = [name for name in direct if right(direct[name]) and not right(proxied[name])]
    good = [sum(map(right, results.values())) for results in (direct, proxied)]
    print(f"{len(direct)} cases: {good[0]} right directly, {good[1]} through Howdah")
    return 1 if wrong or set(direct) != set(proxied) else 0


if __name__ == "__main__":
    sys.exit(main())
