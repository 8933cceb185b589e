"""Reads which files of a Rust crate import which, for the rule in tools/lint.py.

A file's modules are found through `mod`, as the compiler finds them. An import is a `use` or a path
such as `crate::a::b` in the code; it counts as an edge to the file that defines the name, so a
module that only hands on names (`pub use`) is passed through. A `pub use` is an edge of its own file
only if that file also uses the name. Tests and visibilities (`pub(in crate::a)`) do not count.
"""

import re
from collections import deque
from pathlib import PurePosixPath

NAME = r"(?:r\#)?[A-Za-z_]\w*"
MODULE = re.compile(rf"(?P<attributes>(?:#\[[^\]]*\]\s*)*)(?:pub\s+)?\bmod\s+(?P<name>{NAME})\s*(?P<end>[;{{])")
USE = re.compile(r"(?P<pub>\bpub\s+)?\buse\s+(?P<tree>[A-Za-z_:{][^;]*);")
PATH = re.compile(rf"(?<![\w:])(?:{NAME})(?:\s*::\s*(?:{NAME}))+")
VISIBILITY = re.compile(r"(?<=\bpub)\s*\((?:crate|self|super|in\s[^)]*)\)")
TEST_ITEM = re.compile(r"#\[cfg\(test\)\]")


def blanked(code, start, end):
    return code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]


def end_of_item(code, start):
    """Offset behind the item that starts here: its `;` or its block."""
    depth = 0
    for found in re.finditer(r"[(\[{}\])]|;", code[start:]):
        token = found.group()
        if token == ";" and depth == 0:
            return start + found.end()
        depth += token in "([{"
        depth -= token in ")]}"
        if token == "}" and depth == 0:
            return start + found.end()
    return len(code)


def without_tests(code):
    while found := TEST_ITEM.search(code):
        code = blanked(code, found.start(), end_of_item(code, found.end()))
    return code


def split_tree(tree):
    """The paths of a `use`, each as (segments, local name); the name is `*` for a glob."""
    tree = tree.strip()
    if "{" in tree:
        prefix, _, rest = tree.partition("{")
        head = [part.strip() for part in prefix.split("::") if part.strip()]
        depth, part, parts = 0, "", []
        for char in rest[:rest.rindex("}")]:
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 0:
                parts.append(part)
                part = ""
            else:
                part += char
        for part in parts + [part]:
            if part.strip():
                yield from ((head + path, name) for path, name in split_tree(part))
        return
    path, _, alias = re.sub(r"\s+", " ", tree).partition(" as ")
    segments = [part.strip() for part in path.split("::") if part.strip()]
    yield segments, alias.strip() or segments[-1]


class Module:
    """A module: the file that it is in, its code without tests, and what its names stand for."""

    def __init__(self, name, file, parent):
        self.name, self.file, self.parent = name, file, parent
        self.children, self.aliases, self.globs, self.imports = {}, {}, [], []
        self.code = ""


