"""Blocks `stream` and `mail` of nginx: both servers get the same bytes, and the report has the status of each directive.

A case is a file in `sessions`, whose directives have their statuses as comments behind them. `@NAME@` is a port, `@DIR@` a directory.
"""

import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import imported
from peers import Unusable
from peers.ports import free_port

DIRECTORY = Path(__file__).resolve().parent / "sessions"
MODULES = Path("/usr/lib/nginx/modules")
PATIENCE = 60  # seconds
QUIET = 0.3  # seconds without a byte after which an answer is complete


@dataclass
class Case:
    name: str


def cases():
    return [Case(path.stem) for path in sorted(DIRECTORY.glob("*.conf"))]


def needs():
    missing = [f"libnginx-mod-{name}" for name in ("mail", "stream") if not (MODULES / f"ngx_{name}_module.so").exists()]
    return missing[0] if missing else None


def run(arguments):
    return imported.compare("nginx-sessions", sys.modules[__name__], arguments)


def in_thread(function, *arguments):
    threading.Thread(target=function, args=arguments, daemon=True).start()


def listen(port, serve):
    listener = socket.create_server(("127.0.0.1", port))

    def accept():
        while True:
            in_thread(serve, listener.accept()[0])

    in_thread(accept)


def echo(name):
    """Serves a connection: greets, and repeats what comes in upper case."""
    def serve(connection):
        with connection:
            connection.sendall(name + b"\n")
            while data := connection.recv(4096):
                connection.sendall(data.upper())
    return serve


