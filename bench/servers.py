"""Howdah and its peers, each started with the same work to do and tuned as its own manual advises.

Equal for all: one thread or process for connections per processor, the same number of PHP processes
from the start on, the same php.ini, no access log, kept connections without a limit of requests.
Apache's prefork and FPM behind kept connections bind each connection to a process: where the load is
not an overload, they get as many processes as there are connections.
"""

import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import frameworks
import machine
from processes import Process, Unusable, accepts, free_port
from server import Place, Server  # noqa: F401 - Place is for callers that start servers

from peers import apache, fpm, nginx

# Idle connections to another server that each thread or process keeps.
KEPT = 64
# TLS sessions that Howdah remembers; nginx keeps as many in its 10 MB.
SESSIONS = 40000


class Howdah(Server):
    """Howdah with a document that has one share and one application."""

    front = "howdah: router"
    packages = machine.HOWDAH
    pool = None
    # Keeps the application in memory where the setup is about that.
    is_resident = True

    def start(self):
        share = {"share": f"{self.place.root}$uri", "index": ["index.php", "index.html"], "scripts": "applications/site"}
        application = {"type": "php", "root": str(self.place.root), "options": {"file": str(self.place.ini)}}
        processes = self.pool or self.place.setup.workers
        if processes != "default":
            application["processes"] = processes
        if self.place.setup.wordpress:
            application["targets"] = {"direct": {"root": application["root"]},
                                      "front": {"root": application.pop("root"), "script": "index.php"}}
            share.update(scripts="applications/site/direct", fallback={"pass": "applications/site/front"})
        if self.place.setup.cached:
            share["cache"] = {"preset": "wordpress"}
        document = {
            "listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}},
            "routes": [{"action": share}],
            "applications": {"site": application},
            "settings": {"listen_threads": machine.processors()},
        }
        if name := self.place.setup.worker:
            application = {"type": "php", "root": str(self.place.root), "script": "index.php", "processes": processes,
                           "environment": frameworks.ENVIRONMENT.get(name, {}), "options": {"file": str(self.place.ini)}}
            if self.is_resident:
                application["worker"] = {**frameworks.WORKERS[name], "requests": 0}
            document["applications"] = {"site": application}
            document["routes"] = [{"action": {"pass": "applications/site"}}]
        if self.place.setup.tls:
            # nginx's defaults: sessions are remembered, and clients get tickets.
            document["listeners"][f"127.0.0.1:{self.port}"]["tls"] = {
                "certificate": {"chain": str(self.place.certificate), "key": str(self.place.key)},
                "session": {"cache_size": SESSIONS, "tickets": True}}
        if behind := self.place.behind:
            document["routes"] = [{"match": {"uri": "*.php"}, "action": {"pass": "applications/site"}},
                                  {"match": {"uri": "/sockets"}, "action": {"proxy": f"http://127.0.0.1:{behind.sockets}"}},
                                  {"action": {"pass": "upstreams/origin"}}]
            document["applications"] = {"site": {"type": "fastcgi", "server": f"unix:{behind.fpm}", "root": str(self.place.root)}}
            document["upstreams"] = {"origin": {"servers": {f"127.0.0.1:{behind.origin}": {}}, "keepalive": KEPT}}
        if kind := self.place.setup.stream:
            address = f"127.0.0.1:{self.port}"
            document["listeners"] = {address: {"protocol": "tcp", "pass": "upstreams/origin"},
                                     f"udp:{address}": {"pass": "upstreams/datagrams"}}
            document["upstreams"] = {"origin": {"servers": {behind.origin_address(kind): {}}},
                                     "datagrams": {"servers": {f"127.0.0.1:{behind.datagrams}": {}}}}
        if self.place.setup.observed:
            document["settings"].update(self.observation())
        self.serve(document)

    def observation(self):
        """Settings where the setup is about those that observe."""
        return {"last_requests": 0}

    @property
    def control(self):
        """Address of the control API."""
        return f"unix:{self.directory}/control"

    def serve(self, document):
        """Starts the program."""
        user = machine.plain_user()
        self.run("howdah", [self.place.programs["howdah"], "serve", "--config",
                            self.write("howdah.json", json.dumps(document, indent=4)),
                            "--control", self.control,
                            *(["--user", user, "--group", user] if user else [])])


class HowdahRules(Howdah):
    """The same, with the rules of `.htaccess` files instead of a fallback."""

    def serve(self, document):
        document["routes"] = [{"action": {"pass": "applications/site"}}]
        application = document["applications"]["site"]
        application.pop("targets", None)
        application.update(root=str(self.place.root), htaccess=True)
        super().serve(document)


