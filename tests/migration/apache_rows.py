"""Cases that prove the rows of docs/coming-from-apache.md.

Each case has the directives of the rows that it is about, the content of a virtual host of Apache, the steps that the
rows promise for it, and requests. apache_proof.py sends them to both servers. @SRV@ is the directory of the files in
FILES, @TMP@ the one of the comparison, @ONE@ and @TWO@ are addresses of servers that return their requests, and @DEAD@ is
an address at which no server answers.

A request is `METHOD TARGET | FIELD: VALUE | … || BODY`. `9 × REQUEST` is sent nine times on one connection, and its answer
is how many responses came from each server; `session REQUEST` is repeated with the cookie of its response, and its
answer is how many servers responded; `h2c` is the beginning of a connection of HTTP/2.
"""

TELL = """<?php
header('Content-Type: application/json');
$told = ['body' => file_get_contents('php://input')];
foreach (['SCRIPT_NAME', 'PHP_SELF', 'REQUEST_URI', 'QUERY_STRING', 'PATH_INFO', 'REQUEST_METHOD', 'HTTP_HOST',
          'HTTP_AUTHORIZATION', 'HTTP_X_ADDED', 'HTTP_X_DROPPED', 'HTTP_X_TRAILER', 'REDIRECT_STATUS'] as $name)
    $told[$name] = ($_SERVER[$name] ?? '') === '' ? null : $_SERVER[$name];
if ($told['REDIRECT_STATUS'] === '200') $told['REDIRECT_STATUS'] = null;  // set by Howdah as by PHP-FPM
echo json_encode($told, JSON_UNESCAPED_SLASHES), "\\n";
"""

# Files that have no text of their own have "content of NAME".
FILES = {
    "tell.php": TELL, "index.php": TELL, "page.phtml": TELL, "error.php": TELL, "complain.php": "<?php error_log('a complaint');", "dir/first.php": TELL,
    "a.html": None, "a.txt": None, "a.css": None, "a.png": None, "a.unknown": None, "index.html": None, "long.txt": "0123456789" * 100,
    "dir/index.html": None, "dir/other.html": None, "dir/a.txt": None, "only/a.txt": None, "private/a.txt": None,
    "private/sub/b.txt": None, "x.git/config": None, "secret.txt": None, "old.bak": None, "e404.html": None, "e403.html": None,
    "alias/a.txt": None, "alias/sub/b.txt": None, "alias/dir/index.html": None, "conf/steps.json": None,
    "files/.other": "Redirect 302 /files/x /files/y\n", "files/a.txt": None,
    "aliased/.htaccess": "RewriteEngine On\nRewriteRule ^short$ b.txt [L]\nRewriteRule ^whole$ /blog/b.txt [L]\n"
                         "RewriteRule ^no/ front.php [L]\nRedirect 301 /blog/moved /blog/b.txt\nRedirect gone /blog/gone\n"
                         "Header set X-Context %{CONTEXT}e\nRewriteRule ^ - [E=CONTEXT:%{CONTEXT_PREFIX}|%{REQUEST_URI}]\n"
                         "ErrorDocument 410 /blog/b.txt\n",
    "aliased/b.txt": None, "aliased/front.php": TELL, "aliased/closed/.htaccess": "Require all denied\n", "aliased/closed/b.txt": None,
    "aliased/based/.htaccess": "RewriteEngine On\nRewriteBase /blog/based/\nRewriteRule ^short$ b.txt [L]\nRewriteRule ^out$ b.txt [R,L]\n",
    "aliased/based/b.txt": None,
    "files/.htaccess": "Redirect 302 /files/x /files/z\n",
    "auth/.htaccess": "Require all denied\n", "auth/a.txt": None,
    "info/.htaccess": "Redirect 302 /info/x /info/y\n", "info/a.txt": None,
}
# {name: (target, whether it belongs to root)}
LINKS = {"to-a.txt": ("a.txt", False), "foreign.txt": ("/@TMP@/outside.txt", False)}


