"""Random servers of nginx: no request that nginx refuses is answered, and others are answered alike.

The servers have locations of all kinds within each other, with access rules, files, rewrites and error pages. They are
the same for each run, so that a failure can be repeated.
"""

import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nginx_side
from nginx_side import Side
from peers import Programs, free_port, nginx

SEEDS = range(1, 5)
SERVERS, REQUESTS = 50, 24
FILES = ["a", "b.y", "ab/a", "ab/b.y", "c/a", "c/ab/a.x", "b/a.x", "b/b.y", "aa/x"]
REGEXES = ["a$", "b", "^/a", "\\.x$", "^/[ab]/", "c|d", "/b/(.*)", "^/(?!a)b"]
OPTIONS = [
    "deny all;", "allow 10.0.0.0/8; deny all;", "allow 127.0.0.1; deny all;", "deny 10.0.0.1;", "satisfy any;",
    "auth_basic x; auth_basic_user_file TMP/users;", "auth_basic off;", "limit_except GET { deny all; }",
    "try_files $uri $uri/ =404;", "try_files /none $uri @n;", "try_files $uri /c/a;", "error_page 404 /a;", "error_page 403 /b.y;",
    "index a b;", "index b.y;", "root TMP/other;", "internal;",
]


class Generator:
    """Writes random servers."""

    def __init__(self, seed):
        self.random, self.number = random.Random(seed), 0

    def server(self, name, port):
        """A server with this name."""
        first = self.random.choice(["", "", "rewrite ^/b(.*)$ /a$1 last;", "set $z 1; if ($arg_z) { set $z 2; }"])
        named = self.random.choice(["return 404;", "return 200 n;", "root TMP/other;", "deny all;"])
        last = self.random.choice(["", "deny 10.0.0.1;", "error_page 404 /ab/a;", "index a.x;"])
        locations = self.locations("/", 0, False)
        return f"server {{ listen 127.0.0.1:{port}; server_name {name}; root TMP/srv; {first} {locations} location @n {{ {named} }} {last} }}"

    def locations(self, parent, depth, is_in_regex):
        """Some locations; in one with an expression, nginx takes only others with expressions."""
        found, seen = [], set()
        for _ in range(self.random.randint(1, 4)):
            sign = self.random.choice(["~", "~*"] if is_in_regex else ["", "", "^~", "=", "~", "~*"])
            name = self.random.choice(REGEXES) if sign.startswith("~") else self.prefix(parent)
            key = name if sign.startswith("~") else (sign == "=", name)
            if "//" in name or key in seen:
                continue
            seen.add(key)
            body = self.answer() if sign == "=" else self.body(name, depth, sign.startswith("~"))
            found.append(f"location {sign} '{name}' {{ {body} }}")
        return "\n".join(found)

    def prefix(self, parent):
        """A path that begins with another one."""
        added = "".join(self.random.choice(["a", "b", "c", "a/", "b/", "/"]) for _ in range(self.random.randint(0, 2)))
        return parent + (added or self.random.choice(["", "a", "b", "a/"]))

    def body(self, name, depth, is_regex):
        """The directives of a location."""
        inner = ""
        if depth < 2 and self.random.random() < 0.35:
            inner = self.locations("/" if is_regex else name, depth + 1, is_regex)
        kind = self.random.random()
        if kind < 0.5:
            return inner + self.options()
        if kind < 0.6:
            return inner + f"if ($arg_q) {{ return 203; }} {self.answer()}"
        if kind < 0.7:
            return inner + f"rewrite ^/(.*)a(.*)$ /$1b$2 {self.random.choice(['last', 'break', ''])}; {self.answer()}"
        if kind < 0.75:
            return inner + f"if ($uri ~ b) {{ rewrite ^ /c{self.random.choice(['', '/', 'a'])} last; }} {self.answer()}"
        return inner + self.answer()

    def options(self):
        """Directives of which nginx takes each once."""
        chosen, names = [], set()
        for option in self.random.sample(OPTIONS, self.random.randint(1, 4)):
            name = option.split(" ")[0]
            if name not in names or name in ("allow", "deny", "error_page"):
                chosen.append(option)
            names.add(name)
        return " ".join(chosen)

    def answer(self):
        """A text that tells the location."""
        self.number += 1
        return f"return 200 l{self.number};"

    def request(self):
        """A request for a path that some locations may have."""
        names = ["a", "b", "c", "ab", "a.x", "b.y", "aa", ""]
        target = "/" + "/".join(self.random.choice(names) for _ in range(self.random.randint(0, 4)))
        target += self.random.choice(["", "", "/", "?q=1", "?z=1"])
        fields = self.random.choice(["", "", " | Authorization: Basic YW5uOnNlY3JldA=="])
        return f"GET {target}{fields}"


