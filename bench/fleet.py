"""Many WordPress sites in little memory: waiting times of visitors, failures, and processes that the kernel kills.

All sites share the code of Debian's package, unless each is to have a copy; each has a host, a configuration and
a database of its own. A server and its PHP processes are in a control group of limited memory, MariaDB and the visitors are outside.
Visits begin at fixed times, independent of the server (an open loop), and are the same for each server: a server
that is too slow for them gets a queue, and one that loses requests does not get fewer.
"""

import os
import random
import shutil
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import machine
import sites
from control_group import MemoryGroup
from figures import percentile
from processes import Unusable, fetch, machine_busy_time, processor_time
from wordpress import WordPress

SITES, QUICK_SITES = 200, 20
SECONDS, QUICK_SECONDS = 600, 30
MEMORY_MIB = 512
# Visits per second.
RATE = 1.0
# Zipf's exponent: the site of rank n gets a share of visits in proportion to 1 / n ** EXPONENT.
EXPONENT = 1.0
SEED = 2026
# Seconds without requests after which a process ends.
IDLE_SECONDS = 10
# The report tells how many visits came to a site that had none for so many seconds.
PAUSES = (IDLE_SECONDS, 60)
# Processes that a site has at most.
WORKERS = 2
# Processes that all sites together have at most, if they share an application.
SHARED_WORKERS = 16
# Seconds after which a visitor gives up.
PATIENCE = 60
# So many visitors can wait at the same time; later visits begin late.
MAX_WAITING = 400
# Pages with the site's name in their title.
PATHS = ("/", "/day-1/", "/day-7/", "/day-20/")

# As that of Debian's package, which looks for the configurations in /etc/wordpress.
CHOOSER = """<?php
require '{configurations}/config-' . preg_replace('/[^a-z0-9.-]/', '', strtolower($_SERVER['HTTP_HOST'])) . '.php';
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEBUG', false);
if (!defined('ABSPATH')) {{
    define('ABSPATH', __DIR__ . '/');
}}
require_once ABSPATH . 'wp-settings.php';
"""
CONFIGURATION = """<?php
define('DB_NAME', '{database}');
define('DB_USER', 'bench');
define('DB_PASSWORD', 'bench');
define('DB_HOST', 'localhost:{socket}');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
define('AUTH_KEY', '{database}-a');
define('SECURE_AUTH_KEY', '{database}-b');
define('LOGGED_IN_KEY', '{database}-c');
define('NONCE_KEY', '{database}-d');
define('AUTH_SALT', '{database}-e');
define('SECURE_AUTH_SALT', '{database}-f');
define('LOGGED_IN_SALT', '{database}-g');
define('NONCE_SALT', '{database}-h');
$table_prefix = 'wp_';
"""

# WordPress stores some results of its first page; without this, the server measured first would compute them.
FIRST_VISIT = r"""<?php
foreach (['HTTP_HOST' => '127.0.0.1', 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1'] as $name => $value) {
    $_SERVER[$name] = $value;
}
require __DIR__ . '/index.php';
"""

# Standard input has a line for each copy: database, host, title.
CLONER = r"""<?php
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$server = new mysqli('localhost', 'root', '', null, 0, $argv[1]);
$server->query("GRANT ALL ON `fleet\\_%`.* TO 'bench'@'localhost'");
$tables = array_column($server->query('SHOW TABLES FROM wordpress')->fetch_all(), 0);
while (($line = fgets(STDIN)) !== false) {
    [$database, $host, $title] = explode("\t", trim($line));
    $server->query("CREATE DATABASE $database CHARACTER SET utf8mb4");
    foreach ($tables as $table) {
        $server->query("CREATE TABLE $database.$table LIKE wordpress.$table");
        $server->query("INSERT INTO $database.$table SELECT * FROM wordpress.$table");
    }
    $server->query("UPDATE $database.wp_options SET option_value = IF(option_name = 'blogname', '$title', 'http://$host')
                    WHERE option_name IN ('siteurl', 'home', 'blogname')");
}
echo 'cloned';
"""


def title(site):
    """The name of a site's WordPress, which is part of the title of its pages."""
    return f"The Caravan of {site}"


