"""Listeners and `howdah fpm` behind the real nginx, Apache and HAProxy, with and without kept connections."""

import fnmatch
import hashlib
import http.client
import json
import socket

from peers import apache, fpm, haproxy, nginx
from peers.ports import free_port

FILES = {
    "front/page.php": "<?php header('X-A: 1'); echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PATH_INFO'] ?? '-', ' ', "
                      "$_SERVER['REQUEST_METHOD'], ' ', $_SERVER['QUERY_STRING'];",
    "front/upload.php": "<?php echo md5_file($_FILES['f']['tmp_name'] ?? 'php://input');",
    "front/download.php": "<?php for ($i = 0; $i < 480; $i++) echo str_repeat('d', 65536);",
    "front/cached.php": "<?php header('ETag: \"a\"'); if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '\"a\"') "
                        "http_response_code(304); else echo 'whole';",
    "front/long.php": "<?php for ($i = 0; $i < 100000; $i++) echo str_repeat('l', 65536);",
}
APACHE_MODULES = ["mpm_prefork", "authz_core", "dir", "mime", "proxy", "proxy_fcgi"]


def nginx_text(work, site, servers):
    """A server of nginx for each port; `servers` are ports, backends and whether connections are kept."""
    blocks = []
    for number, (port, backend, keeps) in enumerate(servers):
        kept = "keepalive 4;" if keeps else ""
        blocks.append(f"""
upstream php{number} {{ server {backend}; {kept} }}
server {{
    listen 127.0.0.1:{port};
    root {site};
    client_max_body_size 100m;
    location ~ ^(.+\\.php)(/.*)?$ {{
        fastcgi_split_path_info ^(.+\\.php)(/.*)$;
        include /etc/nginx/fastcgi_params;
        fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
        fastcgi_param PATH_INFO $fastcgi_path_info;
        fastcgi_keep_conn {"on" if keeps else "off"};
        fastcgi_pass php{number};
    }}
}}""")
    return nginx.configuration(work, "access_log off;\n" + "".join(blocks))


def apache_text(work, site, servers):
    """A virtual host of Apache for each port."""
    blocks = []
    for port, backend, keeps in servers:
        url = f"proxy:{backend}|fcgi://localhost" if backend.startswith("unix:") else f"proxy:fcgi://{backend}"
        worker = url.removeprefix("proxy:")
        reuse = f'<Proxy "{worker}">\nProxySet enablereuse=on\n</Proxy>' if keeps else ""
        blocks.append(f"""
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
    DocumentRoot {site}
    <Directory {site}>
        Require all granted
    </Directory>
    {reuse}
    <FilesMatch "\\.php$">
        SetHandler "{url}"
    </FilesMatch>
</VirtualHost>""")
    return apache.configuration(work, APACHE_MODULES, "KeepAliveTimeout 60\n" + "".join(blocks))


def haproxy_text(site, servers):
    """A frontend of HAProxy for each port."""
    blocks = []
    for number, (port, backend, keeps) in enumerate(servers):
        address = backend.replace("unix:", "unix@", 1)
        blocks.append(f"""
fcgi-app php{number}
    docroot {site}
    path-info ^(/.+\\.php)(/.*)?$
    {"" if keeps else "no "}option keep-conn
frontend from{number}
    bind 127.0.0.1:{port}
    default_backend to{number}
backend to{number}
    use-fcgi-app php{number}
    server howdah {address} proto fcgi
""")
    return "".join(blocks)


def ask(connection, method, path, body=None, fields=None):
    """A response: status, fields and body."""
    connection.request(method, path, body, fields or {})
    response = connection.getresponse()
    return response.status, response, response.read()


def problems(port):
    """What is wrong with the answers of a web server."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    wrong = []

    def expect(what, found, wanted):
        if found != wanted:
            wrong.append(f"{what}: {str(found)[:200]} instead of {str(wanted)[:200]}")

    for _ in range(3):
        status, response, body = ask(connection, "GET", "/front/page.php/x/y?a=1")
        expect("page", (status, response.getheader("X-A"), body), (200, "1", b"/front/page.php /x/y GET a=1"))
    status, response, body = ask(connection, "HEAD", "/front/page.php")
    expect("HEAD", (status, response.getheader("X-A"), body), (200, "1", b""))
    upload = bytes(range(256)) * (20 << 12)
    expect("upload", ask(connection, "POST", "/front/upload.php", upload)[::2], (200, hashlib.md5(upload).hexdigest().encode()))
    status, _, body = ask(connection, "GET", "/front/download.php")
    expect("download", (status, len(body), body.count(b"d")), (200, 480 << 16, 480 << 16))
    expect("not modified", ask(connection, "GET", "/front/cached.php", None, {"If-None-Match": '"a"'})[::2], (304, b""))
    expect("modified", ask(connection, "GET", "/front/cached.php")[::2], (200, b"whole"))
    expect("no script", ask(connection, "GET", "/front/none.php")[0], 404)
    for _ in range(4):
        # More than there are processes: each must end with its client.
        early = socket.create_connection(("127.0.0.1", port), timeout=60)
        early.sendall(b"GET /front/long.php HTTP/1.1\r\nHost: a\r\n\r\n")
        early.recv(1000)
        early.close()
    expect("after clients that have gone", ask(connection, "GET", "/front/page.php")[0], 200)
    connection.close()
    return wrong


def run(options, programs, work, site, howdah):
    """Returns the number of web servers that were tried and of those with failures."""
    for name, text in FILES.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(text)
    socket_path, port = howdah
    of_fpm = work / "howdah-fpm.sock"
    backends = {"unix socket": f"unix:{socket_path}", "TCP": f"127.0.0.1:{port}", "howdah fpm": f"unix:{of_fpm}"}
    names, servers = [], {"nginx": [], "Apache": [], "HAProxy": []}
    for server, of_server in servers.items():
        for transport, backend in backends.items():
            for keeps in (False, True):
                of_server.append((free_port(), backend, keeps))
                names.append((f"{server}, {transport}{', kept connections' if keeps else ''}", of_server[-1][0]))
    names = [(name, at) for name, at in names
             if not options.names or any(fnmatch.fnmatchcase(name, pattern) for pattern in options.names)]
    if not names:
        return 0, 0
    pool = fpm.pool(of_fpm, "pm = static\npm.max_children = 2")
    command = fpm.command(work, pool, name="howdah-fpm", binary=options.howdah)
    programs.start("howdah-fpm", [command[0], "fpm", *command[1:]], cwd=work)
    programs.wait_for("the socket of howdah fpm", of_fpm.exists)
    programs.start("nginx", nginx.command(work, nginx_text(work, site, servers["nginx"])))
    programs.start("haproxy", haproxy.command(work, haproxy_text(site, servers["HAProxy"])))
    programs.start("apache", apache.command(work, apache_text(work, site, servers["Apache"])))
    programs.wait_for_ports([of_server[0] for all_of in servers.values() for of_server in all_of])
    failed = 0
    for name, at in names:
        try:
            wrong = problems(at)
        except (OSError, http.client.HTTPException) as problem:
            wrong = [repr(problem)]
        failed += bool(wrong)
        if wrong:
            print(f"FAIL {name}: {json.dumps(wrong)}", flush=True)
    return len(names), failed
