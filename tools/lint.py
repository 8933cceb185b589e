#!/usr/bin/env python3
"""Checks the project's own rules, those that no compiler knows.

    tools/lint.py              all rules; a line for each problem, exit status 1 if there is one
    tools/lint.py --list KIND  the files of a kind (shell, php), one a line, for other checkers
    tools/lint.py --subjects RANGE  the rules, and the subjects of these commits (main..HEAD)
    tools/lint.py --imports [CRATE]
                               which modules of a crate (of all) import which, for Graphviz's dot

The rules, in the order of RULES below: that the table in ARCHITECTURE.md has all crates, and where unsafe code may
be (from this table); how much of it (tools/unsafe-budget.json); that only C
calls Zend, and one file differs by version; the size of files; that no top-level modules of a crate
import each other in a ring; generated parts
(tools/generate.py); links between documents; paths that they name; the tests that docs/security.md and
tests/security/README.md name; reasons for bans. Only files
that git knows or would add are looked at.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import generate  # noqa: E402

MOST_LINES = 600
MOST_MEDIAN = 150
# Characters of a commit's subject.
MAX_SUBJECT = 72
# The last commit before the rules for subjects.
LAST_UNRULED = "c7863b6457a3c5b3fe5c901932ef7ab78d8d5129"
BUDGET = "tools/unsafe-budget.json"
# Test data that breaks a rule on purpose.
BROKEN_PHP = {"tests/differential/site/scripts/syntax.php"}


class Tree:
    """The files of the project: their text, and for Rust their code."""

    def __init__(self, root):
        self.root = Path(root)
        listed = subprocess.run(
            # The tree may belong to another user, as in containers.
            ["git", "-c", "safe.directory=*", "-C", self.root,
             "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True).stdout.decode()
        names = sorted(name for name in set(listed.split("\0")) if name and (self.root / name).is_file())
        self.texts = {}
        for name in names:
            try:
                self.texts[name] = (self.root / name).read_text("utf-8")
            except UnicodeDecodeError:
                pass  # a picture
        self.paths = set(names)
        self.codes = {name: code_of(text) for name, text in self.texts.items() if name.endswith(".rs")}

    def kind(self, name):
        """The language of a file; None for files that no rule reads."""
        suffix = Path(name).suffix
        if suffix in (".rs", ".c", ".h", ".py", ".sh", ".php", ".md"):
            return {".h": "c", ".sh": "shell", ".py": "python"}.get(suffix, suffix[1:])
        first = self.texts[name].split("\n", 1)[0]
        if first.startswith("#!"):
            return next((kind for kind, name in (("python", "python"), ("php", r"\bphp\b"), ("shell", r"\b(ba|da)?sh\b"))
                         if re.search(name, first)), None)
        return None

    def of_kind(self, *kinds):
        return [name for name in self.texts if self.kind(name) in kinds]


def is_test(name):
    """Whether a whole file is a test or belongs to one."""
    path = Path(name)
    return (bool({"tests", "benches"} & set(path.parts[:-1])) or path.stem == "tests"
            or path.stem.endswith(("_test", "_tests")) or path.stem.startswith("test_"))


TOKENS = re.compile(
    r"""//[^\n]* | /\* | b?r(?P<hashes>\#*)" | [bc]?"(?:[^"\\]|\\.)*" | b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])'""",
    re.VERBOSE | re.DOTALL)


def code_of(text):
    """Rust with comments and the insides of literals blanked out; every line stays where it is."""
    out, at = [], 0
    while found := TOKENS.search(text, at):
        start, end = found.span()
        token = found.group()
        if token == "/*":
            end = end_of_comment(text, start)
        elif found.group("hashes") is not None:
            if start and (text[start - 1].isalnum() or text[start - 1] == "_"):
                # The end of a name such as `for"`, not the start of a raw string.
                out.append(text[at:end])
                at = end
                continue
            close = '"' + found.group("hashes")
            closed = text.find(close, end)
            end = len(text) if closed < 0 else closed + len(close)
        quote = '"' if '"' in token and not token.startswith("//") else ""
        blanked = re.sub(r"[^\n]", " ", text[start:end])
        if quote:
            blanked = '"' + blanked[1:-1] + '"'
        out.append(text[at:start] + blanked)
        at = end
    return "".join(out) + text[at:]


