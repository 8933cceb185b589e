"""Methods, on files, scripts and the front controller, and protocol versions."""

from differ.case import get, head, raw, request

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "BREW", "get", "LOCK")
BODY = ("POST", "PUT", "PATCH")

CASES = [
    *(request(f"{m} on a file", m, "/hello.txt", body="x=1" if m in BODY else None) for m in METHODS if m not in ("GET", "HEAD")),
    *(request(f"{m} on a script", m, "/probe.php?x=1", body="x=1" if m in BODY else None) for m in METHODS),
    *(request(f"{m} on a pretty path", m, "/api/items/1", body="x=1" if m in BODY else None) for m in METHODS if m != "GET"),
    *(request(f"{m} on a missing file", m, "/missing.txt", body="x=1" if m in BODY else None, site="plain")
      for m in ("POST", "PUT", "DELETE", "OPTIONS", "BREW")),
    *(request(f"{m} on a directory", m, "/docs/", site="plain") for m in ("POST", "DELETE", "OPTIONS")),
    request("OPTIONS on the server", "OPTIONS", "*", refusal=True, ignore=("body", "field content-type")),
    request("DELETE with a body", "DELETE", "/probe.php", "Content-Type: text/plain", body="delete me"),
    request("GET with a body", "GET", "/probe.php", "Content-Type: text/plain", body="get with a body"),
    request("HEAD with a body", "HEAD", "/probe.php", "Content-Type: text/plain", body="head with a body"),
    request("unknown method with a body", "BREW", "/probe.php", "Content-Type: text/plain", body="brew"),
    request("POST without a length", "POST", "/probe.php", "Content-Type: text/plain"),
    request("POST of nothing", "POST", "/probe.php", "Content-Type: text/plain", body=""),
    request("CONNECT to a host", "CONNECT", "example.org:443", refusal=True),
    request("method of 100 letters", "A" * 100, "/probe.php", refusal=True),

    get("HTTP/1.0 with a host", "/probe.php", version="1.0", close=False, end=True),
    get("HTTP/1.0 without a host", "/probe.php", version="1.0", host=None, close=False),
    get("HTTP/1.0 of a file without a host", "/hello.txt", version="1.0", host=None, close=False, end=True),
    get("HTTP/1.0 that is kept alive", "/hello.txt", "Connection: keep-alive", version="1.0", close=False, end=True),
    get("HTTP/1.0 of a script that is kept alive", "/scripts/respond.php?do=length-right", "Connection: keep-alive", version="1.0", close=False, end=True),
    get("HTTP/1.0 of a script of unknown length", "/scripts/respond.php?do=size-5m-pieces", "Connection: keep-alive", version="1.0", close=False, end=True),
    get("HTTP/1.1 that is kept alive", "/hello.txt", close=False, end=True),
    get("HTTP/1.1 of a script that is kept alive", "/scripts/respond.php?do=tiny", close=False, end=True),
    get("HTTP/1.1 that is closed", "/hello.txt", end=True),
    get("HTTP/1.9", "/hello.txt", version="1.9", refusal=True),
    get("HTTP/2.0", "/hello.txt", version="2.0", refusal=True),
    get("absolute form", "http://site.test:{port}/probe.php?x=1"),
    get("absolute form with another host field", "http://site.test:{port}/probe.php?x=1", host="other.test"),
    get("absolute form without a path", "http://site.test:{port}"),
    get("absolute form of https", "https://site.test:{port}/hello.txt"),
    get("absolute form over HTTP/1.0 without a host", "http://site.test:{port}/probe.php?x=1", version="1.0", host=None, close=False),
    get("absolute form without a host", "http://site.test:{port}/hello.txt", host=None, refusal=True),
    get("absolute form with a fragment", "http://site.test:{port}/hello.txt#part", refusal=True),
    get("absolute form with a fragment in the host", "http://site.test#x/hello.txt", refusal=True),
    get("absolute form with a user", "http://user@site.test:{port}/hello.txt", refusal=True),
    get("absolute form of another scheme", "ftp://site.test:{port}/hello.txt", refusal=True),
    raw("requests for scripts and files at once",
        head("GET", "/probe.php?n=1", close=False) + head("GET", "/hello.txt", close=False)
        + head("POST", "/probe.php?n=2", "Content-Length: 3", "Content-Type: text/plain", close=False) + b"abc"
        + head("HEAD", "/probe.php?n=3", close=False) + head("GET", "/probe.php?n=4"),
        methods=("GET", "GET", "POST", "HEAD", "GET")),
    raw("empty lines before a request", b"\r\n\r\n" + head("GET", "/hello.txt")),
]
