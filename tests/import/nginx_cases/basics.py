"""Servers, locations and files."""

from .case import Case

CASES = [
    Case("plain", """
server { listen @PORT@; root /srv/www; index index.html; location / { try_files $uri $uri/ =404; } location ~ /\\. { deny all; } }
""", ["GET /", "GET /a.txt", "GET /sub", "GET /sub/", "GET /dir", "GET /dir/", "GET /none.html", "GET /nowhere", "GET /nowhere/", "HEAD /a.txt",
      "GET /a.txt?x=y", "GET /.env", "GET /a.txt | Range: bytes=0-2", "POST /a.txt | body=x", "GET /sub?x=1", "GET /a.unknown", "GET /a.css"],
         files={"www/.env": "secret"}, report={"root": "changed"}),
    Case("without-locations", """
server { listen @PORT@; root /srv/www/; }
""", ["GET /", "GET /sub/", "GET /dir/", "GET /a.txt", "GET /x", "GET //a.txt", "GET /x/../a.txt"], report={"root": "changed"}),
    Case("choice", """
server {
    listen @PORT@;
    location = /a { return 201; }
    location / { return 202; }
    location /docs { return 203; }
    location ^~ /img/ { return 204; }
    location /img/big/ { return 205; }
    location ~* \\.(gif|jpg)$ { return 226; }
    location ~ ^/docs/x { return 207 x; }
}
""", ["GET /a", "GET /b", "GET /docs", "GET /docs/a.gif", "GET /docs/xy", "GET /img/a.gif", "GET /img/big/a.gif", "GET /img/big/a", "GET /img", "GET /a/",
      "GET /A.GIF", "GET /docsx"]),
    Case("nested", """
server {
    listen @PORT@;
    location / {
        location /in/ { location ~ \\.x$ { return 201 a; } return 202 b; }
        location = /in/exact.x { return 203 c; }
        location ~ \\.y$ { return 208 d; }
        return 206 e;
    }
    location ~ \\.x$ { return 207 f; }
    location ~ \\.y$ { return 213 g; }
    location ^~ /stop { location /stop/a/ { location ~ \\.x$ { return 410 k; } return 209 h; } return 211 i; }
}
""", ["GET /in/a.x", "GET /in/exact.x", "GET /in/b", "GET /a.x", "GET /a.y", "GET /in/a.y", "GET /other", "GET /stop/a.x", "GET /stop/a/b.x", "GET /stop/a/b.y",
      "GET /stop", "GET /stop/a/"]),
    Case("names", """
server { listen @PORT@; server_name _; return 201 default; }
server { listen @PORT@; server_name a.example www.a.example; return 202 exact; }
server { listen @PORT@; server_name *.a.example; return 203 star; }
server { listen @PORT@; server_name mail.*; return 204; }
server { listen @PORT@; server_name ~^(?<user>[a-z]+)\\.users\\.example$; return 200 "user $user"; }
server { listen @PORT@; server_name .both.example; return 206 both; }
server { listen @PORT@; server_name deep.b.a.example *.b.a.example; return 207 deep; }
""", ["GET / | Host: x.example", "GET / | Host: a.example", "GET / | Host: A.EXAMPLE:80", "GET / | Host: x.a.example", "GET / | Host: mail.a.example",
      "GET / | Host: mail.z.example", "GET / | Host: bob.users.example", "GET / | Host: bob1.users.example", "GET / | Host: both.example",
      "GET / | Host: x.both.example", "GET / | Host: x.b.a.example", "GET / | Host: deep.b.a.example", "GET / | Host: www.a.example"]),
    Case("default-server", """
server { listen @PORT@; server_name first.example; return 201 first; }
server { listen @PORT@ default_server; server_name second.example; return 202 second; }
""", ["GET / | Host: first.example", "GET / | Host: other.example", "GET / | Host: second.example"]),
    Case("two-listeners", """
server { listen @PORT@; listen @PORT2@; server_name a.example; return 201 a; }
server { listen @PORT@; server_name b.example; return 202 b; }
""", ["GET / | Host: a.example", "GET / | Host: b.example", "GET / | Host: c.example"]),
    Case("try-files", """
server {
    listen @PORT@; root /srv/www;
    location / { try_files $uri $uri.html $uri/index.html @last; }
    location @last { return 404 "last $uri"; }
    location /m/ { try_files /maintenance.html $uri =503; }
    location /code/ { try_files $uri =410; }
    location /fixed/ { try_files $uri /b.txt; }
    location /sub/ { try_files $uri $uri/ /none/; }
    location /none/ { return 418; }
}
""", ["GET /a.txt", "GET /50x", "GET /sub", "GET /nowhere?x=1", "GET /m/x", "GET /code/x", "GET /fixed/y?q=1", "GET /sub/", "GET /sub/x", "GET /dir"],
         report={"root": "changed"}),
    Case("alias", """
server {
    listen @PORT@; root /srv/www;
    location /pr/ { alias /srv/other/; }
    location /pre { alias /srv/other; }
    location = /icon { alias /srv/www/a.css; }
    location ~ ^/re/(.*)\\.t$ { alias /srv/www/$1.txt; }
    location /ali/ { alias /srv/other/; try_files $uri $uri/ =404; }
    location /deep/ { alias /srv/www/; location ~ \\.css$ { add_header X-Css yes; } }
}
""", ["GET /pr/a.txt", "GET /pr/sub/e.txt", "GET /pr/", "GET /pr/sub", "GET /pr/x", "GET /icon", "~GET /re/a.t", "GET /re/none.t", "GET /ali/a.txt",
      "GET /ali/sub/e.txt", "GET /ali/x", "GET /pre/a.txt", "GET /deep/a.css", "GET /deep/a.txt", "GET /ali/sub"],
         report={"root": "changed", "alias": "changed"}, fields="x-css"),
    Case("index", """
server {
    listen @PORT@; root /srv/www; index none.html index.html;
    location /list/ { autoindex on; autoindex_format json; alias /srv/www/dir/; }
    location /first/ { index a.txt; alias /srv/www/; }
    location /abs/ { index nope.html /b.txt; root /srv/www; }
    location = / { index sub/index.html; }
}
""", ["GET /", "GET /sub/", "GET /dir/", "GET /first/", "GET /first/sub/", "GET /abs/", "~GET /list/"],
         report={"root": "changed", "alias": "changed", "autoindex on": "changed"}, files={"www/abs/x": "x"}),
    Case("returns", """
server {
    listen @PORT@; default_type text/html; charset utf-8;
    location = /text { return 200 "hello $request_method\\n"; }
    location = /json { default_type application/json; return 200 '{"a":1}'; }
    location = /empty { return 204; }
    location = /gone { return 410; }
    location = /gone-text { return 410 "gone"; }
    location = /301 { return 301 https://other.example$request_uri; }
    location = /302 { return 302 /new?x=$arg_x; }
    location = /url { return https://other.example/; }
    location = /307 { return 307 $scheme://$host/x; }
    location = /close { return 444; }
    location = /teapot { return 418; }
    location = /three { return 303 /see; }
    location = /308 { return 308 /see; }
}
""", ["GET /text", "GET /json", "GET /empty", "GET /gone", "GET /gone-text", "GET /301?a=b", "GET /302?x=5", "GET /url", "GET /307", "GET /close", "GET /teapot",
      "GET /three", "GET /308", "POST /text | body=x"], report={"charset": "changed"}),
    Case("headers", """
server {
    listen @PORT@; root /srv/www;
    add_header X-Server one;
    add_header X-Always two always;
    location /sub/ { add_header X-Own three; }
    location /dir/ { expires 30d; }
    location = /a.txt { expires -1; add_header Cache-Control no-store; }
    location = /b.txt { expires max; }
    location = /a.css { expires epoch; add_header X-Empty ""; }
    location = /off.html { expires off; }
    location /mod/ { alias /srv/www/; expires modified 1h; }
    location /r { return 301 /x; add_header X-R yes; }
}
""", ["GET /", "GET /x", "GET /sub/", "GET /sub/x", "GET /dir/d.txt", "~GET /a.txt", "GET /b.txt", "GET /a.css", "GET /r", "GET /mod/a.txt"],
         report={"root": "changed", "alias": "changed"}, fields="x-server x-always x-own x-r x-empty"),
    Case("error-pages", """
server {
    listen @PORT@; root /srv/www;
    error_page 404 /50x.html;
    error_page 403 =404 /b.txt;
    error_page 410 = /a.txt;
    error_page 401 =200 /a.css;
    error_page 418 @tea;
    error_page 402 https://pay.example/;
    location /gone { return 410; }
    location /dir/ { }
    location /tea { return 418; }
    location /pay { return 402; }
    location @tea { return 200 "tea"; }
    location /own/ { error_page 404 /index.html; }
    location /none/ { error_page 404 /missing.html; }
    location = /secret { deny all; error_page 403 /a.txt; }
}
""", ["GET /x", "GET /gone", "~GET /dir/", "GET /tea", "GET /pay", "GET /own/x", "GET /none/x", "POST /gone | body=x", "GET /secret", "HEAD /x"],
         report={"root": "changed", "error_page 418 @tea": "changed", "error_page 410 = /a.txt": "changed", "error_page 401 =200": "changed"}),
    Case("access", """
server {
    listen @PORT@; root /srv/www;
    location /closed/ { deny all; }
    location /local/ { allow 127.0.0.1; deny all; alias /srv/www/; }
    location /other/ { allow 10.0.0.0/8; deny all; alias /srv/www/; }
    location /but/ { deny 127.0.0.1; allow all; alias /srv/www/; }
    location /mixed/ { allow 127.0.0.1; deny 127.0.0.0/8; allow 10.0.0.0/8; deny all; alias /srv/www/; }
    location /mixed2/ { allow 127.0.0.2; deny 127.0.0.0/8; alias /srv/www/; }
    location /pass/ { auth_basic "Staff only"; auth_basic_user_file /srv/users; alias /srv/www/; }
    location /any/ { satisfy any; allow 127.0.0.1; deny all; auth_basic "x"; auth_basic_user_file /srv/users; alias /srv/www/; }
    location /any2/ { satisfy any; allow 10.0.0.1; deny all; auth_basic "x"; auth_basic_user_file /srv/users; alias /srv/www/; }
    location /any3/ { satisfy any; deny 10.0.0.1; auth_basic "x"; auth_basic_user_file /srv/users; alias /srv/www/; }
    location /off/ { auth_basic off; alias /srv/www/; }
    location /methods/ { alias /srv/www/; limit_except GET { deny all; } }
    location = /return { deny all; return 200 open; }
    location /inner/ { internal; alias /srv/www/; }
    location /around/ { internal; location ~ \\.txt$ { alias /srv/www/a.txt; } }
    location /go/ { try_files /nope /inner/a.txt; }
}
""", ["GET /closed/a.txt", "GET /local/a.txt", "GET /other/a.txt", "GET /but/a.txt", "GET /mixed/a.txt", "GET /mixed2/a.txt", "GET /pass/a.txt",
      "GET /pass/a.txt | Authorization: Basic YW5uOnNlY3JldA==", "GET /pass/a.txt | Authorization: Basic YW5uOndyb25n", "GET /any/a.txt", "GET /any3/a.txt", "GET /any2/a.txt",
      "GET /any2/a.txt | Authorization: Basic YW5uOnNlY3JldA==", "GET /off/a.txt", "GET /methods/a.txt", "HEAD /methods/a.txt", "POST /methods/a.txt | body=x",
      "DELETE /methods/a.txt", "GET /return", "GET /inner/a.txt", "GET /around/a.txt", "GET /go/x"],
         report={"root": "changed", "alias": "changed", "auth_basic Staff": "changed", "auth_basic x": "changed"}),
]
