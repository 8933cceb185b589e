"""Request header fields: hosts, cookies, credentials, and names that would shadow variables."""

import base64

from differ.case import get, head, raw, refused

PROBE = "/probe.php"


def basic(text):
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


def on_probe(name, *fields, **options):
    return get(name, PROBE, *fields, **options)


CASES = [
    on_probe("usual fields of a browser",
             "User-Agent: Mozilla/5.0 (X11; Linux x86_64)", "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8",
             "Accept-Language: de,en;q=0.5", "Accept-Encoding: gzip, deflate, br", "DNT: 1", "Upgrade-Insecure-Requests: 1",
             "Sec-Fetch-Dest: document", "Referer: http://site.test:{port}/", "Cache-Control: max-age=0", "Priority: u=0, i"),
    on_probe("fields of a script library", "X-Requested-With: XMLHttpRequest", "Origin: https://example.org", "X-CSRF-Token: abc"),
    on_probe("fields of a proxy", "X-Forwarded-For: 10.0.0.1, 10.0.0.2", "X-Forwarded-Proto: https", "X-Forwarded-Host: evil.example",
             "Forwarded: for=10.0.0.1", "X-Real-IP: 10.0.0.3", "Via: 1.1 proxy"),
    on_probe("field twice", "X-Twice: one", "X-Twice: two"),
    on_probe("cookie field twice", "Cookie: a=1", "Cookie: b=2"),
    on_probe("field without a value", "X-Empty:"),
    on_probe("field with spaces around its value", "X-Spaces:   a b   "),
    on_probe("field with tabs around its value", "X-Tabs:\ta\t"),
    on_probe("field with UTF-8", "X-Utf: gr\u00c3\u00bcn"),
    on_probe("field with Latin-1", "X-Latin: gr\u00fcn"),
    on_probe("field name in small letters", "x-small-name: 1"),
    on_probe("field name with digits", "X-1-2: 3"),
    on_probe("field name with an underscore", "X_Under: 1", "X-Under: 2"),
    on_probe("field name with a dot", "X.Dot: 1"),
    on_probe("field name with a dot that shadows a user", "Remote.User: admin", "X-Remote.User: admin"),
    on_probe("field name with odd token characters", "X!#$%&'*+^`|~Y: 1"),
    on_probe("field that shadows a forwarded address", "X_Forwarded_For: 6.6.6.6", "X-Forwarded-For: 10.0.0.1"),
    on_probe("fields that shadow variables", "Script-Filename: /etc/passwd", "Document-Root: /", "Redirect-Status: 1", "Remote-User: admin",
             "Https: on", "PHP-VALUE: auto_prepend_file=/etc/passwd", "Request-Method: PUT", "Path-Info: /evil", "Auth-Type: Basic"),
    on_probe("fields that shadow variables with underscores", "HTTP_HOST: evil", "SCRIPT_FILENAME: /etc/passwd", "PHP_ADMIN_VALUE: x=1",
             "CONTENT_LENGTH: 5", "REMOTE_ADDR: 6.6.6.6"),
    on_probe("field Proxy", "Proxy: http://evil.example:8080"),
    on_probe("field Content-Length of a request without a body", "Content-Length: 0"),
    on_probe("field Content-Type of a request without a body", "Content-Type: text/plain"),
    on_probe("forty fields", *(f"X-Field-{i}: {i}" for i in range(40))),
    on_probe("ninety fields", *(f"X-Field-{i}: {i}" for i in range(90))),
    on_probe("field of 4 KB", "X-Long: " + "a" * 4096),
    on_probe("field of 7 KB", "X-Long: " + "a" * 7000),
    refused("field of 100 KB", head("GET", PROBE, "X-Long: " + "a" * 100_000)),
    refused("field of 1 MB", head("GET", PROBE, "X-Long: " + "a" * 1_000_000)),
    refused("target of 100 KB", head("GET", "/probe.php?" + "a" * 100_000)),
    refused("ten thousand fields", head("GET", PROBE, *(f"X-{i}: {i}" for i in range(10_000)))),

    on_probe("host without a port", host="site.test"),
    on_probe("host with another port", host="site.test:1"),
    on_probe("host in capitals", host="SITE.Test:{port}"),
    on_probe("host with a dot at its end", host="site.test.:{port}"),
    on_probe("host of another site", host="other.example"),
    on_probe("host that is an address", host="127.0.0.1:{port}"),
    on_probe("host that is an IPv6 address", host="[::1]:{port}"),
    on_probe("host empty", host=""),
    on_probe("host with an underscore", host="under_score.test"),
    refused("host missing", head("GET", "/hello.txt", host=None)),
    refused("host twice", head("GET", "/hello.txt", "Host: other.test")),
    refused("host twice, the same", head("GET", "/hello.txt", f"Host: site.test:{{port}}")),
    refused("host with a user", head("GET", "/hello.txt", host="user@site.test")),
    refused("host with a user in the port", head("GET", "/hello.txt", host="site.test:x@other.test")),
    refused("host with a backslash", head("GET", "/hello.txt", host="site.test\\other.test")),
    refused("host with a query", head("GET", "/hello.txt", host="site.test?other.test")),
    refused("host with a fragment", head("GET", "/hello.txt", host="site.test#other.test")),
    refused("host with an open bracket", head("GET", "/hello.txt", host="[::1")),
    refused("host with a percent escape", head("GET", "/hello.txt", host="site%2etest")),
    refused("host with a port that is too large", head("GET", "/hello.txt", host="site.test:99999")),
    refused("host with a path", head("GET", "/hello.txt", host="site.test/path")),
    refused("host with a space", head("GET", "/hello.txt", host="site test")),
    refused("host with a port that is none", head("GET", "/hello.txt", host="site.test:abc")),
    refused("host with a NUL", head("GET", "/hello.txt", host="site\0.test")),
    refused("host with markup", head("GET", "/hello.txt", host="<script>")),
    refused("host with dots only", head("GET", "/hello.txt", host="..")),
    refused("host with a comma", head("GET", "/hello.txt", host="a.test,b.test")),

    on_probe("cookies", "Cookie: a=1; b=two; c=3"),
    on_probe("cookies with odd values", 'Cookie: a="quoted"; b=a=b=c; c; =d; e=%20f; g=h+i; j='),
    on_probe("cookie names that PHP changes", "Cookie: a.b=1; c[d]=2; c[e]=3; __Host-x=4"),
    on_probe("cookie twice", "Cookie: a=1; a=2"),
    on_probe("cookies with commas", "Cookie: a=1, b=2"),
    on_probe("cookie with UTF-8", "Cookie: a=\u00c3\u00bc"),
    on_probe("cookie name with a prefix by encoding", "Cookie: __%48ost-x=evil; __Host-x=good"),

    on_probe("Basic credentials", basic("user:secret")),
    on_probe("Basic credentials with colons", basic("user:a:b:c")),
    on_probe("Basic credentials without a password", basic("user:")),
    on_probe("Basic credentials without a colon", basic("user")),
    on_probe("Basic credentials without a user", basic(":secret")),
    on_probe("Basic credentials with UTF-8", basic("\u00fcser:p\u00e4ss")),
    on_probe("Basic credentials, small letters", basic("user:secret").replace("Basic", "basic")),
    on_probe("Basic credentials that are no base64", "Authorization: Basic !!!"),
    on_probe("Basic credentials empty", "Authorization: Basic"),
    on_probe("Digest credentials", 'Authorization: Digest username="u", realm="r", nonce="n", uri="/probe.php", response="0"'),
    on_probe("Bearer credentials", "Authorization: Bearer abc.def.ghi"),
    on_probe("credentials of an unknown scheme", "Authorization: Hawk id=1"),
    on_probe("credentials for a proxy", "Proxy-Authorization: Basic dXNlcjpzZWNyZXQ="),

    get("fields of the connection", PROBE, "Connection: close, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "TE: trailers", close=False),
    on_probe("upgrade that is not offered", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", close=False, end=True),
    on_probe("upgrade to HTTP/2", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__", close=False, end=True),
    raw("bare line feeds in a head", b"GET /hello.txt HTTP/1.1\nHost: site.test\nConnection: close\n\n", refusal=True, patience=1.5),
]
