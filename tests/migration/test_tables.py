#!/usr/bin/env python3
"""Compares docs/coming-from-nginx.md, docs/coming-from-apache.md and docs/coming-from-php-fpm.md with the programs that are
installed: each directive of the modules below has one row, and each row is about a directive."""

import re
import shutil
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import apache_directives  # noqa: E402
import fpm_directives  # noqa: E402
import nginx_directives  # noqa: E402
from directives.all import CASES, MODULES, UNOBSERVABLE  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = ["coming-from-nginx.md", "coming-from-apache.md", "coming-from-php-fpm.md"]

NGINX = ["core", "log", "headers_filter", "rewrite", "access", "auth_basic", "auth_request", "mirror",
         "limit_conn", "limit_req", "fastcgi", "proxy", "index", "autoindex", "charset_filter", "try_files", "geo", "map",
         "split_clients", "realip", "gzip_filter", "gzip_static", "gunzip_filter", "referer", "ssl", "v2", "sub_filter", "upstream",
         "upstream_hash", "upstream_ip_hash", "upstream_least_conn", "upstream_random", "upstream_keepalive", "upstream_zone"]
APACHE = ["core", "mod_alias", "mod_dir", "mod_expires", "mod_headers", "mod_log_config", "mod_proxy"]

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


def tables(page):
    """{module: {directive: what takes its place}}. Fails if a directive has two rows, or a row says nothing."""
    found, module = {}, None
    for line in (DOCS / page).read_text().splitlines():
        if line.startswith("#"):
            heading = re.fullmatch(r"### `(\w+)`", line)
            module = found.setdefault(heading[1], {}) if heading else None
        elif module is not None and line.startswith("| `"):
            names, answer = re.split(r" \| ", line.strip("| "), maxsplit=1)
            for name in re.findall(r"`([^`]+)`", names):
                if name in module:
                    raise AssertionError(f"{page}: {name} has two rows")
                module[name] = answer
    return found


class TablesTest(unittest.TestCase):
    def compare(self, page, installed, modules):
        described = tables(page)
        self.assertEqual(sorted(described), sorted(modules), page)
        for module in modules:
            names = set(installed[module])
            rows = set(described[module])
            self.assertEqual(sorted(names - rows), [], f"{page}: directives of {module} without a row")
            self.assertEqual(sorted(rows - names - SOMETIMES), [], f"{page}: {module} has no such directives")

    def test_every_directive_of_nginx_has_a_row(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if not program:
            self.skipTest("there is no nginx")
        installed = nginx_directives.directives(Path(program))
        self.compare("coming-from-nginx.md", installed, [f"ngx_http_{name}_module" for name in NGINX])

    def test_every_module_of_nginx_has_a_table_or_a_row(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if not program:
            self.skipTest("there is no nginx")
        text = (DOCS / "coming-from-nginx.md").read_text()
        named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", text.split("## Further modules")[1], re.MULTILINE))))
        modules = {re.sub(r"^ngx_http_|(_filter)?_module$", "", module)
                   for module, names in nginx_directives.directives(Path(program)).items()
                   if module.startswith("ngx_http_") and names}
        tabled = {re.sub(r"_filter$", "", name) for name in NGINX}
        # One release of Debian has a module of its own; HTTP/3 needs no row, and `http` is no module of requests.
        others = {"header_count", "v3", "module"}
        self.assertEqual(sorted(modules - tabled - named - others), [])

    def test_every_directive_of_apache_has_a_row(self):
        program = shutil.which("apache2") or shutil.which("apache2", path="/usr/sbin")
        modules = Path("/usr/lib/apache2/modules")
        if not program or not modules.is_dir():
            self.skipTest("there is no apache2")
        installed = apache_directives.directives(program, modules)
        self.compare("coming-from-apache.md", installed, APACHE)

    def test_every_directive_of_php_fpm_has_a_row(self):
        if not fpm_directives.programs():
            self.skipTest("there is no php-fpm")
        installed = fpm_directives.directives(fpm_directives.programs()[-1])
        self.assertIn("pm.max_children", installed["pool"])
        self.assertIn("php_admin_value", installed["pool"])
        self.compare("coming-from-php-fpm.md", installed, ["global", "pool"])

    def test_names_of_php_fpm_are_tested_as_keys_of_documents(self):
        """The list in the unit test of the errors for such keys is that of the page."""
        text = (ROOT / "crates/config/src/tests/foreign.rs").read_text()
        # Three are keys of documents, with the same or another meaning, and one is close enough to a key.
        keys = {"global": {"include"}, "pool": {"user", "group", "prefix", "access.log"}}
        for section, rows in tables("coming-from-php-fpm.md").items():
            words = re.search(rf'const {section.upper()}_DIRECTIVES: &str = "([^"]+)"', text)[1]
            names = {word.split("[")[0] for word in words.replace("\\", " ").split()}
            self.assertEqual(sorted(set(rows) - names - keys[section]), [], f"directives of {section} without a test")
            self.assertEqual(sorted(names - set(rows)), [])

    def test_every_row_says_what_takes_the_place_of_a_directive(self):
        for page in PAGES:
            for module, rows in tables(page).items():
                for name, answer in rows.items():
                    with self.subTest(page=page, module=module, directive=name):
                        has_key = "`" in answer or "a step" in answer or "route" in answer
                        self.assertTrue(ANSWER.match(answer) or has_key, answer)

    def test_every_row_of_nginx_with_an_equivalent_is_proven(self):
        page = tables("coming-from-nginx.md")
        rows = {name: answer for module in MODULES for name, answer in page[f"ngx_http_{module}_module"].items()}
        proven = {name for case in CASES for name in case.rows.split()}
        promised = {name for name, answer in rows.items() if not ANSWER.match(answer)}
        self.assertEqual(sorted(promised - proven - set(UNOBSERVABLE)), [],
                         "rows without a case in tests/migration/directives/, or a reason in UNOBSERVABLE")
        self.assertEqual(sorted((proven | set(UNOBSERVABLE)) - {name for rows in page.values() for name in rows}), [],
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
