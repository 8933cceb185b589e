"""The modules realip, access, auth_basic, auth_request, mirror, limit_conn and limit_req."""

import base64
import hashlib
import select
import time

from . import Case

WWW = {"share": "/srv/www$uri"}
TO_BACKEND = {"proxy": "http://10.0.0.1:8080", "request_headers": {"Host": "h"}}
NGINX_TO_BACKEND = "proxy_set_header Host h; proxy_pass http://10.0.0.1:8080;"


def salted(password):
    return "{SSHA}" + base64.b64encode(hashlib.sha1(password.encode() + b"salt").digest() + b"salt").decode()


def basic(text):
    return "Authorization: Basic " + base64.b64encode(text.encode()).decode()


def times(number, request):
    def statuses(side):
        """The statuses of requests that follow at once."""
        return [{503: "refused", 429: "refused"}.get(status, status) for status in
                (side.ask(request)[0] for _ in range(number))]
    return statuses


def while_one_waits(request):
    def statuses(side):
        """A second request is refused while the first one has not been answered, and not after its end."""
        end = time.monotonic() + 30
        during = 200
        while during == 200 and time.monotonic() < end:
            with side.connect() as first:
                first.sendall(side.bytes_of("GET /slow | Reply-After: 20"))
                # The first one is answered early if it came beside one of the others: it is sent again.
                while during == 200 and not select.select([first], [], [], 0.05)[0] and time.monotonic() < end:
                    during = side.ask(request)[0]
        while (after := side.ask(request)[0]) != 200 and time.monotonic() < end:
            time.sleep(0.05)
        return during in (429, 503), after
    return statuses


def mirrored(request):
    def copies(side):
        """The request that a second server gets, without the fields that each server adds of its own."""
        line = request.split(" | ")[0]

        def copied():
            return [told for told in list(side.recorders[1]) if told["line"] == line]
        known = len(copied())
        side.ask(request)
        end = time.monotonic() + 20
        while len(copied()) == known and time.monotonic() < end:
            time.sleep(0.02)
        apart = ("x-howdah-mirror", "host:")
        return [(copy["line"], [field for field in copy["fields"] if not field.startswith(apart)], copy["body"])
                for copy in copied()[known:]]
    return copies


def passes_on(field):
    def told(side):
        """Whether the upstream is told this field."""
        return field in side.ask("GET /in | Cookie: user=me")[2].decode()
    return told


# "password", by openssl passwd.
USERS = "me:$apr1$salt0001$AJtFUFSnd5rR7IJDbrxw6/\nsha:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n"

STAFF = {"realm": "Staff", "users_file": "/srv/users/list"}

