"""The machine, and its requirements for measurements."""

import os
import platform
import resource
import subprocess
from pathlib import Path

from processes import Unusable

from peers import php, plain_user  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ("wrk", "apache2-utils", "siege", "nghttp2-client", "iproute2", "openssl")
WORDPRESS = ("wordpress", "wordpress-theme-twentytwentythree", "mariadb-server-core", "phpX.Y-cli",
             "phpX.Y-mysql", "phpX.Y-xml", "phpX.Y-mbstring", "phpX.Y-gd", "phpX.Y-curl")
HOWDAH = ("libphpX.Y-embed", "phpX.Y-opcache")


def require(packages):
    """Installs missing packages, as root; otherwise prints the command."""
    if subprocess.run([ROOT / "tools" / "require.sh", *sorted(set(packages))], check=False).returncode:
        raise Unusable("The packages above are needed.")


def processors():
    """How many processors there are to use."""
    return len(os.sched_getaffinity(0))


def allow_descriptors():
    """As many open files as the system allows; returns how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def version(*command):
    """The first line that a program says about its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else None


def description():
    """The facts that a reader needs to judge the figures."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = next(int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()
                  if line.startswith("MemTotal"))
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    found = {
        "processors": f"{processors()} × {model}",
        "memory": f"{memory / 2**20:.0f} GiB",
        "system": f"{system}, Linux {platform.release()}",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "wrk": version("wrk", "-v"),
        "ab": version("ab", "-V"),
        "siege": version("siege", "--version"),
        "h2load": version("h2load", "--version"),
    }
    return {name: value for name, value in found.items() if value}
