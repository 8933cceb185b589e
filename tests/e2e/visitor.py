"""A visitor without a browser: one connection, its own cookies, and its knowledge about its own data.

The applications in frameworks/ all have the same pages, so one visitor can use each of them.
"""

import hashlib
import html
import http.client
import json
import random
import re
from urllib.parse import quote, urlencode, urljoin, urlsplit

from compare import Answer, Request
from report import check, equal

# Long enough for a busy machine; a request that takes longer hangs.
TIMEOUT = 120
WORDS = ("elephant", "Howdah", "Σεβαστή", "<b>bold</b>", "a & b", "naïve", "\"quoted\"", "100 %", "東京")
FORM = (("Content-Type", "application/x-www-form-urlencoded"),)


class Visitor:
    """Uses one application and checks that each answer has this visitor's data and no other's."""

    def __init__(self, port, host, number):
        self.port = port
        self.host = host
        self.number = number
        self.random = random.Random(number)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        self.cookies = {}
        self.notes = []
        self.user = None
        self.cookie_value = None
        self.requests = 0
        # (process, its number of requests, its memory), in the order of the answers
        self.facts = []

    def close(self):
        """Closes the connection."""
        self.connection.close()

    # ---- requests ----

    def with_cookies(self, request):
        """The request with this visitor's cookies."""
        if not self.cookies:
            return request
        pairs = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return Request(request.path, request.method, (*request.headers, ("Cookie", pairs)), request.body)

    def send(self, request):
        """Sends a request with the visitor's cookies, and keeps those of the answer."""
        self.requests += 1
        request = self.with_cookies(request)
        headers = {"Host": self.host, **dict(request.headers)}
        try:
            self.connection.request(request.method, request.path, request.body, headers)
            response = self.connection.getresponse()
            found = {}
            for name, value in response.getheaders():
                found.setdefault(name.lower(), []).append(value)
            answer = Answer(response.status, found, response.read())
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        self.take_cookies(answer)
        return answer

    def take_cookies(self, answer):
        """Keeps the cookies of an answer."""
        for line in answer.headers.get("set-cookie", []):
            name, _, value = line.split(";", 1)[0].partition("=")
            if re.search(r"(?i)max-age=(0|-\d+)\b", line) or value == "deleted":
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value

    def get(self, path, status=200, headers=()):
        """Answer to a GET; its status must be this one."""
        answer = self.send(Request(path, headers=tuple(headers)))
        self.expect(answer, f"GET {path}", status)
        return answer

    def post(self, path, fields, status):
        """Answer to a form; its status must be this one."""
        answer = self.send(Request(path, "POST", FORM, urlencode(fields).encode()))
        self.expect(answer, f"POST {path}", status)
        return answer

    def expect(self, answer, what, status):
        check(answer.status == status, f"visitor {self.number}: {what}: status {answer.status} instead of "
              f"{status}: {answer.body[:300].decode('utf-8', 'replace')}")

    def same(self, what, found, expected):
        """Fails unless the answer has this visitor's data."""
        equal(f"visitor {self.number}: {what}", found, expected)

    def location(self, answer):
        """The path that a redirect leads to."""
        target = urlsplit(urljoin(f"http://{self.host}/", answer.headers["location"][0]))
        return target._replace(scheme="", netloc="", path=target.path or "/").geturl()

    def token(self, path):
        """The field with the token of a page's form, under both names that applications use."""
        found = token(self.get(path))
        return {"token": found, "_token": found}

    # ---- actions of visitors ----

    def act(self):
        """Does one thing, chosen at random."""
        actions = (
            (self.echo, 10), (self.echo_body, 8), (self.write_note, 6), (self.read_notes, 6),
            (self.write_nothing, 1), (self.log_in, 3), (self.see_account, 6), (self.log_out, 1),
            (self.upload, 5), (self.take_cookie, 3), (self.see_home, 5), (self.follow_redirect, 2),
            (self.read_stream, 4), (self.download, 1), (self.meet_error, 2), (self.meet_nothing, 2),
            (self.wait, 1), (self.look_at_worker, 4),
        )
        chosen = self.random.choices([action for action, _ in actions], [weight for _, weight in actions])[0]
        chosen()

    def text(self):
        """Some words that no other visitor uses in this order."""
        words = self.random.choices(WORDS, k=self.random.randint(1, 6))
        return f"{' '.join(words)} of visitor {self.number}, {self.random.random()}"

    def echo(self):
        """The query, a header, the cookie."""
        said, name = self.text(), f"{self.number}-{self.requests}"
        answer = self.get(f"/json?{urlencode({'said': said})}", headers=[("X-Request-Id", name)])
        found = json.loads(answer.body)
        self.same("echo", {key: found[key] for key in ("method", "path", "query", "id", "visitor", "length")},
                  {"method": "GET", "path": "/json", "query": {"said": said}, "id": name,
                   "visitor": self.cookie_value, "length": 0})

    def echo_body(self):
        """A body of JSON, now and then a long one."""
        size = self.random.choice((0, 10, 1000, 20_000, 20_000, 300_000))
        sent = {"said": self.text(), "rest": self.random.randbytes(size // 2).hex()}
        body = json.dumps(sent).encode()
        answer = self.send(Request("/json", "POST", (("Content-Type", "application/json"),), body))
        self.expect(answer, "POST /json", 200)
        found = json.loads(answer.body)
        check(found["input"] == sent and found["length"] == len(body) and not found["query"],
              f"visitor {self.number}: another body than was sent: {answer.body[:300]}")

    def write_note(self):
        """A form with a token, then the page it leads to."""
        if len(self.notes) > 20:
            self.forget()
        note = self.text()
        answer = self.post("/form", {**self.token("/form"), "note": note}, 302)
        self.same("location", self.location(answer), "/notes")
        self.notes.append(note)
        page = self.get("/notes")
        self.same("notice", items(page, r'<p class="notice">(.*?)</p>'), [f"Stored: {note}"])
        self.same("notes", items(page), self.notes)

    def read_notes(self):
        """The notes of the session, and no notice of an earlier page."""
        page = self.get("/notes")
        self.same("notes", items(page), self.notes)
        self.same("notice", items(page, r'<p class="notice">(.*?)</p>'), [])

    def write_nothing(self):
        """A form that is not accepted; some applications show it again, some redirect to it."""
        answer = self.send(Request("/form", "POST", FORM, urlencode(
            {**self.token("/form"), "note": ""}).encode()))
        if answer.status == 302:
            answer = self.get(self.location(answer))
        else:
            self.expect(answer, "POST /form", 422)
        self.same("error", items(answer, r'<p class="error">(.*?)</p>'), ["A note must not be empty."])

    def log_in(self):
        """The right password after a wrong one, at times."""
        if self.user:
            return
        right = self.random.random() < 0.8
        name = f"user{self.number % 32}"
        fields = {**self.token("/login"), "user": name,
                  "password": f"secret{self.number % 32}" if right else "wrong"}
        answer = self.post("/login", fields, 302)
        self.same("location", self.location(answer), "/account" if right else "/login")
        if right:
            self.user = name
        else:
            check(items(self.get("/login"), r'<p class="error">(.*?)</p>'), "no word of the wrong password")

    def see_account(self):
        """The account, or the way to the login."""
        if self.user:
            self.same("user", items(self.get("/account"), r'<p class="user">(.*?)</p>'), [self.user])
        else:
            self.same("location", self.location(self.get("/account", 302)), "/login")

    def log_out(self):
        """Ends the session."""
        if self.user:
            self.same("location", self.location(self.get("/logout", 302)), "/")
            self.user = None
            self.notes = []

    def forget(self):
        """Starts again without cookies."""
        self.cookies.clear()
        self.user = self.cookie_value = None
        self.notes = []

    def upload(self):
        """A file with a label."""
        content = self.random.randbytes(self.random.choice((0, 1, 1000, 50_000, 50_000, 400_000)))
        label, name = self.text(), f"file-{self.number}-{self.requests}.bin"
        answer = self.send(upload(label, name, content))
        self.expect(answer, "POST /upload", 200)
        self.same("upload", json.loads(answer.body), {
            "label": label, "name": name, "size": len(content), "sha1": hashlib.sha1(content).hexdigest()})

    def take_cookie(self):
        """A new cookie; the page shows the old one."""
        value = f"v{self.number}-{self.requests}"
        answer = self.get(f"/cookie?value={value}")
        self.same("cookie", json.loads(answer.body), {"before": self.cookie_value})
        self.cookie_value = value

    def see_home(self):
        """A page made of a template."""
        check(b'<a href="/notes">' in self.get("/").body, "the home page has no links")

    def follow_redirect(self):
        """A redirect and its target."""
        target = self.location(self.get("/redirect", 302))
        self.same("query", json.loads(self.get(target).body)["query"], {"from": "redirect"})

    def read_stream(self):
        """An answer in pieces."""
        lines, name = self.random.choice((1, 10, 2000)), f"n{self.number}-{self.requests}"
        text = self.get(f"/stream?lines={lines}&name={name}").body.decode()
        check(text == "".join(f"line {line} for {name}\n" for line in range(1, lines + 1)),
              f"visitor {self.number}: a stream of {len(text)} bytes is wrong: {text[:100]!r}")

    def download(self):
        """A file."""
        whole = self.get("/download").body
        check(whole.startswith(b"<?php") and len(whole) > 2000, f"the file begins with {whole[:40]}")

    def meet_error(self):
        """An exception: its page must not name it."""
        answer = self.get(f"/error?name=n{self.number}", 500)
        check(b"deliberate" not in answer.body and answer.body, "the error page is empty or tells too much")

    def meet_nothing(self):
        """An address that does not exist."""
        self.get(f"/missing/{quote(self.text())}", 404)

    def wait(self):
        """A page that takes its time."""
        name = f"n{self.number}-{self.requests}"
        self.same("slow page", json.loads(self.get(f"/slow?ms=20&name={name}").body), {"name": name})

    def look_at_worker(self):
        """The process that answers."""
        found = json.loads(self.get("/worker").body)
        self.facts.append((found["pid"], found["requests"], found["memory"]))


def token(page):
    """The token in a form."""
    found = re.search(rb'name="(?:token|_token)" type="hidden" value="([^"]+)"', page.body)
    check(found, f"no token in the form: {page.body[:300]}")
    return found.group(1).decode()


def items(page, pattern=r"<li>(.*?)</li>"):
    """The texts of a page's elements."""
    return [html.unescape(text) for text in re.findall(pattern, page.body.decode(), re.S)]


def upload(label, name, content):
    """A request with a file and a field."""
    boundary = "------------------------5d6a1b0c9e8f7a3b"
    body = b"".join((
        f'--{boundary}\r\nContent-Disposition: form-data; name="label"\r\n\r\n{label}\r\n'.encode(),
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode(), content, f"\r\n--{boundary}--\r\n".encode()))
    return Request("/upload", "POST", (("Content-Type", f"multipart/form-data; boundary={boundary}"),), body)
