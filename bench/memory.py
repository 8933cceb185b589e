"""Memory of whole stacks: after the start, under load, after it, for each idle connection; and pools.

Figures are PSS from the kernel: memory that processes share is counted once. The kernel's own memory
for sockets is in none of them.
"""

import socket
import subprocess
import time

import behind
import clients
import machine
import servers
import workloads
from processes import memory, title, trusting
from workloads import Workload

REQUEST = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n"
# Servers that hold a connection without a process for it.
HOLDERS = ("howdah", "nginx-unix", "lighttpd", "unit", "frankenphp")
# Alone, a second one is like the first.
STACKS = tuple(name for name in workloads.PHP_SERVERS if not name.endswith("-again"))
FPM_STACKS = tuple(name for name in workloads.FPM_SERVERS if not name.endswith("-again"))
FILES = Workload("files", "memory", "load", "/small.txt")
LOAD = Workload("load", "memory", "load", "/hello.php")
POOL_LOAD = Workload("pool", "pools", "load", "/wait10.php", connections=50)


def load(server, workload, seconds, directory, sample):
    """Runs wrk, takes a sample when most of the time has passed, and returns both."""
    command, read = clients.CLIENTS["wrk"]
    line = command(f"http://127.0.0.1:{server.port}{workload.path}", workload, seconds, machine.processors(), directory)
    with open(directory / "client.txt", "w+") as output:
        process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        time.sleep(max(round(seconds), 1) * 0.8)
        found = sample()
        process.wait(timeout=60)
        output.seek(0)
        return read(output.read()), found


def stacks(place_for, names, options, directory, progress):
    """A row for each stack: bytes of all processes and of those that talk to clients.

    Each runs alone, as programs that run several times share their code, and PSS would divide it.
    """
    rows = {}
    for name in names:
        progress.step(f"memory: {name}", 0)
        server = servers.start(name, place_for())
        try:
            idle = server.memory()
            load(server, FILES, options.seconds, directory, server.memory)
            _, busy = load(server, LOAD, options.seconds, directory, server.memory)
            time.sleep(7)  # Howdah's processes return memory after five seconds.
            rows[name] = {"idle": idle, "load": busy, "after": server.memory()}
            if name in HOLDERS:
                rows[name]["connection"] = for_each_connection(server, options.idle_connections)
                rows[name]["connections"] = options.idle_connections
        finally:
            server.stop()
        progress.step(f"memory: {name}")
    return rows


def connect(port, request=REQUEST, end=b"Hello, world!", context=None):
    """A connection that has had one answer and stays open; over TLS if there is a context for it."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    if context:
        connection = context.wrap_socket(connection)
    connection.sendall(request)
    received = b""
    while not received.endswith(end):
        piece = connection.recv(4096)
        if not piece:
            raise OSError("the server closes the connection after its first answer")
        received += piece
    return connection


def for_each_connection(server, count, *ask, **how):
    """Bytes by which the server grows for each idle connection that is kept; none if it keeps none.

    Only the processes that talk to clients count, where they can be told apart.
    """
    def size():
        return memory(server.front_pids() or server.pids(), "Pss_Anon")
    # The first ones grow tables that stay.
    for connection in [connect(server.port, *ask, **how) for _ in range(64)]:
        connection.close()
    time.sleep(1)
    before = size()
    held = []
    try:
        while len(held) < count:
            held.append(connect(server.port, *ask, **how))
        # Idle processes may be swapped out.
        time.sleep(3)
        return (size() - before) / count
    except OSError:
        return None
    finally:
        for connection in held:
            connection.close()


# WebSockets that idle at once; each has two connections, to the client and to the back end.
SOCKETS = 1000


# Idle connections with TLS.
SECURE = 2000


def websockets(place_for, names, progress):
    """Bytes by which servers grow for each idle WebSocket that they pass on."""
    return held("WebSockets", place_for, names, progress, SOCKETS, behind.HANDSHAKE, b"\r\n\r\n")


def secure(place_for, names, progress):
    """Bytes by which servers grow for each idle connection with TLS."""
    return held("TLS connections", place_for, names, progress, SECURE, context=trusting())


def held(what, place_for, names, progress, count, *ask, **how):
    """Bytes by which servers grow for each of so many connections, each server alone."""
    found = {}
    for name in ("howdah", "nginx-unix"):
        if name not in names:
            continue
        progress.step(f"{what}: {name}", 0)
        server = servers.start(name, place_for())
        try:
            found[name] = for_each_connection(server, count, *ask, **how)
        finally:
            server.stop()
        progress.step(f"{what}: {name}")
    return found


IDLE_SECONDS = 5
FPM_DYNAMIC = ("pm = dynamic\npm.max_children = 8\npm.start_servers = 2\npm.min_spare_servers = 1\n"
               "pm.max_spare_servers = 3")
FPM_ONDEMAND = f"pm = ondemand\npm.max_children = 8\npm.process_idle_timeout = {IDLE_SECONDS}s"
POOLS = (
    ("Howdah, 8", "howdah", 8),
    ("Howdah, 2 to 8", "howdah", {"max": 8, "spare": 2, "idle_timeout": IDLE_SECONDS}),
    ("Howdah, on demand up to 8", "howdah", {"max": 8, "spare": 0, "idle_timeout": IDLE_SECONDS}),
    ("Howdah, as the machine allows", "howdah", "default"),
    ("FPM, static 8", "nginx-unix", None),
    ("FPM, dynamic 2 to 8", "nginx-unix", FPM_DYNAMIC),
    ("FPM, ondemand up to 8", "nginx-unix", FPM_ONDEMAND),
)


def php_processes(server):
    """How many processes there are that run scripts."""
    titles = [title(pid) for pid in server.pids()]
    return sum(1 for text in titles if text.startswith("php-fpm: pool") or (text.startswith("howdah: ") and text.endswith(" application")))


def pools(place_for, names, options, directory, progress):
    """Kinds of pools over a script that waits: requests per second, processes and memory."""
    rows = []
    for number, (text, name, pool) in enumerate(POOLS):
        progress.step(f"pools: {text}", 0)
        if name not in names:
            continue
        kind = type("Pool", (servers.KINDS[name][0],), {"pool": pool})
        server = kind(f"pool-{number}", place_for())
        try:
            time.sleep(1)

            def sample(server=server):
                return server.memory()[0], php_processes(server)
            before = sample()
            # The first load lets the pool grow, the second is counted.
            load(server, POOL_LOAD, options.seconds, directory, sample)
            result, busy = load(server, POOL_LOAD, options.seconds, directory, sample)
            # A default pool ends idle processes after 15 s, and FPM's dynamic one a second.
            time.sleep(18 if pool not in (8, None) else 1)
            rows.append({"pool": text, "result": result, "before": before, "load": busy, "after": sample()})
        finally:
            server.stop()
        progress.step(f"pools: {text}")
    return rows
