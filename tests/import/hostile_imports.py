"""Configurations that are made to break an importer: each ends with a status of its own, in bounded time and memory, and what is
not read is an error with file and line."""

import json
import resource
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import imported

# Limits of a case. Programs of the debug profile on a busy machine need the time; memory is that of the address space.
SECONDS, BYTES = 120, 2 << 30


@dataclass
class Case:
    name: str
    kind: str
    text: object  # Text or bytes of the file.
    statuses: tuple  # Exit statuses.
    says: str = ""  # A part of the message.
    more: dict = field(default_factory=dict)  # Further files.


def apache(name, text, statuses, says="", **more):
    return Case(f"apache-{name}", "apache", text, statuses, says, {key.replace("_", "."): value for key, value in more.items()})


def nginx(name, text, statuses, says="", **more):
    return Case(f"nginx-{name}", "nginx", text, statuses, says, {key.replace("_", "."): value for key, value in more.items()})


def fpm(name, text, statuses, says="", **more):
    return Case(f"fpm-{name}", "php-fpm", text, statuses, says, {key.replace("_", "."): value for key, value in more.items()})


def unit(name, text, statuses, says=""):
    return Case(f"unit-{name}", "unit", text, statuses, says)


def host(text):
    return f"<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv\n{text}\n</VirtualHost>\n"


def server(text):
    return f"server {{ listen 80; server_name a.test; root /srv; {text} }}\n"


def lines(line, number):
    return "".join(f"{line.replace('N', str(index))}\n" for index in range(number))


GOOD, ANY, BAD = (0, 3), (0, 2, 3), (2,)
RULE = "RewriteEngine On\n"

