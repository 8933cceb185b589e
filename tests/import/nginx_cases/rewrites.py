"""`rewrite`, `if`, `set`, `return` and `break`."""

from .case import Case

CASES = [
    Case("rewrite-flags", """
server {
    listen @PORT@; root /srv/www;
    rewrite ^/old/(.*)$ /sub/$1 last;
    rewrite ^/moved$ /new permanent;
    rewrite ^/found/(\\d+)$ /new/$1?id=$1 redirect;
    rewrite ^/dropped/(.*)$ /new/$1? permanent;
    rewrite ^/away/(.*) https://other.example/$1 permanent;
    location /sub/ { add_header X-Sub yes; }
    location /chain/ { rewrite ^/chain/(.*)$ /mid/$1; rewrite ^/mid/(.*)$ /sub/$1; }
    location /brk/ { rewrite ^/brk/(.*)$ /sub/$1 break; }
    location /last/ { rewrite ^/last/(.*)$ /sub/$1 last; return 500; }
    location /none/ { rewrite ^/nomatch /x last; return 204; }
    location /loop { rewrite ^ /loop last; }
    location /args/ { rewrite ^/args/(.*)$ /show?name=$1&y=1 last; }
    location = /show { return 200 "$args"; }
}
""", ["GET /old/c.txt", "GET /moved?x=1", "GET /found/12?x=1", "GET /dropped/a?x=1", "GET /away/a/b?c=d", "GET /chain/c.txt", "GET /brk/c.txt", "GET /last/c.txt",
      "GET /none/x", "GET /loop", "GET /args/abc?z=2", "GET /args/abc", "GET /old/none"], report={"root": "changed"}, fields="x-sub"),
    Case("conditions", """
server {
    listen @PORT@; root /srv/www;
    if ($request_method = POST) { return 405; }
    if ($http_user_agent ~* (badbot|evil)) { return 403; }
    if ($arg_debug) { return 200 "debug $arg_debug"; }
    if ($http_x_token != secret) { return 401; }
    if ($request_uri ~ ^/raw/(?<rest>[a-z]+)\\?) { return 200 "rest $rest"; }
    if (-f $document_root/closed.txt) { return 503; }
    if (-d $request_filename) { return 200 "directory"; }
    if (!-e $request_filename) { rewrite ^/(.*)$ /a.txt?q=$1 break; }
    location / { }
}
""", ["POST / | body=x", "GET /a.txt | User-Agent: xBadBot", "GET /?debug=1", "GET /?debug=0 | X-Token: secret", "GET /a.txt", "GET /a.txt | X-Token: secret",
      "GET /raw/abc?x | X-Token: secret", "GET /dir | X-Token: secret", "GET /nowhere | X-Token: secret", "GET /?debug= | X-Token: secret",
      "GET /a.txt | X-Token: secret2", "GET /b.txt | X-Token: secret | User-Agent: good"],
         report={"root": "changed"}),
    Case("set-chain", """
server {
    listen @PORT@;
    set $flag "";
    if ($request_method = GET) { set $flag "G"; }
    if ($arg_a) { set $flag "${flag}A"; }
    if ($http_cookie ~ "user=([a-z]+)") { set $flag "${flag}C"; set $who $1; }
    if ($flag = "GAC") { return 200 "all $who"; }
    if ($flag = GA) { return 202 two; }
    location / { return 200 "flag $flag"; }
}
""", ["GET /", "GET /?a=1", "GET /?a=1 | Cookie: user=bob", "GET / | Cookie: user=bob", "POST / | body=x", "POST /?a=0 | body=x"]),
    Case("if-in-location", """
server {
    listen @PORT@; root /srv/www;
    location /sub/ {
        add_header X-Where outer;
        if ($arg_x) { add_header X-Where inner; }
        if ($arg_y) { return 202 y; }
        if ($arg_z = old) { rewrite ^ /a.txt last; }
    }
    location /t/ { alias /srv/www/; try_files $uri /b.txt; if ($arg_a) { set $b 1; } }
    location /deny/ { if ($arg_ok != 1) { return 403; } alias /srv/www/; }
}
""", ["GET /sub/c.txt", "GET /sub/c.txt?x=1", "GET /sub/c.txt?y=1", "GET /sub/c.txt?x=1&y=1", "GET /sub/c.txt?z=old", "GET /t/none", "GET /t/a.txt?a=1",
      "GET /deny/a.txt", "GET /deny/a.txt?ok=1"], report={"root": "changed", "alias": "changed"}, fields="x-where"),
    Case("maintenance", """
server {
    listen @PORT@; root /srv/www;
    set $maintenance 0;
    if (-f /srv/www/down) { set $maintenance 1; }
    if ($remote_addr = 10.9.9.9) { set $maintenance 0; }
    if ($uri ~ ^/50x) { set $maintenance 0; }
    if ($maintenance) { return 503; }
    error_page 503 /50x.html;
    location / { try_files $uri =404; }
}
""", ["GET /a.txt", "GET /50x.html", "GET /"], report={"root": "changed"}, files={"www/down": "x"}),
    Case("redirects", """
server { listen @PORT@; server_name www.site.test; return 301 http://site.test$request_uri; }
server { listen @PORT@ default_server; server_name site.test; root /srv/www;
    if ($host != site.test) { return 302 http://site.test$uri?$args; }
    location = /favicon.ico { log_not_found off; access_log off; return 204; }
    location ~ ^/(en|de)/(.*)$ { return 301 /$2?lang=$1; }
    location ~* ^/PRODUCT-([0-9]+)\\.html$ { return 301 /p/$1; }
    location /a/ { return 301 /b$is_args$args; }
}
""", ["GET /x?y=z | Host: www.site.test", "GET /x | Host: other.test", "GET /x?a=b | Host: other.test", "GET /favicon.ico", "GET /en/a/b", "GET /product-12.HTML",
      "GET /a/?q=1", "GET /a/", "GET /de/x?y=1"], report={"root": "changed"}),
    Case("maps", """
map $uri $new { /old.html /new.html; /About /about/; ~^/p/(\\d+)$ /products/$1; ~*^/q/(?<n>.+)$ /queries/$n; default ""; }
map $http_x_kind $kind { default other; "" none; big large; ~*^med medium; }
map $host $area { hostnames; .site.test own; *.example.org wild; mail.* mail; default x; }
geo $inside { default 0; 127.0.0.0/8 1; 10.0.0.0/8 2; }
geo $arg_ip $where { default far; 192.168.0.0/16 near; }
split_clients $arg_id $half { 50% a; * b; }
map $kind$inside $both { large1 yes; default no; }
server {
    listen @PORT@ default_server;
    if ($new) { return 301 $new; }
    location / { return 200 "$kind $area $inside $where $both"; }
    location = /half { add_header X-Half $half; return 204; }
}
""", ["GET /old.html", "GET /about", "GET /p/12", "GET /Q/some", "GET /", "GET / | X-Kind: big", "GET / | X-Kind: MEDx", "GET / | X-Kind: BIG",
      "GET / | Host: a.site.test", "GET / | Host: a.example.org", "GET / | Host: mail.z", "GET /?ip=192.168.3.4", "GET /half"],
         report={"split_clients": "changed", "map $uri $new": "changed"}),
    Case("referers", """
server {
    listen @PORT@; root /srv/www;
    location / { valid_referers none blocked site.test *.site.test; if ($invalid_referer) { return 403; } }
}
""", ["GET /a.txt", "GET /a.txt | Referer: http://site.test/x", "GET /a.txt | Referer: https://www.site.test/", "GET /a.txt | Referer: http://evil.example/",
      "GET /a.txt | Referer: garbage", "GET /a.txt | Referer: http://site.test.evil.example/"], report={"root": "changed"}),
    Case("variables-after-rewrite", """
map $uri $section { ~^/shop shop; ~^/b second; default none; }
map $arg_x $word { 1 one; default other; }
server {
    listen @PORT@; root /srv/www; set $inner ""; add_header X-Word $word; add_header X-Inner $inner;
    location /closed/ { set $inner 1; rewrite ^/closed/(.*)$ /common/$1 last; }
    location /open/ { rewrite ^/open/(.*)$ /common/$1 last; }
    location /common/ { if ($inner) { return 403; } alias /srv/www/; add_header X-Inner "in $inner"; }
    location ~ ^/lang/(?<part>[a-z]+)/ { rewrite ^ /said last; }
    location = /said { return 200 "said $inner"; }
    location /loop/ { set $inner "${inner}x"; rewrite ^/loop/(.*)$ /again/$1 last; }
    location /again/ { set $inner "${inner}y"; rewrite ^ /said last; }
    location /section/ { if ($section = none) { rewrite ^ /b.txt last; } return 200 "in $section"; }
    location = /b.txt { add_header X-Section $section; }
}
""", ["GET /closed/a.txt", "GET /open/a.txt", "GET /common/a.txt", "GET /said", "GET /loop/x", "GET /again/x", "GET /a.txt?x=1", "~GET /lang/en/x", "~GET /section/x"],
         fields="x-word x-inner x-section", report={"alias": "changed", "map $uri": "changed", "root": "changed", "location /loop/": "changed", "location /again/": "changed"}),
    Case("arguments", """
map $arg_key $known { k%201 one; K2 two; default none; }
server {
    listen @PORT@; root /srv/www; add_header X-Known $known;
    location / { if ($arg_a ~ ^b) { return 410; } if ($arg_open = "") { return 403; } }
    location /s { return 200 "$arg_q|$arg_Two|$arg_md5"; }
}
""", [f"GET /a.txt?{query}" for query in ("open=1", "a=b&open=1", "A=b&open=1", "a=%62&open=1", "a=c&a=b&open=1", "xa=b&open=1", "open=", "Open=1&key=k%201",
                                          "open=1&key=k2", "open=1&key=k 2", "a&open=1", "")] +
         ["GET /s?q=a%20b&two=%22&md5=x", "GET /s?q=a=b&TWO=1", "GET /s?q"], fields="x-known", report={"root": "changed"}),
    Case("methods-and-rewrites", """
server {
    listen @PORT@; root /srv/www;
    location /api { limit_except POST { auth_basic z; auth_basic_user_file /srv/users; } return 200 api; }
    location /in/ { limit_except GET { deny all; } if ($http_x) { return 410; } alias /srv/www/; }
    location /old/ { limit_except GET { deny all; } rewrite ^/old/(.*)$ /$1 last; }
}
""", ["GET /api", "GET /api | Authorization: Basic YW5uOnNlY3JldA==", "POST /api", "OPTIONS /api", "GET /in/a.txt", "HEAD /in/a.txt | X: 1", "GET /in/a.txt | X: 1",
      "POST /in/a.txt | X: 1", "GET /old/a.txt", "POST /old/a.txt"], report={"root": "changed", "alias": "changed", "auth_basic z": "changed"}),
    Case("values-in-named-locations", """
server {
    listen @PORT@; root /srv/www; set $closed 0;
    location /error/ { set $closed 1; error_page 404 = @last; return 404; }
    location /tried/ { set $closed 1; try_files /none @last; }
    location /open/ { try_files /none @last; }
    location @last { if ($closed) { return 403; } return 200 "open $closed"; }
    location /loop/ { set $closed "${closed}x"; try_files /none @again; }
    location @again { set $closed "${closed}y"; try_files /none @last; }
}
""", ["~GET /error/x", "GET /tried/x", "GET /open/x", "GET /loop/x"], report={"error_page": "changed", "root": "changed"}),
]
