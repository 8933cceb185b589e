#!/usr/bin/env python3
"""Tests of the directories of published versions, which take no program."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import published  # noqa: E402

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\nAAAA\n-----END CERTIFICATE-----"
KEY = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----"


class Kept(unittest.TestCase):
    def test_each_released_version_has_a_directory(self):
        wanted = {*published.released((published.ROOT / "CHANGELOG.md").read_text()), *published.tagged()}
        self.assertTrue(published.kept())
        missing = wanted - {path.name for path in published.kept()}
        self.assertEqual(missing, set(), "write it with tests/published/add")

    def test_the_directory_of_a_version_with_a_tag_is_as_it_was(self):
        for path in published.kept():
            if path.name in published.tagged():
                changed = published.git("diff", "--stat", f"v{path.name}", "--", path)
                self.assertEqual(changed, "", f"restore {path.name} as of its tag")

    def test_no_key_is_kept(self):
        for path in published.kept():
            for name, content in published.files(path).items():
                text = content.decode()
                self.assertEqual(published.without_keys(text), text, f"{path.name}/{name}")

    def test_each_version_has_all_parts(self):
        parts = ["config.json", "documents", "etc", "sites", "state-development", "state-file", "state-stored"]
        for path in published.kept():
            self.assertEqual(sorted(part.name for part in path.iterdir()), parts)


class Tools(unittest.TestCase):
    def test_released_versions_are_those_with_a_section(self):
        text = "## [Unreleased]\n\n## [1.10.0] - 2026-02-01\n\n### [1.9.0]\n\n## [0.2.0-rc1]\n\n[1.0.0]: https://x\n"
        self.assertEqual(published.released(text), ["1.10.0", "0.2.0-rc1"])

    def test_versions_are_ordered_by_their_numbers(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("0.10.0", "0.9.1", "source", "0.9.0-rc1"):
                (Path(directory) / name).mkdir()
            self.assertEqual([path.name for path in published.kept(Path(directory))], ["0.9.0-rc1", "0.9.1", "0.10.0"])

    def test_certificates_and_keys_are_replaced(self):
        text = f'{CERTIFICATE}\n{CERTIFICATE}\n\n{KEY}\n'
        without = published.without_keys(text)
        self.assertNotRegex(without, "MII|AAAA|MIGH")
        self.assertEqual(published.without_keys(without), without)
        certificate, key = published.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                                             "-subj", "/CN=a", "-keyout", "/dev/stdout").decode().split("\n-----BEGIN CERT")
        certificate, key = f"-----BEGIN CERT{key}".encode(), certificate.encode()
        made = published.with_keys(without, certificate, key)
        self.assertEqual((made.count(certificate.decode().strip()), made.count(key.decode().strip())), (2, 1))
        account = published.without_keys('{"id": "a", "key_pkcs8": "MIGH", "directory": "b"}')
        self.assertEqual(account, '{"id": "a", "key_pkcs8": "@removed@", "directory": "b"}')
        self.assertRegex(published.with_keys(account, certificate, key), '"key_pkcs8": "MI[^"]{100,}"')


if __name__ == "__main__":
    unittest.main()