class Random:
    """The kind of random servers."""

    def needs(self):
        """The missing requirement; None if all are met."""
        return nginx_side.needs()

    def run(self, arguments):
        """Compares the servers of each seed. Returns how many have failed."""
        if unknown := [name for name in arguments.cases if not name.isdecimal()]:
            sys.exit(f"There is no case {', '.join(unknown)}: a case is a number")
        seeds = [int(seed) for seed in arguments.cases] or SEEDS
        failed = 0
        for seed in seeds:
            tmp = Path(tempfile.mkdtemp(prefix="howdah-import-random-"))
            tmp.chmod(0o755)
            try:
                differences = list(compare(tmp, seed, arguments))
            finally:
                if arguments.keep:
                    print(f"Kept {tmp}")
                else:
                    shutil.rmtree(tmp)
            for difference in differences:
                print(f"FAIL: seed {seed}: {difference}")
            failed += bool(differences)
        print(f"nginx-random: {len(seeds) - failed} passed, {failed} failed", flush=True)
        return failed


def compare(tmp, seed, arguments):
    """The differences of a seed."""
    generator = Generator(seed)
    for directory in ("srv", "other"):
        nginx_side.make_files(tmp / directory, {name: f"{directory} {name}" for name in FILES})
    (tmp / "users").write_text("ann:$apr1$ca6gXBAM$xn0zHYElBGTGB/lIsmlE50\n")
    ports = [free_port(), free_port()]
    servers = [generator.server(f"s{number}.test", ports[0]).replace("TMP", str(tmp)) for number in range(SERVERS)]
    text = "server_names_hash_bucket_size 128; access_log off;\n" + "\n".join(servers)
    command = nginx.command(tmp, nginx.configuration(tmp, text))
    importer = [arguments.importer.resolve()] if arguments.importer else [arguments.howdah, "import"]
    output = tmp / "howdah.json"
    made = subprocess.run([*importer, "nginx", tmp / "nginx.conf", "--output", output], capture_output=True, text=True)
    if made.returncode:
        yield f"import ends with {made.returncode}: {made.stderr}"
        return
    output.write_text(output.read_text().replace(f"127.0.0.1:{ports[0]}", f"127.0.0.1:{ports[1]}"))
    programs = Programs(tmp)
    try:
        programs.start("nginx", command)
        (work := tmp / "work").mkdir()
        work.chmod(0o777)
        programs.start("howdah", [arguments.howdah, "serve", "--config", output, "--no-control", "--log", tmp / "howdah.log", "--tmp", work])
        programs.wait_for_ports(ports)
        for number, server in enumerate(servers):
            sides = [Side(name, port, f"s{number}.test", False) for name, port in zip(("nginx", "howdah"), ports)]
            for request in [generator.request() for _ in range(REQUESTS)]:
                answers = [side.ask(request) for side in sides]
                if not alike(*answers):
                    yield f"{request}: {[(status, body[:60]) for status, _, body in answers]}\n{server}"
    finally:
        programs.stop()


def alike(one, other):
    """Whether two responses are the same. A page of an error that is refused itself has another status."""
    if one[0] >= 400 and other[0] >= 400:
        return True
    # nginx answers an error with a redirect if its page is a directory.
    if (one[0], other[0]) == (301, 404):
        return True
    own = re.compile(rb"<hr><center>nginx|^<!doctype html>")
    bodies = [b"" if own.search(body) else body for _, _, body in (one, other)]
    return one[0] == other[0] and bodies[0] == bodies[1]
