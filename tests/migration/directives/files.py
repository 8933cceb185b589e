"""The modules index, autoindex, charset and try_files."""

import json
import re

from . import Case

WWW = {"share": "/srv/www$uri"}
FPM = {"type": "fastcgi", "server": "unix:/run/php.sock", "root": "/srv/php"}
PHP = """location ~ \\.php$ { root /srv/php; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_pass unix:/run/php.sock; }"""


def names(side):
    """The names in a listing; Howdah has links for sorting, too, and a title of its own."""
    status, fields, body = side.ask("GET /dir/")
    found = [name for name in re.findall(rb'href="([^"?]+)"', body) if name != b"../"]
    return status, fields["content-type"].split(";")[0], sorted(found)


def listing(side):
    """The members of a listing in JSON."""
    status, fields, body = side.ask("GET /dir/")
    return status, fields["content-type"], json.loads(body)


LISTED = {"www/dir/a b.txt": "1\n", "www/dir/.hidden": "x", "www/dir/sub/x.txt": "x", "www/dir/ä&.txt": "2"}

CASES = [
    Case("index", "index", """
        root /srv/www; index first.html $host.html index.html; location /dir/ { index none.html; }
        """, ["200 GET /", "200 GET /sub/", "301 GET /sub", "403/404 GET /dir/", "404 GET /nowhere/", "200 GET /first/"],
         routes=[{"match": {"uri": "/dir/*"}, "action": {"share": "/srv/www$uri", "index": "none.html"}},
                 {"action": {"share": "/srv/www$uri", "index": ["first.html", "index.html"]}}],
         files={"www/first/first.html": "first\n", "www/first/index.html": "second\n"}),
    Case("index-php", "index", f"root /srv/php; index index.php; {PHP}", ["200 GET /sub/?a=b", "200 GET /", "301 GET /sub"],
         {"share": "/srv/php$uri", "index": "index.php", "scripts": "applications/index-php"}, document={"applications": {"index-php": FPM}}),
    Case("listing", "autoindex", "root /srv/www; autoindex on;", [names, "200 GET /sub/", "301 GET /dir"],
         {"share": "/srv/www$uri", "listing": True}, files=LISTED),
    Case("no-listing", "autoindex", "root /srv/www; autoindex off;", ["403/404 GET /dir/"], WWW),
    Case("listing-json", "autoindex_format", "root /srv/www; autoindex on; autoindex_format json;", [listing],
         {"share": "/srv/www$uri", "listing": "json"}, files=LISTED),
    Case("charset", "charset", f"root /srv/www; charset utf-8; location /off/ {{ charset off; alias /srv/www/; }} {PHP}",
         ["200 GET /a.txt", "200 GET /", "200 GET /off/a.txt", "200 GET /a.json"],
         routes=[{"match": {"uri": "/off/*"}, "action": {"share": "/srv/www$uri", "prefix": "/off", "charset": "off"}},
                 {"action": {"share": "/srv/www$uri", "charset": "utf-8"}}], files={"www/a.json": "{}\n"}),
    Case("try-files", "try_files", """
        root /srv/www; location / { try_files $uri $uri.html $uri/ /none$uri =404; } location /status/ { try_files $uri =410; }
        location /named/ { try_files $uri @rest; } location @rest { return 204; } location /first/ { try_files /a.txt $uri; }
        """, ["200 GET /a.txt", "200 GET /50x", "200 GET /sub/", "301 GET /sub", "404 GET /nowhere", "410 GET /status/x", "204 GET /named/x",
              "200 GET /first/x", "403/404 GET /dir/"],
         routes=[{"match": {"uri": "/status/*"}, "action": {"share": "/srv/www$uri", "try": "$uri", "fallback": {"return": 410}}},
                 {"match": {"uri": "/named/*"}, "action": {"share": "/srv/www$uri", "try": "$uri", "fallback": {"pass": "routes/rest"}}},
                 {"match": {"uri": "/first/*"}, "action": {"share": "/srv/www$uri", "try": ["/a.txt", "$uri"]}},
                 {"action": {"share": "/srv/www$uri", "try": ["$uri", "$uri.html", "$uri/", "/none$uri"]}}],
         document={"routes": {"rest": [{"action": {"return": 204}}]}}),
    Case("try-php", "try_files", f"root /srv/php; index index.php; location / {{ try_files $uri $uri/ /index.php?q=$uri&$args; }} {PHP}",
         ["200 GET /", "200 GET /a.php?x=y", "200 GET /a.txt", "200 GET /pretty/path?x=y", "200 GET /sub/", "200 POST /pretty | body=a=b"],
         {"share": "/srv/php$uri", "index": "index.php", "try": ["$uri", "$uri/", "/index.php?q=$uri&$args"],
          "scripts": "applications/try-php"}, document={"applications": {"try-php": FPM}}),
]
