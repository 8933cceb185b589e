"""Combinations of sections, conditions, rules and handlers that decide together who gets in. A host for each subject, and one server
for all of them."""

from apache_cases import TELL, Case, get, host
from apache_more_cases import POOL

NAMES = ("index.php", "tell.php", "a.txt", "a.css", "page.phtml", "private/p.txt", "private/s.php", "private/deep/p.txt", "open/o.txt", "open/private/p.txt", "admin/index.php", "admin/a.txt", "uploads/u.png",
         "uploads/x.php", "uploads/x.php.png", "api/a.json", "cache/c.txt", "docs/d.html", ".well-known/acme-challenge/t", "error/404.html", "legacy/l.php", "legacy/l.txt", "vendor/v.php", "vendor/v.txt", "site.conf", "dump.sql",
         "install.php", "wp-login.php", "maintenance.html")
TREE = {f"/srv/site/{name}": TELL if name.endswith((".php", ".phtml")) else None for name in NAMES} | {
    "/srv/other/index.html": None, "/srv/other/o.txt": None, "/srv/other/secret.txt": None, "/srv/users": "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "/srv/site/hidden/.htaccess": "Require all denied\n", "/srv/site/hidden/h.txt": None,
    "/srv/site/.htaccess": "Header set X-Rules yes\n"}
PATHS = ["/" + name.removesuffix("index.php") for name in NAMES] + ["/none", "/private", "/private/", "//private/p.txt", "/open/../private/p.txt", "/%70rivate/p.txt", "/PRIVATE/p.txt", "/tell.php/more?a=b", "/tell.php/private/p.txt", "/uploads/x.php/y", "/admin", "/hidden/h.txt", "/hidden/"]
ANN = " | Authorization: Basic YW5uOnNlY3JldA=="


def to(name, *targets, field=""):
    return [f"GET {target} {name}.test{field}" for target in targets]


