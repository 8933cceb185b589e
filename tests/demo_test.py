#!/usr/bin/env python3
"""Walks through the demo site the way visitors do, and the way bad visitors do.

    tests/demo_test.py --url http://127.0.0.1:8080     the site as some server serves it
    tests/demo_test.py --howdah target/debug/howdah    starts Howdah for it
    tests/demo_test.py                                 starts PHP's own development server for it

Prints a line for each step; the exit status is 0 when every step passed.
"""

import argparse
import concurrent.futures
import html
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse
import xml.etree.ElementTree
import zlib

DEMO = pathlib.Path(__file__).resolve().parent.parent / "demo"
FORM = "application/x-www-form-urlencoded"


class Answer:
    """A complete response."""

    def __init__(self, asked, response, body):
        self.asked = asked
        self.status = response.status
        self.headers = response.headers
        self.body = body
        self.text = body.decode("utf-8", "replace")

    @property
    def type(self):
        return self.headers.get_content_type()


class Visitor:
    """A browser without a window: one kept connection, cookies, forms."""

    def __init__(self, url):
        self.address = urllib.parse.urlsplit(url)
        self.cookies = {}
        self.connection = None

    def open(self):
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        return kind(self.address.hostname, self.address.port, timeout=20)

    def send(self, method, path, body=None, headers=None):
        headers = dict(headers or {})
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        # A server may close a kept connection at any time; a request that got no answer goes again.
        for attempt in (1, 2):
            fresh = self.connection is None
            self.connection = self.connection or self.open()
            try:
                self.connection.request(method, path, body, headers)
                response = self.connection.getresponse()
                answer = Answer(f"{method} {path[:60]}", response, response.read())
                break
            except (ConnectionError, http.client.BadStatusLine):
                self.connection.close()
                self.connection = None
                if fresh or attempt == 2:
                    raise
        if response.will_close:
            self.connection.close()
            self.connection = None
        for cookie in answer.headers.get_all("Set-Cookie") or []:
            name, _, value = cookie.split(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def get(self, path, **headers):
        return self.send("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def token(self):
        return re.search(r'name="token" value="([0-9a-f]+)"', self.get("/").text).group(1)

    def sign(self, name, message, token=None, picture=None, alt=""):
        """Sends the form; picture is (file name, type, bytes)."""
        fields = {"token": self.token() if token is None else token, "name": name, "message": message, "alt": alt}
        if picture is None:
            return self.send("POST", "/", urllib.parse.urlencode(fields), {"Content-Type": FORM})
        edge = "edge-of-a-part-5d2f"
        parts = [f'--{edge}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
                 for field, value in fields.items()]
        file_name, file_type, content = picture
        parts.append(f'--{edge}\r\nContent-Disposition: form-data; name="picture"; filename="{file_name}"\r\n'
                     f"Content-Type: {file_type}\r\n\r\n".encode() + content + f"\r\n--{edge}--\r\n".encode())
        return self.send("POST", "/", b"".join(parts), {"Content-Type": f"multipart/form-data; boundary={edge}"})

    def post_json(self, value, content_type="application/json"):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", "/api/entries", body, {"Content-Type": content_type})


def png(width, height):
    """A picture with a gradient, made by hand."""
    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in (x % 256, y % 256, 128)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def expect(condition, what, seen=""):
    if not condition:
        raise AssertionError(f"{what}; seen: {str(seen)[:300]!r}")


def expect_status(answer, *allowed):
    expect(answer.status in allowed, f"{answer.asked} answers {' or '.join(map(str, allowed))}", f"{answer.status} {answer.text[:200]}")


def entry_count(visitor):
    return json.loads(visitor.get("/api/entries").text)["count"]


# The steps, in order. Each takes the address of the site and stands alone.

def front_page_shows_entries_and_form(url):
    visitor = Visitor(url)
    answer = visitor.get("/")
    expect_status(answer, 200)
    expect(answer.headers["Content-Type"].lower() == "text/html; charset=utf-8", "HTML in UTF-8", answer.headers["Content-Type"])
    expect('class="card entry"' in answer.text and 'enctype="multipart/form-data"' in answer.text, "entries and a form")
    cookie = answer.headers["Set-Cookie"]
    expect("httponly" in cookie.lower() and "samesite=lax" in cookie.lower(), "a protected cookie", cookie)
    expect("default-src 'none'" in answer.headers["Content-Security-Policy"], "a content security policy")
    expect(answer.headers["X-Content-Type-Options"] == "nosniff", "no sniffing")


def style_script_and_logo_have_their_types(url):
    visitor = Visitor(url)
    page = visitor.get("/live").text
    expect(all(f'"{path}"' in page for path in ("/assets/site.css", "/assets/logo.svg", "/assets/live.js")), "links to its files")
    for path, types in (("/assets/site.css", ["text/css"]), ("/assets/logo.svg", ["image/svg+xml"]),
                        ("/assets/live.js", ["text/javascript", "application/javascript"])):
        answer = visitor.get(path)
        expect_status(answer, 200)
        expect(answer.type in types and answer.body, f"{path} as {types[0]}", answer.type)


def signing_redirects_and_thanks_once(url):
    visitor = Visitor(url)
    answer = visitor.sign("Zoë & Søren", "First line\r\nsecond line with 日本語 and 🐘")
    expect_status(answer, 303)
    path = answer.headers["Location"]
    expect(re.fullmatch(r"/entry/[1-9]\d*", path), "a pretty address", path)
    page = visitor.get(path)
    expect_status(page, 200)
    expect("Thank you, Zoë &amp; Søren." in page.text, "thanks")
    expect("First line\nsecond line with 日本語 and 🐘" in page.text, "the text as written")
    expect("Thank you" not in visitor.get(path).text, "thanks only once")
    expect(path in visitor.get("/").text, "the entry on the front page")


def scripts_in_an_entry_are_shown_as_text(url):
    visitor = Visitor(url)
    attack = "</p><script>alert('x')</script><img src=x onerror=alert(1)>\" onmouseover=\"x"
    path = visitor.sign(f"<b>{attack[:40]}", attack).headers["Location"]
    for page in (path, "/"):
        text = visitor.get(page).text
        expect("<script>alert" not in text and "<img src=x" not in text and "<b></p>" not in text, f"no markup in {page}")
        expect(html.escape(attack[:18], quote=False) in text, f"the text in {page}")
    answer = visitor.get("/api" + path.replace("entry", "entries"))
    expect(answer.type == "application/json" and json.loads(answer.text)["message"] == attack, "the API tells it as it is", answer.text)
    feed = visitor.get("/feed").text
    expect("<script" not in feed, "no markup in the feed")


def forged_forms_are_refused(url):
    visitor = Visitor(url)
    visitor.get("/")
    before = entry_count(visitor)
    for token in ("", "0" * 48, Visitor(url).token()):
        expect_status(visitor.sign("Mallory", "forged", token=token), 403)
    stranger = Visitor(url)  # a right token without the cookie
    expect_status(stranger.sign("Mallory", "forged", token=visitor.token()), 403)
    expect(entry_count(visitor) == before, "nothing was written")


def incomplete_forms_come_back_filled_in(url):
    visitor = Visitor(url)
    answer = visitor.sign("", "a message that must not be lost")
    expect_status(answer, 422)
    expect("a message that must not be lost" in answer.text and 'id="name-problem"' in answer.text, "the text and the problem")
    expect_status(visitor.sign("x" * 61, "long name"), 422)
    expect_status(visitor.sign("x", "y" * 2001), 422)
    expect_status(visitor.sign(" \t\u00a0", "blank name"), 422)
    answer = visitor.send("POST", "/", urllib.parse.urlencode({"token": visitor.token(), "name[]": "x", "message[a]": "y"}),
                          {"Content-Type": FORM})
    expect_status(answer, 422)


def uploaded_picture_is_shown(url):
    visitor = Visitor(url)
    answer = visitor.sign("Ansel", "With a picture.", picture=("../../evil.php", "text/html", png(160, 90)), alt='A "gradient"')
    expect_status(answer, 303)
    page = visitor.get(answer.headers["Location"]).text
    found = re.search(r'<img src="(/picture/[0-9a-f]{24}\.png)" alt="A &quot;gradient&quot;" width="160" height="90"', page)
    expect(found, "the picture on the page", page)
    picture = visitor.get(found.group(1))
    expect_status(picture, 200)
    expect(picture.type == "image/png" and picture.body.startswith(b"\x89PNG"), "a PNG file", picture.type)
    expect(int(picture.headers["Content-Length"] or len(picture.body)) == len(picture.body), "its length")
    expect("immutable" in picture.headers["Cache-Control"] and picture.headers["X-Content-Type-Options"] == "nosniff", "its headers")
    again = visitor.get(found.group(1), If_None_Match=picture.headers["ETag"])
    expect_status(again, 304)
    expect(again.body == b"", "no body with 304")
    expect_status(visitor.get(found.group(1).replace(".png", ".php")), 404)
    expect_status(visitor.get("/picture/" + "0" * 24 + ".png"), 404)


def other_files_are_refused_as_pictures(url):
    visitor = Visitor(url)
    before = entry_count(visitor)
    for content in (b"<?php phpinfo();", b"<html><script>alert(1)</script>", b"<svg xmlns='http://www.w3.org/2000/svg'/>",
                    b"GIF89a<?php phpinfo();", png(60, 60)[:20], b""):
        answer = visitor.sign("Mallory", "not a picture", picture=("a.png", "image/png", content))
        expect_status(answer, 422)
        expect('id="picture-problem"' in answer.text, "what is wrong with it")
    huge = png(1, 1).replace(struct.pack(">II", 1, 1), struct.pack(">II", 60_000, 60_000), 1)
    expect_status(visitor.sign("Mallory", "a bomb", picture=("a.png", "image/png", huge)), 422)
    expect(entry_count(visitor) == before, "nothing was written")


def too_large_uploads_are_refused(url):
    visitor = Visitor(url)
    for size in (5 << 20, 9 << 20):  # above our limit; above PHP's limit of a form
        answer = visitor.sign("Big", "much", picture=("a.png", "image/png", png(8, 8) + b"\0" * size))
        expect_status(answer, 413, 422)
    expect_status(visitor.get("/"), 200)


def pages_lead_from_the_newest_to_the_oldest(url):
    visitor = Visitor(url)
    for number in range(7):
        expect_status(visitor.post_json({"name": "Pager", "message": f"number {number}"}), 201)
    seen, path, pages = [], "/", 0
    while path:
        answer = visitor.get(path)
        expect_status(answer, 200)
        seen += [int(number) for number in re.findall(r'id="entry-(\d+)"', answer.text)]
        pages += 1
        following = re.search(r'rel="next" href="([^"]+)"', answer.text)
        path = html.unescape(following.group(1)) if following else None
    expect(seen == sorted(seen, reverse=True) and len(set(seen)) == len(seen), "each entry once, the newest first", seen)
    expect(pages > 1 and len(seen) == entry_count(visitor), "all entries", (pages, len(seen)))
    for page in (pages + 1, 0, -1, "x", "1x", "99999999999999999999"):
        expect_status(visitor.get(f"/?page={page}"), 404)
    expect_status(visitor.get("/?page[]=1"), 200)


def only_the_writer_removes_an_entry(url):
    writer, other = Visitor(url), Visitor(url)
    path = writer.sign("Fleeting", "Gone soon.", picture=("p.png", "image/png", png(4, 4))).headers["Location"]
    page = writer.get(path).text
    picture = re.search(r"/picture/[0-9a-f]{24}\.png", page).group(0)
    expect("Remove it" in page and "Remove it" not in other.get(path).text, "a button for the writer alone")

    def remove(visitor, token):
        return visitor.send("POST", path + "/remove", urllib.parse.urlencode({"token": token}), {"Content-Type": FORM})

    expect_status(remove(other, other.token()), 403)
    expect_status(remove(writer, "wrong"), 403)
    expect_status(writer.get(path), 200)
    expect_status(remove(writer, writer.token()), 303)
    expect_status(writer.get(path), 404)
    expect_status(writer.get(picture), 404)
    expect_status(remove(writer, writer.token()), 404)


def feed_is_well_formed(url):
    visitor = Visitor(url)
    visitor.sign("Feed & <reader>", "]]> &amp; \x01\x02 control \u202e characters")
    answer = visitor.get("/feed")
    expect_status(answer, 200)
    expect(answer.type == "application/rss+xml", "an RSS type", answer.type)
    channel = xml.etree.ElementTree.fromstring(answer.body).find("channel")
    titles = [item.findtext("title") for item in channel.findall("item")]
    expect(titles[0].endswith(" by Feed & <reader>"), "the newest entry first", titles[:1])
    expect(all(item.findtext("link").startswith("http") for item in channel.findall("item")), "absolute links")
    expect_status(visitor.get("/feed", If_None_Match=answer.headers["ETag"]), 304)
    expect_status(visitor.get("/feed", If_None_Match='"other"'), 200)


def api_speaks_json(url):
    visitor = Visitor(url)
    created = visitor.post_json({"name": "Robot", "message": "beep"})
    expect_status(created, 201)
    entry = json.loads(created.text)
    expect(created.headers["Location"] == f"/api/entries/{entry['id']}", "where it is", created.headers["Location"])
    expect(json.loads(visitor.get(created.headers["Location"]).text) == entry, "the same entry")
    listing = visitor.get("/api/entries")
    expect(listing.type == "application/json" and json.loads(listing.text)["entries"][0]["id"] == entry["id"], "the newest first")
    problems = visitor.post_json({"name": ""})
    expect_status(problems, 422)
    expect(set(json.loads(problems.text)["problems"]) == {"name", "message"}, "each problem", problems.text)
    expect_status(visitor.post_json(b"{"), 400)
    expect_status(visitor.post_json(b"[" * 5000), 400)
    expect_status(visitor.post_json({"name": ["x"], "message": "y"}), 400)
    expect_status(visitor.post_json(b"name=x&message=y", FORM), 415)
    expect_status(visitor.post_json(b'{"name":"x"}', "text/plain"), 415)
    expect_status(visitor.post_json(b" " * 70_000), 413)
    missing = visitor.get("/api/entries/999999999")
    expect_status(missing, 404)
    expect("error" in json.loads(missing.text), "errors in JSON, too")
    expect("howdah_demo" not in visitor.cookies, "no session for programs")


def events_arrive_one_by_one(url):
    visitor = Visitor(url)
    connection = visitor.open()
    connection.request("GET", "/live/events?events=4&pause=1500", headers={"Last-Event-ID": "41"})
    response = connection.getresponse()
    expect(response.status == 200 and response.headers.get_content_type() == "text/event-stream", "a stream", response.headers)
    numbers, times, counts = [], [], []
    for line in response:
        if line.startswith(b"id: "):
            numbers.append(int(line[4:]))
            times.append(time.monotonic())
        elif line.startswith(b"data: "):
            counts.append(json.loads(line[6:])["count"])
    expect(numbers == counts == [42, 43, 44, 45], "four events after number 41", numbers)
    expect(times[3] - times[0] > 1.5, "not all at once", times)
    connection.close()


def a_reader_that_leaves_does_no_harm(url):
    for _ in range(3):
        connection = Visitor(url).open()
        connection.request("GET", "/live/events?events=30&pause=100")
        connection.getresponse().readline()
        connection.close()
    expect_status(Visitor(url).get("/about"), 200)


def facts_tell_no_secrets_and_escape_the_rest(url):
    visitor = Visitor(url)
    visitor.token()
    answer = visitor.get("/facts?x=<script>1</script>", User_Agent="<script>alert(1)</script>",
                         Authorization="Basic c2VjcmV0OnNlY3JldA==")
    expect_status(answer, 200)
    expect("&lt;script&gt;alert(1)" in answer.text and "<script>alert" not in answer.text and "<script>1" not in answer.text, "escaped")
    for secret in [*visitor.cookies.values(), "c2VjcmV0", str(DEMO), "/var/"]:
        expect(secret not in answer.text, "no secret on the page", secret)
    first = json.loads(visitor.get("/api/facts").text)
    if (first["server"] or "").startswith("Howdah/"):
        expect(re.fullmatch("[0-9a-f]{32}", first["request_id"] or ""), "the id of the request", first)
        expect("REQUEST_ID" in answer.text, "the id of the request on the page", answer.text)
    expect(first["pid"] > 0 and first["requests"] >= 1 and first["php"].startswith("8."), "a worker", first)
    answers = [first] + [json.loads(visitor.get("/api/facts").text) for _ in range(8)]
    by_worker = {}
    for facts in answers:
        by_worker.setdefault(facts["pid"], []).append(facts["requests"])
    # Another client may use the site at the same time, so the count may jump; it never falls or stands.
    expect(all(a < b for counts in by_worker.values() for a, b in zip(counts, counts[1:])), "each worker counts up", by_worker)


def unknown_addresses_are_404(url):
    visitor = Visitor(url)
    for path in ("/no/such/page", "/entry/0", "/entry/01", "/entry/999999999999999999", "/entry/99999999999999999999", "/entry/1x",
                 "/entry/1%0a", "/entry/", "//example.org/about", "/About", "/index.php/none", "/api/none", "/picture/"):
        answer = visitor.get(path)
        expect_status(answer, 404)
    page = visitor.get("/no/such/page?q=<script>")
    expect("Nothing at this address" in page.text and "<script>" not in page.text, "a page that says so")


def hostile_addresses_do_not_break_it(url):
    visitor = Visitor(url)
    for path in ("/%00", "/entry/1%00", "/%ff%fe", "/%c0%ae%c0%ae/", "/%", "/%zz", "/a" * 2000, "/entry/1%2f..%2f..",
                 "/%0d%0aX-Injected:1", "/about%0d%0aX-Injected:1", "/?" + "a[]=1&" * 1500):
        answer = visitor.get(path)
        expect(answer.status < 500, f"no failure for {path[:40]}", answer.status)
        expect(answer.headers["X-Injected"] is None, "no header of the client's making")


def nothing_but_public_files_is_reachable(url):
    visitor = Visitor(url)
    for path in ("/../src/App.php", "/%2e%2e/src/App.php", "/..%2fsrc/App.php", "/src/App.php", "/templates/layout.php",
                 "/var/guestbook.sqlite", "/../var/guestbook.sqlite", "/assets/../../src/App.php", "/assets/..%2f..%2fsrc/App.php",
                 "/.user.ini", "/.htaccess", "/%2ehtaccess", "/index.php~", "/index.php.bak", "/assets/"):
        answer = visitor.get(path)
        expect(answer.status in (400, 403, 404), f"{path} is not there", answer.status)
        expect(b"<?php" not in answer.body and b"SQLite format" not in answer.body, "no source")


def methods_are_kept_apart(url):
    visitor = Visitor(url)
    head = visitor.send("HEAD", "/about")
    expect_status(head, 200)
    expect(head.body == b"" and head.type == "text/html", "headers without a body")
    for method, path in (("PUT", "/"), ("DELETE", "/entry/1"), ("PATCH", "/api/entries"), ("POST", "/about")):
        answer = visitor.send(method, path, b"")
        expect_status(answer, 405)
        expect("GET" in answer.headers["Allow"], "what is allowed")
    options = visitor.send("OPTIONS", "/api/entries")
    expect_status(options, 204)
    expect({"GET", "HEAD", "POST", "OPTIONS"} == set(options.headers["Allow"].split(", ")), "all methods", options.headers["Allow"])


def other_spellings_lead_to_the_one_address(url):
    visitor = Visitor(url)
    for path, target in (("/about/", "/about"), ("/index.php", "/"), ("/index.php/about", "/about"), ("/feed/?a=b", "/feed?a=b")):
        answer = visitor.get(path)
        expect_status(answer, 301)
        expect(answer.headers["Location"] == target, f"{path} leads to {target}", answer.headers["Location"])


def many_visitors_at_once_are_all_served(url):
    def visit(number):
        visitor = Visitor(url)
        if number % 3 == 0:
            return visitor.post_json({"name": f"Visitor {number}", "message": "all at once"}).status == 201
        return visitor.get(("/", "/feed")[number % 2]).status == 200

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        results = list(pool.map(visit, range(96)))
    expect(all(results), "every answer", results.count(False))


STEPS = [
    front_page_shows_entries_and_form,
    style_script_and_logo_have_their_types,
    signing_redirects_and_thanks_once,
    scripts_in_an_entry_are_shown_as_text,
    forged_forms_are_refused,
    incomplete_forms_come_back_filled_in,
    uploaded_picture_is_shown,
    other_files_are_refused_as_pictures,
    too_large_uploads_are_refused,
    pages_lead_from_the_newest_to_the_oldest,
    only_the_writer_removes_an_entry,
    feed_is_well_formed,
    api_speaks_json,
    events_arrive_one_by_one,
    a_reader_that_leaves_does_no_harm,
    facts_tell_no_secrets_and_escape_the_rest,
    unknown_addresses_are_404,
    hostile_addresses_do_not_break_it,
    nothing_but_public_files_is_reachable,
    methods_are_kept_apart,
    other_spellings_lead_to_the_one_address,
    many_visitors_at_once_are_all_served,
]


class Server:
    """A server over the demo on a free port, with a new database."""

    def __enter__(self):
        self.state = tempfile.TemporaryDirectory(prefix="howdah-demo-")
        self.directory = pathlib.Path(self.state.name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.log = self.directory / "server.log"
        with open(self.log, "wb") as log:
            self.process = self.start(f"127.0.0.1:{port}", log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return f"http://127.0.0.1:{port}"
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        sys.exit(f"The server does not serve.\n{self.output}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)  # PHP's workers end only so
            self.process.wait(60)
        self.output = self.log.read_text(errors="replace")
        self.state.cleanup()


class DevelopmentServer(Server):
    """PHP's own server."""

    def start(self, address, log):
        environment = os.environ | {"HOWDAH_DEMO_VAR": self.state.name, "PHP_CLI_SERVER_WORKERS": "6"}
        return subprocess.Popen(["php", "-S", address, str(DEMO / "public" / "index.php")],
                                stdout=log, stderr=log, env=environment, start_new_session=True)


class Howdah(Server):
    """Howdah with no configuration, over a copy that PHP's user may write in."""

    def __init__(self, program):
        self.program = program

    def start(self, address, log):
        site = self.directory / "site"
        shutil.copytree(DEMO, site, ignore=shutil.ignore_patterns("var"))
        (site / "var").mkdir()
        self.directory.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(site / "var", "www-data", "www-data")
        return subprocess.Popen([self.program, "serve", site, "--listen", address],
                                stdout=log, stderr=log, start_new_session=True)


def run(url, only):
    passed = failed = 0
    for step in STEPS:
        if only and only not in step.__name__:
            continue
        name = step.__name__.replace("_", " ")
        try:
            step(url)
            passed += 1
            print(f"ok    {name}", flush=True)
        except Exception as problem:  # a step may fail in any way: it must not end the others
            failed += 1
            print(f"FAIL  {name}: {problem}", flush=True)
            if not isinstance(problem, AssertionError):
                traceback.print_exc()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", help="where the demo is served")
    where.add_argument("--howdah", metavar="PROGRAM", help="start this for it")
    parser.add_argument("--only", metavar="TEXT", help="only the steps with this in their name")
    options = parser.parse_args()
    if options.url:
        return run(options.url.rstrip("/"), options.only)
    server = Howdah(options.howdah) if options.howdah else DevelopmentServer()
    with server as url:
        status = run(url, options.only)
    if status:
        print(f"The server's log:\n{server.output}")
    return status


if __name__ == "__main__":
    sys.exit(main())
