"""Other servers."""

from directives.variables import hexed, signed

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
    Case("fields-beside", """
server {
    listen @PORT@; root /srv/www;
    add_header X-Two a; add_header X-Two b; add_header Link "<$arg_a>" always; add_header X-None $arg_b;
    location / { proxy_hide_header X-Secret; proxy_pass http://10.0.0.1:8080; }
    location /hidden/ { proxy_hide_header X-Secret; add_header X-Secret own; add_header x-secret more; proxy_pass http://10.0.0.1:8080; }
    location /mixed/ { add_header X-Two a; add_header x-two "" always; add_header X-Two c always; add_header ETag $arg_e; proxy_pass http://10.0.0.1:8080; }
    location /files/ { alias /srv/www/; add_header Vary Origin; add_header Vary Accept; add_header Last-Modified ""; }
    location = /text { add_header Cache-Control "max-age=1"; add_header Cache-Control public; return 200 text; }
    location /timed/ { alias /srv/www/; expires 1h; add_header Cache-Control public; add_header Cache-Control immutable; }
}
""", ["GET /x?a=b", "GET /x | Reply: 404 | Reply-Field: X-Two=own", "GET /x | Reply-Field: X-Two=own | Reply-Field: X-Secret=s | Reply-Field: Link=l",
      "GET /hidden/x | Reply-Field: X-Secret=s", "GET /hidden/x | Reply-Field: X-Secret=s | Reply: 404", "GET /mixed/x | Reply-Field: X-Two=own",
      "GET /mixed/x?e=f | Reply: 404 | Reply-Field: ETag=e", "GET /mixed/x?e=f | Reply-Field: ETag=e",
      "GET /files/a.txt", "GET /text", "GET /timed/a.txt"], fields="x-two x-none x-secret link vary",
         report={"alias": "changed"}),
    Case("rewritten-fields", """
server {
    listen @PORT@; root /srv/www;
    location / { proxy_redirect ~^http://a\\.test(?<rest>/.*)$ https://$host$rest; proxy_redirect http://b.test/ /b/; proxy_cookie_flags ~^s secure samesite=lax;
        proxy_cookie_flags odd*name httponly; proxy_cookie_path ~*^/APP(.*) $1; proxy_cookie_domain ~(?!no). x.test; proxy_pass http://10.0.0.1:8080; }
    location /off/ { proxy_redirect off; proxy_cookie_flags off; proxy_pass http://10.0.0.1:8080; }
    location /bare/ { proxy_pass_request_headers off; proxy_pass http://10.0.0.1:8080; }
}
""", ["GET / | Reply: 302 | Reply-Field: Location=http://a.test/x?y", "GET / | Reply: 302 | Reply-Field: Location=http://b.test/x",
      "GET / | Reply-Field: Set-Cookie=sid=1; Path=/app/x", "GET / | Reply-Field: Set-Cookie=odd*name=1", "GET / | Reply-Field: Set-Cookie=oddxname=1",
      "GET /off/ | Reply: 302 | Reply-Field: Location=http://a.test/x", "GET /bare/x | X-Own: a | Cookie: b=c"],
         report={"proxy_cookie_domain": "not converted"}),
    Case("error-page-statuses", """
server {
    listen @PORT@; root /srv/www; error_page 404 =410 /b.txt; error_page 403 =200 /none; error_page 405 =503 @down;
    location /no/ { return 403; } location /up/ { proxy_intercept_errors on; proxy_pass http://10.0.0.1:8080; }
    location @down { return 404; }
}
""", ["GET /nowhere", "GET /no/", "~POST /a.txt", "GET /up/x | Reply: 404", "GET /up/x | Reply: 403", "GET /nowhere | Range: bytes=0-1"],
         report={"root": "changed", "error_page 405": "changed", "error_page 403 =200": "changed"}),
    Case("named-redirects", """
upstream shared { server 10.0.0.1:8080; }
server { listen @PORT@; server_name a.test; location / { proxy_pass http://shared; } location @files { root /srv/www; } location @only { return 202; } }
server { listen @PORT@; server_name b.test; location / { proxy_pass http://shared; } location @files { return 201; } }
server { listen @PORT@; server_name c.test; location / { proxy_pass http://10.0.0.2:8080; } location @files { internal; root /srv/other; } }
""", [f"GET /a.txt | Host: {host}.test | Reply-Field: X-Accel-Redirect={name}" for host in "abc" for name in ("@files", "@only")
      if (host, name) != ("c", "@only")] + ["~GET /a.txt | Host: c.test | Reply-Field: X-Accel-Redirect=@only"]),
    Case("signed-links", """
server {
    listen @PORT@; root /srv/www;
    location /dl/ { alias /srv/www/; secure_link $arg_h; secure_link_md5 "$uri$remote_addr word"; if ($secure_link = "") { return 403; } }
    location /s/ { secure_link_secret wo$rd; if ($secure_link = "") { return 403; } rewrite ^ /$secure_link break; }
    location /open/ { secure_link $arg_h; alias /srv/www/; if ($secure_link) { return 204; } }
}
""", [f"GET /dl/a.txt?h={signed('/dl/a.txt127.0.0.1 word')}", f"GET /dl/b.txt?h={signed('/dl/a.txt127.0.0.1 word')}", "GET /dl/a.txt",
      f"GET /s/{hexed('a.txtwo$rd')}/a.txt", "GET /s/x/a.txt", "GET /s/", "GET /open/a.txt?h=x"],
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
