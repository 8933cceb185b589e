"""A client that sends exact bytes and reads answers strictly (RFC 9112), noting every flaw."""

import socket
import threading
import time
from dataclasses import dataclass, field

from .case import Wait


@dataclass
class Answer:
    """One response as it came."""

    status: int = 0
    version: str = ""
    reason: str = ""
    fields: list = field(default_factory=list)
    body: bytes = b""
    interim: list = field(default_factory=list)
    # "complete", or the mistake.
    framing: str = "complete"
    # Seconds from the first byte of the body to its end.
    spread: float = 0.0

    def get(self, name):
        """All values of a field."""
        return [value for key, value in self.fields if key.lower() == name]


@dataclass
class Exchange:
    """All answers on one connection, and how it ended: "closed", "open", "reset" or "silent"."""

    answers: list
    end: str
    extra: bytes = b""


class Silent(Exception):
    """No more bytes came within the time allowed."""


class Ended(Exception):
    """The connection ended."""


class Reader:
    """Bytes of a connection, read up to a deadline."""

    def __init__(self, sock, patience):
        self.sock, self.patience, self.buffer = sock, patience, b""
        self.reset = False

    def fill(self, patience=None):
        self.sock.settimeout(patience or self.patience)
        try:
            data = self.sock.recv(1 << 18)
        except TimeoutError:
            raise Silent from None
        except OSError:
            self.reset = True
            raise Ended from None
        if not data:
            raise Ended
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.fill()
        line, self.buffer = self.buffer.split(mark, 1)
        return line

    def exactly(self, count, sink):
        while count > 0:
            if not self.buffer:
                self.fill()
            piece, self.buffer = self.buffer[:count], self.buffer[count:]
            sink(piece)
            count -= len(piece)

    def rest(self, sink):
        try:
            while True:
                if self.buffer:
                    sink(self.buffer)
                    self.buffer = b""
                self.fill()
        except Ended:
            if self.reset:
                raise


def read_head(reader):
    answer = Answer()
    while not reader.buffer:
        reader.fill()
    while len(reader.buffer) < 5 and b"\n" not in reader.buffer:
        reader.fill()
    if not reader.buffer.startswith(b"HTTP/"):
        answer.version, answer.framing = "0.9", "no head"
        return answer
    lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    code, _, answer.reason = rest.partition(" ")
    answer.version = version.removeprefix("HTTP/")
    if len(code) != 3 or not code.isdigit():
        answer.framing = f"bad status line {lines[0]!r}"
        return answer
    answer.status = int(code)
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line or "\0" in line:
            answer.framing = f"bad field line {line!r}"
        answer.fields.append((name, value.strip(" \t")))
    return answer


def read_body(reader, answer, method):
    """Reads the body by its framing (RFC 9112, 6.3)."""
    chunks, times = [], []

    def sink(piece):
        chunks.append(piece)
        times.append(time.monotonic())

    try:
        if answer.framing == "no head":
            reader.rest(sink)
            return
        if method == "HEAD" or answer.status in (204, 304):
            return
        codings, lengths = answer.get("transfer-encoding"), answer.get("content-length")
        if codings and lengths:
            answer.framing = "both Content-Length and Transfer-Encoding"
        if len(set(lengths)) > 1:
            answer.framing = "several Content-Length"
        if codings:
            read_chunked(reader, sink)
        elif lengths:
            if not lengths[0].isdigit():
                answer.framing = f"bad Content-Length {lengths[0]!r}"
                reader.rest(sink)
            else:
                reader.exactly(int(lengths[0]), sink)
        else:
            reader.rest(sink)
    except Ended:
        answer.framing = "cut"
    except Silent:
        answer.framing = "stalled"
    except ValueError as problem:
        answer.framing = str(problem)
    finally:
        answer.body = b"".join(chunks)
        if times:
            answer.spread = times[-1] - times[0]


def read_chunked(reader, sink):
    while True:
        size = reader.until(b"\r\n")
        if not size or not all(c in b"0123456789abcdefABCDEF" for c in size.strip()):
            raise ValueError(f"bad chunk size {size!r}")
        size = int(size, 16)
        if size == 0:
            while reader.until(b"\r\n"):
                pass
            return
        reader.exactly(size, sink)
        if reader.until(b"\r\n"):
            raise ValueError("bytes after a chunk")


def read_answer(reader, method, interim):
    while True:
        answer = read_head(reader)
        if 100 <= answer.status < 200 and answer.framing == "complete":
            interim.append(answer.status)
            continue
        answer.interim = list(interim)
        interim.clear()
        read_body(reader, answer, method)
        return answer


def exchange(port, case, run):
    """Does one case against the server on a port."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=case.patience)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reader, answers, interim = Reader(sock, case.patience), [], []
    went_on = threading.Event()
    values = ((b"{port}", str(port).encode()), (b"{run}", run.encode()))

    def send():
        try:
            for step in case.steps:
                if isinstance(step, Wait):
                    if step.for_continue:
                        went_on.wait(case.patience)
                    else:
                        time.sleep(step.seconds)
                    continue
                for mark, value in values:
                    if mark in step:
                        step = step.replace(mark, value)
                sock.sendall(step)
        except OSError:
            pass

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    end, extra = "open", b""
    try:
        for method in case.methods:
            if any(isinstance(step, Wait) and step.for_continue for step in case.steps):
                first = read_head(reader)
                if first.status == 100:
                    interim.append(100)
                    went_on.set()
                    answers.append(read_answer(reader, method, interim))
                else:
                    went_on.set()
                    read_body(reader, first, method)
                    answers.append(first)
            else:
                answers.append(read_answer(reader, method, interim))
            if answers[-1].framing != "complete":
                break
        closes = any("close" in value.lower() for answer in answers[-1:] for value in answer.get("connection"))
        # A server that says that it closes the connection has time to do so.
        end = finish(reader, case.patience if closes else 0.15)
        extra = reader.buffer
    except Silent:
        end = "silent"
    except Ended:
        end = "reset" if reader.reset else "closed"
    finally:
        went_on.set()
        sock.close()
        sender.join(2)
    return Exchange(answers, end, extra)


def finish(reader, patience):
    """How the connection stands after the last answer that was expected."""
    try:
        while True:
            reader.fill(patience)
    except Silent:
        return "open"
    except Ended:
        return "closed"
