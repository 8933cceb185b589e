"""Rules as applications, generators of configurations and panels publish them, in other words."""

from .case import Case

PASS = "include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;"
LOOSE = {"root": "changed"}
SECRETS = {name: "secret" for name in ("php/config/config.php", "php/data/users.db", "php/.env", "php/.git/HEAD", "php/sub/.hidden", "php/composer.json", "php/backup.sql")}

CASES = [
    Case("nextcloud-full", """
map $arg_v $asset_immutable { "" ""; default ", immutable"; }
server {
    listen @PORT@; server_name cloud.test; root /srv/php; client_max_body_size 512M; client_body_timeout 300s; fastcgi_buffers 64 4K;
    gzip on; gzip_vary on; gzip_comp_level 4; gzip_min_length 256; gzip_proxied expired no-cache; gzip_types application/json text/css text/plain;
    add_header Referrer-Policy "no-referrer" always;
    add_header X-Content-Type-Options "nosniff" always;
    add_header X-Robots-Tag "noindex, nofollow" always;
    fastcgi_hide_header X-Powered-By;
    index index.php index.html /index.php$request_uri;
    location = / { if ($http_user_agent ~ ^DavClnt) { return 302 /remote.php/webdav/$is_args$args; } }
    location = /robots.txt { allow all; log_not_found off; access_log off; }
    location ^~ /.well-known {
        location = /.well-known/carddav { return 301 /remote.php/dav/; }
        location = /.well-known/caldav { return 301 /remote.php/dav/; }
        location /.well-known/acme-challenge { try_files $uri $uri/ =404; }
        return 301 /index.php$request_uri;
    }
    location ~ ^/(?:build|tests|config|lib|3rdparty|templates|data)(?:$|/) { return 404; }
    location ~ ^/(?:\\.|autotest|occ|issue|indie|db_|console) { return 404; }
    location ~ \\.php(?:$|/) {
        rewrite ^/(?!index|remote|public|cron|core\\/ajax\\/update|status|ocs\\/v[12]|updater\\/.+|ocs-provider\\/.+|.+\\/richdocumentscode(_arm64)?\\/proxy) /index.php$request_uri;
        fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
        set $path_info $fastcgi_path_info;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $path_info;
        fastcgi_param modHeadersAvailable true;
        fastcgi_param front_controller_active true;
        fastcgi_pass unix:/run/php.sock;
        fastcgi_intercept_errors on; fastcgi_request_buffering off; fastcgi_max_temp_file_size 0;
    }
    location ~ \\.(?:css|js|mjs|svg|gif|ico|jpg|png|webp|wasm|tflite|map|ogg|flac)$ {
        try_files $uri /index.php$request_uri;
        add_header Cache-Control "public, max-age=15778463$asset_immutable";
        add_header Referrer-Policy "no-referrer" always;
        location ~ \\.wasm$ { default_type application/wasm; }
    }
    location ~ \\.(otf|woff2?)$ { try_files $uri /index.php$request_uri; expires 7d; access_log off; }
    location /remote { return 301 /remote.php$request_uri; }
    location / { try_files $uri $uri/ /index.php$request_uri; }
}
""", ["GET /", "GET / | User-Agent: DavClnt/1", "GET /index.php/apps/files?dir=/", "GET /apps/files", "GET /remote.php/dav/files/x", "GET /.well-known/carddav",
      "GET /.well-known/webfinger?resource=a", "GET /config/config.php", "GET /data/users.db", "GET /.env", "GET /occ", "GET /core/css/x.css?v=1", "GET /core/css/x.css", "GET /none.css",
      "GET /remote/x", "GET /a.php", "PROPFIND /remote.php/dav/ | body=x", "GET /sub/", "GET /status.php", "GET /robots.txt", "GET /console.php", "GET /.well-known/acme-challenge/t"],
         host="cloud.test", php=True, files=SECRETS | {"php/remote.php": "<?php echo 'remote ', $_SERVER['PATH_INFO'] ?? '', ' ', $_SERVER['modHeadersAvailable'] ?? '';", "php/core/css/x.css": "x {}",
                                                       "php/status.php": "<?php echo 'status';", "php/robots.txt": "robots", "php/.well-known/acme-challenge/t": "token"},
         fields="referrer-policy x-content-type-options x-robots-tag", is_loose=True),
    Case("drupal-full", f"""
server {{
    listen @PORT@; server_name drupal.test; root /srv/php; index index.php;
    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ allow all; log_not_found off; access_log off; }}
    location ~* \\.(txt|log)$ {{ allow 192.168.0.0/16; deny all; }}
    location ~ \\..*/.*\\.php$ {{ return 403; }}
    location ~ ^/sites/.*/private/ {{ return 403; }}
    location ~ ^/sites/[^/]+/files/.*\\.php$ {{ deny all; }}
    location ~* ^/.well-known/ {{ allow all; }}
    location ~ (^|/)\\. {{ return 403; }}
    location / {{ try_files $uri /index.php?$query_string; }}
    location @rewrite {{ rewrite ^ /index.php; }}
    location ~ /vendor/.*\\.php$ {{ deny all; return 404; }}
    location ~* \\.(engine|inc|install|make|module|profile|po|sh|.*sql|theme|twig|tpl(\\.php)?|xtmpl|yml)(~|\\.sw[op]|\\.bak|\\.orig|\\.save)?$|/(\\.(?!well-known).*)|Entries.*|Repository|Root|Tag|Template$ {{ deny all; return 404; }}
    location ~ '\\.php$|^/update.php' {{
        fastcgi_split_path_info ^(.+?\\.php)(|/.*)$;
        try_files $fastcgi_script_name =404;
        include fastcgi_params;
        fastcgi_param HTTP_PROXY "";
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_param QUERY_STRING $query_string;
        fastcgi_intercept_errors on;
        fastcgi_pass unix:/run/php.sock;
    }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|ico|svg)$ {{ try_files $uri @rewrite; expires max; log_not_found off; }}
    location ~ ^/sites/.*/files/styles/ {{ try_files $uri @rewrite; }}
    location ~ ^(/[a-z\\-]+)?/system/files/ {{ try_files $uri /index.php?$query_string; }}
    if ($request_uri ~* "^(.*/)index\\.php/(.*)") {{ return 307 $1$2; }}
}}
""", ["GET /", "GET /node/1?a=b", "GET /.env", "GET /a.txt", "GET /backup.sql", "GET /vendor/x.php", "GET /index.php/node", "GET /update.php/x", "GET /update.php", "GET /core/x.css", "GET /none.css",
      "GET /sites/default/files/evil.php", "GET /sites/default/private/x", "GET /sub/.hidden", "GET /a.php", "GET /robots.txt", "GET /x.module", "GET /.well-known/x"],
         host="drupal.test", php=True, files=SECRETS | {"php/vendor/x.php": "<?php echo 'no';", "php/update.php": "<?php echo 'update ', ($_SERVER['PATH_INFO'] ?? '') ?: '-';", "php/core/x.css": "c",
                                                        "php/sites/default/files/evil.php": "<?php echo 'no';", "php/sites/default/private/x": "secret", "php/x.module": "secret", "php/robots.txt": "r", "php/.well-known/x": "w"},
         is_loose=True),
    Case("magento-full", f"""
upstream fastcgi_backend {{ server unix:/run/php.sock; }}
server {{
    listen @PORT@; server_name store.test; set $MAGE_ROOT /srv/store; set $MAGE_MODE production;
    root $MAGE_ROOT/pub; index index.php; autoindex off; charset UTF-8; error_page 404 403 = /errors/404.php;
    location /.user.ini {{ deny all; }}
    location ~* ^/setup($|/) {{ root $MAGE_ROOT; location ~ ^/setup/index.php {{ include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass fastcgi_backend; }} location ~ ^/setup/(?!pub/). {{ deny all; }} }}
    location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
    location /pub/ {{ location ~ ^/pub/media/(downloadable|customer|import|custom_options/.*) {{ deny all; }} alias $MAGE_ROOT/pub/; add_header X-Frame-Options "SAMEORIGIN"; }}
    location /static/ {{
        expires max;
        location ~ ^/static/version\\d*/ {{ rewrite ^/static/version\\d*/(.*)$ /static/$1 last; }}
        location ~* \\.(ico|jpg|jpeg|png|gif|svg|css|html|json|js)$ {{
            add_header Cache-Control "public"; add_header X-Frame-Options "SAMEORIGIN"; expires +1y;
            if (!-f $request_filename) {{ rewrite ^/static/(version\\d*/)?(.*)$ /static.php?resource=$2 last; }}
        }}
        location ~* \\.(zip|gz|gzip|bz2|csv|xml)$ {{ add_header Cache-Control "no-store"; expires off; }}
        if (!-f $request_filename) {{ rewrite ^/static/(version\\d*/)?(.*)$ /static.php?resource=$2 last; }}
        add_header X-Frame-Options "SAMEORIGIN";
    }}
    location /media/ {{
        try_files $uri $uri/ /get.php$is_args$args;
        location ~ ^/media/theme_customization/.*\\.xml {{ deny all; }}
        location ~* \\.(ico|jpg|png)$ {{ add_header Cache-Control "public"; expires +1y; try_files $uri $uri/ /get.php$is_args$args; }}
    }}
    location /media/customer/ {{ deny all; }}
    location /media/import/ {{ deny all; }}
    location ~ ^/errors/.*\\.(xml|phtml)$ {{ deny all; }}
    location ~ ^/(index|get|static|errors/report|errors/404|errors/503|health_check)\\.php$ {{
        try_files $uri =404; fastcgi_pass fastcgi_backend; fastcgi_buffers 16 16k; fastcgi_read_timeout 600s;
        fastcgi_param PHP_FLAG "session.auto_start=off"; fastcgi_param PHP_VALUE "memory_limit=756M \\n max_execution_time=18000"; fastcgi_param MAGE_RUN_TYPE store;
        include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    }}
    location ~* (\\.php$|\\.phtml$|\\.htaccess$|\\.htpasswd$|\\.git) {{ deny all; }}
}}
""", ["GET /", "GET /catalog/product?id=1", "GET /static/version123/a.css", "GET /static/a.css", "GET /static/none.css", "GET /static/x.zip", "GET /media/p.jpg", "GET /media/none.jpg", "GET /media/customer/x",
      "GET /media/import/x", "GET /other.php", "GET /.htaccess", "GET /setup/index.php", "GET /setup/secret.txt", "GET /pub/media/customer/x", "GET /errors/local.xml", "GET /.user.ini", "GET /.git/config", "GET /x.phtml"],
         host="store.test", php=True, files={"store/pub/index.php": "<?php echo 'index ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['MAGE_RUN_TYPE'] ?? '';", "store/pub/static.php": "<?php echo 'static ', $_GET['resource'];",
                                             "store/pub/get.php": "<?php echo 'get ', $_SERVER['REQUEST_URI'];", "store/pub/errors/404.php": "<?php http_response_code(404); echo 'our 404';", "store/pub/static/a.css": "css",
                                             "store/pub/static/x.zip": "zip", "store/pub/media/p.jpg": "jpg", "store/pub/media/customer/x": "secret", "store/pub/media/import/x": "secret", "store/pub/other.php": "<?php echo 'no';",
                                             "store/setup/index.php": "<?php echo 'setup';", "store/setup/secret.txt": "secret", "store/pub/errors/local.xml": "secret", "store/pub/x.phtml": "secret", "store/pub/.user.ini": "secret"},
         fields="x-frame-options", is_loose=True),
    Case("mediawiki-full", f"""
server {{
    listen @PORT@; server_name wiki.test; root /srv/wiki; client_max_body_size 5m;
    location ~ ^/w/(index|load|api|thumb|opensearch_desc|rest|img_auth)\\.php$ {{ {PASS} }}
    location /w/images {{ }}
    location /w/images/deleted {{ deny all; }}
    location ~ ^/w/resources/(assets|lib|src) {{ try_files $uri =404; add_header Cache-Control "public"; expires 7d; }}
    location ~ ^/w/(skins|extensions)/.+\\.(css|js|gif|jpg|jpeg|png|svg|wasm|ttf|woff|woff2)$ {{ try_files $uri =404; add_header Cache-Control "public"; expires 7d; }}
    location ~ ^/w/(COPYING|CREDITS)$ {{ default_type text/plain; }}
    location /w/rest.php/ {{ try_files $uri $uri/ /w/rest.php?$query_string; }}
    location /wiki/ {{ rewrite ^/wiki/(?<pagename>.*)$ /w/index.php; }}
    location = / {{ return 301 /wiki/Main_Page; }}
    location / {{ return 404; }}
}}
""", ["GET /", "GET /wiki/Page?x=1", "GET /w/index.php?title=A", "GET /w/load.php", "GET /w/LocalSettings.php", "GET /w/images/a.png", "GET /w/images/deleted/x", "GET /w/skins/v/x.css", "GET /w/skins/v/x.php",
      "GET /w/COPYING", "GET /w/rest.php/v1/page", "GET /other", "GET /w/resources/lib/x.js"],
         host="wiki.test", php=True, files={f"wiki/w/{name}": text for name, text in {"index.php": "<?php echo 'wiki ', $_SERVER['REQUEST_URI'];", "load.php": "<?php echo 'load';", "rest.php": "<?php echo 'rest ', $_SERVER['REQUEST_URI'];",
                                                                                          "LocalSettings.php": "<?php // secret", "images/a.png": "png", "images/deleted/x": "secret", "skins/v/x.css": "css", "skins/v/x.php": "<?php echo 'no';", "COPYING": "gpl", "resources/lib/x.js": "js"}.items()},
         is_loose=True),
    Case("laravel-forge", f"""
server {{
    listen @PORT@; server_name app.test; server_tokens off; root /srv/php;
    add_header X-Frame-Options "SAMEORIGIN"; add_header X-XSS-Protection "1; mode=block"; add_header X-Content-Type-Options "nosniff";
    index index.html index.htm index.php; charset utf-8;
    location / {{ try_files $uri $uri/ /index.php?$query_string; }}
    location = /favicon.ico {{ access_log off; log_not_found off; }}
    location = /robots.txt  {{ access_log off; log_not_found off; }}
    access_log off; error_log /var/log/app-error.log error;
    error_page 404 /index.php;
    location ~ \\.php$ {{ fastcgi_split_path_info ^(.+\\.php)(/.+)$; fastcgi_pass unix:/run/php.sock; fastcgi_index index.php; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }}
    location ~ /\\.(?!well-known).* {{ deny all; }}
}}
""", ["GET /", "GET /login?next=x", "GET /a.php", "GET /none.php", "GET /.env", "GET /.well-known/x", "GET /favicon.ico", "GET /a.txt", "POST /form | body=a=b", "GET /sub/", "GET /api/items", "PUT /api/items/1 | body=x"],
         host="app.test", php=True, files=SECRETS | {"php/.well-known/x": "w"}, fields="x-frame-options x-content-type-options", is_loose=True),
    Case("symfony", f"""
server {{
    listen @PORT@; server_name sf.test; root /srv/php;
    location / {{ try_files $uri /index.php$is_args$args; }}
    location /bundles {{ try_files $uri =404; }}
    location ~ ^/index\\.php(/|$) {{
        fastcgi_pass unix:/run/php.sock; fastcgi_split_path_info ^(.+\\.php)(/.*)$; include fastcgi_params;
        fastcgi_param APP_ENV prod; fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name; fastcgi_param DOCUMENT_ROOT $realpath_root; fastcgi_buffer_size 128k; fastcgi_buffers 4 256k; fastcgi_busy_buffers_size 256k; internal;
    }}
    location ~ \\.php$ {{ return 404; }}
    error_log /var/log/project_error.log; access_log /var/log/project_access.log;
}}
""", ["GET /", "GET /blog?page=2", "GET /index.php", "GET /index.php/blog", "GET /a.php", "GET /bundles/x.css", "GET /bundles/none.css", "GET /a.txt"], host="sf.test", php=True,
         files={"php/bundles/x.css": "x"}, is_loose=True),
    Case("hestia", f"""
server {{
    listen @PORT@; server_name user.test www.user.test; root /srv/php/; index index.php index.html index.htm; access_log /var/log/user.test.log combined; access_log /var/log/user.test.bytes combined; error_log /var/log/user.test.error.log error;
    location = /favicon.ico {{ log_not_found off; access_log off; }}
    location = /robots.txt {{ try_files $uri $uri/ /index.php?$args; log_not_found off; access_log off; }}
    location ~ /\\.(?!well-known\\/) {{ deny all; return 404; }}
    location / {{
        try_files $uri $uri/ /index.php?$args;
        if (!-e $request_filename) {{ rewrite ^(.+)$ /index.php?q=$1 last; }}
        location ~* ^.+\\.(ogg|ogv|svg|svgz|swf|eot|otf|woff|woff2|mov|mp3|mp4|webm|flv|ttf|rss|atom|jpg|jpeg|gif|png|webp|ico|bmp|mid|midi|wav|rtf|css|js|jar)$ {{ expires 30d; fastcgi_hide_header "Set-Cookie"; }}
        location ~* /(?:uploads|files)/.*.php$ {{ deny all; return 404; }}
        location ~ [^/]\\.php(/|$) {{ try_files $uri =404; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_index index.php; fastcgi_pass unix:/run/php.sock; }}
    }}
    location /error/ {{ alias /srv/www/dir/; }}
    location @fallback {{ proxy_pass http://10.0.0.1:8080; }}
    location /vstats/ {{ alias /srv/www/sub/; auth_basic "Stats"; auth_basic_user_file /srv/users; }}
}}
""", ["GET /", "GET /post/a?x=y", "GET /a.php", "GET /a.php/x", "GET /.env", "GET /uploads/e.php", "GET /x.css", "GET /none.css", "GET /error/d.txt", "GET /vstats/c.txt", "GET /vstats/c.txt | Authorization: Basic YW5uOnNlY3JldA==",
      "GET /.well-known/a", "GET /robots.txt", "GET /sub/"], host="user.test", php=True,
         files=SECRETS | {"php/uploads/e.php": "<?php echo 'no';", "php/x.css": "css", "php/.well-known/a": "w", "php/robots.txt": "robots"}, is_loose=True),
    Case("froxlor", f"""
server {{
    listen @PORT@; server_name kunde.test; access_log /var/log/kunde-access.log combined; error_log /var/log/kunde-error.log error; root /srv/php/;
    location / {{ index index.php index.html index.htm; try_files $uri $uri/ @rewrites; }}
    location @rewrites {{ rewrite ^ /index.php last; }}
    location ~ ^(.+?\\.php)(/.*)?$ {{
        try_files /hfzz-none.htm @php;
    }}
    location @php {{
        try_files $1 =404;
        include fastcgi_params; fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_param SCRIPT_FILENAME $document_root$1; fastcgi_param PATH_INFO $2; fastcgi_pass unix:/run/php.sock; fastcgi_index index.php;
    }}
    location ~ /\\.ht {{ deny all; }}
}}
""", ["GET /", "GET /x/y?z=1", "GET /a.php", "GET /none.php", "GET /.htpasswd", "GET /a.txt", "~GET /a.php/info"], host="kunde.test", php=True, is_loose=True),
    Case("cloudpanel", f"""
server {{
    listen @PORT@; server_name cp.test; root /srv/php; index index.php index.html;
    location ~ /.well-known {{ auth_basic off; allow all; }}
    location / {{ proxy_pass http://@PORT2@; proxy_set_header Host $host; proxy_set_header X-Real-IP $remote_addr; proxy_hide_header X-Varnish; proxy_redirect off; proxy_max_temp_file_size 0; proxy_connect_timeout 720; proxy_send_timeout 720; proxy_read_timeout 720; }}
    location ~* ^.+\\.(css|js|jpg|jpeg|gif|png|ico|gz|svg|svgz|ttf|otf|woff|woff2|eot|mp4|ogg|ogv|webm|webp|zip|swf|map)$ {{ add_header Access-Control-Allow-Origin "*"; expires max; access_log off; }}
    if (-f $request_filename) {{ break; }}
}}
server {{
    listen @PORT2@; server_name cp.test; root /srv/php; try_files $uri $uri/ /index.php?$args; index index.php index.html;
    location ~ \\.php$ {{ include fastcgi_params; fastcgi_intercept_errors on; fastcgi_index index.php; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; try_files $uri =404; fastcgi_read_timeout 3600; fastcgi_send_timeout 3600; fastcgi_param HTTPS "on"; fastcgi_param SERVER_PORT 443; fastcgi_pass unix:/run/php.sock; }}
}}
""", ["GET /", "GET /x?y=z", "GET /a.php", "GET /x.css", "GET /none.css", "GET /a.txt"], host="cp.test", php=True, files={"php/x.css": "css"}, fields="access-control-allow-origin", is_loose=True),
    Case("wordops", f"""
fastcgi_cache_path /srv/cache levels=1:2 keys_zone=WORDPRESS:10m inactive=60m max_size=100m;
fastcgi_cache_key "$scheme$request_method$host$request_uri"; fastcgi_cache_use_stale error timeout invalid_header http_500;
map $request_method $skip_method {{ default 0; POST 1; }}
map $request_uri $skip_uri {{ default 0; ~*/wp-admin/ 1; ~*preview=true 1; }}
map $http_cookie $skip_cookie {{ default 0; ~*wordpress_logged_in 1; ~*comment_author 1; }}
server {{
    listen @PORT@; server_name wo.test; root /srv/php; index index.php;
    set $skip_cache 0;
    if ($skip_method) {{ set $skip_cache 1; }} if ($skip_uri) {{ set $skip_cache 1; }} if ($skip_cookie) {{ set $skip_cache 1; }}
    location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
    location ~ \\.php$ {{
        try_files $uri =404; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock;
        fastcgi_cache_bypass $skip_cache; fastcgi_no_cache $skip_cache; fastcgi_cache WORDPRESS; fastcgi_cache_valid 200 60m; add_header X-fastcgi-cache $upstream_cache_status;
    }}
    location = /wp-login.php {{ limit_req zone=one burst=1 nodelay; include fastcgi_params; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:/run/php.sock; }}
    location ~* /wp-content/uploads/.*\\.php$ {{ deny all; }}
    location = /xmlrpc.php {{ deny all; access_log off; }}
    location ~ ^/wp-config\\.php {{ deny all; }}
    location ~* \\.(ogg|js|css|png|gif|ico)$ {{ add_header "Access-Control-Allow-Origin" "*"; access_log off; log_not_found off; expires max; }}
    location ^~ /.well-known/acme-challenge/ {{ auth_basic off; allow all; default_type "text/plain"; }}
    location ~ /\\.(?!well-known).* {{ deny all; }}
}}
limit_req_zone $binary_remote_addr zone=one:10m rate=1r/m;
""", ["GET /", "GET /post?a=b", "GET /wp-login.php", "GET /wp-login.php", "GET /wp-login.php", "GET /xmlrpc.php", "GET /wp-config.php", "GET /wp-content/uploads/x.php", "GET /x.css", "GET /.env",
      "GET /.well-known/acme-challenge/t", "GET / | Cookie: wordpress_logged_in=1"], host="wo.test", php=True,
         files=SECRETS | {"php/wp-login.php": "<?php echo 'login';", "php/xmlrpc.php": "<?php echo 'no';", "php/wp-config.php": "<?php echo 'no';", "php/wp-content/uploads/x.php": "<?php echo 'no';", "php/x.css": "c", "php/.well-known/acme-challenge/t": "t"},
         fields="x-fastcgi-cache access-control-allow-origin", is_loose=True),
    Case("h5bp", """
map $sent_http_content_type $expires_of { default 1M; text/html epoch; application/json 0; text/css 1y; ~*image/ 1M; }
map $sent_http_content_type $policy { ~*text/html "default-src 'self'"; }
server { listen @PORT@; server_name www.h5.test; return 301 $scheme://h5.test$request_uri; }
server {
    listen @PORT@ default_server; server_name h5.test; root /srv/www; charset utf-8; expires $expires_of;
    error_page 404 /50x.html;
    add_header X-Content-Type-Options nosniff always; add_header Content-Security-Policy $policy always; add_header Referrer-Policy $policy;
    location ~* /\\.(?!well-known\\/) { deny all; }
    location ~* (?:#.*#|\\.(?:bak|conf|dist|fla|in[ci]|log|orig|psd|sh|sql|sw[op])|~)$ { deny all; }
}
""", ["GET /", "GET /a.css", "GET /x", "GET /.env", "GET /x.bak", "GET /a.txt~", "GET / | Host: www.h5.test", "GET /.well-known/x", "GET /x.conf"], host="h5.test",
         files={f"www/{name}": "secret" for name in (".env", "x.bak", "a.txt~", ".well-known/x", "x.conf")}, fields="x-content-type-options content-security-policy", is_loose=True),
    Case("websocket-proxy", """
map $http_upgrade $connection_upgrade { default upgrade; '' close; }
upstream app { least_conn; server 10.0.0.1:8080 weight=3 max_fails=3 fail_timeout=30s; server 10.0.0.2:8080 backup; keepalive 16; }
server {
    listen @PORT@; server_name ws.test; client_max_body_size 0;
    location / {
        proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; proxy_set_header Host $http_host;
        proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; proxy_buffering off; proxy_cache_bypass $http_upgrade; proxy_read_timeout 3600s;
    }
    location ~* \\.(php|asp)$ { return 444; }
}
""", ["GET /x", "POST /y | body=abc", "GET /x.php", "GET /x | Host: other.test"], host="ws.test", is_loose=True),
    Case("joomla", f"""
server {{
    listen @PORT@; server_name joomla.test; root /srv/php; index index.php index.html;
    location / {{ try_files $uri $uri/ /index.php?$args; }}
    location ~* /(images|cache|media|logs|tmp)/.*\\.(php|pl|py|jsp|asp|sh|cgi)$ {{ return 403; error_page 403 /403_error.html; }}
    location ~ \\.php$ {{ {PASS} }}
    location ~* \\.(ico|pdf|flv)$ {{ expires 1y; }}
    location ~* \\.(js|css|png|jpg|jpeg|gif|swf|xml|txt)$ {{ expires 14d; }}
}}
""", ["GET /", "GET /article?x=1", "GET /images/x.php", "GET /a.txt", "GET /a.php", "GET /none.txt"], host="joomla.test", php=True, files={"php/images/x.php": "<?php echo 'no';", "php/403_error.html": "ours"}, is_loose=True),
    Case("moodle", f"""
server {{
    listen @PORT@; server_name moodle.test; root /srv/php; index index.php;
    location / {{ try_files $uri $uri/ =404; }}
    location /dataroot/ {{ internal; alias /srv/other/; }}
    location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+\\.php)(/.+)$; fastcgi_index index.php; fastcgi_pass unix:/run/php.sock; include fastcgi_params; fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }}
    location ~ (/vendor/|/node_modules/|composer\\.json|/readme|/README|readme\\.txt|/upgrade\\.txt|db/install\\.xml|/fixtures/|/behat/|phpunit\\.xml|\\.lock|environment\\.xml) {{ deny all; return 404; }}
}}
""", ["GET /", "GET /a.php", "GET /a.php/slash/args?x=1", "GET /dataroot/a.txt", "GET /composer.json", "GET /send.php", "GET /none.php"], host="moodle.test", php=True,
         files=SECRETS | {"php/send.php": "<?php header('X-Accel-Redirect: /dataroot/a.txt'); header('Content-Type: text/x-sent');"}, is_loose=True),
    Case("typo3", f"""
server {{
    listen @PORT@; server_name t3.test; root /srv/php; index index.php;
    location ~* composer\\.(?:json|lock) {{ deny all; }}
    location ~* _(?:recycler|temp)_/ {{ deny all; }}
    location ~* fileadmin/(?:templates)/.*\\.(?:txt|ts|typoscript)$ {{ deny all; }}
    location ~* ^/(?:vendor|typo3_src|typo3temp/var) {{ deny all; }}
    location ~* (?:^|/)\\.(?!well-known/) {{ deny all; }}
    location / {{ try_files $uri $uri/ /index.php$is_args$args; }}
    if (!-e $request_filename) {{ rewrite ^/(.+)\\.(\\d+)\\.(php|js|css|png|jpg|gif|gzip)$ /$1.$3 last; }}
    location = /typo3 {{ rewrite ^ /typo3/; }}
    location /typo3/ {{ absolute_redirect off; try_files $uri /typo3/index.php$is_args$args; }}
    location ~ [^/]\\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; if (!-f $document_root$fastcgi_script_name) {{ return 404; }} fastcgi_pass unix:/run/php.sock; include fastcgi_params; fastcgi_param PATH_INFO $fastcgi_path_info; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }}
}}
""", ["GET /", "GET /page?x=1", "GET /x.123.css", "GET /composer.json", "GET /.env", "GET /typo3", "GET /typo3/module", "GET /none.php", "GET /a.php", "GET /vendor/a", "GET /a.php/pi"], host="t3.test", php=True,
         files=SECRETS | {"php/x.css": "css", "php/typo3/index.php": "<?php echo 'backend ', $_SERVER['REQUEST_URI'];", "php/vendor/a": "secret"}, is_loose=True),
]