class HowdahObserved(Howdah):
    """The same, with metrics that are scraped, last requests, an open page, and traces of 1 % of the requests."""

    def observation(self):
        self.metrics, self.receiver = free_port(), free_port()
        return {"metrics": {"listen": f"127.0.0.1:{self.metrics}"},
                "telemetry": {"endpoint": f"http://127.0.0.1:{self.receiver}/v1/traces", "protocol": "http", "sampling_ratio": 0.01}}

    def start(self):
        super().start()
        server = self.processes[-1]
        server.wait_for(self.ready, f"answer on port {self.port}", self.pause)
        page = self.run("dashboard", [self.place.programs["howdah"], "dashboard", "--listen", "127.0.0.1:0",
                                      "--control", self.control])
        # What observes is no part of the server: its processor time is that of others.
        self.observers = Process("observers", [sys.executable, Path(__file__).parent / "observers.py", self.receiver, self.metrics, page.log],
                                 self.directory / "observers.log")

    def alive(self):
        return super().alive() and self.observers.alive()

    def stop(self):
        super().stop()
        if observers := getattr(self, "observers", None):
            observers.stop()


class HowdahClassic(Howdah):
    """The same, with a new start of the script for each request."""

    is_resident = False


def fpm_pool(listen, children, backlog=None, pool=None, name="site"):
    """The section of a pool of PHP-FPM with so many processes, or with the settings `pool`."""
    kept = f"listen.backlog = {backlog}\n" if backlog else ""
    text = pool or f"pm = static\npm.max_children = {children}"
    return fpm.pool(listen, f"{kept}{text}\npm.max_requests = 0\ncatch_workers_output = no", name)


def start_fpm(server, listen, children, backlog=None, pool=None, howdah=None):
    """PHP-FPM for a server, or the path of Howdah in its place; none of its processes answers HTTP."""
    text = fpm_pool(listen, children, backlog, pool)
    command = fpm.command(server.directory, text, server.place.ini, "error")
    if howdah:
        command[:1] = [howdah, "fpm", "--php", machine.php()]
    process = server.run("php-fpm", command)
    if listen.startswith("/"):
        process.wait_for(Path(listen).exists, "socket")
    else:
        host, port = listen.split(":")
        process.wait_for(lambda: accepts(int(port), host), "listener")


def nginx_configuration(directory, http, more=""):
    """nginx with as many processes and connections as clients may need, and `more` beside the block `http`."""
    return nginx.configuration(directory, http, "crit", machine.processors(), 4096, f"worker_rlimit_nofile 65536;\n{more}")


NGINX_HTTP = """    access_log off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    open_file_cache max=10000 inactive=60s;
    keepalive_requests 1000000000;
    keepalive_timeout 180s;
"""
NGINX_CONFIGURATION = NGINX_HTTP + """    {store}
    upstream php {{
        server {upstream};
        {keep}
    }}
    {origin}
    server {{
        listen 127.0.0.1:{port} {spoken}backlog=4096;
        server_name 127.0.0.1;
        {tls}
        root {root};
        index index.php index.html;
        {fallback}
        {passed}
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            fastcgi_pass php;
            # Enough for phpinfo(), so that no answer goes through a file.
            fastcgi_buffers 64 8k;
            fastcgi_read_timeout 120s;
            {kept}
            {cached}
        }}
    }}
"""


NGINX_STREAM = """load_module /usr/lib/nginx/modules/ngx_stream_module.so;
stream {{
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        proxy_pass {origin};
    }}
    server {{
        listen 127.0.0.1:{port} udp reuseport;
        proxy_pass 127.0.0.1:{datagrams};
    }}
}}"""
NGINX_TLS = """ssl_certificate {certificate};
        ssl_certificate_key {key};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_ecdh_curve X25519:prime256v1;
        ssl_session_cache shared:tls:10m;"""
NGINX_ORIGIN = """upstream origin {{
        server 127.0.0.1:{port};
        keepalive {kept};
        keepalive_requests 1000000000;
    }}"""
NGINX_PASSED = """location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
        location = /sockets {{
            proxy_pass http://127.0.0.1:{sockets};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection "Upgrade";
        }}"""


NGINX_STORE = "fastcgi_cache_path {directory}/pages levels=1:2 keys_zone=pages:10m max_size=256m use_temp_path=off;"
NGINX_CACHED = """fastcgi_cache pages;
            fastcgi_cache_key $scheme$request_method$host$request_uri;
            fastcgi_cache_valid 200 10m;
            fastcgi_cache_lock on;
            fastcgi_cache_use_stale error timeout updating;
            fastcgi_cache_background_update on;"""


