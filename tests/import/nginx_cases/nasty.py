"""Combinations of locations, conditions, passwords and internal redirects that decide together who gets in."""

from .case import Case

PASS = "include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;"
SCRIPT = "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], '|', $_SERVER['QUERY_STRING'];"
FILES = {f"php/{name}": "content" for name in ("admin/a.txt", "admin/open/o.txt", "private/p.txt", "uploads/u.png", "uploads/u.php.png", "api/a.json", "tool/t.txt", "up.txt", "img/secret.txt", "files/f.pdf", "cgi-bin/x.pl", "sub.example/public/s.txt")} | {
    f"php/{name}": SCRIPT for name in ("admin/index.php", "admin/tool.php", "uploads/x.php", "private/s.php", "install.php", "api/v.php", "tool/run.php")}
ANN = " | Authorization: Basic YW5uOnNlY3JldA=="


def asked(*paths):
    return [f"GET {path}" for path in paths]


CASES = [
    # A location with an expression takes scripts away from the location that asks for a password.
    Case("passwords-and-scripts", """
server {
    listen @PORT@; server_name site.test; root /srv/php; index index.php;
    location /admin/ { auth_basic "Admin"; auth_basic_user_file /srv/users; location ~ ^/admin/open/ { auth_basic off; } location ~ ^/admin/tool\\.php$ { allow 10.0.0.0/8; deny all; satisfy all; """ + PASS + """ } }
    location ^~ /private/ { satisfy any; allow 10.0.0.0/8; deny all; auth_basic "Private"; auth_basic_user_file /srv/users; location ~ \\.php$ { """ + PASS + """ } }
    location = /install.php { deny all; }
    location ~* ^/uploads/.*\\.(php|phtml|pl) { return 403; }
    location ~ \\.php$ { try_files $uri =404; """ + PASS + """ }
    location ^~ /tool/ { limit_except GET { deny all; } location ~ \\.php$ { """ + PASS + """ } }
}
""", asked("/admin/", "/admin/a.txt", "/admin/open/o.txt", "/admin/index.php", "/admin/tool.php", "/private/p.txt", "/private/s.php", "/install.php", "/install.php/x", "//install.php", "/uploads/x.php", "/uploads/x.php/y", "/UPLOADS/x.php", "/uploads/u.php.png",
           "/tool/t.txt", "/tool/run.php", "/admin/../install.php", "/%61dmin/a.txt")
         + [request + ANN for request in asked("/admin/", "/admin/a.txt", "/admin/tool.php", "/private/p.txt", "/private/s.php")] + ["POST /tool/run.php | body=x", "DELETE /tool/t.txt", "HEAD /tool/t.txt", "POST /install.php | body=a"],
         files=FILES, php=True, is_loose=True),
    Case("doors", """
map $http_user_agent $is_bad { default 0; ~*(scanner|sqlmap) 1; "" 2; }
map "$request_method:$uri" $is_odd { default ""; ~^(PUT|DELETE):/api/ ""; ~^(PUT|DELETE): 1; }
geo $remote_addr $is_near { default 0; 127.0.0.0/8 1; }
server {
    listen @PORT@ default_server; server_name _; return 444;
}
server {
    listen @PORT@; server_name site.test; root /srv/php; error_page 403 = @denied; error_page 404 =200 /up.txt; recursive_error_pages on;
    if ($is_bad = 1) { return 403; }
    if ($is_odd) { return 405; }
    if ($args ~* "(\\.\\./|union.+select)") { return 403; }
    if (-f $document_root/maintenance.html) { return 503; }
    set $door "";
    if ($uri ~ ^/private/) { set $door "${door}P"; }
    if ($is_near) { set $door "${door}N"; }
    if ($http_x_key != "sesame") { set $door "${door}K"; }
    if ($door = PNK) { return 401; }
    location @denied { internal; return 410 "gone"; }
    location /private/ { }
    location /admin/ { if ($cookie_pass !~ "^[0-9]{4}$") { return 403; } }
    location /files/ { internal; }
    location /get/ { rewrite ^/get/(.*)$ /files/$1 last; }
    location /img { alias /srv/php/img; location ~ secret { deny all; } }
    location /api/ { if ($request_method !~ ^(GET|HEAD|PUT)$) { return 405; } error_page 405 =204 @none; }
    location @none { return 204; }
    location /cgi-bin/ { deny all; error_page 403 /up.txt; }
    location = /up.txt { allow all; }
}
""", asked("/private/p.txt", "/admin/a.txt", "/files/f.pdf", "/get/f.pdf", "/img/secret.txt", "/imgs", "/api/a.json", "/cgi-bin/x.pl", "/none", "/up.txt", "/up.txt?x=Union%20select", "/up.txt?a=../b", "/private/../private/p.txt")
         + ["GET /private/p.txt | X-Key: sesame", "GET /admin/a.txt | Cookie: pass=1234", "GET /admin/a.txt | Cookie: pass=12345", "GET /up.txt | User-Agent: a Scanner", "GET /up.txt | User-Agent: ", "PUT /up.txt | body=x", "PUT /api/a.json | body=x", "POST /api/a.json | body=x", "DELETE /api/a.json", "GET /up.txt | Host: other.test"],
         files=FILES, is_loose=True),
    Case("checked-and-renamed", """
server {
    listen @PORT@; server_name ~^(?<name>[a-z]+)\\.example$; root /srv/php/$name.example/public;
    location / { try_files $uri =404; }
    location ~ ^/(?<part>[a-z]+)/(?<rest>.+)$ { return 302 /$part-$rest?from=$name; }
}
server {
    listen @PORT@; server_name site.test; root /srv/php; auth_request /check; auth_request_set $who $upstream_http_x_who;
    location = /check { internal; auth_request off; proxy_pass http://@PORT2@; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header X-Original $request_uri; }
    location /tool/ { auth_request off; }
    location /api/ { error_page 401 =302 /login; }
    location = /login { auth_request off; return 200 login; }
    location ~ \\.php$ { """ + PASS + """ }
    location /private/ { satisfy any; deny all; }
}
server { listen @PORT2@; if ($http_x_original ~ "token=yes") { return 204; } if ($http_x_original ~ "token=never") { return 403; } return 401; }
""", asked("/private/p.txt", "/private/p.txt?token=yes", "/private/p.txt?token=never", "/tool/t.txt", "/api/a.json", "/api/a.json?token=yes", "/api/v.php?token=never", "/install.php", "/install.php?token=yes", "/login", "/check", "/check?token=yes", "/tool/run.php")
         + ["GET /s.txt | Host: sub.example", "~GET /a/b.c | Host: sub.example", "GET /s.txt | Host: other.example", "GET /s.txt | Host: sub.example.test"],
         files=FILES, php=True, is_loose=True),
]
