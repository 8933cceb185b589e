"""The programs that make the load: their command lines, and the reading of their output.

Every reader returns the same: requests answered, seconds, p50 and p99 in seconds (none where the
program does not say), answers other than 2xx, errors of sockets, and requests that got no answer in time.
"""

import json
import re
import sys
import time
from pathlib import Path
from shlex import join

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class Unreadable(Exception):
    """The output of a client is invalid; most often it could not connect."""


def outcome(requests, seconds, p50=None, p99=None, non_2xx=0, errors=0, timeouts=0):
    """One result, under the names that everything else uses."""
    return {"requests": requests, "seconds": seconds, "p50": p50, "p99": p99,
            "non_2xx": non_2xx, "errors": errors, "timeouts": timeouts}


def time_of(text):
    """Seconds from `650.00us`, `1.10ms`, `2.05s` or `1.00m`."""
    found = re.fullmatch(r"([0-9.]+)(us|ms|s|m|h)", text)
    if not found:
        raise Unreadable(f"{text!r} is no time")
    return float(found.group(1)) * UNITS[found.group(2)]


def number(pattern, text, default=None):
    """The first group of a pattern as a number."""
    found = re.search(pattern, text, re.MULTILINE)
    if found:
        return float(found.group(1))
    if default is None:
        raise Unreadable(f"it printed nothing like {pattern!r}:\n{text[-600:]}")
    return default


def wrk(url, workload, seconds, threads, _directory):
    """wrk for a time. Every connection sends its next request when it has its answer."""
    command = ["wrk", f"-t{min(threads, workload.connections)}", f"-c{workload.connections}",
               f"-d{max(round(seconds), 1)}s", "--latency", "--timeout", "10s"]
    if not workload.keep_alive:
        command += ["-H", "Connection: close"]
    return [*command, url]


def read_wrk(text, _directory=None):
    """The output of wrk. Requests that are never answered appear nowhere in it."""
    found = re.search(r"^\s*(\d+) requests in ([0-9.]+[a-z]+),", text, re.MULTILINE)
    if not found:
        raise Unreadable(text[-600:])
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    counts = [int(count) for count in errors.groups()] if errors else [0, 0, 0, 0]

    def percentile(which):
        line = re.search(rf"^\s+{which}%\s+(\S+)", text, re.MULTILINE)
        return time_of(line.group(1)) if line else None
    return outcome(int(found.group(1)), time_of(found.group(2)), percentile(50), percentile(99),
                   int(number(r"Non-2xx or 3xx responses: (\d+)", text, 0)), sum(counts[:3]), counts[3])


def ab(url, workload, seconds, _threads, directory):
    """ab for a time, HTTP/1.0, one thread."""
    command = ["ab", "-q", "-r", "-c", str(workload.connections), "-t", str(max(round(seconds), 1)),
               "-n", "10000000", "-s", "30", "-e", str(directory / "ab.csv")]
    return [*command, *(["-k"] if workload.keep_alive else []), url]


def read_ab(text, directory=None):
    """The output of ab; its percentiles are whole milliseconds there and finer in the file.

    It counts an answer of another length as failed; for pages that differ each time that is no failure.
    """
    requests = int(number(r"^Complete requests:\s+(\d+)", text))
    kinds = re.search(r"\(Connect: (\d+), Receive: (\d+), Length: \d+, Exceptions: (\d+)\)", text)
    errors = sum(int(count) for count in kinds.groups()) if kinds else 0
    percentiles = {}
    path = directory / "ab.csv" if directory else None
    if path and path.exists():
        for line in path.read_text().splitlines()[1:]:
            which, _, value = line.partition(",")
            percentiles[which] = float(value) / 1000
        path.unlink()
    return outcome(requests, number(r"^Time taken for tests:\s+([0-9.]+)", text),
                   percentiles.get("50"), percentiles.get("99"),
                   int(number(r"^Non-2xx responses:\s+(\d+)", text, 0)), errors)


def handshakes(url, workload, seconds, threads, _directory):
    """An ab for each processor, each request with a handshake of its own: wrk takes up its sessions again."""
    one = (f"ab -q -r -f TLS1.3 -c {max(workload.connections // threads, 1)} -t {max(round(seconds), 1)} -n 10000000 -s 30 "
           f"{url} & ")
    return ["sh", "-c", one * threads + "wait"]


def read_handshakes(text, _directory=None):
    """The output of several ab, summed up."""
    parts = text.split("Concurrency Level:")[1:]
    found = [read_ab(part) for part in parts]
    if not found:
        raise Unreadable(text[-600:])
    sums = {name: sum(one[name] for one in found) for name in ("requests", "non_2xx", "errors")}
    return outcome(seconds=max(one["seconds"] for one in found), **sums)


def http2(url, workload, seconds, threads, _directory):
    """h2load for a time over HTTP/2, with several requests on the way on each connection."""
    return ["h2load", "-t", str(min(threads, workload.connections)), "-c", str(workload.connections),
            "-m", str(workload.streams), "-D", str(max(round(seconds), 1)), url]


def h2load(url, workload, _seconds, _threads, _directory):
    """h2load for a number of requests over connections that are all there from the beginning."""
    return ["h2load", "--h1", "-c", str(workload.connections), "-n", str(workload.requests), url]


