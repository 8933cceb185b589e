"""The modules log, headers_filter and rewrite."""

import json
import time

from . import Case

WWW = {"share": "/srv/www$uri"}
TO_BACKEND = {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "h"}}
TO_NGINX_BACKEND = "proxy_set_header Host h; proxy_pass http://10.0.0.1:8080;"


def json_lines(path, number):
    def values(side):
        """The values of the lines of a log, as JSON, in an order of their own: threads write at different times."""
        end = time.monotonic() + 20
        while side.read(path).count("\n") < number and time.monotonic() < end:
            time.sleep(0.02)
        return [json.loads(line) for line in sorted(side.read(path).splitlines())]
    return values


def empty_log(path):
    def is_empty(side):
        """A log without a line, once a later request has been written to another one."""
        time.sleep(0.2)
        return side.read(path)
    return is_empty


def expires_in(request, low, high):
    def is_between(side):
        """Whether a response expires within these seconds, and says the same in both fields."""
        status, fields, _ = side.ask(request)
        age = int(fields.get("cache-control", "max-age=-1").split("max-age=")[1].split(",")[0])
        return status, low <= age <= high, "expires" in fields
    return is_between


CASES = [
    Case("log", "access_log log_format", """
        root /srv/www; access_log /var/log/site.log; location /quiet/ { access_log off; }
        location /api/ { access_log /var/log/api.log own; return 204; }
        """, ["200 GET /a.txt?x=y | Referer: http://r/ | User-Agent: a \"b\" \\ c", "404 GET /quiet/x", "204 GET /api/x",
              "200 HEAD /a.txt", "206 GET /a.txt | Range: bytes=1-2"],
         {"pass": "routes/log-in", "access_log": "/var/log/site.log"}, log="site.log", lines=3,
         document={"routes": {"log-in": [{"match": {"uri": "/quiet/*"}, "action": {"share": "/srv/www$uri", "access_log": False}},
                                         {"match": {"uri": "/api/*"}, "action": {"return": 204, "access_log": {
                                             "path": "/var/log/api.log", "format": "own $uri"}}}, {"action": WWW}]}},
         http="log_format own 'own $uri';"),
    Case("log-location", "access_log log_format", """
        access_log off; location / { access_log /var/log/format.log format; return 204; }
        """, ["204 GET /a%20b?x=y&z | Referer: http://r/ | Cookie: c=d; e=f", "204 GET /", "204 POST /x | body=abc"],
         {"return": 204, "access_log": {"path": "/var/log/format.log", "format":
          "$remote_addr $remote_user $method $request_line $uri $args $is_args $host $scheme $server_protocol $status "
          "$body_bytes_sent $arg_x $cookie_c $header_referer $server_addr $https $hostname $request_time $msec"}},
         http="""log_format format '$remote_addr $remote_user $request_method $request $uri $args $is_args $host $scheme '
             '$server_protocol $status $body_bytes_sent $arg_x $cookie_c $http_referer $server_addr $https $hostname '
             '$request_time $msec';""",
         log="format.log", lines=3),
    Case("log-json", "access_log log_format", "access_log /var/log/json.log json; return 204;",
         ["204 GET /a\"b%5C?x | User-Agent: \"q\"", "204 GET /b", json_lines("/var/log/json.log", 2)],
         {"return": 204, "access_log": {"path": "/var/log/json.log", "absent": "", "format": {"args": "$args", "line": "$request_line", "agent": "$header_user_agent",
                                                                          "status": "$status"}}},
         http="""log_format json escape=json '{"args":"$args","line":"$request","agent":"$http_user_agent","status":"$status"}';"""),
    Case("log-if", "access_log", "access_log /var/log/if.log combined flush=1s buffer=4k if=$log_if; return 204;",
         ["204 GET /a", "204 GET /quiet", "204 GET /b"], {"return": 204, "access_log": {"path": "/var/log/if.log", "if": "$log_if", "flush": 1}},
         http="map $uri $log_if { /quiet 0; default 1; }", log="if.log", lines=2,
         document={"variables": {"log_if": {"map": "$uri", "values": {"/quiet": "0"}, "default": "1"}}}),
    Case("log-upstream", "access_log log_format", f"access_log /var/log/upstream.log upstream; {'location / {'} {TO_NGINX_BACKEND} }}",
         ["200 GET /x", "503 GET /y | Reply: 503"],
         TO_BACKEND | {"access_log": {"path": "/var/log/upstream.log", "format": "$upstream_addr $upstream_status $upstream_response_time"}},
         http="log_format upstream '$upstream_addr $upstream_status $upstream_response_time';", log="upstream.log", lines=2),
    Case("add-header", "add_header", f"""
        root /srv/www; add_header X-A "$uri b"; add_header X-Always 1 always; error_page 404 /50x.html;
        location /up/ {{ add_header X-C c; {TO_NGINX_BACKEND} }} location /moved {{ add_header X-M m; return 301 /a; }}
        """, ["200 GET /a.txt", "404 GET /nowhere", "200 GET /up/x", "404 GET /up/y | Reply: 404", "301 GET /moved", "204 GET /up/z | Reply: 204",
              "206 GET /a.txt | Range: bytes=0-1", "304 GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"],
         {"pass": "routes/add-header-in", "error_pages": {"404": {"action": {
             "share": "/srv/www/50x.html", "response_headers": {"X-Always": {"value": "1", "always": True}}}}}},
         document={"routes": {"add-header-in": [
             {"match": {"uri": "/up/*"}, "action": TO_BACKEND | {"response_headers": {"X-C": "c"}}},
             {"match": {"uri": "/moved"}, "action": {"return": 301, "location": "/a", "response_headers": {"X-M": "m"}}},
             {"action": WWW | {"response_headers": {"X-A": "$uri b", "X-Always": {"value": "1", "always": True}}}}]}},
         fields="x-a x-always x-c x-m"),
    Case("add-header-beside", "add_header", f"""
        add_header X-Reply own; add_header X-Reply more; add_header Vary Origin; add_header X-None $arg_none; add_header Link <$arg_a> always;
        location / {{ {TO_NGINX_BACKEND} }}""",
         ["200 GET /a?a=b", "404 GET /a | Reply: 404"],
         TO_BACKEND | {"response_headers": {
             "X-Reply": {"value": ["own", "more"], "mode": "add"}, "Vary": {"value": "Origin", "mode": "add"},
             "X-None": {"value": "$arg_none", "mode": "add"}, "Link": {"value": "<$arg_a>", "mode": "add", "always": True}}},
         fields="x-reply vary x-none link x-evil"),
    Case("expires", "expires", """
        root /srv/www; expires $by_type; location /sub/ { expires 1h; } location = /index.html { expires epoch; }
        location = /b.txt { expires max; } location = /large.txt { expires modified +24h; } location = /50x.html { expires -1; }
        """, [expires_in("GET /a.txt", 86300, 86400), expires_in("GET /a.css", -1, -1), expires_in("GET /sub/c.txt", 3500, 3600),
              "404 GET /sub/nowhere", lambda side: side.ask("GET /index.html")[1]["cache-control"],
              lambda side: side.ask("GET /index.html")[1]["expires"], lambda side: side.ask("GET /b.txt")[1]["cache-control"],
              lambda side: side.ask("GET /large.txt")[1]["expires"], lambda side: side.ask("GET /50x.html")[1]["cache-control"]],
         routes=[{"match": {"uri": "/sub/*"}, "action": WWW | {"expires": "1h"}},
                 {"match": {"uri": "/index.html"}, "action": WWW | {"expires": "epoch"}},
                 {"match": {"uri": "/b.txt"}, "action": WWW | {"expires": "max"}},
                 {"match": {"uri": "/large.txt"}, "action": WWW | {"expires": "modified +24h"}},
                 {"match": {"uri": "/50x.html"}, "action": WWW | {"expires": "-1"}},
                 {"action": WWW | {"expires": {"text/plain": "1d", "*": "off"}}}],
         http="map $sent_http_content_type $by_type { default off; text/plain 1d; }"),
    Case("if", "if", """
        root /srv/www; if ($arg_a = b) { return 201; } if ($http_user_agent ~* Old) { return 202; } if ($request_method = DELETE) { return 203; }
        if ($cookie_c) { return 204; } if ($host ~ ^www\\.) { return 205; } if ($scheme = https) { return 206; }
        if (!-e $request_filename) { return 410; } if (-d $request_filename) { return 207; } if ($remote_addr = 127.0.0.9) { return 208; }
        if (-x $request_filename) { return 209; } location / { if (-f $request_filename) { return 210; } }
        """, ["201 GET /a.txt?a=b", "202 GET /a.txt | User-Agent: very old", "203 DELETE /a.txt", "204 GET /a.txt | Cookie: c=d",
              "205 GET /a.txt | Host: www.if.test", "410 GET /nowhere", "207 GET /dir/", "209 GET /run.sh", "210 GET /a.txt"],
         routes=[{"match": match, "action": {"return": status}} for match, status in [
             ({"arguments": {"a": "b"}}, 201), ({"headers": {"User-Agent": "~(?i)Old"}}, 202), ({"method": "DELETE"}, 203),
             ({"if": "$cookie_c"}, 204), ({"host": "~^www\\."}, 205), ({"scheme": "https"}, 206), ({"exists": "!/srv/www$uri"}, 410),
             ({"directory": "/srv/www$uri"}, 207), ({"source": "127.0.0.9"}, 208), ({"executable": "/srv/www$uri"}, 209),
             ({"file": "/srv/www$uri"}, 210)]], files={"www/run.sh": "#!/bin/sh\n"}),
    Case("return", "return", """
        location /moved { return 301 /a$is_args$args; } location /https { return 302 https://$host$request_uri; }
        location /gone { return 410; } location /no { return 403; } location /other { return 307 http://example.org/$uri; }
        location /perm { return 308 /x; } location /see { return 303 /y; } location /robots.txt { return 200 "Disallow: $uri$is_args$args\\n"; }
        location /busy { default_type application/json; return 503 '{"to": "$host"}'; } location /empty { return 200 ""; }
        """, ["301 GET /moved", "301 GET /moved?a=b", "302 GET /https/a%20b?c", "410 GET /gone", "403 POST /no", "307 POST /other/a",
              "308 GET /perm", "303 GET /see", "301 HEAD /moved", "200 GET /robots.txt?a=b", "200 HEAD /robots.txt", "200 POST /robots.txt",
              "503 GET /busy", "200 GET /empty"], fields="content-length",
         routes=[{"match": {"uri": f"/{name}*"}, "action": action} for name, action in {
             "moved": {"return": 301, "location": "/a$is_args$args"}, "https": {"return": 302, "location": "https://$host$request_uri"},
             "gone": {"return": 410}, "no": {"return": 403}, "other": {"return": 307, "location": "http://example.org/$uri"},
             "perm": {"return": 308, "location": "/x"}, "see": {"return": 303, "location": "/y"},
             "robots.txt": {"return": 200, "body": "Disallow: $uri$is_args$args\n", "response_headers": {"Content-Type": "text/plain"}},
             "busy": {"return": 503, "body": '{"to": "$host"}', "response_headers": {
                 "Content-Type": {"value": "application/json", "always": True}}},
             "empty": {"return": 200, "body": "", "response_headers": {"Content-Type": "text/plain"}}}.items()]),
    Case("rewrite", "rewrite", f"""
        rewrite ^/items/([0-9]+)$ /item?id=$1 last; rewrite ^/old/(.*)$ /new/$1 permanent; rewrite ^/temp/(.*)$ /other/$1 redirect;
        rewrite ^/drop/(.*)$ /kept/$1? last; rewrite ^/go/(.*)$ http://example.org/$1; rewrite ^/deco/(?<rest>.*)$ /d?path=$rest last;
        location / {{ {TO_NGINX_BACKEND} }} location /brk/ {{ rewrite ^/brk/(.*) /b/$1 break; {TO_NGINX_BACKEND} }}
        """, ["200 GET /items/3", "200 GET /items/3?x=y", "301 GET /old/a", "301 GET /old/a?x=y", "302 GET /temp/b%20c?x", "200 GET /drop/a?x=y",
              "302 GET /go/z?x=y", "200 GET /brk/x?y", "200 GET /other", "200 GET /deco/x/y?z"],
         routes=[{"match": {"uri": "~^/items/([0-9]+)$"}, "action": TO_BACKEND | {"rewrite": "/item?id=$1"}},
                 {"match": {"uri": "~^/old/(.*)$"}, "action": {"return": 301, "location": "/new/$1", "keep_query": True}},
                 {"match": {"uri": "~^/temp/(.*)$"}, "action": {"return": 302, "location": "/other/$1", "keep_query": True}},
                 {"match": {"uri": "~^/drop/(.*)$"}, "action": TO_BACKEND | {"rewrite": "/kept/$1?"}},
                 {"match": {"uri": "~^/go/(.*)$"}, "action": {"return": 302, "location": "http://example.org/$1", "keep_query": True}},
                 {"match": {"uri": "~^/brk/(.*)"}, "action": TO_BACKEND | {"rewrite": "/b/$1"}},
                 {"match": {"uri": "~^/deco/(?<rest>.*)$"}, "action": TO_BACKEND | {"rewrite": "/d?path=$rest"}},
                 {"action": TO_BACKEND}]),
    Case("rewrite-last", "rewrite break", """
        root /srv/www; location = /x { rewrite ^ /sub/c.txt last; } location /sub/ { return 205; }
        """, ["205 GET /x", "200 GET /a.txt"],
         routes=[{"match": {"uri": "/x"}, "action": {"rewrite": "/sub/c.txt", "pass": "routes/rewrite-last"}},
                 {"match": {"uri": "/sub/*"}, "action": {"return": 205}}, {"action": WWW}]),
    Case("set", "set", "root /srv/; set $place other; if ($arg_w) { set $place www; } location / { try_files /$place$uri =404; }",
         ["200 GET /a.txt", "200 GET /a.txt?w=1", "404 GET /b.txt"],
         {"share": "/srv/$place$uri"}, document={"variables": {"place": {"map": "$arg_w", "values": {"": "other"}, "default": "www"}}}),
]
