"""Compares the answers of two servers to the same requests.

1. The same bytes are sent to both, with the same Host, so that an application over the same files
   and database has no reason to answer differently.
2. Differences that two answers of *one* server also have are masked, each mask with its reason.
3. Status, headers and body must then be equal. A difference is a failure unless it is listed with
   its reason.
4. Where Apache answers with an error or redirect page of its own, the page's text and type are
   each server's own; the status and the other headers still have to be equal.
"""

import http.client
import math
import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

# Headers that do not depend on the application's answer.
SERVER_HEADERS = {
    "date": "the time of the answer",
    "server": "names the server",
    "connection": "concerns the connection",
    "keep-alive": "concerns the connection",
    "transfer-encoding": "framing is each server's choice; the bodies are compared",
    "content-length": "framing is each server's choice; the bodies are compared",
    "etag": "opaque by definition",
    "accept-ranges": "Apache leaves it out of some answers and puts it into others",
}

# How many seconds apart two answers' `Expires` may be: the application counts from the time of each
# request, and the requests are sent one after another on a machine that may be busy.
CLOCK = 5

# How every page begins that Apache makes up itself.
APACHE_PAGE = re.compile(
    rb'<!DOCTYPE HTML PUBLIC "-//[^"]*"[^>]*>\s*<html>\s*<head>\s*<title>\d{3} ')


@dataclass(frozen=True)
class Request:
    """One request; `path` includes the query."""

    path: str
    method: str = "GET"
    headers: tuple = ()
    body: bytes | None = None

    def __str__(self):
        shown = [f"{name}: {value}" for name, value in self.headers if name != "Cookie"]
        return " ".join([self.method, self.path, *([f"[{', '.join(shown)}]"] if shown else [])])


@dataclass
class Answer:
    """An answer."""

    status: int
    headers: dict
    body: bytes

    @property
    def kind(self):
        """The media type, without parameters."""
        return self.headers.get("content-type", [""])[0].split(";")[0].strip().lower()


@dataclass(frozen=True)
class Mask:
    """Replaces the parts that differ from one answer to the next on the same server."""

    pattern: bytes
    reason: str
    replacement: bytes = b"(masked)"


@dataclass
class Accepted:
    """A difference that is intended: its place, its aspect, and its reason.

    `what` is `body`, the name of a header, or `status 404`: the status that the tested server gives.
    """

    path: str
    what: str
    reason: str
    seen: set = field(default_factory=set)


def fetch(port, host, request):
    """Sends a request to a local port. Only Host and Content-Length are added to it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.putrequest(request.method, request.path, skip_host=True,
                              skip_accept_encoding=True)
        connection.putheader("Host", host)
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        response = connection.getresponse()
        headers = {}
        for name, value in response.getheaders():
            headers.setdefault(name.lower(), []).append(value)
        return Answer(response.status, headers, response.read())
    finally:
        connection.close()


def cookie(value):
    """Returns a Set-Cookie field without what differs from one answer to the next."""
    # Session identifiers are random; names and attributes are not.
    value = re.sub(r"^([^=]+)=[^;]*", r"\1=(masked)", re.sub(r"(?i)expires=[^;]*", "expires=(masked)", value))
    # Frameworks take the seconds that a request has lasted off the age.
    return re.sub(r"(?i)(max-age=)(\d+)", lambda found: f"{found[1]}{-(-int(found[2]) // 60) * 60}", value)


class Comparison:
    """Two servers, and the permitted differences between their answers."""

    def __init__(self, tested, oracle, host, masks=(), accepted=()):
        self.tested = tested
        self.oracle = oracle
        self.host = host
        self.masks = [(re.compile(mask.pattern), mask.replacement) for mask in masks]
        self.accepted = list(accepted)
        self.statuses = Counter()
        self.seconds = Counter()

    def masked(self, data):
        """The data without the parts that are known to vary."""
        for pattern, replacement in self.masks:
            data = pattern.sub(replacement, data)
        return data

    def summary(self):
        """How many answers were compared since the last call, by status, and how long they took."""
        counts = ", ".join(f"{count} with {status}" for status, count in sorted(self.statuses.items()))
        times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(self.seconds.items()))
        self.statuses.clear()
        self.seconds.clear()
        return f"{counts}; {times}"

    def timed(self, role, server, request):
        """Fetches, and adds up the time that each server takes."""
        start = time.monotonic()
        try:
            return fetch(server.port, self.host, request)
        finally:
            self.seconds[role] += time.monotonic() - start

    def compare(self, request):
        """Both answers' differences as text, and the oracle's answer.

        Pages that change with the clock are asked for once more before a difference counts.
        """
        for _ in range(2):
            expected = self.timed("oracle", self.oracle, request)
            found = self.timed("tested", self.tested, request)
            differences = list(self.differences(request, found, expected))
            if not differences:
                break
        self.statuses[expected.status] += 1
        return [text for what, text in differences if not self.is_accepted(request, what)], expected

    def is_accepted(self, request, what):
        """Whether the difference is listed; remembers that it was seen."""
        for entry in self.accepted:
            if entry.what == what and re.search(entry.path, str(request)):
                entry.seen.add(str(request))
                return True
        return False

    def differences(self, request, found, expected):
        """Yields (what, text) for each."""
        if found.status != expected.status:
            yield (f"status {found.status}", f"{request}: status {found.status}, "
                                             f"{self.oracle.title} {expected.status}")
            return
        own_page = bool(APACHE_PAGE.match(expected.body))
        names = sorted((found.headers.keys() | expected.headers.keys()) - SERVER_HEADERS.keys())
        for name in names:
            if own_page and name == "content-type":
                continue
            ours = self.header(request, name, found)
            theirs = self.header(request, name, expected)
            if ours != theirs and not (name == "expires" and seconds_apart(ours, theirs) <= CLOCK):
                yield name, f"{request}: {name} {ours}, {self.oracle.title} {theirs}"
        ours, theirs = self.masked(found.body), self.masked(expected.body)
        if own_page:
            if b"<?php" in ours:
                yield "body", f"{request}: PHP source in an error page"
        elif ours != theirs:
            yield "body", f"{request}: the body differs:\n{first_difference(ours, theirs)}"

    def header(self, request, name, answer):
        """A header's values in a form that can be compared."""
        values = answer.headers.get(name, [])
        if name == "location":
            # Absolute or relative, only the target counts.
            return [urljoin(f"http://{self.host}{request.path}", value) for value in values]
        if name == "set-cookie":
            return sorted(cookie(value) for value in values)
        return [self.masked(value.encode("latin-1")).decode("latin-1") for value in values]


