"""A line that says how far the run is: a bar on a terminal, now and then a line elsewhere."""

import sys
import time

WIDTH = 28


class Progress:
    """Counts steps of which the number may grow."""

    def __init__(self, output=sys.stderr):
        self.output = output
        self.live = output.isatty()
        self.total = self.done = 0
        self.started = time.monotonic()
        self.printed = 0.0
        self.shown = 0

    def expect(self, steps):
        """Adds steps to come."""
        self.total += steps

    def step(self, text, steps=1):
        """One step is done; `text` names the next one."""
        self.done += steps
        now = time.monotonic()
        if self.live:
            line = self.line(text)
            self.output.write("\r" + line.ljust(self.shown))
            self.shown = len(line)
        elif now - self.printed > 15:
            self.printed = now
            self.output.write(self.line(text) + "\n")
        self.output.flush()

    def line(self, text):
        """Bar, share, time left, text."""
        share = min(self.done / self.total, 1) if self.total else 0
        full = int(share * WIDTH)
        spent = time.monotonic() - self.started
        left = spent / share - spent if share > 0.01 else None
        ends = "" if left is None else f", {left / 60:.0f} min left" if left > 90 else f", {left:.0f} s left"
        return f"[{'#' * full}{'.' * (WIDTH - full)}] {share:4.0%}{ends}  {text}"[:110]

    def note(self, text):
        """A line of its own."""
        if self.live and self.shown:
            self.output.write("\r" + " " * self.shown + "\r")
            self.shown = 0
        self.output.write(text + "\n")
        self.output.flush()

    def finish(self):
        """The bar goes away."""
        if self.live and self.shown:
            self.output.write("\r" + " " * self.shown + "\r")
            self.output.flush()
            self.shown = 0
