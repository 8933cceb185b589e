r"""Reads files of cases.

A file holds cases in this form:

    #### Headings and remarks begin with four hashes, outside of any text.

    === name of the case
    # Remarks on the case, up to its first file.
    --- .htaccess
    RewriteEngine On
    RewriteRule ^old$ new.txt [L]
    --- new.txt
    new
    --- requests
    GET old -> 200 new
    POST see.php?a=1 HTTP/1.0 -> 200
      Content-Type: text/plain
      | a line of the body
      |. the last line of a body that has no line break at its end
    GET secret
      @ user:password

`--- NAME` begins a file, with options behind the name: `escaped` (`\xNN`, `\n`, `\r`, `\t` and `\\` stand
for bytes, and a line that ends in a backslash continues), `open` (no line break at the end), `mode=600`,
`owner=www-data`, `mtime=1700000000`. `--- NAME/` is an empty directory, `--- NAME -> TARGET` a symbolic
link, `--- NAME @ SHARED` a copy of a file in shared/.

`@` stands for credentials of the Basic scheme. `{base}` is the URL path of the case's directory, `{case}` its path in the file system, `{root}` that of the
document root. A target without a leading slash is relative to `{base}/`. `\xNN` in a target, a field or a
body stands for a byte.

`-> STATUS WORDS` says what Apache answers: its status, and text that its response holds (all of it, behind
one space). Without it the response is only compared.
"""

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
SHARED = HERE / "shared"
MTIME = 1704164645  # 2024-01-02 03:04:05 GMT, for files without an mtime of their own.


class CorpusError(Exception):
    """A file of cases is malformed."""


@dataclass
class Entry:
    """A file, a directory or a symbolic link of a case's tree."""

    name: str
    content: bytes = b""
    link: str = ""
    is_directory: bool = False
    mode: int = None
    owner: str = ""
    mtime: int = MTIME
    # Words behind the name; None for a link and a copy of a shared file.
    options: list = None


@dataclass
class Request:
    """A request, and Apache's answer."""

    method: str
    target: bytes
    version: str = "1.1"
    fields: list = field(default_factory=list)
    body: bytes = None
    status: int = None
    words: str = ""
    # Where it stands, for messages and for `--annotate`.
    line: int = 0

    def bytes(self, port):
        """The request as it is sent."""
        lines = [b"%s %s HTTP/%s" % (self.method.encode(), self.target, self.version.encode())]
        names = [name.lower() for name, _ in self.fields]
        if "host" not in names:
            lines.append(b"Host: site.test:%d" % port)
        lines += [b"%s: %s" % (name.encode(), value) for name, value in self.fields if value != b"-"]
        if self.body is not None and not {"content-length", "transfer-encoding"} & set(names):
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + (self.body or b"")

    def __str__(self):
        return f"{self.method} {self.target.decode('latin-1')}"


@dataclass
class Case:
    """A directory below the document root, and requests to it."""

    name: str
    module: str
    site: str = "cases"
    entries: list = field(default_factory=list)
    requests: list = field(default_factory=list)
    path: Path = None
    line: int = 0

    @property
    def slug(self):
        return f"{self.module}-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def base(self):
        return f"/{self.slug}" if self.site == "cases" else ""

    @property
    def needs_root(self):
        """Returns true if files belong to another user, which only root can do."""
        return any(entry.owner for entry in self.entries)

    @property
    def title(self):
        return f"{self.module}: {self.name}"


def unescape(text):
    r"""The bytes of a text in which `\xNN` and the like stand for bytes."""
    simple = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "\n": ""}
    text = re.sub(r"\\(?:x([0-9a-fA-F]{2})|([nrt\\\n]))",
                  lambda m: chr(int(m[1], 16)) if m[1] else simple[m[2]],
                  text.encode("utf-8").decode("latin-1"))
    return text.encode("latin-1")


def hexed(text):
    r"""The bytes of a text in which only `\xNN` stands for a byte."""
    text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text.encode("utf-8").decode("latin-1"))
    return text.encode("latin-1")


