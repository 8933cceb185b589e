"""HAProxy in the foreground."""

PROGRAM = "/usr/sbin/haproxy"


def command(directory, text, name="haproxy"):
    """Writes a configuration, with time limits that no test meets; returns the command that starts HAProxy with it."""
    file = directory / f"{name}.cfg"
    limits = "".join(f"    timeout {of} 60s\n" for of in ("connect", "client", "server"))
    file.write_text(f"defaults\n    mode http\n{limits}{text}")
    return [PROGRAM, "-db", "-f", file]
