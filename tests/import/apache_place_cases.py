"""What `.htaccess` files may have in each directory, and what Howdah does not run: CGI programs, directories of users, pages of the
server's state. A host for each subject, and one server for all of them."""

from apache_cases import TELL, Case, host

DENIES, REDIRECTS, SETS = "Require all denied\n", "Redirect 302 {0}x {0}y\n", "Header set X-Own {0}\n"
PROGRAM = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\nran\\n'\n# secret\n"


def override():
    """Directories, each with the directives that allow something in its file, and that file."""
    yield "", "", SETS.format("top")
    yield "plain", None, DENIES
    yield "below/deep", None, SETS.format("deep") + REDIRECTS.format("/below/deep/")
    yield "all", "AllowOverride All", DENIES
    yield "all/none", "AllowOverride None", SETS.format("none")
    yield "all/none/again", "AllowOverride AuthConfig", SETS.format("again")
    yield "auth", "AllowOverride AuthConfig", "<Files secret.txt>\nRequire all denied\n</Files>\n"
    yield "auth/sub", None, SETS.format("sub")
    yield "limit", "AllowOverride Limit Nonfatal=Override", SETS.format("limit") + "Order allow,deny\nDeny from all\n"
    yield "unknown", "AllowOverride FileInfo Nonfatal=Unknown", "Nonsense on\n" + SETS.format("unknown")
    yield "wild", None, "DirectoryIndex a.txt\n"
    yield "options", "AllowOverride Options=Indexes", "Options +Indexes\n"
    yield "options/more", None, "Options +MultiViews\n"
    yield "taken-back", "AllowOverride All None", DENIES
    yield "list", "AllowOverrideList Redirect\n        AllowOverride None", REDIRECTS.format("/list/")
    yield "matched", None, SETS.format("matched")
    yield "matched-closed", None, DENIES
    yield "located", None, DENIES


TREE = {f"/srv/over/{name}/.htaccess".replace("//", "/"): text for name, _, text in override()}
TREE |= {f"/srv/over/{name}/{file}".replace("//", "/"): None for name, _, _ in override() for file in ("a.txt", "secret.txt")}
TREE |= {f"/srv/cgi/{name}": PROGRAM for name in ("p.cgi", "p.sh", "x/p.pl")} | {
    f"/srv/site/{name}": PROGRAM for name in ("p.cgi", "p.pl", "P.CGI", "p.cgi.txt", "run.sh", "run.txt", "exec/p.cgi", "exec/p.txt", "all/p", "own/p.cgi", "own/p.py", "typed/p.cgi")} | {
    f"/srv/site/{name}": None for name in ("a.txt", "exec/a.txt", "all/a.txt", "own/a.txt", "page.shtml", "p.mine")} | {
    "/srv/site/index.php": TELL, "/srv/site/exec/index.php": TELL, "/srv/site/own/.htaccess": "Options +ExecCGI\nAddHandler cgi-script .cgi\n<Files *.py>\nSetHandler cgi-script\n</Files>\n",
    "/srv/users/ann/web/index.html": None, "/srv/users/ann/web/a.txt": None, "/srv/site/~bob.txt": None}