def end_of_comment(text, start):
    """Where the block comment that starts here ends; they nest."""
    depth, at = 0, start
    for found in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if found.group() == "/*" else -1
        at = start + found.end()
        if depth == 0:
            return at
    return len(text)


def end_of_block(code, start):
    """Where the block whose first brace follows `start` ends."""
    depth = 0
    for found in re.finditer(r"[{}]", code[start:]):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return start + found.end()
    return len(code)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def own_lines(name, tree):
    """Lines of a file without the tests in it."""
    text = tree.texts[name]
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    code = tree.codes.get(name, "")
    for found in re.finditer(r"#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?mod\s+\w+\s*\{", code):
        end = end_of_block(code, found.end() - 1)
        lines -= code.count("\n", found.start(), end) + 1
    return lines


# ----- the crates in ARCHITECTURE.md


def crate_table(tree):
    """{crate: may have unsafe code}, and the problems of the table."""
    name = "ARCHITECTURE.md"
    text = tree.texts.get(name, "")
    table, problems = {}, []
    header = re.search(r"^\| crate \|.*\|\n\|[-| ]+\|\n", text, re.MULTILINE)
    if not header:
        return {}, [(name, 1, "has no table of crates; it begins with a line \"| crate | … |\"")]
    number = line_of(text, header.end())
    for row in text[header.end():].split("\n"):
        if not row.startswith("|"):
            break
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        crate = re.match(r"`([\w-]+)`", cells[0])
        if len(cells) != 4 or not crate:
            problems.append((name, number, "write the row as | `crate` | its responsibility | a, b | none |"))
        else:
            table[crate.group(1)] = cells[3] != "none"
        number += 1
    return table, problems


def short(package):
    """The name of a package in the table."""
    return package.removeprefix("howdah-")


def packages_of(tree):
    """The workspace's packages as cargo sees them."""
    out = subprocess.run(["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"],
                         cwd=tree.root, check=True, capture_output=True).stdout
    return json.loads(out)["packages"]


def relative(tree, path):
    return str(Path(path).resolve().relative_to(tree.root.resolve()))


def crate_names(tree, packages):
    """The table has a row for each crate."""
    table, problems = crate_table(tree)
    yield from problems
    for package in packages:
        if short(package["name"]) not in table:
            yield (relative(tree, package["manifest_path"]), 1,
                   f"crate `{short(package['name'])}` is not in the table of crates; add it to ARCHITECTURE.md")
    for crate in sorted(set(table) - {short(package["name"]) for package in packages}):
        yield "ARCHITECTURE.md", line_with(tree.texts["ARCHITECTURE.md"], f"| `{crate}`"), f"there is no crate `{crate}`"


def line_with(text, part):
    """Number of the first line that contains this, or 1."""
    at = text.find(part)
    return line_of(text, at) if at >= 0 else 1


# ----- unsafe code


def unsafe_crates(tree, packages):
    """Crates without unsafe code say so to the compiler; all take the workspace's lints."""
    table, _ = crate_table(tree)
    for package in packages:
        manifest = relative(tree, package["manifest_path"])
        if tomllib.loads(tree.texts[manifest]).get("lints") != {"workspace": True}:
            yield manifest, 1, "add the section [lints] with workspace = true"
        if table.get(short(package["name"])):
            wanted, why = "#![deny(unsafe_code)]", "and allow it module by module"
        else:
            wanted, why = "#![forbid(unsafe_code)]", "the table in ARCHITECTURE.md allows it no unsafe code"
        for target in package["targets"]:
            if {"lib", "bin"} & set(target["kind"]):
                source = relative(tree, target["src_path"])
                if wanted not in tree.codes[source]:
                    yield source, 1, f"add {wanted} behind the module's description: {why}"


def unsafe_budget(tree):
    """Unsafe code grows only together with its budget, and the budget shrinks with it."""
    try:
        budget = json.loads(tree.texts.get(BUDGET, "{}"))
    except ValueError as error:
        yield BUDGET, getattr(error, "lineno", 1), f"is no JSON: {error}"
        return
    for name, code in tree.codes.items():
        found = list(re.finditer(r"\bunsafe\b(?!_)", code))
        allowed = budget.get(name, {}).get("unsafe", 0)
        if len(found) > allowed:
            first = line_of(code, found[allowed].start())
            yield name, first, (f"{len(found)} uses of `unsafe`, {allowed} allowed; do without, or raise "
                                f"the budget in {BUDGET} in the same commit and say why there")
        elif len(found) < allowed:
            yield BUDGET, line_with(tree.texts[BUDGET], name), f"{name} has {len(found)} uses of `unsafe`; lower its budget"
    for name, entry in budget.items():
        line = line_with(tree.texts[BUDGET], f'"{name}"')
        if name not in tree.codes:
            yield BUDGET, line, f"there is no {name}; remove its budget"
        if not entry.get("why"):
            yield BUDGET, line, f"say why {name} needs unsafe code: \"why\""


