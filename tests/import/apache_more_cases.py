"""Further configurations of Apache: PHP-FPM, other servers, TLS, logs, and whole configurations. See apache_cases.py."""

from apache_cases import GRANTED, TELL, TREE, Case, get, host

POOL = """
[site]
user = www-data
group = www-data
listen = /run/php/site.sock
listen.owner = www-data
pm = ondemand
pm.max_children = 3
php_admin_value[memory_limit] = 55M
env[APP_ENV] = pool
[tools]
user = www-data
group = www-data
listen = 127.0.0.1:9001
pm = ondemand
pm.max_children = 2
env[APP_ENV] = tools
"""

FPM = """
    <FilesMatch "\\.php$">
        SetHandler "proxy:unix:/run/php/site.sock|fcgi://localhost"
    </FilesMatch>
"""
FPM_REQUESTS = get("/", "/tell.php?a=b", "/tell.php/path/info?x", "/none.php", "/scripts/", "/a.txt", "/private/p.txt") + [
    "POST /tell.php site.test || a=b", "GET /tell.php site.test | X-Added: a"]

NO_SCRIPT = {"GET /none.php site.test": (404, 404)}  # the text is that of PHP-FPM
DENIED = [f"GET /app/users site.test{field}" for field in ("", " | Authorization: Basic YW5uYTp3cm9uZw==")]

# No password, two that are right, and a wrong one.
USERS = ("", " | Authorization: Basic YW5uYTpzZWNyZXQ=", " | Authorization: Basic Ym9iOnNlY3JldA==", " | Authorization: Basic YW5uYTp3cm9uZw==")
# These differ in the charset of the realm.
REFUSED_USERS = [f"GET {target} site.test{USERS[number]}" for target, numbers in (("/ann", (0, 2, 3)), ("/bob", (0, 1, 3)), ("/group", (0, 2, 3)))
                 for number in numbers]

