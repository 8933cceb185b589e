"""Other servers."""

from .case import Case

CASES = [
    Case("proxy", """
upstream backend { server 10.0.0.1:8080; keepalive 8; }
server {
    listen @PORT@;
    proxy_set_header Host $host;
    proxy_set_header X-Real-IP $remote_addr;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;
    location / { proxy_pass http://backend; }
    location /api/ { proxy_pass http://backend/v2/; proxy_hide_header X-Secret; }
    location = /exact { proxy_pass http://10.0.0.1:8080/other; }
    location /own/ { proxy_pass http://10.0.0.1:8080; proxy_set_header X-Only yes; }
    location ~ ^/re/(.*)$ { proxy_pass http://10.0.0.1:8080/$1?x=y; }
    location /re2/ { rewrite ^/re2/(.*)$ /changed/$1 break; proxy_pass http://10.0.0.1:8080/ignored/; }
    location /closed/ { deny all; proxy_pass http://backend; }
    location /errors/ { proxy_pass http://backend; proxy_intercept_errors on; error_page 503 /sorry; }
    location = /sorry { return 200 sorry; }
    location /dead/ { proxy_pass http://127.0.0.1:1; }
    location /uri/ { proxy_pass http://10.0.0.1:8080$request_uri; }
}
""", ["GET /", "GET /a%20b/c?d=e", "POST /x | body=hello", "GET /api/x?y", "GET /api", "GET /exact?q", "GET /own/x", "GET /re/abc", "GET /re2/a", "GET /closed/",
      "GET /errors/ | Reply: 503", "GET /dead/x", "GET /uri/a?b", "GET / | X-Forwarded-For: 9.9.9.9", "GET /r | Reply: 302 | Reply-Field: Location=http://backend/there",
      "GET /api/r | Reply: 302 | Reply-Field: Location=http://backend/v2/there", "GET /api/ | Reply-Field: X-Secret=1"], fields="x-secret"),
    Case("proxy-cookies", """
server {
    listen @PORT@;
    location / { proxy_pass http://10.0.0.1:8080; proxy_cookie_domain app.internal site.test; proxy_cookie_path /app/ /; proxy_redirect http://app.internal/ /; proxy_buffering off; proxy_read_timeout 5s; }
}
""", ["GET / | Reply-Field: Set-Cookie=a=b; Domain=app.internal; Path=/app/", "GET / | Reply: 301 | Reply-Field: Location=http://app.internal/x"]),
    Case("proxy-variable", """
server {
    listen @PORT@;
    set $target http://10.0.0.1:8080;
    location / { proxy_pass $target; }
    location /by-header/ { proxy_pass http://$http_x_backend; }
}
""", ["GET /x?y", "~GET /by-header/ | X-Backend: 10.0.0.1:8080"], report={"proxy_pass http://$http_x_backend": "not converted"}),
    Case("foreign", """
server {
    listen @PORT@; root /srv/www;
    location /uw { uwsgi_pass 127.0.0.1:1; include uwsgi_params; }
    location /sc { scgi_pass 127.0.0.1:1; }
    location /mem { set $memcached_key x; memcached_pass 127.0.0.1:1; }
    location /dav/ { dav_methods PUT DELETE; alias /srv/www/; }
    location /status { stub_status; allow 127.0.0.1; deny all; }
    location /gif { empty_gif; }
    location /sub/ { sub_filter a b; }
}
""", ["~GET /uw", "~GET /sc", "~GET /mem", "~PUT /dav/x | body=y", "~GET /status", "~GET /gif", "GET /a.txt"],
         report={"root": "changed", "alias": "not converted", "uwsgi_": "not converted", "scgi_": "not converted", "memcached_": "not converted", "dav_methods": "not converted", "stub_status": "not converted",
                 "empty_gif": "not converted", "sub_filter": "not converted"}),
    Case("auth-request", """
server {
    listen @PORT@; root /srv/www;
    location /private/ { auth_request /check; alias /srv/www/; }
    location = /check { internal; proxy_pass http://10.0.0.1:8080/auth; proxy_pass_request_body off; proxy_set_header Content-Length ""; }
    location /with-user/ { auth_request /check; auth_request_set $user $upstream_http_x_user; proxy_set_header X-User $user; proxy_pass http://10.0.0.2:8080; }
}
""", ["GET /private/a.txt", "GET /private/a.txt | Reply: 401", "GET /private/a.txt | Reply: 403", "GET /check", "~GET /with-user/x | Reply-Field: X-User=ann"],
         report={"root": "changed", "alias": "changed"}),
    Case("limits", """
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_conn_zone $binary_remote_addr zone=conn:1m;
server {
    listen @PORT@; root /srv/www; limit_conn conn 10;
    location /few/ { limit_req zone=one burst=1 nodelay; alias /srv/www/; }
    location /status/ { limit_req zone=one; limit_req_status 429; alias /srv/www/; }
}
""", ["GET /few/a.txt", "GET /few/a.txt", "GET /few/a.txt", "GET /status/a.txt", "GET /a.txt"], report={"root": "changed", "alias": "changed"}),
]
