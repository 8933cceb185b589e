#!/usr/bin/env python3
"""Compares the tables of docs/coming-from-nginx.md, docs/coming-from-apache.md and docs/coming-from-php-fpm.md, which are
generated from crates/advice/src/foreign/, with the programs that are installed: each directive has one row, and
each row is about a directive."""

import re
import shutil
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent.parent / "tools"))

import apache_directives  # noqa: E402
import fpm_directives  # noqa: E402
import generate  # noqa: E402
import nginx_directives  # noqa: E402
from directives.all import CASES, UNOBSERVABLE  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

# Of versions that are not installed everywhere; a row may stay where the program lacks the directive.
SOMETIMES = {
    # Debian 13 and newer, or older than Debian 12.
    "proxy_ssl_key_log", "proxy_pass_trailers", "proxy_bind_dynamic", "early_hints", "keepalive_min_timeout",
    "auth_delay", "AliasPreservePath", "RedirectRelative", "DirectoryCheckHandler", "StrictHostCheck",
    "MergeSlashes", "ProxyAddHeaders", "IfSection", "<IfSection>", "<IfDirective>", "<IfFile>", "GlobalLog",
    "listen.setfib", "apparmor_hat",  # of systems, or builds
    "ssl", "http2", "http2_push", "http2_push_preload", "http2_max_concurrent_pushes", "http2_idle_timeout",
    "http2_recv_timeout", "http2_max_requests", "http2_max_field_size", "http2_max_header_size", "http2_pool_size",
    "http2_streams_index_size",
    "FlushMaxPipelined", "FlushMaxThreshold", "ReadBufferSize", "RegexDefaultOptions", "UnDefine",
}

ANSWER = re.compile(r"^(no$|no; |not needed, because )")


def tables(peer):
    """{module: {directive: its replacement}}. Fails if a directive has two rows."""
    found = {}
    for module, rows in generate.directives((ROOT / generate.table_of(peer)).read_text()).items():
        names = [name for directives in rows for name in directives.split()]
        if twice := {name for name in names if names.count(name) > 1}:
            raise AssertionError(f"{peer}: {twice} have two rows")
        found[module] = {name: answer for directives, answer in rows.items() for name in directives.split()}
    return found


class TablesTest(unittest.TestCase):
    def compare(self, peer, installed):
        for module, rows in tables(peer).items():
            names = set(installed[module])
            self.assertEqual(sorted(names - set(rows)), [], f"{peer}: directives of {module} without a row")
            self.assertEqual(sorted(set(rows) - names - SOMETIMES), [], f"{peer}: {module} has no such directives")

    def test_every_directive_of_nginx_has_a_row(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if not program:
            self.skipTest("there is no nginx")
        self.compare("nginx", nginx_directives.directives(Path(program)))

    def test_every_module_of_nginx_has_a_table_or_a_row(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if not program:
            self.skipTest("there is no nginx")
        text = (DOCS / "coming-from-nginx.md").read_text()
        named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", text.split("## Further modules")[1], re.MULTILINE))))
        modules = {re.sub(r"^ngx_http_|(_filter)?_module$", "", module)
                   for module, names in nginx_directives.directives(Path(program)).items()
                   if module.startswith("ngx_http_") and names}
        tabled = {re.sub(r"^ngx_http_|(_filter)?_module$", "", module) for module in tables("nginx")}
        # One release of Debian has a module of its own; HTTP/3 needs no row, and `http` is no module of requests.
        others = {"header_count", "v3", "module"}
        self.assertEqual(sorted(modules - tabled - named - others), [])

    def test_every_directive_of_apache_has_a_row(self):
        program = shutil.which("apache2") or shutil.which("apache2", path="/usr/sbin")
        modules = Path("/usr/lib/apache2/modules")
        if not program or not modules.is_dir():
            self.skipTest("there is no apache2")
        self.compare("apache", apache_directives.directives(program, modules))

    def test_every_directive_of_php_fpm_has_a_row(self):
        if not fpm_directives.programs():
            self.skipTest("there is no php-fpm")
        installed = fpm_directives.directives(fpm_directives.programs()[-1])
        self.assertIn("pm.max_children", installed["pool"])
        self.assertIn("php_admin_value", installed["pool"])
        self.compare("php-fpm", installed)

    def test_every_row_says_what_takes_the_place_of_a_directive(self):
        for peer in generate.PEERS:
            for module, rows in tables(peer).items():
                for name, answer in rows.items():
                    with self.subTest(peer=peer, module=module, directive=name):
                        has_key = "`" in answer or "a step" in answer or "route" in answer
                        self.assertTrue(ANSWER.match(answer) or has_key, answer)

    def test_every_row_of_nginx_with_an_equivalent_is_proven(self):
        rows = {name: answer for module in tables("nginx").values() for name, answer in module.items()}
        proven = {name for case in CASES for name in case.rows.split()}
        promised = {name for name, answer in rows.items() if not ANSWER.match(answer)}
        self.assertEqual(sorted(promised - proven - set(UNOBSERVABLE)), [],
                         "rows without a case in tests/migration/directives/, or a reason in UNOBSERVABLE")
        self.assertEqual(sorted((proven | set(UNOBSERVABLE)) - set(rows)), [],
                         "cases and reasons without a row")
        self.assertEqual(sorted(proven & set(UNOBSERVABLE)), [], "directives that are proven and said to be unobservable")

    def test_the_list_of_nginx_has_what_every_version_has(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if not program:
            self.skipTest("there is no nginx")
        installed = nginx_directives.directives(Path(program))
        self.assertEqual(installed["ngx_http_access_module"], ["allow", "deny"])
        self.assertIn("server_name", installed["ngx_http_core_module"])


if __name__ == "__main__":
    unittest.main()
