"""The module fastcgi, with a real PHP-FPM."""

import json
import time

from . import Case, at_once, cache_status

FPM = {"type": "fastcgi", "server": "unix:/run/php.sock", "root": "/srv/php"}
# The content of a `location` with PHP-FPM.
PASS = """include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;"""

REPLY = """<?php
// Answers with what the query says.
if (isset($_GET['status'])) http_response_code((int) $_GET['status']);
if (isset($_GET['name'])) header("$_GET[name]: $_GET[value]");
if (isset($_GET['error'])) error_log($_GET['error']);
if (isset($_GET['early'])) { echo 'early'; flush(); }
if (isset($_GET['sleep'])) usleep((int) $_GET['sleep'] * 1000);
echo 'reply ', isset($_GET['unique']) ? hrtime(true) : '', strlen(file_get_contents('php://input')), "\\n";
"""
TELL_ALL = """<?php
header('Content-Type: application/json');
$told = [];
foreach ($_SERVER as $name => $value)
    if (!preg_match('/^(REQUEST_TIME|REMOTE_PORT|SERVER_PORT|SERVER_SOFTWARE|HTTP_CONNECTION|REQUEST_ID|FCGI_ROLE|USER|HOME|PATH|argv|argc)/', $name))
        $told[$name] = $value;
ksort($told);
echo json_encode($told, JSON_UNESCAPED_SLASHES), "\\n", json_encode([$_GET, $_POST]), ini_get('user_agent');
"""
FILES = {"php/reply.php": REPLY, "php/all.php": TELL_ALL, "php/50x.html": "our page\n"}


def differing_parameters(request):
    def parameters(side):
        """The parameters of a script, without those that the documentation says Howdah adds or nginx leaves empty."""
        text = side.ask(request)[2].split(b"\n")[0]
        told = json.loads(text)
        apart = ("HTTP_HOST", "PATH_TRANSLATED")  # Of CGI; nginx does not send it.
        return {name: value.strip() for name, value in told.items() if value != "" and name not in apart}
    return parameters


def early_part(side):
    """Whether the first part of a response arrives before the script has ended."""
    with side.connect() as client:
        client.sendall(side.bytes_of("GET /unbuffered/reply.php?early=1&sleep=8000"))
        start, received = time.monotonic(), b""
        while b"early" not in received and time.monotonic() - start < 30:
            received += client.recv(65536)
        return time.monotonic() - start < 7, b"reply" in received


def stale_then_new(request):
    def answers(side):
        """A stale response is sent at once, and a later request gets a new one."""
        first = side.ask(request)
        time.sleep(1.4)
        second, end = side.ask(request), time.monotonic() + 20
        while (third := side.ask(request))[2] == first[2] and time.monotonic() < end:
            time.sleep(0.1)
        return first[2] == second[2], first[2] == third[2], third[0]
    return answers


def fcgi(name, **more):
    return {"pass": f"applications/{name}"} | more


