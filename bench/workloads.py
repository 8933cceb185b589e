"""The workloads: which request, by which client, over how many connections, against which servers."""

import fnmatch
from dataclasses import dataclass

SWEEP = (1, 20, 50, 64, 100, 200, 400, 1000)
FILE_SERVERS = ("howdah", "howdah-again", "nginx-unix", "apache", "lighttpd", "unit", "frankenphp")
PHP_SERVERS = ("howdah", "howdah-again", "nginx-unix", "nginx-kept", "apache", "lighttpd", "unit", "frankenphp")
FRONT_SERVERS = ("howdah", "howdah-again", "nginx-unix")
RULES_SERVERS = ("howdah", "howdah-rules", "apache", "apache-rules")
WORKER_SERVERS = ("howdah", "howdah-again", "howdah-classic")
HELLO_SERVERS = (*WORKER_SERVERS, "swoole")
CACHE_SERVERS = ("howdah", "howdah-again", "nginx-unix", "varnish")
# nginx in front of PHP-FPM, and of `howdah fpm` in its place.
FPM_SERVERS = ("nginx-unix", "howdah-fpm", "howdah-fpm-again", "nginx-tcp", "howdah-fpm-tcp")
OBSERVED_SERVERS = ("howdah", "howdah-again", "howdah-observed")
CROWD_SERVERS = ("howdah", "howdah-again", "nginx-unix", "nginx-unix-511", "nginx-tcp", "apache", "lighttpd", "unit",
                 "frankenphp")


# The file that holds a copy of the stored page.
COPY = "front.html"


@dataclass(frozen=True)
class Setup:
    """How the servers of some workloads are started."""

    name: str
    # PHP processes of every server.
    workers: int
    # Connections for which servers that bind one to a process have processes enough; 0 if they get
    # no more than the others.
    bound: int
    # Needs MariaDB and an installed WordPress.
    wordpress: bool = False
    # Requests are passed on: for files to another nginx, for scripts to a PHP-FPM that all share.
    behind: bool = False
    # Connections that this PHP-FPM lets wait; its own default if 0.
    backlog: int = 0
    # Clients speak TLS.
    tls: bool = False
    # The application of frameworks.py that stays in memory.
    worker: str = ""
    # The site has `.htaccess` files in five nested directories.
    nested_rules: bool = False
    # Pages are stored: by Howdah's cache, nginx's fastcgi_cache, or Varnish before nginx.
    cached: bool = False
    # Connections and datagrams are passed on as they are, connections over "tcp" or a "unix" socket.
    stream: str = ""
    # Howdah keeps no last requests, except for the server that is observed.
    observed: bool = False


MAIN = Setup("main", 8, 64)
CROWD = Setup("crowd", 4, 0)
WORDPRESS = Setup("wordpress", 8, 64, wordpress=True)
NESTED_RULES = Setup("nested-rules", 8, 64, nested_rules=True)
WORDPRESS_RULES = Setup("wordpress-rules", 8, 64, wordpress=True)
CACHE = Setup("cache", 8, 0, wordpress=True, cached=True)
STORM = Setup("storm", 4, 0, cached=True)
BEHIND = Setup("behind", 8, 0, behind=True)
BACKLOG = Setup("backlog", 4, 0, behind=True, backlog=128)
STREAM = Setup("stream", 1, 0, behind=True, stream="tcp")
STREAM_UNIX = Setup("stream-unix", 1, 0, behind=True, stream="unix")
TLS = Setup("tls", 8, 0, tls=True)
OBSERVED = Setup("observed", 8, 0, observed=True)
FPM = Setup("fpm", 8, 0)
FPM_WORDPRESS = Setup("fpm-wordpress", 8, 0, wordpress=True)
FPM_CROWD = Setup("fpm-crowd", 4, 0)
WORKERS = tuple(Setup(f"worker-{name}", 4, 0, worker=name) for name in ("hello", "symfony", "laravel"))
SETUPS = (MAIN, CROWD, BEHIND, BACKLOG, STREAM, STREAM_UNIX, TLS, *WORKERS, NESTED_RULES, WORDPRESS_RULES, WORDPRESS, CACHE, STORM, OBSERVED, FPM, FPM_WORDPRESS, FPM_CROWD)


