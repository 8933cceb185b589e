"""Starting programs, waiting for them, and ending them with all that they have started."""

import contextlib
import functools
import http.client
import os
import pwd
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Seconds. A debug build on a busy machine needs some; a minute means that a program hangs.
PATIENCE = 60
# Seconds until a program that was told to end is killed.
END_PATIENCE = 20


class Unusable(Exception):
    """A program that has to be there is not, or does not start; the message says why."""


@functools.cache
def php():
    """The version of PHP that is used, such as 8.4."""
    return subprocess.run([ROOT / "tools" / "php.sh", "version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def plain_user():
    """The account of servers that root starts; None if another user does."""
    return "www-data" if os.geteuid() == 0 else None


def user_id():
    """The user that servers run as."""
    return pwd.getpwnam("www-data").pw_uid if os.geteuid() == 0 else os.geteuid()


def accepts(port, host="127.0.0.1"):
    """Whether a program listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def answers_http(port):
    """Whether any response comes from a port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_for(what, condition, programs=(), pause=0.05):
    """Waits until a condition holds; raises `Unusable` after a minute, or if one of the programs ends before."""
    end = time.monotonic() + PATIENCE
    while not condition():
        ended = [program for program in programs if not program.alive()]
        if ended or time.monotonic() > end:
            told = "\n".join(program.told() for program in ended or programs)
            raise Unusable(f"no {what}{'' if ended else f' after {PATIENCE} s'}\n{told}")
        time.sleep(pause)


class Process:
    """A program in a session of its own, with its output in a file."""

    def __init__(self, name, command, log, environment=None, only=None, cwd="/"):
        """`environment` has variables in addition to those of this process, `only` has all."""
        self.name, self.log = name, Path(log)
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, cwd=cwd, env=only or {**os.environ, **(environment or {})})
        self.pid = self.child.pid

    def alive(self):
        """Whether it runs."""
        return self.child.poll() is None

    def told(self, lines=20):
        """Its status and the end of its output."""
        status = "runs" if self.alive() else f"ended with status {self.child.returncode}"
        return f"{self.name} {status}; the end of its log:\n{self.tail(lines)}"

    def tail(self, lines=20):
        """The end of its output."""
        return "".join(self.log.read_text(errors="replace").splitlines(True)[-lines:])

    def wait_for(self, ready, what, pause=0.05):
        """Waits until `ready` is true; otherwise ends the program, which is not in any list yet."""
        try:
            wait_for(f"{what} of {self.name}", ready, [self], pause)
        except BaseException:
            self.stop()
            raise

    def wait_for_http(self, port):
        """Waits until any response comes from the port."""
        self.wait_for(lambda: answers_http(port), f"answer from port {port}")

    def descendant(self, title):
        """The number of the oldest process with this title that it, or a process of it, has started, or None.

        A process that has just been forked has the title of its parent for a moment.
        """
        found = []
        for pid in tree(self.pid)[1:]:
            fields = stat(pid)
            if fields and title_of(pid) == title:
                found.append((int(fields[19]), pid))
        return min(found)[1] if found else None

    def stop(self):
        """Ends it in an orderly way, then by force, with every process that it has started."""
        everything = tree(self.pid)
        if self.alive():
            self.child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.child.wait(END_PATIENCE)
        for pid in everything:
            # Another process may have got a number meanwhile, but no other session has that of this one.
            if session_of(pid) == self.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.child.wait()


class Programs:
    """The programs of a comparison, with their output in a directory."""

    def __init__(self, directory):
        self.directory, self.running = Path(directory), []

    def start(self, name, command, **options):
        """Starts a program; it ends if this process is killed."""
        command = ["setpriv", "--pdeathsig", "TERM", *command]
        log = self.directory / f"{len(self.running)}-{name}.log"
        self.running.append(Process(name, command, log, **options))
        return self.running[-1]

    def wait_for(self, what, condition):
        """Waits for a condition; raises `Unusable` if a program ends before."""
        wait_for(what, condition, self.running)

    def wait_for_ports(self, ports):
        """Waits until programs listen on all of these."""
        for port in ports:
            self.wait_for(f"server on port {port}", lambda: accepts(port))

    def told(self):
        """The last output of all of them."""
        return "\n".join(program.told() for program in self.running)

    def stop(self):
        """Ends all."""
        for program in self.running:
            if program.alive():
                program.child.terminate()
        for program in self.running:
            program.stop()


# ----- processes as the kernel shows them


def stat(pid):
    """The fields of /proc/PID/stat behind the name; the first is the state."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def title_of(pid):
    """The row of a process in `ps`; empty if the process does not exist."""
    # A process may end between the opening of the file and the reading.
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def session_of(pid):
    """The session that a process belongs to; None if the process does not exist."""
    fields = stat(pid)
    return int(fields[3]) if fields else None


def tree(root):
    """A process and all that descend from it."""
    found = [root]
    for parent in found:
        # A process may end meanwhile.
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").glob("*/children"):
                found += [int(child) for child in task.read_text().split()]
    return found
