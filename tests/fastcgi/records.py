"""A client of FastCGI: raw records, written and read byte by byte."""

import socket
import struct

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = range(1, 12)
RESPONDER, AUTHORIZER, FILTER = 1, 2, 3
KEEP = 1


def record(kind, identifier, content=b"", padding=0, version=1):
    """One record; its content has at most 65,535 bytes."""
    return struct.pack("!BBHHBx", version, kind, identifier, len(content), padding) + content + b"\0" * padding


def stream(kind, identifier, content):
    """Records with the content, and the empty one that ends a stream."""
    parts = [content[at:at + 65535] for at in range(0, len(content), 65535)]
    return b"".join(record(kind, identifier, part) for part in [*parts, b""])


def begin(identifier=1, role=RESPONDER, flags=0):
    """The record that begins a request."""
    return record(BEGIN, identifier, struct.pack("!HB5x", role, flags))


def pairs(parameters):
    """Names and values, as parameters and questions have them."""
    out = b""
    for name, value in parameters:
        name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
        for part in (name, value):
            out += bytes([len(part)]) if len(part) < 128 else struct.pack("!I", len(part) | 1 << 31)
        out += name + value
    return out


def request(parameters, body=b"", identifier=1, flags=0, role=RESPONDER):
    """A whole request."""
    given = parameters.items() if isinstance(parameters, dict) else parameters
    return begin(identifier, role, flags) + stream(PARAMS, identifier, pairs(given)) + stream(STDIN, identifier, body)


def connect(address):
    """A connection to a path or a port."""
    if isinstance(address, int):
        connection = socket.create_connection(("127.0.0.1", address))
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(address))
    connection.settimeout(20)
    return connection


class Reader:
    """Reads records from a connection."""

    def __init__(self, connection):
        self.connection, self.bytes = connection, b""

    def take(self, count):
        """The next bytes; fewer at the end of the connection."""
        while len(self.bytes) < count:
            try:
                received = self.connection.recv(65536)
            except (ConnectionError, TimeoutError):
                break
            if not received:
                break
            self.bytes += received
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def record(self):
        """The next record: type, request id and content; None at the end of the connection."""
        header = self.take(8)
        if len(header) < 8:
            return None
        _, kind, identifier, length, padding = struct.unpack("!BBHHBx", header)
        content = self.take(length)
        self.take(padding)
        return kind, identifier, content

    def answer(self, identifier=1):
        """The streams of a response, and its end: None if the connection has ended before."""
        out, err = b"", b""
        while read := self.record():
            kind, of, content = read
            if of != identifier:
                continue
            if kind == STDOUT:
                out += content
            elif kind == STDERR:
                err += content
            elif kind == END:
                return out, err, (*struct.unpack("!IB3x", content),)
        return out, err, None


def ask(address, *bytes_of_request, identifier=1):
    """Sends bytes on a connection of their own; returns the streams and the end of the response."""
    with connect(address) as connection:
        connection.sendall(b"".join(bytes_of_request))
        return Reader(connection).answer(identifier)


def split(out):
    """The header lines of a response in order, and its body."""
    head, _, body = out.partition(b"\r\n\r\n")
    return head.split(b"\r\n"), body