HOSTS = {
    # Locations come behind directories and files, in their order; conditions behind all.
    "order": """
    <Location "/">
        Require all denied
        Header set X-L root
    </Location>
    <Location "/open">
        Require all granted
        Header set X-L open
    </Location>
    <LocationMatch "^/(open/)?private/">
        Require all denied
    </LocationMatch>
    <Files "a.css">
        Require all granted
    </Files>
    <Location "/api/">
        <RequireAny>
            Require ip 10.0.0.0/8
            Require expr "%{HTTP:X-Key} == 'sesame'"
        </RequireAny>
    </Location>
    <If "%{REQUEST_URI} =~ m#^/docs/# && %{REQUEST_METHOD} == 'GET'">
        Require all granted
    </If>
    <Location "/admin">
        Require all granted
        <If "! -R '10.0.0.0/8'">
            Require all denied
        </If>
    </Location>""",
    "conditions": """
    <If "%{HTTP_USER_AGENT} =~ /bad/ || %{HTTP:X-Scan} == '1'">
        Require all denied
    </If>
    <ElseIf "%{QUERY_STRING} =~ /(?:union|concat)/i">
        Redirect 403 /
    </ElseIf>
    <Else>
        Header set X-Else yes
    </Else>
    <Directory /srv/site/private>
        <If "%{HTTP_COOKIE} !~ /(^|; )pass=1(;|$)/">
            Require all denied
        </If>
        <FilesMatch "\\.txt$">
            Header set X-Text yes
        </FilesMatch>
    </Directory>
    <Location /cache>
        <If "-T env('let_in')">
            Require all granted
        </If>
        <Else>
            Require all denied
        </Else>
    </Location>
    SetEnvIf X-Let "in" let_in=1
    SetEnvIfExpr "%{QUERY_STRING} == 'in'" let_in=1
    <Location />
        <LimitExcept GET HEAD POST>
            Require all denied
        </LimitExcept>
    </Location>""",
    "users": """
    <Directory /srv/site/private>
        AuthType Basic
        AuthName "Private"
        AuthUserFile /srv/users
        <RequireAll>
            Require valid-user
            Require not ip 10.2.0.0/16
        </RequireAll>
    </Directory>
    <Directory /srv/site/private/deep>
        AuthMerging And
        Require ip 10.0.0.0/8
    </Directory>
    <Location /admin>
        AuthType Basic
        AuthName "Admin"
        AuthUserFile /srv/users
        Order deny,allow
        Deny from all
        Allow from 10.1
        Satisfy Any
        Require user ann
    </Location>
    <Files "wp-login.php">
        AuthType Basic
        AuthName "Login"
        AuthUserFile /srv/users
        Require valid-user
    </Files>
    <FilesMatch "^(install|site)\\.">
        Require host nowhere.invalid
    </FilesMatch>
    <Location /docs>
        AuthType Digest
        AuthName Docs
        AuthDigestProvider file
        AuthUserFile /srv/users
        Require valid-user
    </Location>
    <Location /vendor>
        AuthType None
        Require all granted
    </Location>
    <LocationMatch "\\.(sql|conf)$">
        Order allow,deny
        Allow from env=nothing
    </LocationMatch>""",
    "rules": """
    RewriteEngine On
    RewriteCond %{REQUEST_URI} !^/(index\\.php|admin|open|private|hidden|tell\\.php|\\.well-known)
    RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f
    RewriteRule ^/(.+)$ /index.php/$1 [QSA,PT,L]
    RewriteRule !^/(open|admin|index|tell|private|hidden|legacy|a\\.|uploads|vendor) - [F]
    RewriteCond %{QUERY_STRING} (^|&)go=([^&]+)
    RewriteRule ^/open/(.*)$ /%2/$1? [R=302,L,NE]
    RewriteCond %{HTTP_HOST} =www.rules.test [OR]
    RewriteCond %{HTTP:X-Www} .
    RewriteRule ^ http://rules.test%{REQUEST_URI} [R=301,L]
    RewriteRule ^/vendor/ - [G]
    RewriteRule ^/legacy/(.*)\\.php$ /tell.php?was=$1 [PT,L,E=FROM:$1]
    RewriteRule ^/uploads/.*\\.php - [NC,R=404]
    SetEnvIf User-Agent "scanner" bad=1
    SetEnvIf Request_URI "^/api/" bad=api
    RewriteCond %{ENV:bad} .
    RewriteCond %{ENV:bad} !=api
    RewriteRule ^ - [F]
    RewriteRule ^/a\\.css$ /private/p.txt [PT]
    RewriteRule ^/admin/a\\.txt$ /srv/other/secret.txt
    RewriteRule ^/admin/o/(.*)$ /srv/other/$1 [L]
    <Directory /srv/site/private>
        Require all denied
    </Directory>
    <Directory /srv/other>
        Require all granted
    </Directory>
    <Files secret.txt>
        Require all denied
    </Files>""",
    "fpm": """
    <FilesMatch "\\.(php|phtml)$">
        <If "-f %{REQUEST_FILENAME}">
            SetHandler "proxy:unix:/run/php/site.sock|fcgi://localhost"
        </If>
    </FilesMatch>
    <Directory /srv/site/uploads>
        <FilesMatch "\\.ph(p[0-9]?|tml|ar)">
            Require all denied
        </FilesMatch>
    </Directory>
    <DirectoryMatch "/(private|vendor)(/|$)">
        Require all denied
    </DirectoryMatch>
    <Proxy "unix:/run/php/site.sock|fcgi://localhost">
        ProxySet timeout=60
    </Proxy>
    SetEnv APP_ENV host
    SetEnvIf Authorization "(.*)" HTTP_AUTHORIZATION=$1""",
    "match": """
    ProxyPassMatch "^/(admin|private)/.*\\.php" "!"
    ProxyPassMatch "^/(.*\\.php)(/.*)?$" "unix:/run/php/site.sock|fcgi://localhost/srv/site/$1$2" enablereuse=off
    <Location /uploads>
        Require all denied
    </Location>
    <LocationMatch "^/(install|wp-login)\\.php">
        Require ip 10.0.0.0/8
    </LocationMatch>
    <Directory /srv/site/private>
        Require all denied
    </Directory>
    DirectoryIndex index.php""",
    "php": """
    php_admin_value open_basedir "/srv/site:/tmp"
    php_admin_flag allow_url_fopen off
    php_value memory_limit 70M
    <Directory /srv/site/uploads>
        php_admin_flag engine off
        Options -ExecCGI
        RemoveHandler .php .phtml
        <FilesMatch "(?i)\\.(php|phtml|phar)(\\.|$)">
            SetHandler none
            Require all denied
        </FilesMatch>
    </Directory>
    <Location /legacy>
        php_value memory_limit 90M
        php_admin_value upload_max_filesize 9M
    </Location>
    <FilesMatch "\\.phtml$">
        SetHandler application/x-httpd-php
        php_value memory_limit 80M
    </FilesMatch>
    <Files "install.php">
        <Limit POST>
            Require all denied
        </Limit>
        Require all granted
    </Files>""",
    "redirects": """
    <Location /legacy>
        Redirect 301 http://redirects.test/open
    </Location>
    <LocationMatch "^/docs/(?<page>[a-z]+)\\.html$">
        RedirectMatch 302 "^/docs/([a-z]+)\\.html$" "/pages/$1"
    </LocationMatch>
    <Location /vendor>
        Redirect gone /vendor
    </Location>
    Redirect 403 /private
    RedirectMatch 404 "(?i)\\.(sql|conf)$"
    RedirectMatch "^/(?!open|\\.well-known|a\\.txt)(admin|cache)(/.*)?$" "http://redirects.test/open$2"
    Alias /legacy /srv/other
    AliasMatch "^/cache/(.*)" "/srv/other/$1"
    ErrorDocument 404 /error/404.html
    ErrorDocument 403 "Not for you"
    <Directory /srv/other>
        Require all granted
    </Directory>
    <Directory /srv/site/uploads>
        FallbackResource /index.php
        ErrorDocument 404 default
    </Directory>""",
}
VARIANTS = {
    "order": to("order", "/api/a.json", field=" | X-Key: sesame") + ["GET /api/a.json order.test @10.1.1.1:80", "GET /admin/a.txt order.test @10.1.1.1:80", "POST /docs/d.html order.test || a"],
    "conditions": to("conditions", "/a.txt", field=" | User-Agent: a bad one") + to("conditions", "/tell.php?x=Union", "/cache/c.txt?in") + to("conditions", "/private/p.txt", "/private/s.php", field=" | Cookie: a=b; pass=1")
                  + to("conditions", "/cache/c.txt", field=" | X-Let: in") + ["DELETE /a.txt conditions.test", "PUT /tell.php conditions.test || a", "POST /tell.php conditions.test || a"],
    "users": [f"GET {path} users.test{at}" for path in ("/private/p.txt", "/private/s.php", "/private/deep/p.txt", "/admin/", "/wp-login.php", "/docs/d.html") for at in (ANN, " @10.1.1.1:80", " @10.1.1.1:80" + ANN, " @10.2.2.2:80" + ANN)],
    "rules": to("rules", "/open/o.txt?go=other", "/legacy/l.php?x=y", "/uploads/X.PHP", "/admin/o/secret.txt", "/admin/o/o.txt", "/admin/o/../secret.txt") + to("rules", "/a.txt", field=" | X-Www: 1") + to("rules", "/a.txt", "/api/a.json", field=" | User-Agent: a scanner"),
    "fpm": ["POST /tell.php fpm.test || a=b"] + to("fpm", "/none.php", "/tell.php", field=ANN),
    "match": ["GET /install.php match.test @10.1.1.1:80", "GET /install.php/x match.test", "GET /none.php match.test"],
    "php": ["POST /install.php php.test || a"],
    "redirects": to("redirects", "/legacy/x?y", "/uploads/none", "/private?x", "/x.SQL"),
}
CONFIG = """Define ROOT /srv/site
<Macro Site $name>
<VirtualHost *:80>
    ServerName $name.test
    ServerAlias www.$name.test
    DocumentRoot ${ROOT}
    Include sites-available/$name.inc
    IncludeOptional sites-available/$name-*.inc
    <IfDefine !ROOT>
        Require all denied
    </IfDefine>
    <Directory ${ROOT}>
        Require all granted
        AllowOverride All
        Options FollowSymLinks
    </Directory>
</VirtualHost>
</Macro>
""" + "".join(f"Use Site {name}\n" for name in HOSTS)

