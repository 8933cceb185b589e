#!/usr/bin/env python3
"""Upgrades a server again and again under load, and counts what clients, processes and descriptors
show of it. Needs wrk, curl and openssl.

usage: tests/tools/upgrades.py HOWDAH [--upgrades N]

HOWDAH is a built program with its howdah-php beside it; a release build for figures to publish.
Prints the figures, and exits with 1 if a request has failed, or anything is left over.
"""

import argparse
import atexit
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """{
    "listeners": {
        "127.0.0.1:%(port)d": {"pass": "routes"},
        "127.0.0.1:%(tls)d": {"pass": "routes", "tls": {"certificate":
            {"chain": "%(dir)s/chain.pem", "key": "%(dir)s/key.pem"}}}
    },
    "routes": [{"action": {"share": "%(dir)s/www$uri", "index": ["index.php"],
        "scripts": "applications/site"}}],
    "applications": {"site": {"type": "php", "root": "%(dir)s/www", "processes": 2}}
}"""


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options)


def children(root):
    """Returns the processes below `root`, each with its title and its number of descriptors."""
    found, parents = {}, [root]
    every = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            parent = int(re.search(r"^PPid:\s*(\d+)", status, re.M)[1])
        except (OSError, TypeError, ValueError):
            continue
        if not re.search(r"^State:\s*Z", status, re.M):
            every[int(entry.name)] = (parent, title)
    while parents:
        above = parents.pop()
        for pid, (parent, title) in every.items():
            if parent == above:
                parents.append(pid)
                found[pid] = title
    return found


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def settled(root):
    """Returns titles of processes and numbers of descriptors once the workers run."""
    for _ in range(200):
        below = children(root)
        titles = sorted(below.values())
        if sum("application" in title for title in titles) == 2:
            break
        time.sleep(0.05)
    titles = [title for title in titles if "control" not in title]
    router = next(pid for pid, title in below.items() if "router" in title)
    return titles, {"supervisor": descriptors(root), "router": descriptors(router)}


class Load:
    """A client that runs until it is stopped."""

    def __init__(self, name, *command):
        self.name = name
        self.client = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def stop(self):
        """Returns the number of requests, and the lines about failures."""
        self.client.send_signal(signal.SIGINT)
        output, _ = self.client.communicate(timeout=60)
        requests = re.search(r"(\d+) requests in", output)
        bad = [line.strip() for line in output.splitlines() if "errors" in line or "Non-2xx" in line]
        return int(requests[1]) if requests else 0, bad if requests else [output]


CURL_LOOP = """
total=0; failed=0
trap 'echo "$total requests in the loop"; [ $failed = 0 ] || echo "errors $failed"; exit' INT
while :; do
    codes=$(curl --http2 -sk -o /dev/null -w '%%{http_code}\\n' "https://127.0.0.1:%d/a.txt?[1-200]")
    total=$((total + $(echo "$codes" | wc -l)))
    failed=$((failed + $(echo "$codes" | grep -vc '^200$')))
done
"""


def end(pid_file):
    """Ends the server, also after an error in this program."""
    try:
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
    except (OSError, ValueError):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("howdah", type=pathlib.Path)
    parser.add_argument("--upgrades", type=int, default=50)
    parser.add_argument("--port", type=int, default=18_471)
    arguments = parser.parse_args()
    for needed in ("wrk", "curl", "openssl"):
        if not shutil.which(needed):
            parser.error(f"{needed} is missing; install it")
    place = pathlib.Path(tempfile.mkdtemp(prefix="howdah-upgrades-"))
    place.chmod(0o755)
    www = place / "www"
    www.mkdir(mode=0o755)
    (www / "a.txt").write_text("hello\n")
    (www / "index.php").write_text("<?php echo 'hello';")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
        "/CN=localhost", "-keyout", f"{place}/key.pem", "-out", f"{place}/chain.pem")
    port = arguments.port
    (place / "config.json").write_text(CONFIG % {"port": port, "tls": port + 1, "dir": place})
    environment = dict(os.environ, HOWDAH_RUNTIME_DIR=f"{place}/run", XDG_STATE_HOME=f"{place}/state")
    program = arguments.howdah.resolve()
    server = subprocess.Popen(
        [str(program), "serve", "--config", place / "config.json", "--log", place / "log", "--pid",
         place / "pid"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    atexit.register(end, place / "pid")
    while "Serving" not in (line := server.stdout.readline()):
        assert line, "it does not start"
    pid = server.pid
    base = f"http://127.0.0.1:{port}"
    urls = [f"{base}/a.txt", f"{base}/index.php"]
    subprocess.run(["curl", "-s", *urls], capture_output=True, check=True)
    before = settled(pid)
    forever = ["-t1", "-c8", "-d3600"]
    loads = [
        Load("keep-alive, file", "wrk", *forever, urls[0]),
        Load("keep-alive, PHP", "wrk", *forever, urls[1]),
        Load("a connection for each request", "wrk", *forever, "-H", "Connection: close", urls[0]),
        Load("the same with PHP", "wrk", *forever, "-H", "Connection: close", urls[1]),
        Load("HTTP/2", "bash", "-c", CURL_LOOP % (port + 1)),
    ]
    time.sleep(1)
    times, problems = [], []
    for number in range(arguments.upgrades):
        begun = time.monotonic()
        upgraded = subprocess.run([program, "upgrade"], env=environment, text=True,
                                  capture_output=True)
        times.append(time.monotonic() - begun)
        if upgraded.returncode:
            problems.append(f"upgrade {number}: {upgraded.stderr.strip()}")
            break
        old, pid = pid, int((place / "pid").read_text())
        while pathlib.Path(f"/proc/{old}/cmdline").exists() and \
                pathlib.Path(f"/proc/{old}/cmdline").read_bytes():
            time.sleep(0.02)
            if number == 0:
                server.poll()
        if number == 0:
            server.wait()
    time.sleep(1)
    for load in loads:
        requests, bad = load.stop()
        print(f"{load.name}: {requests} requests, {'; '.join(bad) or 'no failure'}")
        problems += bad
    time.sleep(1)
    after = settled(pid)
    print(f"{len(times)} upgrades, {sorted(times)[len(times) // 2]:.2f} s each (median), "
          f"{max(times):.2f} s at most")
    print(f"before: {len(before[0])} processes, descriptors {before[1]}")
    print(f"after: {len(after[0])} processes, descriptors {after[1]}")
    if before[0] != after[0]:
        problems.append(f"processes: {before[0]} before, {after[0]} after")
    for process, count in after[1].items():
        if count > before[1][process]:
            problems.append(f"{process} has more descriptors than before")
    # 499: a client that has stopped, at the end.
    others = [line for line in (place / "log").read_text().splitlines()
              if "[notice]" not in line and ": 499: " not in line]
    problems += others[:10]
    os.kill(pid, signal.SIGTERM)
    while pathlib.Path(f"/proc/{pid}/cmdline").exists() and \
            pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        time.sleep(0.02)
    left = [title for title in children(1).values() if str(place) in title]
    problems += [f"left over: {title}" for title in left]
    for problem in problems:
        print("problem:", problem)
    if not problems:
        shutil.rmtree(place)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
