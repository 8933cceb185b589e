"""The module upstream and its methods, with two recording servers."""

import threading
import time

from . import Case, read_all

FIRST, SECOND, DEAD = "10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"


def balanced(name, rows, block, requests, servers=None, further="", **keys):
    """A case whose requests all go to an upstream of its name."""
    servers = servers or {FIRST: {}, SECOND: {}}
    return Case(f"up-{name}", rows, f"location / {{ proxy_pass http://up_{name}; proxy_set_header Host h; {further} }}", requests,
                {"pass": f"upstreams/{name}"}, http=f"upstream up_{name} {{ {block} }}",
                document={"upstreams": {name: {"servers": servers, "host": "h"} | keys}})


def two_servers(more=""):
    return f"server {FIRST}; server {SECOND}; {more}"


def backend_of(side, request):
    return side.ask(request)[1].get("backend")


def weights(side):
    """Whether the first of two servers gets three quarters of the requests: each thread has an order of its own."""
    found = [backend_of(side, "GET /") for _ in range(60)]
    shares = sorted(found.count(name) for name in set(found))
    return len(shares), len(shares) == 2 and 9 <= shares[0] <= 21


def only(requests):
    def servers_of(side):
        """How many servers answer."""
        return len({side.ask(request)[1].get("backend") for request in requests})
    return servers_of


def by_key(side):
    """Whether each key has one server, and how many servers there are."""
    first = [backend_of(side, f"GET /?key=k{number}") for number in range(30)]
    second = [backend_of(side, f"GET /?key=k{number}") for number in range(30)]
    return first == second, len(set(first))


def away_from_the_busy(side):
    """Whether requests go to the server that has none."""
    busy = []
    thread = threading.Thread(target=lambda: busy.append(backend_of(side, "GET /busy | Reply-After: 3")))
    thread.start()
    time.sleep(0.7)
    others = {backend_of(side, "GET /") for _ in range(6)}
    thread.join()
    return len(others), busy[0] in others


def read_one(client):
    """Reads a response whole: its body is an object of JSON."""
    data = b""
    while b"\r\n\r\n" not in data or b"}" not in data.partition(b"\r\n\r\n")[2]:
        part = client.recv(65536)
        if not part:
            raise ConnectionError(f"the server has closed the connection after {data!r}")
        data += part


def connections(name, requests, pause=0.0):
    def are_connections_kept(side):
        """How many requests come, and whether a connection to the server is used for several requests on one connection of a
        client. Not for how many: on a busy machine, a request may come before the last connection is idle."""
        path = f"/kept-{name}-{side.name}"
        with side.connect() as client:
            for number in range(requests):
                close = "Connection: close\r\n" if number == requests - 1 else ""
                client.sendall(f"GET {path} HTTP/1.1\r\nHost: {side.host}\r\n{close}\r\n".encode())
                if close:
                    read_all(client)
                else:
                    read_one(client)
                    time.sleep(0.2)
                    time.sleep(pause)
        told = [told for recorder in side.recorders for told in recorder if told["line"] == f"GET {path}"]
        return len(told), len({one["client"] for one in told}) < len(told)
    return are_connections_kept


KEPT = "proxy_http_version 1.1; proxy_set_header Connection '';"

CASES = [
    balanced("weights", "upstream server", f"server {FIRST} weight=3; server {SECOND};", [weights, "200 GET /x?y=z"],
             {FIRST: {"weight": 3}, SECOND: {}}),
    balanced("down", "server", f"server {FIRST} down; server {SECOND};", [only(["GET /"] * 6)], {FIRST: {"weight": 0}, SECOND: {}}),
    balanced("backup", "server", f"server {DEAD} max_fails=1 fail_timeout=30s; server {SECOND} backup;", [only(["GET /"] * 4), "200 GET /"],
             {DEAD: {}, SECOND: {"backup": True}}, failures={"max": 1, "time": 30}, tries=2),
    balanced("unused", "server", f"server {FIRST}; server {SECOND} backup;", [only(["GET /"] * 6)], {FIRST: {}, SECOND: {"backup": True}}),
    balanced("hash", "hash", two_servers("hash $arg_key consistent;"), [by_key], balance={"hash": "$arg_key"}),
    balanced("address", "ip_hash", two_servers("ip_hash;"), [only(["GET /"] * 8)], balance={"hash": "$remote_addr"}),
    balanced("least", "least_conn", two_servers("least_conn;"), [away_from_the_busy], balance="least_connections"),
    balanced("random", "random", two_servers("random two least_conn;"), [away_from_the_busy], balance="two_choices"),
    balanced("keep", "keepalive", f"server {FIRST}; keepalive 4;", [connections("many", 5)], {FIRST: {}}, KEPT, keepalive=4),
    balanced("no-keep", "keepalive", f"server {FIRST};", [connections("none", 3)], {FIRST: {}}, KEPT, keepalive=0),
    balanced("idle", "keepalive_timeout", f"server {FIRST}; keepalive 4; keepalive_timeout 1s;", [connections("idle", 2, 3.0)], {FIRST: {}}, KEPT,
             keepalive=4, timeouts={"idle": 1}),
]
