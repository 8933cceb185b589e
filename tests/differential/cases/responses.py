"""Effects of scripts on responses. The ways are in site/scripts/respond.php."""

import re

from differ.case import get, head, raw, request
from differ.site import SOURCE

RESPOND = "/scripts/respond.php?do="
WAYS = re.findall(r"^    '([a-z0-9-]+)' =>", (SOURCE / "scripts/respond.php").read_text(), re.MULTILINE)
OPTIONS = {
    "slow-flush": {"timing": True}, "events": {"timing": True},
    "gzencode": {}, "time-limit": {"patience": 20.0},
    **{way: {"reason": True} for way in WAYS if way.startswith(("line-", "status-", "code-"))},
}
ON_HEAD = (
    "tiny", "length-right", "length-more", "code-404", "location", "nothing", "size-65536", "code-204", "fatal", "cookies", "method",
    "flush-only", "length-right-large", "code-304",
)
OVER_10 = ("tiny", "size-65536", "length-right", "slow-flush", "code-204", "location")
ENCODED = ("zlib", "gzhandler", "gzencode", "tiny")
LEFT_ALIVE = (
    "length-right", "length-more", "length-less", "length-zero-body", "code-204-body", "code-304-body", "connection-close", "transfer-encoding",
    "fatal", "fatal-after-flush", "exit", "time-limit", "length-two-values",
)
COOKIE = "Cookie: PHPSESSID=differential{run}{port}"


def twice(way):
    """The answer on a connection that continues, and the answer after it."""
    sent = head("GET", RESPOND + way, close=False) + head("GET", RESPOND + "tiny")
    return raw(f"script {way}, then another request", sent, methods=("GET", "GET"), patience=20.0 if way == "time-limit" else 3.0)


CASES = [
    *(get(f"script {way}", RESPOND + way, **OPTIONS.get(way, {})) for way in WAYS),
    *(request(f"script {way} with HEAD", "HEAD", RESPOND + way) for way in ON_HEAD),
    *(get(f"script {way} over HTTP/1.0", RESPOND + way, version="1.0", close=False, end=True) for way in OVER_10),
    *(get(f"script {way} when gzip is accepted", RESPOND + way, "Accept-Encoding: gzip") for way in ENCODED),
    *(twice(way) for way in LEFT_ALIVE),
    get("etag that matches", RESPOND + "etag", 'If-None-Match: "own"'),
    get("etag of a script and a range", RESPOND + "etag", "Range: bytes=0-1", 'If-Range: "own"'),
    get("last-modified of a script", RESPOND + "etag", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"),
    raw("session over three requests",
        head("GET", RESPOND + "session", COOKIE, close=False) * 2 + head("GET", RESPOND + "session", COOKIE), methods=("GET",) * 3),
    get("session with an id that is none", RESPOND + "session-new", "Cookie: PHPSESSID=../../etc/passwd"),
]
