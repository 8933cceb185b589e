#!/usr/bin/env python3
"""Tests of the scripts for packages and releases that need neither root nor a build."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import agreement  # noqa: E402
import changes  # noqa: E402
import components  # noqa: E402
import worker_source  # noqa: E402


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


class Example(unittest.TestCase):
    def test_it_has_every_key_of_the_schema_with_its_meaning(self):
        text = output("packaging/example.py", "docs/howdah.schema.json")
        self.assertIn("// Document root\n", text)
        without_comments = re.sub(r"^ *//.*\n", "", text, flags=re.MULTILINE)
        self.assertEqual(json.loads(without_comments), json.loads((HERE / "example.json").read_text()))

    def test_a_key_that_is_missing_is_named(self):
        schema = json.loads((ROOT / "docs/howdah.schema.json").read_text())
        schema["definitions"]["limits"]["properties"]["unknown"] = {"type": "integer"}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(schema, file)
            file.flush()
            done = subprocess.run([HERE / "example.py", file.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("limits/unknown", done.stderr)


class Changes(unittest.TestCase):
    TEXT = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [1.0.0] - 2026-01-01\n\n- first\n\n[1.0.0]: https://x\n"

    def test_a_version_has_its_section(self):
        self.assertEqual(changes.section(self.TEXT, "1.0.0"), "- first")

    def test_a_version_without_a_section_has_the_unreleased_changes(self):
        self.assertEqual(changes.section(self.TEXT, "1.1.0"), "- new")

    def test_items_are_lines_of_the_change_log_of_rpm(self):
        text = "### Part\n\n- `a` ([A](docs/a.md)),\n  100 %.\n- b\n"
        self.assertEqual(changes.entries(text), "- a (A), 100 %%.\n- b")


class WorkerSource(unittest.TestCase):
    WORKSPACE = ('[workspace]\nmembers = ["crates/*"]\n\n[workspace.dependencies]\nused = "1"\nother = "2"\n\n'
                 '[profile.release]\nlto = "fat"\n\n[package]\nname = "howdah"\n\n[[bin]]\nname = "howdah"\n\n'
                 '[dependencies]\nother.workspace = true\n')

    def test_the_workspace_has_the_crates_of_the_worker_alone(self):
        text = worker_source.workspace_manifest(self.WORKSPACE, ["crates/php-worker"], {"used"})
        self.assertEqual(tomllib.loads(text), {
            "workspace": {"members": ["crates/php-worker"], "dependencies": {"used": "1"}},
            "profile": {"release": {"lto": "fat"}}})

    def test_a_crate_needs_nothing_for_its_tests(self):
        text = worker_source.crate_manifest('[package]\nname = "a"\n[dependencies]\nb = "1"\n[dev-dependencies]\nc = "1"\n'
                                            '[[bench]]\nname = "d"\n')
        self.assertEqual(tomllib.loads(text), {"package": {"name": "a"}, "dependencies": {"b": "1"}})

    def test_libraries_of_tests_are_not_needed(self):
        def node(name, *uses):
            return {"id": name, "deps": [{"pkg": one, "dep_kinds": [{"kind": kind}]} for one, kind in uses]}
        packages = [{"id": name, "name": name, "source": None} for name in ("howdah-php", "sys", "cc", "tempfile", "http")]
        nodes = [node("howdah-php", ("sys", None), ("cc", "build"), ("tempfile", "dev")), node("sys"), node("cc"),
                 node("tempfile"), node("http")]
        found = worker_source.needed({"packages": packages, "resolve": {"nodes": nodes}})
        self.assertEqual(set(found), {"howdah-php", "sys", "cc"})


class Version(unittest.TestCase):
    def test_it_comes_from_the_workspace(self):
        manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
        self.assertEqual(output("packaging/version").strip(), manifest["workspace"]["package"]["version"])

    def test_no_crate_has_a_version_of_its_own(self):
        manifests = [ROOT / "Cargo.toml", *ROOT.glob("crates/*/Cargo.toml"), *ROOT.glob("tests/*/Cargo.toml")]
        self.assertGreater(len(manifests), 30)
        for manifest in manifests:
            self.assertEqual(tomllib.loads(manifest.read_text())["package"]["version"], {"workspace": True}, manifest)


class Agreement(unittest.TestCase):
    """Cargo.toml has version 1.1.0."""

    CHANGELOG = "## [Unreleased]\n\n## [1.1.0] - 2026-02-01\n\n- second\n\n## [1.0.0] - 2026-01-01\n\n- first\n"

    def problems(self, here=("v1.1.0",), tags=("v1.0.0", "v1.1.0"), changelog=CHANGELOG, is_kept=True):
        is_release, found = agreement.problems("1.1.0", list(here), list(tags), changelog, is_kept)
        self.assertEqual(is_release, any(tag.startswith("v") for tag in here))
        return found

    def assert_problem(self, part, **case):
        found = self.problems(**case)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def test_a_release_has_tag_section_and_documents_of_its_version(self):
        self.assertEqual(self.problems(), [])
        self.assertEqual(self.problems(here=["v1.1.0", "reviewed"]), [])

    def test_a_tag_of_another_version_is_an_error(self):
        self.assert_problem("tag v1.2.0, and Cargo.toml has version 1.1.0", here=["v1.2.0"])
        self.assert_problem("tag v1.2.0", here=["v1.1.0", "v1.2.0"])

    def test_a_commit_without_the_tag_is_no_release(self):
        self.assert_problem("no tag v1.1.0", here=["reviewed"], tags=["v1.0.0"])
        self.assert_problem("that of another commit", here=[])

    def test_the_newest_section_is_that_of_the_version(self):
        self.assert_problem("no section", changelog=self.CHANGELOG.replace("1.1.0", "1.0.1"))
        self.assert_problem("or an empty one", changelog=self.CHANGELOG.replace("- second\n", ""))
        self.assert_problem("newest section of CHANGELOG.md is that of version 1.2.0",
                            changelog="## [1.2.0]\n\n- third\n\n" + self.CHANGELOG)

    def test_no_change_is_unreleased(self):
        self.assert_problem("unreleased changes", changelog=self.CHANGELOG.replace("]\n\n", "]\n\n- new\n\n", 1))

    def test_the_documents_of_the_version_are_kept(self):
        self.assert_problem("tests/published/1.1.0 is missing", is_kept=False)

    def test_a_release_that_disagrees_ends_with_an_error(self):
        with tempfile.TemporaryDirectory() as root:
            root = Path(root)
            for name in ("agreement.py", "changes.py", "version"):
                (root / "packaging").mkdir(exist_ok=True)
                shutil.copy(HERE / name, root / "packaging" / name)
            (root / "Cargo.toml").write_text('[workspace.package]\nversion = "1.1.0"\n')
            (root / "CHANGELOG.md").write_text("## [Unreleased]\n\n- new\n")
            git = ["git", "-C", root, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
                   "-c", "tag.gpgsign=false"]
            for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a"]):
                subprocess.run([*git, *words], check=True)
            done = subprocess.run([root / "packaging/agreement.py"], capture_output=True, text=True)
            self.assertEqual((done.returncode, "no tag v1.1.0" in done.stderr), (0, True), done.stderr)
            subprocess.run([*git, "tag", "v1.1.0"], check=True)
            done = subprocess.run([root / "packaging/agreement.py"], capture_output=True, text=True)
            self.assertEqual((done.returncode, "no section" in done.stderr), (1, True), done.stderr)


class BillOfMaterials(unittest.TestCase):
    def package(self, name, kind="lib"):
        return {"id": name, "name": name, "version": "1.0.0", "source": "registry", "targets": [{"kind": [kind]}]}

    def test_it_has_what_is_linked_and_no_tools_of_the_build(self):
        def uses(name, kind):
            return {"pkg": name, "dep_kinds": [{"kind": kind}]}
        data = {
            "packages": [self.package("howdah") | {"source": None}, self.package("linked"), self.package("deep"),
                         self.package("cc"), self.package("tester"), self.package("derive", "proc-macro"),
                         self.package("syn")],
            "resolve": {"nodes": [
                {"id": "howdah", "deps": [uses("linked", None), uses("cc", "build"), uses("tester", "dev"),
                                          uses("derive", None)]},
                {"id": "linked", "deps": [uses("deep", None)]},
                {"id": "derive", "deps": [uses("syn", None)]},
                *({"id": name, "deps": []} for name in ("deep", "cc", "tester", "syn"))]},
        }
        packages, _ = components.linked(data)
        self.assertEqual(list(packages), ["deep", "derive", "howdah", "linked"])


class CrowdSec(unittest.TestCase):
    """The parser's patterns, as CrowdSec expands them, on lines that a server has written."""

    TEXT = (HERE / "monitoring/crowdsec/parsers/s01-parse/howdah-logs.yaml").read_text()
    TAIL = '[28/Nov/2026:00:19:28 +0000] "GET /x?1.2.3.4%20-%20-%20%22GET HTTP/1.1" 404 54'
    FIELDS = '"\\x22 404 1.2.3.4 - -" "curl/7.88.1"'

    def patterns(self):
        known = dict(re.findall(r"^  ([A-Z_]+): '(.*)'$", self.TEXT, re.MULTILINE))
        known["IP"] = r"[0-9a-fA-F.:]+"
        return [re.compile(re.sub(r"%\{([A-Z_]+):([a-z_]+)\}", lambda found: f"(?P<{found[2]}>{known[found[1]]})",
                                  pattern))
                for pattern in re.findall(r"^      pattern: '(.*)'$", self.TEXT, re.MULTILINE)]

    def parsed(self, line):
        found = [match for match in (pattern.search(line) for pattern in self.patterns()) if match]
        self.assertLessEqual(len(found), 1, line)
        return found[0].groupdict() if found else None

    def test_the_address_is_the_one_of_the_client(self):
        for line in (f"192.0.2.1 - - {self.TAIL}",
                     f"192.0.2.1 - - {self.TAIL} {self.FIELDS}",
                     f"1.2.3.4:80 192.0.2.1 - - {self.TAIL} {self.FIELDS}",
                     f"[::1]:80 192.0.2.1 - 1.2.3.4 - - [] GET / 404 {self.TAIL} {self.FIELDS}"):
            parsed = self.parsed(line)
            self.assertEqual((parsed["remote_addr"], parsed["status"], parsed["verb"]), ("192.0.2.1", "404", "GET"))
            self.assertEqual(parsed["time_local"], "28/Nov/2026:00:19:28 +0000")
        parsed = self.parsed('-:80 2001:db8::7 - - [28/Nov/2026:00:19:28 +0000] "-" 400 207 "-" "-"')
        self.assertEqual((parsed["remote_addr"], parsed["status"]), ("2001:db8::7", "400"))

    def test_other_lines_are_not_parsed(self):
        for line in ("2026/11/28 00:19:28 [info] 1#2 request e0: /: limit /a refuses 1.2.3.4 (429): more requests",
                     f"x 192.0.2.1 - - {self.TAIL}", f"192.0.2.1 - - {self.TAIL} {self.FIELDS} more"):
            self.assertIsNone(self.parsed(line), line)

    def test_patterns_have_no_alternatives(self):
        # CrowdSec mixes up the values of groups behind one.
        for pattern in re.findall(r"^      pattern: '(.*)'$", self.TEXT, re.MULTILINE):
            self.assertNotIn("|", pattern)


if __name__ == "__main__":
    unittest.main()
