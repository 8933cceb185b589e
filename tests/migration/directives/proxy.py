"""The module proxy, with recording servers behind it."""

import time

from . import Case, at_once, cache_status, read_all

BACKEND = "10.0.0.1:8080"
PASS = f"proxy_set_header Host $http_host; proxy_pass http://{BACKEND};"


def upstream(name, **more):
    return {"upstreams": {name: {"servers": {BACKEND: {}}} | more}}


def streamed(side):
    """Whether the upstream has the head before the client has sent the body."""
    known = streamed_before(side)
    with side.connect() as client:
        client.sendall(f"POST /stream HTTP/1.1\r\nHost: {side.host}\r\nContent-Length: 3\r\nConnection: close\r\n\r\n".encode())
        end = time.monotonic() + 20
        while side.heads[0].count("POST /stream") == known and time.monotonic() < end:
            time.sleep(0.02)
        seen = side.heads[0].count("POST /stream") - known
        client.sendall(b"abc")
        return seen, read_all(client)[:12]


def streamed_before(side):
    return side.heads[0].count("POST /stream")


def stale_then_new(side):
    """A stale response is sent at once, and a later request gets a new one."""
    first = side.ask("GET /b")
    time.sleep(1.4)
    second, end = side.ask("GET /b"), time.monotonic() + 20
    while (third := side.ask("GET /b"))[1]["count"] == first[1]["count"] and time.monotonic() < end:
        time.sleep(0.1)
    return first[1]["count"] == second[1]["count"], first[1]["count"] == third[1]["count"], third[0]