class Fleet(WordPress):
    """One installation of WordPress, and copies of its database, each with its own name and address."""

    def __init__(self, directory, names):
        super().__init__(directory)
        try:
            self.php("first-visit.php", FIRST_VISIT, "</html>")
            lines = "".join(f"{database(site)}\t{sites.host(site)}\t{title(site)}\n" for site in names)
            self.php("clone.php", CLONER, "cloned", str(self.socket), given=lines)
            configurations = directory / "configurations"
            configurations.mkdir()
            for site in names:
                (configurations / f"config-{sites.host(site)}.php").write_text(
                    CONFIGURATION.format(database=database(site), socket=self.socket))
            (self.root / "wp-config.php").write_text(CHOOSER.format(configurations=configurations))
            (self.root / "small.txt").write_text("Hello, world!")
        except BaseException:
            self.stop()
            raise

    def php(self, name, text, end, *arguments, given=""):
        """Runs a script in the root, which has to print a text that ends with `end`."""
        script = self.root / name
        script.write_text(text)
        done = subprocess.run([f"php{machine.php()}", "-d", "display_errors=stderr", script, *arguments], cwd=self.root, input=given,
                              capture_output=True, text=True, check=False)
        script.unlink()
        if not done.stdout.rstrip().endswith(end):
            raise Unusable(f"{name} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def copies(self, names):
        """A copy of the code for each site, as on hosts where users upload theirs; returns the directory that has them."""
        root = self.root.parent / "copies"
        root.mkdir()
        for site in names:
            # PHP knows files by their paths, so links are copies for it.
            shutil.copytree(self.root, root / site, copy_function=os.link)
        return root

    def forget(self):
        """Closes MariaDB's tables, so that each server finds the same state."""
        self.php("forget.php", "<?php (new mysqli('localhost', 'root', '', null, 0, $argv[1]))->query('FLUSH TABLES'); echo 'done';",
                 "done", str(self.socket))


def database(site):
    """The name of a site's database."""
    return "fleet_" + site.replace("-", "_")


class Limited:
    """A server in a control group. All sites have the same root, unless `copies` has one for each."""

    def __init__(self, place, names, group, workers, copies):
        self.group, self.workers, self.copies = group, workers, copies
        super().__init__(place, names)

    def run(self, name, command, environment=None):
        """Starts a program in the group."""
        return super().run(name, self.group.command(command), environment)

    def root(self, site):
        """The root of a site."""
        return self.copies / site if self.copies else self.place.root


class Howdah(Limited, sites.Howdah):
    """Howdah with an application for each site."""

    def action(self, site):
        return {"share": f"{self.root(site)}$uri", "index": ["index.php"], "scripts": f"applications/{site}/direct",
                "fallback": {"pass": f"applications/{site}/front"}}

    def application(self, site):
        root = str(self.root(site))
        return {"type": "php", "options": {"file": str(self.place.ini)},
                "targets": {"direct": {"root": root}, "front": {"root": root, "script": "index.php"}},
                "processes": {"max": self.workers, "spare": 0, "idle_timeout": IDLE_SECONDS}}


class HowdahShared(Howdah):
    """Howdah with one application for all sites, as sites with `php.shared` have."""

    def start(self):
        name = {"map": "$host", "values": {sites.host(site): site for site in self.sites}, "default": "none"}
        routes = {site: [{"action": {"pass": f"routes/{site}%2Fcontent", "environment": {"HOWDAH_SITE": site}}}] for site in self.sites}
        content = {f"{site}/content": [{"action": self.action("shared")}] for site in self.sites}
        application = self.application(self.sites[0])
        application["processes"]["max"] = SHARED_WORKERS
        application["limits"] = {"fair": "$site"}
        self.serve({"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes/sites"}}, "variables": {"site": name},
                    "routes": {"sites": [{"action": {"pass": "routes/$site"}}], **routes, **content},
                    "applications": {"shared": application}, "settings": {"listen_threads": machine.processors()}})


class Fpm(Limited, sites.Fpm):
    """nginx and one PHP-FPM with a pool for each site."""

    @property
    def pool(self):
        """The settings of each pool."""
        return f"pm = ondemand\npm.max_children = {self.workers}\npm.process_idle_timeout = {IDLE_SECONDS}s"

    fallback = "location / { try_files $uri $uri/ /index.php?$args; }"


class FpmMasters(Fpm):
    """nginx and a PHP-FPM of its own for each site, which keeps OPcaches apart as Howdah does."""

    masters = sites.FpmMasters.masters


# Name: its class, its title, the server that has to be chosen for it.
STACKS = {
    "howdah": (Howdah, "Howdah", "howdah"),
    "howdah-shared": (HowdahShared, "Howdah, one application", "howdah"),
    "fpm": (Fpm, "nginx + FPM, pool per site", "nginx-unix"),
    "fpm-masters": (FpmMasters, "nginx + FPM, master per site", "nginx-unix"),
}


def title_of(stack):
    """How a stack is called in the report."""
    return STACKS[stack][1]


@dataclass(frozen=True)
class Visit:
    """One request: seconds from the beginning, site, and path."""

    at: float
    site: str
    path: str


@dataclass(frozen=True)
class Plan:
    """The measurements."""

    sites: int
    seconds: float
    rate: float
    memory: int
    workers: int
    copies: bool


