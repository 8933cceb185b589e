"""Configurations of Apache, in our own words, with requests.

The text of a case is /etc/apache2/sites-available/site.conf. A request is `METHOD TARGET HOST [@ADDRESS:PORT]`, then fields
and a body. `statuses` has statuses of the report by the beginning of directives, `but` requests that the two servers answer
with different statuses, both of them.
"""

TELL = """<?php
header('Content-Type: application/json');
$told = ['body' => file_get_contents('php://input')];
foreach (['SCRIPT_NAME', 'SCRIPT_FILENAME', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING', 'PATH_INFO', 'REQUEST_METHOD', 'HTTP_HOST',
          'DOCUMENT_ROOT', 'REMOTE_USER', 'HTTPS', 'APP_ENV', 'POOL', 'REDIRECT_STATUS', 'REDIRECT_URL', 'HTTP_X_ADDED', 'HTTP_X_DROPPED',
          'HTTP_AUTHORIZATION', 'REDIRECT_FROM', 'FROM', 'SERVER_ADMIN_X'] as $name)
    $told[$name] = ($_SERVER[$name] ?? '') === '' ? null : $_SERVER[$name];
if ($told['REDIRECT_STATUS'] === '200') $told['REDIRECT_STATUS'] = null;
foreach (['open_basedir', 'memory_limit', 'upload_max_filesize'] as $name) $told[$name] = ini_get($name);
echo json_encode($told, JSON_UNESCAPED_SLASHES), "\\n";
"""

# The tree that most cases have; None stands for "content of PATH".
TREE = {
    "/srv/site/index.html": None, "/srv/site/index.php": TELL, "/srv/site/tell.php": TELL, "/srv/site/a.txt": None, "/srv/site/a.css": None,
    "/srv/site/a.png": None, "/srv/site/page.phtml": TELL, "/srv/site/dir/index.html": None, "/srv/site/dir/b.txt": None,
    "/srv/site/only/c.txt": None, "/srv/site/scripts/index.php": TELL, "/srv/site/private/p.txt": None, "/srv/site/private/sub/q.txt": None,
    "/srv/site/uploads/u.png": None, "/srv/site/uploads/u.php": TELL, "/srv/site/old.bak": None, "/srv/site/app.inc": None,
    "/srv/site/rules/.htaccess": "Redirect 302 /rules/x /rules/y\nHeader set X-Rules yes\n", "/srv/site/rules/r.txt": None,
    "/srv/site/denied/.htaccess": "Require all denied\n", "/srv/site/denied/d.txt": None,
    "/srv/site/errors/404.html": None, "/srv/site/errors/403.php": TELL, "/srv/site/.git/config": None, "/srv/site/.htpasswd": "a:b\n",
    "/srv/other/index.html": None, "/srv/other/o.txt": None, "/srv/other/tell.php": TELL, "/srv/other/sub/s.txt": None,
    "/var/www/html/index.html": None, "/var/www/html/w.txt": None, "/srv/outside/index.html": None,
}

GRANTED = """
    <Directory /srv/site>
        Require all granted
    </Directory>
"""
DEFAULT_MODULES = ("headers access_compat alias auth_basic authn_core authn_file authz_core authz_host authz_user autoindex deflate dir env filter "
                   "mime mpm_prefork negotiation php8.2 reqtimeout setenvif status").split()


class Case:
    def __init__(self, name, config, requests, modules="", tree=None, etc=None, but=None, statuses=None, fpm="", inputs=None,
                 is_main=False, certificates=(), backend=False, joins=False,
                 logs=(), without=""):
        self.name, self.requests, self.but, self.statuses = name, requests, but or {}, statuses or {}
        self.modules = sorted({*DEFAULT_MODULES, *modules.split()} - {*without.split()})
        self.tree, self.fpm, self.logs = tree or TREE, fpm, list(logs)
        self.etc = {"sites-enabled/site.conf": config, **(etc or {})}
        self.inputs, self.is_main, self.certificates = inputs or ["sites-enabled/site.conf"], is_main, list(certificates)
        self.backend, self.joins = backend, joins

    def all_files(self):
        return [name for name in self.etc if name.endswith(".conf")]