CASES = [
    apache("empty", "", GOOD),
    apache("host-name", "<VirtualHost *:80>\nServerName a.t%st/$uri\nDocumentRoot /srv/a\n</VirtualHost>\n", ANY),
    apache("nothing-but-comments", "# a\n\n#\\\nb\n", GOOD),
    apache("open-section", "<VirtualHost *:80>\n<Directory /srv>\nOptions All\n", BAD, ":2: "),
    apache("end-without-begin", "</Directory>\n", BAD, ":1: "),
    apache("crossed-sections", "<VirtualHost *:80>\n<Files a>\n</VirtualHost>\n</Files>\n", BAD, ":3: "),
    apache("section-without-name", "<>\n</>\n", BAD, ":1: "),
    apache("section-without-end-of-line", "<Directory /srv\n</Directory>\n", BAD, ":1: "),
    apache("nesting", "<If \"true\">\n" * 3000 + "</If>\n" * 3000, BAD, "nested"),
    apache("open-nesting", "<If \"true\">\n" * 3000, BAD, "nested"),
    apache("nested-conditions", "<IfModule !x>\n" * 3000 + "</IfModule>\n" * 3000, BAD, "nested"),
    apache("include-of-itself", "Include @DIR@/case.conf\n", BAD, ":1: "),
    apache("loop-of-includes", "Include @DIR@/a.conf\n", BAD, "b.conf:1: ", a_conf="Include @DIR@/b.conf\n", b_conf="Include @DIR@/a.conf\n"),
    apache("missing-include", "\n\nInclude @DIR@/none.conf\n", BAD, ":3: "),
    apache("include-of-a-device", "Include /dev/zero\n", BAD, "/dev/zero"),
    apache("binary", bytes(range(256)) * 8, BAD, "case.conf:2: "),
    apache("nul", "ServerName a\n\0\n", BAD, ":2: "),
    apache("latin-1", "# \xe4\nServerName a.test\n".encode("latin-1"), GOOD),
    apache("carriage-returns", "<VirtualHost *:80>\r\nServerName a.test\r\n</VirtualHost>\r\n", GOOD),
    apache("one-long-line", "ServerAlias " + "a.test " * 200_000 + "\n", ANY),
    apache("continued-lines", "ServerAlias \\\n" * 50_000 + "a\n", ANY),
    apache("macros-in-macros", "".join(f"<Macro M{n} $a>\n" + f"Use M{n + 1} $a$a\n" * 8 + "</Macro>\n" for n in range(30)) + "<Macro M30 $a>\n</Macro>\nUse M0 x\n", BAD, "macro"),
    apache("macro-of-itself", "<Macro A>\nUse A\n</Macro>\nUse A\n", BAD, ":2: "),
    apache("variables-in-variables", "Define A a\n" + lines("Define A ${A}${A}", 64) + "ServerName ${A}\n", ANY),
    apache("conditions", host(RULE + lines("RewriteCond %{REQUEST_URI} !^/xN", 20_000) + "RewriteRule ^ - [F]"), (3,)),
    apache("conditions-in-front-of-a-proxy", host(RULE + lines("RewriteCond %{REQUEST_URI} !^/xN [OR]", 20_000) + "RewriteRule ^ - [F]\nProxyPass / http://127.0.0.1:1/"), (3,)),
    apache("rules", host(RULE + lines("RewriteRule ^/xN /y [L]", 20_000)), (3,)),
    apache("hosts", lines("<VirtualHost *:80>\nServerName aN.test\nDocumentRoot /srv/N\n</VirtualHost>", 400), GOOD),
    apache("expressions", host(lines("<FilesMatch \"((a+)+)+$(?!N)\">\nRequire all denied\n</FilesMatch>", 200)), ANY),
    apache("numbers", f"Timeout {9 ** 99}\nLimitRequestFields -1\nLimitRequestLine {2 ** 64}\nListen 99999\nListen -1\n" + host(f"LimitRequestBody {9 ** 99}\nRedirect {9 ** 99} /a /b"), ANY),
    apache("quotation-marks", host("Alias \"/a /b\nHeader set X \"\\\\\\\"\nErrorDocument 404 \"x"), ANY),
    apache("control-characters", host("ErrorDocument 404 \"\x01\x02\x1b[31m\"\nServerAlias \x7f\nDirectoryIndex \x0b"), ANY),
    apache("proxies", host("ProxyPass / balancer://a/\nProxyPass /b http://[::1/\nProxyPass /c http://:99999999/\nProxyPassMatch ( http://a/\nProxyPass /d unix:|fcgi://\n<Proxy balancer://a>\nBalancerMember balancer://a\n</Proxy>"), ANY),
    apache("maps", host("RewriteMap a txt:/dev/zero\nRewriteMap b txt:@DIR@/none\nRewriteMap c prg:/bin/sh\nRewriteMap d\nRewriteMap e txt:@DIR@\n" + RULE + "RewriteRule ^/(.*) ${a:${b:${c:${d:$1}}}} [L]"), (3,), "rules that use the map are left out"),
    apache("open-lookups", host(RULE + "RewriteRule ^/(.*) " + "${a:" * 5000 + "$1 [L]"), ANY),
    nginx("empty", "", GOOD),
    nginx("open-block", "server {\n  location / {\n", BAD, ":2: "),
    nginx("end-without-begin", "}\n", BAD, ":1: "),
    nginx("no-semicolon", "server {\n  listen 80\n}\n", BAD, ":3: "),
    nginx("open-quotation-mark", "server {\n  server_name \"a;\n}\n", BAD, "case.conf:"),
    nginx("nesting", "server { " + "location /a { " * 5000 + "}" * 5001, BAD, "case.conf:1: "),
    nginx("conditions-in-conditions", server("if ($a) { " * 2000 + "}" * 2000), BAD, "case.conf:"),
    nginx("include-of-itself", "include @DIR@/case.conf;\n", BAD, "case.conf:1: "),
    nginx("loop-of-includes", "include @DIR@/a.conf;\n", BAD, "b.conf:1: ", a_conf="include @DIR@/b.conf;\n", b_conf="include @DIR@/a.conf;\n"),
    nginx("missing-include", "\ninclude @DIR@/none.conf;\n", BAD, ":2: "),
    nginx("include-of-a-device", "include /dev/zero;\n", BAD, "/dev/zero"),
    nginx("binary", bytes(range(256)) * 8, BAD, "case.conf:"),
    nginx("nul", "server_tokens off;\n\0;\n", BAD, ":2: "),
    nginx("one-long-argument", server("add_header X " + "a" * 3_000_000 + ";"), ANY),
    nginx("many-arguments", server("server_name " + "a.test " * 100_000 + ";"), ANY),
    nginx("locations", server(lines("location /N { return 200; }", 1500)), ANY),
    nginx("branches", "".join(f"server {{ listen 80; server_name s{n}.test; " + "".join(f"if ($arg_a{m}) {{ set $v{m} 1; }} if ($v{m}) {{ rewrite ^/{m} /x{m}; }}" for m in range(16)) + "}" for n in range(3)), ANY),
    nginx("named-locations", server("try_files /none @a; location @a { try_files /none @b; } location @b { try_files /none @a; }"), ANY),
    nginx("rewrites-in-a-circle", server("location /a { rewrite ^ /b last; } location /b { rewrite ^ /a last; }"), GOOD),
    nginx("variables-in-a-circle", "map $b $a { default $b; }\nmap $a $b { default $a; }\n" + server("return 200 $a;"), ANY),
    nginx("maps", "".join(f"map $m{n + 1} $m{n} {{ default $m{n + 1}$m{n + 1}; }}\n" for n in range(60)) + "map $uri $m60 { default a; }\n" + server("return 200 $m0;"), (3,), "leads to more than"),
    nginx("expressions", server(lines("location ~ ((a+)+)+(?!N)(?<=b)$ { deny all; }", 200)), ANY),
    nginx("open-expression", server("location ~ ((( { deny all; }"), ANY),
    nginx("numbers", server(f"client_max_body_size {9 ** 99}; keepalive_timeout {2 ** 63}; return {9 ** 99}; limit_rate {2 ** 64}k; listen 99999; listen -1;"), ANY),
    nginx("control-characters", server("return 200 \"\x01\x1b[31m\x7f\"; add_header \x02 x;"), ANY),
    nginx("addresses", server("allow 1.2.3.4/99; deny ::/999; set_real_ip_from x; proxy_pass http://[::1; location /a { proxy_pass http://:0; } location /b { fastcgi_pass unix:; } location /c { proxy_pass http://a:65536; }"), (3,), "no address of a server"),
    nginx("geo", "geo $a { ranges; 10.0.0.9-10.0.0.1 x; 1-2 y; }\n" + server("return 200 $a;"), ANY),
    nginx("dump", "# configuration file /etc/nginx/a.conf:\n" * 20_000, ANY),
    nginx("servers", lines("server { listen 80; server_name aN.test; location / { try_files $uri =404; } }", 400), GOOD),
    fpm("empty", "", ANY),
    fpm("open-section", "[www\n", BAD, ":1: "),
    fpm("open-quotation-mark", "[www]\nuser = \"a\n", BAD, "case.conf:"),
    fpm("include-of-itself", "[global]\ninclude = @DIR@/case.conf\n", BAD, ":2: "),
    fpm("include-of-a-device", "[global]\ninclude = /dev/zero\n", ANY),
    fpm("binary", bytes(range(256)) * 8, BAD, "case.conf:"),
    fpm("numbers", f"[www]\nlisten = 99999999\npm = dynamic\npm.max_children = {9 ** 99}\npm.start_servers = -1\nrlimit_files = {2 ** 64}\nprocess.priority = 999\n", ANY),
    fpm("expressions-of-values", "[www]\nlisten = 9000\npm.max_children = " + "(" * 20_000 + "1" + ")" * 20_000 + "\n", ANY),
    fpm("variables-in-variables", "[www]\nlisten = 9000\n" + lines("env[A] = ${A}${A}", 64), ANY),
    fpm("pools", lines("[pN]\nlisten = /run/N.sock\nuser = www-data\npm = static\npm.max_children = 1", 2000), GOOD),
    fpm("pool-name", "[$pool/../..]\nlisten = /run/$pool.sock\nuser = www-data\npm = static\npm.max_children = 1\n", ANY),
    fpm("values", "[www]\nlisten = 9000\nphp_value[" + "a" * 100_000 + "] = " + "b" * 100_000 + "\nphp_value[] = x\nenv[=] = y\n", ANY),
    unit("empty", "", BAD, "case.conf:"),
    unit("no-object", "[1, 2]", BAD, "case.conf"),
    unit("nesting", "[" * 100_000, BAD, "case.conf:1: "),
    unit("nested-objects", "{\"a\":" * 5000 + "1" + "}" * 5000, BAD, "case.conf:1: "),
    unit("open-string", "{\"listeners\": {\"*:80", BAD, "case.conf:1: "),
    unit("binary", bytes(range(256)), BAD, "case.conf:2: "),
    unit("numbers", '{"listeners": {"*:99999": {"pass": "routes"}}, "routes": [{"action": {"return": 1e999}}], "settings": {"http": {"max_body_size": -99999999999999999999}}}', ANY),
    unit("wrong-types", json.dumps({"listeners": [], "routes": {"a": 1, "b": [1, None, "x"]}, "applications": {"a": [], "b": {"type": 1}}}), ANY),
    unit("passes-in-a-circle", json.dumps({"listeners": {"*:80": {"pass": "routes/a"}}, "routes": {"a": [{"action": {"pass": "routes/b"}}], "b": [{"action": {"pass": "routes/a"}}]}}), ANY),
    unit("names", json.dumps({"listeners": {"*:80": {"pass": "applications/" + "%2F" * 1000}}, "applications": {"/" * 1000: {"type": "php", "root": "/"}, "": {"type": "php", "root": "/"}}}), ANY),
]


