"""The table of intended differences, each with its reason. It ends up in docs/differences.md."""

import re

from .judge import Intended

FILES, REACH, SEEN, PROTOCOL, RESPONSES = (
    "Files", "Requests passed to scripts", "Variables of scripts", "Messages", "Responses of scripts",
)
DIRECTORIES = (
    "directory*without a slash*", "directory without an index and a slash", "HEAD of a directory*",
    "symbolic link to a directory, without*", "two slashes before a directory", "redirect of a directory*",
    "body on a redirect*",
)

TABLE = (
    Intended(
        "Hidden files are never sent: 404",
        "Segments that begin with a dot are configuration, credentials or version control, except "
        "`/.well-known/` as the first segment. Unlike 403, 404 does not reveal whether the file exists.",
        ("hidden *", "settings file of PHP", "HEAD of a hidden file"),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "Copies of scripts are never sent: 404",
        "Copies left by editors and people (`.php~`, `.php.bak`, `.phps`, `.PHP`, `.php.swp`) and similar "
        "names contain the source and often credentials. The peers send them as text.",
        ("copy of a script *", "HEAD of a copy of a script", "range of a copy of a script"),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "A symbolic link does not show the source of a script: 404",
        "The target name of a link is checked like the name in the request. Users who can create links cannot "
        "read credentials in scripts.",
        ("text that is a symbolic link to a script",),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "The redirect to a directory contains only the path",
        "`Location: /docs/` is correct behind every proxy, for any scheme, host and port of the client (RFC "
        "9110, 10.2.2).",
        DIRECTORIES, {"field location": re.compile(r"/[^/].*/(\?.*)?")}, topic=FILES,
    ),
    Intended(
        "`Accept-Ranges: bytes` also in responses to range requests, including 416",
        "It announces that other ranges can be requested (RFC 9110, 14.3).",
        ("range *", "unsatisfiable range *"), {"field accept-ranges": "bytes"}, topic=FILES,
    ),
    Intended(
        "304 contains the entity tag, but neither `Last-Modified` nor `Accept-Ranges`",
        "The client already has them. RFC 9110, 15.4.5 recommends omitting them if there is an entity tag.",
        ("modified since*", "none match *", "HEAD, not modified *", "range and not modified *", "unsatisfiable range and *"),
        {"field last-modified": None, "field accept-ranges": None}, given={"status": "304", "field etag": "strong"}, topic=FILES,
    ),
    Intended(
        "A range whose end is too large for an integer extends to the end of the file",
        "An end beyond the file is valid (RFC 9110, 14.1.2), with any number of digits.",
        ("range overflow", "range overflow of a suffix"),
        {"status": "206", "field content-range": "bytes 0-999/1000", "body": re.compile("1000 bytes, md5 d05d835a880e.*", re.DOTALL)},
        alone=True, topic=FILES,
    ),
    Intended(
        "`Range` is ignored with HEAD",
        "It is defined for GET only (RFC 9110, 14.2).",
        ("range with HEAD",), {"status": "200", "field content-length": "1000", "field content-range": None}, alone=True, topic=FILES,
    ),
    Intended(
        "No range of an empty file can be satisfied: 416",
        "The first position must be less than the length (RFC 9110, 14.1.2).",
        ("range of an empty file",), {"status": "416", "field content-range": "bytes */0"}, alone=True, topic=FILES,
    ),
    Intended(
        "Some media types are those of NGINX Unit or of later registrations",
        "`.rpm` and `.exe` are downloads, `.map` is JSON, `.inc` is text.",
        ("type of package.rpm", "type of source.map", "type of library.inc"),
        {"field content-type": ("application/octet-stream", "application/json", "text/plain")}, topic=FILES,
    ),
    Intended(
        "A precompressed copy (`.br`, `.zst`, `.gz`) is sent if the client accepts it",
        "The peers support this too, but not in their default configuration.",
        ("file with a precompressed copy that is accepted",),
        {"field content-encoding": "gzip", "field vary": "Accept-Encoding"}, topic=FILES,
    ),

    Intended(
        "A request without a file is passed to the front controller, if there is one",
        "As with `fallback` in NGINX Unit: for a method that is not valid for files, a directory without an "
        "index, or a script that does not exist. The application then sends its own page or status.",
        ("* on a file", "body to a file", "body of 9 MB to a file", "chunked to a file", "POST to a directory without a slash",
         "directory without an index, with front controller", "picture with a script behind it, with front controller",
         "missing script*, with front controller"),
        {"status": "200", "by": "script", "script": "index.php"}, alone=True, topic=REACH,
    ),
    Intended(
        "TRACE is not echoed but passed to the script",
        "An echo reveals credentials to a page that can make a browser send the request. A script may use the "
        "method.",
        ("TRACE on a script", "TRACE on a pretty path"),
        {"status": "200", "by": "script", "server.REQUEST_METHOD": "TRACE"}, alone=True, topic=REACH,
    ),
    Intended(
        "405 lists the allowed methods",
        "RFC 9110, 15.5.6 requires `Allow`. Files support GET and HEAD only.",
        ("* on a directory",), {"status": "405", "field allow": "GET, HEAD"}, alone=True, topic=REACH,
    ),

    Intended(
        "`PATH_INFO` is absent if the path has none",
        "As in the CGI specification and Apache. nginx with Debian's configuration sends an empty value.",
        ("*",), {"server.PATH_INFO": None}, instead={"server.PATH_INFO": ""}, topic=SEEN,
    ),
    Intended(
        "`REMOTE_USER` is absent",
        "nginx sets it to the unverified name from any `Authorization: Basic`. The name is in "
        "`PHP_AUTH_USER`.",
        ("*",), {"server.REMOTE_USER": None}, topic=SEEN,
    ),
    Intended(
        "`PATH_TRANSLATED` is set together with `PATH_INFO`",
        "As in the CGI specification and Apache.",
        ("*",), {"server.PATH_TRANSLATED": re.compile("/srv/(front|plain)/.*", re.DOTALL)}, instead={"server.PATH_TRANSLATED": None}, topic=SEEN,
    ),
    Intended(
        "`REQUEST_ID` is set",
        "It corresponds to nginx's `$request_id`, which Debian's configuration does not pass on, and appears "
        "in the log.",
        ("*",), {"server.REQUEST_ID": "<request id>"}, instead={"server.REQUEST_ID": None}, topic=SEEN,
    ),
    Intended(
        "`PATH` is set",
        "The usual directories of programs, as under Apache. PHP-FPM clears it, and programs that scripts start find "
        "no others.",
        ("*",), {"server.PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, instead={"server.PATH": None}, topic=SEEN,
    ),
    Intended(
        "`DOCUMENT_URI` is the decoded path with `PATH_INFO`",
        "As in nginx, unless `try_files` changes it, as in Debian's snippet.",
        ("path info*", "variables of the front controller with its name in the path"),
        {"server.DOCUMENT_URI": re.compile(r"/(probe|index|app/tool)\.php/.*", re.DOTALL)},
        instead={"server.DOCUMENT_URI": re.compile(r"/(probe|index|app/tool)\.php")}, topic=SEEN,
    ),
    Intended(
        "`PATH_INFO` keeps a line feed",
        "The value is exactly that of the path. nginx's pattern stops at the line feed, which was once a "
        "vulnerability in PHP-FPM (CVE-2019-11043).",
        ("path info with a line feed", "path info with a line feed and a long query"),
        {"server.PATH_INFO": "/\\x0a", "server.PHP_SELF": "/probe.php/\\x0a"}, topic=SEEN,
    ),
    Intended(
        "A line feed within `PATH_INFO` does not hide the script",
        "As above.",
        ("path info with a line feed and a longer query",),
        {"status": "200", "server.PATH_INFO": "/a\\x0ab", "server.SCRIPT_NAME": "/probe.php"}, alone=True, topic=SEEN,
    ),
    Intended(
        "`SERVER_NAME` is the host of the request",
        "Without configuration there is no other name. Without a host it is the server's address. nginx sends "
        "the first configured name.",
        ("*",), {"server.SERVER_NAME": ("127.0.0.1", "other.example", "[::1]", "under_score.test")},
        instead={"server.SERVER_NAME": "site.test"}, topic=SEEN,
    ),
    Intended(
        "Without `Host` there is no `HTTP_HOST`",
        "As in Apache. nginx sends an empty value.",
        ("HTTP/1.0 without a host",), {"server.HTTP_HOST": None}, instead={"server.HTTP_HOST": ""}, topic=SEEN,
    ),
    Intended(
        "`HTTP_HOST` is the host of a target in absolute form",
        "The target takes precedence over the field (RFC 9112, 3.2.2). Otherwise a script would generate "
        "links to a different host than that of the request.",
        ("absolute form with another host field", "absolute form over HTTP/1.0 without a host"),
        {"server.HTTP_HOST": "site.test:PORT"}, topic=SEEN,
    ),
    Intended(
        "Fields of one name are joined with `, `, cookies with `; `",
        "RFC 9110, 5.3 and RFC 6265, 5.4. nginx 1.22 passes only the last field; Apache joins cookies with a "
        "comma.",
        ("field twice", "cookie field twice"),
        {"server.HTTP_X_TWICE": ("one, two", None), "server.HTTP_COOKIE": ("a=1; b=2", None), "cookie.a": ("1", None)}, topic=SEEN,
        until="nginx 1.23",
    ),
    Intended(
        "Tabs around a field's value are removed",
        "RFC 9110, 5.5. nginx keeps them.",
        ("field with tabs around its value",), {"server.HTTP_X_TABS": "a"}, topic=SEEN,
    ),
    Intended(
        "`apache_response_headers()` and `headers_send()` exist",
        "Scripts use these functions if they exist.",
        ("functions",), {"apache_response_headers": "true", "headers_send": "true"}, topic=SEEN,
    ),
    Intended(
        "`getenv('PATH_INFO')` is `false` if the path has none", "As in `$_SERVER`.",
        ("environment",), {"pathinfo": "false"}, instead={"pathinfo": ""}, topic=SEEN,
    ),

    Intended(
        "An empty `Host` is accepted",
        "RFC 9112, 3.2 allows it, and so does NGINX Unit.",
        ("host empty",), {}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "Versions other than HTTP/1.0 and HTTP/1.1 are refused with 505",
        "The versions HTTP/1.2 to 1.9 do not exist.",
        ("HTTP/1.9",), {"refused": "yes"}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "HTTP/0.9 is refused",
        "No client uses it, and responses without a head can confuse caches.",
        ("HTTP/0.9", "no version"), {"refused": "yes", "end": "closed"}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "Chunked coding is parsed strictly",
        "Servers interpret violations of RFC 9112, 7.1 differently, which permits request smuggling: white "
        "space after a size, sizes with too many digits, malformed trailers.",
        ("chunk size with a space after", "chunk size of many digits", "trailer that is malformed"),
        {"refused": "yes", "end": "closed"}, alone=True, topic=PROTOCOL,
    ),

    Intended(
        "A malformed field of a script is dropped, and the rest of the response is sent",
        "The log reports the field. The peers send 502 or 500 instead of an otherwise valid page, or pass "
        "control bytes on.",
        ("script name-with-space", "script name-empty"), {"status": "200", "by": "script", "body": "odd name"}, alone=True, topic=RESPONSES,
    ),
    Intended(
        "A field of a script with control bytes is dropped", "As above.",
        ("script value-control",), {"field x-control": None}, topic=RESPONSES,
    ),
    Intended(
        "`X-Accel-…` and `X-Sendfile…` are not sent to clients",
        "The configuration defines which responses may name a path or a file (`internal_redirect`, "
        "`sendfile`). Otherwise the fields have no effect, and would only disclose details of the machine.",
        ("script accel-redirect", "script sendfile"),
        {"field x-accel-redirect": None, "field x-sendfile": None}, topic=RESPONSES,
    ),
    Intended(
        "Reason phrases are those of RFC 9110 unless the script gives one",
        "Programs ignore them. 413 has a new phrase, and `Status: 404` gets the usual phrase.",
        ("script code-413", "script status-404"), {"reason": ("Content Too Large", "Not Found")}, topic=RESPONSES,
    ),
)
