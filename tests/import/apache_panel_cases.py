"""Virtual hosts of Apache as panels, packages and people write them, asked with hostile paths, too."""

from apache_cases import TELL, TREE, Case, get, host

FILES = TREE | {f"/srv/site/{name}": None for name in (
    ".env", ".ht-note", ".htaccess-old", ".user.ini", ".well-known/acme-challenge/t", "backup.sql", "dump.sql.gz", "a.txt~", "x.php.bak", "config.inc.php.dist", "private/sub/r.pdf", "css/site.css", "js/app.js", "img/l.png", "favicon.ico", "robots.txt",
    "a b.txt", "files/report.pdf", "cgi-bin/x.txt", "logs/l.log", "xmlrpc.txt")} | {f"/srv/site/{name}": TELL for name in (
        "uploads/x.phtml", "uploads/deep/y.php", "private/s.php", "vendor/s.php", "admin/index.php", "wp-login.php", "xmlrpc.php", "wp-config.php", "config.inc.php", "files/e.php", "tmp/t.php", "cgi-bin/p.php", "index2.php")}
PATHS = ["/", "/tell.php?a=b&c=%20d", "/tell.php/path/info?x", "/none", "/none.php", "/none.php/x", "/dir", "/dir/", "/only/", "/.env", "/%2eenv", "//.env", "/x/../.env", "/.env/", "/.ht-note", "/.htaccess-old", "/.htpasswd", "/.HTPASSWD", "/%2ehtpasswd", "/.git/config", "/.well-known/acme-challenge/t",
         "/backup.sql", "/dump.sql.gz", "/a.txt~", "/x.php.bak", "/private/p.txt", "/private//p.txt", "//private/p.txt", "/%70rivate/p.txt", "/private/sub/q.txt", "/private/sub/r.pdf", "/private/s.php", "/private", "/private/", "/dir/../private/p.txt", "/dir/%2e%2e/private/p.txt", "/vendor/s.php", "/uploads/u.png", "/uploads/u.png/x.php", "/uploads/u.php", "/uploads//u.php", "/uploads/u.php/y", "/uploads/%75.php",
         "/uploads/x.phtml", "/uploads/U.PHP", "/uploads/deep/y.php", "/files/e.php", "/files/report.pdf", "/css/site.css", "/js/app.js", "/img/l.png", "/favicon.ico", "/robots.txt", "/a%20b.txt", "/admin/", "/admin", "/admin/index.php/x", "/wp-login.php", "/xmlrpc.php", "/wp-config.php", "/config.inc.php", "/tmp/t.php", "/cgi-bin/p.php", "/cgi-bin/x.txt", "/index.php/front?x", "/?p=1",
         "/tell.php.", "/tell.php%20", "/a.txt/", "/a.txt/x", "/logs/l.log", "/server-status", "/server-info", "/~root/x", "/icons/", "/rules/x", "/rules/r.txt", "/denied/d.txt", "/old.bak", "/app.inc", "/page.phtml", "/scripts/", "/a.png", "/a.css", "/errors/404.html"]
MORE = ["HEAD /a.txt site.test", "HEAD /tell.php site.test", "OPTIONS /a.txt site.test", "OPTIONS /tell.php site.test", "POST /tell.php site.test || a=b", "POST /a.txt site.test || a=b", "PUT /uploads/n.txt site.test || x", "DELETE /a.txt site.test", "GET /a.txt site.test | Range: bytes=1-3", "GET /a.txt site.test | Range: bytes=99-",
        "GET /a.txt site.test | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT", "GET / other.test", "GET /a.txt www.site.test", "GET /tell.php site.test | Authorization: Basic YTpi", "GET /private/p.txt site.test | Authorization: Basic YTpi", "GET /tell.php site.test | X-Forwarded-For: 1.2.3.4", "GET /a.txt site.test | User-Agent: BadBot/1", "GET /img/l.png site.test | Referer: http://thief.test/"]
SHA = "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"  # secret
USERS = {"/srv/users": SHA}
ANN = "GET {} site.test | Authorization: Basic YW5uOnNlY3JldA=="


# Files that Howdah never sends, as the report of their root says, with the statuses of both servers.
HIDDEN = dict.fromkeys(get("/.env", "/%2eenv", "//.env", "/x/../.env", "/.ht-note", "/.htaccess-old", "/.htpasswd", "/%2ehtpasswd", "/.git/config"), (200, 404))
HIDDEN |= dict.fromkeys(get("/x.php.bak", "/server-status"), (200, 403))

# Paths that Apache sends decoded to another server, and realms.
SENT_AS_WRITTEN = dict.fromkeys(get("/%2ehtpasswd", "/uploads//u.php", "/uploads/%75.php", "/admin/../x"), (200, 200))
SENT_AS_WRITTEN |= dict.fromkeys(get("/admin/", "/admin", "/admin/index.php/x", "//admin/x", "/%61dmin/x"), (401, 401))


def site(name, config, *more, **options):
    options.setdefault("modules", "")
    options["modules"] += " rewrite expires headers"
    options["tree"] = FILES | options.get("tree", {})
    options.setdefault("statuses", {"*": True})
    # Of a response of another server Apache may make a part itself, if it has all of it by then.
    requests = [request for request in MORE if "Range" not in request] if options.get("backend") else MORE
    return Case(name, config, get(*PATHS) + requests + list(more), **options)


def users(*targets):
    return [ANN.format(target) for target in targets]


