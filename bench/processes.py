"""Starting and stopping servers, and what the kernel says about them: processor time and memory."""

import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from ports import free_port  # noqa: E402, F401

TICKS = os.sysconf("SC_CLK_TCK")
# A server that takes longer than this to answer its first request hangs.
PATIENCE = 60


class Unusable(Exception):
    """Something that has to be there is not; the message says what, and what to do."""


class Process:
    """One program in a session of its own, so that all it starts can be ended with it."""

    def __init__(self, name, command, log, environment=None):
        self.name, self.log = name, log
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, cwd="/",
                env={**os.environ, **(environment or {})})

    def alive(self):
        """Whether it still runs."""
        return self.child.poll() is None

    def wait_for(self, ready, what, pause=0.05):
        """Waits until `ready` is true; fails when the process ends before that."""
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if not self.alive() or time.monotonic() > deadline:
                end = "".join(self.log.read_text(errors="replace").splitlines(True)[-15:])
                self.stop()
                raise Unusable(f"{self.name}: no {what}. The end of its log:\n{end}")
            time.sleep(pause)

    def stop(self):
        """Ends it in an orderly way, then by force, with every child it has."""
        everything = tree(self.child.pid)
        if self.alive():
            self.child.terminate()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                pass
        for pid in [-self.child.pid, *everything]:
            # A number may belong to somebody else by now; a session's number cannot.
            if pid > 0 and session_of(pid) != self.child.pid:
                continue
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        self.child.wait()


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


def session_of(pid):
    """The session a process belongs to, or none if there is no such process."""
    fields = stat(pid)
    return int(fields[3]) if fields else None


def stat(pid):
    """The fields of /proc/PID/stat behind the name; the first is the state."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def tree(root):
    """A process and all that descend from it."""
    found = [root]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except OSError:
                pass
    return found


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
    """Bytes of memory: what is shared counts for each process by its share (PSS).

    `Pss_Anon` is what belongs to no file: it does not change when somebody else ends who runs the same program.
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