def seconds_apart(ours, theirs):
    """How far two headers are apart that hold one time each; infinite if they do not."""
    try:
        [left], [right] = ours, theirs
        return abs((parsedate_to_datetime(left) - parsedate_to_datetime(right)).total_seconds())
    except (TypeError, ValueError):
        return math.inf


def first_difference(ours, theirs, context=160):
    """The lines in which two bodies first differ, shortened to where they do."""
    ours_lines = ours.decode("utf-8", "replace").splitlines()
    theirs_lines = theirs.decode("utf-8", "replace").splitlines()
    for number, (left, right) in enumerate(zip(ours_lines, theirs_lines), 1):
        if left != right:
            start = max(0, len(os.path.commonprefix([left, right])) - 40)
            return (f"  line {number}:\n  tested: {left[start:start + context]}\n"
                    f"  oracle: {right[start:start + context]}")
    return f"  {len(ours)} bytes, oracle {len(theirs)}; equal up to the end of the shorter one"


class Links(HTMLParser):
    """Collects the addresses that a page refers to: (address, whether it is a page)."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if not value:
                continue
            if name == "href" and tag == "a":
                self.found.append((value, True))
            elif name in ("href", "src"):
                self.found.append((value, False))
            elif name == "srcset":
                self.found += [(part.split()[0], False) for part in value.split(",") if part.split()]


def links(answer, host, path):
    """The addresses on the same host that an answer refers to, as (path with query, is a page)."""
    here = f"http://{host}{path}"
    found = []
    text = answer.body.decode("utf-8", "replace")
    if answer.kind == "text/html":
        parser = Links()
        parser.feed(text)
        found = parser.found
    elif answer.kind == "text/css":
        found = [(value, False) for value in re.findall(r"url\(\s*['\"]?([^'\")]+)", text)]
    elif answer.kind.endswith("xml"):
        found = [(value, True) for value in re.findall(r"<(?:loc|link)>([^<]+)<", text)]
    found += [(value, True) for value in answer.headers.get("location", [])]
    for value, page in found:
        address = urlsplit(urljoin(here, value.strip()))
        if address.scheme == "http" and address.netloc == host:
            yield address._replace(scheme="", netloc="", fragment="").geturl() or "/", page


def crawl(comparison, seeds, headers=(), wanted=lambda path, page: True, limit=400):
    """Compares the seeds and all they lead to, breadth first; returns the differences.

    `wanted(path, page)` decides which addresses to follow. Reaching `limit` is a difference too:
    a crawl that never ends, or a site that has outgrown the test, has to be noticed.
    """
    seen = set(seeds)
    waiting = list(seeds)
    differences = []
    while waiting:
        path = waiting.pop(0)
        different, answer = comparison.compare(Request(path, headers=tuple(headers)))
        differences += different
        for link, page in links(answer, comparison.host, path):
            if link not in seen and wanted(link, page):
                seen.add(link)
                waiting.append(link)
        if len(seen) > limit:
            differences.append(f"more than {limit} addresses; the last one is {waiting[-1]}")
            break
    return differences