def host(text, name="site.test", port=80, root="/srv/site"):
    return f"<VirtualHost *:{port}>\n    ServerName {name}\n    DocumentRoot {root}\n{text}\n</VirtualHost>\n"


def get(*targets, host="site.test"):
    return [f"GET {target} {host}" for target in targets]


PLAIN = get("/", "/a.txt", "/tell.php?a=b", "/tell.php/path/info?x", "/page.phtml", "/dir/", "/dir", "/only/", "/none", "/none.php",
            "/private/p.txt", "/rules/x", "/rules/r.txt", "/denied/d.txt", "/.htpasswd", "/scripts/", "/uploads/u.php")

CASES = [
    Case("closed-by-default", host(""), PLAIN + ["POST /tell.php site.test || a=b"]),
    Case("granted", host(GRANTED), PLAIN + ["POST /tell.php site.test || a=b", "HEAD /a.txt site.test", "POST /a.txt site.test || a",
                                            "PUT /a.txt site.test || a", "OPTIONS /a.txt site.test", "GET /%61.txt site.test",
                                            "GET //dir///b.txt site.test", "GET /dir/../a.txt site.test", "GET /../a.txt site.test"]),
    Case("var-www", host("", root="/var/www/html"), get("/", "/w.txt", "/none")),
    Case("override-all", host("""
    <Directory /srv/site>
        AllowOverride All
        Require all granted
        Options Indexes FollowSymLinks
    </Directory>"""), PLAIN),
    Case("override-none", host("""
    <Directory /srv/site/>
        AllowOverride None
        Options +Indexes
        Require all granted
    </Directory>"""), PLAIN),
    Case("override-below", host("""
    <Directory /srv/site>
        Require all granted
    </Directory>
    <Directory /srv/site/rules>
        AllowOverride FileInfo
    </Directory>"""), PLAIN),
    Case("sections", host(GRANTED + """
    <Directory /srv/site/private>
        Require all denied
    </Directory>
    <Directory "/srv/site/private/sub">
        Require all granted
    </Directory>
    <DirectoryMatch "/srv/site/(uploads|only)">
        <FilesMatch "\\.php$">
            Require all denied
        </FilesMatch>
        Header set X-Match yes
    </DirectoryMatch>
    <FilesMatch "\\.(bak|inc)$">
        Require all denied
    </FilesMatch>
    <Files "a.css">
        Header set X-File css
    </Files>
    <Location /dir>
        Header set X-Location dir
        Require ip 10.9.9.9
    </Location>
    <LocationMatch "^/(scripts|rules)/">
        Header set X-Match location
    </LocationMatch>"""), PLAIN + get("/private/sub/q.txt", "/old.bak", "/app.inc", "/a.css", "/uploads/u.png", "/dirx", "/dir/b.txt",
                                      "/only/c.txt", "/old.bak/x", "/uploads/u.php/x", "/private/none", "/private"), modules="headers"),
    Case("order-of-sections", host("""
    <Directory /srv/site>
        Require all denied
        Header set X-Order site
    </Directory>
    <Directory /srv>
        Require all granted
        Header set X-Order srv
    </Directory>
    <Directory /srv/site/dir>
        Require all granted
        Header set X-Order dir
    </Directory>
    <Files b.txt>
        Header set X-Order file
    </Files>
    <Directory /srv/*/only>
        Require all granted
        Header set X-Order star
    </Directory>
    <Location /dir/index.html>
        Header set X-Order location
    </Location>
    <If "%{REQUEST_URI} =~ m#^/dir/b#">
        Header set X-Order if
    </If>"""), get("/", "/a.txt", "/dir/", "/dir/index.html", "/dir/b.txt", "/only/c.txt", "/only/"), modules="headers"),
    Case("alias", host(GRANTED + """
    Alias /other /srv/other
    <Directory /srv/other>
        Require all granted
        Header set X-Other yes
    </Directory>
    Alias /one.txt /srv/other/o.txt
    Alias "/slash/" "/srv/other/"
    Alias /closed /srv/outside
    AliasMatch "^/pictures/(.*)\\.jpg$" "/srv/other/$1.txt"
    """), get("/other", "/other/", "/other/o.txt", "/other/tell.php/x?y", "/other/sub/s.txt", "/other/none", "/otherx", "/one.txt", "/one.txt/x",
              "/slash", "/slash/o.txt", "/closed/", "/pictures/o.jpg", "/pictures/none.jpg", "/other/../a.txt", "/icons/", "/icons/none.gif", "/a.txt"),
         modules="headers"),
    Case("redirects", host(GRANTED + """
    Redirect /plain /new
    Redirect permanent /forever https://other.test/new
    Redirect 303 /see http://other.test/
    Redirect gone /gone
    Redirect 404 /hidden
    RedirectPermanent /perm /new
    RedirectTemp /temp /new
    RedirectMatch 301 "^/news/(\\d+)/(.*)$" "/archive/$2?year=$1"
    RedirectMatch 410 "\\.asp$"
    RedirectMatch ^/x$ /y"""), get("/plain", "/plain/a?b=c", "/plainx", "/forever/a%20b?c", "/see", "/gone", "/gone/x", "/hidden", "/perm/",
                                   "/temp?a", "/news/2024/a/b?c=d", "/news/x/", "/a.asp", "/x", "/xy") + ["POST /plain site.test || a=b"]),
    Case("redirect-all", """<VirtualHost *:80>
    ServerName site.test
    ServerAlias www.site.test *.more.test
    Redirect permanent / https://site.test/
</VirtualHost>
""", get("/", "/a?b=c") + ["GET /x www.site.test", "GET /x a.b.more.test", "GET /x other.test", "GET /%3f site.test", "GET /a site.test:80"]),
    Case("no-root", "<VirtualHost *:80>\nServerName site.test\n</VirtualHost>\n", get("/", "/a.txt")),
    Case("names", host(GRANTED + "Header set X-Host one\nServerAlias www.site.test *.site.test", "site.test") +
         host(GRANTED + "Header set X-Host two\nServerAlias t?o.test", "two.test") + host(GRANTED + "Header set X-Host three", "www.site.test"),
         ["GET /a.txt site.test", "GET /a.txt WWW.Site.Test", "GET /a.txt a.b.site.test", "GET /a.txt two.test", "GET /a.txt txo.test",
          "GET /a.txt tooo.test", "GET /a.txt unknown.test", "GET /a.txt site.test:8080", "GET /a.txt 127.0.0.1", "GET http://two.test/a.txt site.test"],
         modules="headers"),
    Case("addresses", """
<VirtualHost 10.1.1.1:80>
    ServerName site.test
    DocumentRoot /srv/site
    Header set X-Host ip
    <Directory /srv>
        Require all granted
    </Directory>
</VirtualHost>
<VirtualHost *:80>
    ServerName site.test
    DocumentRoot /srv/other
    Header set X-Host any
    <Directory /srv>
        Require all granted
    </Directory>
</VirtualHost>
<VirtualHost 10.1.1.1:80>
    ServerName b.test
    DocumentRoot /srv/site
    Header set X-Host ip-b
    <Directory /srv>
        Require all granted
    </Directory>
</VirtualHost>
""", ["GET / site.test @10.1.1.1:80", "GET / b.test @10.1.1.1:80", "GET / x.test @10.1.1.1:80", "GET / b.test @10.2.2.2:80",
      "GET / site.test", "GET / x.test"], modules="headers"),
    Case("ports", "Listen 8080\n" + host(GRANTED + "Header set X-Host a", "a.test", 8080) + host(GRANTED + "Header set X-Host b", "b.test", 80)
         + host(GRANTED + "Header set X-Host c", "c.test", "*"),
         ["GET /a.txt a.test @:8080", "GET /a.txt b.test @:8080", "GET /a.txt c.test @:8080", "GET /a.txt c.test", "GET /a.txt a.test", "GET /a.txt x.test"],
         modules="headers"),
    Case("error-documents", host(GRANTED + """
    ErrorDocument 404 /errors/404.html
    ErrorDocument 403 /errors/403.php
    ErrorDocument 410 "It is gone"
    Redirect gone /gone
    <Location /private>
        Require all denied
        ErrorDocument 403 http://other.test/denied
    </Location>
    <Directory /srv/site/only>
        ErrorDocument 404 "no such thing here"
        Require all denied
    </Directory>"""), get("/none", "/none.php", "/gone", "/private/p.txt", "/only/c.txt", "/only/none", "/dir/none?x=y") + ["POST /none site.test || a=b"]),
    Case("index", host(GRANTED + """
    DirectoryIndex tell.php index.html
    <Directory /srv/site/only>
        DirectoryIndex c.txt
        DirectorySlash Off
    </Directory>
    <Directory /srv/site/scripts>
        DirectoryIndex disabled
        Options +Indexes
    </Directory>"""), get("/", "/dir/", "/only/", "/only", "/scripts/", "/uploads/")),
    Case("fallback", host(GRANTED + "FallbackResource /index.php\nDirectoryIndex index.php"), get("/", "/a/b?c=d", "/a.txt", "/none.php", "/dir/", "/only/")
         + ["POST /x/y site.test || a=b"]),
    Case("headers", host(GRANTED + """
    Header set X-Plain "a b"
    Header always set X-Always yes
    Header append X-Plain c
    Header add Link "</a.css>; rel=preload"
    Header add Link "</b.css>; rel=preload"
    Header unset Last-Modified
    Header edit X-Plain a z
    Header set X-Time "%{REQUEST_SCHEME}s"
    Header set X-Env %{KIND}e env=KIND
    SetEnvIf Request_URI "\\.txt$" KIND=text
    Header set X-Expr "expr=%{REQUEST_URI}"
    Header merge Cache-Control no-transform
    Header setifempty X-Empty e
    Header always set Strict-Transport-Security "max-age=63072000; includeSubDomains" "expr=%{HTTPS} == 'on'"
    RequestHeader set X-Added yes
    RequestHeader unset X-Dropped
    <FilesMatch "\\.(css|png)$">
        Header set Cache-Control "public, max-age=86400"
    </FilesMatch>"""), get("/a.txt", "/tell.php", "/none", "/a.css", "/dir", "/a.png") + ["GET /tell.php site.test | X-Dropped: a | X-Added: b"],
         modules="headers"),
    Case("expires", host(GRANTED + """
    ExpiresActive On
    ExpiresDefault "access plus 1 hour"
    ExpiresByType text/css "access plus 1 month"
    ExpiresByType image/png A3600
    <IfModule mod_headers.c>
        Header append Cache-Control public
    </IfModule>"""), get("/a.css", "/a.png", "/a.txt", "/tell.php", "/none"), modules="expires headers"),
    Case("environment", host(GRANTED + """
    SetEnv APP_ENV production
    SetEnvIf Request_URI "^/tell" POOL=tell
    SetEnvIfNoCase User-Agent "bot" POOL=bot
    BrowserMatch evil POOL=evil
    <Directory /srv/site/scripts>
        SetEnv APP_ENV scripts
        UnsetEnv POOL
    </Directory>
    <Location /uploads>
        SetEnv APP_ENV uploads
    </Location>"""), get("/tell.php", "/scripts/", "/uploads/u.php", "/index.php") + ["GET /index.php site.test | User-Agent: a BOT", "GET /index.php site.test | User-Agent: evil"]),
    Case("basic", host("""
    <Directory /srv/site>
        AuthType Basic
        AuthName "The \\"Staff\\""
        AuthUserFile /etc/apache2/users
        Require valid-user
    </Directory>
    <Location /private>
        AuthType Basic
        AuthName Private
        AuthUserFile users
        AuthGroupFile /etc/apache2/groups
        Require group admins
    </Location>
    <Location /only>
        AuthType Basic
        AuthName Only
        AuthUserFile /etc/apache2/users
        Require user bob
    </Location>
    <Location /dir>
        <RequireAny>
            Require ip 127.0.0.1
            Require valid-user
        </RequireAny>
    </Location>
    <Location /scripts>
        <RequireAll>
            Require valid-user
            Require not ip 127.0.0.1
        </RequireAll>
        AuthType Basic
        AuthName S
        AuthUserFile /etc/apache2/users
    </Location>"""), [f"GET {target} site.test{field}" for target in ("/a.txt", "/private/p.txt", "/only/c.txt", "/dir/b.txt", "/tell.php", "/scripts/", "/none")
                      for field in ("", " | Authorization: Basic YW5uYTpzZWNyZXQ=", " | Authorization: Basic Ym9iOnNlY3JldA==",
                                    " | Authorization: Basic YW5uYTp3cm9uZw==")],
         modules="authz_groupfile",
         etc={"users": "anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "groups": "admins: anna\n"}),
    Case("old-access", host("""
    <Directory /srv/site>
        Order allow,deny
        Allow from all
        Require all granted
    </Directory>
    <Directory /srv/site/private>
        Order deny,allow
        Deny from all
        Allow from 10.2
    </Directory>
    <Directory /srv/site/only>
        Order deny,allow
        Deny from all
        Allow from 127.0.0.1
    </Directory>
    <Files "*.bak">
        Order allow,deny
        Deny from all
    </Files>"""), get("/a.txt", "/private/p.txt", "/only/c.txt", "/old.bak") + ["GET /private/p.txt site.test @10.2.2.2:80"]),
    Case("require", host("""
    <Directory /srv/site>
        Require all granted
    </Directory>
    <Location /private>
        Require expr "%{HTTP:X-Token} == 'sesame'"
    </Location>
    <Location /only>
        Require method GET
    </Location>
    <Location /dir>
        SetEnvIf X-Key "^open$" let_in
        Require env let_in
    </Location>
    <Location /uploads>
        Require local
    </Location>
    <Location /scripts>
        <RequireAll>
            Require all granted
            <RequireNone>
                Require ip 127.0.0.0/8
            </RequireNone>
        </RequireAll>
    </Location>"""), get("/private/p.txt", "/only/c.txt", "/dir/b.txt", "/uploads/u.png", "/scripts/") +
         ["GET /private/p.txt site.test | X-Token: sesame", "POST /only/c.txt site.test || a", "GET /dir/b.txt site.test | X-Key: open",
          "GET /uploads/u.png site.test @10.1.1.1:80", "GET /scripts/ site.test @10.1.1.1:80"]),
    Case("rewrite-front", host(GRANTED + """
    RewriteEngine On
    RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-f
    RewriteCond %{DOCUMENT_ROOT}%{REQUEST_URI} !-d
    RewriteRule ^ /index.php [L]"""), get("/", "/a/b?c=d", "/a.txt", "/dir/", "/dir", "/none.php", "/tell.php/x") + ["POST /x site.test || a=b"], modules="rewrite"),
    Case("rewrite-server", host(GRANTED + """
    RewriteEngine On
    RewriteCond %{HTTP_HOST} ^www\\.site\\.test$ [NC]
    RewriteRule ^(.*)$ http://site.test$1 [R=301,L]
    RewriteRule ^/item/([0-9]+)$ /tell.php?item=$1 [QSA,PT,L]
    RewriteRule ^/plain/([0-9]+)$ /tell.php?item=$1 [L]
    RewriteRule ^/gone - [G]
    RewriteRule ^/secret - [F,L]
    RewriteRule ^/to/(.*)$ https://other.test/$1 [R,L,NE]
    RewriteRule ^/file$ /srv/site/a.txt
    RewriteRule ^/outside$ /srv/outside/index.html
    RewriteRule ^/relative$ a.txt
    RewriteRule ^/env - [E=FROM:rule]
    RewriteRule ^/env$ /tell.php [PT]
    RewriteRule ^/al(.*)$ /other$1 [PT]
    RewriteCond %{QUERY_STRING} old=1
    RewriteRule ^/a\\.txt$ /a.css?
    RewriteCond %{REQUEST_METHOD} ^(PUT|DELETE)$
    RewriteRule .* - [R=405]
    RewriteRule ^/cookie$ /a.txt [CO=k:v:site.test]
    RewriteRule ^/status$ - [R=404]
    Alias /other /srv/other
    <Directory /srv/other>
        Require all granted
    </Directory>
    """) , get("/item/7?x=1", "/plain/7", "/gone", "/secret/x", "/to/a%20b?c=d", "/file", "/outside", "/relative", "/env", "/alo.txt", "/al/o.txt", "/a.txt?old=1",
              "/a.txt", "/status", "/cookie") + ["GET /x?y=z www.site.test", "DELETE /a.txt site.test"], modules="rewrite"),
    Case("rewrite-directory", host("""
    <Directory /srv/site>
        Require all granted
        RewriteEngine On
        RewriteBase /
        RewriteRule ^index\\.php$ - [L]
        RewriteCond %{REQUEST_FILENAME} !-f
        RewriteCond %{REQUEST_FILENAME} !-d
        RewriteRule . /index.php [L]
    </Directory>"""), get("/", "/a/b?c=d", "/a.txt", "/dir/", "/index.php", "/none.php", "/only/"), modules="rewrite"),
    Case("php-settings", host(GRANTED + """
    php_admin_value open_basedir /srv/site:/tmp
    php_value memory_limit 77M
    php_admin_flag display_errors off
    <Directory /srv/site/scripts>
        php_value upload_max_filesize 33M
        php_admin_value memory_limit 99M
    </Directory>
    <Directory /srv/site/uploads>
        php_admin_flag engine off
        Require all denied
    </Directory>"""), get("/tell.php", "/scripts/", "/uploads/u.php")),
    Case("conditions", host(GRANTED + """
    <IfModule mod_headers.c>
        Header set X-Module yes
    </IfModule>
    <IfModule mod_nothing.c>
        Require all denied
        <Location /a.txt>
            Require all denied
        </Location>
    </IfModule>
    <IfModule !mod_nothing.c>
        Header set X-Not yes
    </IfModule>
    <IfDefine NOTHING>
        Redirect / http://other.test/
    </IfDefine>
    <IfVersion >= 2.4>
        Header set X-Version new
    </IfVersion>
    <IfVersion < 2.4>
        Redirect / http://other.test/
    </IfVersion>
    Define NAME value
    Header set X-Name ${NAME}
    <IfDefine NAME>
        Header set X-Defined ${NAME}-${NAME}
    </IfDefine>"""), get("/a.txt"), modules="headers"),
    Case("macro", """<Macro Site $name $root>
<VirtualHost *:80>
    ServerName $name
    ServerAlias www.$name
    DocumentRoot $root
    Header set X-Site $name
    <Directory $root>
        Require all granted
    </Directory>
</VirtualHost>
</Macro>
Use Site one.test /srv/site
Use Site two.test /srv/other
UndefMacro Site
""", ["GET / one.test", "GET / www.two.test", "GET /o.txt two.test", "GET /a.txt x.test"], modules="macro headers"),
]
