"""Many sites that are rarely visited: the start, the memory, and how long a visitor waits whose site sleeps.

Each site has a directory, a name, and a pool of its own. A site sleeps when none of its processes is left
that ends by itself.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import machine
import servers
from figures import median
from memory import php_processes
from processes import fetch, memory

from peers import fpm

COUNTS = (1, 20, 100, 500)
QUICK_COUNTS = (1, 20)
# So many sites are asked for the time of their first answer, and so many at the same time.
SAMPLED = 20
MOST_AT_ONCE = 100
IDLE_SECONDS = 5
# Howdah ends the worker and then, after as long a time, the prototype.
SLEEP_SECONDS = 2 * IDLE_SECONDS + 3
# So much longer may it take until all sites sleep: with 500 pools, PHP-FPM ends processes late.
PATIENCE = 60


def names(count):
    """The sites' names."""
    return [f"site-{number:04}" for number in range(1, count + 1)]


def host(site):
    """The Host field of requests for a site."""
    return f"{site}.example"


def greeting(site):
    """The answer of the script of a site."""
    return f"Hello from {site}!"


def make(directory, sites):
    """Writes the sites; returns the directory that has one for each."""
    root = directory / "sites"
    root.mkdir()
    for site in sites:
        (root / site).mkdir()
        (root / site / "hello.php").write_text(f"<?php echo '{greeting(site)}';")
        (root / site / "small.txt").write_text("Hello, world!")
    return root


class Stack(servers.Server):
    """A server of many sites."""

    pause = 0.005

    def __init__(self, place, sites):
        self.sites, self.started, self.seconds = sites, None, None
        super().__init__("sites", place)

    def run(self, name, command, environment=None):
        """Starts a program, and the clock with the first one."""
        self.started = self.started or time.monotonic()
        return super().run(name, command, environment)

    def ready(self):
        """Whether the first site answers; stops the clock then."""
        if not answered(self, self.sites[0], "/small.txt", "Hello, world!"):
            return False
        self.seconds = time.monotonic() - self.started
        return True

    def root(self, site):
        """The directory of a site."""
        return self.place.root / site


class Howdah(Stack, servers.Howdah):
    """Howdah with an application for each site."""

    def start(self):
        routes = [{"match": {"host": host(site)}, "action": self.action(site)} for site in self.sites]
        self.serve({"listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}}, "routes": routes,
                    "applications": {site: self.application(site) for site in self.sites},
                    "settings": {"listen_threads": machine.processors()}})

    def action(self, site):
        """The action of a site's route."""
        return {"share": f"{self.root(site)}$uri", "index": ["index.php", "index.html"], "scripts": f"applications/{site}"}

    def application(self, site):
        """A site's application."""
        return {"type": "php", "root": str(self.root(site)), "options": {"file": str(self.place.ini)},
                "processes": {"max": 2, "spare": 0, "idle_timeout": IDLE_SECONDS, "prototype_timeout": IDLE_SECONDS}}


FPM_ONDEMAND = f"pm = ondemand\npm.max_children = 2\npm.process_idle_timeout = {IDLE_SECONDS}s"
NGINX_SITE = """    server {{
        listen 127.0.0.1:{port} backlog=4096;
        server_name {host};
        root {root};
        index index.php index.html;
        {fallback}
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass unix:{socket};
        }}
    }}
"""


class Fpm(Stack, servers.Nginx):
    """nginx and one PHP-FPM with a pool for each site."""

    pool = FPM_ONDEMAND
    # nginx's action for requests for no file.
    fallback = ""

    def masters(self):
        """The sites of each PHP-FPM."""
        return [self.sites]

    def listen(self, site):
        """The socket of a site's pool."""
        return f"{self.directory}/{site}.sock"

    def start(self):
        commands = []
        for sites in self.masters():
            pools = "".join(servers.fpm_pool(self.listen(site), 0, None, self.pool, site) for site in sites)
            commands.append((f"php-fpm-{sites[0]}", fpm.command(self.directory, pools, self.place.ini, "error", sites[0]), sites))
        text = servers.NGINX_HTTP + "    server_names_hash_max_size 4096;\n"
        for site in self.sites:
            # Only the first one may set the backlog of the address that all share.
            one = NGINX_SITE if site == self.sites[0] else NGINX_SITE.replace(" backlog=4096", "")
            text += one.format(port=self.port, host=host(site), root=self.root(site), socket=self.listen(site), fallback=self.fallback)
        # All at once, as at the start of a machine.
        running = [(self.run(name, command), sites) for name, command, sites in commands]
        self.serve(servers.nginx_configuration(self.directory, text))
        for process, sites in running:
            process.wait_for(lambda sites=sites: all(Path(self.listen(site)).exists() for site in sites), "sockets", self.pause)


