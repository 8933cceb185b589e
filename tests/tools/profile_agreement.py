#!/usr/bin/env python3
"""Howdah's profiles beside Excimer's: do both name the same functions, and what does each cost?

A server runs WordPress of Debian's package (or the site in demo/, with --demo) with a MariaDB of its own. In each round a
client walks through its pages for some seconds, one request after the other: without a profile, with `howdah profile`, and
with Excimer (Debian's php-excimer), which is loaded all the time and starts with a request that asks for it. The order
changes from round to round. Both take a sample every 10 ms of the clock on the wall.

Printed are the ten functions with most inclusive time of all rounds, as Excimer finds them, with their shares in both
profiles; how many of them are among Howdah's ten; the median of each round's mean time of a request, and processor time of
its script, beside that without a profile; and the lower quartile of each page's processor time in all rounds, which other
programs on the machine disturb least. Exit status 1 if fewer than eight agree.

That takes a release build, php-excimer and wordpress with mariadb-server, and an idle machine.

    tests/tools/profile_agreement.py [--howdah PROGRAM] [--rounds 10] [--seconds 5] [--demo]
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests"), str(ROOT / "bench")]
from peers import free_port  # noqa: E402
from peers.processes import Process, Unusable, plain_user  # noqa: E402

TOP, AGREEING = 10, 8
PERIOD = 0.01
PAGES = ("/", "/day-1/", "/day-7/", "/day-20/", "/2025/03/", "/?s=sand", "/feed/")
DEMO_PAGES = ("/", "/guestbook", "/facts", "/about", "/feed")
MODES = ("plain", "howdah", "excimer")
# Calls that are no functions: Excimer calls them by their files.
UNNAMED = re.compile(r"^(\{main\}|include\(\)|eval\(\)|/.*)")

# A request with the field X-Excimer adds its stacks to a file.
PREPEND = """<?php
if (isset($_SERVER['HTTP_X_EXCIMER'])) {{
    $excimer = new ExcimerProfiler();
    $excimer->setEventType(EXCIMER_REAL);
    $excimer->setPeriod({period});
    $excimer->start();
    register_shutdown_function(static function () use ($excimer): void {{
        $excimer->stop();
        file_put_contents('{file}', $excimer->getLog()->formatCollapsed(), FILE_APPEND | LOCK_EX);
    }});
}}
"""


def read_folded(text):
    """Returns {stack, as a tuple of its calls with the outermost first: samples}."""
    stacks = collections.Counter()
    for line in text.splitlines():
        calls, _, count = line.rpartition(" ")
        if calls and count.isdigit():
            stacks[tuple(calls.split(";"))] += int(count)
    return stacks


def inclusive(stacks):
    """Returns {function: share of the samples in it or in what it called}. Each counts once for a stack."""
    total = sum(stacks.values())
    functions = collections.Counter()
    for calls, count in stacks.items():
        for name in {name_of(call) for call in calls} - {None}:
            functions[name] += count
    return {name: count / total for name, count in functions.items()} if total else {}


def name_of(call):
    """The name of a function as both profilers have it; None for a file or the code of one.

    Excimer names a closure by its file and line, Howdah does not.
    """
    if not call or UNNAMED.match(call):
        return None
    return "{closure}" if "{closure" in call else call.lstrip("\\")


def top(shares, count=TOP):
    """The functions with most inclusive time."""
    return sorted(shares, key=lambda name: (-shares[name], name))[:count]


def agreement(excimer, howdah):
    """How many of Excimer's functions with most inclusive time are among those of Howdah."""
    return len(set(top(excimer)) & set(top(howdah)))


