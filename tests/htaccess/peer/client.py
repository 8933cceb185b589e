"""Sends requests as exact bytes, one connection for as many of them as the server allows."""

import socket

from differ.wire import Ended, Reader, Silent, read_answer

PATIENCE = 40.0  # seconds without a byte


class Client:
    """A connection to one port, opened again when it is closed."""

    def __init__(self, port):
        self.port, self.sock, self.reader = port, None, None

    def ask(self, request):
        """The answer to a request; None if the server closes the connection without one."""
        for is_last in (self.sock is None, True):
            if self.sock is None:
                self.open()
            try:
                self.sock.sendall(request.bytes(self.port))
                answer = read_answer(self.reader, request.method, [])
            except (Ended, Silent, OSError):
                self.close()
                if is_last:
                    return None
                continue
            tokens = ",".join(answer.get("connection")).lower()
            if answer.framing != "complete" or "close" in tokens or answer.version != "1.1" or request.version != "1.1":
                self.close()
            elif self.reader.buffer:
                answer.framing = f"bytes after the answer: {self.reader.buffer[:40]!r}"
                self.close()
            return answer
        return None

    def open(self):
        self.sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = Reader(self.sock, PATIENCE)

    def close(self):
        if self.sock is not None:
            self.sock.close()
        self.sock = self.reader = None