class FpmMasters(Fpm):
    """nginx and a PHP-FPM of its own for each site."""

    def masters(self):
        return [[site] for site in self.sites]


# Name: its class, its title, the server that has to be chosen for it, the largest number of sites.
STACKS = {
    "howdah": (Howdah, "Howdah", "howdah", 500),
    "fpm": (Fpm, "FPM, pool per site", "nginx-unix", 500),
    "fpm-masters": (FpmMasters, "FPM, master per site", "nginx-unix", 100),
}


def title_of(stack):
    """How a stack is called in the report."""
    return STACKS[stack][1]


def number_of(count):
    """How a number of sites is written in the report."""
    return f"{count:,} site{'s' if count > 1 else ''}"


def planned(options):
    """The measurements: pairs of a number of sites and a stack."""
    counts = options.sites or (QUICK_COUNTS if options.quick else COUNTS)
    return [(count, stack) for count in counts for stack, (*_, most) in STACKS.items() if count <= most]


def answered(server, site, path="/hello.php", expected=None):
    """Whether a site gives the right answer."""
    try:
        status, body = fetch(server.port, path, {"Host": host(site)}, timeout=60)
    except (OSError, HTTPException):
        return False
    return status == 200 and body.decode(errors="replace") == (expected or greeting(site))


def measure(place_for, names_of_servers, options, progress):
    """A row for each number of sites and each stack; each stack runs alone."""
    rows = []
    for count, stack in planned(options):
        kind, text, needed, _ = STACKS[stack]
        progress.step(f"{number_of(count)}: {text}", 0)
        if needed in names_of_servers:
            server = kind(place_for(), names(count))
            try:
                rows.append({"stack": stack, "sites": count, **life(server)})
            finally:
                server.stop()
        progress.step(f"{number_of(count)}: {text}")
    return rows


def life(server):
    """The life of the sites of a server, from its start to visitors at many of them at once."""
    row = {"ready": server.seconds}
    time.sleep(SLEEP_SECONDS)
    row["idle"] = size(server)
    missing = visit(server)
    row["visited"], row["awake"] = size(server), php_processes(server)
    time.sleep(SLEEP_SECONDS)
    wait_for_sleep(server, row["idle"][1])
    row["after"] = size(server)
    first, second = [], []
    for site in sample(server.sites):
        for times in (first, second):
            began = time.monotonic()
            if answered(server, site):
                times.append(time.monotonic() - began)
            else:
                missing += 1
    row["first"], row["second"] = median(first), median(second)
    time.sleep(SLEEP_SECONDS)
    wait_for_sleep(server, row["idle"][1])
    row["burst"], failed = burst(server, server.sites[:MOST_AT_ONCE])
    row["failed"] = {"visits": missing, "burst": failed}
    return row


def wait_for_sleep(server, processes):
    """Waits until a server has no more processes than before its first request."""
    deadline = time.monotonic() + PATIENCE
    while len(server.pids()) > processes and time.monotonic() < deadline:
        time.sleep(0.5)


def size(server):
    """Bytes of all processes of a server, and the number of those that have not ended meanwhile."""
    sizes = [memory([pid]) for pid in server.pids()]
    return sum(sizes), sum(1 for one in sizes if one)


def sample(sites):
    """Some of the sites, equally far from each other."""
    step = max(len(sites) // SAMPLED, 1)
    return sites[::step][:SAMPLED]


def visit(server):
    """Asks each site, and returns how many gave no good answer.

    Those that were asked before are asked again in time, so that in the end the processes of all live. Where
    that takes longer than they live, it is given up: the number of those awake then shows the gap.
    """
    missing, done, keep = 0, time.monotonic(), True
    for number, site in enumerate(server.sites, 1):
        missing += not answered(server, site)
        began = time.monotonic()
        if keep and (began - done > IDLE_SECONDS / 4 or number == len(server.sites)):
            missing += sum(not answered(server, earlier) for earlier in server.sites[:number])
            done = time.monotonic()
            keep = done - began < IDLE_SECONDS
    return missing


def burst(server, sites):
    """Asks sites at the same time: seconds until all have answered, and how many gave no good answer."""
    began = []
    together = threading.Barrier(len(sites), lambda: began.append(time.monotonic()))

    def ask(site):
        together.wait()
        return answered(server, site)
    with ThreadPoolExecutor(len(sites)) as threads:
        found = list(threads.map(ask, sites))
    return time.monotonic() - began[0], found.count(False)
