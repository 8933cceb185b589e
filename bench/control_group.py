"""A control group that limits memory: version 1 or 2, whichever the machine has."""

import os
import re
import time
from pathlib import Path

from processes import Unusable

MIB = 1 << 20
ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A control group of limited memory without swap. Only root can make one."""

    def __init__(self, name, mib, root=ROOT):
        if os.geteuid() != 0:
            raise Unusable("Only root can limit the memory of a control group.")
        first = root / "memory"
        self.is_old = (first / "memory.limit_in_bytes").exists()
        if not self.is_old:
            enable(root)
        self.path = (first if self.is_old else root) / f"howdah-{name}-{os.getpid()}"
        self.path.mkdir()
        if self.is_old:
            # The limit with swap must not be below the one without, so its order matters; kernels may lack it.
            self.write("memory.limit_in_bytes", mib * MIB)
            if (self.path / "memory.memsw.limit_in_bytes").exists():
                self.write("memory.memsw.limit_in_bytes", mib * MIB)
        else:
            self.write("memory.max", mib * MIB)
            self.write("memory.swap.max", 0)

    def write(self, name, value):
        """Sets one of the group's values."""
        (self.path / name).write_text(str(value))

    def command(self, command):
        """A command that enters the group and then becomes the given one."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.path, *command]

    def killed(self):
        """The number of processes that the kernel has killed for lack of memory."""
        return number("oom_kill", (self.path / ("memory.oom_control" if self.is_old else "memory.events")).read_text())

    def peak(self):
        """Bytes of the most memory that the group has had, the page cache included; 0 if the kernel does not say."""
        path = self.path / ("memory.max_usage_in_bytes" if self.is_old else "memory.peak")
        return int(path.read_text()) if path.exists() else 0

    def used(self):
        """Bytes that the group has now, without the page cache, which the kernel can drop."""
        usage = int((self.path / ("memory.usage_in_bytes" if self.is_old else "memory.current")).read_text())
        return without_files(usage, (self.path / "memory.stat").read_text(), self.is_old)

    def remove(self):
        """Ends the group; all its processes have ended."""
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)
        raise Unusable(f"{self.path} cannot be removed")


def enable(root):
    """Lets groups of version 2 limit memory."""
    try:
        if "memory" not in (root / "cgroup.subtree_control").read_text().split():
            (root / "cgroup.subtree_control").write_text("+memory")
    except OSError as problem:
        raise Unusable(f"{root} has no control groups that limit memory: {problem}") from problem


def number(name, text):
    """The value of a key in a file with one key in each line; 0 without it."""
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else 0


def without_files(usage, text, is_old):
    """A group's bytes without the page cache. `text` is that of memory.stat."""
    prefix = "total_" if is_old else ""
    return max(usage - sum(number(f"{prefix}{kind}_file", text) for kind in ("active", "inactive")), 0)