@dataclass(frozen=True)
class Workload:
    """One row of the report."""

    id: str
    group: str
    title: str
    path: str
    setup: Setup = MAIN
    client: str = "wrk"
    connections: int = 64
    keep_alive: bool = True
    servers: tuple = PHP_SERVERS
    # For clients that end after a number of requests.
    requests: int = 0
    # Seconds that these would take if only the scripts took time.
    ideal: float = 0.0
    # So many times the usual length, where an answer may take its time.
    stretch: int = 1
    # All addresses, for clients that take several.
    paths: tuple = ()
    # Whether every answer has the same bytes on every server.
    same: bool = True
    # Part of `--quick`.
    quick: bool = False
    # Requests that a connection has on the way at once.
    streams: int = 1
    # Connections of others that ask for ever new addresses.
    beside: int = 0
    # Rounds, if that is more than the run asks for: small differences need many.
    rounds: int = 0

    @property
    def scheme(self):
        """That of its address."""
        return "https" if self.setup.tls else "http"


def files():
    """Files of three sizes, on connections that stay and with a new one for each request."""
    sizes = (("13", "13-byte file", "/small.txt"), ("100k", "100 KB file", "/medium.bin"), ("1m", "1 MB file", "/large.bin"))
    for name, title, path in sizes:
        yield Workload(f"file-{name}", "files", f"{title}, keep-alive", path, servers=FILE_SERVERS, quick=True)
        yield Workload(f"file-{name}-new", "files", f"{title}, new connection each", path, keep_alive=False,
                       servers=FILE_SERVERS)
    for name, title, path in sizes:
        for kept in (True, False):
            how = "keep-alive" if kept else "new connection each"
            yield Workload(f"ab-{name}{'' if kept else '-new'}", "ab", f"{title}, {how}", path, client="ab",
                           keep_alive=kept, servers=FILE_SERVERS)


def php():
    """Scripts from trivial to busy."""
    yield Workload("php-13", "php", "13 bytes from PHP", "/hello.php", quick=True)
    yield Workload("php-13-new", "php", "13 bytes from PHP, new connection each", "/hello.php", keep_alive=False)
    yield Workload("php-13-c1", "php", "13 bytes from PHP, 1 connection", "/hello.php", connections=1)
    yield Workload("phpinfo", "php", "phpinfo()", "/info.php", same=False)
    yield Workload("page", "php", "CPU-bound page", "/page.php", quick=True)
    yield Workload("wait", "php", "script that waits 10 ms", "/wait10.php")


def sweep():
    """From one connection to a thousand. Servers that bind connections to processes have 72."""
    for name, title, path, servers in (("file", "13-byte file", "/small.txt", FILE_SERVERS),
                                       ("php", "13 bytes from PHP", "/hello.php", PHP_SERVERS)):
        for connections in SWEEP:
            yield Workload(f"sweep-{name}-{connections}", f"sweep-{name}", f"{title}, {connections} connections", path,
                           connections=connections, servers=servers)


def crowd():
    """A thousand connections and 4 PHP processes."""
    yield Workload("crowd-wait", "crowd", "script that waits 5 ms, 4,000 requests", "/wait5.php", CROWD, "h2load", 1000,
                   servers=CROWD_SERVERS, requests=4000, ideal=5.0)
    yield Workload("crowd-hello", "crowd", "13 bytes from PHP", "/hello.php", CROWD, connections=1000, servers=CROWD_SERVERS,
                   stretch=2)
    yield Workload("crowd-page", "crowd", "CPU-bound page", "/page.php", CROWD, connections=1000, servers=CROWD_SERVERS,
                   stretch=3)