ZEND_HEADER = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]((?:Zend|main|TSRM|ext|sapi)/|php|SAPI\.h|zend)', re.MULTILINE)
ZEND_FUNCTION = re.compile(r"\bfn\s+_?(?:zend|php|sapi|tsrm|virtual|emalloc|efree)\w*", re.IGNORECASE)


def zend_in_c_only(tree):
    """A longjmp out of PHP must find no Rust frame: Rust never calls Zend."""
    shim = "crates/php-worker/shim/"
    for name in tree.of_kind("c"):
        if not name.startswith(shim):
            for found in ZEND_HEADER.finditer(tree.texts[name]):
                yield name, line_of(tree.texts[name], found.start()), f"PHP's headers belong to {shim} only; move the code there"
    for name, code in tree.codes.items():
        for block in re.finditer(r'\bextern\s*"[^"]*"\s*\{', code):
            end = end_of_block(code, block.end() - 1)
            for found in ZEND_FUNCTION.finditer(code, block.start(), end):
                yield name, line_of(code, found.start()), f"Rust must not call Zend; wrap the call in {shim} under zend_try"


PHP_VERSION = re.compile(r"\bPHP_(?:MAJOR_VERSION|MINOR_VERSION|VERSION_ID)\b")


def versions_in_one_file(tree):
    """The differences between versions of PHP are in one file."""
    only = "crates/php-worker/shim/versions.h"
    for name in tree.of_kind("c"):
        if name != only:
            for found in PHP_VERSION.finditer(tree.texts[name]):
                yield name, line_of(tree.texts[name], found.start()), f"the version of PHP is asked for in {only} only; add the difference there"


# ----- size and finish


def file_sizes(tree):
    """No file is too long, and most are short."""
    rust = []
    for name in tree.of_kind("rs", "c", "python", "shell", "php"):
        lines = own_lines(name, tree)
        if lines > MOST_LINES:
            yield name, MOST_LINES + 1, f"{lines} lines without inline tests, at most {MOST_LINES}; split it by subject"
        if name.endswith(".rs") and not is_test(name):
            rust.append(lines)
    if rust and statistics.median(rust) > MOST_MEDIAN:
        yield "crates", 1, f"the median of Rust files is {statistics.median(rust):.0f} lines, at most {MOST_MEDIAN}; split long files"


TEST_ITEM = re.compile(r"#\[cfg\(test\)\]\n(?:( *)#\[.*\n)*( *)[^{;\n]*(?:;|\{(?:.|\n)*?\n\2\})")
MODULE_PATH = re.compile(r"(?<!\$)\bcrate::(?:\{[^;]*?\};|(\w+))")


def imports_of(tree, crate):
    """{(from, to): (file, line)} of the top-level modules of a crate: those that `crate::` paths name outside of tests.
    A module is a file or a folder in `src`; within a folder, files may import each other."""
    source = "src/" if crate == "howdah" else f"crates/{crate}/src/"
    files = [name for name in tree.codes if name.startswith(source) and not is_test(name)]
    module_of = lambda name: name.removeprefix(source).split("/")[0].removesuffix(".rs")  # noqa: E731
    modules = {module_of(name) for name in files} - {"lib", "main"}
    edges = {}
    for name in files:
        blank = lambda found: re.sub(r"[^\n]", " ", found.group())  # noqa: E731
        code = TEST_ITEM.sub(blank, tree.codes[name])
        for found in MODULE_PATH.finditer(code):
            names = [found[1]] if found[1] else re.findall(r"\w+", found.group())
            for target in set(names) & modules - {module_of(name)}:
                line = code.count("\n", 0, found.start()) + 1
                edges.setdefault((module_of(name), target), (name, line))
    return {edge: place for edge, place in edges.items() if edge[0] in modules}


