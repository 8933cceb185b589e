"""Rules that applications publish for nginx, in other words, asked for what they close in several spellings."""

from .case import Case

PASS = "include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;"


def secrets(*names):
    return {f"php/{name}": "<?php echo 'no';" if name.endswith(".php") else "secret" for name in names}


def spellings(*paths):
    """Requests for a path, and for others that lead to the same file."""
    for path in paths:
        yield f"GET {path}"
        yield f"GET /%{ord(path[1]):x}{path[2:]}"
        yield f"GET /sub/..{path}"
        yield f"GET {path.replace('/', '//')}"
        yield f"POST {path} | body=a=b"


MATOMO = ("config/config.ini.php", "tmp/cache/t.php", "core/Version.php", "lang/en.json", "vendor/autoload.php", "libs/jquery.js", "plugins/Login/Login.php", "misc/x.txt", "node_modules/a/b.js",
          "config/global.ini", "other.php", "sub/other.php")
WORDPRESS = ("wp-config.php", "wp-content/uploads/2024/shell.php", "wp-content/uploads/shell.PHP", "wp-content/files/x.php", ".htaccess", "xmlrpc.php", "wp-includes/deep/a.php", "wp-content/debug.log", "readme.html")

CASES = [
    Case("matomo-full", f"""
server {{
    listen @PORT@; server_name stats.test; root /srv/php; index index.php;
    add_header Referrer-Policy origin always;
    add_header X-Content-Type-Options "nosniff" always;
    add_header X-XSS-Protection "1; mode=block" always;
    location ~ ^/(index|matomo|piwik|js/index|plugins/HeatmapSessionRecording/configs)\\.php$ {{ try_files $fastcgi_script_name =404; fastcgi_param HTTP_PROXY ""; {PASS} }}
    location ~* ^.+\\.php$ {{ deny all; return 403; }}
    location / {{ try_files $uri $uri/ =404; }}
    location ~ ^/(config|tmp|core|lang) {{ deny all; return 403; }}
    location ~ /\\.ht {{ deny all; return 403; }}
    location ~ js/container_.*_preview\\.js$ {{ expires off; add_header Cache-Control "private, no-cache, no-store"; }}
    location ~ \\.(gif|ico|jpg|png|svg|js|css|htm|html|mp3|mp4|wav|ogg|avi|ttf|eot|woff|woff2)$ {{ allow all; expires 1h; add_header Pragma public; add_header Cache-Control "public"; }}
    location ~ ^/(libs|vendor|plugins|misc|node_modules) {{ deny all; return 403; }}
    location ~/(.*\\.md|LEGALNOTICE|LICENSE) {{ default_type text/plain; }}
}}
""", [*spellings(*(f"/{name}" for name in MATOMO)), "GET /", "GET /index.php?module=API", "POST /matomo.php | body=idsite=1", "GET /matomo.php/x", "GET /matomo.PHP", "GET /README.md", "GET /LICENSE", "GET /js/container_a_preview.js", "GET /js/container_a.js",
      "GET /none", "GET /sub/", "GET /.htaccess", "GET /plugins/x.css", "GET /js/", "GET /js"], host="stats.test", php=True,
         files=secrets(*MATOMO, ".htaccess") | {"php/matomo.php": "<?php echo 'tracked ', $_POST['idsite'] ?? '';", "php/README.md": "text", "php/LICENSE": "text", "php/js/container_a_preview.js": "p", "php/js/container_a.js": "c",
                                   "php/plugins/x.css": "css"},
         fields="referrer-policy x-content-type-options x-xss-protection pragma", is_loose=True),
    Case("wordpress-full", f"""
upstream php {{ server unix:/run/php.sock; }}
server {{
    listen @PORT@; server_name blog.test; root /srv/php; index index.php; client_max_body_size 13m;
    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; }}
    location ~ /\\. {{ deny all; }}
    location ~* /(?:uploads|files)/.*\\.php$ {{ deny all; }}
    location ~* ^/wp-includes/.+\\.php$ {{ return 404; }}
    location = /xmlrpc.php {{ deny all; access_log off; }}
    location ~* (?:wp-config\\.php|readme\\.html|debug\\.log)$ {{ return 404; }}
    rewrite /wp-admin$ $scheme://$host$uri/ permanent;
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~* ^.+\\.(ogg|ogv|svg|svgz|eot|otf|woff|mp4|ttf|rss|atom|jpg|jpeg|gif|png|ico|zip|tgz|gz|rar|bz2|doc|xls|exe|ppt|tar|mid|midi|wav|bmp|rtf)$ {{ access_log off; log_not_found off; expires max; }}
    location ~ [^/]\\.php(/|$) {{
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        if (!-f $document_root$fastcgi_script_name) {{ return 404; }}
        include fastcgi_params; fastcgi_index index.php;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param HTTP_PROXY "";
        fastcgi_intercept_errors on; fastcgi_pass php;
    }}
}}
""", [*spellings(*(f"/{name}" for name in WORDPRESS)), "GET /", "GET /2024/05/post/?page=2", "GET /wp-admin", "GET /wp-admin/", "GET /wp-login.php", "GET /wp-login.php/x", "GET /none.php", "GET /none.php/x", "GET /a.png",
      "GET /wp-content/uploads/2024/a.jpg", "GET /wp-content/uploads/2024/", "GET /robots.txt", "GET /wp-json/wp/v2/posts", "GET /wp-content/uploads/2024/shell.php/x"], host="blog.test", php=True,
         files=secrets(*WORDPRESS) | {"php/wp-admin/index.php": "<?php echo 'admin';", "php/wp-login.php": "<?php echo 'login ', $_SERVER['PATH_INFO'] ?? '';", "php/wp-content/uploads/2024/a.jpg": "jpg", "php/robots.txt": "r", "php/a.png": "png"},
         is_loose=True),
]