OVER = "".join(f"    <Directory \"/srv/over/{name}\">\n        {allow}\n    </Directory>\n" for name, allow, _ in override() if allow)
CONFIG = host("""
    <Directory "/srv/over">
        Require all granted
        AllowOverride FileInfo
    </Directory>
""" + OVER + """
    <Directory "/srv/over/w?l*">
        AllowOverride Indexes
    </Directory>
    <DirectoryMatch "^/srv/over/matched">
        AllowOverride None
    </DirectoryMatch>
    <Directory ~ "^/srv/over/matched-closed">
        AllowOverride All
    </Directory>""", "over.test", root="/srv/over") + host("""
    <Directory /srv/site>
        Require all granted
        AllowOverride All
    </Directory>
    <Directory /srv/cgi>
        Require all granted
        Options +ExecCGI
    </Directory>
    ScriptAlias /programs/ /srv/cgi/
    ScriptAlias "/one" "/srv/cgi/p.sh"
    ScriptAliasMatch "^/run/([a-z]+)$" "/srv/cgi/$1.cgi"
    Alias /source /srv/cgi
    <Location /programs/x>
        Require all granted
    </Location>
    <Directory /srv/site/exec>
        Options +ExecCGI
        AddHandler cgi-script .cgi .pl
    </Directory>
    <Directory /srv/site/all>
        Options ExecCGI
        SetHandler cgi-script
    </Directory>
    <Directory /srv/site/typed>
        Options +ExecCGI
        AddType application/x-httpd-cgi .cgi
    </Directory>
    <Files "run.sh">
        Options +ExecCGI
        SetHandler cgi-script
    </Files>
    Action mine /programs/p.cgi virtual
    AddHandler mine .mine
    <LocationMatch "^/located/.*\\.cgi$">
        Options +ExecCGI
        SetHandler cgi-script
    </LocationMatch>
    RewriteEngine On
    RewriteRule ^/ruled$ /srv/cgi/p.cgi [H=cgi-script,L]""", "cgi.test") + host("""
    <Directory /srv/site>
        Require all granted
    </Directory>
    UserDir /srv/users/*/web
    UserDir disabled bob
    <Directory /srv/users/*/web>
        Require all granted
        AllowOverride AuthConfig
    </Directory>""", "users.test") + host("""
    <Directory /srv/site>
        Require all granted
    </Directory>
    <Location "/status">
        SetHandler server-status
        Require all granted
    </Location>
    <LocationMatch "^/(info|balancer)">
        SetHandler server-info
        Require all granted
    </LocationMatch>
    <Files state.txt>
        SetHandler server-status
    </Files>""", "state.test") + host("""
    ProxyPass / http://127.0.0.1:3000/
    ProxyAddHeaders Off
    ProxyPreserveHost On
    <Location /status>
        SetHandler server-status
        Require all granted
    </Location>""", "proxied.test")


def to(name, *targets):
    return [f"GET {target} {name}.test" for target in targets]


OVERRIDE = [f"/{name}/{file}".replace("//", "/") for name, _, _ in override() for file in ("a.txt", "secret.txt", "x", "")]
RUN = ["/programs/p.cgi", "/programs/p.sh/more?a=b", "/programs/x/p.pl", "/one", "/one/more", "/run/p", "/exec/p.cgi", "/all/p", "/own/p.cgi", "/own/p.py", "/run.sh", "/p.mine",
       "/typed/p.cgi", "/ruled"]
STATE = ["/status", "/status?auto", "/info", "/balancer", "/state.txt"]
CASES = [
    Case("places", CONFIG, to("over", *OVERRIDE) + to("cgi", *RUN, "/programs/none", "/programs", "/p.cgi", "/p.cgi.txt", "/source/p.cgi", "/exec/p.txt", "/exec/a.txt", "/exec/", "/all/a.txt", "/a.txt", "/own/a.txt", "/cgi-bin/x", "/located/p.cgi")
         + to("users", "/~ann/", "/~ann/a.txt", "/%7Eann/a.txt", "/~bob.txt", "/~bob/", "/a.txt") + to("state", *STATE, "/a.txt")
         + to("proxied", "/status", "/a.txt"),
         modules="cgi userdir info actions proxy proxy_http rewrite", tree=TREE, backend=True, is_main=True, inputs=["apache2.conf"],
         but={request: (200, 403) for request in to("cgi", *RUN) + to("users", "/~ann/", "/~ann/a.txt", "/%7Eann/a.txt") + to("state", *STATE)} | {
             request: (404, 403) for request in to("cgi", "/programs", "/programs/none", "/located/p.cgi", "/cgi-bin/x") + to("users", "/~bob/")} | {"GET /all/a.txt cgi.test": (500, 403)},
         statuses={"*": True, "ScriptAlias": "not converted", "UserDir /srv": "not converted", "SetHandler cgi-script": "not converted", "SetHandler server-": "changed", "AllowOverrideList": "changed"}),
]
