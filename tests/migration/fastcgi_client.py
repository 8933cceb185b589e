"""A client of FastCGI, for requests to PHP-FPM without a web server in front of it."""

import socket
import struct

BEGIN, END, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7
RESPONDER = 1


def record(kind, content=b""):
    return struct.pack(">BBHHBB", 1, kind, 1, len(content), 0, 0) + content


def pair(name, value):
    name, value = name.encode(), value.encode()
    lengths = b"".join(bytes([len(text)]) if len(text) < 128 else struct.pack(">I", len(text) | 1 << 31)
                       for text in (name, value))
    return lengths + name + value


def ask(address, params, body=b"", timeout=60, source=None):
    """Status, fields, body and messages. The status is 502 if there is no complete response, as that of nginx is."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    nothing = 502, {}, b"", b""
    try:
        with socket.socket(family) as client:
            if source:
                client.bind((source, 0))
            # Without waiting, as nginx connects: a full backlog is an error at once.
            client.setblocking(family != socket.AF_UNIX)
            client.connect(address)
            client.settimeout(timeout)
            parameters = b"".join(pair(name, value) for name, value in params.items())
            client.sendall(record(BEGIN, struct.pack(">HB5x", RESPONDER, 0)) + record(PARAMS, parameters)
                           + record(PARAMS) + (record(STDIN, body) if body else b"") + record(STDIN))
            data = client.makefile("rb")
            output = {STDOUT: b"", STDERR: b""}
            while True:
                head = data.read(8)
                if len(head) < 8:
                    return nothing
                _, kind, _, length, padding, _ = struct.unpack(">BBHHBB", head)
                content = data.read(length)
                data.read(padding)
                if kind == END:
                    return *parse(output[STDOUT]), output[STDERR]
                output[kind] = output.get(kind, b"") + content
    except (ConnectionError, BlockingIOError):
        return nothing


def parse(output):
    head, _, body = output.partition(b"\r\n\r\n")
    fields = {}
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        fields[name.lower()] = value.strip()
    return int(fields.pop("status", "200").split()[0]), fields, body
