"""`ngx_http_core_module`."""

import time

from . import Case, read_all

WWW = {"share": "/srv/www$uri"}
FPM = {"type": "fastcgi", "server": "unix:/run/php.sock", "root": "/srv/php"}


def slow_head(side):
    """The status for a head that never ends."""
    with side.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: ")
        # Howdah answers; nginx only closes the connection.
        return client.recv(100)[:12] in (b"", b"HTTP/1.1 408")


def slow_body(side):
    with side.connect() as client:
        client.sendall(f"POST /up HTTP/1.1\r\nHost: {side.host}\r\nContent-Length: 10\r\n\r\na".encode())
        return client.recv(100)[:12] in (b"", b"HTTP/1.1 408")


def idle_connection(side):
    """The server closes an idle connection after one response."""
    with side.connect() as client:
        client.sendall(f"GET /a.txt HTTP/1.1\r\nHost: {side.host}\r\n\r\n".encode())
        # Howdah answers 408 first, so that a client knows that a request on its way was not processed.
        return b"text a" in client.recv(65536) and read_all(client)[:12] in (b"", b"HTTP/1.1 408")


def slow_reader(side):
    """A client that does not read does not get all of a large file."""
    with side.connect() as client:
        client.sendall(f"GET /big.bin HTTP/1.1\r\nHost: {side.host}\r\n\r\n".encode())
        time.sleep(3)
        total = 0
        try:
            while part := client.recv(1 << 20):
                total += len(part)
        except OSError:
            pass
        return total < 64 << 20


def limited(target, seconds):
    def at_least(side):
        """Whether a response takes at least this time."""
        start = time.monotonic()
        status, _, body = side.ask(f"GET {target}")
        return status, len(body), time.monotonic() - start > seconds
    return at_least


def two_requests(side):
    """Two requests on one connection, the first with an unread body."""
    first = f"GET //sub/../a.txt HTTP/1.1\r\nHost: {side.host}\r\n\r\n"
    return side.send((first + side.bytes_of("GET /b.txt").decode()).encode())[2].split(b"HTTP/1.1")[0]


def old_client(side):
    """HTTP/1.0 gets no chunks, and the response ends with the connection."""
    status, fields, body = side.send(f"GET /a.php HTTP/1.0\r\nHost: {side.host}\r\n\r\n".encode())
    return status, fields.get("transfer-encoding"), b'"SCRIPT_NAME":"/a.php"' in body


def unread_body(side):
    """The response arrives even if the client still sends."""
    with side.connect() as client:
        client.sendall(f"POST /none HTTP/1.1\r\nHost: {side.host}\r\nContent-Length: 900000\r\n\r\n".encode())
        client.sendall(b"x" * 900_000)
        return client.recv(12)


