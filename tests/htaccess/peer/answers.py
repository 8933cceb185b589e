"""Turns answers into aspects that can be compared, and names the aspects that are left out, with reasons."""

import gzip
import re
from email.utils import parsedate_to_datetime

# Header fields that are not compared.
LEFT_OUT = {
    "date": "the time of the answer",
    "server": "each server's own name",
    "connection": "about the connection; each server closes it for reasons of its own",
    "keep-alive": "about the connection; Howdah does not send it",
    "transfer-encoding": "a form of the body, which is compared itself",
    "content-length": "a form of the body; compared where a server sends a file in answer to HEAD",
    "accept-ranges": "Howdah announces ranges where Apache does not, see docs/differences.md",
    "x-powered-by": "PHP's own, depends on its version",
}

# Variables of scripts (lines `server NAME = …` of shared/see.php) that are not compared.
LEFT_OUT_VARIABLES = {
    "REMOTE_PORT": "a new one for each connection",
    "REQUEST_TIME": "the time of the request",
    "REQUEST_TIME_FLOAT": "the time of the request",
    "SERVER_SOFTWARE": "each server's own name",
    "SERVER_SIGNATURE": "names the server",
    "SERVER_ADMIN": "a directive of the server's configuration that Howdah does not have",
    "PATH": "the environment of the server",
    "USER": "Howdah sets it as PHP-FPM does",
    "HOME": "Howdah sets it as PHP-FPM does",
    "REQUEST_ID": "Howdah's own",
}

# An entity tag that a server makes itself: its characters are its own affair.
ENTITY_TAG = re.compile(r'(W/)?"[0-9a-zA-Z_+/.=-]*?(-gzip)?"')

# How Apache's own pages about a status begin. Howdah's pages are other ones by design.
OWN_PAGES = (b'<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 4.01//EN"', b'<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">')

# No answer may hold the source of a script or a file outside of the document root.
SECRETS = (b"<?php", b"root:x:0:0")


def is_own_page(answer, method):
    """Returns true if Apache made the body itself, about a status."""
    if answer.status < 300:
        return False
    if answer.body:
        return unpacked(answer).startswith(OWN_PAGES)
    kinds = answer.get("content-type")
    return method == "HEAD" and kinds == ["text/html; charset=iso-8859-1"]


def unpacked(answer):
    if "gzip" in ",".join(answer.get("content-encoding")):
        try:
            return gzip.decompress(answer.body)
        except (OSError, EOFError):
            pass
    return answer.body


def observe(answer, request, port, own_page=False):
    """The aspects of an answer; `own_page` if Apache answers the request with a page about its status."""
    if answer is None:
        return {"status": "no answer"}
    aspects = {"status": str(answer.status)}
    if answer.framing != "complete":
        aspects["framing"] = answer.framing
    by_script = bool(answer.get("x-powered-by") or answer.get("x-from"))
    for name in sorted({name.lower() for name, _ in answer.fields} - set(LEFT_OUT)):
        values = [mask(value, port) for value in answer.get(name)]
        if name == "etag" and not by_script:
            values = [entity_tag(value) for value in values]
        if name == "expires":
            values = [since(value, answer.get("date")) for value in values]
        if name == "cache-control":
            values = [absolute_ages(value, answer.get("date")) for value in values]
        joined = " ¦ ".join(values) if name in ("set-cookie", "www-authenticate") else ", ".join(values)
        if name in ("vary", "allow"):
            joined = ", ".join(sorted({member.strip() for member in joined.split(",")}, key=str.lower))
        aspects[f"field {name}"] = joined
    if request.method == "HEAD" and answer.status == 200 and not by_script and answer.get("content-length"):
        aspects["field content-length"] = ", ".join(answer.get("content-length"))
    if own_page:
        # The page is the server's own, and so are its type, its language and whether it is compressed.
        for name in ("content-type", "content-language", "content-encoding"):
            aspects.pop(f"field {name}", None)
        rest = [member for member in aspects.pop("field vary", "").split(", ") if member.lower() not in ("", "accept-encoding")]
        if rest:
            aspects["field vary"] = ", ".join(rest)
        if any(secret in unpacked(answer) for secret in SECRETS):
            aspects["leak"] = "in a page about a status"
        return aspects
    kind = aspects.get("field content-type", "")
    body = unpacked(answer)
    if kind.startswith("multipart/byteranges"):
        boundary = kind.partition("boundary=")[2].strip('"').encode()
        body = body.replace(boundary, b"BOUNDARY")
        aspects["field content-type"] = "multipart/byteranges"
    aspects["body"] = masked_body(mask(body.decode("latin-1"), port))
    return aspects


def entity_tag(value):
    found = ENTITY_TAG.fullmatch(value)
    if not found:
        return value
    return ("weak" if found[1] else "strong") + (" of a compressed file" if found[2] else "")


# Further in the future, a time does not depend on that of the request.
MAX_AGE_OF_EXPIRES = 10 * 366 * 86400  # seconds


def since(value, dates):
    """A time that depends on that of the answer, by its distance."""
    try:
        seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(dates[0])).total_seconds()
    except (ValueError, TypeError, IndexError):
        return value
    # The second may turn between the two times. The cases have multiples of 20 seconds.
    seconds += {1: -1, 19: 1}.get(seconds % 20, 0)
    return f"Date + {seconds:.0f} s" if 0 <= seconds <= MAX_AGE_OF_EXPIRES else value


def absolute_ages(value, dates):
    """Ages that depend on when a file was changed, which are negative or odd, as times: the second may turn."""
    try:
        date = int(parsedate_to_datetime(dates[0]).timestamp())
    except (ValueError, TypeError, IndexError):
        return value
    def absolute(found):
        seconds = int(found[1])
        if 0 <= seconds <= MAX_AGE_OF_EXPIRES:
            return found[0]
        return f"max-age until {date + seconds}"
    return re.sub(r"max-age=(-?\d+)", absolute, value)


def mask(text, port):
    """A text with the server's port masked; it is no part of a longer number."""
    return re.sub(rf"(?<![0-9a-fA-F]){port}(?![0-9a-fA-F])", "PORT", text)


def masked_body(text):
    """A body without the parts that each server writes in its own way."""
    # ServerSignature: the name of the server.
    text = re.sub(r"<address>.*?</address>\n?", "", text)
    kept = []
    for line in text.split("\n"):
        found = re.match(r"server (?:REDIRECT_)*(\w+) = ", line)
        if found and found[1] in LEFT_OUT_VARIABLES:
            continue
        kept.append(line)
    return "\n".join(kept)


def differences(ours, theirs):
    """Names of the aspects whose values differ, the status first."""
    names = sorted(set(ours) | set(theirs), key=lambda name: (name != "status", name))
    return [name for name in names if ours.get(name) != theirs.get(name)]