MORE = [
    Case("fpm-handler", host(GRANTED + FPM + "SetEnv POOL here\n"), FPM_REQUESTS, modules="proxy proxy_fcgi", fpm=POOL, but=NO_SCRIPT),
    Case("fpm-joined", host(GRANTED + FPM), FPM_REQUESTS, modules="proxy proxy_fcgi", fpm=POOL, but=NO_SCRIPT, joins=True),
    Case("fpm-directory", host("""
    <Directory /srv/site>
        Require all granted
        <FilesMatch \\.php$>
            SetHandler "proxy:unix:/run/php/site.sock|fcgi://localhost"
        </FilesMatch>
    </Directory>
    Alias /tools /srv/other
    <Directory /srv/other>
        Require all granted
        <FilesMatch \\.php$>
            SetHandler "proxy:fcgi://127.0.0.1:9001"
        </FilesMatch>
    </Directory>"""), FPM_REQUESTS + get("/tools/tell.php", "/tools/", "/tools/tell.php/x?y=z"), modules="proxy proxy_fcgi", fpm=POOL, but=NO_SCRIPT),
    Case("fpm-match", host(GRANTED + """
    ProxyPassMatch "^/(.*\\.php(/.*)?)$" "fcgi://127.0.0.1:9001/srv/site/$1"
    DirectoryIndex index.php index.html
    """), get("/tell.php?a=b", "/none.php", "/a.txt", "/uploads/u.php"), modules="proxy proxy_fcgi", fpm=POOL, but=NO_SCRIPT),
    Case("proxy-root", host("ProxyPreserveHost On\nProxyPass / http://127.0.0.1:3000/\nProxyPassReverse / http://127.0.0.1:3000/\nProxyAddHeaders Off"),
         get("/", "/a/b?c=d", "/a%20b", "/redirect", "/status/404", "/cookie") + ["POST /form site.test || a=b", "HEAD /x site.test", "DELETE /y site.test"],
         modules="proxy proxy_http", backend=True),
    Case("proxy-paths", host(GRANTED + """
    ProxyAddHeaders Off
    ProxyPass /app/static !
    ProxyPass /app http://127.0.0.1:3000/inner
    ProxyPassReverse /app http://127.0.0.1:3000/inner
    ProxyPass "/slash/" "http://127.0.0.1:3000/"
    ProxyPassMatch "^/m/(.*)\\.gif$" "http://127.0.0.1:3000/images/$1"
    ProxyPassReverseCookiePath /app/ /front/
    ProxyPassReverseCookieDomain backend.test front.test"""),
         get("/app", "/app/", "/app/x?y=z", "/appx", "/app/static/a", "/slash", "/slash/q", "/m/a/b.gif", "/a.txt", "/app/redirect", "/app/cookie", "/tell.php"),
         modules="proxy proxy_http", backend=True),
    Case("proxy-access", host(GRANTED + """
    ProxyAddHeaders Off
    ProxyPreserveHost On
    ProxyPass /app/ http://127.0.0.1:3000/app/
    Header always set X-Site yes
    RequestHeader set X-Own front
    <Location /app/admin>
        Require ip 10.0.0.0/8
        Header set X-Admin yes
    </Location>
    <Location /app/closed>
        Require all denied
    </Location>
    <Location /app/users>
        AuthType Basic
        AuthName Users
        AuthUserFile /etc/apache2/users
        Require valid-user
    </Location>
    <LocationMatch "^/app/.*\\.(env|bak)$">
        Require all denied
    </LocationMatch>
    <Location /app/odd>
        Require expr "%{HTTP:X-Token} == 'sesame'"
    </Location>"""),
         get("/app/", "/app/admin/x", "/app/closed", "/app/closed/x", "/app/users", "/app/a.env", "/app/odd", "/a.txt", "/app/status/500") +
         ["GET /app/admin/x site.test @10.1.1.1:80", "GET /app/users site.test | Authorization: Basic YW5uYTpzZWNyZXQ=",
          "GET /app/users site.test | Authorization: Basic YW5uYTp3cm9uZw=="],
         modules="proxy proxy_http", backend=True, etc={"users": "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"},
         statuses={"Require expr": "not converted", "AuthName": "changed"}, but={one: (401, 401) for one in DENIED}),
    Case("proxy-changed-fields", host(GRANTED + """
    ProxyAddHeaders Off
    ProxyPass /app/ http://127.0.0.1:3000/app/
    Header edit Set-Cookie ^(.*)$ "$1; Secure"
    Header add Set-Cookie own=1
    Header append X-New a
    Header append X-New b
    Header setifempty Content-Type text/x-other
    Header setifempty X-Empty full
    Header always set X-Always one
    Header always append X-Always two
    Header edit* X-New a(,?) c$1
    Header unset X-Powered-By"""), get("/app/x", "/app/cookie", "/app/status/404", "/app/status/500"),
         modules="proxy proxy_http", backend=True),
    Case("proxy-users", host(GRANTED + """
    ProxyAddHeaders Off
    ProxyPreserveHost On
    ProxyPass / http://127.0.0.1:3000/
    <Location /ann>
        AuthType Basic
        AuthName "Costs 5$"
        AuthUserFile /etc/apache2/users
        Require user anna
    </Location>
    <Location /bob>
        AuthType Basic
        AuthName Users
        AuthUserFile /etc/apache2/users
        Require user bob "carl two"
    </Location>
    <Location /group>
        AuthType Basic
        AuthName Users
        AuthUserFile /etc/apache2/users
        AuthGroupFile /etc/apache2/groups
        <RequireAny>
            Require group admins
            Require user nobody
        </RequireAny>
    </Location>
    <Location /none>
        AuthType Basic
        AuthName Users
        AuthUserFile /etc/apache2/users
        Require group staff
    </Location>"""), [f"GET {target} site.test{field}" for target in ("/ann", "/bob", "/group", "/none/x") for field in USERS], modules="proxy proxy_http auth_basic authn_core authn_file authz_user authz_groupfile", backend=True,
         etc={"users": "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "groups": "admins: anna\n"},
         statuses={"Require group staff": "not converted", "Require user": "converted", "Require group admins": "converted"},
         but={one: (401, 401) for one in REFUSED_USERS} | {f"GET /none/x site.test{field}": (401, 403) for field in USERS}),
    Case("proxy-location", host(GRANTED + """
    <Location /api>
        ProxyPass http://127.0.0.1:3000/v1
        ProxyPassReverse http://127.0.0.1:3000/v1
        Require all granted
    </Location>
    ProxyAddHeaders Off"""), get("/api", "/api/a?b", "/api/redirect", "/a.txt"), modules="proxy proxy_http", backend=True),
    Case("proxy-fields", host("ProxyPass / http://127.0.0.1:3000/\nRequestHeader set X-Forwarded-Proto https\nRequestHeader unset X-Own"),
         ["GET / site.test | X-Own: a"], modules="proxy proxy_http", backend=True),
    Case("proxy-balancer", """<Proxy balancer://pool>
    BalancerMember http://127.0.0.1:3000 loadfactor=2
    BalancerMember http://127.0.0.1:3001 status=+H
    ProxySet lbmethod=byrequests timeout=20
</Proxy>
""" + host("ProxyAddHeaders Off\nProxyPreserveHost On\nProxyPass /.well-known !\nProxyPass / balancer://pool/\nProxyPassReverse / balancer://pool/"),
         get("/a?b=c", "/.well-known/x"), modules="proxy proxy_http proxy_balancer slotmem_shm lbmethod_byrequests", backend=True),
    Case("proxy-https-redirect", host("""
    RewriteEngine On
    RewriteCond %{HTTPS} !=on
    RewriteRule ^/?(.*) https://%{SERVER_NAME}/$1 [R=301,L]
    ProxyPass / http://127.0.0.1:3000/"""), get("/", "/a/b?c=d"), modules="proxy proxy_http rewrite", backend=True),
    Case("proxy-rule", host(GRANTED + """
    ProxyAddHeaders Off
    ProxyPreserveHost On
    RewriteEngine On
    RewriteRule ^/svc/(.*)$ http://127.0.0.1:3000/$1 [P,L]
    RewriteRule ^/blocked - [F]
    RewriteCond %{HTTP:Upgrade} websocket [NC]
    RewriteRule ^/ws/(.*) ws://127.0.0.1:3000/$1 [P,L]"""), get("/svc/a?b=c", "/a.txt", "/blocked/x", "/ws/x"),
         modules="proxy proxy_http proxy_wstunnel rewrite", backend=True),
    Case("tls", """<VirtualHost *:80>
    ServerName one.test
    ServerAlias two.test
    RewriteEngine On
    RewriteCond %{HTTPS} off
    RewriteRule ^ https://%{HTTP_HOST}%{REQUEST_URI} [L,R=301]
</VirtualHost>
<VirtualHost *:443>
    ServerName one.test
    DocumentRoot /srv/site
    SSLEngine on
    SSLCertificateFile /etc/apache2/one.test.pem
    SSLCertificateKeyFile /etc/apache2/one.test.key
    SSLProtocol all -SSLv3 -TLSv1 -TLSv1.1
    SSLCipherSuite ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256
    SSLHonorCipherOrder off
    Header always set Strict-Transport-Security "max-age=63072000"
    <Directory /srv/site>
        Require all granted
        SSLRequireSSL
    </Directory>
    <FilesMatch "\\.(?:cgi|shtml|phtml|php)$">
        SSLOptions +StdEnvVars
    </FilesMatch>
</VirtualHost>
<VirtualHost *:443>
    ServerName two.test
    DocumentRoot /srv/other
    SSLEngine on
    SSLCertificateFile /etc/apache2/two.test.pem
    SSLCertificateKeyFile /etc/apache2/two.test.key
    <Directory /srv/other>
        Require all granted
    </Directory>
</VirtualHost>
""", ["GET /a/b?c=d one.test", "GET / two.test", "GET /tell.php one.test @:443s", "GET /o.txt two.test @:443s", "GET /none one.test @:443s",
      "GET /a.txt x.test @:443s", "GET /dir one.test @:443s"], modules="rewrite ssl socache_shmcb", certificates=["one.test", "two.test"]),
    Case("require-ssl", host("<Directory /srv/site>\nRequire all granted\n</Directory>\n<Location /private>\nSSLRequireSSL\n</Location>"),
         get("/private/p.txt", "/a.txt"), modules="ssl socache_shmcb"),
    Case("logs", host(GRANTED + """
    LogFormat "%h %l %u %t \\"%r\\" %>s %B %{X-Kind}i %v %U %m %H" mine
    CustomLog ${APACHE_LOG_DIR}/mine.log mine
    CustomLog ${APACHE_LOG_DIR}/combined.log combined
    SetEnvIf Request_URI "\\.(css|png)$" dontlog
    SetEnvIf Remote_Addr "^10\\." dontlog
    CustomLog ${APACHE_LOG_DIR}/some.log common env=!dontlog
    CustomLog ${APACHE_LOG_DIR}/only.log "%U" env=dontlog
    ErrorLog ${APACHE_LOG_DIR}/site.log
    LogLevel info"""), get("/a.txt?x=y", "/a.css", "/none", "/tell.php") + ["GET /a.txt site.test @10.1.1.1:80", "HEAD /a.png site.test | X-Kind: k"],
         logs=["mine.log", "some.log", "only.log"]),
    Case("default-log", host(GRANTED), get("/a.txt"), logs=["other_vhosts_access.log"]),
    Case("limits", host(GRANTED + """
    LimitRequestBody 20
    <Directory /srv/site/scripts>
        LimitRequestBody 0
    </Directory>
    <Location /uploads>
        LimitRequestBody 5
    </Location>"""), ["POST /tell.php site.test || 12345678901234567890", "POST /tell.php site.test || 123456789012345678901",
                      "POST /scripts/index.php site.test || " + "a" * 200, "POST /uploads/u.php site.test || 123456", "POST /uploads/u.php site.test || 12345"]),
    Case("handlers", host(GRANTED + """
    <Location /status>
        SetHandler server-status
        Require all granted
    </Location>
    ScriptAlias /cgi-bin/ /usr/lib/cgi-bin/
    AddHandler cgi-script .cgi
    <Files "*.inc">
        SetHandler application/x-httpd-php
    </Files>
    <Directory /srv/site/uploads>
        php_admin_flag engine off
    </Directory>"""), get("/app.inc", "/uploads/u.png", "/a.txt") + ["GET /status site.test", "GET /cgi-bin/x site.test", "GET /x.cgi site.test", "GET /uploads/u.php site.test"],
         tree={**TREE, "/srv/site/x.cgi": "#!/bin/sh\nsecret"},
         but={"GET /status site.test": (200, 403), "GET /x.cgi site.test": (200, 403),
              "GET /uploads/u.php site.test": (200, 403)},
         statuses={"SetHandler server-status": "changed", "ScriptAlias": "not converted", "AddHandler": "not converted", "php_admin_flag": "changed"}),
    Case("virtual-root", "<VirtualHost *:80>\nServerName x.test\nServerAlias *.sites.test\nVirtualDocumentRoot /srv/sites/%0/public\n"
         "<Directory /srv/sites>\nRequire all granted\nAllowOverride All\n</Directory>\n</VirtualHost>\n",
         ["GET / a.sites.test", "GET /.htaccess a.sites.test", "GET /x b.sites.test", "GET / none.sites.test"], modules="vhost_alias",
         tree={"/srv/sites/a.sites.test/public/index.html": "a", "/srv/sites/b.sites.test/public/.htaccess": "Redirect /x /y\n"}),
    Case("types", host(GRANTED + """
    AddDefaultCharset utf-8
    AddType text/x-own .own
    AddType application/x-httpd-php .hphp
    AddCharset ISO-8859-1 .latin
    AddLanguage de .de
    <FilesMatch "\\.bak$">
        ForceType text/plain
        Header set Content-Disposition attachment
    </FilesMatch>
    <Directory /srv/site/negotiated>
        Options +MultiViews
    </Directory>
    RemoveType .css
    AddEncoding x-gzip .gz"""), get("/a.txt", "/x.own", "/x.hphp", "/x.latin.txt", "/x.html.de", "/old.bak", "/negotiated/page", "/", "/a.css"),
         tree={**TREE, "/srv/site/x.own": "own", "/srv/site/x.hphp": TELL, "/srv/site/x.latin.txt": "l", "/srv/site/x.html.de": "d",
               "/srv/site/negotiated/page.html": "page"}),
    Case("if", host(GRANTED + """
    <If "%{HTTP:X-Key} == 'one'">
        Require all denied
    </If>
    <ElseIf "%{QUERY_STRING} =~ /^two/">
        Header set X-If two
    </ElseIf>
    <Else>
        Header set X-If else
    </Else>
    <Directory /srv/site/dir>
        <If "-z %{HTTP_REFERER} || %{HTTP_REFERER} !~ m#^https?://site.test/#">
            Require all denied
        </If>
    </Directory>
    <Location /tell.php>
        <LimitExcept GET POST>
            Require all denied
        </LimitExcept>
    </Location>"""), get("/a.txt", "/a.txt?two", "/dir/b.txt") + ["GET /a.txt site.test | X-Key: one", "GET /dir/b.txt site.test | Referer: http://site.test/x",
                                                                "PUT /tell.php site.test || a", "POST /tell.php site.test || a"]),
    Case("wordpress", host("""
    DirectoryIndex index.php
    <Directory /srv/site>
        Options FollowSymLinks
        AllowOverride Limit Options FileInfo
        Require all granted
    </Directory>
    <Directory /srv/site/wp-content>
        Options FollowSymLinks
        Require all granted
    </Directory>
    <Files xmlrpc.php>
        Order Deny,Allow
        Deny from all
    </Files>
    <FilesMatch "^(wp-config\\.php|readme\\.html|license\\.txt)$">
        Require all denied
    </FilesMatch>
    <LocationMatch "/wp-content/uploads/.*\\.php$">
        Require all denied
    </LocationMatch>
    <Location "/wp-login.php">
        Require ip 127.0.0.1 10.1
    </Location>"""), get("/", "/2024/x/?p=1", "/xmlrpc.php", "/wp-config.php", "/readme.html", "/wp-content/uploads/a.php", "/wp-content/uploads/a.png", "/wp-login.php",
                         "/wp-content/uploads/a.php/x", "/wp-admin", "/wp-admin/") + ["POST /xmlrpc.php site.test || a", "GET /wp-login.php site.test @10.2.2.2:80"],
         modules="rewrite", tree={"/srv/site/index.php": TELL, "/srv/site/xmlrpc.php": TELL, "/srv/site/wp-config.php": TELL, "/srv/site/readme.html": None,
                                  "/srv/site/wp-login.php": TELL, "/srv/site/wp-content/uploads/a.php": TELL, "/srv/site/wp-content/uploads/a.png": None,
                                  "/srv/site/wp-admin/index.php": TELL,
                                  "/srv/site/.htaccess": "RewriteEngine On\nRewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n"
                                                         "RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n"}),
    Case("laravel", host("""
    <Directory /srv/site/public>
        AllowOverride All
        Require all granted
    </Directory>""", root="/srv/site/public"), get("/", "/user/1?x=y", "/css/a.css", "/.env", "/../.env", "/user/", "/storage/x.php"),
         modules="rewrite", tree={"/srv/site/public/index.php": TELL, "/srv/site/public/css/a.css": None, "/srv/site/.env": "secret",
                                  "/srv/site/public/.htaccess": """<IfModule mod_rewrite.c>
    <IfModule mod_negotiation.c>
        Options -MultiViews -Indexes
    </IfModule>
    RewriteEngine On
    RewriteCond %{HTTP:Authorization} .
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_URI} (.+)/$
    RewriteRule ^ %1 [L,R=301]
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteRule ^ index.php [L]
</IfModule>
"""}),
    Case("nextcloud", """<VirtualHost *:80>
  ServerName cloud.test
  DocumentRoot /srv/cloud
  <Directory /srv/cloud/>
    Require all granted
    AllowOverride All
    Options FollowSymLinks MultiViews
    <IfModule mod_dav.c>
      Dav off
    </IfModule>
    SetEnv HOME /srv/cloud
    SetEnv HTTP_HOME /srv/cloud
  </Directory>
  <Directory /srv/cloud/data>
    Require all denied
  </Directory>
  Redirect 301 /.well-known/carddav /remote.php/dav
  Redirect 301 /.well-known/caldav /remote.php/dav
  <IfModule mod_headers.c>
    Header always set Referrer-Policy "no-referrer"
    Header always set X-Robots-Tag "noindex, nofollow"
  </IfModule>
  LimitRequestBody 0
</VirtualHost>
""", ["GET / cloud.test", "GET /remote.php/dav/x cloud.test", "GET /.well-known/carddav cloud.test", "GET /data/a cloud.test", "GET /none cloud.test"],
         modules="rewrite env", tree={"/srv/cloud/index.php": TELL, "/srv/cloud/remote.php": TELL, "/srv/cloud/data/a": "secret",
                                      "/srv/cloud/.htaccess": "ErrorDocument 403 /\n<IfModule mod_rewrite.c>\nRewriteEngine on\n"
                                      "RewriteRule ^remote/(.*) remote.php [QSA,L]\n</IfModule>\nAddDefaultCharset utf-8\nOptions -Indexes\n"}),
    Case("main", host("""
    <Directory /srv/site>
        Options Indexes FollowSymLinks
        AllowOverride All
        Require all granted
    </Directory>
    CustomLog ${APACHE_LOG_DIR}/access.log combined"""),
         get("/", "/a.txt", "/tell.php?a=b", "/only/", "/denied/d.txt", "/.htpasswd", "/rules/x", "/icons/blank.gif", "/page.phtml") + ["GET / other.test"],
         modules="rewrite", is_main=True, inputs=["apache2.conf"], statuses={"*": True}),
    Case("main-without-php", host(GRANTED), get("/a.txt", "/dir/", "/tell.php"), is_main=True, inputs=["apache2.conf"], statuses={"*": True},
         without="php8.2", but={"GET /tell.php site.test": (200, 403)}),
    Case("default-site", "", get("/", "/w.txt", "/none") + ["GET / any.test"], is_main=True, inputs=["apache2.conf"], statuses={"*": True},
         etc={"sites-enabled/000-default.conf": "<VirtualHost *:80>\n\tServerAdmin webmaster@localhost\n\tDocumentRoot /var/www/html\n"
              "\tErrorLog ${APACHE_LOG_DIR}/error.log\n\tCustomLog ${APACHE_LOG_DIR}/access.log combined\n</VirtualHost>\n"}),
    Case("differences-of-places", host("""
    <Directory /srv/site>
        AllowOverride None
        AllowOverrideList Redirect Header
        Require all granted
    </Directory>
    <Directory /srv/site/uploads>
        <FilesMatch "\\.php$">
            SetHandler none
        </FilesMatch>
    </Directory>
    <Location /ping>
        SetHandler "proxy:unix:/run/php/site.sock|fcgi://localhost"
    </Location>
    AliasMatch "^/others/(.*)$" /srv/other/$1"""), get("/rules/x", "/rules/r.txt", "/denied/d.txt", "/a.txt", "/uploads/u.php", "/uploads/u.png", "/.git/config", "/ping"),
         modules="proxy proxy_fcgi", fpm=POOL.replace("[tools]", "ping.path = /ping\n[tools]"),
         statuses={"AllowOverrideList": "changed", "SetHandler": "changed", "DocumentRoot": "changed", "AliasMatch": "changed"},
         but={"GET /uploads/u.php site.test": (200, 403), "GET /.git/config site.test": (200, 404), "GET /ping site.test": (200, 404)}),
    Case("proxy-conditions", host("""
    ProxyPass /app/ http://127.0.0.1:3000/app/
    ProxyPass /open/ http://127.0.0.1:3000/open/
    <Location /app>
        <LimitExcept GET>
            Require all denied
        </LimitExcept>
    </Location>
    <If "%{QUERY_STRING} == 'x'">
        Header set X-Query x
    </If>"""), get("/app/x", "/open/x?x") + ["DELETE /app/x site.test", "DELETE /open/x site.test"], modules="proxy proxy_http", backend=True,
         statuses={"<LimitExcept": "not converted", "Require": "not converted", "<If": "changed"},
         but={"GET /app/x site.test": (200, 403), "GET /open/x?x site.test": (200, 200)}),
    Case("proxy-condition-of-host", host("""
    ProxyPass /app/ http://127.0.0.1:3000/app/
    <If "%{REQUEST_METHOD} == 'DELETE'">
        Require all denied
    </If>"""), ["DELETE /app/x site.test", "GET /app/x site.test"], modules="proxy proxy_http", backend=True,
         statuses={"<If": "not converted", "Require": "not converted"}, but={"GET /app/x site.test": (200, 403)}),
]