def read_all():
    """All cases, in the order of the names of their files."""
    cases, seen = [], {}
    for path in sorted((HERE / "cases").rglob("*.cases")):
        module = path.relative_to(HERE / "cases").parts[0].removesuffix(".cases")
        for case in read(path, module):
            if case.slug in seen:
                raise CorpusError(f"{path}:{case.line}: {case.title}: this name exists in {seen[case.slug]}")
            seen[case.slug] = path
            cases.append(case)
    return cases


def read(path, module):
    """The cases of one file."""
    return parse(path.read_text("utf-8"), module, path)


def parse(text, module, path=None, site="cases"):
    """The cases of a text; all but those of the site `cases` have a document root of their own."""
    cases, entry, lines = [], None, []
    part = "outside"

    def finish():
        if part == "file":
            finish_file(entry, lines)
        lines.clear()

    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        if line.startswith("=== "):
            finish()
            cases.append(Case(line[4:].strip(), module, site, path=path, line=number))
            part = "remarks"
        elif line.startswith("#### "):
            finish()
            part = "outside"
        elif line.startswith("--- ") and part != "outside":
            finish()
            if line == "--- requests":
                part = "requests"
            else:
                part = "file"
                entry = begin_file(line[4:], where)
                cases[-1].entries.append(entry)
        elif part == "file":
            lines.append(line)
        elif part == "requests":
            read_request_line(cases[-1], line, number, where)
        elif line.strip() and not line.startswith("#"):
            raise CorpusError(f"{where}: text outside of a file: {line!r}")
    finish()
    for case in cases:
        if not case.requests:
            raise CorpusError(f"{path}:{case.line}: {case.title}: no requests")
    return cases


def begin_file(words, where):
    entry = Entry("")
    if " -> " in words:
        entry.name, entry.link = words.split(" -> ", 1)
        return entry
    if " @ " in words:
        entry.name, shared = words.split(" @ ", 1)
        entry.content = (SHARED / shared.strip()).read_bytes()
        return entry
    name, *options = words.split(" ")
    entry.name = name.rstrip("/")
    entry.is_directory = name.endswith("/")
    entry.options = options
    for option in options:
        key, _, value = option.partition("=")
        if key == "mode":
            entry.mode = int(value, 8)
        elif key == "owner":
            entry.owner = value
        elif key == "mtime":
            entry.mtime = int(value)
        elif option not in ("escaped", "open"):
            raise CorpusError(f"{where}: unknown option {option}")
    return entry


def finish_file(entry, lines):
    """Sets the content of a file; empty lines before the next mark are ignored."""
    if entry.link or entry.is_directory or entry.options is None:
        return
    while lines and lines[-1] == "":
        lines.pop()
    text = "\n".join(lines)
    if lines and "open" not in entry.options:
        text += "\n"
    entry.content = unescape(text) if "escaped" in entry.options else text.encode("utf-8")


def read_request_line(case, line, number, where):
    if not line.strip() or line.startswith("#"):
        return
    if not line.startswith("  "):
        line, _, expected = line.partition(" -> ")
        words = line.split()
        if len(words) not in (2, 3):
            raise CorpusError(f"{where}: write METHOD TARGET: {line!r}")
        target = words[1].replace("{base}", case.base)
        # The asterisk form, an absolute URI and a target without a slash are sent as they are.
        if not target.startswith(("/", "*", "http:", "!")):
            target = f"{case.base}/{target}" if target != "." else f"{case.base}/"
        request = Request(words[0], hexed(target.removeprefix("!")), line=number)
        if len(words) == 3:
            request.version = words[2].removeprefix("HTTP/")
        if expected:
            status, _, request.words = expected.partition(" ")
            request.status = int(status)
            request.words = request.words.replace("{base}", case.base)
        case.requests.append(request)
        return
    request, line = case.requests[-1], line[2:].replace("{base}", case.base)
    if line.startswith("|"):
        piece = hexed(line[3:] if line.startswith("|.") else line[2:] + "\n")
        request.body = (request.body or b"") + piece
        return
    if line.startswith("@ "):
        request.fields.append(("Authorization", b"Basic " + base64.b64encode(hexed(line[2:]))))
        return
    name, colon, value = line.partition(":")
    if not colon:
        raise CorpusError(f"{where}: write NAME: VALUE: {line!r}")
    request.fields.append((name, hexed(value.strip(" "))))
