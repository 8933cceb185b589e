"""Starting, awaiting and stopping the servers that a run needs."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from machine import Unusable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from ports import free_port  # noqa: E402, F401

# A debug build on a busy two-core machine needs some seconds; a minute means that it hangs.
PATIENCE = 60


class Process:
    """One server of the run, with its output in a log file."""

    def __init__(self, name, command, log, environment=None):
        self.name = name
        self.log = log
        with open(log, "ab") as output:
            # A session of its own, so that all it starts can be ended with it.
            self.child = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True, cwd="/",
                env={**os.environ, **(environment or {})})

    def wait_for(self, ready, what):
        """Waits until `ready` is true; fails early when the process ends.

        Whatever ends the wait otherwise also ends the process: nobody else knows it yet.
        """
        deadline = time.monotonic() + PATIENCE
        try:
            while not ready():
                if not self.alive():
                    raise Unusable(f"{self.name} ended with status {self.child.returncode} before "
                                   f"{what}:\n{self.tail()}")
                if time.monotonic() > deadline:
                    raise Unusable(f"{self.name}: no {what} after {PATIENCE} s:\n{self.tail()}")
                time.sleep(0.05)
        except BaseException:
            self.stop()
            raise

    def wait_for_http(self, port):
        """Waits until any HTTP answer comes from the port."""
        def answers():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request("GET", "/")
                return connection.getresponse().status > 0
            except (OSError, http.client.HTTPException):
                return False
            finally:
                connection.close()
        self.wait_for(answers, f"answer from port {port}")

    def alive(self):
        """Whether it still runs."""
        return self.child.poll() is None

    def descendant(self, title):
        """The number of the oldest process with this title that it, or a process of it, has started, or None.

        A process that has just been forked has the title of its parent for a moment.
        """
        parents, found = {}, []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                pid = int(directory.name)
                fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
                parents[pid] = int(fields[1])
                if (directory / "cmdline").read_bytes().rstrip(b"\0") == title.encode():
                    found.append((int(fields[19]), pid))
        for _, pid in sorted(found):
            parent = pid
            while parent := parents.get(parent):
                if parent == self.child.pid:
                    return pid
        return None

    def tail(self, lines=20):
        """The end of its log."""
        with open(self.log, errors="replace") as log:
            return "".join(log.readlines()[-lines:])

    def stop(self):
        """Ends it in an orderly way, then by force, and leaves no child of it behind."""
        if self.alive():
            self.child.terminate()
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                pass
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