CASES = [
    Case("realip", "real_ip_header set_real_ip_from", """
        set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; access_log /var/log/realip.log real_format; return 204;
        """, ["204 GET / | X-Forwarded-For: 192.0.2.7", "204 GET / | X-Forwarded-For: 192.0.2.7, 192.0.2.8", "204 GET /",
              "204 GET / | X-Forwarded-For: garbage", "204 GET / | X-Forwarded-For: 2001:db8::1"],
         {"return": 204, "access_log": {"path": "/var/log/realip.log", "format": "$remote_addr"}}, http="log_format real_format '$remote_addr';",
         listener={"forwarded": {"source": "127.0.0.1", "client_ip": "X-Forwarded-For"}}, log="realip.log", lines=5),
    Case("realip-recursive", "real_ip_recursive", """
        set_real_ip_from 127.0.0.1; set_real_ip_from 10.0.0.0/8; real_ip_header X-Real; real_ip_recursive on;
        access_log /var/log/recursive.log recursive_format; return 204;
        """, ["204 GET / | X-Real: 192.0.2.7, 10.1.1.1", "204 GET / | X-Real: 192.0.2.7, 192.0.2.8, 10.1.1.1, 10.2.2.2",
              "204 GET / | X-Real: 10.3.3.3, 10.1.1.1"],
         {"return": 204, "access_log": {"path": "/var/log/recursive.log", "format": "$remote_addr"}},
         listener={"forwarded": {"source": ["127.0.0.1", "10.0.0.0/8"], "client_ip": "X-Real", "recursive": True}},
         http="log_format recursive_format '$remote_addr';", log="recursive.log", lines=3),
    Case("realip-untrusted", "set_real_ip_from", """
        set_real_ip_from 192.0.2.1; real_ip_header X-Forwarded-For; access_log /var/log/untrusted.log untrusted_format; return 204;
        """, ["204 GET / | X-Forwarded-For: 192.0.2.7"],
         {"return": 204, "access_log": {"path": "/var/log/untrusted.log", "format": "$remote_addr"}},
         listener={"forwarded": {"source": "192.0.2.1", "client_ip": "X-Forwarded-For"}}, http="log_format untrusted_format '$remote_addr';", log="untrusted.log", lines=1),
    Case("proxy-protocol", "real_ip_header", """
        set_real_ip_from 127.0.0.1; real_ip_header proxy_protocol; access_log /var/log/pp.log pp_format; return 204;
        """, [lambda side: side.send(b"PROXY TCP4 192.0.2.9 192.0.2.1 999 80\r\n" + side.bytes_of("GET /"))[0]],
         {"return": 204, "access_log": {"path": "/var/log/pp.log", "format": "$remote_addr"}}, listen="proxy_protocol",
         listener={"proxy_protocol": {"source": "127.0.0.1"}}, http="log_format pp_format '$remote_addr';", log="pp.log", lines=1),
    Case("access", "allow deny", """
        root /srv/www; location /sub/ { deny 127.0.0.1; allow all; } location /in/ { allow 127.0.0.0/8; deny all; alias /srv/www/; }
        location /six/ { allow 2001:db8::/32; deny all; } location /none/ { deny all; }
        """, ["403 GET /sub/c.txt", "200 GET /in/a.txt", "403 GET /six/a.txt", "403 GET /none/a.txt", "200 GET /a.txt"],
         routes=[{"match": {"uri": "/sub/*"}, "action": WWW | {"deny": "127.0.0.1"}},
                 {"match": {"uri": "/in/*"}, "action": WWW | {"prefix": "/in", "allow": "127.0.0.0/8"}},
                 {"match": {"uri": "/six/*"}, "action": WWW | {"allow": "2001:db8::/32"}},
                 {"match": {"uri": "/none/*"}, "action": WWW | {"allow": []}}, {"action": WWW}]),
    Case("auth-basic", "auth_basic auth_basic_user_file", f"""
        root /srv/www; auth_basic Staff; auth_basic_user_file /srv/users/list;
        location /open/ {{ auth_basic off; alias /srv/www/; }}
        """, ["401 GET /a.txt", f"200 GET /a.txt | {basic('me:password')}", f"401 GET /a.txt | {basic('me:wrong')}",
              f"401 GET /a.txt | {basic('nobody:password')}", f"200 GET /a.txt | {basic('sha:password')}", "200 GET /open/a.txt",
              "401 GET /a.txt | Authorization: Bearer x", f"404 GET /nowhere | {basic('me:password')}"],
         routes=[{"match": {"uri": "/open/*"}, "action": WWW | {"prefix": "/open"}},
                 {"action": WWW | {"basic_auth": {"realm": "Staff", "users_file": "/srv/users/list"}}}], files={"users/list": USERS}),
    Case("auth-basic-variables", "auth_basic auth_basic_user_file", f"""
        root /srv/www; auth_basic $realm; auth_basic_user_file /srv/users/of-$arg_site;
        """, ["401 GET /a.txt", f"200 GET /a.txt?site=one | {basic('plain:a b')}", f"401 GET /a.txt?site=one | {basic('plain:a')}",
              f"200 GET /a.txt?site=one | {basic('salted:password')}", f"401 GET /a.txt?site=one | {basic('salted:passwords')}",
              f"403 GET /a.txt?site=none | {basic('plain:a b')}", f"403 GET /a.txt?site=../users/of-one | {basic('plain:a b')}",
              "200 GET /a.txt?open=1", f"200 GET /a.txt?open=1 | {basic('nobody:x')}"],
         routes=[{"action": WWW | {"basic_auth": {"realm": "$realm", "users_file": "/srv/users/of-$arg_site", "if": "$closed"}}}],
         http='map $arg_open $realm { default "Site of $host"; 1 off; }',
         document={"variables": {"realm": {"map": "$arg_open", "values": {"1": "off"}, "default": "Site of $host"},
                                 "closed": {"map": "$realm", "values": {"off": "0"}, "default": "1"}}},
         files={"users/of-one": "plain:{PLAIN}a b\n" + f"salted:{salted('password')}\n"}),
    Case("satisfy", "satisfy", """
        satisfy any; auth_basic Staff; auth_basic_user_file /srv/users/list;
        location /near/ { allow 127.0.0.0/8; deny all; alias /srv/www/; } location /far/ { allow 192.0.2.0/24; deny all; alias /srv/www/; }
        location /all/ { satisfy all; allow 192.0.2.0/24; deny all; alias /srv/www/; }
        """, ["200 GET /near/a.txt", "401 GET /far/a.txt", f"200 GET /far/a.txt | {basic('me:password')}",
              f"403 GET /all/a.txt | {basic('me:password')}"],
         routes=[{"match": {"uri": "/near/*", "source": "127.0.0.0/8"}, "action": WWW | {"prefix": "/near"}},
                 {"match": {"uri": "/near/*"}, "action": WWW | {"prefix": "/near", "basic_auth": STAFF}},
                 {"match": {"uri": "/far/*", "source": "192.0.2.0/24"}, "action": WWW | {"prefix": "/far"}},
                 {"match": {"uri": "/far/*"}, "action": WWW | {"prefix": "/far", "basic_auth": STAFF}},
                 {"match": {"uri": "/all/*"}, "action": WWW | {"prefix": "/all", "allow": "192.0.2.0/24", "basic_auth": STAFF}}],
         files={"users/list": USERS}),
    Case("auth-request", "auth_request auth_request_set", f"""
        location / {{ auth_request /check; auth_request_set $user $upstream_http_x_user; auth_request_set $seen $upstream_http_x_seen;
            proxy_set_header X-User $user; add_header X-Seen $seen; {NGINX_TO_BACKEND} }}
        location = /check {{ internal; proxy_pass_request_body off; proxy_set_header Content-Length ""; {NGINX_TO_BACKEND} }}
        """, ["401 GET /in | Reply: 401 | Reply-Field: WWW-Authenticate=Basic", "403 GET /in | Reply: 403", "500 GET /in | Reply: 404",
              "500 GET /in | Reply: 500", lambda side: side.ask("GET /in | Reply-Field: X-User=me | Reply-Field: X-Seen=now")[0],
              lambda side: side.ask("GET /in | Reply-Field: X-User=me | Reply-Field: X-Seen=now")[1].get("x-seen"),
              lambda side: "x-user: me" in side.ask("GET /in | X-User: forged | Reply-Field: X-User=me")[2].decode(),
              lambda side: "x-user: forged" in side.ask("GET /in | X-User: forged")[2].decode(),
              lambda side: '"body": "abc"' in side.ask("POST /in | body=abc")[2].decode()],
         TO_BACKEND | {"auth_request": {"action": TO_BACKEND | {"rewrite": "/check"}, "copy_headers": "X-User", "response_headers": "X-Seen"}}),
    Case("mirror", "mirror mirror_request_body", f"""
        location / {{ mirror /copy; {NGINX_TO_BACKEND} }} location = /copy {{ internal; proxy_pass http://10.0.0.2:8080$request_uri; }}
        location /bare/ {{ mirror /copy-bare; mirror_request_body off; {NGINX_TO_BACKEND} }}
        location = /copy-bare {{ internal; proxy_pass_request_body off; proxy_set_header Content-Length "";
            proxy_pass http://10.0.0.2:8080$request_uri; }}
        """, ["200 GET /original?y=z", mirrored("GET /copied?y=z | A: b"), mirrored("POST /copied | body=abc"), mirrored("GET /bare/x")],
         routes=[{"match": {"uri": "/bare/*"}, "action": TO_BACKEND | {"mirror": {"max_body_size": 0, "action": {"proxy": "http://10.0.0.2:8080"}}}},
                 {"action": TO_BACKEND | {"mirror": {"action": {"proxy": "http://10.0.0.2:8080"}}}}]),
    Case("limit-req", "limit_req limit_req_zone limit_req_status", """
        location / { return 404; } location /one/ { limit_req zone=one; try_files /none =204; }
        """, [times(1, "GET /x"), times(3, "GET /one/x")],
         routes=[{"match": {"uri": "/one/*"}, "action": {"return": 204, "limit": {"rate": "1/m"}}}, {"action": {"return": 404}}],
         http="limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;"),
    Case("limit-burst", "limit_req limit_req_zone limit_req_status", """
        root /srv/www; limit_req zone=burst burst=2 nodelay; limit_req_status 418;
        """, [times(5, "GET /a.txt?key=a"), times(2, "GET /a.txt?key=b"), times(2, "GET /a.txt")],
         WWW | {"limit": {"rate": "1/m", "burst": 2, "key": "$arg_key", "status": 418}},
         http="limit_req_zone $arg_key zone=burst:1m rate=1r/m;"),
    Case("limit-dry-run", "limit_req_dry_run limit_conn_dry_run", """
        limit_req zone=dry; limit_req_dry_run on; limit_conn dryconn 1; limit_conn_dry_run on; root /srv/www;
        """, [times(3, "GET /a.txt")], WWW | {"limit": {"rate": "1/m", "concurrency": 1, "dry_run": True}},
         http="limit_req_zone $binary_remote_addr zone=dry:1m rate=1r/m; limit_conn_zone $binary_remote_addr zone=dryconn:1m;"),
    Case("limit-conn", "limit_conn limit_conn_zone limit_conn_status", f"limit_conn conn 1; location / {{ {NGINX_TO_BACKEND} }}",
         [while_one_waits("GET /x")], TO_BACKEND | {"limit": {"concurrency": 1}},
         http="limit_conn_zone $binary_remote_addr zone=conn:1m;"),
]
