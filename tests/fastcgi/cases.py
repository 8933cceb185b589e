"""The requests that PHP-FPM and Howdah answer alike. `$` stands for the directory of the site."""

import re

from records import AUTHORIZER, request

FILES = {
    "server.php": "<?php $v = $_SERVER; unset($v['REQUEST_TIME'], $v['REQUEST_TIME_FLOAT'], $v['USER'], $v['HOME'], $v['PATH'], "
                  "$v['PWD'], $v['SHLVL'], $v['_'], $v['OLDPWD']); ksort($v); foreach ($v as $n => $x) if (getenv($n) !== false || "
                  "in_array($n, ['PHP_SELF', 'PHP_AUTH_USER', 'PHP_AUTH_PW', 'PHP_AUTH_DIGEST', 'argv', 'argc'])) "
                  "echo $n, '=', json_encode($x), \"\\n\";",
    "env.php": "<?php foreach (['SCRIPT_FILENAME', 'PATH_INFO', 'HTTP_X_A', 'FCGI_ROLE', 'EMPTY'] as $n) var_dump(getenv($n)); "
               "var_dump($_GET, $_POST, $_COOKIE, php_sapi_name(), getcwd());",
    "body.php": "<?php echo strlen(file_get_contents('php://input')), ' ', md5(file_get_contents('php://input')), ' ', "
                "json_encode($_POST), ' ', json_encode(array_map(fn ($f) => [$f['name'], $f['size'], $f['error']], $_FILES));",
    "headers.php": "<?php header('Content-Length: 3'); header('X-A: 1'); header('X-A: 2', false); header('Date: x'); "
                   "header('Connection: close'); header('Server: own'); setcookie('a', 'b'); echo 'abc';",
    "status.php": "<?php http_response_code((int)$_GET['s']); header('Content-Type: text/plain'); echo 'body';",
    "line.php": "<?php header('HTTP/1.1 404 Gone fishing'); echo 'x';",
    "field.php": "<?php header('Status: 418 Teapot'); echo 'x';",
    "location.php": "<?php header('Location: /elsewhere'); echo 'x';",
    "accel.php": "<?php header('X-Accel-Redirect: /secret'); header('X-Sendfile: /etc/passwd'); echo 'x';",
    "log.php": "<?php error_log('one'); error_log('two'); echo 'x';",
    "warning.php": "<?php ini_set('display_errors', '0'); echo $undefined; echo 'x';",
    "fatal.php": "<?php ini_set('display_errors', '0'); echo 'before'; nothing();",
    "throw.php": "<?php ini_set('display_errors', '0'); throw new Exception('thrown');",
    "ini.php": "<?php foreach (['memory_limit', 'precision', 'mail.force_extra_parameters', 'open_basedir', 'display_errors', 'default_mimetype', "
               "'nothing'] as $n) echo $n, '=', json_encode(ini_get($n)), ' ', json_encode(@ini_set($n, '7')), \"\\n\";",
    "system.php": "<?php foreach (['allow_url_fopen', 'max_file_uploads', 'enable_dl', 'post_max_size', 'realpath_cache_ttl', 'variables_order'] "
                  "as $n) echo $n, '=', json_encode(ini_get($n)), ' ', json_encode(@ini_set($n, '7')), \"\\n\"; echo isset($_SERVER['REQUEST_URI']) ? 'G' : '-';",
    "finish.php": "<?php echo 'sent'; var_dump(fastcgi_finish_request()); echo 'unsent';",
    "auth.php": "<?php echo json_encode([$_SERVER['PHP_AUTH_USER'] ?? null, $_SERVER['PHP_AUTH_PW'] ?? null, "
                "$_SERVER['PHP_AUTH_DIGEST'] ?? null, $_SERVER['REMOTE_USER'] ?? null, $_SERVER['AUTH_TYPE'] ?? null]);",
    "getallheaders.php": "<?php $h = getallheaders(); ksort($h); echo json_encode($h);",
    "flush.php": "<?php for ($i = 0; $i < 5; $i++) { echo str_repeat($i, 1000); flush(); }",
    "big.php": "<?php for ($i = 0; $i < 40; $i++) echo str_repeat(chr(65 + $i % 26), 50000);",
    "empty.php": "",
    "exit.php": "<?php exit(7);",
    "notmodified.php": "<?php http_response_code(304); header('ETag: \"a\"');",
    "nocontent.php": "<?php http_response_code(204);",
    "self.php": "<?php echo json_encode([$_SERVER['PHP_SELF'], $_SERVER['SCRIPT_NAME'] ?? null, $_SERVER['PATH_INFO'] ?? null, "
                "$_SERVER['SCRIPT_FILENAME'], __FILE__], JSON_UNESCAPED_SLASHES);",
    "sub/self.php": "<?php echo json_encode([$_SERVER['PHP_SELF'], getcwd(), __FILE__], JSON_UNESCAPED_SLASHES);",
    "sub/index.html": "no script",
    "picture.jpg": "<?php echo 'never';",
    "a b.php": "<?php echo 'blank';",
    "per%25cent.php": "<?php echo 'percent';",
    "unreadable.php": "<?php echo 'never';",
    "ini/.user.ini": "precision = 3\nmemory_limit = 77M\n",
    "ini/user.php": "<?php echo ini_get('precision'), ' ', ini_get('memory_limit');",
}