def ring_of(edges):
    """The modules of a shortest ring, in the order of their imports; None if there is none."""
    targets = {}
    for source, target in sorted(edges):
        targets.setdefault(source, []).append(target)
    best = None
    for start in targets:
        before, queue = {}, [start]
        for module in queue:
            new = [target for target in targets.get(module, ()) if target not in before]
            before.update(dict.fromkeys(new, module))
            queue += new
        if start in before:
            ring = [before[start]]
            while ring[0] != start:
                ring.insert(0, before[ring[0]])
            if best is None or len(ring) < len(best):
                best = ring
    return best


def crates_of(tree):
    return sorted({found[1] for name in tree.codes if (found := re.match(r"crates/([\w-]+)/src/", name))} | {"howdah"})


def module_rings(tree):
    """The top-level modules of a crate import each other in one direction only."""
    for crate in crates_of(tree):
        edges = imports_of(tree, crate)
        ring = ring_of(edges)
        if ring:
            # Each module imports the next one, the last one the first.
            places = [(source, target, *edges[source, target]) for source, target in zip(ring, ring[1:] + ring[:1])]
            shown = "; ".join(f"{source} imports {target} in {file}:{line}" for source, target, file, line in places)
            yield *places[0][2:], f"modules import each other ({shown}); move what both need below them, or into one folder"


def import_graph(tree, crate):
    """The imports of a crate for Graphviz's `dot`."""
    lines = [f'  "{source}" -> "{target}"; // {file}:{line}' for (source, target), (file, line) in sorted(imports_of(tree, crate).items())]
    return "\n".join([f'digraph "{crate}" {{', *lines, "}"])


# ----- documents


def generated_parts(tree):
    """The output of tools/generate.py is up to date."""
    if any(name not in tree.texts for name in map(generate.table_of, generate.PEERS)):
        return
    try:
        texts = generate.generated(tree.texts.__getitem__, tree.texts)
    except ValueError as error:
        yield "tools/generate.py", 1, str(error)
        return
    for name, text in texts.items():
        if text != tree.texts[name]:
            lines = zip(text.split("\n"), tree.texts[name].split("\n"))
            number = next((number for number, (new, old) in enumerate(lines, 1) if new != old), 1)
            yield name, number, "its generated part is not up to date; run `make generate`"


LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^()\s]+)\)|!\[[^\]]*\]\(([^()\s]+)\)")


def without_code(text):
    """Markdown with code blanked out, line by line."""
    blank = lambda found: re.sub(r"[^\n]", " ", found.group())  # noqa: E731
    text = re.sub(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2[^\n]*$", blank, text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", blank, text)


