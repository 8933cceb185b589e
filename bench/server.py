"""The common parts of all servers: their files, their processes and the costs of these."""

from dataclasses import dataclass
from pathlib import Path

from processes import Process, answers, free_port, memory, processor_time, title, tree


@dataclass
class Place:
    """The files and directories of a server."""

    directory: Path
    root: Path
    ini: Path
    setup: object
    programs: dict
    # The server that requests are passed on to, if they are.
    behind: object = None

    @property
    def certificate(self):
        """The certificate that was made for the run; its key is beside it."""
        return self.ini.parent / "certificate.pem"

    @property
    def key(self):
        """The key of the certificate."""
        return self.ini.parent / "key.pem"


class Server:
    """A server that runs, all its processes included."""

    # How the titles of the processes begin that talk to clients; empty if these run PHP as well.
    front = ""
    packages = ()
    # Seconds between two looks whether it is ready.
    pause = 0.05

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.port = free_port()
        self.directory = place.directory / name
        self.directory.mkdir(mode=0o755)
        self.processes = []
        try:
            self.start()
            self.processes[-1].wait_for(self.ready, f"answer on port {self.port}", self.pause)
        except BaseException:
            self.stop()
            raise

    def ready(self):
        """Whether it answers."""
        return answers(self.port, self.place.setup.tls)

    def run(self, name, command, environment=None):
        """Starts one of the server's programs."""
        process = Process(name, command, self.directory / f"{name}.log", environment)
        self.processes.append(process)
        return process

    def write(self, name, text):
        """A file of the server's own."""
        path = self.directory / name
        path.write_text(text)
        return path

    def pids(self):
        """All its processes."""
        return [pid for process in self.processes for pid in tree(process.child.pid)]

    def front_pids(self):
        """Those that talk to clients."""
        return [pid for pid in self.pids() if title(pid).startswith(self.front)] if self.front else []

    def cpu(self):
        """Seconds of processor time used so far."""
        return processor_time(self.pids())

    def memory(self):
        """Bytes of all processes, and of those that talk to clients."""
        return memory(self.pids()), memory(self.front_pids())

    def alive(self):
        """Whether everything still runs."""
        return all(process.alive() for process in self.processes)

    def stop(self):
        """Ends it."""
        for process in reversed(self.processes):
            process.stop()

    def children(self, connections=None):
        """PHP processes where a connection holds one."""
        bound = self.place.setup.bound if connections is None else connections
        return max(self.place.setup.workers, bound + 8 if bound else 0)
