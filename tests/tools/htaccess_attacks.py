#!/usr/bin/env python3
"""Costs of a site's `.htaccess` files for the visitors of another one.

For each attack, a server starts with two sites. A visitor with priority over everything else asks the second site for a
file and a script in turn, first in peace, then while clients ask the first site for what its `.htaccess` files make as
expensive as they can: patterns that explode, loops, sub-requests, listings of 100,000 files, large files that change,
passwords, groups. Printed are median, 99th percentile and longest answer for the file and the script, in milliseconds, what
the attackers were answered, and the largest memory of the router. An answer counts as too slow if the median is more than
twice that of a plain file that the same clients ask for as fast as they can (`flood`), or of peace; or if the longest one
takes 100 ms longer than the longest in peace.

That takes root (for the user of the first site), htpasswd, a release build, and an idle machine.

    tests/tools/htaccess_attacks.py [--howdah PROGRAM] [--seconds 5] [--clients 8] [ATTACK ...]
"""

import argparse
import base64
import collections
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from peers import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ATTACKER, VISITED = "games", "www-data"
PEACE = 3.0
# Milliseconds between two requests of the visitor, and of a client of the attacker.
INTERVAL, PAUSE = 4, 2
SLOWER = 100.0
PATIENCE = 60
ATTACKS = {}


def attack(make):
    """An attack: fills the directory of a site, and returns the target of the nth request."""
    ATTACKS[make.__name__] = make
    return make


def repeated(count, line):
    return "".join(line(number) + "\n" for number in range(count))


def fill(directory, rules, target="/x.txt"):
    (directory / "x.txt").write_text("x")
    (directory / ".htaccess").write_text(rules)
    return lambda number: target.format(number)


@attack
def flood(directory):
    """No attack: as many requests for a plain file."""
    return fill(directory, "Options -Indexes\n")


@attack
def many_directories(directory):
    rules = repeated(3000, lambda n: f"RewriteRule ^(a|b){n}[a-z]+$ /y{n}")
    for number in range(200):
        for below in ("", "a", "a/b"):
            place = directory / f"d{number}" / below
            place.mkdir()
            fill(place, f"RewriteEngine on\n# {number}\n{rules}")
    return lambda number: f"/d{number % 200}/a/b/x.txt"


@attack
def loop(directory):
    rules = repeated(3000, lambda n: f"RewriteRule ^[a-m]*{n}$ /z{n}")
    return fill(directory, f"RewriteEngine on\n{rules}RewriteRule ^(.*)$ /x$1 [N=100000]\n", "/" + "a" * 200)


@attack
def edited_fields(directory):
    edits = repeated(3000, lambda n: ("Header edit* X a a", 'Header edit X "^(.*)$" "$1"')[n % 2])
    return fill(directory, f'Header set X "{"a" * 6000}"\n{edits}')


@attack
def many_fields(directory):
    return fill(directory, repeated(45000, lambda n: f"Header set X{n % 300} v{n}"))


@attack
def expressions(directory):
    uri, agent = "%{{REQUEST_URI}} =~ m#^/(a|b|x)*{0}#", "%{{HTTP_USER_AGENT}} =~ m#(x+x+)+y{0}#"
    return fill(directory, repeated(3000, lambda n: f'<If "{uri.format(n)} || {agent.format(n)}">\nHeader set A b\n</If>'))


@attack
def sections(directory):
    section = '<FilesMatch "^[a-z]*{0}\\.(php|txt)$">\nRequire all denied\n</FilesMatch>'
    return fill(directory, repeated(8000, section.format))


@attack
def sub_requests(directory):
    for place in range(300):
        below = directory / f"s{place}"
        below.mkdir()
        conditions = repeated(300, lambda n, place=place: f"RewriteCond /s{(place + n) % 300}/x.txt -U\nRewriteRule ^x{n} -")
        fill(below, "RewriteEngine on\n" + conditions)
    conditions = repeated(3000, lambda n: f"RewriteCond /s{n}/x.txt -{'UF'[n % 2]}\nRewriteRule ^x{n} -")
    return fill(directory, "RewriteEngine on\n" + conditions, "/x{0}.txt")