class Nginx(Server):
    """nginx in front of PHP-FPM."""

    front = "nginx: worker"
    packages = ("nginx", "libnginx-mod-stream", "phpX.Y-fpm", "phpX.Y-opcache")
    socket = "unix"
    keep = False
    # The program in the place of PHP-FPM, if there is one.
    fpm = None
    backlog = None
    pool = None
    # Whether it stores pages where the setup is about that.
    caches = True

    def start(self):
        behind = self.place.behind
        stores = self.caches and self.place.setup.cached
        if behind:
            upstream = f"unix:{behind.fpm}"
        elif self.socket == "unix":
            listen = f"{self.directory}/fpm.sock"
            upstream = f"unix:{listen}"
        else:
            listen = upstream = f"127.0.0.1:{free_port()}"
        if not behind:
            start_fpm(self, listen, self.children() if self.keep else self.place.setup.workers, self.backlog, self.pool,
                      self.place.programs["howdah"] if self.fpm == "howdah" else None)
        if kind := self.place.setup.stream:
            text = NGINX_STREAM.format(port=self.port, origin=behind.origin_address(kind), datagrams=behind.datagrams)
            return self.serve(nginx_configuration(self.directory, "", text))
        wordpress = self.place.setup.wordpress
        text = NGINX_CONFIGURATION.format(
            port=self.port, root=self.place.root, upstream=upstream, spoken="ssl http2 " if self.place.setup.tls else "",
            tls=NGINX_TLS.format(certificate=self.place.certificate, key=self.place.key) if self.place.setup.tls else "",
            keep=f"keepalive {max(self.place.setup.bound, 1)};" if self.keep else "",
            kept="fastcgi_keep_conn on;" if self.keep else "",
            store=NGINX_STORE.format(directory=self.directory) if stores else "", cached=NGINX_CACHED if stores else "",
            origin=NGINX_ORIGIN.format(port=behind.origin, kept=KEPT) if behind else "",
            passed=NGINX_PASSED.format(sockets=behind.sockets) if behind else "",
            fallback="location / { try_files $uri $uri/ /index.php?$args; }" if wordpress else "")
        self.serve(nginx_configuration(self.directory, text))

    def serve(self, text):
        """Starts the program."""
        self.run("nginx", nginx.command(self.directory, text))


class NginxKept(Nginx):
    """nginx that keeps its connections to PHP-FPM, over TCP."""

    socket, keep = "tcp", True


class NginxTcp(Nginx):
    """nginx that connects to PHP-FPM over TCP for each request."""

    socket = "tcp"


class HowdahFpm(Nginx):
    """nginx in front of `howdah fpm`, with the configuration of PHP-FPM."""

    packages = (*Nginx.packages, *machine.HOWDAH)
    fpm = "howdah"


class HowdahFpmTcp(HowdahFpm):
    """The same, over TCP with a connection for each request."""

    socket = "tcp"


class NginxBacklog(Nginx):
    """nginx and PHP-FPM with the backlog that its sample configuration and old kernels have."""

    backlog = 511


VARNISH_RULES = """vcl 4.1;
backend site {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_backend_response {{
    set beresp.ttl = 10m;
    set beresp.grace = 60s;
}}
"""


class Varnish(Nginx):
    """Varnish in front of nginx and PHP-FPM, with its pages in memory."""

    front = "cache-main"
    packages = ("varnish", *Nginx.packages)
    caches = False

    def serve(self, text):
        port, own = self.port, free_port()
        # Scripts see the port of the clients.
        include = "include /etc/nginx/fastcgi_params;"
        text = text.replace(include, f"{include} fastcgi_param SERVER_PORT {port};")
        super().serve(text.replace(f"127.0.0.1:{port} ", f"127.0.0.1:{own} "))
        rules = self.write("rules.vcl", VARNISH_RULES.format(port=own))
        self.run("varnish", ["/usr/sbin/varnishd", "-F", "-j", "none", "-n", self.directory / "varnish", "-f", rules,
                             "-a", f"127.0.0.1:{port}", "-s", "malloc,256m", "-p", "thread_pool_max=2000",
                             "-p", "listen_depth=4096"])


