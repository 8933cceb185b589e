"""Sites with PHP."""

from .case import Case

FPM = "include fastcgi.conf; fastcgi_pass unix:/run/php.sock;"

CASES = [
    Case("debian", f"""
server {{
    listen @PORT@ default_server; root /srv/php; index index.php index.html; server_name site.test;
    location / {{ try_files $uri $uri/ =404; }}
    location ~ \\.php$ {{ include snippets/fastcgi-php.conf; fastcgi_pass unix:/run/php.sock; }}
    location ~ /\\.ht {{ deny all; }}
}}
""", ["GET /", "GET /a.php?x=y", "GET /sub/", "GET /sub", "GET /none.php", "GET /a.php/info", "GET /a.txt", "POST /a.php | body=a=b | Content-Type: application/x-www-form-urlencoded",
      "GET /.htaccess", "GET /nowhere", "GET /a.php?status=404"], php=True, report={"root": "changed"}),
    Case("wordpress", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/php; index index.php; client_max_body_size 64m;
    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; }}
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~* /(?:uploads|files)/.*\\.php$ {{ deny all; }}
    location ~ \\.php$ {{ try_files $uri =404; {FPM} fastcgi_index index.php; fastcgi_intercept_errors on; fastcgi_buffers 16 16k; }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|ico)$ {{ expires max; log_not_found off; }}
    location ~ /\\. {{ deny all; }}
}}
""", ["GET /", "GET /?p=1", "GET /2024/01/post/?a=b", "GET /sub", "GET /sub/", "GET /a.php", "GET /none.php", "GET /uploads/x.php", "GET /a.css", "GET /none.css",
      "GET /.git/config", "POST /xmlrpc.php | body=x", "GET /robots.txt", "GET /favicon.ico", "DELETE /api/x", "DELETE /a.txt", "GET /a.txt"], php=True,
         files={"php/uploads/x.php": "<?php echo 'no';", "php/a.css": "a {}", "php/.git/config": "x"}),
    Case("front-controller", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/php;
    location / {{ try_files $uri /index.php$is_args$args; }}
    location ~ ^/index\\.php(/|$) {{
        fastcgi_pass unix:/run/php.sock; fastcgi_split_path_info ^(.+\\.php)(/.*)$; include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name; fastcgi_param DOCUMENT_ROOT $realpath_root; internal;
    }}
    location ~ \\.php$ {{ return 404; }}
}}
""", ["GET /", "GET /blog/post?x=1", "GET /index.php", "GET /index.php/a", "GET /a.php", "GET /a.txt", "POST /form | body=x=1", "PUT /api/1 | body=y"], php=True,
         report={"root": "changed"}),
    Case("one-script", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/php;
    location / {{ include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root/index.php; fastcgi_param APP_ENV prod; fastcgi_param KIND "$host-$request_method"; fastcgi_pass unix:/run/php.sock; }}
    location /files/ {{ alias /srv/www/; }}
}}
""", ["GET /", "GET /any/path?x=1", "GET /files/a.txt", "GET /a.php"], php=True,
         files={"php/index.php": "<?php echo $_SERVER['APP_ENV'] ?? '', ' ', $_SERVER['KIND'] ?? '', ' ', $_SERVER['REQUEST_URI'];"},
         report={"alias": "changed"}),
    Case("alias-php", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/www;
    location ^~ /tool/ {{
        alias /srv/php/; index index.php;
        location ~ \\.php$ {{ include fastcgi_params; fastcgi_param SCRIPT_FILENAME $request_filename; fastcgi_pass unix:/run/php.sock; }}
    }}
}}
""", ["GET /tool/a.php", "GET /tool/", "GET /tool/a.txt", "GET /tool/none.php", "GET /tool/sub/index.php", "GET /tool/sub/"], php=True,
         report={"alias": "changed", "root": "changed"}),
    Case("settings-of-php", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/php;
    location ~ \\.php$ {{ {FPM} fastcgi_param PHP_VALUE "precision=5
serialize_precision=5"; fastcgi_param PHP_ADMIN_VALUE "display_errors=0"; fastcgi_hide_header X-Powered-By; add_header X-Php yes; }}
    location /plain/ {{ root /srv/www; }}
}}
""", ["GET /pi.php"], php=True, files={"php/pi.php": "<?php echo M_PI, ' ', ini_get('precision');"}, fields="x-php",
         report={"root": "changed"}),
    Case("source", """
server { listen @PORT@; server_name site.test; root /srv/php; location / { try_files $uri =404; } location /x/ { root /srv/www; fastcgi_param A b; } }
""", ["~GET /a.php", "GET /a.txt"], report={"root": "changed"}),
    Case("errors-by-php", f"""
server {{
    listen @PORT@; server_name site.test; root /srv/php; error_page 404 /index.php?e=404; error_page 500 502 503 504 /a.txt;
    location / {{ try_files $uri =404; }}
    location ~ \\.php$ {{ {FPM} fastcgi_intercept_errors on; }}
}}
""", ["GET /nowhere?a=b", "GET /a.php?status=500", "GET /a.php?status=404", "GET /a.php?status=403", "GET /a.php"], php=True,
         report={"root": "changed"}),
    Case("two-sites", f"""
upstream php {{ server unix:/run/php.sock; }}
server {{ listen @PORT@; server_name one.test; root /srv/php; index index.php; location / {{ try_files $uri $uri/ /index.php; }} location ~ \\.php$ {{ include fastcgi.conf; fastcgi_pass php; }} }}
server {{ listen @PORT@; server_name two.test; root /srv/php/sub; index index.php; location / {{ try_files $uri $uri/ /index.php; }} location ~ \\.php$ {{ include fastcgi.conf; fastcgi_pass php; }} }}
""", ["GET / | Host: one.test", "GET / | Host: two.test", "GET /a.php | Host: one.test", "GET /a.php | Host: two.test", "GET / | Host: other.test"], php=True,
         report={"root": "changed"}),
    Case("host-directories", f"""
server {{
    listen @PORT@; server_name ~^(?<site>[a-z]+)\\.sites\\.test$; root /srv/sites/$site; index index.php;
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~ \\.php$ {{ {FPM} }}
}}
server {{ listen @PORT@ default_server; return 404; }}
""", ["GET / | Host: a.sites.test", "GET /x | Host: a.sites.test", "GET /t.txt | Host: a.sites.test", "GET / | Host: b.sites.test", "GET / | Host: c9.sites.test"], php=True,
         files={"sites/a/index.php": "<?php echo 'a ', $_SERVER['REQUEST_URI'];", "sites/a/t.txt": "t", "sites/b/index.php": "<?php echo 'b';"},
         report={"root": "changed"}),
]