def read_h2load(text, _directory=None):
    """The output of h2load; of latencies it knows only the mean."""
    seconds = re.search(r"^finished in ([0-9.]+[a-z]+),", text, re.MULTILINE)
    counts = re.search(r"^requests: (\d+) total, \d+ started, (\d+) done, (\d+) succeeded, (\d+) failed, "
                       r"(\d+) errored, (\d+) timeout", text, re.MULTILINE)
    if not seconds or not counts:
        raise Unreadable(text[-600:])
    _total, done, _succeeded, failed, errored, timeouts = (int(count) for count in counts.groups())
    statuses = re.search(r"^status codes: (\d+) 2xx", text, re.MULTILINE)
    answered = done - errored - timeouts
    bad = max(answered - int(statuses.group(1)), 0) if statuses else 0
    # "failed" counts errors and requests without an answer.
    return outcome(answered, time_of(seconds.group(1)), None, None, bad, max(failed - bad - timeouts, 0), timeouts)


SIEGE_SETTINGS = """verbose = false
quiet = false
logging = false
show-logfile = false
json_output = true
color = off
parser = false
failures = 1000000
cache = false
protocol = HTTP/1.1
connection = close
benchmark = true
"""


def siege(url, workload, seconds, _threads, directory):
    """siege over a list of addresses in random order, without thinking, without keep-alive."""
    base = url.rsplit("/", 1)[0] if not workload.paths else url[:len(url) - len(workload.path)]
    addresses = directory / "urls.txt"
    addresses.write_text("".join(f"{base}{path}\n" for path in workload.paths or (workload.path,)))
    settings = directory / "siegerc"
    settings.write_text(SIEGE_SETTINGS)
    return ["siege", f"--rc={settings}", "-b", "-i", "-c", str(workload.connections),
            "-t", f"{max(round(seconds), 1)}S", "-f", str(addresses)]


def read_siege(text, _directory=None):
    """The JSON that siege ends with. It knows only the mean and the longest latency."""
    start = text.rfind("{")
    try:
        found = json.loads(text[start:text.rindex("}") + 1]) if start >= 0 else None
    except ValueError as error:
        raise Unreadable(text[-600:]) from error
    if not found:
        raise Unreadable(text[-600:])
    return outcome(int(found["transactions"]), float(found["elapsed_time"]), None, None,
                   0, int(found["failed_transactions"]))


NEW_ADDRESSES = """local thread = 0
function setup(one) one:set("number", thread); thread = thread + 1 end
function init(arguments) prefix, count = wrk.path .. "?" .. arguments[1] .. "-" .. number .. "-", 0 end
function request() count = count + 1; return wrk.format(nil, prefix .. count) end
"""
# Seconds for which others ask for new addresses before the measured clients begin.
STORM_AHEAD = 0.5


def storm(url, workload, seconds, _threads, directory):
    """wrk for one address, while another wrk asks for a new address each time."""
    script = directory / "new.lua"
    script.write_text(NEW_ADDRESSES)
    # Ends after the measured one.
    length = round(seconds) + 2
    others = ["wrk", "-t1", f"-c{workload.beside}", f"-d{length}s", "-s", str(script), url, "--", str(time.time_ns())]
    measured = wrk(url, workload, seconds, 1, directory)
    return ["sh", "-c", f"{join(others)} > {join([str(directory / 'others.txt')])} 2>&1 & sleep {STORM_AHEAD}; "
                        f"{join(measured)}; wait"]


def read_storm(text, directory=None):
    """The output of the measured wrk, with the rate of the others and their failures."""
    found, others = read_wrk(text), read_wrk((directory / "others.txt").read_text())
    for name in ("non_2xx", "errors", "timeouts"):
        found[name] += others[name]
    found["beside"] = others["requests"] / others["seconds"]
    return found


def datagrams(url, workload, seconds, _threads, _directory):
    """Clients over UDP, each of which sends its next datagram when it has its answer."""
    port = url.split(":")[2].split("/")[0]
    return [sys.executable, str(Path(__file__).with_name("datagrams.py")), "ask", port, str(workload.connections), str(seconds)]


def read_datagrams(text, _directory=None):
    """Their output."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Unreadable(text[-600:]) from error
    if not found["requests"]:
        raise Unreadable("no datagram is answered")
    return outcome(found["requests"], found["seconds"], found["p50"], found["p99"], 0, found["errors"], found["lost"])


CLIENTS = {"wrk": (wrk, read_wrk), "datagrams": (datagrams, read_datagrams), "storm": (storm, read_storm), "ab": (ab, read_ab), "handshakes": (handshakes, read_handshakes),
           "h2load": (h2load, read_h2load), "http2": (http2, read_h2load), "siege": (siege, read_siege)}


def received(text):
    """{local port: bytes received} of connections, from `ss -tinOH state established`."""
    found = {}
    for line in text.splitlines():
        addresses = [field for field in line.split()[:5] if ":" in field]
        if len(addresses) == 2:
            counter = re.search(r"\bbytes_received:(\d+)", line)
            found[addresses[0]] = int(counter.group(1)) if counter else 0
    return found


def starved(before, after):
    """Number of connections that were open the whole time without an answer."""
    return sum(1 for address, count in after.items() if before.get(address) == count)
