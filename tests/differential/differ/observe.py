"""Turns an exchange into aspects that can be compared: names and values, with all that differs from run to run masked."""

import fnmatch
import gzip
import hashlib
import json
import re

# Written by every server in its own way, checked by the framing or of no meaning.
LEFT_OUT = {"date", "server", "connection", "keep-alive", "transfer-encoding", "content-length", "etag"}

# Lists whose order and spaces have no meaning.
LISTS = {"allow", "vary"}


def observe(exchange, case, words):
    """Aspects of a whole connection; `words` are replaced as (what, by what) in every value."""
    aspects = {}
    for number, answer in enumerate(exchange.answers, 1):
        prefix = "" if len(case.methods) == 1 else f"{number}."
        method = case.methods[number - 1]
        for name, value in observe_answer(answer, case, method).items():
            aspects[prefix + name] = ASPECT_MASKS[name](value) if name in ASPECT_MASKS else mask(value, words)
    missing = len(case.methods) - len(exchange.answers)
    if missing and not (case.refusal and exchange.answers):
        aspects["unanswered"] = str(missing)
    if exchange.extra:
        aspects["extra"] = f"{len(exchange.extra)} bytes after the last answer: {exchange.extra[:40]!r}"
    if case.end:
        aspects["end"] = "closed" if exchange.end == "reset" else exchange.end
    if case.refusal:
        aspects = refusal(aspects, exchange)
    return {
        name: value for name, value in aspects.items()
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in case.ignore)
    }


def refusal(aspects, exchange):
    """A refusal is a 4xx or 501 as the last answer, or an end without one; anything else is shown as it is."""
    last = exchange.answers[-1] if exchange.answers else None
    if last is None and exchange.end in ("closed", "reset"):
        return {"refused": "yes", "end": "closed"}
    if last is not None and (400 <= last.status < 500 or last.status in (501, 505)) and last.framing == "complete":
        kept = {"refused": "yes", "end": aspects.get("end", "")}
        if len(exchange.answers) > 1:
            kept["answers"] = str([a.status for a in exchange.answers])
        return kept
    kept = ("leak", "status", "by", "end", "extra", "framing", "unanswered", "input")
    return {"refused": "no", **{name: aspects[name] for name in kept if name in aspects}}


def observe_answer(answer, case, method):
    aspects = {"status": str(answer.status) if answer.status else f"HTTP/{answer.version}"}
    by_script = "php" in answer.get("x-from")
    aspects["by"] = "script" if by_script else "server"
    if case.reason:
        aspects["reason"] = answer.reason
    if answer.framing != "complete":
        aspects["framing"] = answer.framing
    if answer.interim:
        aspects["interim"] = str(answer.interim)
    if case.timing:
        aspects["arrival"] = "in pieces" if answer.spread > 0.3 else "at once"
    for name in sorted({name.lower() for name, _ in answer.fields} - LEFT_OUT):
        values = answer.get(name)
        # A list may come as one field or as several, except for cookies (RFC 9110, 5.3).
        joined = " ¦ ".join(values) if name == "set-cookie" else ", ".join(values)
        if name in LISTS:
            joined = ", ".join(sorted(member.strip() for member in joined.split(",")))
        aspects[f"field {name}"] = joined
    tags = answer.get("etag")
    if tags:
        aspects["field etag"] = ", ".join(t if by_script else "weak" if t.startswith("W/") else "strong" for t in tags)
    if method == "HEAD" and not by_script and 200 <= answer.status < 300:
        aspects["field content-length"] = ", ".join(answer.get("content-length"))
    kind = (answer.get("content-type") or [""])[0]
    if not by_script and answer.status >= 300:
        # The server's own page about a status: its text and type are its own.
        aspects.pop("field content-type", None)
        if any(secret in answer.body for secret in SECRETS):
            aspects["leak"] = "in an error page"
        return aspects
    aspects.update(observe_body(answer, kind))
    return aspects


# Forbidden in every answer: source of scripts, and files from outside of the document root.
SECRETS = (b"<?php", b"secret-in-source", b"root:x:0:0")


def observe_body(answer, kind):
    body = answer.body
    if "gzip" in answer.get("content-encoding") and body:
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError) as problem:
            return {"body": f"broken gzip: {problem}"}
    for secret in SECRETS:
        if secret in body:
            return {"leak": secret.decode(), "body": summary(body)}
    if kind.startswith("application/json") and answer.get("x-from"):
        try:
            return dict(flatten("", json.loads(body))) if body else {"body": ""}
        except ValueError:
            return {"body": "broken JSON " + summary(body)}
    if kind.startswith("multipart/byteranges"):
        return {"field content-type": "multipart/byteranges", "body": ranges(kind, body)}
    return {"body": summary(body)}


def flatten(path, value):
    """A JSON document as paths and values, in the order of the document for the top two levels."""
    if isinstance(value, dict):
        if not value:
            yield path, "{}"
        for key, member in value.items():
            yield from flatten(f"{path}.{key}" if path else key, member)
    elif isinstance(value, list):
        if not value:
            yield path, "[]"
        for index, member in enumerate(value):
            yield from flatten(f"{path}.{index}", member)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def ranges(kind, body):
    """The parts of a multipart/byteranges body without their boundary."""
    match = re.search(r'boundary="?([^";]+)', kind)
    if not match:
        return "no boundary"
    mark = b"--" + match.group(1).encode("latin-1")
    parts = []
    for part in body.split(mark)[1:-1]:
        head, _, content = part.strip(b"\r\n").partition(b"\r\n\r\n")
        lines = sorted(line.decode("latin-1").lower() for line in head.split(b"\r\n"))
        parts.append(f"{lines} {summary(content)}")
    return "; ".join(parts)


def summary(body):
    """A body in a few words: itself when short, else its length and digest."""
    if len(body) <= 120:
        return body.decode("latin-1")
    return f"{len(body)} bytes, md5 {hashlib.md5(body).hexdigest()[:12]}, starting {body[:24].decode('latin-1')!r}"


ASPECT_MASKS = {
    "server.SERVER_SOFTWARE": lambda value: "<software>" if value else "",
    "server.REQUEST_ID": lambda value: "<request id>" if len(value) == 32 else value,
    "server.REMOTE_PORT": lambda value: "<port>" if value.isdigit() else value,
    "server.REQUEST_TIME": lambda value: "<seconds>" if value.isdigit() else value,
    "server.REQUEST_TIME_FLOAT": lambda value: "<seconds>" if value.replace(".", "").isdigit() else value,
}

MASKS = (
    (re.compile(r"PHPSESSID=[a-z0-9,-]{20,}"), "PHPSESSID=<id>"),
)


def mask(value, words):
    for what, by in words:
        value = value.replace(what, by)
    for pattern, word in MASKS:
        value = pattern.sub(word, value)
    return value
