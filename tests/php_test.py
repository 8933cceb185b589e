#!/usr/bin/env python3
"""Tests tools/php.sh: which versions of PHP it chooses, and which packages these need."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("sh", "sed", "sort", "tail", "tr")


class Choosing(unittest.TestCase):
    """A system with the commands that a test puts there, and no others."""

    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.bin = Path(made.name)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(subprocess.check_output(["sh", "-c", f"command -v {tool}"], text=True).strip())
        self.command("id", "echo 1000")

    def command(self, name, text):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def config(self, name, version, prefix="/usr"):
        return self.command(name, f'case $1 in --version) echo {version} ;; --prefix) echo {prefix} ;; esac')

    def offers(self, *versions):
        lines = "\n".join(f"echo 'libphp{version}-embed - embedded'" for version in versions)
        self.command("apt-cache", lines or "true")

    def ask(self, *arguments, **variables):
        return subprocess.run([ROOT / "tools/php.sh", *arguments], env={"PATH": str(self.bin), **variables},
                              capture_output=True, text=True, check=False)

    def answer(self, *arguments, **variables):
        done = self.ask(*arguments, **variables)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def complaint(self, **variables):
        done = self.ask("list", **variables)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        return done.stderr

    def test_the_php_config_of_the_system_is_taken(self):
        self.offers("8.4")
        self.config("php-config", "8.2.36")
        self.assertEqual(self.answer("list"), ["8.2", "php-config"])
        self.assertEqual(self.answer("packages", "gcc", "phpX.Y-dev", "libapache2-mod-phpX.Y"),
                         ["gcc", "php8.2-dev", "libapache2-mod-php8.2"])

    def test_without_one_the_newest_that_the_system_offers_is_taken(self):
        self.offers("8.9", "8.10", "8.2")
        self.assertEqual(self.answer("list"), ["8.10", "php-config8.10"])
        self.assertEqual(self.answer("packages", "libphpX.Y-embed"), ["libphp8.10-embed"])

    def test_a_system_with_neither_is_told_what_to_do(self):
        self.offers()
        self.assertIn("apt-get update", self.complaint())
        self.assertIn("make PHP=", self.complaint())

    def test_root_of_a_new_system_gets_its_lists_of_packages(self):
        self.command("id", "echo 0")
        self.command("apt-get", f'echo "#!/bin/sh\necho libphp8.4-embed - x" >{self.bin}/apt-cache')
        self.command("apt-cache", "true")
        self.assertEqual(self.answer("list"), ["8.4", "php-config8.4"])

    def test_versions_are_chosen_by_name_and_the_first_is_that_of_tests(self):
        self.config("php-config", "8.2.36")
        self.assertEqual(self.answer("list", PHP="8.4,8.2"), ["8.4", "php-config8.4", "8.2", "php-config"])
        self.assertEqual(self.answer("version", PHP="8.4,8.2"), ["8.4"])
        self.assertEqual(self.answer("config", PHP="8.4,8.2"), ["php-config8.4"])
        self.assertEqual(self.answer("packages", "phpX.Y-dev", "gcc", PHP="8.4,8.2"), ["php8.4-dev", "php8.2-dev", "gcc"])

    def test_a_php_of_its_own_needs_no_packages(self):
        config = self.config("own", "8.5.0RC1", "/opt/php")
        self.assertEqual(self.answer("list", PHP=str(config)), ["8.5", str(config)])
        self.assertEqual(self.answer("packages", "phpX.Y-dev", "gcc", PHP=str(config)), ["gcc"])
        self.assertEqual(self.answer("version", PHP_CONFIG=str(config)), ["8.5"])

    def test_a_relative_path_is_made_absolute(self):
        self.config("own", "8.5.1", "/opt/php")
        relative = os.path.relpath(self.bin / "own")
        self.assertEqual(self.answer("config", PHP=relative), [f"{os.getcwd()}/{relative}"])

    def test_opcache_is_a_package_up_to_8_4(self):
        self.assertEqual(self.answer("packages", "phpX.Y-opcache", PHP="8.1,8.4,8.5,8.10"),
                         ["php8.1-opcache", "php8.4-opcache"])

    def test_what_is_neither_a_version_nor_a_php_config_is_refused(self):
        self.command("php", "exit 0")
        for name in ("8", "8.2.1", "8.x", "latest", "8.2;id", "-8.2", str(self.bin / "php"), "/no/such"):
            self.assertIn(f'"{name}"', self.complaint(PHP=name))


if __name__ == "__main__":
    unittest.main()