class Crate:
    """The modules of a crate, and the edges between its files."""

    def __init__(self, root, codes, texts, is_test):
        self.codes, self.texts, self.is_test = codes, texts, is_test
        self.folder = str(PurePosixPath(root).parent)
        self.modules = []
        self.root = self.read(Module("crate", root, None), codes[root], 0, PurePosixPath(root).parent)
        # {(from, to): (line, path)} of the first import
        self.edges = {}
        for module in self.modules:
            self.add_edges(module)

    def read(self, module, code, offset, folder):
        """Takes in a module's code, which starts at this offset of its file; its files are in `folder`."""
        self.modules.append(module)
        module.offset = offset
        code = without_tests(VISIBILITY.sub(lambda found: " " * len(found.group()), code))
        at = 0
        while found := MODULE.search(code, at):
            name, at = found["name"], found.end()
            if found["end"] == "{":
                end = end_of_item(code, at - 1)
                child = Module(name, module.file, module)
                module.children[name] = self.read(child, code[at:end - 1], offset + at, folder / name)
            else:
                end = at
                file = self.file_of(module, found, offset, folder)
                if file:
                    path = PurePosixPath(file)
                    inner = path.parent if path.name == "mod.rs" else path.parent / path.stem
                    module.children[name] = self.read(Module(name, file, module), self.codes[file], 0, inner)
            code = blanked(code, found.start(), end)
            at = end
        for found in USE.finditer(code):
            line = self.line(module, found.start())
            for segments, name in split_tree(found["tree"]):
                if segments[-1] == "self":
                    segments = segments[:-1]
                    name = segments[-1] if name == "self" else name
                module.imports.append((segments, name, bool(found["pub"]), line))
                if name == "*":
                    module.globs.append(segments[:-1])
                elif name != "_":
                    module.aliases[name] = segments
        module.code = USE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), code)
        return module

    def line(self, module, offset):
        return self.codes[module.file].count("\n", 0, module.offset + offset) + 1

    def file_of(self, module, found, offset, folder):
        """The file of a `mod name;`, or None if there is none or it is a test."""
        explicit = re.search(r'#\[path\s*=\s*"([^"]*)"', self.texts[module.file][offset + found.start():offset + found.end()])
        name = found["name"].removeprefix("r#")
        names = ([str(PurePosixPath(module.file).parent / explicit[1])] if explicit
                 else [f"{folder}/{name}.rs", f"{folder}/{name}/mod.rs"])
        return next((file for file in names if file in self.codes and not self.is_test(file)), None)

    def resolve(self, module, segments, seen=frozenset()):
        """The module that a path names or whose item it names; None for paths out of the crate."""
        first, rest = segments[0], segments[1:]
        if first == "crate":
            return self.within(self.root, rest, seen)
        if first == "self":
            return self.within(module, rest, seen)
        if first == "super":
            return self.within(module.parent, rest, seen) if module.parent else None
        return self.within(module, segments, seen) if first in module.children or first in module.aliases else None

    def within(self, module, segments, seen):
        if not segments:
            return module
        name, rest = segments[0], segments[1:]
        if name == "super":
            return self.within(module.parent, rest, seen)
        alias = module.aliases.get(name)
        if name in module.children and (rest or not alias):
            return self.within(module.children[name], rest, seen)
        if alias:
            # An alias that leads back to itself names another crate: `use rustls::{self, …}`.
            if (id(module), name) in seen:
                return None
            return self.resolve(module, alias + rest, seen | {(id(module), name)})
        if not re.search(rf"\b(?:fn|struct|enum|union|type|const|static|trait|macro_rules!)\s+(?:mut\s+)?{re.escape(name)}\b", module.code):
            for glob in module.globs:
                if (id(module), *glob) in seen:
                    continue
                seen |= {(id(module), *glob)}
                target = self.resolve(module, glob, seen)
                if target and target is not module and self.defines(target, name):
                    return self.within(target, segments, seen)
        return module

    def defines(self, module, name):
        return (name in module.children or name in module.aliases
                or re.search(rf"\b(?:fn|struct|enum|union|type|const|static|trait)\s+(?:mut\s+)?{re.escape(name)}\b", module.code))

    def add_edges(self, module):
        for segments, name, public, line in module.imports:
            path = segments[:-1] if name == "*" else segments
            if not path or name == "*" and public:
                continue
            target = self.resolve(module, path)
            used = name in ("*", "_") or re.search(rf"(?<!::)\b{re.escape(name)}\b", module.code)
            if public and not used:
                continue
            if target and name != "*" and self.is_module(module, path) and re.search(rf"\b{re.escape(name)}\s*::", module.code):
                continue  # the paths below say which of its names are used
            self.add(module, target, line, path)
        for found in PATH.finditer(module.code):
            segments = [part.strip() for part in found.group().split("::")]
            self.add(module, self.resolve(module, segments), self.line(module, found.start()), segments)

    def is_module(self, module, path):
        """Returns true if the path names a module itself, not an item in it."""
        target = self.resolve(module, path)
        return target is not None and self.resolve(module, path + ["*"]) is target and target.name == self.last(module, path)

    def last(self, module, path, depth=0):
        """The last segment of a path, with aliases of the module followed."""
        if path[-1] in ("crate", "self", "super"):
            return self.resolve(module, path).name
        if len(path) == 1 and path[0] in module.aliases and path[0] not in module.children and depth < 8:
            return self.last(module, module.aliases[path[0]], depth + 1)
        return path[-1]

    def add(self, module, target, line, path):
        if target and target.file != module.file:
            self.edges.setdefault((module.file, target.file), (line, "::".join(path)))


def crates_of(codes, texts, is_test):
    """{name: Crate} of all crates of the workspace; the root package is `howdah`."""
    crates = {}
    for file in sorted(codes):
        found = re.fullmatch(r"(?:crates/([\w-]+)/)?src/(lib|main)\.rs", file)
        if found:
            name = found[1] or "howdah"
            crates[f"{name}-bin" if name in crates else name] = Crate(file, codes, texts, is_test)
    return crates


def components(edges):
    """The sets of files that import each other, directly or through others (Tarjan's algorithm)."""
    targets = {}
    for source, target in sorted(edges):
        targets.setdefault(source, []).append(target)
        targets.setdefault(target, [])
    number, low, stack, open_files, found = {}, {}, [], set(), []
    for start in targets:
        if start in number:
            continue
        work = [(start, iter(targets[start]))]
        number[start] = low[start] = len(number)
        stack.append(start)
        open_files.add(start)
        while work:
            file, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[file])
                if low[file] == number[file]:
                    at = stack.index(file)
                    if len(stack) - at > 1:
                        found.append(sorted(stack[at:]))
                    open_files -= set(stack[at:])
                    del stack[at:]
            elif following not in number:
                number[following] = low[following] = len(number)
                stack.append(following)
                open_files.add(following)
                work.append((following, iter(targets[following])))
            elif following in open_files:
                low[file] = min(low[file], number[following])
    return sorted(found)


def shortest_cycle(edges, files):
    """The files of a shortest cycle among these, in the order of its edges."""
    targets = {file: [to for of, to in sorted(edges) if of == file and to in files] for file in files}
    best = None
    for start in files:
        before, queue = {}, deque([start])
        while queue and start not in before:
            file = queue.popleft()
            for to in targets[file]:
                if to not in before:
                    before[to] = file
                    queue.append(to)
        cycle, file = [], start
        while not cycle or file != start:
            file = before[file]
            cycle.insert(0, file)
        if best is None or len(cycle) < len(best):
            best = cycle
    return best


def graph(name, crate):
    """The imports of a crate for Graphviz's `dot`; edges within a cycle are red."""
    short = lambda file: file.removeprefix(crate.folder + "/").removesuffix(".rs")  # noqa: E731
    cycles = components(crate.edges)
    lines = [f'digraph "{name}" {{']
    lines += [f"  // {len(files)} files import each other: " + ", ".join(map(short, files)) for files in cycles]
    for (source, target), (line, path) in sorted(crate.edges.items()):
        red = " [color=red]" if any({source, target} <= set(files) for files in cycles) else ""
        lines.append(f'  "{short(source)}" -> "{short(target)}"{red}; // line {line}: {path}')
    return "\n".join(lines + ["}"])