def behind():
    """Requests that are passed on, and more of them than a small backlog holds."""
    yield Workload("proxy-13", "behind", "13 bytes from another nginx, over kept connections", "/small.txt", BEHIND,
                   servers=FRONT_SERVERS)
    yield Workload("fastcgi-13", "behind", "13 bytes from PHP-FPM, by FastCGI", "/hello.php", BEHIND, servers=FRONT_SERVERS)
    yield Workload("backlog", "behind", "1,000 clients at once, PHP-FPM with 4 processes and a backlog of 128", "/wait5.php",
                   BACKLOG, "h2load", 1000, servers=FRONT_SERVERS, requests=4000, ideal=5.0)


def stream():
    """Connections and datagrams that are passed on as they are."""
    for name, title, path in (("13", "13 bytes each way", "/small.txt"), ("1m", "1 MB", "/large.bin")):
        yield Workload(f"stream-{name}", "stream", f"{title} over kept connections to TCP", path, STREAM, servers=FRONT_SERVERS)
        yield Workload(f"stream-unix-{name}", "stream", f"{title} over kept connections to a unix socket", path, STREAM_UNIX,
                       servers=FRONT_SERVERS)
    yield Workload("stream-new", "stream", "13 bytes over a new connection each, to TCP", "/small.txt", STREAM, keep_alive=False,
                   servers=FRONT_SERVERS)
    yield Workload("stream-udp", "stream", "64 bytes by UDP and back", "/small.txt", STREAM, "datagrams", servers=FRONT_SERVERS)


def tls():
    """Handshakes, and the costs of TLS and HTTP/2 afterwards."""
    yield Workload("tls-handshake", "tls", "TLS 1.3, new connection and full handshake each", "/small.txt", TLS, "handshakes",
                   keep_alive=False, servers=FRONT_SERVERS)
    yield Workload("tls-13", "tls", "13-byte file over TLS, keep-alive", "/small.txt", TLS, servers=FRONT_SERVERS)
    yield Workload("tls-php-13", "tls", "13 bytes from PHP over TLS, keep-alive", "/hello.php", TLS, servers=FRONT_SERVERS)
    yield Workload("tls-1m", "tls", "1 MB file over TLS, keep-alive", "/large.bin", TLS, servers=FRONT_SERVERS)
    yield Workload("http2-13", "tls", "13-byte file over HTTP/2, 100 streams a connection", "/small.txt", TLS, "http2", 16,
                   streams=100, servers=FRONT_SERVERS)
    yield Workload("http2-php-13", "tls", "13 bytes from PHP over HTTP/2, 100 streams a connection", "/hello.php", TLS, "http2",
                   16, streams=100, servers=FRONT_SERVERS)


def worker():
    """Applications that stay in memory, beside themselves in the classic mode."""
    for setup, title, path in zip(WORKERS, ("13 bytes", "Symfony 5.4, a page by Twig", "Laravel 8, a page by Blade"), ("/", "/", "/plain")):
        hello = setup.worker == "hello"
        yield Workload(setup.name, "worker", f"{title}, in memory", path, setup, same=hello,
                       servers=HELLO_SERVERS if hello else WORKER_SERVERS)


def wordpress(addresses):
    """WordPress's front page, and a walk through the site in random order."""
    # Each of 50 visitors waits for more than a second.
    yield Workload("wordpress-front", "wordpress", "WordPress, front page", "/", WORDPRESS, connections=50, stretch=3)
    yield Workload("wordpress-siege", "wordpress", "WordPress, siege -c50 -i -b over a list", "/", WORDPRESS, "siege", 50,
                   keep_alive=False, paths=tuple(addresses))


def rules():
    """`.htaccess` files that hold, beside the same servers that do not read them."""
    yield Workload("rules-nested", "rules", "13-byte file below five .htaccess", "/a/b/c/d/small.txt", NESTED_RULES,
                   servers=RULES_SERVERS, quick=True)
    yield Workload("rules-wordpress", "rules", "WordPress with its .htaccess, a page by its permalink", "/day-7/", WORDPRESS_RULES,
                   connections=50, servers=RULES_SERVERS, stretch=3)
    yield Workload("rules-wordpress-file", "rules", "WordPress with its .htaccess, a picture", "/wp-includes/images/w-logo-blue.png",
                   WORDPRESS_RULES, servers=RULES_SERVERS)