APACHE_CONFIGURATION = """Listen 127.0.0.1:{port}
ListenBacklog 4096
DirectoryIndex index.php index.html
StartServers {children}
MinSpareServers {children}
MaxSpareServers {children}
ServerLimit {children}
MaxRequestWorkers {children}
MaxConnectionsPerChild 0
KeepAlive {keep}
MaxKeepAliveRequests 0
KeepAliveTimeout 60
EnableSendfile On
PHPIniDir {ini}
<FilesMatch "\\.php$">
    SetHandler application/x-httpd-php
</FilesMatch>
DocumentRoot {root}
<Directory {root}>
    Options FollowSymLinks
    AllowOverride {override}
    Require all granted
    {fallback}
</Directory>
"""


class Apache(Server):
    """Apache prefork with mod_php."""

    packages = ("apache2", "libapache2-mod-phpX.Y", "media-types", "phpX.Y-opcache")
    # Whether `.htaccess` files hold.
    has_rules = False

    def start(self):
        modules = ["mpm_prefork", "authz_core", "dir", *(["rewrite", "headers"] if self.has_rules else []), "mime", "php"]
        text = APACHE_CONFIGURATION.format(
            port=self.port, children=self.children(),
            # With as many processes as clients a connection may stay; otherwise it would lock others out.
            keep="On" if self.place.setup.bound else "Off", ini=self.place.ini.parent, root=self.place.root,
            override="All" if self.has_rules else "None",
            fallback="FallbackResource /index.php" if self.place.setup.wordpress and not self.has_rules else "")
        text = apache.configuration(self.directory, modules, text, "crit", server="127.0.0.1")
        self.run("apache", apache.command(self.directory, text))


class ApacheRules(Apache):
    """The same with `AllowOverride All`."""

    has_rules = True


LIGHTTPD_CONFIGURATION = """server.document-root = "{root}"
server.bind = "127.0.0.1"
server.port = {port}
{user}
server.errorlog = "{directory}/error.log"
server.upload-dirs = ( "{directory}" )
server.max-worker = {processors}
server.max-connections = 8192
server.max-fds = 65536
server.listen-backlog = 4096
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 180
server.modules = ( "mod_fastcgi", "mod_rewrite" )
index-file.names = ( "index.php", "index.html" )
mimetype.assign = ( ".txt" => "text/plain", ".html" => "text/html", ".css" => "text/css", ".js" => "text/javascript",
    ".jpg" => "image/jpeg", ".png" => "image/png", "" => "application/octet-stream" )
fastcgi.server = ( ".php" => (( "socket" => "{directory}/fpm.sock", "broken-scriptfilename" => "enable" )) )
{fallback}
"""


class Lighttpd(Server):
    """lighttpd in front of PHP-FPM over a unix socket."""

    front = "/usr/sbin/lighttpd"
    packages = ("lighttpd", "phpX.Y-fpm", "phpX.Y-opcache")

    def start(self):
        start_fpm(self, f"{self.directory}/fpm.sock", self.place.setup.workers)
        user = machine.plain_user()
        fallback = 'url.rewrite-if-not-file = ( "^/[^?]*(\\?.*)?$" => "/index.php$1" )'
        text = LIGHTTPD_CONFIGURATION.format(
            root=self.place.root, port=self.port, directory=self.directory, processors=machine.processors(),
            user=f'server.username = "{user}"\nserver.groupname = "{user}"' if user else "",
            fallback=fallback if self.place.setup.wordpress else "")
        if user:
            subprocess.run(["chown", user, self.directory], check=True)
        self.run("lighttpd", ["/usr/sbin/lighttpd", "-D", "-f", self.write("lighttpd.conf", text)])