@attack
def deep_directories(directory):
    place = directory
    for depth in range(100):
        rules = repeated(30, lambda n, depth=depth: f"RewriteCond %{{REQUEST_URI}} ^/(a|b)*{n}\nRewriteRule ^(.*)x{depth}y{n}$ /q$1")
        fill(place, f"RewriteEngine on\nRewriteOptions Inherit\n{rules}")
        place = place / "a"
        place.mkdir()
    (place / "x.txt").write_text("x")
    return lambda number: "/" + "a/" * 100 + "x.txt"


@attack
def looked_for_files(directory):
    conditions = repeated(200, lambda n: f"RewriteCond /none/{n} -d") + "RewriteRule . -\n"
    return fill(directory, "RewriteEngine on\n" + conditions * 40, "/{0}.txt")


@attack
def exploding_patterns(directory):
    rules = repeated(2000, lambda n: f"RewriteRule ^((a+)+)+{n}b$ /q\nRewriteRule ^(a|aa|a.)*{n}c$ /r")
    return fill(directory, f"RewriteEngine on\n{rules}", "/" + "a" * 240)


@attack
def groups(directory):
    (directory / "groups").write_text(("g: " + " ".join(f"u{n}" for n in range(2_000_000)))[:(16 << 20) - 100])
    return protect(directory, ["-s"], f"AuthGroupFile {directory}/groups\n" + repeated(300, lambda n: f"Require group n{n}"))


@attack
def passwords(directory):
    return protect(directory, ["-B", "-C", "12"], "Require valid-user\n")


def protect(directory, kind, rules):
    entry = subprocess.run(["htpasswd", "-nb", *kind, "u", "p"], capture_output=True, text=True, check=True).stdout
    (directory / "users").write_text(entry)
    return fill(directory, f"AuthType Basic\nAuthName x\nAuthUserFile {directory}/users\n{rules}")


def many_files(directory, name):
    place = directory / "l"
    place.mkdir()
    for number in range(100_000):
        (place / name.format(number)).touch()


@attack
def listings(directory):
    many_files(directory, "file-{0}.txt")
    return fill(directory, "Options +Indexes\nIndexOptions FancyIndexing\n", "/l/?C=S;O=D;n={0}")


@attack
def negotiation(directory):
    many_files(directory, "file.{0}.txt")
    return fill(directory, "Options +MultiViews\n", "/l/file")


@attack
def large_files(directory):
    for number in range(20):
        place = directory / f"d{number}"
        place.mkdir()
        fill(place, repeated(28000, lambda n, number=number: f"SetEnvIf User-Agent x{n} y{n}=z{number}"))
    return lambda number: f"/d{number % 20}/x.txt"


@attack
def changing_files(directory):
    fill(directory, "")
    lock = threading.Lock()

    def change(number):
        with lock:
            new = directory / "new"
            new.write_text(repeated(14000, lambda n: f"RedirectMatch ^/y{n}[a-z]{number}$ /q"))
            new.rename(directory / ".htaccess")
        return "/x.txt"
    return change


def visit(port, seconds, pipe):
    """Asks for a file and a script in turn; sends {path: times in milliseconds} and the failures."""
    os.nice(-20)
    times, failures = {"/i.txt": [], "/i.php": []}, collections.Counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path, all_of_it in times.items():
            began = time.monotonic()
            try:
                connection.request("GET", path, headers={"Host": "visited.test"})
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    failures[response.status] += 1
            except (OSError, http.client.HTTPException) as error:
                failures[type(error).__name__] += 1
                connection.close()
            all_of_it.append((time.monotonic() - began) * 1000)
            time.sleep(INTERVAL / 1000)
    pipe.send((times, failures))