def anchors(text):
    """The names of a document's headings, as GitHub makes them."""
    names, seen = set(), {}
    fenced = re.sub(r"^ *(```+|~~~+)[^\n]*\n.*?^ *\1[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", fenced, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names


def document_links(tree):
    """A link to a file leads to one that is there, and to a heading that it has."""
    for name in tree.of_kind("md"):
        text = without_code(tree.texts[name])
        for found in LINK.finditer(text):
            target = found.group(1) or found.group(2)
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            line = line_of(text, found.start())
            path, _, anchor = target.partition("#")
            file = (tree.root / name).parent / path if path else tree.root / name
            try:
                known = relative(tree, file)
            except ValueError:
                known = None
            if known not in tree.paths and not (known and any(p.startswith(known + "/") for p in tree.paths)):
                yield name, line, f"the link leads nowhere: {path}; correct it or add the file"
            elif anchor and known in tree.texts and anchor not in anchors(tree.texts[known]):
                yield name, line, f"{known} has no heading #{anchor}; its headings: {', '.join(sorted(anchors(tree.texts[known])))}"


# A path of the project between backticks; placeholders have capital letters.
NAMED_PATH = re.compile(r"`((?:crates|fuzz|tests|tools)/[a-z0-9_./-]+)`")


def named_paths(tree):
    """A path that a document names exists."""
    for name in tree.of_kind("md"):
        for found in NAMED_PATH.finditer(tree.texts[name]):
            path = found.group(1).rstrip("/")
            if path not in tree.paths and not any(other.startswith(path + "/") for other in tree.paths):
                yield name, line_of(tree.texts[name], found.start()), f"there is no {path}; correct the path or add the file"


# Where tables name tests: a page, and the heading behind which they begin.
ATTACKS = {"docs/security.md": "## Memory of the router", "tests/security/README.md": "# Attacks and their tests"}
# A file of tests, the word for those in crates, or the name of a test.
ATTACK_TEST = re.compile(r"\]\(([^)]+\.rs)\)|(unit tests): |`(\w+)`")


def attack_tests(tree):
    """Each test that the table of the router's memory and the catalogue of attacks name exists, in the file that they name."""
    crates = [code for name, code in tree.codes.items() if name.startswith("crates/")]
    for page, heading in ATTACKS.items():
        for row in tree.texts.get(page, "").partition(heading)[2].split("\n"):
            if not row.startswith("| "):
                continue
            place, codes = None, []
            for file, unit, test in ATTACK_TEST.findall(row.split(" | ")[-1]):
                if file:
                    place = os.path.normpath(Path(page).parent / file)
                    codes = [tree.codes.get(place, "")]
                elif unit:
                    place, codes = "crates", crates
                elif not any(f"{test}(" in code for code in codes):
                    yield page, line_with(tree.texts[page], row), f"there is no test {test} in {place}; name the one that holds this"


def bans_have_reasons(tree):
    """Each ban has its reason."""
    for name, keys in (("deny.toml", [("bans", "deny"), ("advisories", "ignore")]),
                       ("clippy.toml", [("disallowed-methods",), ("disallowed-types",), ("disallowed-macros",)])):
        if name not in tree.texts:
            continue
        document = tomllib.loads(tree.texts[name])
        for key in keys:
            entries = document
            for part in key:
                entries = entries.get(part, {})
            for entry in entries or []:
                if not (isinstance(entry, dict) and entry.get("reason")):
                    label = entry if isinstance(entry, str) else next(iter(entry.values()))
                    yield name, line_with(tree.texts[name], f'"{label}"'), f"{label}: add the reason"


def wrong_subject(subject):
    """The mistake in the subject of a commit; None if it is right."""
    if len(subject) > MAX_SUBJECT:
        return f"has {len(subject)} characters, at most {MAX_SUBJECT}"
    component = r"[a-z0-9][\w./-]*"
    if not re.match(rf"{component}(, {component})*: \S", subject):
        return "begins with the component and a colon: \"http1: refuse ...\""
    if subject.endswith("."):
        return "ends without a full stop"
    return None


def new_subjects(root, commits=None):
    """Problems with the subjects of a range of commits; without one, of all that the rules apply to.

    A copy without the history (an archive, a shallow clone) has no commits to check.
    """
    git = ["git", "-c", "safe.directory=*", "-C", root]
    if commits is None:
        commits = f"{LAST_UNRULED}..HEAD"
        if subprocess.run([*git, "merge-base", "--is-ancestor", LAST_UNRULED, "HEAD"], capture_output=True).returncode:
            return []
    listed = subprocess.run([*git, "log", "--no-merges", "--format=%h %s", commits], check=True, capture_output=True, text=True)
    subjects = (line.split(" ", 1) for line in listed.stdout.splitlines())
    return [(f"commit {commit}", 1, f"its subject {problem}") for commit, subject in subjects if (problem := wrong_subject(subject))]


CRATE_RULES = (crate_names, unsafe_crates)
RULES = (unsafe_budget, zend_in_c_only, versions_in_one_file, file_sizes, module_rings,
         generated_parts, document_links, named_paths, attack_tests, bans_have_reasons)


def problems_of(tree):
    packages = packages_of(tree)
    for rule in CRATE_RULES:
        yield from rule(tree, packages)
    for rule in RULES:
        yield from rule(tree)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="KIND", choices=("shell", "php"), help="print the files of a kind")
    parser.add_argument("--imports", metavar="CRATE", nargs="?", const="", help="print the imports of a crate, or of all")
    parser.add_argument("--subjects", metavar="RANGE", help="commits whose subjects are checked (default: all since the rules exist)")
    options = parser.parse_args()
    tree = Tree(Path(__file__).resolve().parent.parent)
    if options.imports is not None:
        crates = crates_of(tree)
        if options.imports and options.imports not in crates:
            parser.error(f"there is no crate {options.imports}; there are {', '.join(crates)}")
        for crate in [options.imports] if options.imports else crates:
            print(import_graph(tree, crate))
        return 0
    if options.list:
        print("\n".join(name for name in tree.of_kind(options.list) if name not in BROKEN_PHP))
        return 0
    problems = sorted(set(problems_of(tree))) + new_subjects(tree.root, options.subjects)
    for name, line, problem in problems:
        print(f"{name}:{line}: {problem}")
    if problems:
        print(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} with the project's rules", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