def usual(path, **more):
    """The parameters of nginx's fastcgi_params for a script, with changes; None leaves one out."""
    name, _, query = path.partition("?")
    script = re.sub(r"(\.php)/.*", r"\1", name)
    parameters = {
        "SCRIPT_FILENAME": "$" + script, "QUERY_STRING": query, "REQUEST_METHOD": "GET", "CONTENT_TYPE": "", "CONTENT_LENGTH": "",
        "SCRIPT_NAME": script, "REQUEST_URI": path, "DOCUMENT_URI": name, "DOCUMENT_ROOT": "$", "SERVER_PROTOCOL": "HTTP/1.1",
        "REQUEST_SCHEME": "http", "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_SOFTWARE": "nginx/1.22.1", "REMOTE_ADDR": "192.0.2.7",
        "REMOTE_PORT": "4711", "SERVER_ADDR": "192.0.2.1", "SERVER_PORT": "80", "SERVER_NAME": "site.test",
        "REDIRECT_STATUS": "200", "HTTP_HOST": "site.test",
    }
    parameters.update(more)
    return {key: value for key, value in parameters.items() if value is not None}


def post(path, body, kind="application/x-www-form-urlencoded", **more):
    """Parameters and body of a POST."""
    length = {"CONTENT_LENGTH": str(len(body))}
    return usual(path, REQUEST_METHOD="POST", CONTENT_TYPE=kind, **{**length, **more}), body


def apache(path, file, **more):
    """The parameters of Apache's mod_proxy_fcgi, whose file is a URL."""
    return usual(path, SCRIPT_FILENAME=file, SCRIPT_NAME=path.partition("?")[0], SERVER_SOFTWARE="Apache/2.4.62 (Debian)",
                 DOCUMENT_URI=None, **more)


UPLOAD = (b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n" + b"u" * 300_000
          + b"\r\n--x\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\nvalue\r\n--x--\r\n")

SYSTEM_SETTINGS = "allow_url_fopen=0\nmax_file_uploads=3\nenable_dl=1\npost_max_size=1M\nrealpath_cache_ttl=7\nhtml_errors=0\nvariables_order=G"

