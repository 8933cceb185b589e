#!/usr/bin/env python3
"""Tests of the comparison itself: a comparison that cannot fail is no proof."""

import socket
import sys
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from cases import all_cases  # noqa: E402
from differ.case import get, refused  # noqa: E402
from differ.judge import Intended, judge  # noqa: E402
from differ.observe import observe  # noqa: E402
from differ.report import page  # noqa: E402
from differ.wire import exchange  # noqa: E402


def answered(reply, case=None):
    """The observation of a server that sends exactly these bytes and closes."""
    case = case or get("case", "/")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        client, _ = listener.accept()
        client.recv(65536)
        client.sendall(reply)
        client.close()

    thread = threading.Thread(target=serve)
    thread.start()
    seen = observe(exchange(listener.getsockname()[1], case, "run"), case, ())
    thread.join()
    listener.close()
    return seen


def head(*fields, status="200 OK"):
    return ("\r\n".join([f"HTTP/1.1 {status}", *fields]) + "\r\n\r\n").encode()


class Wire(unittest.TestCase):
    def test_a_complete_answer_has_no_flaw(self):
        seen = answered(head("Content-Length: 2") + b"ok")
        self.assertEqual(seen, {"status": "200", "by": "server", "body": "ok"})

    def test_a_body_shorter_than_announced_is_cut(self):
        self.assertEqual(answered(head("Content-Length: 5") + b"ok")["framing"], "cut")

    def test_bytes_after_the_answer_are_seen(self):
        self.assertIn("extra", answered(head("Content-Length: 2") + b"okHTTP/1.1"))

    def test_a_chunked_body_without_an_end_is_cut(self):
        self.assertEqual(answered(head("Transfer-Encoding: chunked") + b"2\r\nok\r\n")["framing"], "cut")

    def test_a_bad_chunk_size_is_seen(self):
        self.assertIn("bad chunk size", answered(head("Transfer-Encoding: chunked") + b"zz\r\nok\r\n")["framing"])

    def test_length_and_coding_together_are_seen(self):
        seen = answered(head("Transfer-Encoding: chunked", "Content-Length: 2") + b"2\r\nok\r\n0\r\n\r\n")
        self.assertIn("both", seen["framing"])

    def test_lengths_that_differ_are_seen(self):
        self.assertIn("several", answered(head("Content-Length: 2", "Content-Length: 3") + b"ok")["framing"])

    def test_a_body_on_204_is_seen(self):
        self.assertIn("extra", answered(head(status="204 No Content") + b"body"))

    def test_a_malformed_field_line_is_seen(self):
        self.assertIn("bad field", answered(head("X Y", "Content-Length: 0"))["framing"])

    def test_cookies_stay_apart_and_other_lists_do_not(self):
        seen = answered(head("Set-Cookie: a=1", "Set-Cookie: b=2", "Vary: B", "Vary: A", "Content-Length: 0"))
        self.assertEqual((seen["field set-cookie"], seen["field vary"]), ("a=1 ¦ b=2", "A, B"))

    def test_source_of_a_script_is_seen_as_a_leak(self):
        self.assertEqual(answered(head("Content-Length: 9") + b"<?php x()")["leak"], "<?php")

    def test_no_answer_is_a_refusal_only_where_the_connection_ends(self):
        self.assertEqual(answered(b"", refused("case", b"x\r\n\r\n"))["refused"], "yes")
        self.assertEqual(answered(head("Content-Length: 0"), refused("case", b"x\r\n\r\n"))["refused"], "no")


class Judgement(unittest.TestCase):
    case = get("a case", "/")

    def decide(self, howdah, nginx, apache, *table):
        return judge(self.case, {"howdah": howdah, "nginx": nginx, "apache": apache}, table)

    def test_equal_to_one_peer_passes_and_nginx_is_named_first(self):
        a, b = {"status": "200"}, {"status": "404"}
        self.assertEqual(self.decide(a, a, a).like, "nginx")
        self.assertEqual(self.decide(b, a, b).like, "apache")

    def test_half_of_each_peer_fails(self):
        verdict = self.decide({"status": "200", "body": "b"}, {"status": "200", "body": "a"}, {"status": "404", "body": "b"})
        self.assertFalse(verdict.passed)
        self.assertEqual(len(verdict.problems), 2)

    def test_an_intended_difference_covers_its_aspect_only(self):
        entry = Intended("title", "reason", ("a *",), {"field x": None})
        peer = {"status": "200", "field x": "1"}
        self.assertTrue(self.decide({"status": "200"}, peer, peer, entry).passed)
        self.assertFalse(self.decide({"status": "404"}, peer, peer, entry).passed)
        self.assertFalse(self.decide({"status": "200", "field x": "2"}, peer, peer, entry).passed)

    def test_an_answer_that_is_howdahs_own_must_be_as_expected(self):
        entry = Intended("title", "reason", ("*",), {"status": ("400", "404")}, alone=True)
        peer = {"status": "200"}
        self.assertTrue(self.decide({"status": "404", "by": "server"}, peer, peer, entry).passed)
        self.assertFalse(self.decide({"status": "500"}, peer, peer, entry).passed)

    def test_an_entry_that_was_not_needed_is_not_named(self):
        entry = Intended("title", "reason", ("*",), {"status": "200"})
        self.assertEqual(self.decide({"status": "200"}, {"status": "200"}, {}, entry).intended, ())

    def test_a_leak_fails_even_if_both_peers_leak(self):
        same = {"status": "200", "leak": "<?php"}
        self.assertFalse(self.decide(same, same, same, Intended("title", "reason", ("*",), {"status": "200"}, alone=True)).passed)

    def test_the_page_names_entry_reason_and_peers(self):
        entry = Intended("never sent", "because of that", ("*",), {"status": "404"}, topic="Files")
        verdict = self.decide({"status": "404"}, {"status": "200"}, {"status": "403"}, entry)
        text = page([verdict], (entry,))
        self.assertIn("| never sent | 200 | 403 | because of that | a case |", text)


class Cases(unittest.TestCase):
    def test_there_are_many_and_their_names_are_unique(self):
        self.assertGreater(len(all_cases()), 150)


if __name__ == "__main__":
    unittest.main()
