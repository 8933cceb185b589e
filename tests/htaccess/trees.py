"""Whole trees like those of applications, each in a document root of its own.

trees/*.tree have the form of files of cases (peer/corpus.py), with one case each. After its requests a tree is
crawled: all links of Apache's pages are followed, each once, and both servers must answer the same.
The rules are written in the manner of the applications' own; the scripts are ours and print the values that they see.
"""

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

from peer import answers, corpus

MAX_REQUESTS = 300  # of a crawl


def cases():
    """One case for each tree."""
    found = []
    for path in sorted((corpus.HERE / "trees").glob("*.tree")):
        found += corpus.parse(path.read_text("utf-8"), "trees", path, site=path.stem)
    return found


def links(request, answer):
    """Targets on the same host that a page names, in order."""
    if answer is None or "text/html" not in "".join(answer.get("content-type")):
        return answer and [local(request, value) for value in answer.get("location")] or []
    page = answers.unpacked(answer).decode("latin-1")
    found = [local(request, unescape(value)) for value in re.findall(r'(?:href|src)="([^"]*)"', page)]
    return found + [local(request, value) for value in answer.get("location")]


def local(request, value):
    """A link as a target; None if it leads to another host."""
    # A path with two slashes at its front is no authority here.
    base = "http://site.test/" + request.target.decode("latin-1").lstrip("/")
    url = urlsplit(urljoin(base, value))
    if url.scheme != "http" or url.hostname != "site.test":
        return None
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def crawl(case, ask):
    """Follows links; `ask` takes a request and returns Apache's answer."""
    seen = {request.target for request in case.requests}
    queue = [(request, ask(request)) for request in case.requests]
    count = 0
    while queue and count < MAX_REQUESTS:
        request, answer = queue.pop(0)
        for target in links(request, answer) if request.method == "GET" else []:
            if target is None or target.encode("latin-1") in seen or count >= MAX_REQUESTS:
                continue
            followed = corpus.Request("GET", target.encode("latin-1"), line=request.line)
            seen.add(followed.target)
            count += 1
            queue.append((followed, ask(followed)))
    return count
