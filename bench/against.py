"""`--against URL`: one server that is already running. Only measurements of the client are possible."""

import subprocess
from urllib.parse import urlsplit

import clients
import figures
import machine
from processes import Unusable
from tables import count, markdown, milli
from workloads import Workload

CONNECTIONS = (1, 20, 64, 200)
QUICK_CONNECTIONS = (1, 64)


def run(url, options, directory, progress):
    """Drives an address with wrk; returns the report and the data."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Unusable(f"{url} is no address to drive; give one like http://127.0.0.1:8080/")
    machine.require(machine.CLIENTS)
    ladder = QUICK_CONNECTIONS if options.quick else CONNECTIONS
    found = []
    progress.expect(len(ladder) * 2 * options.rounds)
    for kept in (True, False):
        for connections in ladder:
            one = Workload("against", "against", url, parts.path or "/", connections=connections, keep_alive=kept)
            results = []
            for _ in range(options.rounds):
                progress.step(f"{connections} connections", 0)
                results.append({"it": drive(url, one, options.seconds, directory)})
                progress.step(f"{connections} connections")
            found.append({"connections": connections, "keep_alive": kept, "rounds": results})
    rows = []
    for one in found:
        sums = figures.summary(one["rounds"], "it")
        rows.append([f"{one['connections']}, {'kept' if one['keep_alive'] else 'new for each request'}", count(sums["rate"]),
                     f"{count(sums['lowest'])}–{count(sums['highest'])}", milli(sums["p50"]), milli(sums["p99"]),
                     count(sums["non_2xx"] + sums["errors"] + sums["timeouts"])])
    columns = ["connections", "requests/s", "from–to", "p50 ms", "p99 ms", "failed"]
    text = (f"# {url}\n\nMedians of {options.rounds} rounds of {options.seconds:g} s, by wrk. Answers other than 2xx, broken "
            f"connections and requests without an answer count as failed.\n\n{markdown(columns, rows)}")
    return text, {"url": url, "workloads": found}


def drive(url, workload, seconds, directory):
    """wrk against an address, which may be on another machine."""
    command, read = clients.CLIENTS["wrk"]
    done = subprocess.run(command(url, workload, seconds, machine.processors(), directory), capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL)
    try:
        result = read(done.stdout + done.stderr)
    except clients.Unreadable as problem:
        raise Unusable(f"{url} cannot be driven: {str(problem).strip()}") from problem
    return {**result, "cpu": None, "starved": None, "cpu_others": 0.0}