def watch(port, seconds):
    """Returns {path: (median, 99th percentile, longest)} of a visitor, and its failures."""
    ours, theirs = multiprocessing.Pipe()
    visitor = multiprocessing.Process(target=visit, args=(port, seconds, theirs))
    visitor.start()
    times, failures = ours.recv()
    visitor.join()
    ordered = {path: sorted(all_of_it) for path, all_of_it in times.items()}
    return {path: (statistics.median(all_of_it), all_of_it[len(all_of_it) * 99 // 100], all_of_it[-1])
            for path, all_of_it in ordered.items()}, failures


def assault(port, target, number, step, over, answers):
    """A client of the attacker."""
    login = base64.b64encode(b"u:p").decode()
    while not over.is_set():
        number += step
        head = f"GET {target(number)} HTTP/1.1\r\nHost: attacker.test\r\nUser-Agent: {'x' * 200}\r\n"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
                client.sendall(f"{head}Authorization: Basic {login}\r\nConnection: close\r\n\r\n".encode())
                answer = client.recv(65536)[9:12].decode() or "closed"
                while client.recv(1 << 20):
                    pass
        except OSError as error:
            answer = type(error).__name__
        answers[answer] += 1
        time.sleep(PAUSE / 1000)


def configuration(port, directory):
    site = {"type": "php", "processes": 1}
    return {
        "listeners": {f"127.0.0.1:{port}": {"pass": "routes"}},
        "routes": [
            {"match": {"host": "attacker.test"}, "action": {"pass": "applications/attacker"}},
            {"match": {"uri": "*.php"}, "action": {"pass": "applications/visited"}},
            {"action": {"share": f"{directory}/visited$uri"}},
        ],
        "applications": {
            "attacker": {**site, "root": f"{directory}/attacker", "user": ATTACKER, "htaccess": True},
            "visited": {**site, "root": f"{directory}/visited", "user": VISITED},
        },
    }


def largest_memory(server):
    """Returns the largest resident memory that the router has had, in megabytes."""
    for child in pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        if "router" in pathlib.Path(f"/proc/{child}/cmdline").read_text():
            status = pathlib.Path(f"/proc/{child}/status").read_text()
            return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10
    return 0


def measure(make, options, directory):
    """Runs an attack. Returns the figures in peace and under attack, failures, the answers to the attackers, and the
    memory of the router."""
    for site in ("attacker", "visited"):
        (directory / site).mkdir()
        (directory / site / "index.php").write_text("<?php echo 1;")
    (directory / "visited/i.txt").write_text("visited")
    (directory / "visited/i.php").write_text("<?php echo 1;")
    target = make(directory / "attacker")
    subprocess.run(["chown", "-R", "-h", ATTACKER, directory / "attacker"], check=True)
    port = free_port()
    (directory / "howdah.json").write_text(json.dumps(configuration(port, directory)))
    server = subprocess.Popen([options.howdah, "serve", "--config", directory / "howdah.json", "--control",
                               f"unix:{directory}/control", "--state", directory / "state", "--log", directory / "log"],
                              stdout=subprocess.DEVNULL)
    try:
        while subprocess.run([options.howdah, "ping", "--control", f"unix:{directory}/control"], capture_output=True).returncode:
            time.sleep(0.1)
        calm, failures = watch(port, PEACE)
        over, answers = threading.Event(), collections.Counter()
        clients = [threading.Thread(target=assault, args=(port, target, n, options.clients, over, answers))
                   for n in range(options.clients)]
        for client in clients:
            client.start()
        attacked, more = watch(port, options.seconds)
        over.set()
        memory = largest_memory(server)
        for client in clients:
            client.join()
    finally:
        server.terminate()
        server.wait()
    return calm, attacked, failures + more, answers, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target/release/howdah")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", type=int, default=4 * (os.cpu_count() or 1))
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    options = parser.parse_args()
    if unknown := set(options.attacks) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    plain, slow = {}, 0
    print(f"{'':19} {'':7} {'in peace':>23}   {'under attack':>23}")
    for name, make in ATTACKS.items():
        if options.attacks and name not in (*options.attacks, "flood"):
            continue
        directory = pathlib.Path(tempfile.mkdtemp(prefix="howdah-attacks-"))
        directory.chmod(0o755)
        try:
            calm, attacked, failures, answers, memory = measure(make, options, directory)
        finally:
            shutil.rmtree(directory)
        plain = plain or {path: median for path, (median, _, _) in attacked.items()}
        for path in attacked:
            allowed = max(2 * calm[path][0], 2 * plain[path] if name != "flood" else 0)
            is_slow = name != "flood" and (attacked[path][0] > allowed or attacked[path][2] > calm[path][2] + SLOWER)
            slow += is_slow
            both = "  ".join("".join(f"{figure:8.2f}" for figure in figures) for figures in (calm[path], attacked[path]))
            print(f"{name:19} {path:7} {both}{'  too slow' if is_slow else ''}")
        slow += bool(failures)
        told = " ".join(f"{answer}: {count}" for answer, count in sorted(answers.items()))
        print(f"{'':19} attackers: {told}; router {memory} MB{f'; failures {dict(failures)}' if failures else ''}", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