class Site:
    """A running server."""

    def __init__(self, directory, arguments):
        self.directory, self.howdah, self.database = directory, arguments.howdah, None
        self.pages = DEMO_PAGES if arguments.demo else PAGES
        self.stacks = directory / "excimer"
        self.stacks.mkdir()
        if user := plain_user():
            shutil.chown(self.stacks, user, user)
        root = self.make_demo() if arguments.demo else self.make_wordpress()
        prepend, ini = directory / "prepend.php", directory / "php.ini"
        prepend.write_text(PREPEND.format(period=PERIOD, file=self.stacks / "folded"))
        ini.write_text(f"extension=excimer\nauto_prepend_file={prepend}\nopcache.enable=1\n")
        self.port = free_port()
        document = directory / "howdah.json"
        document.write_text(json.dumps({
            "listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}},
            "routes": [{"action": {"share": f"{root}$uri", "index": ["index.php"], "scripts": "applications/site/direct",
                                   "fallback": {"pass": "applications/site/front"}}}],
            "applications": {"site": {
                "type": "php", "processes": 1, "options": {"file": str(ini)}, "environment": {"DATA": str(self.stacks)},
                "targets": {"direct": {"root": str(root)}, "front": {"root": str(root), "script": "index.php"}}}},
        }))
        self.control = directory / "control"
        self.server = Process("howdah", [self.howdah, "serve", "--config", document, "--control", f"unix:{self.control}",
                                         "--log", directory / "log", "--tmp", self.stacks], directory / "output")
        try:
            self.server.wait_for_http(self.port)
        except Unusable:
            self.stop()
            raise

    def make_wordpress(self):
        import wordpress  # needs MariaDB
        self.database = wordpress.WordPress(self.directory / "wordpress")
        return self.database.root

    def make_demo(self):
        shutil.copytree(ROOT / "demo", self.directory / "demo")
        subprocess.run(["chmod", "-R", "a+rX", self.directory / "demo"], check=True)
        return self.directory / "demo/public"

    def stop(self):
        self.server.stop()
        if self.database:
            self.database.stop()

    def walk(self, seconds, mode):
        """Asks for the pages in turn; returns the mean time of a request in seconds, and the processor times of the scripts
        by page."""
        fields = {"X-Excimer": "1"} if mode == "excimer" else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began, requests = time.monotonic(), 0
        # Whole walks: each mode has the same pages.
        while time.monotonic() - began < seconds:
            for page in self.pages:
                connection.request("GET", page, headers=fields)
                answer = connection.getresponse()
                answer.read()
                if answer.status >= 400:
                    raise Unusable(f"{page}: {answer.status}")
                requests += 1
        mean = (time.monotonic() - began) / requests
        listed = subprocess.run([self.howdah, "requests", "--json", "--number", str(requests), "--control", f"unix:{self.control}"],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        processor = collections.defaultdict(list)
        for place, line in enumerate(listed.splitlines()):
            processor[self.pages[place % len(self.pages)]].append(json.loads(line)["cpu"])
        return mean, processor

    def round(self, seconds, mode):
        """Returns what `walk` returns, and the stacks of a profile."""
        if mode != "howdah":
            return self.walk(seconds, mode), collections.Counter()
        output = self.directory / "profile.folded"
        output.unlink(missing_ok=True)
        # The profile begins before the walk and ends with it.
        profile = subprocess.Popen([self.howdah, "profile", "site", "--seconds", str(int(seconds) + 1), "--output", output,
                                    "--control", f"unix:{self.control}"], stderr=subprocess.PIPE, text=True)
        time.sleep(0.3)
        walked = self.walk(seconds, mode)
        _, said = profile.communicate()
        if profile.returncode:
            raise Unusable(f"howdah profile: {said}")
        return walked, read_folded(output.read_text())


def compare(site, rounds, seconds):
    """Runs the rounds; returns what `walk` returned by mode, and Howdah's and Excimer's stacks."""
    times, own = {mode: [] for mode in MODES}, collections.Counter()
    for mode in MODES:
        site.round(1, mode)  # fills OPcache
    (site.stacks / "folded").unlink(missing_ok=True)
    for number in range(rounds):
        turn = number % len(MODES)
        for mode in MODES[turn:] + MODES[:turn]:
            walked, stacks = site.round(seconds, mode)
            times[mode].append(walked)
            own.update(stacks)
        print(f"round {number + 1}: " + ", ".join(f"{mode} {times[mode][-1][0] * 1000:.2f} ms" for mode in MODES), flush=True)
    return times, own, read_folded((site.stacks / "folded").read_text())


def wall(walked):
    return walked[0]


def processor_mean(walked):
    return statistics.mean(value for values in walked[1].values() for value in values)


def undisturbed(walks):
    """Returns the mean over the pages of the lower quartile of their processor times in all walks."""
    pages = collections.defaultdict(list)
    for _, processor in walks:
        for page, values in processor.items():
            pages[page] += values
    return statistics.mean(statistics.quantiles(values, n=4)[0] for values in pages.values())


def report(times, own, other):
    """Prints what was found; returns the number of functions that agree."""
    howdah, excimer = inclusive(own), inclusive(other)
    print(f"\n{sum(own.values())} samples of Howdah, {sum(other.values())} of Excimer; inclusive time:")
    both = set(top(howdah))
    for name in top(excimer):
        print(f"{excimer[name]:7.1%} {howdah.get(name, 0):7.1%} {' ' if name in both else '!'} {name}")
    for mode in MODES[1:]:
        for measure, what in ((wall, "time"), (processor_mean, "processor time")):
            ratios = [measure(after) / measure(before) for after, before in zip(times[mode], times["plain"], strict=True)]
            print(f"{mode}: {what} of a request {statistics.median(ratios) - 1:+.1%} (median of {len(ratios)} rounds, "
                  f"{min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%})")
        print(f"{mode}: lower quartile of the processor time of a page {undisturbed(times[mode]) / undisturbed(times['plain']) - 1:+.1%}")
    agreeing = agreement(excimer, howdah)
    print(f"{agreeing} of the {TOP} functions with most inclusive time agree")
    return agreeing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target/release/howdah", type=pathlib.Path)
    parser.add_argument("--rounds", default=10, type=int)
    parser.add_argument("--seconds", default=5, type=float)
    parser.add_argument("--demo", action="store_true")
    arguments = parser.parse_args()
    arguments.howdah = arguments.howdah.resolve()
    with tempfile.TemporaryDirectory(prefix="howdah-profile-") as directory:
        os.chmod(directory, 0o755)
        try:
            site = Site(pathlib.Path(directory), arguments)
        except Unusable as problem:
            sys.exit(f"{problem}")
        try:
            agreeing = report(*compare(site, arguments.rounds, arguments.seconds))
        except Unusable as problem:
            sys.exit(f"{problem}\n{site.server.told()}")
        finally:
            site.stop()
    sys.exit(0 if agreeing >= AGREEING else 1)


if __name__ == "__main__":
    main()
