"""The servers behind those that pass requests on: an nginx with the files, PHP-FPM, and one that
agrees to WebSockets. All servers of a setup share them, so their processor time is in no server's figure.
"""

import base64
import hashlib
import selectors
import socket
import sys
from pathlib import Path

import machine
from processes import Process, accepts, answers, free_port, tree
from servers import fpm_pool, nginx_configuration

from peers import fpm, nginx

ORIGIN = """    access_log off;
    open_file_cache max=100;
    keepalive_requests 1000000000;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        listen unix:{socket} backlog=4096;
        root {root};
    }}
"""


class Behind:
    """The back ends of a setup; stopped with it."""

    def __init__(self, directory, root, ini, setup):
        self.directory, self.processes = directory, []
        directory.mkdir(mode=0o755)
        # PHP-FPM makes its socket as root, and servers connect as their own user.
        self.fpm, self.origin, self.sockets, self.datagrams = f"{directory}/fpm.sock", free_port(), free_port(), free_port()
        pool = fpm_pool(self.fpm, setup.workers, setup.backlog)
        origin = nginx_configuration(directory, ORIGIN.format(port=self.origin, socket=self.origin_socket, root=root))
        try:
            # With all its processes: unknown ones are taken for strangers later.
            self.run("php-fpm", fpm.command(directory, pool, ini, "error"),
                     lambda: Path(self.fpm).exists() and len(self.pids()) > setup.workers)
            self.run("origin", nginx.command(directory, origin, "origin"),
                     lambda: answers(self.origin))
            self.run("datagrams", [sys.executable, Path(__file__).with_name("datagrams.py"), "serve", str(self.datagrams)], lambda: True)
            self.run("sockets", [sys.executable, __file__, str(self.sockets)], lambda: accepts(self.sockets))
        except BaseException:
            self.stop()
            raise

    @property
    def origin_socket(self):
        """The unix socket of the server with the files."""
        return self.directory / "origin.sock"

    def origin_address(self, kind):
        """Its address over "tcp" or a "unix" socket."""
        return f"unix:{self.origin_socket}" if kind == "unix" else f"127.0.0.1:{self.origin}"

    def run(self, name, command, ready):
        """Starts one of them."""
        environment = {"PYTHONPATH": str(Path(__file__).parent), "PYTHONDONTWRITEBYTECODE": "1"}
        process = Process(name, command, self.directory / f"{name}.log", environment)
        self.processes.append(process)
        process.wait_for(ready, "listener")

    def pids(self):
        """All their processes."""
        return [pid for process in self.processes for pid in tree(process.child.pid)]

    def stop(self):
        """Ends them."""
        for process in reversed(self.processes):
            process.stop()


HANDSHAKE = ("GET /sockets HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode()


def agree(head):
    """The answer to a client that wants a WebSocket (RFC 6455, 4.2.2)."""
    fields = dict(line.split(": ", 1) for line in head.decode("latin1").split("\r\n")[1:] if ": " in line)
    key = next(value for name, value in fields.items() if name.lower() == "sec-websocket-key")
    proof = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    return ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {proof}\r\n\r\n").encode()


def hold_sockets(port):
    """Agrees to every WebSocket, and holds it until the client leaves."""
    machine.allow_descriptors()
    selector, heads = selectors.DefaultSelector(), {}
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    heads[connection] = b""
                    selector.register(connection, selectors.EVENT_READ)
                    continue
                connection = key.fileobj
                try:
                    received = connection.recv(4096)
                except OSError:
                    received = b""
                if not received:
                    selector.unregister(connection)
                    heads.pop(connection)
                    connection.close()
                    continue
                heads[connection] += received
                if heads[connection].endswith(b"\r\n\r\n"):
                    connection.sendall(agree(heads[connection]))
                    heads[connection] = b""


if __name__ == "__main__":
    hold_sockets(int(sys.argv[1]))