def cases():
    return CASES


def needs():
    return None


def run(arguments):
    return imported.compare("hostile", sys.modules[__name__], arguments)


class Comparison:
    def __init__(self, tmp, arguments, _):
        self.tmp = tmp
        self.howdah = arguments.howdah
        self.program = [arguments.importer.resolve()] if arguments.importer else [arguments.howdah, "import"]

    def start(self):
        pass

    def stop(self):
        pass

    def compare(self, case):
        """In what the import of a case is not as expected."""
        directory = self.tmp / case.name
        directory.mkdir()
        for name, text in {"case.conf": case.text, **case.more}.items():
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
            (directory / name).write_bytes(data.replace(b"@DIR@", str(directory).encode()))
        output = directory / "out.json"
        command = [*self.program, case.kind, directory / "case.conf", "--output", output, "--report", directory / "report.json"]
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, timeout=SECONDS, preexec_fn=limit)
        except subprocess.TimeoutExpired:
            yield f"does not end within {SECONDS} s"
            return
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode not in case.statuses or "panicked" in said:
            yield f"exit status {done.returncode}, expected: {case.statuses}\n{said[:600]}"
            return
        if case.says not in said:
            yield f"{case.says!r} is not in: {said[:600]}"
        if "\x1b" in said:
            yield f"a control character of the file is printed: {said[:600]!r}"
        if done.returncode == 2:
            if output.exists():
                yield "there is a document"
            return
        command = [self.howdah, "check", "--syntax", output]
        checked = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=SECONDS)
        if checked.returncode:
            yield f"the document is not accepted: {(checked.stdout + checked.stderr)[:600]}"
        lines = [(entry["file"], entry["line"], entry["directive"]) for entry in json.loads((directory / "report.json").read_text())]
        size = Path(directory / "case.conf").read_bytes().count(b"\n") + 1
        if any(line < 1 or file.endswith("case.conf") and line > size for file, line, _ in lines):
            yield "the report has a line that the file does not have"


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