def planned(options):
    """The plan that the options of bench/run ask for."""
    return Plan(max(options.sites) if options.sites else QUICK_SITES if options.quick else SITES,
                options.fleet_seconds or (QUICK_SECONDS if options.quick else SECONDS),
                options.fleet_rate or RATE, options.fleet_memory or MEMORY_MIB,
                options.fleet_workers or WORKERS, options.fleet_copies)


def schedule(names, rate, seconds, seed=SEED):
    """Visits of independent visitors (a Poisson process) to sites with Zipf's distribution; the same for the same seed."""
    chance, weights, found, at = random.Random(seed), [1 / rank**EXPONENT for rank in range(1, len(names) + 1)], [], 0.0
    while (at := at + chance.expovariate(rate)) < seconds:
        found.append(Visit(at, chance.choices(names, weights)[0], chance.choice(PATHS)))
    return found


def to_sleeping(visits, seconds):
    """How many visits come to a site that had none for so many seconds before."""
    last, found = {}, 0
    for visit in visits:
        found += visit.at - last.get(visit.site, -seconds) >= seconds
        last[visit.site] = visit.at
    return found


def problem(port, visit):
    """The mistake in the answer to a visit; none if it is right."""
    try:
        status, body = fetch(port, visit.path, {"Host": sites.host(visit.site)}, timeout=PATIENCE)
    except TimeoutError:
        return "timed out"
    except (OSError, HTTPException):
        return "no answer"
    if status != 200:
        return f"status {status}"
    head = body.partition(b"</title>")[0].partition(b"<title>")[2]
    return None if title(visit.site).encode() in head else "wrong page"


def drive(port, visits, look):
    """Makes the visits, and calls `look` at the beginning of each.

    Returns a pair for each: seconds since the moment at which it should have begun, and the mistake.
    """
    began = time.monotonic()

    def make(visit):
        wrong = problem(port, visit)
        return time.monotonic() - began - visit.at, wrong
    with ThreadPoolExecutor(MAX_WAITING) as threads:
        running = []
        for visit in visits:
            time.sleep(max(began + visit.at - time.monotonic(), 0))
            running.append(threads.submit(make, visit))
            look()
        return [one.result() for one in running]


def summary(results):
    """Latencies of the right answers, and the failures by their kind."""
    good = sorted(seconds for seconds, wrong in results if not wrong)
    return {"requests": len(results), "failed": dict(Counter(wrong for _, wrong in results if wrong)),
            **{f"p{share}": percentile(good, share) for share in (50, 90, 99)}, "max": good[-1] if good else None}


def measure(place_for, names_of_servers, options, directory, progress):
    """A row for each stack. `place_for` takes the root of the sites; each stack runs alone."""
    plan = planned(options)
    names = sites.names(plan.sites)
    visits = schedule(names, plan.rate, plan.seconds)
    rows = []
    progress.step(f"fleet: {plan.sites} installations", 0)
    installed = Fleet(directory / "fleet", names)
    try:
        copies = installed.copies(names) if plan.copies else None
        for stack, (kind, text, needed) in STACKS.items():
            progress.step(f"fleet: {text}", 0)
            if needed in names_of_servers and not (plan.copies and kind is HowdahShared):
                installed.forget()
                rows.append({"stack": stack, **visited(kind, place_for(installed.root), names, visits, plan, copies, installed.pids())})
            progress.step(f"fleet: {text}")
    finally:
        installed.stop()
    return {"plan": vars(plan), "asleep": {str(seconds): to_sleeping(visits, seconds) for seconds in PAUSES}, "stacks": rows}


def visited(kind, place, names, visits, plan, copies, shared):
    """The results of a stack. `shared` are processes that work for every stack."""
    group = MemoryGroup(f"fleet-{kind.__name__.lower()}", plan.memory)
    try:
        try:
            server = kind(place, names, group, plan.workers, copies)
        except Unusable as trouble:
            return {"failure": str(trouble).partition(" The end of its log")[0].strip(), "killed": group.killed(), "peak": group.peak()}
        try:
            used, start = [], group.used()
            busy, ours, cpu, began = machine_busy_time(), time.process_time() + processor_time(shared), server.cpu(), time.monotonic()
            row = summary(drive(server.port, visits, lambda: used.append(group.used())))
            seconds = time.monotonic() - began
            cpu = server.cpu() - cpu
            others = machine_busy_time() - busy - cpu - (time.process_time() + processor_time(shared) - ours)
            return {**row, "ready": server.seconds, "start": start, "used": sum(used) / len(used), "used_max": max(used),
                    "peak": group.peak(), "killed": group.killed(), "alive": server.alive(), "seconds": seconds,
                    "cpu": cpu / max(len(visits), 1), "others": others / seconds}
        finally:
            server.stop()
    finally:
        group.remove()