CASES = [
    Case("root", "root location etag if_modified_since", "root /srv/www; location /sub/ { root /srv/other; }", [
        "200 GET /", "200 GET /a.txt?x", "404 GET /sub/c.txt", "200 GET /sub/e.txt", "404 GET /nowhere", "301 GET /dir",
        "200 HEAD /a.txt", "206 GET /a.txt | Range: bytes=1-3", "416 GET /a.txt | Range: bytes=100-",
        "304 GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT",
        "200 GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:19 GMT", "405 DELETE /a.txt",
    ], routes=[{"match": {"uri": "/sub/*"}, "action": {"share": "/srv/other$uri"}}, {"action": WWW}],
        fields="content-length"),
    Case("no-etag", "etag", "root /srv/www; etag off;", ["200 GET /a.txt"],
         {"share": "/srv/www$uri", "response_headers": {"ETag": None}}, fields="etag"),
    Case("alias", "alias", """
        root /srv/www; location ^~ /pr/ { alias /srv/other/; } location = /icon { alias /srv/www/a.css; default_type text/css; }
        """, ["200 GET /pr/a.txt", "200 GET /pr/sub/e.txt", "404 GET /pr/b.txt", "301 GET /pr/sub", "200 GET /a.txt",
              "200 GET /icon"],
         routes=[{"match": {"uri": "/pr/*"}, "action": {"share": "/srv/other$uri", "prefix": "/pr"}},
                 {"match": {"uri": "/icon"}, "action": {"share": "/srv/www/a.css"}}, {"action": WWW}]),
    Case("alias-php", "alias fastcgi_pass", """
        location ^~ /tool/ { alias /srv/php/; location ~ \\.php$ {
            include fastcgi_params; fastcgi_pass unix:/run/php.sock; fastcgi_param SCRIPT_FILENAME $request_filename; } }
        """, ["200 GET /tool/a.php?x=y", "200 GET /tool/sub/index.php", "200 GET /tool/a.txt"],
         {"share": "/srv/php$uri", "prefix": "/tool", "scripts": "applications/alias-php"},
         document={"applications": {"alias-php": FPM}}),
    Case("server-name", "server server_name", """
        root /srv/www; return 204; } server { listen 127.0.0.1:PORT; server_name exact.example *.star.example; root /srv/www; }
        server { listen 127.0.0.1:PORT; server_name ~^(?<site>[a-z]+)\\.regex\\.example$; root /srv/$site;
        """, ["200 GET /a.txt | Host: exact.example", "200 GET /a.txt | Host: EXACT.example:80", "200 GET /a.txt | Host: a.b.star.example",
              "404 GET /nowhere | Host: a.star.example", "200 GET /a.txt | Host: other.regex.example",
              "404 GET /a.txt | Host: none.regex.example", "204 GET /a.txt"],
         routes=[{"match": {"host": ["exact.example", "*.star.example"]}, "action": WWW},
                 {"match": {"host": "~^(?<site>[a-z]+)\\.regex\\.example$"}, "action": {"share": "/srv/$site$uri"}},
                 {"action": {"return": 204}}], listener={}),
    Case("locations", "location merge_slashes", """
        root /srv/www; location = /a.txt { return 201; } location /sub/ { return 202; } location ^~ /dir/ { return 203; }
        location ~ \\.css$ { return 204; } location ~* \\.TXT$ { return 205; }
        """, ["201 GET /a.txt", "202 GET /sub/x", "203 GET /dir/x.css", "204 GET /a.css", "205 GET /b.TxT", "205 GET /sub/c.txt",
              "200 GET /index.html", "201 GET //a.txt", "201 GET /x/../a.txt", "201 GET /%61.txt"],
         routes=[{"match": {"uri": "/a.txt"}, "action": {"return": 201}}, {"match": {"uri": "/dir/*"}, "action": {"return": 203}},
                 {"match": {"uri": "~\\.css$"}, "action": {"return": 204}},
                 {"match": {"uri": "~(?i)\\.txt$"}, "action": {"return": 205}},
                 {"match": {"uri": "/sub/*"}, "action": {"return": 202}}, {"action": WWW}]),
    Case("named-location", "location", "root /srv/www; location / { try_files $uri @other; } location @other { root /srv/other; }",
         ["200 GET /a.txt", "200 GET /sub/e.txt", "404 GET /nowhere"],
         {"share": "/srv/www$uri", "fallback": {"pass": "routes/other-files"}},
         document={"routes": {"other-files": [{"action": {"share": "/srv/other$uri"}}]}}),
    Case("body-size", "client_max_body_size", """
        client_max_body_size 100; location / { proxy_pass http://10.0.0.1:8080; }
        location /up { client_max_body_size 200; proxy_pass http://10.0.0.1:8080; }
        """, [f"200 POST /x | body={'a' * 100}", f"413 POST /x | body={'a' * 101}", f"200 POST /up | body={'a' * 101}",
              f"413 POST /up | body={'a' * 201}"],
         routes=[{"match": {"uri": "/up*"}, "action": {"proxy": "http://10.0.0.1:8080", "max_body_size": 200,
                                                     "request_headers": {"Host": "10.0.0.1:8080"}}},
                 {"action": {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "10.0.0.1:8080"}}}],
         document={"settings": {"http": {"max_body_size": 100}}}, group="sizes"),
    Case("header-size", "client_header_buffer_size large_client_header_buffers", """
        client_header_buffer_size 1k; large_client_header_buffers 2 1k; root /srv/www;
        """, [f"200 GET /a.txt?{'x' * 900}", f"414 GET /a.txt?{'x' * 1100}", f"200 GET /a.txt | X: {'x' * 900}",
              f"400/431 GET /a.txt | X: {'x' * 1100}", f"400/431 GET /a.txt | X: {'x' * 900} | Y: {'x' * 900} | Z: {'x' * 900} | A: {'x' * 900}"],
         WWW, listener={}, group="sizes",
         document={"settings": {"http": {"large_header_buffer_size": 1024, "large_header_buffers": 2}}}),
    Case("default-type", "default_type types", """
        root /srv/www; default_type application/x-any; types { text/x-new unknown; text/plain txt; }
        """, ["200 GET /a.unknown", "200 GET /none", "200 GET /a.txt", "200 GET /a.css"], WWW, group="sizes",
         document={"settings": {"http": {"static": {
             "default_type": "application/x-any", "builtin_types": False, "mime_types": {"text/x-new": ".unknown", "text/plain": ".txt"}}}}}),
    Case("without-type", "default_type", "root /srv/www; default_type '';", ["200 GET /none"], WWW),
    Case("server-tokens", "server_tokens", "root /srv/www; server_tokens off;",
         [lambda side: "/" in side.ask("GET /a.txt")[1]["server"]], WWW, group="sizes",
         document={"settings": {"http": {"server_version": False}}}),
    Case("server-tokens-on", "server_tokens", "root /srv/www;", [lambda side: "/" in side.ask("GET /a.txt")[1]["server"]], WWW),
    Case("unsafe-fields", "ignore_invalid_headers underscores_in_headers", """
        location / { proxy_set_header Host h; proxy_pass http://10.0.0.1:8080; }
        """, ["200 GET /x | a_b: 1 | a.b: 2 | a-b: 3"], {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "h"}}),
    Case("unsafe-fields-kept", "ignore_invalid_headers underscores_in_headers", """
        underscores_in_headers on; ignore_invalid_headers off;
        location / { proxy_set_header Host h; proxy_pass http://10.0.0.1:8080; }
        """, ["200 GET /x | a_b: 1 | a.b: 2 | a-b: 3"], {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "h"}},
         listener={}, document={"settings": {"http": {"discard_unsafe_fields": False}}}, group="sizes"),
    Case("links", "disable_symlinks", "root /srv/www; disable_symlinks on;", ["403 GET /link.txt", "200 GET /a.txt"],
         {"share": "/srv/www$uri", "follow_symlinks": False}, files={"www/link.txt": "-> /srv/www/a.txt"}),
    Case("links-followed", "disable_symlinks", "root /srv/www; disable_symlinks off;", ["200 GET /link.txt"],
         {"share": "/srv/www$uri", "follow_symlinks": True}, files={"www/link.txt": "-> /srv/www/a.txt"}),
    Case("error-page", "error_page", """
        root /srv/www; error_page 404 /50x.html; location = /gone { return 410; } error_page 410 = /a.txt;
        location = /busy { return 503; } error_page 503 @down; location @down { root /srv/other; try_files /a.txt =500; }
        location = /no { return 403; } error_page 403 https://example.org/;
        """, ["404 GET /nowhere", "200 GET /gone", "503 GET /busy", "302 GET /no", "404 HEAD /nowhere"],
         {"pass": "routes/error-page-in", "error_pages": {
             "404": {"action": {"rewrite": "/50x.html", "pass": "routes/error-page-in"}},
             "410": {"action": {"rewrite": "/a.txt", "pass": "routes/error-page-in"}, "keep_status": False},
             "503": {"action": {"pass": "routes/down"}},
             "403": {"action": {"return": 302, "location": "https://example.org/"}, "keep_status": False}}},
         document={"routes": {
             "down": [{"action": {"share": "/srv/other/a.txt"}}],
             "error-page-in": [{"match": {"uri": "/gone"}, "action": {"return": 410}},
                               {"match": {"uri": "/busy"}, "action": {"return": 503}},
                               {"match": {"uri": "/no"}, "action": {"return": 403}}, {"action": WWW}]}}),
    Case("error-page-status", "error_page", """
        root /srv/www; error_page 404 =410 /50x.html; error_page 403 405 =200 /a.txt; error_page 406 =503 @down;
        location /403 { return 403; } location /406 { return 406; } location @down { try_files /a.txt =404; }""",
         ["410 GET /nowhere", "200 GET /403", "200 POST /a.txt", "503 GET /406", "410 GET /nowhere | Range: bytes=0-1"],
         routes=[{"action": {"pass": "routes/error-page-status-in", "error_pages": {
             "404": {"action": {"share": "/srv/www/50x.html"}, "status": 410},
             "403": {"action": {"share": "/srv/www/a.txt"}, "status": 200}, "405": {"action": {"share": "/srv/www/a.txt"}, "status": 200},
             "406": {"action": {"share": "/srv/www/a.txt"}, "status": 503}}}}],
         document={"routes": {"error-page-status-in": [
             {"match": {"uri": "/403"}, "action": {"return": 403}}, {"match": {"uri": "/406"}, "action": {"return": 406}},
             {"action": WWW}]}}, body=True),
    Case("internal", "internal error_page", "root /srv/www; error_page 404 /50x.html; location = /50x.html { internal; }",
         ["404 GET /50x.html", "404 GET /nowhere"],
         {"pass": "routes/internal-in", "error_pages": {"404": {"action": {"rewrite": "/50x.html", "pass": "routes/internal-in"}}}},
         document={"routes": {"internal-in": [
             {"match": {"uri": "/50x.html"}, "action": {"share": "/srv/www$uri", "internal": True}}, {"action": WWW}]}}),
    Case("methods", "limit_except", """
        root /srv/www; location / { limit_except GET { deny all; } proxy_set_header Host h; proxy_pass http://10.0.0.1:8080; }
        """, ["200 GET /x", "200 HEAD /x", "403 POST /x", "403 DELETE /x"],
         routes=[{"match": {"method": ["GET", "HEAD"]}, "action": {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "h"}}},
                 {"action": {"return": 403}}]),
    Case("rate", "limit_rate limit_rate_after", "root /srv/www; limit_rate 32k; limit_rate_after 16k;",
         [limited("/long.txt", 0.9), "200 GET /a.txt"], {"share": "/srv/www$uri", "rate": {"rate": 32768, "after": 16384}},
         files={"www/long.txt": "0123456789abcde\n" * 8192}),
    Case("times", "client_header_timeout client_body_timeout keepalive_timeout send_timeout", """
        root /srv/www; client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s; send_timeout 1s;
        location /up { proxy_pass http://10.0.0.1:8080; }
        """, [slow_head, slow_body, idle_connection, slow_reader],
         routes=[{"match": {"uri": "/up"}, "action": {"proxy": "http://10.0.0.1:8080"}}, {"action": WWW}], listener={}, group="times",
         document={"settings": {"http": {"header_read_timeout": 1, "body_read_timeout": 1, "idle_timeout": 1, "send_timeout": 1}}},
         files={"www/big.bin": "zeros 67108864"}),
    Case("connections", "chunked_transfer_encoding keepalive_requests lingering_close merge_slashes", """
        root /srv/www; location ~ \\.php$ { root /srv/php; include fastcgi_params; fastcgi_pass unix:/run/php.sock;
            fastcgi_param SCRIPT_FILENAME $request_filename; }
        """, [two_requests, old_client, unread_body],
         routes=[{"match": {"uri": "*.php"}, "action": {"pass": "applications/connections"}}, {"action": WWW}],
         document={"applications": {"connections": FPM}}),
    Case("listen", "listen", "root /srv/www;", ["200 GET /a.txt", "301 GET /dir"], WWW, listener={"backlog": 128}, listen="backlog=128"),
    Case("listen-tls", "listen", "root /srv/www; ssl_certificate /srv/tls/chain.pem; ssl_certificate_key /srv/tls/key.pem;",
         ["200 GET /a.txt", "301 GET /dir"], WWW, listen="ssl http2",
         listener={"tls": {"certificate": {"chain": "/srv/tls/chain.pem", "key": "/srv/tls/key.pem"}}}),
    Case("max-ranges", "max_ranges", "root /srv/www;", ["206 GET /a.txt | Range: bytes=1-2", "206 GET /a.txt | Range: bytes=-3"], WWW,
         fields="content-length"),
    Case("redirects", "absolute_redirect port_in_redirect server_name_in_redirect", "root /srv/www; absolute_redirect off;",
         [lambda side: side.ask("GET /dir")[1].get("location"), lambda side: side.ask("GET /dir?a=b")[1].get("location")], WWW),
]
