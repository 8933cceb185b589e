"""What levels inherit, and what they do not; logs, caches, addresses."""

from .case import Case

CERTIFICATE = "ssl_certificate /srv/tls/chain.pem; ssl_certificate_key /srv/tls/key.pem;"

CASES = [
    Case("levels", """
add_header X-Http h; error_page 404 /a.txt; expires 1h;
server {
    listen @PORT@; root /srv/www;
    location /sub/ { add_header X-Sub s; }
    location /dir/ { expires off; location /dir/d { add_header X-Deep d; } }
    location /own/ { error_page 410 /b.txt; }
    location = /gone { return 410; }
}
server { listen @PORT@; server_name two.test; root /srv/other; add_header X-Server t; expires -1; error_page 404 /sub/e.txt; }
""", ["GET /a.txt", "GET /none", "GET /sub/c.txt", "GET /sub/none", "GET /dir/d.txt", "GET /dir/none", "GET /own/none", "GET /gone", "GET /a.txt | Host: two.test",
      "GET /none | Host: two.test"], report={"root": "changed"}, fields="x-http x-sub x-deep x-server"),
    Case("proxy-levels", """
proxy_set_header X-Level http; proxy_set_header Host outer.test; proxy_hide_header X-Hide;
server {
    listen @PORT@;
    location / { proxy_pass http://10.0.0.1:8080; }
    location /own/ { proxy_set_header X-Own yes; proxy_pass http://10.0.0.1:8080; }
    location /if/ { if ($arg_a) { proxy_pass http://10.0.0.2:8080; } proxy_pass http://10.0.0.1:8080; }
    location /empty/ { proxy_set_header X-Level ""; proxy_set_header Accept ""; proxy_pass http://10.0.0.1:8080; }
}
""", ["GET /", "GET /own/", "GET /if/", "GET /if/?a=1", "GET /empty/ | Accept: text/html | X-Level: client", "GET / | Reply-Field: X-Hide=1"], fields="x-hide backend"),
    Case("logs", """
log_format own '$remote_addr "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $host $uri $args';
map $status $loggable { ~^[23] 0; default 1; }
server {
    listen @PORT@; root /srv/www; access_log /var/log/own.log own;
    location /quiet/ { access_log off; alias /srv/www/; }
    location /failed/ { access_log /var/log/own.log own if=$loggable; alias /srv/www/; }
}
""", ["GET /a.txt | User-Agent: agent", "GET /none?x=y | Referer: http://r/", "GET /quiet/a.txt", "GET /failed/a.txt", "GET /failed/none"], body=False,
         report={"root": "changed", "alias": "changed"}, log="own.log"),
    Case("json-log", """
log_format json escape=json '{"time":"$time_iso8601","status":$status,"uri":"$request_uri","agent":"$http_user_agent"}';
log_format odd '$remote_addr $gzip_ratio $status';
server { listen @PORT@; root /srv/www; access_log /var/log/x.json json; location /odd/ { access_log /var/log/odd.log odd; } }
""", ["GET /a.txt"], report={"root": "changed", "log_format odd": "changed"}),
    Case("cache", """
proxy_cache_path /srv/cache keys_zone=one:1m;
server {
    listen @PORT@; proxy_cache one; proxy_cache_valid 200 1m; proxy_cache_key $host$request_uri;
    location / { proxy_pass http://10.0.0.1:8080; add_header X-Cache $upstream_cache_status; }
    location /no/ { proxy_cache off; proxy_pass http://10.0.0.1:8080; }
    location /by/ { proxy_cache_bypass $arg_fresh; proxy_no_cache $arg_fresh; proxy_pass http://10.0.0.1:8080; add_header X-Cache $upstream_cache_status; }
}
""", ["GET /x", "GET /x", "GET /y", "GET /no/x", "GET /by/x", "GET /by/x?fresh=1", "GET /by/x"], fields="x-cache", body=False,
         report={"proxy_cache_path": "changed", "proxy_cache one": "changed"}),
    Case("addresses", """
server { listen @PORT@; server_name a.test; return 200 a; }
server { listen @PORT@; server_name b.test; location / { allow 127.0.0.0/24; deny all; return 200 b; } location /x { deny 10.0.0.5/8; proxy_pass http://10.0.0.1:8080; } }
""", ["GET / | Host: a.test", "GET / | Host: b.test", "GET /x | Host: b.test"]),
    Case("wildcard-address", """
server { listen @NUMBER@ default_server; server_name all.test; return 200 all; }
server { listen @PORT@; server_name one.test; return 200 one; }
server { listen @PORT@; listen @NUMBER@; server_name both.test; return 200 both; }
""", ["GET / | Host: all.test", "GET / | Host: one.test", "GET / | Host: both.test", "GET / | Host: other.test"]),
    Case("balance", """
upstream all { hash $arg_k consistent; server 10.0.0.1:8080; server 10.0.0.2:8080; }
upstream rest { server 10.0.0.3:8080 backup; server 10.0.0.2:8080 weight=2; server 10.0.0.1:8080 down; }
server { listen @PORT@; location / { proxy_pass http://rest; } location /all { proxy_pass http://all; } }
""", ["GET /", "GET /x", "~GET /all?k=1"], report={"hash": "changed"}, fields="backend"),
    Case("client-certificates", f"""
server {{
    listen @PORT@ ssl; {CERTIFICATE} ssl_client_certificate /srv/tls/chain.pem; ssl_verify_client optional;
    location / {{ if ($ssl_client_verify != SUCCESS) {{ return 403; }} root /srv/www; }}
    location /open/ {{ alias /srv/www/; }}
}}
""", ["GET /a.txt", "GET /open/a.txt"], is_tls=True, report={"ssl_verify_client": "changed", "root": "changed", "alias": "changed"}),
    Case("accel", """
server {
    listen @PORT@;
    location / { proxy_pass http://10.0.0.1:8080; }
    location /files/ { internal; alias /srv/www/; }
}
""", ["GET /x | Reply-Field: X-Accel-Redirect=/files/a.txt", "GET /files/a.txt", "GET /x"], body=False, report={"alias": "changed"}),
    Case("inner-files", """
server {
    listen @PORT@; root /srv/www;
    location /a { location /a/b { return 201; } location ~ ^/a/c { return 202; } }
    location = /exact/ { index a.txt; alias /srv/www/; }
    location /slash/ { try_files $uri $uri/ /b.txt; }
    location ~ ^/user/(?<name>[^/]+)/(?<rest>.*)$ { root /srv/users-of/$name; try_files /$rest =404; }
    location /q { return 200 "$arg_x|$cookie_Name|$is_args"; }
    location /enc { rewrite ^/enc/(.*)$ /sub/$1 break; }
}
""", ["GET /a/b", "GET /a/c", "GET /slash/x", "GET /user/ann/f.txt", "GET /user/bob/f.txt", "GET /user/..%2f/f.txt", "GET /q?x=1", "GET /q | Cookie: Name=v", "GET /enc/c.txt",
      "GET /enc/%63.txt", "GET /a%2fb"],
         files={"users-of/ann/f.txt": "ann"}, report={"root": "changed"}),
    Case("passwords", """
map $remote_addr $realm { 127.0.0.1 Staff; default off; }
map $arg_open $by_argument { 1 off; default Staff; }
server {
    listen @PORT@; root /srv/www; auth_basic_user_file /srv/users;
    location /map/ { auth_basic $realm; alias /srv/www/; }
    location /arg/ { auth_basic $by_argument; alias /srv/www/; }
    location /both/ { auth_basic Staff; allow 127.0.0.1; deny all; alias /srv/www/; location /both/open/ { auth_basic off; allow all; alias /srv/www/; } }
    location /none/ { auth_basic Staff; deny all; alias /srv/www/; }
    location /var/ { auth_basic Staff; auth_basic_user_file /srv/htpasswd/$host; alias /srv/www/; }
    location /quoted/ { auth_basic "The \\"staff\\" of $arg_who"; alias /srv/www/; }
    location /any/ { satisfy any; deny all; auth_basic $by_argument; alias /srv/www/; }
    location /near/ { satisfy any; allow 127.0.0.1; deny all; auth_basic $by_argument; alias /srv/www/; }
    location /try/ { auth_basic Staff; try_files $uri /a.txt; }
}
""", ["GET /map/a.txt", "GET /arg/a.txt?open=1", "GET /arg/a.txt", "GET /arg/a.txt?open=1 | Authorization: Basic eA==", "GET /both/a.txt", "GET /both/a.txt | Authorization: Basic YW5uOnNlY3JldA==", "GET /both/open/a.txt", "GET /none/a.txt",
      "GET /none/a.txt | Authorization: Basic YW5uOnNlY3JldA==", "GET /var/a.txt | Authorization: Basic YW5uOnNlY3JldA==",
      "GET /var/a.txt", "GET /var/a.txt | Host: none.test | Authorization: Basic YW5uOnNlY3JldA==", "~GET /quoted/a.txt", "~GET /quoted/a.txt?who=ann", "GET /any/a.txt", "~GET /any/a.txt?open=1", "GET /near/a.txt", "GET /near/a.txt?open=1",
      "GET /try/x", "GET /try/x | Authorization: Basic YW5uOnNlY3JldA=="],
         report={"root": "changed", "alias": "changed", "map $arg_open": "changed", "auth_basic_user_file": "changed", "auth_basic $": "changed", "auth_basic The": "changed", "auth_basic Staff": "changed"},
         files={"htpasswd/site.test": "ann:$apr1$ca6gXBAM$xn0zHYElBGTGB/lIsmlE50\n"}),
    Case("error-of-access", """
server {
    listen @PORT@; root /srv/www; error_page 403 /50x.html; error_page 401 /b.txt;
    location /closed/ { deny all; }
    location /closed-too/ { return 403; }
    location /asked/ { auth_basic x; auth_basic_user_file /srv/users; }
    location = /50x.html { internal; }
}
""", ["GET /closed/x", "GET /closed-too/x", "GET /asked/x", "GET /50x.html", "GET /dir/"], report={"root": "changed", "auth_basic x": "changed"}),
    Case("values-of-servers", """
limit_req_zone $server_name zone=each:1m rate=1r/m; log_format named '$server_name $status'; access_log /var/log/named.log named;
map $server_name $is_one { one.test 1; default ""; }
geo $arg_ip $net { ranges; default far; 10.0.0.0-10.0.0.9 near; 10.0.0.4-10.0.0.5 inside; 10.0.0.8-10.0.0.8 out; delete 10.0.0.8-10.0.0.8; }
geo $arg_ip $kept { default far; 10.0.0.0/8 ten; 10.1.0.0/16 one; delete 10.1.0.0/16; }
server {
    listen @PORT@; server_name one.test; root /srv/www; access_log off;
    location /limited/ { limit_req zone=each; alias /srv/www/; }
    location /closed/ { if ($is_one) { return 403; } }
    location = /net { return 200 "$net $kept"; }
    location /api/ { proxy_pass http://10.0.0.1:8080/a%20b/%C3%A4/; }
    location = /gone { return 499; }
}
server { listen @PORT@; server_name two.test; access_log /var/log/named.log named; limit_req zone=each; root /srv/www; }
server { listen @PORT@; server_name three.test; access_log /var/log/named.log named; return 204; }
""", ["GET /limited/a.txt | Host: one.test", "GET /limited/a.txt | Host: one.test", "GET /a.txt | Host: two.test", "GET /a.txt | Host: two.test", "GET / | Host: three.test",
      "GET /closed/a.txt | Host: one.test", "GET /api/c%20d?e=f | Host: one.test", "GET /gone | Host: one.test"] +
         [f"GET /net?ip={address} | Host: one.test" for address in ("10.0.0.3", "10.0.0.4", "10.0.0.8", "10.0.0.9", "10.0.0.10", "10.1.0.1", "none")], host="one.test",
         report={"root": "changed", "alias": "changed", "map": "not converted", "if ($is_one)": "not converted", "return 403": "not converted"}, log="named.log"),
    Case("types-of-own-pages", """
map $sent_http_content_type $age { default off; text/html epoch; text/plain 1h; "" 1d; }
server {
    listen @PORT@; root /srv/www; expires $age; add_header X-Type "<$sent_http_content_type>" always;
    location = /moved { return 301 /a.txt; }
    location = /found { rewrite ^ /a.txt redirect; }
    location = /own { add_header Content-Type text/x-own; return 200 own; }
    location = /none { return 204; }
    location = /gone { return 410; }
}
""", ["GET /a.txt", "GET /index.html", "GET /moved", "GET /found", "~GET /own", "~GET /none", "GET /gone", "GET /missing", "~GET /sub",
      "~GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"], fields="x-type", report={"root": "changed", "add_header Content-Type": "changed", "expires": "changed"}),
]