# Name, parameters, and the body if there is one.
CASES = {
    "parameters of nginx": (usual("/server.php?a=1&b=2"),),
    "parameters of any name": (usual("/server.php", HTTP_X_A="1", REDIRECT_X="y", weird_Name="z", EMPTY="", HTTPS="on"),),
    "a parameter twice": ([*usual("/server.php").items(), ("HTTP_X_A", "first"), ("HTTP_X_A", "last")],),
    "a long parameter": (usual("/server.php", HTTP_COOKIE="c=" + "x" * 100_000),),
    "many parameters": (usual("/server.php", **{f"HTTP_X_{number}": str(number) for number in range(1000)}),),
    "environment": (usual("/env.php?q[]=1&q[]=2", HTTP_X_A="b", HTTP_COOKIE="k=v", EMPTY=""),),
    "sent as parameter": (usual("/env.php", FCGI_ROLE="OWN"),),
    "path info by the server": (usual("/self.php/x/y", PATH_INFO="/x/y"),),
    "path info, path translated": (usual("/self.php/x/y", PATH_INFO="/x/y", PATH_TRANSLATED="$/x/y"),),
    "path info by PHP": (usual("/self.php/x/y", SCRIPT_FILENAME="$/self.php/x/y", SCRIPT_NAME="/self.php/x/y"),),
    "path info by PHP, all": (usual("/server.php/x/y", SCRIPT_FILENAME="$/server.php/x/y", SCRIPT_NAME="/server.php/x/y",
                                    PATH_INFO="/server.php/x/y", PATH_TRANSLATED="$/server.php/x/y"),),
    "path info by PHP, without root": (usual("/server.php/x", SCRIPT_FILENAME="$/server.php/x", SCRIPT_NAME="/server.php/x",
                                             PATH_INFO="/server.php/x", DOCUMENT_ROOT=None),),
    "path info with a line feed": (usual("/server.php/x", SCRIPT_FILENAME="$/server.php/x\ny", PATH_INFO=""),),
    "path info, same as the name": (usual("/server.php/x", SCRIPT_FILENAME="$/server.php/x", SCRIPT_NAME="/server.php",
                                          PATH_INFO="/server.php/x"),),
    "path info of a picture": (usual("/picture.jpg/x.php", SCRIPT_FILENAME="$/picture.jpg/x.php", SCRIPT_NAME="/picture.jpg/x.php"),),
    "a slash at the end": (usual("/server.php/", SCRIPT_FILENAME="$/server.php/", SCRIPT_NAME="/server.php/"),),
    "only path translated": (usual("/server.php", SCRIPT_FILENAME=None, PATH_TRANSLATED="$/server.php"),),
    "neither file": (usual("/server.php", SCRIPT_FILENAME=None),),
    "redirect url": (usual("/server.php", SCRIPT_FILENAME="/usr/bin/php-cgi", SCRIPT_NAME="/cgi", PATH_TRANSLATED="$/server.php",
                           PATH_INFO="/server.php", REDIRECT_URL="/server.php"),),
    "redirect url, same file": (usual("/server.php", PATH_TRANSLATED="$/server.php", REDIRECT_URL="/other"),),
    "redirect variables": (usual("/server.php", REDIRECT_URL="/pretty", REDIRECT_REDIRECT_STATUS="200", REDIRECT_ENV="x"),),
    "no document root": (usual("/server.php", DOCUMENT_ROOT=None),),
    "no script name": (usual("/server.php", SCRIPT_NAME=None),),
    "IIS": (usual("/server.php/x", SERVER_SOFTWARE="Microsoft-IIS/10.0", PATH_INFO="/server.php/x"),),
    "Apache, ProxyPassMatch": (apache("/server.php", "proxy:fcgi://localhost:9000$/server.php"),),
    "Apache, path info": (apache("/server.php/x/y", "proxy:fcgi://localhost:9000$/server.php/x/y"),),
    "Apache, path info and its own": (apache("/server.php/x/y", "proxy:fcgi://localhost:9000$/server.php/x/y", PATH_INFO="/x/y"),),
    "Apache, path info and another": (apache("/server.php/x/y", "proxy:fcgi://localhost:9000$/server.php/x/y", PATH_INFO="/z"),),
    "Apache, balancer and query": (apache("/server.php?a=b", "proxy:balancer://cluster$/server.php?a=b"),),
    "Apache, capitals": (apache("/server.php", "PROXY:FCGI://localhost$/server.php"),),
    "Apache, no path": (apache("/server.php", "proxy:fcgi://localhost"),),
    "Apache, redirect": (apache("/server.php/x", "proxy:fcgi://localhost$/server.php/x", REDIRECT_URL="/x", PATH_TRANSLATED="$/x"),),
    "Apache, blank": (apache("/a b.php", "proxy:fcgi://localhost$/a b.php"),),
    "in a directory": (usual("/sub/self.php"),),
    "a directory": (usual("/sub", SCRIPT_FILENAME="$/sub"),),
    "a directory with a slash": (usual("/sub/", SCRIPT_FILENAME="$/sub/"),),
    "no such script": (usual("/no.php"),),
    "no such script with path info": (usual("/no.php/x", SCRIPT_FILENAME="$/no.php/x", PATH_INFO="/no.php/x"),),
    "a relative file": (usual("/server.php", SCRIPT_FILENAME="server.php"),),
    "an empty file name": (usual("/server.php", SCRIPT_FILENAME=""),),
    "dots in the path": (usual("/sub/../server.php", SCRIPT_FILENAME="$/sub/../server.php"),),
    "dots in a name": (usual("/a..php", SCRIPT_FILENAME="$/a..php"),),
    "a picture": (usual("/picture.jpg", SCRIPT_FILENAME="$/picture.jpg"),),
    "a name in capitals": (usual("/SERVER.PHP", SCRIPT_FILENAME="$/SERVER.PHP"),),
    "an unreadable script": (usual("/unreadable.php"),),
    "a link": (usual("/link.php"),),
    "no method": (usual("/server.php", REQUEST_METHOD=None),),
    "HEAD": (usual("/headers.php", REQUEST_METHOD="HEAD"),),
    "an unknown method": (usual("/server.php", REQUEST_METHOD="BREW"),),
    "a form": post("/body.php", b"a=1&b[]=2"),
    "a raw body": post("/body.php", b"\0\xff" * 40_000, "application/octet-stream"),
    "an upload": post("/body.php", UPLOAD, "multipart/form-data; boundary=x"),
    "a body longer than announced": post("/body.php", b"a=1&b=2", CONTENT_LENGTH="3"),
    "a body shorter than announced": post("/body.php", b"a=1", CONTENT_LENGTH="9"),
    "a length that is none": post("/body.php", b"a=1", CONTENT_LENGTH="x"),
    "a length of zero": post("/body.php", b"a=1", CONTENT_LENGTH="0"),
    "an empty body": post("/body.php", b""),
    "a body without a type": post("/body.php", b"a=1", ""),
    "fields of the script": (usual("/headers.php"),),
    **{f"status {status}": (usual(f"/status.php?s={status}"),) for status in (200, 201, 299, 301, 403, 404, 418, 500, 503, 599)},
    "a status line": (usual("/line.php"),),
    "a status field": (usual("/field.php"),),
    "a redirect": (usual("/location.php"),),
    "a redirect after a form": post("/location.php", b"a=1"),
    "not modified": (usual("/notmodified.php"),),
    "no content": (usual("/nocontent.php"),),
    "internal redirects of nginx": (usual("/accel.php"),),
    "messages": (usual("/log.php"),),
    "a warning": (usual("/warning.php"),),
    "an error": (usual("/fatal.php"),),
    "an exception": (usual("/throw.php"),),
    "settings": (usual("/ini.php"),),
    "PHP_VALUE": (usual("/ini.php", PHP_VALUE="memory_limit=64M\nprecision = 5\ndefault_mimetype=\"text/plain\""),),
    "PHP_VALUE, switches": (usual("/ini.php", PHP_VALUE="display_errors=Off\nprecision=E_ALL"),),
    "PHP_VALUE, broken": (usual("/ini.php", PHP_VALUE="[section]\n=\nprecision"),),
    "PHP_ADMIN_VALUE": (usual("/ini.php", PHP_ADMIN_VALUE="mail.force_extra_parameters=-fx\nopen_basedir=$:/tmp\nprecision=4"),),
    "PHP_VALUE and PHP_ADMIN_VALUE": (usual("/ini.php", PHP_VALUE="precision=5", PHP_ADMIN_VALUE="precision=6"),),
    "PHP_VALUE, settings of the system": (usual("/system.php", PHP_VALUE=SYSTEM_SETTINGS),),
    "PHP_ADMIN_VALUE, settings of the system": (usual("/system.php", PHP_ADMIN_VALUE=SYSTEM_SETTINGS),),
    "no settings of the system": (usual("/system.php"),),
    "PHP_VALUE, open_basedir": (usual("/ini.php", PHP_VALUE="open_basedir=$:/tmp"),),
    "PHP_VALUE, settings that do not exist": (usual("/ini.php", PHP_VALUE="no_such=1\nprecision=7", PHP_ADMIN_VALUE="nor_such=1"),),
    "a .user.ini": (usual("/ini/user.php"),),
    "a .user.ini and PHP_VALUE": (usual("/ini/user.php", PHP_VALUE="precision=9\nmemory_limit=99M"),),
    "a .user.ini and PHP_ADMIN_VALUE": (usual("/ini/user.php", PHP_ADMIN_VALUE="precision=9\nmemory_limit=99M"),),
    "fastcgi_finish_request": (usual("/finish.php"),),
    "credentials": (usual("/auth.php", HTTP_AUTHORIZATION="Basic dTpw"),),
    "a digest": (usual("/auth.php", HTTP_AUTHORIZATION="Digest username=u"),),
    "a user of the server": (usual("/auth.php", REMOTE_USER="u", AUTH_TYPE="Basic"),),
    "getallheaders": (usual("/getallheaders.php", HTTP_X_SOME_THING="1", HTTP_AUTHORIZATION="Bearer x", CONTENT_TYPE="a/b"),),
    "flushes": (usual("/flush.php"),),
    "a big response": (usual("/big.php"),),
    "an empty script": (usual("/empty.php"),),
    "an exit status": (usual("/exit.php"),),
}


def encoded(case, root):
    """The bytes of a case, with the directory of the site."""
    parameters, *body = case
    given = parameters.items() if isinstance(parameters, dict) else parameters
    given = [(name, value.replace("$", str(root))) for name, value in given]
    return request(given, *body)


def authorizer(root):
    """A request with another role."""
    return request([(name, value.replace("$", str(root))) for name, value in usual("/env.php").items()], role=AUTHORIZER)
