"""PHP-FPM in the foreground."""

import re
from pathlib import Path

from .processes import php, plain_user


def programs():
    """The programs that are installed, the newest one at the end."""
    found = [path for directory in ("/usr/sbin", "/usr/local/sbin") for path in Path(directory).glob("php-fpm*")]
    return sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])


def program():
    """The program of the version that is used."""
    return Path(f"/usr/sbin/php-fpm{php()}")


def pool(listen, text, name="www"):
    """The section of a pool."""
    lines = [f"[{name}]", f"listen = {listen}"]
    if user := plain_user():
        lines += [f"user = {user}", f"group = {user}"]
        if str(listen).startswith("/"):
            lines += [f"listen.owner = {user}", f"listen.group = {user}"]
    return "\n".join([*lines, text.strip(), ""])


def command(directory, pools, ini=None, level="notice", name="fpm", binary=None):
    """Writes a configuration; returns the command that starts PHP-FPM with it."""
    file = directory / f"{name}.conf"
    file.write_text(f"[global]\ndaemonize = no\nerror_log = {directory}/fpm-error.log\nlog_level = {level}\n{pools}")
    return [binary or program(), "--nodaemonize", "--fpm-config", file, *(["-c", ini] if ini else [])]
