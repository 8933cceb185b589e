"""Many visitors at once."""

import contextlib
import threading
import time

from report import Failure, describe
from visitor import Visitor


class Crowd:
    """Visitors in threads of their own, until there were enough requests or the crowd is sent home."""

    def __init__(self, port, host, visitors, requests=None):
        """`requests` is the number after which they stop; without it they continue until end()."""
        self.visitors = [Visitor(port, host, number) for number in range(visitors)]
        self.requests = requests
        self.ending = threading.Event()
        self.changed = threading.Condition()
        self.answered = 0
        self.failures = []
        self.seconds = 0.0
        self.threads = [threading.Thread(target=self.visit, args=(visitor,), daemon=True)
                        for visitor in self.visitors]

    def visit(self, visitor):
        """The work of a thread."""
        try:
            while not self.ending.is_set():
                before = visitor.requests
                visitor.act()
                with self.changed:
                    self.answered += visitor.requests - before
                    if self.requests and self.answered >= self.requests:
                        self.ending.set()
                    self.changed.notify_all()
        except Exception as problem:  # with any exception, the request has failed
            with self.changed:
                self.failures.append(describe(problem))
                self.ending.set()
                self.changed.notify_all()
        finally:
            visitor.close()

    def run(self):
        """Runs until there were enough requests; fails if one has failed."""
        self.start()
        self.join()

    def start(self):
        """Starts all threads."""
        self.started = time.monotonic()
        for thread in self.threads:
            thread.start()

    def join(self):
        """Waits for all threads; fails if a request has failed."""
        for thread in self.threads:
            thread.join()
        self.seconds = time.monotonic() - self.started
        if self.failures:
            raise Failure("\n".join(self.failures))

    def wait_for(self, more):
        """Waits until so many more requests are answered, or one has failed."""
        with self.changed:
            until = self.answered + more
            self.changed.wait_for(lambda: self.answered >= until or self.ending.is_set())

    @contextlib.contextmanager
    def busy(self, before=100, after=200):
        """Runs the block in the middle of the visits; fails if a request has failed."""
        self.start()
        try:
            self.wait_for(before)
            yield self
            self.wait_for(after)
        finally:
            self.ending.set()
            for thread in self.threads:
                thread.join()
        self.join()

    @property
    def rate(self):
        """Requests in a second."""
        return self.answered / self.seconds if self.seconds else 0

    def memory(self):
        """The memory of each process that was seen often: {process: [(requests, bytes), ...]}."""
        processes = {}
        for visitor in self.visitors:
            for pid, requests, memory in visitor.facts:
                processes.setdefault(pid, []).append((requests, memory))
        return {pid: sorted(facts) for pid, facts in processes.items() if len(facts) >= 12}
