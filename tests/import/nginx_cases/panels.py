"""Servers as panels and generators of configurations write them, asked with hostile paths, too."""

import re

from .case import Case

PASS = "include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;"
SECRET_FILES = {f"php/{name}": "secret" for name in (
    ".env", ".git/HEAD", ".htaccess", ".htpasswd", ".user.ini", ".well-known/acme-challenge/t", "backup.sql", "dump.sql.gz", "site.tar.gz", "error_log", "debug.log", "readme.html",
    "wp-config.php.bak", "a.txt~", "config.inc", "private/p.txt", "private/sub/q.pdf", "composer.json", "vendor/autoload.txt", "uploads/a.jpg", "files/report.pdf", "css/site.css", "js/app.js", "img/l.png", "favicon.ico", "robots.txt", "a b.txt", "ä.txt")}
SCRIPTS = {f"php/{name}": "<?php echo 'ran ', $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '', '|', $_SERVER['QUERY_STRING'];" for name in (
    "uploads/x.php", "uploads/x.phtml", "files/x.php", "private/s.php", "vendor/s.php", "admin/index.php", "wp-admin/index.php", "wp-login.php", "xmlrpc.php", "wp-config.php", "wp-content/uploads/e.php", "wp-includes/v.php", "cache/c.php", "tmp/t.php")}
TREE = SECRET_FILES | SCRIPTS
PATHS = ["/", "/a.php", "/a.php?x=1&y=a%20b", "/a.php/path/info?q", "/none.php", "/none.php/x", "/none", "/none/", "/sub", "/sub/", "/sub/index.php/x", "/.env", "/%2eenv", "//.env", "/./.env", "/x/../.env", "/.env/", "/.ENV", "/.git/HEAD", "/.git%2fHEAD", "/sub/..%2f.env",
         "/.htaccess", "/.htpasswd", "/.user.ini", "/.well-known/acme-challenge/t", "/.well-known/none", "/backup.sql", "/dump.sql.gz", "/site.tar.gz", "/error_log", "/debug.log", "/wp-config.php.bak", "/a.txt~", "/config.inc",
         "/private/p.txt", "/private//p.txt", "/%70rivate/p.txt", "/private/sub/q.pdf", "/private/s.php", "/private", "/vendor/s.php", "/vendor/autoload.txt", "/composer.json", "/uploads/a.jpg", "/uploads/a.jpg/x.php", "/uploads/x.php", "/uploads//x.php", "/uploads/x.php/y", "/uploads/%78.php", "/uploads/x.phtml", "/uploads/x.PHP",
         "/files/x.php", "/files/report.pdf", "/css/site.css", "/css/site.css?v=1", "/js/app.js", "/img/l.png", "/img/none.png", "/favicon.ico", "/robots.txt", "/a%20b.txt", "/%C3%A4.txt", "/admin/", "/admin", "/admin/index.php", "/wp-admin/", "/wp-login.php", "/xmlrpc.php", "/wp-config.php", "/wp-content/uploads/e.php", "/wp-includes/v.php",
         "/cache/c.php", "/tmp/t.php", "/index.php", "/index.php/front?x", "/?p=1", "/a.php%20", "/a.php.", "/a.php%00.txt", "/sub/%2e%2e/a.txt", "/..%2f..%2fetc/passwd", "/a.txt/", "/a.txt/x", "/index.php/..%2f.env", "/status", "/server-status", "/nginx_status"]
MORE = ["HEAD /a.txt", "HEAD /a.php", "OPTIONS /a.php", "OPTIONS /a.txt", "POST /a.php | body=a=b", "POST /a.txt | body=a=b", "DELETE /a.txt", "PUT /uploads/n.txt | body=x", "GET /a.txt | Range: bytes=1-3", "GET /a.txt | Range: bytes=-2", "GET /a.txt | Range: bytes=99-",
        "GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT", "GET /a.txt | If-None-Match: \"x\"", "GET / | Host: other.test", "GET /a.php | Host: www.site.test", "GET /a.txt | If-Unmodified-Since: Mon, 01 Jan 2001 00:00:00 GMT", "GET /a.php | Proxy: http://x/", "GET /a.php | Authorization: Basic YW5uOnNlY3JldA==",
        "GET /private/p.txt | Authorization: Basic YW5uOnNlY3JldA=="]