CASES = [
    Case("pass-request", "fastcgi_pass_request_body fastcgi_pass_request_headers", f"""
        root /srv/php; location = /all.php {{ fastcgi_pass_request_headers off; {PASS} }}
        location = /reply.php {{ fastcgi_pass_request_body off; {PASS} }}""",
         [differing_parameters("GET /all.php?a=b | X-Own: 1 | Cookie: c=d | Accept: x/y"), "200 POST /reply.php | body=abc", "200 GET /reply.php"],
         routes=[{"match": {"uri": "/all.php"}, "action": {"pass": "applications/pass-request", "pass_request_headers": False}},
                 {"action": {"pass": "applications/pass-request", "pass_request_body": False}}],
         document={"applications": {"pass-request": FPM}}, files=FILES),
    Case("fastcgi", "fastcgi_pass fastcgi_param fastcgi_split_path_info fastcgi_pass_header", f"""
        root /srv/php; location ~ ^(.+?\\.php)(/.*)?$ {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; {PASS} fastcgi_param PATH_INFO $fastcgi_path_info;
            fastcgi_param SITE "blog $host"; fastcgi_param PHP_VALUE "user_agent=mine"; fastcgi_param SERVER_NAME $host; }}
        """, [differing_parameters("GET /all.php?a=b&c=d | Cookie: e=f | X-Own: g | Referer: h"),
              differing_parameters("GET /all.php/path/info?x"), differing_parameters("POST /all.php | Content-Type: text/plain | body=abc"),
              "200 GET /a.php/path?x=y", "200 POST /a.php | Content-Type: application/x-www-form-urlencoded | body=a=b", "200 HEAD /a.php",
              "404 GET /reply.php?status=404", "302 GET /reply.php?name=Location&value=/x", "200 GET /reply.php?name=X-Powered-By&value=me",
              "200 GET /reply.php?name=Set-Cookie&value=a%3Db", "204 GET /reply.php?status=204",
              lambda side: side.ask("GET /all.php")[2].endswith(b"mine")],
         fcgi("fastcgi", environment={"SITE": "blog $host"}, options={"user": {"user_agent": "mine"}}), files=FILES,
         document={"applications": {"fastcgi": FPM}}),
    Case("fastcgi-params", "fastcgi_param", f"root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_param POOL own$uri; fastcgi_param HTTPS on; }}",
         ["200 GET /a.php"], fcgi("fastcgi-params"),
         document={"applications": {"fastcgi-params": FPM | {"params": {"POOL": "own$uri", "HTTPS": "on"}}}}),
    Case("fastcgi-upstream", "fastcgi_pass fastcgi_next_upstream fastcgi_next_upstream_tries fastcgi_next_upstream_timeout", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS.replace('unix:/run/php.sock', 'fpm_pool')} fastcgi_keep_conn on; fastcgi_next_upstream error;
            fastcgi_next_upstream_tries 2; fastcgi_next_upstream_timeout 10s; }}
        """, ["200 GET /a.php", "200 GET /a.php?again", "200 GET /a.php?third", "200 GET /a.php?fourth"], fcgi("fastcgi-upstream"),
         http="upstream fpm_pool { server 10.0.0.3:8080; server unix:/run/php.sock; keepalive 1; }",
         document={"applications": {"fastcgi-upstream": {"type": "fastcgi", "upstream": "fpm_pool", "root": "/srv/php"}},
                   "upstreams": {"fpm_pool": {"servers": {"10.0.0.3:8080": {}, "unix:/run/php.sock": {}}, "tries": 2,
                                              "retry": {"timeout": 10}}}}),
    Case("fastcgi-index", "fastcgi_index", f"root /srv/php; location / {{ {PASS} fastcgi_index index.php; }}", ["200 GET /sub/", "200 GET /?a=b"],
         fcgi("fastcgi-index"), document={"applications": {"fastcgi-index": FPM | {"index": "index.php"}}}),
    Case("fastcgi-errors", "fastcgi_intercept_errors", f"""
        root /srv/php; error_page 404 503 /50x.html; location ~ \\.php$ {{ {PASS} fastcgi_intercept_errors on; }} location /plain/ {{
            alias /srv/php/; location ~ \\.php$ {{ include fastcgi_params; fastcgi_param SCRIPT_FILENAME $request_filename; fastcgi_pass unix:/run/php.sock; }} }}
        """, ["404 GET /reply.php?status=404", "503 GET /reply.php?status=503&name=X-Own&value=a", "200 GET /reply.php", "500 GET /reply.php?status=500"],
         fcgi("fastcgi-errors", intercept_errors=True, error_pages={"404": "/srv/php/50x.html", "503": "/srv/php/50x.html"}), fields="x-own",
         document={"applications": {"fastcgi-errors": FPM}}),
    Case("fastcgi-hide", "fastcgi_hide_header", f"root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_hide_header X-Powered-By; }}",
         ["200 GET /a.php", "404 GET /a.php?status=404"],
         fcgi("fastcgi-hide", response_headers={"X-Powered-By": {"value": None, "always": True}}), document={"applications": {"fastcgi-hide": FPM}}),
    Case("fastcgi-times", "fastcgi_read_timeout fastcgi_connect_timeout fastcgi_send_timeout", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_read_timeout 1s; fastcgi_connect_timeout 1s; fastcgi_send_timeout 1s; }}
        location ^~ /far/ {{ include fastcgi_params; fastcgi_param SCRIPT_FILENAME /srv/php/a.php; fastcgi_pass 10.0.0.3:8080; }}
        """, ["504 GET /reply.php?sleep=4000", "502 GET /far/a.php"],
         routes=[{"match": {"uri": "/far/*"}, "action": {"pass": "applications/fastcgi-far"}}, {"action": fcgi("fastcgi-times")}],
         document={"applications": {"fastcgi-times": FPM | {"timeouts": {"first_byte": 1, "read": 1, "connect": 1, "send": 1}},
                                    "fastcgi-far": {"type": "fastcgi", "server": "10.0.0.3:8080", "root": "/none", "script": "a.php"}}}),
    Case("fastcgi-buffering", "fastcgi_buffering fastcgi_request_buffering", f"""
        root /srv/php; location /unbuffered/ {{ include fastcgi_params; alias /srv/php/; fastcgi_param SCRIPT_FILENAME $request_filename;
            fastcgi_pass unix:/run/php.sock; fastcgi_buffering off; fastcgi_request_buffering off; }}
        """, [early_part, "200 POST /unbuffered/reply.php | body=abc"],
         {"share": "/srv/php$uri", "prefix": "/unbuffered", "scripts": "applications/fastcgi-buffering", "buffering": False, "request_buffering": False},
         document={"applications": {"fastcgi-buffering": FPM}}),
    Case("fastcgi-cache", """fastcgi_cache fastcgi_cache_key fastcgi_cache_methods fastcgi_cache_min_uses fastcgi_cache_path fastcgi_cache_valid
         fastcgi_cache_bypass fastcgi_no_cache fastcgi_cache_revalidate""", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_cache fcgi_store; fastcgi_cache_key $uri$arg_key; fastcgi_cache_methods GET HEAD;
            fastcgi_cache_min_uses 2; fastcgi_cache_valid 200 10m; fastcgi_cache_bypass $cookie_user; fastcgi_no_cache $cookie_user; }}
        """, [cache_status(["GET /reply.php?unique&key=a"] * 4 + ["GET /reply.php?unique&key=b", "GET /reply.php?unique&key=a&other",
                                                            "GET /reply.php?unique&key=a | Cookie: user=me", "POST /reply.php?unique&key=c"])],
         fcgi("fastcgi-cache", cache={"name": "fcgi", "key": "$uri$arg_key", "min_uses": 2, "ttl": {"200": 600}, "memory": 1 << 21,
                                      "bypass": {"cookies": {"user": "*"}}}),
         http="fastcgi_cache_path @TMP@/fcgi_store keys_zone=fcgi_store:1m;", document={"applications": {"fastcgi-cache": FPM}}),
    Case("fastcgi-cache-lock", "fastcgi_cache_lock fastcgi_cache_lock_age fastcgi_cache_lock_timeout", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_cache fcgi_lock; fastcgi_cache_key $request_uri; fastcgi_cache_valid 200 10m;
            fastcgi_cache_lock on; fastcgi_cache_lock_timeout 30s; fastcgi_cache_lock_age 30s; }}
        """, [at_once("GET /reply.php?unique&sleep=1000", 4)],
         fcgi("fastcgi-cache-lock", cache={"name": "fcgi-lock", "ttl": {"200": 600}, "lock": True, "lock_timeout": 30, "memory": 1 << 21}),
         http="fastcgi_cache_path @TMP@/fcgi_lock keys_zone=fcgi_lock:1m;", document={"applications": {"fastcgi-cache-lock": FPM}}),
    Case("fastcgi-stale", "fastcgi_cache_use_stale", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_cache fcgi_stale; fastcgi_cache_key $uri; fastcgi_cache_valid 200 1s;
            fastcgi_cache_use_stale error timeout http_500 http_503; }}
        """, ["200 GET /reply.php", lambda side: time.sleep(1.4), "200 GET /reply.php?status=503"],
         fcgi("fastcgi-stale", cache={"name": "fcgi-stale", "key": "$uri", "ttl": {"200": 1}, "stale_if_error": 600, "memory": 1 << 21}),
         http="fastcgi_cache_path @TMP@/fcgi_stale keys_zone=fcgi_stale:1m;", document={"applications": {"fastcgi-stale": FPM}}),
    Case("fastcgi-background", "fastcgi_cache_background_update fastcgi_cache_use_stale", f"""
        root /srv/php; location ~ \\.php$ {{ {PASS} fastcgi_cache fcgi_back; fastcgi_cache_key $uri; fastcgi_cache_valid 200 1s;
            fastcgi_cache_use_stale updating; fastcgi_cache_background_update on; }}
        """, [stale_then_new("GET /reply.php?unique&sleep=50")],
         fcgi("fastcgi-background", cache={"name": "fcgi-back", "key": "$uri", "ttl": {"200": 1}, "stale_while_revalidate": 600,
                                           "background": True, "memory": 1 << 21}),
         http="fastcgi_cache_path @TMP@/fcgi_back keys_zone=fcgi_back:1m;", document={"applications": {"fastcgi-background": FPM}}),
]
