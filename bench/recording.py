"""Records the requests of a site's visitors in the course of a day, and the cost of each.

The day takes two and a half minutes. `siege` plays visitors, who read before they continue, a burst of people who
do not, and a crawler; several times a second the server's own status tells how many of them wait or are served,
and the kernel the costs of the processes meanwhile. Automatic sizing is tested with the recording: see
crates/php-pool/src/automatic_sizing/simulation.rs.
"""

import http.client
import json
import re
import socket
import statistics
import subprocess
import threading
import time
from collections import namedtuple
from pathlib import Path

import clients
from processes import Unusable, fetch, processor_time

MIB = 1 << 20
# How often the status is asked for, how often a line is written, and of how much time costs are the mean.
LOOK, LINE, WINDOW = 0.125, 0.5, 2.0
# Seconds, visitors, how long they read at most, and whether a crawler is there, which has four connections.
DAY = (
    (12, 1, 3, False),    # night
    (8, 4, 1, False),     # morning
    (8, 10, 1, False),
    (8, 18, 1, False),
    (12, 30, 1, False),   # noon
    (22, 64, 0, False),   # the site is in the news
    (14, 20, 1, False),   # afternoon
    (20, 6, 1, True),     # a crawler
    (10, 12, 1, False),   # evening
    (8, 4, 1, False),
    (8, 1, 3, False),     # night
    (20, 0, 0, False),    # no visitor
)
CRAWLER = 4
COLUMNS = ("seconds", "clients", "cpu", "database", "wait", "peak", "kept", "workers")
HEADER = """\
# What visitors asked of {site} in a day of {seconds} seconds, and what a request cost then.
# Made by `{command}` on {machine},
# with PHP {php} and {processes}.
#
# seconds   since the beginning
# clients   requests that waited for a process or had one
# cpu       milliseconds of a processor that a request took in its process,
# database  in the database,
# wait      and milliseconds for which its process had nothing to do meanwhile
# peak      the most MiB that a process took
# kept      MiB that a process without a request kept
# workers   processes that ran
"""


# Requests that a process has finished, and whether it has one; seconds on a processor and waiting for one; bytes that
# it has for itself, now and at most.
Worker = namedtuple("Worker", "finished running on delayed private peak")
NEW = Worker(0, False, 0, 0, 0, 0)


class Local(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def kernel(pid):
    """The kernel's figures of a process, in the order of `Worker`."""
    try:
        text = {name: Path(f"/proc/{pid}/{name}").read_text() for name in ("schedstat", "smaps_rollup", "status")}
    except OSError:
        return None
    on, delayed, _ = (int(field) for field in text["schedstat"].split())

    def kib(name, of):
        found = re.search(rf"^{name}:\s+(\d+)", text[of], re.MULTILINE)
        return int(found.group(1)) * 1024 if found else 0

    private = kib("Pss_Anon", "smaps_rollup")
    return on / 1e9, delayed / 1e9, private, private + max(kib("VmHWM", "status") - kib("Rss", "smaps_rollup"), 0)


def look(control, database):
    """One sample."""
    connection = Local(control)
    connection.request("GET", "/pools/site")
    pool = json.loads(connection.getresponse().read())
    connection.close()
    workers = {}
    for one in pool["procs"]:
        found = kernel(one["pid"])
        if found:
            running = one["state"] == "Running"
            workers[one["pid"]] = Worker(one["requests"] - running, running, *found)
    return {"at": time.monotonic(), "clients": pool["listen-queue"] + pool["active-processes"],
            "active": pool["active-processes"], "workers": workers, "database": processor_time(database)}


def costs(samples):
    """The cost of a request between the first and the last of these; none if no request ended."""
    busy = cpu = delayed = finished = 0.0
    for before, after in zip(samples, samples[1:]):
        busy += (after["at"] - before["at"]) * (before["active"] + after["active"]) / 2
        for pid, worker in after["workers"].items():
            old = before["workers"].get(pid, NEW)
            cpu += worker.on - old.on
            delayed += worker.delayed - old.delayed
            finished += worker.finished - old.finished
    if finished <= 0:
        return None
    database = samples[-1]["database"] - samples[0]["database"]
    each = [max(value, 0.0) * 1000 / finished for value in (cpu, database, busy - cpu - delayed - database)]
    workers = [worker for sample in samples for worker in sample["workers"].values() if worker.finished]
    idle = [worker.private for worker in workers if not worker.running]
    return (*each, max(worker.peak for worker in workers) / MIB, statistics.median(idle) / MIB if idle else None)


def visitors(port, paths, directory):
    """The day. Each group of visitors is a siege of its own."""
    addresses, settings = directory / "urls.txt", directory / "siegerc"
    addresses.write_text("".join(f"http://127.0.0.1:{port}{path}\n" for path in paths))
    settings.write_text(clients.SIEGE_SETTINGS.replace("benchmark = true", "benchmark = false"))
    for seconds, many, reading, crawled in DAY:
        groups = [(many, reading)] * (many > 0) + [(CRAWLER, 0)] * crawled
        end = time.monotonic() + seconds
        running = []
        for count, pause in groups:
            pace = ["-b"] if pause == 0 else ["-d", str(pause)]
            running.append(subprocess.Popen(
                ["siege", f"--rc={settings}", *pace, "-i", "-c", str(count), "-t", f"{seconds}S", "-f", addresses],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(max(end - time.monotonic(), 0))
        for process in running:
            process.terminate()
            process.wait()


def lines(samples):
    """The recording: a line for every half second."""
    start, due, known, rows = samples[0]["at"], 0.0, (None,) * 5, []
    for at, sample in enumerate(samples):
        now = sample["at"] - start
        if now < due:
            continue
        due += LINE
        window = [one for one in samples[:at + 1] if one["at"] >= sample["at"] - WINDOW]
        new = costs(window) or (None,) * 5
        known = tuple(old if value is None else value for old, value in zip(known, new))
        rows.append([now, sample["clients"], *known, len(sample["workers"])])
    # Figures before the end of the first request follow from those after it.
    for column in range(2, 7):
        first = next((row[column] for row in rows if row[column] is not None), 0.0)
        for row in rows:
            row[column] = first if row[column] is None else row[column]
    return [f"{row[0]:.1f},{row[1]}," + ",".join(f"{value:.1f}" for value in row[2:7]) + f",{row[7]}" for row in rows]


def record(contender, site, paths, directory, file, facts):
    """Records a day of a site that runs."""
    for path in paths:
        status, _ = fetch(contender.port, path, timeout=60)
        if status != 200:
            raise Unusable(f"{path} is answered with {status}")
    load = threading.Thread(target=visitors, args=(contender.port, paths, directory))
    load.start()
    samples = []
    while load.is_alive():
        samples.append(look(contender.control, site.pids()))
        load.join(LOOK)
    header = HEADER.format(seconds=round(samples[-1]["at"] - samples[0]["at"]), **facts)
    file.write_text(header + ",".join(COLUMNS) + "\n" + "\n".join(lines(samples)) + "\n")