class Case:
    """One virtual host. `own` has the parts of the document beside the steps; `but` has requests that the two servers
    answer with different statuses, with both of them and the words of the row that say so; `logs` are names of logs below
    @TMP@/apache and @TMP@/howdah whose lines are the same; `told` is a text that both error logs have."""

    def __init__(self, name, rows, apache, steps, requests, own=None, but=None, logs=(), told=None, group="sites"):
        self.name, self.rows, self.apache, self.steps = name, rows.split(), apache, steps
        self.requests, self.own, self.but, self.logs, self.told, self.group = requests, own or {}, but or {}, logs, told, group


SHARE = {"share": "@SRV@$uri", "scripts": "applications/site"}


def step(action=None, **match):
    """A step; without an action the files and scripts of the site."""
    return {"match": match, "action": action or SHARE} if match else {"action": action or SHARE}


def with_share(**keys):
    return [step(SHARE | keys)]


DENIED = {"return": 403}
ONE = {"one": {"servers": {"@ONE@": {}}}}


def redirect(status, location, **keys):
    return {"return": status, "location": location} | keys


CASES = [
    Case("sections", "<Directory> <DirectoryMatch> <Files> <FilesMatch> <Location> <LocationMatch>", """
        <Directory @SRV@/private>
            Require all denied
        </Directory>
        <DirectoryMatch "\\.git">
            Require all denied
        </DirectoryMatch>
        <Files secret.txt>
            Require all denied
        </Files>
        <FilesMatch "\\.bak$">
            Require all denied
        </FilesMatch>
        <Location /only>
            Require all denied
        </Location>
        <LocationMatch "^/(alias|auth)/">
            Require all denied
        </LocationMatch>""",
         [step(DENIED, uri=["/private", "/private/*", "~\\.git(/|$)", "*/secret.txt", "*.bak", "/only", "/only/*",
                            "~^/(alias|auth)/"]), step()],
         ["GET /private/a.txt", "GET /private/sub/b.txt", "GET /private/none", "GET /x.git/config", "GET /secret.txt",
          "GET /old.bak", "GET /only/a.txt", "GET /only", "GET /onlyx", "GET /alias/a.txt", "GET /a.txt",
          "GET /priv%61te/a.txt", "GET /dir/../private/a.txt", "GET /tell.php"]),
    Case("if", "<If> <ElseIf> <Else>", """
        <If "%{HTTP:X-Key} == 'one'">
            Require all denied
        </If>
        <ElseIf "%{QUERY_STRING} =~ /^two/">
            Redirect 302 /a.txt /b.txt
        </ElseIf>
        <Else>
            Header set X-Else yes
        </Else>""",
         [step(DENIED, headers={"X-Key": "one"}), step(redirect(302, "/b.txt", keep_query=True), query="two*", uri="/a.txt"),
          step(SHARE, query="two*"), step(SHARE | {"response_headers": {"X-Else": "yes"}})],
         ["GET /a.txt", "GET /a.txt | X-Key: one", "GET /a.txt | X-Key: two", "GET /a.txt?two", "GET /a.css?two",
          "GET /a.txt?two | X-Key: one"]),
    Case("limit", "<Limit> <LimitExcept>", """
        <Location /tell.php>
            <LimitExcept GET POST>
                Require all denied
            </LimitExcept>
        </Location>
        <Location /error.php>
            <Limit POST DELETE>
                Require all denied
            </Limit>
        </Location>""",
         [step(DENIED, uri="/tell.php", method=["!GET", "!HEAD", "!POST"]),
          step(DENIED, uri="/error.php", method=["POST", "DELETE"]), step()],
         ["GET /tell.php", "HEAD /tell.php", "POST /tell.php || a", "PUT /tell.php || a", "DELETE /tell.php",
          "GET /error.php", "POST /error.php || a", "DELETE /error.php", "PUT /error.php || a"]),
    Case("hosts", "<VirtualHost> NameVirtualHost ServerName ServerAlias",
         "ServerAlias www.hosts.test *.more.test\nHeader set X-Site hosts",
         with_share(response_headers={"X-Site": "hosts"}),
         ["GET /a.txt", "GET /a.txt | Host: www.hosts.test", "GET /a.txt | Host: a.more.test", "GET /a.txt | Host: WWW.Hosts.Test",
          "GET /a.txt | Host: hosts.test:8080", "GET http://hosts.test/a.txt | Host: if.test"],
         own={"host": ["hosts.test", "www.hosts.test", "*.more.test"]}),
    Case("path-info", "AcceptPathInfo AllowEncodedSlashes MergeSlashes", "AllowEncodedSlashes On", [step()],
         ["GET /tell.php/a/b?c", "GET /a.txt/x", "GET /tell.php/a%2Fb", "GET //dir///a.txt", "GET /dir%2Fa.txt",
          "GET /dir/./a.txt", "GET /dir/%2e%2e/a.txt"]),
    Case("access-file", "AccessFileName", "AccessFileName .other\n<Directory @SRV@>\nAllowOverride All\n</Directory>",
         with_share(htaccess={"file": ".other"}), ["GET /files/x", "GET /files/a.txt", "GET /auth/a.txt"]),
    Case("override", "AllowOverride", "<Directory @SRV@>\nAllowOverride FileInfo\n</Directory>",
         with_share(htaccess={"allow": ["FileInfo"]}),
         ["GET /files/x", "GET /info/a.txt", "GET /info/x", "GET /auth/a.txt", "GET /a.txt"]),
    Case("charset", "AddDefaultCharset", "AddDefaultCharset utf-8", with_share(charset="utf-8"),
         ["GET /a.html", "GET /a.txt", "GET /a.png", "GET /dir/"]),
    Case("authorization", "CGIPassAuth", "<Location />\nCGIPassAuth On\n</Location>", [step()],
         ["GET /tell.php | Authorization: Bearer abc", "GET /tell.php"]),
    Case("root", "DocumentRoot", "DocumentRoot @SRV@/dir", [step({"share": "@SRV@/dir$uri"})],
         ["GET /", "GET /a.txt", "GET /dir/a.txt", "HEAD /a.txt", "GET /a.txt | Range: bytes=2-5",
          "GET /a.txt | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT", "POST /a.txt || x", "GET /../a.txt"],
         but={"POST /a.txt || x": (200, 405, "405")}),
    Case("error-document", "ErrorDocument", """
        ErrorDocument 404 /e404.html
        ErrorDocument 403 /error.php
        ErrorDocument 410 http://other.test/gone
        Redirect gone /gone
        <Location /private>
            Require all denied
        </Location>
        <Location /told>
            ErrorDocument 410 "It is <b>gone</b>"
            Redirect gone
        </Location>""",
         [step(DENIED | {"error_pages": {"403": {"action": {"rewrite": "/error.php?", "pass": "applications/site"}}}},
               uri=["/private", "/private/*"]),
          step({"return": 410, "error_pages": {"410": {"action": redirect(302, "http://other.test/gone"),
                                                       "keep_status": False}}}, uri=["/gone", "/gone/*"]),
          step({"return": 410, "body": "It is <b>gone</b>", "response_headers": {
              "Content-Type": {"value": "text/html; charset=iso-8859-1", "always": True}}}, uri="/told*"),
          step(SHARE | {"error_pages": {"404": "@SRV@/e404.html"}})],
         ["GET /told", "POST /told || a", "GET /none", "HEAD /none", "GET /private/a.txt?a=b", "GET /gone", "GET /none.php", "GET /a.txt",
          "POST /none || a"]),
    Case("error-log", "ErrorLog", "", [step()], ["GET /complain.php"], told="a complaint"),
    Case("strict", "HttpProtocolOptions", "HttpProtocolOptions Strict", [step()],
         ["GET /a b HTTP/1.1", "GET /a.txt | Host:", "GET /a.txt | Host: a b", "GET /a.txt | Host: strict.test | Host: strict.test",
          "GET /a.txt | Name : value", "GET /a.txt | Na(me: value"]),
    Case("etag", "FileETag", "FileETag None", with_share(response_headers={"ETag": None}), ["GET /a.txt", "GET /a.css"]),
    Case("include", "Include IncludeOptional", "Include @SRV@/conf/*.conf\nIncludeOptional @SRV@/conf/*.none",
         [{"include": "srv/conf/*.json"}, {"include": "srv/conf/none*.json"}, step()],
         ["GET /included", "GET /a.txt"]),
    Case("body", "LimitRequestBody", "LimitRequestBody 10", [step(SHARE | {"max_body_size": 10})],
         ["POST /tell.php || 0123456789", "POST /tell.php || 01234567890"]),
    Case("ranges", "MaxRanges MaxRangeOverlaps MaxRangeReversals", "", [step()],
         ["GET /long.txt | Range: bytes=0-9", "GET /long.txt | Range: bytes=-5", "GET /long.txt | Range: bytes=990-2000",
          "GET /long.txt | Range: bytes=2000-", "GET /long.txt | Range: bytes=5-2", "GET /long.txt | Range: lines=1-2"]),
    Case("trailers", "MergeTrailers", "", [step()],
         ["POST /tell.php | Transfer-Encoding: chunked | Trailer: X-Trailer || 3\r\nabc\r\n0\r\nX-Trailer: a\r\n\r\n"]),
    Case("no-links", "Options", "<Directory @SRV@>\nOptions None\n</Directory>", with_share(follow_symlinks=False),
         ["GET /to-a.txt", "GET /foreign.txt", "GET /a.txt", "GET /only/"],
         but={"GET /only/": (403, 404, "404")}),
    Case("all-links", "Options", "<Directory @SRV@>\nOptions FollowSymLinks\n</Directory>", with_share(follow_symlinks=True),
         ["GET /to-a.txt", "GET /foreign.txt"]),
    Case("htaccess-options", "Options AllowOverrideList",
         "<Directory @SRV@>\nAllowOverride None\nAllowOverrideList Redirect\nOptions FollowSymLinks\n</Directory>",
         with_share(htaccess={"options": ["FollowSymLinks"], "allow": ["FileInfo"]}),
         ["GET /only/", "GET /only/a.txt", "GET /info/x", "GET /a"]),
    Case("methods", "RegisterHttpMethod", "", [step()], ["FOO /tell.php", "PROPFIND /tell.php"]),
    Case("handler", "SetHandler", """
        <FilesMatch "\\.phtml$">
            SetHandler application/x-httpd-php
        </FilesMatch>""",
         [step(SHARE | {"scripts": "applications/handler"})],
         ["GET /page.phtml?a=b", "GET /page.phtml/rest", "GET /tell.php", "GET /a.txt"],
         own={"applications": {"handler": {"type": "php", "root": "@SRV@", "user": "www-data",
                                           "limit_extensions": [".php", ".phtml"]}}}),
    Case("trace", "TraceEnable", "TraceEnable Off", [step()], ["TRACE /a.txt"]),
    Case("alias", "Alias AliasMatch", """
        Alias /files2 @SRV@/alias
        AliasMatch "^/pictures/(.*)\\.jpg$" "@SRV@/alias/$1.txt"
        AliasMatch "^/users/(\\w+)/(.+)$" "@SRV@/$1/sub/$2" """,
         [step({"share": "@SRV@/alias$uri", "prefix": "/files2"}, uri=["/files2", "/files2/*"]),
          step({"share": "@SRV@/alias/$1.txt"}, uri="~^/pictures/(.*)\\.jpg$"),
          step({"share": "@SRV@/$1/sub/$2"}, uri="~^/users/(\\w+)/(.+)$"), step()],
         ["GET /files2/a.txt", "GET /files2/sub/b.txt", "GET /files2/dir/", "GET /files2/dir", "GET /files2", "GET /files2x",
          "GET /files2/none", "GET /pictures/a.jpg", "GET /pictures/none.jpg", "GET /users/alias/b.txt", "GET /users/private/b.txt",
          "GET /files2/../a.txt"]),
    Case("alias-htaccess", "Alias AllowOverride", """
        DocumentRoot @SRV@/dir
        Alias /blog @SRV@/aliased
        <Directory @SRV@/aliased>
            AllowOverride All
        </Directory>""",
         [step(SHARE | {"share": "@SRV@/aliased$uri", "prefix": "/blog", "htaccess": True}, uri=["/blog", "/blog/*"]),
          step(SHARE | {"share": "@SRV@/dir$uri"})],
         ["GET /blog/b.txt", "GET /blog/short", "GET /blog/whole", "GET /blog/moved?a=b", "GET /blog/based/short", "GET /blog/based/out",
          "GET /blog/closed/b.txt", "GET /blog/no/such/page?q", "GET /blog/front.php/info", "GET /blog", "GET /blog?a", "GET /blog/based",
          "GET /blogs", "GET /blog/../a.txt", "GET /blog/none.txt", "GET /blog/gone"]),
    Case("redirect", "Redirect RedirectMatch RedirectPermanent RedirectTemp RedirectRelative", """
        RedirectRelative On
        Redirect /plain /new
        Redirect permanent /for-good http://other.test/new
        Redirect seeother /see /new
        Redirect 307 /temporary /new
        Redirect gone /gone
        Redirect 404 /hidden
        RedirectPermanent /perm /new
        RedirectTemp /temp /new
        RedirectMatch 301 "^/news/(\\d+)/(.*)$" "/archive/$2?year=$1" """,
         [step(redirect(302, "/new$1", keep_query=True), uri="~^/plain(/.*)?$"),
          step(redirect(301, "http://other.test/new$1", keep_query=True), uri="~^/for-good(/.*)?$"),
          step(redirect(303, "/new$1", keep_query=True), uri="~^/see(/.*)?$"),
          step(redirect(307, "/new$1", keep_query=True), uri="~^/temporary(/.*)?$"),
          step({"return": 410}, uri=["/gone", "/gone/*"]), step({"return": 404}, uri=["/hidden", "/hidden/*"]),
          step(redirect(301, "/new$1", keep_query=True), uri="~^/perm(/.*)?$"),
          step(redirect(302, "/new$1", keep_query=True), uri="~^/temp(/.*)?$"),
          step(redirect(301, "/archive/$2?year=$1"), uri="~^/news/(\\d+)/(.*)$"), step()],
         ["GET /plain", "GET /plain/a?b=c", "GET /plain/a%20b", "GET /plainx", "GET /for-good/a", "GET /see", "GET /temporary/x?y",
          "GET /gone", "GET /gone/a", "GET /hidden", "GET /perm/a", "GET /temp?x=y", "GET /news/2024/a/b",
          "POST /temporary || a", "GET /news/x/a", "HEAD /plain"]),
    Case("index", "DirectoryIndex", "DirectoryIndex first.php other.html index.html", with_share(index=["first.php", "other.html", "index.html"]),
         ["GET /dir/", "GET /dir/?a=b", "GET /", "GET /alias/dir/", "GET /dir", "GET /dir?a=b", "HEAD /dir/"]),
    Case("index-redirect", "DirectoryIndexRedirect", "DirectoryIndex other.html\nDirectoryIndexRedirect permanent",
         [step(redirect(301, "${uri}other.html"), uri="/dir/"), step()], ["GET /dir/", "GET /dir/other.html"]),
    Case("fallback", "FallbackResource", "DirectoryIndex index.html\nFallbackResource /index.php",
         [step(SHARE | {"try": ["$uri", "$uri/", "/index.php"]})],
         ["GET /none/a?b=c", "GET /a.txt", "GET /tell.php", "POST /none || a=b", "GET /none.php", "GET /", "GET /dir/", "GET /only/"],
         but={"GET /none.php": (404, 200, "also for missing scripts")}),
    Case("fallback-action", "FallbackResource", "DirectoryIndex index.html\nFallbackResource /index.php",
         [step(SHARE | {"fallback": {"rewrite": "/index.php", "pass": "applications/site"}})],
         ["GET /none/a?b=c", "GET /a.txt", "GET /tell.php", "GET /", "GET /only/", "GET /none.php"],
         but={"GET /none.php": (404, 200, "also for missing scripts")}),
    Case("expires", "ExpiresActive ExpiresByType ExpiresDefault", """
        ExpiresActive On
        ExpiresByType text/css "access plus 1 month"
        ExpiresByType image/png "modification plus 30 years"
        ExpiresByType text/html A0
        ExpiresDefault "access plus 1 hour 30 minutes" """,
         with_share(expires={"text/css": "access plus 1 month", "image/png": "modification plus 30 years", "text/html": 0,
                             "*": "access plus 1 hour 30 minutes"}),
         ["GET /a.css", "GET /a.png", "GET /a.html", "GET /a.txt", "GET /none", "GET /tell.php", "HEAD /a.css",
          "GET /a.css | If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT"]),
    Case("headers", "Header", """
        Header set X-Plain "a b"
        Header always set X-Always yes
        Header unset Last-Modified""",
         with_share(response_headers={"X-Plain": "a b", "X-Always": {"value": "yes", "always": True}, "Last-Modified": None}),
         ["GET /a.txt", "GET /none", "GET /tell.php", "GET /dir", "GET /a.txt | If-None-Match: *"],
         but={"GET /dir": (301, 301, "also for redirects of the server")}),
    Case("headers-beside", "Header", """
        Header add X-Two 1
        Header add X-Two 2
        Header append Vary Origin
        Header append Vary Cookie
        Header setifempty X-Two 3
        Header setifempty X-Three 3
        Header edit X-Powered-By ^([A-Z]+)/([0-9]) $2-$1
        Header edit* Last-Modified "[0-9]" 0
        Header edit X-None a b""",
         with_share(response_headers={
             "X-Two": [{"value": ["1", "2"], "mode": "add"}, {"value": "3", "mode": "default"}],
             "Vary": {"value": ["Origin", "Cookie"], "mode": "append"}, "X-Three": {"value": "3", "mode": "default"},
             "X-Powered-By": {"edit": "~^([A-Z]+)/([0-9])", "value": "$2-$1"},
             "Last-Modified": {"edit": "~[0-9]", "value": "0", "all": True}, "X-None": {"edit": "~a", "value": "b"}}),
         ["GET /a.txt", "GET /none", "GET /tell.php"]),
    Case("request-headers", "RequestHeader", """
        RequestHeader set X-Added yes
        RequestHeader unset X-Dropped
        ProxyPass /back/ http://@ONE@/
        ProxyAddHeaders Off
        ProxyPreserveHost On""",
         [step({"rewrite": "/$1", "pass": "upstreams/one", "request_headers": {"X-Added": "yes", "X-Dropped": None}},
               uri="~^/back/(.*)"),
          step(SHARE | {"environment": {"HTTP_X_ADDED": "yes", "HTTP_X_DROPPED": ""}})],
         ["GET /back/a | X-Dropped: a | X-Added: no", "GET /back/a", "GET /tell.php | X-Dropped: a", "GET /tell.php | X-Added: no"],
         own={"upstreams": ONE}),
    Case("log", "CustomLog LogFormat", """
        LogFormat "%h %l %u %t \\"%r\\" %>s %B %{X-Kind}i" mine
        CustomLog @TMP@/apache/mine.log mine
        CustomLog @TMP@/apache/combined.log combined
        CustomLog @TMP@/apache/common.log common
        CustomLog @TMP@/apache/vhost.log vhost_combined
        SetEnvIf Request_URI "\\.css$" skipped
        CustomLog @TMP@/apache/some.log common env=!skipped""",
         with_share(access_log=[
             {"path": "@TMP@/howdah/mine.log",
              "format": '$remote_addr - $remote_user [$time_local] "$request_line" $status $body_bytes_sent $header_x_kind'},
             {"path": "@TMP@/howdah/combined.log", "format": "combined"},
             {"path": "@TMP@/howdah/common.log", "format": "common"},
             {"path": "@TMP@/howdah/vhost.log", "format": "vhost_combined"},
             {"path": "@TMP@/howdah/some.log", "format": "common", "if": "!$css"}]),
         ["GET /a.txt | User-Agent: test | Referer: http://a.test/", "GET /a.css?x=y", "HEAD /a.txt | X-Kind: k", "GET /tell.php?a=%22b",
          "GET /a%20b | User-Agent: quo\"ted"],
         own={"variables": {"css": {"map": "$uri", "values": {"*.css": "1"}, "default": ""}}},
         logs=["mine.log", "combined.log", "common.log", "vhost.log", "some.log"]),
    Case("transfer-log", "TransferLog", "TransferLog @TMP@/apache/transfer.log",
         with_share(access_log={"path": "@TMP@/howdah/transfer.log", "format": "common"}), ["GET /a.txt", "GET /none"], logs=["transfer.log"]),
]