CASES = [
    site("plesk", """<VirtualHost 0.0.0.0:80>
    ServerName "site.test:80"
    ServerAlias "www.site.test"
    ServerAlias "ipv4.site.test"
    UseCanonicalName Off
    DocumentRoot "/srv/site"
    CustomLog "|/bin/cat" combined
    ErrorLog "/var/log/apache2/plesk_error.log"
    <IfModule mod_userdir.c>
        UserDir "/srv/other/*"
    </IfModule>
    Redirect permanent /plesk-stat https://site.test/plesk-stat
    <IfModule !mod_ssl.c>
        RewriteEngine Off
    </IfModule>
    <Directory "/srv/site">
        <IfModule mod_authz_core.c>
            Require all granted
        </IfModule>
        <IfModule !mod_authz_core.c>
            Order allow,deny
            Allow from all
        </IfModule>
        <IfModule mod_php.c>
            php_admin_flag engine on
            php_admin_value open_basedir "/srv/site/:/tmp/"
        </IfModule>
        SSLRequireSSL
        Options -Includes -ExecCGI
        AllowOverride AuthConfig FileInfo Indexes Limit Options=Indexes,SymLinksIfOwnerMatch,MultiViews
    </Directory>
    DirectoryIndex "index.html" "index.htm" "index.php"
    <Directory "/srv/site/private">
        AuthType Basic
        AuthName "closed"
        AuthUserFile "/srv/users"
        require valid-user
    </Directory>
</VirtualHost>
""", *users("/private/p.txt"), modules="ssl socache_shmcb userdir authz_groupfile", tree=USERS),
    site("proxied-app", host("""
    ProxyPreserveHost On
    ProxyPass /static !
    ProxyPass /icons !
    ProxyPassMatch "^/(private|vendor)/" "!"
    ProxyPassMatch "^/api/(v[12])/(.*)$" "http://127.0.0.1:3000/internal/$1/$2"
    ProxyPass "/ws/" "ws://127.0.0.1:3000/ws/"
    ProxyPass "/" "http://127.0.0.1:3000/" retry=0 timeout=20
    ProxyPassReverse "/" "http://127.0.0.1:3000/"
    Alias /static /srv/site/css
    <Directory /srv/site/css>
        Require all granted
    </Directory>
    <Location /admin>
        AuthType Basic
        AuthName Admin
        AuthUserFile /srv/users
        Require user ann
    </Location>
    <Location /server-status>
        ProxyPass !
        SetHandler server-status
        Require ip 10.9.9.9
    </Location>
    <LocationMatch "^/(\\.git|\\.env)">
        Require all denied
    </LocationMatch>
    RequestHeader set X-Forwarded-Proto "http"
    RequestHeader unset Proxy early
    ErrorDocument 503 /static/site.css"""), *users("/admin/x"), *get("/api/v1/a?b=c", "/api/v3/a", "/static/site.css", "/static/../.env", "/ws/x", "/api/v1/..%2f..%2fx", "/admin/../x", "//admin/x", "/%61dmin/x", "/.git/config", "//.git/config", "/x/../.git/config"), modules="proxy proxy_http proxy_wstunnel", backend=True, tree=USERS,
         but=SENT_AS_WRITTEN),
    site("dotfiles-opened", host("""
    <Directory /srv/site>
        Require all granted
        AllowOverride None
    </Directory>
    <FilesMatch "^\\.ht">
        Require all granted
    </FilesMatch>"""), but=HIDDEN, statuses={"*": True, "<FilesMatch": "changed", "DocumentRoot": "changed"}),
    Case("maps-of-rules", host("""
    <Directory /srv/site>
        Require all granted
        RewriteEngine On
        RewriteRule ^only/up/(.*)$ /${up:$1} [R=302,L]
    </Directory>
    RewriteEngine On
    RewriteMap lc int:tolower
    RewriteMap up int:toupper
    RewriteMap plain int:unescape
    RewriteMap coded int:escape
    RewriteMap pages txt:/srv/maps/pages.txt
    RewriteMap "closed" "txt:/srv/maps/closed.txt"
    RewriteMap turns rnd:/srv/maps/turns.txt
    RewriteCond ${closed:%{REQUEST_URI}|no} =yes
    RewriteRule ^ - [F]
    RewriteCond %{REQUEST_URI} ^/Up/(.*)
    RewriteRule ^ /${lc:%1} [R=301,L]
    RewriteRule ^/page/([^/]+)$ ${pages:$1|/a.css} [PT,L]
    RewriteRule ^/deep/(.*)$ ${pages:${lc:$1}|${up:$1}} [R,L]
    RewriteRule ^/coded/(.*)$ /x?${coded:$1} [R,NE,L]
    RewriteRule ^/plain/(.*)$ /x?${plain:$1} [R,NE,L]
    RewriteRule ^/none/(.*)$ /x/${nothing:$1|default} [R,L]
    RewriteRule ^/turn/(.*)$ ${turns:$1|/a.png} [PT,L]"""),
         get("/Up/AbC/d.TXT?Q=R", "/page/one", "/page/two", "/page/none", "/page/three", "/deep/ONE", "/deep/other", "/coded/a%20b%26", "/plain/a%2520b", "/none/x",
             "/private/p.txt", "/private//p.txt", "/a.txt", "/turn/one", "/turn/none", "/only/up/abc"),
         modules="rewrite", statuses={"RewriteMap lc": "converted", "RewriteMap pages": "changed", "RewriteMap turns": "changed", "RewriteCond ${closed": "converted",
                                      "RewriteRule ^/none/": "not converted", "*": True},
         but={"GET /none/x site.test": (302, 404)},
         tree=TREE | {"/srv/maps/pages.txt": "# pages\none /a.txt\ntwo\t/dir/b.txt and more\n three /a.png\none /a.png\n",
                      "/srv/maps/closed.txt": "/private/p.txt yes\n", "/srv/maps/turns.txt": "one /a.txt|/a.txt\n"}),
]