def echo_datagrams(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", port))

    def serve():
        while True:
            data, peer = sock.recvfrom(65536)
            sock.sendto(data.upper(), peer)

    in_thread(serve)


def server_behind(connection):
    """Logs everybody in, in the protocol of the first command."""
    with connection, connection.makefile("rb") as lines:
        connection.sendall(b"* OK hello\r\n")
        tag = lines.readline().split(b" ")[0]
        for _ in range(2):
            connection.sendall(b"+ go on\r\n")
            lines.readline()
        connection.sendall(tag + b" OK in\r\n")
        while line := lines.readline():
            connection.sendall(line)


def authentication(port):
    def serve(connection):
        with connection:
            question = b""
            while b"\r\n\r\n" not in question:
                question += connection.recv(4096)
            is_right = b"Auth-Pass: secret\r\n" in question and b"X-Key: k\r\n" in question
            answer = f"OK\r\nAuth-Server: 127.0.0.1\r\nAuth-Port: {port}" if is_right else "Wrong password\r\nAuth-Wait: 1"
            connection.sendall(f"HTTP/1.0 200 OK\r\nAuth-Status: {answer}\r\n\r\n".encode())
    return serve


def talk(port, *pieces, tls=None):
    """What a server sends, until it is quiet after each piece."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
        connection = tls.wrap_socket(plain, server_hostname="mx.test") if tls else plain
        for piece in (b"", *pieces):
            try:
                connection.sendall(piece)
            except OSError:
                return found + b"(end)"
            connection.settimeout(PATIENCE if b"wrong" in piece else QUIET)
            try:
                while data := connection.recv(65536):
                    found += data
                    connection.settimeout(QUIET)
                return found + b"(end)"
            except TimeoutError:
                pass
            except OSError:
                return found + b"(end)"
    return found


def ask(port, *datagrams):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        answers = []
        for datagram in datagrams:
            sock.sendto(datagram, ("127.0.0.1", port))
            answers.append(sock.recv(65536))
    return b"|".join(answers)


def hello(name):
    """The first message of a TLS client that asks for a name."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()


class Comparison:
    def __init__(self, tmp, arguments, _):
        self.tmp, self.arguments, self.running = tmp, arguments, []
        self.ports = {name: free_port() for name in ("ECHO", "OTHER", "CLOSED", "AUTH", "BEHIND")}

    def start(self):
        listen(self.ports["ECHO"], echo(b"echo"))
        listen(self.ports["OTHER"], echo(b"other"))
        echo_datagrams(self.ports["ECHO"])
        listen(self.ports["BEHIND"], server_behind)
        listen(self.ports["AUTH"], authentication(self.ports["BEHIND"]))
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "chain.pem", "-days", "9", "-subj", "/CN=mx.test"]
        subprocess.run([*command, "-addext", "subjectAltName=DNS:mx.test"], cwd=self.tmp, check=True, capture_output=True, timeout=PATIENCE)
        self.tls = ssl.create_default_context(cafile=self.tmp / "chain.pem")

    def compare(self, case):
        text = (DIRECTORY / f"{case.name}.conf").read_text()
        ports = dict(self.ports)
        for name in re.findall(r"@([A-Z0-9]+)@", text):
            if name != "DIR":
                ports.setdefault(name, free_port())
        for name, port in ports.items():
            text = text.replace(f"@{name}@", str(port))
        text = text.replace("@DIR@", str(self.tmp))
        directory = self.tmp / case.name
        directory.mkdir()
        file = directory / "nginx.conf"
        file.write_text(text)
        status, document, report, messages = imported.run(self.arguments, "nginx", [file], directory)
        if document is None:
            yield f"not imported: {messages}"
            return
        yield from imported.wrong_lines(report, file, imported.expected_lines(text, "#"))
        if problem := imported.is_accepted(self.arguments.howdah, directory):
            yield f"the document is refused: {problem}"
        transcripts = getattr(self, case.name)
        program = [self.arguments.howdah, "serve", "--config", directory / "document.json", "--no-control"]
        answers = {}
        for name, command in (("nginx", ["nginx", "-c", file, "-p", directory]), ("howdah", program)):
            with (directory / f"{name}.log").open("w") as log:
                server = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
            self.running.append(server)
            try:
                wait_for(next(ports[name] for name in ("PLAIN", "IMAP") if name in ports), server)
                answers[name] = transcripts(ports)
            finally:
                server.terminate()
                server.wait(PATIENCE)
        for key, wanted in answers["nginx"].items():
            if (found := answers["howdah"][key]) != wanted:
                yield f"{key}: {found}, expected: {wanted}"

    def streams(self, ports):
        header = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 2000\r\n"
        return {
            "plain": talk(ports["PLAIN"], b"hello"),
            "datagrams": ask(ports["PLAIN"], b"one", b"two"),
            "named": [talk(ports["NAMED"], hello(name))[:6] for name in ("a.test", "x.b.test", "b.test", "c.test")],
            "denied": talk(ports["DENIED"]),
            # The address of the server is that of the header; nginx's is its own.
            "proxied": talk(ports["PROXIED"], header + b"hello").split(b" ")[:3],
            "tls": talk(ports["TLS"], b"hello", tls=self.tls),
        }

    def mail(self, ports):
        login = b"a CAPABILITY\r\nb LOGIN me secret\r\nc NOOP\r\n"
        return {
            "imap": talk(ports["IMAP"], login),
            "imap-again": talk(ports["IMAP"], b"a LOGIN me wrong\r\n", b"b LOGIN me secret\r\n"),
            "imaps": talk(ports["IMAPS"], login, tls=self.tls),
            "pop3": talk(ports["POP3"], b"USER me\r\n", b"QUIT\r\n").split(b"\r\n", 1)[1],
            "smtp": talk(ports["SMTP"], b"EHLO me\r\n", b"MAIL FROM:<a>\r\n", b"QUIT\r\n"),
            "smtp-mistakes": talk(ports["SMTP"], b"EHLO me\r\n", b"X\r\n", b"X\r\n", b"X\r\n"),
        }

    def stop(self):
        for server in self.running:
            if server.poll() is None:
                server.kill()


def wait_for(port, server):
    """Waits until a server listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                raise Unusable("the server does not listen") from None
            time.sleep(0.05)
