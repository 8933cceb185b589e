#!/usr/bin/env python3
"""Tests of the comparison itself: a comparison that cannot fail is no proof."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import trees  # noqa: E402
from peer import answers, build, corpus, intended, servers  # noqa: E402,F401
from differ.wire import Answer  # noqa: E402

CASE = """
#### A heading.

=== the first case
# A remark.
--- .htaccess
# a comment of the file
Redirect {base}/a /b

--- sub/a%20b.txt escaped open
one\\x00two\\
three\\\\
--- link -> sub
--- empty/
--- requests
GET a?x=\\xff -> 302 Location: {base}/b
POST /b HTTP/1.0
  X-Field:  value
  @ user:pass
  | line
  |. end
=== another case
--- requests
OPTIONS *
"""


def parsed(text=CASE):
    return corpus.parse(text, "module")


def answer(status=200, body=b"", fields=()):
    return Answer(status=status, version="1.1", fields=list(fields), body=body)


def observed(*arguments, request=None, own_page=False, **options):
    return answers.observe(answer(*arguments, **options), request or corpus.Request("GET", b"/"), 8080, own_page)


class Corpus(unittest.TestCase):
    def test_a_case_has_its_files_and_requests(self):
        first, second = parsed()
        self.assertEqual((first.title, first.base), ("module: the first case", "/module-the-first-case"))
        self.assertEqual([entry.name for entry in first.entries], [".htaccess", "sub/a%20b.txt", "link", "empty"])
        self.assertEqual(first.entries[0].content, b"# a comment of the file\nRedirect {base}/a /b\n")
        self.assertEqual(first.entries[1].content, b"one\0twothree\\")
        self.assertEqual(str(second.requests[0]), "OPTIONS *")

    def test_a_request_has_target_fields_body_and_expectation(self):
        get, post = parsed()[0].requests
        self.assertEqual(get.target, b"/module-the-first-case/a?x=\xff")
        self.assertEqual((get.status, get.words), (302, "Location: /module-the-first-case/b"))
        self.assertEqual(post.bytes(8080), b"POST /b HTTP/1.0\r\nHost: site.test:8080\r\nX-Field: value\r\n"
                         b"Authorization: Basic dXNlcjpwYXNz\r\nContent-Length: 8\r\n\r\nline\nend")

    def test_a_case_of_a_site_of_its_own_has_no_base(self):
        self.assertEqual(corpus.parse("=== x\n--- requests\nGET a\n", "trees", site="x")[0].requests[0].target, b"/a")

    def test_text_outside_of_files_is_refused(self):
        for text in ("stray\n", "=== x\nstray\n", "=== x\n--- a nonsense\n--- requests\nGET /\n", "=== x\n--- a\n"):
            with self.assertRaises(corpus.CorpusError):
                parsed(text)

    def test_the_cases_of_the_project_are_many_and_their_names_are_unique(self):
        cases = corpus.read_all() + trees.cases()
        self.assertGreater(len(cases), 700)
        self.assertEqual(len({case.title for case in cases}), len(cases))

    def test_all_requests_of_the_project_say_what_apache_answers(self):
        missing = [f"{case.title}: {request}" for case in corpus.read_all() for request in case.requests if not request.status]
        self.assertEqual(missing, [])


class Build(unittest.TestCase):
    def test_a_tree_is_written_with_its_words_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            build.write(parsed()[0], root)
            top = root / "module-the-first-case"
            self.assertIn("Redirect /module-the-first-case/a /b", (top / ".htaccess").read_text())
            self.assertEqual((top / "link/a b.txt").read_bytes(), b"one\0twothree\\")
            self.assertEqual((top / "sub/a b.txt").stat().st_mtime, corpus.MTIME)
            self.assertTrue((top / "empty").is_dir() and os.path.islink(top / "link"))


class Answers(unittest.TestCase):
    page = answers.OWN_PAGES[0] + b"<title>404</title>"

    def test_fields_that_are_left_out_make_no_difference(self):
        fields = [("Date", "now"), ("Server", "x"), ("Connection", "close"), ("X-A", "1")]
        self.assertEqual(observed(200, b"x", fields), {"status": "200", "field x-a": "1", "body": "x"})

    def test_each_exclusion_has_a_reason(self):
        for reason in [*answers.LEFT_OUT.values(), *answers.LEFT_OUT_VARIABLES.values()]:
            self.assertTrue(reason)

    def test_differences_of_status_field_and_body_are_seen(self):
        base = observed(200, b"x", [("X-A", "1")])
        self.assertEqual(answers.differences(observed(404, b"x", [("X-A", "1")]), base), ["status"])
        self.assertEqual(answers.differences(observed(200, b"x", [("X-A", "2")]), base), ["field x-a"])
        self.assertEqual(answers.differences(observed(200, b"x"), base), ["field x-a"])
        self.assertEqual(answers.differences(observed(200, b"y", [("X-A", "1")]), base), ["body"])

    def test_the_port_is_masked(self):
        self.assertEqual(observed(302, b"", [("Location", "http://a:8080/")])["field location"], "http://a:PORT/")
        self.assertEqual(observed(200, b"", [("X-A", "808080")])["field x-a"], "808080")

    def test_the_order_of_vary_means_nothing(self):
        self.assertEqual(observed(200, b"", [("Vary", "B, A")]), observed(200, b"", [("Vary", "A"), ("Vary", "B")]))

    def test_an_entity_tag_is_compared_by_its_kind(self):
        self.assertEqual(observed(200, b"", [("ETag", '"1-2"')]), observed(200, b"", [("ETag", '"abc"')]))
        self.assertNotEqual(observed(200, b"", [("ETag", '"1-2"')]), observed(200, b"", [("ETag", 'W/"1-2"')]))
        self.assertNotEqual(observed(200, b"", [("ETag", '"1-2"')]), observed(200, b""))

    def test_apaches_own_page_is_not_compared_but_a_leak_is_seen(self):
        self.assertTrue(answers.is_own_page(answer(404, self.page), "GET"))
        self.assertFalse(answers.is_own_page(answer(404, b"own text"), "GET"))
        self.assertFalse(answers.is_own_page(answer(200, self.page), "GET"))
        theirs, ours = observed(404, self.page, own_page=True), observed(404, b"{}", own_page=True)
        self.assertEqual(theirs, ours)
        self.assertIn("leak", observed(404, b"<?php", own_page=True))

    def test_a_page_of_errordocument_is_compared(self):
        self.assertNotEqual(observed(404, b"own text"), observed(404, b"other text"))

    def test_volatile_variables_are_left_out_of_bodies(self):
        one = observed(200, b"server REMOTE_PORT = 1\nserver REDIRECT_REMOTE_PORT = 3\nserver X = 1")
        self.assertEqual(one, observed(200, b"server X = 1"))
        self.assertNotEqual(one, observed(200, b"server X = 2"))

    def test_expires_is_compared_by_its_distance(self):
        def fields(second):
            return [("Date", f"Tue, 02 Jan 2024 03:04:{second:02} GMT"), ("Expires", f"Tue, 02 Jan 2024 03:05:{second:02} GMT")]
        self.assertEqual(observed(200, b"", fields(5)), observed(200, b"", fields(6)))
        self.assertEqual(observed(200, b"", fields(5))["field expires"], "Date + 60 s")
        past = [("Date", "Tue, 02 Jan 2024 03:04:05 GMT"), ("Expires", "Thu, 19 Nov 1981 08:52:00 GMT")]
        self.assertEqual(observed(200, b"", past)["field expires"], "Thu, 19 Nov 1981 08:52:00 GMT")

    def test_no_answer_is_a_difference(self):
        self.assertEqual(answers.observe(None, corpus.Request("GET", b"/"), 8080), {"status": "no answer"})


class IntendedDifferences(unittest.TestCase):
    def test_an_entry_covers_its_cases_aspects_and_values_only(self):
        table = (intended.Intended("title", "reason", ("core: *",), {"field location": "/x", "field etag": None}),)
        self.assertTrue(intended.covering("core: a", "field location", "/x", table))
        self.assertTrue(intended.covering("core: a", "field etag", None, table))
        self.assertFalse(intended.covering("core: a", "field location", "/y", table))
        self.assertFalse(intended.covering("mime: a", "field location", "/x", table))
        self.assertFalse(intended.covering("core: a", "status", "/x", table))

    def test_each_entry_concerns_a_case(self):
        titles = [case.title for case in corpus.read_all() + trees.cases()]
        for entry in intended.TABLE:
            self.assertTrue(any(intended.fnmatch.fnmatchcase(title, p) for title in titles for p in entry.cases), entry.title)


class Crawl(unittest.TestCase):
    def test_links_are_followed_once_and_on_the_same_host_only(self):
        case = corpus.parse("=== x\n--- requests\nGET /\n", "trees", site="x")[0]
        pages = {
            b"/": b'<a href="/a?x=1&amp;y">1</a> <a href="http://other.test/">2</a> <a href="b/">3</a> <a href="/">4</a>',
            b"/b/": b'<img src="../a?x=1&amp;y"> <a href="c">1</a>',
        }
        asked = []

        def ask(request):
            asked.append(request.target)
            return answer(200, pages.get(request.target, b""), [("Content-Type", "text/html")])

        self.assertEqual(trees.crawl(case, ask), 3)
        self.assertEqual(asked, [b"/", b"/a?x=1&y", b"/b/", b"/b/c"])


class Page(unittest.TestCase):
    def test_the_page_lists_the_intended_differences(self):
        page = (Path(__file__).resolve().parents[2] / "docs/htaccess.md").read_text("utf-8")
        self.assertTrue(page.endswith("\n" + intended.as_markdown()), "run tests/htaccess/run --differences")


if __name__ == "__main__":
    unittest.main()