def cache():
    """A stored page of WordPress, a file of the same bytes, and the page on new connections."""
    yield Workload("cache-page", "cache", "WordPress, front page from the cache", "/", CACHE, servers=CACHE_SERVERS)
    yield Workload("cache-file", "cache", "a file of the same bytes", f"/{COPY}", CACHE, servers=CACHE_SERVERS, same=False)
    yield Workload("cache-page-new", "cache", "WordPress, front page from the cache, new connection each", "/", CACHE,
                   keep_alive=False, servers=CACHE_SERVERS)
    yield Workload("cache-page-1000", "cache", "WordPress, front page from the cache, 1,000 connections", "/", CACHE,
                   connections=1000, servers=CACHE_SERVERS)
    yield Workload("cache-storm", "cache", "a page from the cache while new addresses miss into PHP", "/page.php", STORM, "storm", 8,
                   servers=CACHE_SERVERS, beside=32)


def fpm():
    """nginx in front of PHP-FPM and of `howdah fpm`, with the same nginx, pools and sockets."""
    for name, title, path in (("hello", "13 bytes from PHP", "/hello.php"), ("info", "phpinfo()", "/info.php"), ("page", "CPU-bound page", "/page.php")):
        yield Workload(f"fpm-{name}", "fpm", f"{title}, behind nginx", path, FPM, servers=FPM_SERVERS, same=name != "info", rounds=10)
    yield Workload("fpm-wordpress", "fpm", "WordPress, front page, behind nginx", "/", FPM_WORDPRESS, connections=50, stretch=3, servers=FPM_SERVERS)
    yield Workload("fpm-crowd", "fpm", "1,000 clients at once, script that waits 5 ms, behind nginx", "/wait5.php", FPM_CROWD, "h2load", 1000,
                   servers=FPM_SERVERS, requests=4000, ideal=5.0)
    yield Workload("fpm-crowd-hello", "fpm", "1,000 connections, 13 bytes from PHP, behind nginx", "/hello.php", FPM_CROWD, connections=1000,
                   servers=FPM_SERVERS, stretch=2)


def observability():
    """Metrics, last requests, the page and traces of 1 % of the requests, beside none of them."""
    for name, title, path in (("file", "13-byte file", "/small.txt"), ("php", "13 bytes from PHP", "/hello.php")):
        yield Workload(f"observed-{name}", "observability", f"{title}, observed", path, OBSERVED, servers=OBSERVED_SERVERS, rounds=10)


def all_workloads(addresses=("/",)):
    """Everything, in the order of the report."""
    return [*files(), *php(), *crowd(), *behind(), *stream(), *tls(), *worker(), *rules(), *wordpress(addresses), *cache(), *observability(), *fpm(), *sweep()]


# Measurements that are no rows of requests, but can be chosen like them.
OTHERS = ("memory", "pools", "sites", "fleet", "websockets", "tls-memory", "fpm-memory")
# Needs root and takes long, so that it has to be asked for by name.
ON_REQUEST = ("fleet",)