# Only some scripts are run: others must not be, by whatever way a request comes to them.
FRONT = host("""
    <Directory /srv/site>
        Require all granted
        AllowOverride All
    </Directory>
    DirectoryIndex index.php
    ProxyPassMatch "^/((?:sub/)?(?:index|tell)\\.php(?:/.*)?)$" "unix:/run/php/site.sock|fcgi://localhost/srv/site/$1"
""")

CASES = [
    Case("nasty", CONFIG, [request for name in HOSTS for request in to(name, *PATHS) + VARIANTS[name]], tree=TREE, fpm=POOL,
         modules="proxy proxy_fcgi rewrite macro auth_digest", is_main=True, inputs=["apache2.conf"], statuses={"*": True},
         etc={f"sites-available/{name}.inc": text for name, text in HOSTS.items()},
         but={f"GET /docs/d.html users.test{at}": (401, 403) for at in ("", ANN, " @10.1.1.1:80", " @10.1.1.1:80" + ANN, " @10.2.2.2:80" + ANN)} | {
             # Texts of PHP-FPM; a field of a file's directory, which PHP-FPM's scripts do not have in front of it.
             "GET /page.phtml fpm.test": (403, 404), "GET /none.php match.test": (404, 404), "GET /page.phtml match.test": (200, 404), "GET / match.test": (200, 200), "GET /admin/ match.test": (200, 200)}),
    Case("front-controller-without-mod-php", FRONT, get("/", "/a/b?c=d", "/tell.php", "/index.php/x", "/sub/", "/uploads/x.php", "/none.php", "/page.phtml", "/a.txt"), modules="proxy proxy_fcgi rewrite", without="php8.2", fpm=POOL,
         but={request: (200, 403) for request in get("/uploads/x.php", "/page.phtml")},
         is_main=True, inputs=["apache2.conf"], statuses={"*": True}, tree={**TREE, "/srv/site/sub/index.php": TELL, "/srv/site/.htaccess": "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n"}),
]
