"""The table of intended differences, each with its reason. It ends up in docs/differences.md."""

import re

from .judge import Intended

FILES, REACH, SEEN, PROTOCOL, RESPONSES = (
    "Files", "What reaches a script", "What scripts see", "Messages", "Responses of scripts",
)
DIRECTORIES = (
    "directory*without a slash*", "directory without an index and a slash", "HEAD of a directory*",
    "symbolic link to a directory, without*", "two slashes before a directory", "redirect of a directory*",
    "body on a redirect*",
)

TABLE = (
    Intended(
        "Hidden files are never sent: 404",
        "A segment that begins with a dot is configuration, credentials or version control; the exception is "
        "`/.well-known/` as the first segment. 404 and not 403: it does not tell whether the file exists.",
        ("hidden *", "settings file of PHP", "HEAD of a hidden file"),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "Copies of scripts are never sent: 404",
        "Copies that editors and hands leave (`.php~`, `.php.bak`, `.phps`, `.PHP`, `.php.swp`) and look-alikes hold "
        "the source and often credentials. The peers send them as text.",
        ("copy of a script *", "HEAD of a copy of a script", "range of a copy of a script"),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "A symbolic link does not show the source of a script: 404",
        "The name that a link leads to is judged like that of the request; nobody who can make links gets at credentials "
        "in scripts.",
        ("text that is a symbolic link to a script",),
        {"status": "404", "by": "server"}, alone=True, topic=FILES,
    ),
    Intended(
        "The redirect to a directory names the path only",
        "`Location: /docs/` is right behind every proxy, whatever scheme, host and port the client used (RFC 9110, 10.2.2).",
        DIRECTORIES, {"field location": re.compile(r"/[^/].*/(\?.*)?")}, topic=FILES,
    ),
    Intended(
        "`Accept-Ranges: bytes` also in answers to range requests, 416 among them",
        "It tells that other ranges can be asked for (RFC 9110, 14.3).",
        ("range *", "unsatisfiable range *"), {"field accept-ranges": "bytes"}, topic=FILES,
    ),
    Intended(
        "304 has the entity tag, but neither `Last-Modified` nor `Accept-Ranges`",
        "The client has them already; with a tag RFC 9110, 15.4.5 wants them left out.",
        ("modified since*", "none match *", "HEAD, not modified *", "range and not modified *", "unsatisfiable range and *"),
        {"field last-modified": None, "field accept-ranges": None}, given={"status": "304", "field etag": "strong"}, topic=FILES,
    ),
    Intended(
        "A range whose end is too large for a number goes to the end of the file",
        "An end beyond the file is legal (RFC 9110, 14.1.2), however many digits it has.",
        ("range overflow", "range overflow of a suffix"),
        {"status": "206", "field content-range": "bytes 0-999/1000", "body": re.compile("1000 bytes, md5 d05d835a880e.*", re.DOTALL)},
        alone=True, topic=FILES,
    ),
    Intended(
        "`Range` means nothing with HEAD",
        "It is defined for GET only (RFC 9110, 14.2).",
        ("range with HEAD",), {"status": "200", "field content-length": "1000", "field content-range": None}, alone=True, topic=FILES,
    ),
    Intended(
        "No range of an empty file can be satisfied: 416",
        "RFC 9110, 14.1.2: the first position must be less than the length.",
        ("range of an empty file",), {"status": "416", "field content-range": "bytes */0"}, alone=True, topic=FILES,
    ),
    Intended(
        "A few media types are those of NGINX Unit or of later registrations",
        "`.rpm` and `.exe` as downloads, `.map` as the JSON that it is, `.inc` as text.",
        ("type of package.rpm", "type of source.map", "type of library.inc"),
        {"field content-type": ("application/octet-stream", "application/json", "text/plain")}, topic=FILES,
    ),
    Intended(
        "A precompressed copy (`.br`, `.zst`, `.gz`) is sent where it is accepted",
        "The peers can do it too, but not as installed.",
        ("file with a precompressed copy that is accepted",),
        {"field content-encoding": "gzip", "field vary": "Accept-Encoding"}, topic=FILES,
    ),

    Intended(
        "What no file answers goes to the front controller, where there is one",
        "As with `fallback` in NGINX Unit: a method that files do not have, a directory without an index, the name of a "
        "script that does not exist. The application then gives its own page or status.",
        ("* on a file", "body to a file", "body of 9 MB to a file", "chunked to a file", "POST to a directory without a slash",
         "directory without an index, with front controller", "picture with a script behind it, with front controller",
         "missing script*, with front controller"),
        {"status": "200", "by": "script", "script": "index.php"}, alone=True, topic=REACH,
    ),
    Intended(
        "TRACE is not echoed but handed to the script",
        "An echo shows credentials to whoever can make a browser send the request; a script may want the method.",
        ("TRACE on a script", "TRACE on a pretty path"),
        {"status": "200", "by": "script", "server.REQUEST_METHOD": "TRACE"}, alone=True, topic=REACH,
    ),
    Intended(
        "A method in small letters is another method, and the script's business",
        "Methods are case-sensitive tokens (RFC 9110, 9.1). Apache does the same; its other variables differ.",
        ("get on a script", "get on a pretty path"),
        {"status": "200", "by": "script", "server.REQUEST_METHOD": "get"}, alone=True, topic=REACH,
    ),
    Intended(
        "405 names the methods that there are",
        "RFC 9110, 15.5.6 demands `Allow`; on files GET and HEAD exist, and nothing else.",
        ("* on a directory",), {"status": "405", "field allow": "GET, HEAD"}, alone=True, topic=REACH,
    ),

    Intended(
        "`PATH_INFO` is absent where there is none",
        "As the CGI specification and Apache have it; nginx sends it empty with Debian's files.",
        ("*",), {"server.PATH_INFO": None}, instead={"server.PATH_INFO": ""}, topic=SEEN,
    ),
    Intended(
        "`REMOTE_USER` is absent",
        "nginx puts the name from any `Authorization: Basic` there, checked by nobody. The name is in `PHP_AUTH_USER`.",
        ("*",), {"server.REMOTE_USER": None}, topic=SEEN,
    ),
    Intended(
        "`PATH_TRANSLATED` is set together with `PATH_INFO`",
        "As the CGI specification and Apache have it.",
        ("*",), {"server.PATH_TRANSLATED": re.compile("/srv/(front|plain)/.*", re.DOTALL)}, instead={"server.PATH_TRANSLATED": None}, topic=SEEN,
    ),
    Intended(
        "`REQUEST_ID` is set",
        "It is nginx's `$request_id`, which Debian's files do not pass on, and the log has it.",
        ("*",), {"server.REQUEST_ID": "<request id>"}, instead={"server.REQUEST_ID": None}, topic=SEEN,
    ),
    Intended(
        "`DOCUMENT_URI` is the decoded path with `PATH_INFO`",
        "So nginx has it too, unless `try_files` changes it as in Debian's snippet.",
        ("path info*", "variables of the front controller with its name in the path"),
        {"server.DOCUMENT_URI": re.compile(r"/(probe|index|app/tool)\.php/.*", re.DOTALL)},
        instead={"server.DOCUMENT_URI": re.compile(r"/(probe|index|app/tool)\.php")}, topic=SEEN,
    ),
    Intended(
        "`PATH_INFO` keeps a line feed",
        "It is exactly what the path holds. nginx's pattern ends at the line feed, which once was a hole in PHP-FPM (CVE-2019-11043).",
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
        "Without configuration there is no other name. Without a host it is the server's address. nginx gives the first configured name.",
        ("*",), {"server.SERVER_NAME": ("127.0.0.1", "other.example", "[::1]", "under_score.test")},
        instead={"server.SERVER_NAME": "site.test"}, topic=SEEN,
    ),
    Intended(
        "Without `Host` there is no `HTTP_HOST`",
        "As Apache has it; nginx sends it empty.",
        ("HTTP/1.0 without a host",), {"server.HTTP_HOST": None}, instead={"server.HTTP_HOST": ""}, topic=SEEN,
    ),
    Intended(
        "`HTTP_HOST` is the host of an absolute target",
        "RFC 9112, 3.2.2: the target counts, not the field; otherwise a script builds links to a host that the request was not for.",
        ("absolute form with another host field", "absolute form over HTTP/1.0 without a host"),
        {"server.HTTP_HOST": "site.test:PORT"}, topic=SEEN,
    ),
    Intended(
        "Fields of one name are joined with `, `, cookies with `; `",
        "RFC 9110, 5.3 and RFC 6265, 5.4. nginx 1.22 passes the last one only, Apache joins cookies with a comma.",
        ("field twice", "cookie field twice"),
        {"server.HTTP_X_TWICE": ("one, two", None), "server.HTTP_COOKIE": ("a=1; b=2", None), "cookie.a": ("1", None)}, topic=SEEN,
    ),
    Intended(
        "Tabs around a field's value do not belong to it",
        "RFC 9110, 5.5. nginx keeps them.",
        ("field with tabs around its value",), {"server.HTTP_X_TABS": "a"}, topic=SEEN,
    ),
    Intended(
        "There are `apache_response_headers()` and `headers_send()`",
        "Scripts use them where they exist.",
        ("functions",), {"apache_response_headers": "true", "headers_send": "true"}, topic=SEEN,
    ),
    Intended(
        "`getenv('PATH_INFO')` is absent where there is none", "As in `$_SERVER`.",
        ("environment",), {"pathinfo": "false"}, instead={"pathinfo": ""}, topic=SEEN,
    ),

    Intended(
        "An empty `Host` is taken",
        "RFC 9112, 3.2 allows it, and so does NGINX Unit.",
        ("host empty",), {}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "Versions other than HTTP/1.0 and HTTP/1.1 are refused with 505",
        "There is no HTTP/1.2 to 1.9 and there never will be.",
        ("HTTP/1.9",), {"refused": "yes"}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "HTTP/0.9 is refused",
        "No client speaks it; answers without a head serve to confuse caches.",
        ("HTTP/0.9", "no version"), {"refused": "yes", "end": "closed"}, alone=True, topic=PROTOCOL,
    ),
    Intended(
        "Chunked coding is read strictly",
        "What RFC 9112, 7.1 does not allow is read differently by different servers, and so smuggles requests: white space "
        "after a size, sizes of more digits than a size has, malformed trailers.",
        ("chunk size with a space after", "chunk size of many digits", "trailer that is malformed"),
        {"refused": "yes", "end": "closed"}, alone=True, topic=PROTOCOL,
    ),

    Intended(
        "A malformed field of a script is dropped, and the rest sent",
        "The log tells. The peers answer 502 or 500 to a page that is fine otherwise, or pass control bytes on.",
        ("script name-with-space", "script name-empty"), {"status": "200", "by": "script", "body": "odd name"}, alone=True, topic=RESPONSES,
    ),
    Intended(
        "A field of a script with control bytes is dropped", "As above.",
        ("script value-control",), {"field x-control": None}, topic=RESPONSES,
    ),
    Intended(
        "`X-Accel-…` and `X-Sendfile…` reach no client",
        "The document says whose answers may name a path or a file (`internal_redirect`, `sendfile`). Without that "
        "the fields mean nothing, and would only tell clients about the machine.",
        ("script accel-redirect", "script sendfile"),
        {"field x-accel-redirect": None, "field x-sendfile": None}, topic=RESPONSES,
    ),
    Intended(
        "Reason phrases are those of RFC 9110 unless the script gives one",
        "They mean nothing to programs; 413 has a new name, and `Status: 404` gets its usual one.",
        ("script code-413", "script status-404"), {"reason": ("Content Too Large", "Not Found")}, topic=RESPONSES,
    ),
)