def chosen(patterns, quick, workloads):
    """The workloads to run, and which of the others."""
    if patterns:
        found = [one for one in workloads if any(matches(one, pattern) for pattern in patterns)]
        others = [name for name in OTHERS if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    elif quick:
        found, others = [one for one in workloads if one.quick], ["memory"]
    else:
        found, others = list(workloads), [name for name in OTHERS if name not in ON_REQUEST]
    return found, others


def matches(workload, pattern):
    """Whether a pattern means a workload, by its name or its group's."""
    return fnmatch.fnmatchcase(workload.id, pattern) or fnmatch.fnmatchcase(workload.group, pattern)


@dataclass(frozen=True)
class Aim:
    """A ratio of Howdah's figure to that of the best of some peers, and the bound that it should keep.

    `own` is the server of Howdah's that is meant.
    """

    workload: str
    metric: str
    peers: tuple
    bound: float
    text: str
    own: str = "howdah"


NGINX = ("nginx-unix",)
UNIT = ("unit",)
EVERY = ("nginx-unix", "nginx-kept", "apache", "lighttpd", "unit", "frankenphp")

# For rates the bound is the least, for costs and times the most.
AIMS = (
    Aim("file-13", "rate", NGINX, 1.3, "1.3 × nginx"),
    Aim("file-13", "rate", UNIT, 1.1, "1.1 × Unit"),
    Aim("file-13", "cpu", NGINX, 0.75, "0.75 × nginx's processor time a request"),
    Aim("file-13-new", "rate", ("nginx-unix", "unit"), 1.0, "the best of nginx and Unit"),
    Aim("file-100k", "rate", NGINX, 1.3, "1.3 × nginx"),
    Aim("file-1m", "rate", ("nginx-unix", "apache", "unit"), 1.0, "the best of nginx, Apache and Unit"),
    Aim("php-13", "rate", NGINX, 2.5, "2.5 × nginx + PHP-FPM"),
    Aim("php-13", "rate", UNIT, 1.5, "1.5 × Unit"),
    Aim("php-13", "rate", ("apache",), 1.35, "1.35 × mod_php"),
    Aim("php-13-c1", "rate", ("apache", "unit", "nginx-kept"), 1.0, "the best of mod_php, Unit and kept-alive FPM"),
    Aim("crowd-hello", "cpu", ("nginx-unix", "unit"), 1.0, "the least processor time a request of nginx + PHP-FPM and Unit"),
    Aim("phpinfo", "rate", NGINX, 1.35, "1.35 × nginx + PHP-FPM"),
    Aim("phpinfo", "rate", UNIT, 1.0, "Unit"),
    Aim("page", "rate", EVERY, 1.0, "every peer"),
    Aim("stream-1m", "rate", NGINX, 1.0, "nginx's stream module"),
    Aim("stream-1m", "cpu", NGINX, 0.9, "0.9 × nginx's processor time a byte"),
    Aim("stream-udp", "rate", NGINX, 1.0, "nginx's stream module"),
    Aim("tls-handshake", "rate", NGINX, 1.0, "nginx"),
    Aim("tls-13", "rate", NGINX, 1.2, "1.2 × nginx"),
    Aim("tls-1m", "rate", NGINX, 1.0, "nginx"),
    Aim("http2-13", "rate", NGINX, 1.2, "1.2 × nginx"),
    Aim("worker-hello", "rate", ("howdah-classic",), 2.2, "2.2 × the classic mode"),
    Aim("worker-hello", "rate", ("swoole",), 1.0, "Swoole in base mode"),
    Aim("worker-symfony", "rate", ("howdah-classic",), 8.0, "8 × the classic mode"),
    Aim("worker-laravel", "rate", ("howdah-classic",), 8.0, "8 × the classic mode"),
    Aim("worker-symfony", "p50", ("howdah-classic",), 1 / 6, "a sixth of the classic mode's p50"),
    Aim("worker-laravel", "p50", ("howdah-classic",), 1 / 6, "a sixth of the classic mode's p50"),
    Aim("cache-page", "rate", NGINX, 1.2, "1.2 × nginx with fastcgi_cache"),
    Aim("cache-page", "rate", ("varnish",), 1.0, "Varnish"),
    Aim("cache-storm", "p99", ("nginx-unix", "varnish"), 1.0, "the p99 of nginx with fastcgi_cache and of Varnish"),
    Aim("wordpress-front", "rate", EVERY, 1.0, "every peer"),
    Aim("wordpress-front", "p99", NGINX, 1.0, "nginx + PHP-FPM's p99"),
    *(Aim(workload, "rate", (peer,), bound, f"{bound:g} × PHP-FPM, {how}", own)
      for workload, bound in (("fpm-hello", 1.15), ("fpm-info", 1.05), ("fpm-page", 1.0), ("fpm-wordpress", 1.0))
      for own, peer, how in (("howdah-fpm", "nginx-unix", "unix socket"), ("howdah-fpm-tcp", "nginx-tcp", "TCP"))),
)