class Unit(Server):
    """NGINX Unit; `unitd` and, beside it or below, its PHP module."""

    front = "unit: router"

    def start(self):
        program = Path(self.place.programs["unit"])
        found = [path.parent for base in (program.parent, program.parent.parent)
                 for path in sorted(base.glob("**/*php*.unit.so"))]
        if not found:
            raise Unusable(f"There is no *php*.unit.so near {program}; build Unit's PHP module there.")
        state = self.directory / "state"
        state.mkdir()
        control = self.directory / "control"
        user = machine.plain_user()
        process = self.run("unit", [
            program, "--no-daemon", "--control", f"unix:{control}", "--statedir", state, "--modulesdir", found[0],
            "--tmpdir", self.directory, "--pid", self.directory / "pid", "--log", self.directory / "unit.log",
            *(["--user", user, "--group", user] if user else [])])
        process.wait_for(control.exists, "control socket")
        self.configure(control)

    def configure(self, control):
        """Puts the document, in the form that Unit understands."""
        root = str(self.place.root)
        application = {"type": "php", "processes": self.place.setup.workers, "options": {"file": str(self.place.ini)},
                       "targets": {"direct": {"root": root}}}
        share = {"share": f"{root}$uri"}
        php = ["*.php", "*.php/*"]
        if self.place.setup.wordpress:
            # Unit looks for this script at once.
            application["targets"]["front"] = {"root": root, "script": "index.php"}
            share["fallback"] = {"pass": "applications/site/front"}
            php += ["/wp-admin/"]
        document = json.dumps({
            "listeners": {f"127.0.0.1:{self.port}": {"pass": "routes"}},
            "routes": [{"match": {"uri": php}, "action": {"pass": "applications/site/direct"}}, {"action": share}],
            "applications": {"site": application},
            "settings": {"listen_threads": machine.processors()},
        })
        connection = HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(control))
        connection.request("PUT", "/config", document)
        response = connection.getresponse()
        said = response.read().decode(errors="replace")
        connection.close()
        if response.status != 200:
            raise Unusable(f"Unit refuses its configuration: {said}")


FRANKENPHP_CONFIGURATION = """{{
    admin off
    auto_https off
    frankenphp {{
        num_threads {workers}
    }}
}}
http://127.0.0.1:{port} {{
    bind 127.0.0.1
    root * {root}
    php_server
}}
"""


class FrankenPhp(Server):
    """FrankenPHP in its classic mode: one thread for each PHP process of the others."""

    def start(self):
        text = FRANKENPHP_CONFIGURATION.format(workers=self.place.setup.workers, port=self.port, root=self.place.root)
        self.run("frankenphp", [self.place.programs["frankenphp"], "run", "--config", self.write("Caddyfile", text),
                                "--adapter", "caddyfile"],
                 {"PHPRC": str(self.place.ini.parent), "XDG_DATA_HOME": str(self.directory),
                  "XDG_CONFIG_HOME": str(self.directory), "GOMAXPROCS": str(machine.processors())})


SWOOLE_SCRIPT = """<?php
$server = new Swoole\\Http\\Server('127.0.0.1', {port}, SWOOLE_BASE);
$server->set(['worker_num' => {workers}, 'log_file' => '{log}', 'enable_coroutine' => false, 'max_request' => 0]);
$server->on('request', function ($request, $response) {{ $response->end('Hello, world!'); }});
$server->start();
"""


class Swoole(Server):
    """Swoole's HTTP server in base mode, in which workers have their own connections: the hello of frameworks.py."""

    def start(self):
        script = self.write("server.php", SWOOLE_SCRIPT.format(
            port=self.port, workers=self.place.setup.workers, log=self.directory / "swoole.log"))
        self.run("swoole", [f"/usr/bin/php{machine.php()}", "-c", self.place.ini, "-d",
                            f"extension={self.place.programs['swoole']}", "-d", "opcache.enable_cli=1", script])


KINDS = {
    "howdah": (Howdah, "Howdah"),
    "howdah-again": (Howdah, "Howdah, again"),
    "howdah-rules": (HowdahRules, "Howdah, .htaccess"),
    "howdah-observed": (HowdahObserved, "Howdah, observed"),
    "howdah-classic": (HowdahClassic, "Howdah, classic mode"),
    "nginx-unix": (Nginx, "nginx + FPM, unix socket"),
    "nginx-unix-511": (NginxBacklog, "nginx + FPM, backlog 511"),
    "nginx-tcp": (NginxTcp, "nginx + FPM, TCP"),
    "nginx-kept": (NginxKept, "nginx + FPM, TCP kept alive"),
    "howdah-fpm": (HowdahFpm, "nginx + howdah fpm, unix socket"),
    "howdah-fpm-again": (HowdahFpm, "nginx + howdah fpm, again"),
    "howdah-fpm-tcp": (HowdahFpmTcp, "nginx + howdah fpm, TCP"),
    "varnish": (Varnish, "Varnish + nginx + FPM"),
    "apache": (Apache, "Apache + mod_php"),
    "apache-rules": (ApacheRules, "Apache + mod_php, .htaccess"),
    "lighttpd": (Lighttpd, "lighttpd + FPM"),
    "unit": (Unit, "NGINX Unit"),
    "frankenphp": (FrankenPhp, "FrankenPHP"),
    "swoole": (Swoole, "Swoole"),
}


def start(name, place):
    """Starts one server by its name."""
    return KINDS[name][0](name, place)


def title_of(name):
    """How a server is called in the report."""
    return KINDS[name][1]
