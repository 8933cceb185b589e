"""Requests to servers, and the kernel's figures of their processes: processor time and memory."""

import http.client
import os
import re
import ssl
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from peers import Process, Unusable, accepts, free_port  # noqa: E402, F401
from peers.processes import stat, tree  # noqa: E402, F401

TICKS = os.sysconf("SC_CLK_TCK")


def trusting():
    """TLS with a server whose certificate was made for the run."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def fetch(port, path, headers=None, timeout=30, tls=False):
    """Status and body of one request."""
    if tls:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout, context=trusting())
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answers(port, tls=False):
    """Whether HTTP comes from a port."""
    try:
        return fetch(port, "/small.txt", tls=tls)[0] > 0
    except (OSError, http.client.HTTPException):
        return False


def processor_time(pids):
    """Seconds of processor time that these have used, with children that have ended."""
    ticks = 0
    for pid in pids:
        fields = stat(pid)
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS


def busy_time(text):
    """Seconds in which processors ran programs or were taken away, from /proc/stat.

    Time for interrupts is left out: it belongs to no process, and most of it is our own network.
    """
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = (
        int(field) for field in text.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + steal) / TICKS


def machine_busy_time():
    """As `busy_time`, now."""
    return busy_time(Path("/proc/stat").read_text())


def title(pid):
    """The command line as `ps` shows it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def memory(pids, kind="Pss"):
    """Bytes of memory: shared memory counts for each process by its share (PSS).

    `Pss_Anon` is memory without a file: it does not change when another process of the same program ends.
    """
    total = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        found = re.search(rf"^{kind}:\s+(\d+)", rollup, re.MULTILINE)
        total += int(found.group(1)) * 1024 if found else 0
    return total
