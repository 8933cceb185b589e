"""Checks that the comparison finds differences, and forgives only the listed ones.

    python3 -m unittest discover tests/e2e
"""

import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from compare import Accepted, Comparison, Mask, Request, crawl

HTML = ("Content-Type", "text/html; charset=utf-8")


class Server:
    """Answers from a table: path -> (status, headers, body). `seen` are the Host values."""

    def __init__(self, title, answers):
        self.title = title
        self.seen = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.seen.add(self.headers["Host"])
                status, headers, body = answers.get(self.path, (404, [HTML], b"none"))
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class ComparisonTest(unittest.TestCase):
    def comparison(self, tested, oracle, **rules):
        servers = [Server("tested", tested), Server("oracle", oracle)]
        for server in servers:
            self.addCleanup(server.stop)
        return Comparison(*servers, "site.test:1", **rules)

    def differences(self, tested, oracle, **rules):
        comparison = self.comparison({"/": tested}, {"/": oracle}, **rules)
        return comparison.compare(Request("/"))[0]

    def test_times_of_expiry_may_differ_by_the_seconds_between_two_requests(self):
        def answer(time):
            return (200, [HTML, ("Expires", time)], b"same")
        base = answer("Thu, 25 Nov 2027 22:08:35 GMT")
        near = answer("Thu, 25 Nov 2027 22:08:36 GMT")
        self.assertEqual(self.differences(near, base), [])
        for other in ("Thu, 25 Nov 2027 22:09:35 GMT", "0"):
            self.assertEqual(len(self.differences(answer(other), base)), 1, other)

    def test_equal_answers_do_not_differ(self):
        answer = (200, [HTML], b"same")
        self.assertEqual(self.differences(answer, answer), [])

    def test_another_status_type_location_or_body_is_a_difference(self):
        answer = (200, [HTML, ("Location", "/a")], b"one\ntwo")
        for other in ((404, [HTML, ("Location", "/a")], b"one\ntwo"),
                      (200, [("Content-Type", "text/html"), ("Location", "/a")], b"one\ntwo"),
                      (200, [HTML, ("Location", "/b")], b"one\ntwo"),
                      (200, [HTML], b"one\ntwo"),
                      (200, [HTML, ("Location", "/a")], b"one\nthree"),
                      (200, [HTML, ("Location", "/a")], b"one\ntwo\n")):
            with self.subTest(other):
                self.assertEqual(len(self.differences(other, answer)), 1)

    def test_an_absolute_and_a_relative_location_lead_to_the_same_place(self):
        self.assertEqual(self.differences((302, [("Location", "/x?y")], b""),
                                          (302, [("Location", "http://site.test:1/x?y")], b"")), [])

    def test_cookies_differ_in_name_and_attribute_but_not_in_value(self):
        cookie = (200, [("Set-Cookie", "a=1; path=/; HttpOnly")], b"")
        other_value = (200, [("Set-Cookie", "a=2; path=/; HttpOnly")], b"")
        less = (200, [("Set-Cookie", "a=1; path=/")], b"")
        self.assertEqual(self.differences(cookie, other_value), [])
        self.assertEqual(len(self.differences(cookie, less)), 1)

    def test_a_mask_hides_what_it_matches_only(self):
        masks = (Mask(rb"token=\d+", "random"),)
        self.assertEqual(self.differences((200, [HTML], b"token=1"), (200, [HTML], b"token=22"),
                                          masks=masks), [])
        self.assertEqual(len(self.differences((200, [HTML], b"token=1 a"),
                                              (200, [HTML], b"token=22 b"), masks=masks)), 1)

    def test_an_accepted_difference_counts_in_its_part_only(self):
        accepted = (Accepted("^GET /$", "body", "intended"),)
        self.assertEqual(self.differences((200, [HTML], b"a"), (200, [HTML], b"b"),
                                          accepted=accepted), [])
        self.assertEqual(len(self.differences((200, [HTML], b"a"), (404, [HTML], b"b"),
                                              accepted=accepted)), 1)
        accepted = (Accepted("^GET /$", "status 404", "intended"),)
        for status, differences in ((404, 0), (500, 1)):
            found = self.differences((status, [HTML], b""), (403, [HTML], b""), accepted=accepted)
            self.assertEqual(len(found), differences)

    def test_an_error_page_of_apache_itself_may_have_another_text_but_no_other_status(self):
        page = (b'<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n'
                b"<title>404 Not Found</title>\n</head></html>\n")
        apache = (404, [("Content-Type", "text/html; charset=iso-8859-1")], page)
        self.assertEqual(self.differences((404, [HTML], b"Not found."), apache), [])
        self.assertEqual(len(self.differences((403, [HTML], b"No."), apache)), 1)
        self.assertEqual(len(self.differences((404, [HTML, ("X", "y")], b"No."), apache)), 1)
        self.assertEqual(len(self.differences((404, [HTML], b"<?php echo 1;"), apache)), 1)

    def test_a_crawl_follows_links_styles_and_redirects_on_the_same_host(self):
        site = {
            "/": (200, [HTML], b'<a href="b">b</a><a href="http://elsewhere.test/">no</a>'
                               b'<img srcset="/i.png 2x">'),
            "/b": (301, [HTML, ("Location", "/c")], b""),
            "/c": (200, [HTML], b'<link href="/s.css">'),
            "/s.css": (200, [("Content-Type", "text/css")], b"a { background: url('f.png') }"),
            "/i.png": (200, [("Content-Type", "image/png")], b"i"),
            "/f.png": (200, [("Content-Type", "image/png")], b"f"),
        }
        broken = {**site, "/f.png": (200, [("Content-Type", "image/png")], b"F")}
        comparison = self.comparison(broken, site)
        differences = crawl(comparison, ["/"])
        self.assertEqual(len(differences), 1)
        self.assertTrue(differences[0].startswith("GET /f.png: the body differs"))
        self.assertEqual(comparison.statuses, {200: 5, 301: 1})
        self.assertEqual(comparison.tested.seen | comparison.oracle.seen, {"site.test:1"})

    def test_a_crawl_without_end_is_a_difference(self):
        site = {f"/{n}": (200, [HTML], f'<a href="/{n + 1}">n</a>'.encode()) for n in range(30)}
        differences = crawl(self.comparison(site, site), ["/0"], limit=10)
        self.assertEqual(len(differences), 1)
        self.assertTrue(differences[0].startswith("more than 10 addresses"))


if __name__ == "__main__":
    unittest.main()
