"""TLS, logs, compression, and options of the whole server."""

from .case import Case

CERTIFICATE = "ssl_certificate /srv/tls/chain.pem; ssl_certificate_key /srv/tls/key.pem;"

CASES = [
    Case("tls", f"""
server {{
    listen @PORT@ ssl http2; server_name site.test; {CERTIFICATE} root /srv/www;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers off; ssl_session_cache shared:SSL:10m; ssl_session_timeout 1d; ssl_session_tickets off;
    add_header Strict-Transport-Security "max-age=63072000" always;
    location / {{ try_files $uri =404; }}
    location = /scheme {{ return 200 "$scheme $https $server_protocol"; }}
}}
server {{ listen @PORT@ ssl; server_name other.test; {CERTIFICATE} return 204; }}
""", ["GET /a.txt", "GET /x", "GET /scheme", "GET / | Host: other.test", "GET /a.txt | Host: unknown.test"], is_tls=True, report={"root": "changed"},
         fields="strict-transport-security"),
    Case("ciphers", f"""
server {{
    listen @PORT@ ssl; {CERTIFICATE} ssl_protocols TLSv1 TLSv1.1 TLSv1.2; ssl_ciphers HIGH:!aNULL:!MD5; ssl_dhparam /srv/www/none; ssl_ecdh_curve auto;
    ssl_stapling on; ssl_stapling_verify on; return 200 ok;
}}
""".replace("ssl_dhparam /srv/www/none; ", ""), ["GET /"], is_tls=True, report={"ssl_protocols": "changed", "ssl_ciphers": "changed", "ssl_ecdh_curve": "changed"}),
    Case("gzip", """
gzip on; gzip_vary on; gzip_min_length 100; gzip_comp_level 5; gzip_types text/plain text/css application/json; gzip_proxied any; gzip_disable "msie6";
server {
    listen @PORT@; root /srv/www;
    location /other/ { gzip off; alias /srv/www/; }
    location / { }
}
""", ["GET /large.txt | Accept-Encoding: gzip", "~GET /a.txt | Accept-Encoding: gzip", "GET /large.txt", "GET /other/large.txt | Accept-Encoding: gzip"],
         report={"root": "changed", "alias": "changed", "gzip on": "changed"}, body=False, fields="vary"),
    Case("types", """
server {
    listen @PORT@; root /srv/www; charset utf-8;
    location /t/ { alias /srv/www/; types { } default_type application/x-own; }
    location = /none { default_type text/markdown; }
    location ~ \\.unknown$ { default_type text/x-unknown; }
    location = /nocharset.txt { charset off; alias /srv/www/a.txt; }
}
""", ["GET /a.txt", "GET /t/a.txt", "GET /none", "GET /a.unknown", "GET /", "GET /nocharset.txt"],
         report={"root": "changed", "alias": "changed", "charset utf-8": "changed"}),
    Case("body-sizes", """
client_max_body_size 200;
server {
    listen @PORT@;
    location / { proxy_pass http://10.0.0.1:8080; }
    location /up { client_max_body_size 0; proxy_pass http://10.0.0.1:8080; }
    location /small { client_max_body_size 10; proxy_pass http://10.0.0.1:8080; }
}
""", [f"POST / | body={'x' * 200}", f"POST / | body={'x' * 201}", f"POST /up | body={'x' * 5000}", f"POST /small | body={'x' * 11}"]),
    Case("default-body-size", "server { listen @PORT@; location / { proxy_pass http://10.0.0.1:8080; } }",
         [f"POST / | body={'x' * 1048576}", f"POST / | body={'x' * 1048577}"], body=False),
    Case("real-ip", """
set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;
server {
    listen @PORT@; root /srv/www;
    location = /ip { return 200 $remote_addr; }
    location /closed/ { allow 10.0.0.0/8; deny all; alias /srv/www/; }
}
""", ["GET /ip", "GET /ip | X-Forwarded-For: 10.1.2.3", "GET /ip | X-Forwarded-For: 1.1.1.1, 10.1.2.3, 127.0.0.5", "GET /closed/a.txt",
      "GET /closed/a.txt | X-Forwarded-For: 10.1.2.3"], report={"alias": "changed", "root": "changed"}),
    Case("methods-and-sizes", """
server {
    listen @PORT@; root /srv/www; server_tokens off; keepalive_timeout 5; sendfile on; tcp_nopush on; client_header_timeout 20; client_body_timeout 20; send_timeout 20;
    large_client_header_buffers 4 16k; client_body_buffer_size 32k; limit_rate 0;
    location / { limit_except GET POST { deny all; } }
}
""", ["GET /a.txt", "HEAD /a.txt", "PUT /a.txt | body=x", "POST /a.txt | body=x", "OPTIONS /a.txt"],
         report={"root": "changed", "large_client_header_buffers": "changed"}),
    Case("closing", """
server {
    listen @PORT@; root /srv/www;
    location ~ /\\.(?!well-known) { deny all; }
    location ~* ^/(?!public/).*\\.sql$ { return 403; }
    location ~ (?<!min)\\.js$ { deny all; }
    location ~* \\.(bak|config|sql|fla|psd|ini|log|sh|inc|swp|dist)$ { deny all; }
    location ~ ^/(?:config|lib)(?:$|/) { return 404; }
    location = /xmlrpc.php { deny all; access_log off; log_not_found off; }
    location / { auth_delay 1s; }
}
""", ["GET /.env", "GET /.well-known/a", "GET /x.sql", "GET /public/x.sql", "GET /x.bak", "GET /config/a", "GET /config", "GET /configs.txt", "GET /xmlrpc.php", "~GET /a.js",
      "~GET /a.min.js", "GET /a.txt", "GET /sub/.git/config"],
         files={f"www/{name}": "secret" for name in (".env", ".well-known/a", "x.sql", "public/x.sql", "x.bak", "config/a", "configs.txt", "xmlrpc.php", "a.js", "a.min.js", "sub/.git/config")},
         report={"root": "changed", "location ~ (?<!min)": "not converted", "deny all": "not converted", "auth_delay": "not converted"}),
]
CASES.append(Case("expires-by-type", """
map $sent_http_content_type $time { default 1y; "" off; ~*image/svg\\+xml 1w; ~*text/html epoch; ~*json epoch; application/pdf 1h; ~*xml 2h; }
server { listen @PORT@; root /srv/www; expires $time; location /early { return 200 "early $ssl_early_data $http2"; } }
""", ["GET /", "GET /a.txt", "GET /a.css", "GET /x.svg", "GET /x.json", "GET /x.xml", "GET /x.pdf", "GET /a.unknown", "GET /early"],
    files={f"www/x.{ending}": "x" for ending in ("svg", "json", "xml", "pdf")}, report={"root": "changed", "expires": "changed"}))
