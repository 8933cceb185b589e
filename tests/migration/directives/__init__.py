"""Proofs of the table in docs/coming-from-nginx.md, a module for each group of nginx's modules.

A case has a snippet for nginx and the replacement in the table. Both are written as in a real configuration:
`/srv/`, `/var/log/`, `/run/php.sock` and `10.0.0.1:8080` stand for places of the comparison.
"""

import ssl
import threading
from dataclasses import dataclass, field


@dataclass
class Case:
    """One comparison, with a host of its own: the name of the case with `.test` behind it."""

    name: str
    rows: str  # The directives that are proven.
    nginx: str  # In the `server`.
    # Requests, or functions that get a side (a running server) and return the part that both must have in common.
    # A request is "STATUS METHOD TARGET", with fields and "body=TEXT" behind "|". "503/429" is nginx's and Howdah's.
    requests: list
    action: dict | None = None  # The only step,
    routes: list | None = None  # or all steps.
    http: str = ""  # In the `http` of nginx.
    document: dict = field(default_factory=dict)  # Further sections; of `routes`, further named ones.
    group: str = "plain"  # Cases of a group share a process of Howdah, and its settings.
    listener: dict | None = None  # A listener of its own, with these keys.
    listen: str = ""  # The words after the address in nginx's `listen`.
    fields: str = ""  # Response fields to compare, in addition to the usual ones.
    log: str = ""  # A file below /var/log/ whose lines are compared.
    lines: int | None = None  # Number of its lines.
    body: bool = True  # Whether bodies are compared.
    files: dict = field(default_factory=dict)  # Further files below /srv/.


def read_all(client):
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except (ConnectionResetError, ssl.SSLError):
        pass
    return b"".join(parts)


def cache_status(requests):
    """Which responses are the same one: the number of the first request that got it, and the status."""
    def stored(side):
        seen, found = [], []
        for request in requests:
            status, fields, body = side.ask(request)
            answer = fields.get("count") or body
            seen += [answer] if answer not in seen else []
            found.append((status, seen.index(answer)))
        return found
    return stored


def at_once(request, number):
    """How many different responses requests get that are made at once."""
    def different(side):
        answers = []

        def ask():
            status, fields, body = side.ask(request)
            answers.append((status, fields.get("count") or body))
        threads = [threading.Thread(target=ask) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(answers), len(set(answers)), {status for status, _ in answers}
    return different