# Files that Howdah never sends, as the report of their root says; ranges beyond the end, whose refusals have some fields twice; and
# a user without a password, whom nginx names to scripts.
OWN = re.compile(r"(\.|%2e)env|\.git|\.ht|\.user\.ini|\.php\.bak|\.phtml|%00|%2f|a\.jpg/x\.php|=99-|a\.php \| Authorization")


def asked(*more):
    requests = [f"GET {path}" for path in PATHS] + MORE + list(more)
    return [f"~{request}" if OWN.search(request) else request for request in requests]


def site(name, text, *more, **options):
    options.setdefault("host", "site.test")
    options.setdefault("php", True)
    files = TREE | options.pop("files", {})
    return Case(name, text, asked(*more), files=files, is_loose=True, **options)


CASES = [
    site("generator", """
types_hash_max_size 2048; server_tokens off; charset utf-8; sendfile on; tcp_nopush on; tcp_nodelay on; log_not_found off; client_max_body_size 16M;
map $http_upgrade $connection_upgrade { default upgrade; "" close; }
map $remote_addr $proxy_forwarded_elem { ~^[0-9.]+$ "for=$remote_addr"; ~^[0-9A-Fa-f:.]+$ "for=\\"[$remote_addr]\\""; default "for=unknown"; }
server {
    listen @PORT@; server_name site.test; set $base /srv/php; root $base/;
    location ~ /\\.(?!well-known) { deny all; }
    add_header X-XSS-Protection "1; mode=block" always; add_header X-Content-Type-Options "nosniff" always; add_header Referrer-Policy "no-referrer-when-downgrade" always;
    add_header Content-Security-Policy "default-src 'self' http: https: ws: wss: data: blob: 'unsafe-inline'; frame-ancestors 'self';" always; add_header Permissions-Policy "interest-cohort=()" always; add_header Strict-Transport-Security "max-age=31536000; includeSubDomains" always;
    access_log /var/log/access.log combined buffer=512k flush=1m; error_log /var/log/error.log warn; index index.php;
    location / { try_files $uri $uri/ /index.php?$query_string; }
    location = /favicon.ico { log_not_found off; }
    location = /robots.txt { log_not_found off; }
    location ~* \\.(?:css(\\.map)?|js(\\.map)?|jpe?g|png|gif|ico|cur|heic|webp|tiff?|mp3|m4a|aac|ogg|midi?|wav|mp4|mov|webm|mpe?g|avi|ogv|flv|wmv)$ { expires 7d; }
    location ~* \\.(?:svgz?|ttf|ttc|otf|eot|woff2?)$ { add_header Access-Control-Allow-Origin "*"; expires 7d; }
    gzip on; gzip_vary on; gzip_proxied any; gzip_comp_level 6; gzip_types text/plain text/css text/xml application/json application/javascript application/rss+xml application/atom+xml image/svg+xml;
    location ~ ^/(?:wp-content|wp-includes|uploads|files)/(?:.+/)?.+\\.php$ { deny all; }
    location ~ \\.php$ {
        fastcgi_pass unix:/run/php.sock; try_files $fastcgi_script_name =404; fastcgi_index index.php; fastcgi_buffers 8 16k; fastcgi_buffer_size 32k;
        fastcgi_param DOCUMENT_ROOT $realpath_root; fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name; fastcgi_param PHP_ADMIN_VALUE "open_basedir=$base/:/usr/lib/php/:/tmp/"; include fastcgi_params;
    }
}
server { listen @PORT@; server_name .site.test; return 301 http://site.test$request_uri; }
""", fields="x-content-type-options content-security-policy referrer-policy strict-transport-security permissions-policy access-control-allow-origin"),
    site("hestia-proxy", """
server {
    listen @PORT@; server_name site.test www.site.test; error_log /var/log/p.error.log error;
    location ~ /\\.(?!well-known\\/) { deny all; return 404; }
    location / {
        proxy_pass http://@PORT2@;
        location ~* ^.+\\.(css|htm|html|js|json|xml|gif|jpg|jpeg|png|ico|svg|bmp|doc|docx|eot|mp3|mp4|otf|pdf|ttf|txt|webp|woff|woff2|zip)$ {
            try_files $uri @fallback; root /srv/php; access_log /var/log/p.log combined; access_log /var/log/p.bytes combined; expires max; add_header Cache-Control "public"; add_header Vary "Accept-Encoding"; add_header X-Static on;
        }
    }
    location @fallback { proxy_pass http://@PORT2@; }
    location /error/ { alias /srv/other/; }
    proxy_hide_header Upgrade;
    include /srv/nothing-*.conf;
}
server {
    listen @PORT2@; server_name site.test www.site.test; root /srv/php; index index.php index.html; error_page 403 /error/a.txt; error_page 404 /error/a.txt;
    location / { try_files $uri $uri/ =404; }
    location ~ [^/]\\.php(/|$) { try_files $uri =404; fastcgi_index index.php; """ + PASS + """ }
    location /error/ { alias /srv/other/; }
    location ~* "/\\.(htaccess|htpasswd|env|git|user\\.ini)" { deny all; return 404; }
}
""", "GET /error/a.txt", "GET /error/none", "GET /error", fields="x-static vary"),
    site("aapanel", """
server {
    listen @PORT@; server_name site.test; index index.php index.html index.htm default.php default.htm default.html; root /srv/php;
    error_page 404 /404.html; error_page 502 /502.html;
    location ~ [^/]\\.php(/|$) { try_files $uri =404; fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; include fastcgi.conf; set $real_script_name $fastcgi_script_name; if ($fastcgi_script_name ~ "^(.+?\\.php)(/.+)$") { set $real_script_name $1; set $path_info $2; } fastcgi_param SCRIPT_FILENAME $document_root$real_script_name; fastcgi_param SCRIPT_NAME $real_script_name; fastcgi_param PATH_INFO $path_info; }
    location ~ ^/(\\.user.ini|\\.htaccess|\\.git|\\.env|\\.svn|\\.project|LICENSE|README.md) { return 404; }
    location ~ \\.well-known { allow all; }
    if ( $uri ~ "^/\\.well-known/.*\\.(php|jsp|py|js|css|lua|ts|go|zip|tar\\.gz|rar|7z|sql|bak)$" ) { return 403; }
    location ~ .*\\.(gif|jpg|jpeg|png|bmp|swf)$ { expires 30d; error_log /dev/null; access_log /dev/null; }
    location ~ .*\\.(js|css)?$ { expires 12h; error_log /dev/null; access_log /dev/null; }
    location / { if (!-e $request_filename) { rewrite ^(.*)$ /index.php?s=$1 last; break; } }
    access_log /var/log/x.log;
}
""", "GET /.well-known/x.php", "GET /README.md", files={"php/404.html": "our 404\n"}),
    site("multisite-paths", """
map $uri $blogname { ~^(?P<blogpath>/[^/]+/)files/(.*) $blogpath; }
map $blogname $blogid { default -999; /one/ 2; }
server {
    listen @PORT@; server_name site.test; root /srv/php; index index.php;
    location ~ ^(/[^/]+/)?files/(.+) { try_files /wp-content/blogs.dir/$blogid/files/$2 /wp-includes/ms-files.php?file=$2; access_log off; log_not_found off; expires max; }
    location ^~ /blogs.dir { internal; alias /srv/php/wp-content/blogs.dir; access_log off; expires max; }
    if (!-e $request_filename) { rewrite /wp-admin$ $scheme://$host$uri/ permanent; rewrite ^(/[^/]+)?(/wp-.*) $2 last; rewrite ^(/[^/]+)?(/.*\\.php) $2 last; }
    location / { try_files $uri $uri/ /index.php?$args; }
    location ~ \\.php$ { try_files $uri =404; """ + PASS + """ }
}
""", "GET /one/files/2020/a.png", "GET /one/wp-admin", "GET /one/wp-login.php", "GET /one/a.php?x=1", "GET /blogs.dir/2/files/2020/a.png", "GET /one/files/none", "GET /one/files/..%2f..%2f..%2f..%2f.env", files={"php/wp-content/blogs.dir/2/files/2020/a.png": "png", "php/wp-includes/ms-files.php": "<?php echo 'file ', $_GET['file'];"}),
]