CASES = [
    Case("accel-named", "location", f"""
        root /srv/other; location / {{ {PASS} }} location @files {{ try_files $uri =410; }}""",
         ["200 GET /a.txt | Reply-Field: X-Accel-Redirect=@files", "410 GET /nowhere?a=b | Reply-Field: X-Accel-Redirect=@files", "200 GET /a.txt"],
         {"pass": "upstreams/accel-named"},
         document=upstream("accel-named", named_redirects={"@files": "routes/accel-named-files"}) | {"routes": {"accel-named-files": [
             {"action": {"share": "/srv/other$uri", "fallback": {"return": 410}}}]}}),
    Case("proxy", "proxy_pass proxy_pass_header proxy_http_version", f"""
        location / {{ {PASS} }} location /api/ {{ proxy_set_header Host $http_host; proxy_pass http://{BACKEND}/v1/; }}
        location /far/ {{ proxy_pass http://10.0.0.3:8080; }}
        """, ["200 GET /a%20b/c?d=e | X-Own: f | Accept: g | Cookie: h=i | Cookie: j=k", "200 POST /form | body=a=b", "200 PUT /x | body=abc",
              "204 DELETE /x | Reply: 204", "200 HEAD /x", "404 GET /x | Reply: 404", "302 GET /x | Reply: 302 | Reply-Field: Location=/y",
              "200 GET /x | Reply-Field: X-Powered-By=b | Reply-Field: Set-Cookie=a=b | Reply-Field: Set-Cookie=c=d", "200 GET /api/items/3?x=y",
              "502 GET /far/x", "200 GET /x//y/../z", "200 GET /%2e/x", "200 GET /x | Range: bytes=0-3 | If-None-Match: \"a\""],
         routes=[{"match": {"uri": "~^/api/(.*)"}, "action": {"rewrite": "/v1/$1", "proxy": f"http://{BACKEND}"}},
                 {"match": {"uri": "/far/*"}, "action": {"proxy": "http://10.0.0.3:8080"}}, {"action": {"proxy": f"http://{BACKEND}"}}]),
    Case("proxy-headers", "proxy_set_header proxy_hide_header", f"""
        location / {{ proxy_set_header Host app.internal; proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Own "$uri x";
            proxy_set_header X-Drop ""; proxy_hide_header X-Powered-By; proxy_pass http://{BACKEND}; }}
        """, ["200 GET /x | X-Drop: a | X-Own: b | X-Forwarded-For: 192.0.2.1 | X-Real-IP: 192.0.2.2", "200 GET /x | Reply-Field: X-Powered-By=b",
              "404 GET /x | Reply: 404 | Reply-Field: X-Powered-By=b"],
         {"pass": "upstreams/headers", "response_headers": {"X-Powered-By": {"value": None, "always": True}}}, listener={},
         document=upstream("headers", host="app.internal", headers={"X-Own": "$uri x", "X-Drop": ""}, forwarded="x-forwarded")),
    Case("proxy-location-headers", "proxy_set_header", f"location / {{ proxy_set_header Host h; proxy_set_header A b; proxy_pass http://{BACKEND}; }}",
         ["200 GET /x | A: c"], {"proxy": f"http://{BACKEND}", "request_headers": {"Host": "h", "A": "b"}}),
    Case("proxy-errors", "proxy_intercept_errors", f"""
        root /srv/www; error_page 404 503 /50x.html; location = /50x.html {{ }} location / {{ proxy_intercept_errors on; {PASS} }}
        """, ["404 GET /x | Reply: 404 | Reply-Field: X-Own=a", "503 GET /x | Reply: 503", "500 GET /x | Reply: 500", "200 GET /x"],
         {"proxy": f"http://{BACKEND}", "intercept_errors": True, "error_pages": {"404": "/srv/www/50x.html", "503": "/srv/www/50x.html"}},
         fields="x-own"),
    Case("proxy-redirect", "proxy_redirect proxy_cookie_domain proxy_cookie_path", f"""
        location / {{ proxy_redirect http://{BACKEND}/ /; proxy_redirect http://app.internal/shop/ /; proxy_cookie_domain app.internal example.org;
            proxy_cookie_path /shop/ /; {PASS} }}
        """, [f"302 GET /x | Reply: 302 | Reply-Field: Location=http://{BACKEND}/y?z", "302 GET /x | Reply: 302 | Reply-Field: Location=http://app.internal/shop/y",
              "302 GET /x | Reply: 302 | Reply-Field: Location=http://elsewhere.example/y",
              "200 GET /x | Reply-Field: Set-Cookie=a=b; Domain=app.internal; Path=/shop/x; HttpOnly", "200 GET /x | Reply-Field: Set-Cookie=a=b; Path=/other"],
         {"pass": "upstreams/redirect"}, body=False,
         document=upstream("redirect", rewrite_location={"http://app.internal/shop/": "/"}, cookie_domain={"app.internal": "example.org"},
                           cookie_path={"/shop/": "/"})),
    Case("proxy-redirect-expression", "proxy_redirect", f"""
        location / {{ proxy_redirect ~^http://(other)\\.test:80/(.*)$ /$1-$2?h=$arg_h; proxy_redirect ~*^HTTP://APP /app; {PASS} proxy_redirect default;
            proxy_cookie_domain ~\\.?(app)\\.test$ $1.example; proxy_cookie_path ~*^/SHOP/(.*)$ /$1; }}
        """, ["302 GET /x?h=1 | Reply: 302 | Reply-Field: Location=http://other.test:80/a//b?c", "302 GET /x | Reply: 302 | Reply-Field: Location=http://apple/x",
              "302 GET /x | Reply: 302 | Reply-Field: Location=http://elsewhere.example/y", f"302 GET /x | Reply: 302 | Reply-Field: Location=http://{BACKEND}/y",
              "200 GET /x | Reply-Field: Set-Cookie=a=b; Domain=x.app.test; Path=/shop/x; HttpOnly", "200 GET /x | Reply-Field: Set-Cookie=a=b; Path=/other"],
         {"pass": "upstreams/redirect-expression"}, body=False,
         document=upstream("redirect-expression", rewrite_location={"~^http://(other)\\.test:80/(.*)$": "/$1-$2?h=$arg_h", "~(?i)^HTTP://APP": "/app"},
                           cookie_domain={"~\\.?(app)\\.test$": "$1.example"}, cookie_path={"~(?i)^/SHOP/(.*)$": "/$1"})),
    Case("proxy-cookie-flags", "proxy_cookie_flags", f"""
        location / {{ proxy_cookie_flags one secure httponly samesite=strict; proxy_cookie_flags two nosecure nohttponly samesite=none;
            proxy_cookie_flags ~^p nosamesite; proxy_cookie_flags ~. secure; {PASS} }}
        """, [f"200 GET /x | Reply-Field: Set-Cookie={cookie}" for cookie in [
            "one=1", "TWO=2; path=/a;secure ;HttpOnly; samesite=lax", "three=3; SECURE; Domain=a.b.c; Foo", "four", "php=1; SameSite=Lax",
            "one=1; samesite=lax; secure"]],
         {"pass": "upstreams/cookie-flags"}, body=False,
         document=upstream("cookie-flags", cookie_flags={
             "one": ["secure", "httponly", "samesite=strict"], "two": ["nosecure", "nohttponly", "samesite=none"],
             "~^p": "nosamesite", "*": "secure"})),
    Case("proxy-pass-request", "proxy_pass_request_body proxy_pass_request_headers", f"""
        location /bare/ {{ proxy_pass_request_headers off; proxy_set_header A b; {PASS} }}
        location /empty/ {{ proxy_pass_request_body off; proxy_set_header Content-Length ""; {PASS} }}""",
         ["200 GET /bare/x | Cookie: a=b | Authorization: Basic YTpi | X-Own: 1", "200 POST /bare/x | X-Own: 1 | body=abc",
          "200 GET /empty/x | X-Own: 1"],
         routes=[{"match": {"uri": "/bare/*"}, "action": {"pass": "upstreams/pass-request", "pass_request_headers": False,
                                                         "request_headers": {"A": "b"}}},
                 {"action": {"pass": "upstreams/pass-request", "pass_request_body": False}}],
         document=upstream("pass-request")),
    Case("proxy-tries", "proxy_next_upstream proxy_next_upstream_tries proxy_next_upstream_timeout", """
        proxy_next_upstream error timeout http_503; proxy_next_upstream_tries 2; proxy_next_upstream_timeout 10s; proxy_set_header Host h;
        location / { proxy_pass http://one_is_down; } location /two/ { proxy_pass http://both_are_up; }
        """, ["200 GET /x", "200 GET /y", "200 GET /z", "200 POST /x | body=abc", "503 GET /two/x | Reply: 503", "502 GET /two/x | Reply: close",
              "200 GET /two/x", "404 GET /two/x | Reply: 404"],
         routes=[{"match": {"uri": "/two/*"}, "action": {"pass": "upstreams/both-are-up"}}, {"action": {"pass": "upstreams/one-is-down"}}],
         http="""upstream one_is_down { server 10.0.0.3:8080 max_fails=0; server 10.0.0.1:8080 max_fails=0; }
                 upstream both_are_up { server 10.0.0.1:8080 max_fails=0; server 10.0.0.2:8080 max_fails=0; }""",
         document={"upstreams": {name: {"servers": {first: {}, BACKEND: {}}, "host": "h", "tries": 2,
                                        "retry": {"on": ["error", "timeout", 503], "timeout": 10}}
                                 for name, first in (("one-is-down", "10.0.0.3:8080"), ("both-are-up", "10.0.0.2:8080"))}}),
    Case("proxy-times", "proxy_read_timeout proxy_connect_timeout proxy_send_timeout", f"""
        location / {{ proxy_read_timeout 1s; proxy_connect_timeout 1s; proxy_send_timeout 1s; {PASS} }}
        """, ["504 GET /x | Reply-After: 4"], {"pass": "upstreams/times"},
         document=upstream("times", timeouts={"first_byte": 1, "read": 1, "connect": 1, "send": 1})),
    Case("proxy-location-times", "proxy_read_timeout", f"location / {{ proxy_read_timeout 1s; {PASS} }}", ["504 GET /x | Reply-After: 4"],
         {"proxy": f"http://{BACKEND}", "timeouts": {"first_byte": 1, "read": 1}}),
    Case("proxy-buffering", "proxy_buffering proxy_request_buffering", f"location / {{ proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; {PASS} }}",
         [streamed, "200 POST /x | body=abc"], {"proxy": f"http://{BACKEND}", "buffering": False, "request_buffering": False}),
    Case("proxy-cache", """proxy_cache proxy_cache_key proxy_cache_methods proxy_cache_min_uses proxy_cache_path proxy_cache_valid proxy_cache_bypass
         proxy_no_cache proxy_cache_convert_head""", f"""
        location / {{ proxy_cache http_store; proxy_cache_key $uri$arg_key; proxy_cache_methods GET HEAD; proxy_cache_min_uses 2; proxy_cache_valid 200 10m;
            proxy_cache_bypass $cookie_user; proxy_no_cache $cookie_user; {PASS} }}
        """, [cache_status(["GET /c?key=a"] * 4 + ["GET /c?key=b", "GET /c?key=a&other", "HEAD /c?key=a", "GET /c?key=a | Cookie: user=me", "GET /c?key=a",
                            "POST /c?key=c", "GET /c?key=e | Reply: 404", "GET /c?key=e | Reply: 404", "GET /c?key=e | Reply: 404"])],
         {"proxy": f"http://{BACKEND}", "cache": {"name": "http", "key": "$uri$arg_key", "min_uses": 2, "ttl": {"200": 600}, "memory": 1 << 21,
                                                  "bypass": {"cookies": {"user": "*"}}}},
         http="proxy_cache_path @TMP@/http_store keys_zone=http_store:1m;"),
    Case("proxy-cache-lock", "proxy_cache_lock proxy_cache_lock_age proxy_cache_lock_timeout", f"""
        location / {{ proxy_cache lock_store; proxy_cache_valid 200 10m; proxy_cache_lock on; proxy_cache_lock_timeout 30s; proxy_cache_lock_age 30s; {PASS} }}
        """, [at_once("GET /l | Reply-After: 1", 4)],
         {"proxy": f"http://{BACKEND}", "cache": {"name": "lock", "ttl": {"200": 600}, "lock": True, "lock_timeout": 30, "memory": 1 << 21}},
         http="proxy_cache_path @TMP@/lock_store keys_zone=lock_store:1m;"),
    Case("proxy-stale", "proxy_cache_use_stale", f"""
        location / {{ proxy_cache stale_store; proxy_cache_valid 200 1s; proxy_cache_use_stale error timeout http_500 http_503; {PASS} }}
        """, ["200 GET /s", lambda side: time.sleep(1.3), "200 GET /s | Reply: 503", "200 GET /s | Reply: close"],
         {"proxy": f"http://{BACKEND}", "cache": {"name": "stale", "ttl": {"200": 1}, "stale_if_error": 600, "memory": 1 << 21}}, body=False,
         http="proxy_cache_path @TMP@/stale_store keys_zone=stale_store:1m;"),
    Case("proxy-background", "proxy_cache_background_update proxy_cache_use_stale", f"""
        location / {{ proxy_cache back_store; proxy_cache_valid 200 1s; proxy_cache_use_stale updating; proxy_cache_background_update on; {PASS} }}
        """, [stale_then_new],
         {"proxy": f"http://{BACKEND}", "cache": {"name": "back", "ttl": {"200": 1}, "stale_while_revalidate": 600, "background": True, "memory": 1 << 21}},
         http="proxy_cache_path @TMP@/back_store keys_zone=back_store:1m;"),
    Case("proxy-tls", """proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_name proxy_ssl_server_name proxy_ssl_trusted_certificate proxy_ssl_verify""", """
        location / { proxy_ssl_verify on; proxy_ssl_trusted_certificate /srv/tls/chain.pem; proxy_ssl_name www.example.org; proxy_ssl_server_name on;
            proxy_ssl_certificate /srv/tls/chain.pem; proxy_ssl_certificate_key /srv/tls/key.pem; proxy_set_header Host h; proxy_pass https://10.0.0.4:8080; }
        location /wrong/ { proxy_ssl_verify on; proxy_ssl_trusted_certificate /srv/tls/chain.pem; proxy_ssl_name other.example.org;
            proxy_ssl_server_name on; proxy_pass https://10.0.0.4:8080; }
        location /trusting/ { proxy_ssl_session_reuse off; proxy_ssl_server_name on; proxy_ssl_name x.example.org; proxy_set_header Host h; proxy_pass https://10.0.0.4:8080; }
        """, ["200 GET /x", "502 GET /wrong/x", "200 GET /trusting/x"],
         routes=[{"match": {"uri": "/wrong/*"}, "action": {"pass": "upstreams/tls-wrong"}},
                 {"match": {"uri": "/trusting/*"}, "action": {"pass": "upstreams/tls-trusting"}}, {"action": {"pass": "upstreams/tls"}}],
         document={"upstreams": {
             "tls": {"servers": {"10.0.0.4:8080": {}}, "host": "h", "tls": {
                 "authorities": "/srv/tls/chain.pem", "server_name": "www.example.org", "certificate": {"chain": "/srv/tls/chain.pem", "key": "/srv/tls/key.pem"}}},
             "tls-wrong": {"servers": {"10.0.0.4:8080": {}}, "tls": {"authorities": "/srv/tls/chain.pem", "server_name": "other.example.org"}},
             "tls-trusting": {"servers": {"10.0.0.4:8080": {}}, "host": "h", "tls": {"verify": False, "server_name": "x.example.org"}}}}),
]
