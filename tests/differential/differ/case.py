"""Cases, and short ways to write requests down as exact bytes.

`{port}` in a request becomes the port of the server that it is sent to, `{run}` a word that is new
in each run. All ports have five digits, so lengths stay the same.
"""

from dataclasses import dataclass, field

HOST = "site.test:{port}"


@dataclass(frozen=True)
class Wait:
    """A step between two pieces of a request: wait for a 100 (Continue), or just for some time."""

    seconds: float = 0.0
    for_continue: bool = False


@dataclass(frozen=True)
class Case:
    """One connection: the bytes that are sent, and the reading of the answers."""

    name: str
    steps: tuple
    site: str = "front"
    # Methods of the requests sent, in order: one answer is expected for each.
    methods: tuple = ("GET",)
    # Compare the reason phrase as well.
    reason: bool = False
    # Compare whether the server closes the connection after the last answer.
    end: bool = False
    # A refusal is a refusal: any status from 400 to 499, or an end without an answer, is the same.
    refusal: bool = False
    # Compare whether the first bytes of the body came well before the last.
    timing: bool = False
    # Aspects that are left out for all servers, as patterns.
    ignore: tuple = ()
    # How long to wait for an answer that does not come.
    patience: float = 5.0
    group: str = field(default="", compare=False)


def head(method, target, *fields, version="1.1", host=HOST, close=True):
    """A request head; fields are whole lines without their ends."""
    lines = [f"{method} {target} HTTP/{version}"]
    if host is not None:
        lines.append(f"Host: {host}")
    lines.extend(fields)
    if close:
        lines.append("Connection: close")
    return encode("\r\n".join(lines) + "\r\n\r\n")


def encode(text):
    """Bytes of a text; characters up to U+00FF stand for one byte each."""
    return text if isinstance(text, bytes) else text.encode("latin-1")


def request(name, method, target, *fields, body=None, length=True, version="1.1", host=HOST, close=True, **options):
    """A case of one request."""
    body_bytes = encode(body) if body is not None else b""
    if body is not None and length:
        fields = (*fields, f"Content-Length: {len(body_bytes)}")
    sent = head(method, target, *fields, version=version, host=host, close=close) + body_bytes
    return Case(name, (sent,), methods=(method,), **options)


def get(name, target, *fields, **options):
    """A GET request."""
    return request(name, "GET", target, *fields, **options)


def post(name, target, body, *fields, kind="application/x-www-form-urlencoded", **options):
    """A POST request with a body of the given type."""
    return request(name, "POST", target, f"Content-Type: {kind}", *fields, body=body, **options)


def raw(name, sent, *, methods=("GET",), **options):
    """A case whose bytes are written out."""
    steps = sent if isinstance(sent, tuple) else (sent,)
    return Case(name, tuple(encode(s) if isinstance(s, (str, bytes)) else s for s in steps), methods=methods, **options)


def refused(name, sent, **options):
    """A case whose bytes should be refused."""
    options.setdefault("end", True)
    options.setdefault("patience", 1.5)
    return raw(name, sent, refusal=True, **options)


def chunked(*pieces, trailer=""):
    """A body in chunked coding."""
    out = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in map(encode, pieces))
    return out + b"0\r\n" + encode(trailer) + b"\r\n"


def multipart(*parts, boundary="frontier"):
    """A multipart/form-data body; each part is (name, file name or None, type or None, bytes)."""
    out = b""
    for name, filename, kind, content in parts:
        disposition = f'form-data; name="{name}"'
        if filename is not None:
            disposition += f'; filename="{filename}"'
        out += encode(f"--{boundary}\r\nContent-Disposition: {disposition}\r\n")
        if kind is not None:
            out += encode(f"Content-Type: {kind}\r\n")
        out += b"\r\n" + encode(content) + b"\r\n"
    return out + encode(f"--{boundary}--\r\n")
