"""TCP ports for the servers of tests and benchmarks."""

import socket

# Sockets of the ports that were given out.
RESERVED = []


def free_port():
    """A port that no program listens on at any address of IPv4, reserved for as long as this process runs.

    The socket stays bound to all addresses, so the kernel gives the port neither to a test with an address of its own nor to a client. It
    never listens and permits reuse, so a server that sets SO_REUSEADDR, as servers do, can bind the port.
    The port has five digits, so that servers' texts about it have the same length in each run.
    """
    port = 0
    while port < 10_000:
        reserved = socket.socket()
        reserved.bind(("", 0))
        # Afterwards: with it, the port of another reservation could be bound.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        RESERVED.append(reserved)
        port = reserved.getsockname()[1]
    return port
