#!/usr/bin/env python3
"""Tests tools/lint.py: each rule accepts correct trees and finds each mistake in its place."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import lint  # noqa: E402

TABLE = """# Architecture

| crate | does | depends on | unsafe |
| --- | --- | --- | --- |
| `one` | things | – | none |
| `two` | more | one | budgeted |
"""


class RuleTest(unittest.TestCase):
    """A repository of its own for each test."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="howdah-lint-")
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def tree(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return lint.Tree(self.root)

    def problems(self, rule, files):
        return [f"{name}:{line}: {problem}" for name, line, problem in rule(self.tree(files))]

    def assert_accepts(self, rule, files):
        self.assertEqual(self.problems(rule, files), [])

    def assert_finds(self, rule, files, *starts):
        found = self.problems(rule, files)
        self.assertEqual(len(found), len(starts), found)
        for problem, start in zip(found, starts):
            self.assertTrue(problem.startswith(start), problem)


class Code(unittest.TestCase):
    def test_comments_and_strings_are_blanked(self):
        code = lint.code_of('let a = "unsafe"; // unsafe\n/* unsafe /* unsafe */ unsafe */ b(r#"un"safe"#, \'"\', b"x")')
        self.assertNotIn("safe", code)
        self.assertIn("let a", code)
        self.assertIn("b(", code)

    def test_lines_stay_where_they_are(self):
        text = 'a("\n\n"); /*\n*/ b\n'
        code = lint.code_of(text)
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertEqual(lint.line_of(code, code.index("b")), 4)

    def test_lifetimes_and_characters_are_told_apart(self):
        code = lint.code_of(r"fn f<'a>(x: &'a str) { g('\'', 'x', '\u{7f}', '\x41', b'\\'); unsafe {} }")
        self.assertIn("unsafe", code)
        self.assertIn("&'a str", code)


class Crates(RuleTest):
    def package(self, name, lints="[lints]\nworkspace = true\n", source="#![forbid(unsafe_code)]\n"):
        directory = f"crates/{name}"
        self.files |= {f"{directory}/Cargo.toml": f'[package]\nname = "howdah-{name}"\n' + lints,
                       f"{directory}/src/lib.rs": source}
        self.packages.append({
            "name": f"howdah-{name}", "manifest_path": str(self.root / directory / "Cargo.toml"),
            "targets": [{"kind": ["lib"], "src_path": str(self.root / directory / "src/lib.rs")}]})

    def setUp(self):
        super().setUp()
        self.files, self.packages = {"ARCHITECTURE.md": TABLE}, []

    def names(self, tree):
        return lint.crate_names(tree, self.packages)

    def unsafety(self, tree):
        return lint.unsafe_crates(tree, self.packages)

    def test_the_table_lists_exactly_the_crates(self):
        self.package("one")
        self.package("three")
        self.assert_finds(self.names, self.files,
                          "crates/three/Cargo.toml:1: crate `three` is not in the table",
                          "ARCHITECTURE.md:6: there is no crate `two`")

    def test_a_missing_table_is_found(self):
        self.files["ARCHITECTURE.md"] = "# Architecture\n"
        self.assert_finds(self.names, self.files, "ARCHITECTURE.md:1: has no table")

    def test_a_crate_says_that_it_has_no_unsafe_code(self):
        self.package("one")
        self.package("two", source="#![deny(unsafe_code)]\n")
        self.assert_accepts(self.unsafety, self.files)

    def test_a_crate_that_does_not_say_so_is_found(self):
        self.package("one", source="// #![forbid(unsafe_code)]\n#![deny(unsafe_code)]\n")
        self.package("two", source="")
        self.assert_finds(self.unsafety, self.files,
                          "crates/one/src/lib.rs:1: add #![forbid(unsafe_code)]",
                          "crates/two/src/lib.rs:1: add #![deny(unsafe_code)]")

    def test_a_crate_without_the_lints_is_found(self):
        self.package("one", lints="")
        self.assert_finds(self.unsafety, self.files, "crates/one/Cargo.toml:1: add the section [lints]")


class UnsafeBudget(RuleTest):
    CODE = "fn f() {\n    // SAFETY: unsafe is not counted here\n    unsafe { g() }\n}\n#[allow(unsafe_code)]\nmod a;\n"

    def budget(self, count, why="it calls C"):
        return json.dumps({"a.rs": {"unsafe": count, "why": why}}, indent=4)

    def test_what_the_budget_allows_is_accepted(self):
        self.assert_accepts(lint.unsafe_budget, {"a.rs": self.CODE, lint.BUDGET: self.budget(1)})

    def test_more_is_found_where_it_exceeds(self):
        code = self.CODE + "unsafe impl Send for A {}\n"
        self.assert_finds(lint.unsafe_budget, {"a.rs": code, lint.BUDGET: self.budget(1)}, "a.rs:7: 2 uses")

    def test_code_without_a_budget_is_found(self):
        self.assert_finds(lint.unsafe_budget, {"a.rs": self.CODE}, "a.rs:3: 1 uses of `unsafe`, 0 allowed")

    def test_a_budget_that_is_not_used_up_is_found(self):
        self.assert_finds(lint.unsafe_budget, {"a.rs": self.CODE, lint.BUDGET: self.budget(2)}, f"{lint.BUDGET}:2: a.rs has 1")

    def test_a_budget_for_no_file_or_without_reason_is_found(self):
        self.assert_finds(lint.unsafe_budget, {lint.BUDGET: self.budget(0, "")},
                          f"{lint.BUDGET}:2: there is no a.rs", f"{lint.BUDGET}:2: say why")


class Zend(RuleTest):
    SHIM = "crates/php-worker/shim/a.c"

    def test_c_in_the_shim_may_include_zend(self):
        self.assert_accepts(lint.zend_in_c_only, {self.SHIM: '#include "Zend/zend.h"\n', "b.c": "#include <stdio.h>\n"})

    def test_c_elsewhere_may_not(self):
        self.assert_finds(lint.zend_in_c_only, {"b.c": "\n# include <main/php.h>\n"}, "b.c:2: PHP's headers")

    def test_rust_may_call_the_shim_and_not_zend(self):
        self.assert_accepts(lint.zend_in_c_only, {
            "a.rs": 'unsafe extern "C" {\n    fn howdah_start();\n}\nfn php_for() {}\n// extern "C" { fn zend_x(); }\n'})
        self.assert_finds(lint.zend_in_c_only, {"a.rs": 'unsafe extern "C" {\n    fn zend_eval_string();\n}\n'}, "a.rs:2: Rust must not")

    def test_one_file_asks_for_the_version_of_php(self):
        asks = "#if PHP_VERSION_ID < 80200\n#endif\n"
        self.assert_accepts(lint.versions_in_one_file, {"crates/php-worker/shim/versions.h": asks, self.SHIM: "x = PHP_VERSION;\n"})
        self.assert_finds(lint.versions_in_one_file, {self.SHIM: asks}, f"{self.SHIM}:1: the version of PHP is asked for in")


class Sizes(RuleTest):
    def test_files_up_to_the_limit_are_accepted(self):
        self.assert_accepts(lint.file_sizes, {"a.py": "x = 1\n" * 600, "b.rs": "\n" * 150})

    def test_a_longer_file_is_found(self):
        for name in ("a.rs", "a.c", "a.py", "a.sh", "a.php", "tests/b.rs", "d/tests.rs", "e_test.py"):
            with self.subTest(name):
                files = {name: "\n" * 601, "b.rs": "", "c.rs": ""}
                self.assert_finds(lint.file_sizes, files, f"{name}:601: 601 lines without inline tests")
                (self.root / name).unlink()

    def test_inline_tests_do_not_count(self):
        block = "#[cfg(test)]\nmod tests {\n" + '    const OPEN: &str = "{";\n' * 600 + "}\n"
        self.assert_accepts(lint.file_sizes, {"a.rs": "fn f() {}\n" * 100 + block})

    def test_long_tests_do_not_raise_the_median(self):
        self.assert_accepts(lint.file_sizes, {"a.rs": "", "tests/b.rs": "\n" * 200, "d/tests.rs": "\n" * 200})

    def test_a_high_median_is_found(self):
        files = {f"{name}.rs": "\n" * 151 for name in "abc"}
        self.assert_finds(lint.file_sizes, files, "crates:1: the median of Rust files is 151 lines")


class Generated(RuleTest):
    ROWS = "one\na b\tno\n\ntwo\nc\t`d`\n"
    PAGE = "# Page\n\n### `one`\n\nText.\n\n{}\n### `two`\n\n{}\nMore.\n"
    TABLES = [f"| {{0}} | Howdah |\n| --- | --- |\n{row}\n" for row in ("| `a`, `b` | no |", "| `c` | `d` |")]

    def files(self, tables, rows=ROWS):
        peers = lint.generate.PEERS.items()
        return {lint.generate.table_of(peer): rows for peer, _ in peers} | {
            lint.generate.page_of(peer): self.PAGE.format(*(table.format(name) for table in tables)) for peer, name in peers}

    def test_a_page_with_its_tables_is_accepted(self):
        self.assert_accepts(lint.generated_parts, self.files(self.TABLES))

    def test_a_page_with_another_row_is_found(self):
        found = self.problems(lint.generated_parts, self.files([self.TABLES[0], self.TABLES[1].replace("`d`", "`e`")]))
        self.assertEqual(len(found), len(lint.generate.PEERS))
        self.assertRegex(found[0], r"^docs/coming-from-nginx.md:15: .* run `make generate`")

    def test_a_page_without_a_module_is_found(self):
        self.assert_finds(lint.generated_parts, self.files(self.TABLES, self.ROWS + "\nthree\ne\tno\n"), "tools/generate.py:1: ")

    def test_dependencies_of_crates_come_from_their_manifests(self):
        manifests = {f"crates/{name}/Cargo.toml": f'[package]\nname = "howdah-{name}"\n' + more for name, more in (
            ("one", "[dependencies]\nbytes = 1\n[dev-dependencies.howdah-two]\n"), ("two", "[dependencies.howdah-one]\n"))}
        self.assert_accepts(lint.generated_parts, self.files(self.TABLES) | manifests | {"ARCHITECTURE.md": TABLE})
        manifests["crates/one/Cargo.toml"] += "[build-dependencies.howdah-two]\n"
        self.assert_finds(lint.generated_parts, self.files(self.TABLES) | manifests | {"ARCHITECTURE.md": TABLE},
                          "ARCHITECTURE.md:5: its generated part is not up to date")


class Links(RuleTest):
    def test_links_that_lead_somewhere_are_accepted(self):
        self.assert_accepts(lint.document_links, {
            "a.md": "[b](docs/b.md), [there](docs/b.md#the-first-heading), [dir](docs), [here](#a), [web](https://x.test/y)\n"
                    "# A\n`[code](none.md)`\n```\n[code](none.md)\n```\n",
            "docs/b.md": "# The *first* heading\n[up](../a.md)\n"})

    def test_links_to_nothing_are_found(self):
        self.assert_finds(lint.document_links, {"a.md": "\n[b](b.md)\n![p](p.png)\n[c](#none)\n[out](../../etc/passwd)\n# A\n"},
                          "a.md:2: the link leads nowhere: b.md", "a.md:3: the link leads nowhere: p.png",
                          "a.md:4: a.md has no heading #none", "a.md:5: the link leads nowhere")

    def test_named_paths_exist(self):
        files = {"crates/one/src/lib.rs": "", "a.md": "`crates/one/src/lib.rs`, `crates/one`, `tests/SUBJECT/x.rs`\n"}
        self.assert_accepts(lint.named_paths, files)
        self.assert_finds(lint.named_paths, files | {"b.md": "\n`crates/one/src/none.rs`\n"},
                          "b.md:2: there is no crates/one/src/none.rs")


class Imports(RuleTest):
    """Rings among the top-level modules of a crate called `wire`."""

    RING = {"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\npub struct A(B);\n",
            "b/mod.rs": "mod c;\n", "b/c.rs": "// why\nfn f() -> usize { crate::a::A::size() }\n"}

    def crate(self, files):
        return {f"crates/wire/src/{name}": text for name, text in files.items()}

    def edges(self, files):
        return set(lint.imports_of(self.tree(self.crate(files)), "wire"))

    def test_imports_in_one_direction_are_accepted(self):
        self.assert_accepts(lint.module_rings, self.crate(self.RING | {"b/c.rs": "use super::x;\n"}))

    def test_a_ring_is_found_with_its_edges(self):
        self.assert_finds(lint.module_rings, self.crate(self.RING),
                          "crates/wire/src/a.rs:1: modules import each other (a imports b in crates/wire/src/a.rs:1; "
                          "b imports a in crates/wire/src/b/c.rs:2)")

    def test_tests_and_comments_are_no_imports(self):
        self.assertEqual(self.edges({
            "lib.rs": "mod a; mod b;\n#[cfg(test)]\nmod tests;\n", "tests.rs": "use crate::a::A;\n", "b.rs": "",
            "a.rs": "//! [`crate::b`]\n#[cfg(test)]\nmod tests {\n use crate::b;\n fn f() {\n }\n}\n"
                    "#[cfg(test)]\nuse crate::b::C;\n"}), set())

    def test_paths_and_lists_of_them_are_imports(self):
        files = {"lib.rs": "use crate::a;", "a.rs": "", "b.rs": "", "c.rs": "",
                 "u.rs": "use crate::{a, b::{self, x}};\nfn f() { crate::c::f(); $crate::d::f(); }\n", "d.rs": ""}
        self.assertEqual(self.edges(files), {("u", "a"), ("u", "b"), ("u", "c")})


class Attacks(RuleTest):
    FILES = {"tests/a/b.rs": "fn one() {}\n", "crates/c/src/d.rs": "fn two() {}\n"}

    def page(self, cell):
        return {**self.FILES, "docs/security.md": f"## Memory of the router\n\n| `x` | does `y` | {cell} |\n"}

    def test_tests_that_exist_are_accepted(self):
        self.assert_accepts(lint.attack_tests, self.page("[a/b.rs](../tests/a/b.rs): `one`; unit tests: `two`"))

    def test_tests_that_do_not_exist_there_are_found(self):
        self.assert_finds(lint.attack_tests, self.page("[a/b.rs](../tests/a/b.rs): `one`, `two`; unit tests: `one`"),
                          "docs/security.md:3: there is no test two in tests/a/b.rs",
                          "docs/security.md:3: there is no test one in crates")

    def test_the_catalogue_is_looked_at_too(self):
        page = "# Attacks and their tests\n\n| `x` | does `y` | [b.rs](../a/b.rs): `one`, `two` |\n"
        self.assert_finds(lint.attack_tests, {**self.FILES, "tests/security/README.md": page},
                          "tests/security/README.md:3: there is no test two in tests/a/b.rs")


class Subjects(unittest.TestCase):
    def test_a_subject_names_its_component(self):
        for subject in ("http1: refuse a chunk size with a sign", "php-pool: count waits", "0.2.0: begin", "http1, http2: count"):
            self.assertIsNone(lint.wrong_subject(subject), subject)

    def test_other_subjects_are_found(self):
        for subject, problem in (("Refuse a sign", "begins with"), ("http1 refuse", "begins with"), ("http1:", "begins with"),
                                 ("http1: refuse.", "full stop"), ("http1: " + "a" * 66, "73 characters")):
            self.assertIn(problem, lint.wrong_subject(subject), subject)


class Bans(RuleTest):
    def test_bans_with_reasons_are_accepted(self):
        self.assert_accepts(lint.bans_have_reasons, {
            "deny.toml": '[bans]\ndeny = [{ crate = "a", reason = "it is slow" }]\n',
            "clippy.toml": 'disallowed-methods = [{ path = "a::b", reason = "it blocks" }]\n'})

    def test_bans_without_reasons_are_found(self):
        self.assert_finds(lint.bans_have_reasons, {
            "deny.toml": '[bans]\n\ndeny = [{ crate = "a" }]\n', "clippy.toml": 'disallowed-types = ["a::B"]\n'},
            "deny.toml:3: a: add the reason", "clippy.toml:1: a::B: add the reason")


class Files(RuleTest):
    def test_ignored_files_are_not_looked_at_and_new_ones_are(self):
        tree = self.tree({".gitignore": "/target\n", "target/a.rs": "", "b.rs": "", "c": "#!/bin/sh\n"})
        self.assertEqual(tree.of_kind("rs"), ["b.rs"])
        self.assertEqual(tree.of_kind("shell"), ["c"])


if __name__ == "__main__":
    unittest.main()
