"""Rules of applications, asked with hostile paths, too."""

from .case import Case
from .panels import PASS, site

CASES = [
    site("prestashop", """
server {
    listen @PORT@; server_name site.test; root /srv/php; index index.php; set $admin_dir /admin;
    rewrite ^/([0-9])(-[_a-zA-Z0-9-]*)?(/.+)?\\.jpg$ /img/p/$1/$1$2.jpg last;
    rewrite ^/c/([0-9]+)(-[_a-zA-Z0-9-]*)(/.+)?\\.jpg$ /img/c/$1$2.jpg last;
    rewrite ^/images_ie/?([^/]+)\\.(gif|jpe?g|png)$ /js/jquery/plugins/fancybox/images/$1.$2 last;
    rewrite ^/order$ /index.php?controller=order last;
    rewrite ^/webservice/(.*)$ /webservice/dispatcher.php?url=$1 last;
    location = /favicon.ico { log_not_found off; access_log off; }
    location /admin/ { if (!-e $request_filename) { rewrite ^/.*$ /admin/index.php last; } }
    location / { if (!-e $request_filename) { rewrite ^/.*$ /index.php last; } }
    location ~ /\\. { deny all; }
    location ~ ^/(app|bin|cache|classes|config|controllers|docs|localization|override|src|tests|tools|translations|var|vendor)/ { deny all; }
    location ~ ^/modules/.*/vendor/ { deny all; }
    location ~ \\.(log|tpl|twig|sass|yml)$ { deny all; }
    location /upload { location ~ \\.php$ { deny all; } }
    location /img { location ~ \\.php$ { deny all; } }
    location ~ \\.php$ { try_files $fastcgi_script_name /index.php$uri&$args =404; fastcgi_split_path_info ^(.+\\.php)(/.+)$; fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_keep_conn on; fastcgi_read_timeout 30s; }
}
""", "GET /1-home/x.jpg", "GET /c/2-x/y.jpg", "GET /order?step=1", "GET /webservice/products/1?x", "GET /admin/none", "GET /config/x", "GET /img/x.php", "GET /upload/x.php", "GET /modules/m/vendor/x", "GET /x.tpl", "GET /upload", "GET /admin/x.php",
         files={"php/img/p/1/1-home.jpg": "jpg", "php/img/c/2-x.jpg": "c", "php/img/x.php": "<?php echo 1;", "php/upload/x.php": "<?php echo 1;", "php/config/x": "secret", "php/x.tpl": "secret", "php/modules/m/vendor/x": "secret"}),
    site("phpmyadmin-below", """
server {
    listen @PORT@; server_name site.test; root /srv/php; index index.php;
    location / { try_files $uri $uri/ =404; }
    location ~ \\.php$ { try_files $uri =404; """ + PASS + """ }
    location ^~ /phpmyadmin {
        root /srv/tools; index index.php; allow 127.0.0.1; deny all;
        location ~ ^/phpmyadmin/(.+\\.php)$ { try_files $uri =404; """ + PASS + """ }
        location ~* ^/phpmyadmin/(.+\\.(jpg|jpeg|gif|css|png|js|ico|html|xml|txt))$ { root /srv/tools; }
        location ~ ^/phpmyadmin/(doc|sql|setup|libraries|templates)/ { deny all; }
    }
    location /phpMyAdmin { rewrite ^/* /phpmyadmin last; }
    location /pma/ { alias /srv/tools/phpmyadmin/; location ~ ^/pma/(.+\\.php)$ { alias /srv/tools/phpmyadmin/$1; fastcgi_pass unix:/run/php.sock; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $request_filename; } }
    location ~ /\\.(ht|env|git) { deny all; }
}
""", "GET /phpmyadmin", "GET /phpmyadmin/", "GET /phpmyadmin/index.php?a=b", "GET /phpmyadmin/x.css", "GET /phpmyadmin/libraries/l.txt", "GET /phpmyadmin/libraries/l.php", "GET /phpMyAdmin", "GET /phpMyAdmin/", "GET /pma/", "GET /pma/index.php?x", "GET /pma/x.css", "GET /pma", "GET /pma/../.env", "GET /pma/none.php", "GET /phpmyadmin/doc/d.txt", "GET /phpmyadmin/none", "GET /pmaindex.php",
         files={f"tools/phpmyadmin/{name}": text for name, text in {"index.php": "<?php echo 'pma ', $_SERVER['REQUEST_URI'];", "x.css": "c", "libraries/l.txt": "l", "libraries/l.php": "<?php echo 'lib';", "doc/d.txt": "d"}.items()}),
    site("dokuwiki", """
server {
    listen @PORT@; server_name site.test; root /srv/php; index index.php doku.php; client_max_body_size 4M; client_body_buffer_size 128k;
    location ~ /(data/|conf/|bin/|inc/|vendor/|install.php) { deny all; }
    location ~ ^/lib.*\\.(js|css|gif|png|ico|jpg|jpeg)$ { expires 365d; }
    location / { try_files $uri $uri/ @dokuwiki; }
    location @dokuwiki { rewrite ^/_media/(.*) /lib/exe/fetch.php?media=$1 last; rewrite ^/_detail/(.*) /lib/exe/detail.php?media=$1 last; rewrite ^/_export/([^/]+)/(.*) /doku.php?do=export_$1&id=$2 last; rewrite ^/(.*) /doku.php?id=$1&$args last; }
    location ~ \\.php$ { try_files $uri $uri/ /doku.php; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param REDIRECT_STATUS 200; fastcgi_pass unix:/run/php.sock; }
}
""", "GET /start", "GET /ns:page?do=edit", "GET /_media/wiki:x.png?w=1", "GET /_export/pdf/a%20b", "GET /data/p", "GET /conf/", "GET /inc/x.php", "GET /install.php", "GET /lib/a.css", "GET /lib/exe/fetch.php?media=a", "GET /_detail/..%2f..%2fx",
         files={"php/doku.php": "<?php echo 'doku ', $_SERVER['QUERY_STRING'];", "php/lib/exe/fetch.php": "<?php echo 'fetch ', $_SERVER['QUERY_STRING'];", "php/lib/exe/detail.php": "<?php echo 'detail ', $_SERVER['QUERY_STRING'];", "php/data/p": "secret", "php/inc/x.php": "<?php echo 1;", "php/install.php": "<?php echo 1;", "php/lib/a.css": "c"}),
    site("wordpress-subdirectory", """
server {
    listen @PORT@; server_name site.test; root /srv/www; index index.html;
    location / { try_files $uri $uri/ =404; }
    location /blog { alias /srv/php; index index.php; try_files $uri $uri/ @blog;
        location ~ \\.php$ { if (!-f $request_filename) { rewrite ^ /blog/index.php last; } fastcgi_param SCRIPT_FILENAME $request_filename; include fastcgi_params; fastcgi_pass unix:/run/php.sock; }
        location ~* /(?:uploads|files)/.*\\.php$ { deny all; }
    }
    location @blog { rewrite /blog/(.*)$ /blog/index.php?/$1 last; }
    location ~ /\\.(?!well-known) { deny all; }
}
""", "GET /blog", "GET /blog/", "GET /blog/a.php", "GET /blog/a.txt", "GET /blog/none", "GET /blog/2020/01/x?y=1", "GET /blog/.env", "GET /blog/uploads/x.php", "GET /blog../php/.env", "GET /blogx", "GET /blog/uploads/a.jpg", "GET /blog/none.php", "GET /blog/../a.txt"),
]
