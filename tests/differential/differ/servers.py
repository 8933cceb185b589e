"""Starts the servers that are compared, each with its own configuration in a temporary directory and on its own ports.

All of them run PHP with the settings of its embed library, which are Debian's for production.
"""

import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
from ports import free_port  # noqa: E402

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SITES = ("front", "plain")


class StartError(Exception):
    """A server did not start."""


def account():
    """Who serves: www-data when root starts the test, else whoever does."""
    if os.geteuid() == 0:
        return pwd.getpwnam("www-data").pw_name
    return pwd.getpwuid(os.geteuid()).pw_name


class Server:
    """A server that is compared: ports by site, processes, and a log."""

    def __init__(self, name, work, roots, php):
        """`php` is the version of PHP, such as 8.4."""
        self.name, self.work, self.roots = name, work / name, roots
        self.work.mkdir()
        self.php, self.ini = php, f"/etc/php/{php}/embed"
        self.ports = {site: free_port() for site in SITES}
        self.processes = []
        self.log = self.work / "log"

    def run(self, *command, **environment):
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.work, start_new_session=True,
                env={"PATH": PATH, "PHP_INI_SCAN_DIR": f"{self.ini}/conf.d",
                     "DIFFERENTIAL_SECRET": "in the environment", **environment})
        self.processes.append(process)

    def write(self, name, text):
        path = self.work / name
        path.write_text(text)
        return str(path)

    def wait(self):
        """Until every port accepts connections."""
        deadline = time.monotonic() + 60
        for port in self.ports.values():
            while True:
                if any(process.poll() is not None for process in self.processes):
                    raise StartError(f"{self.name} ended at once:\n{self.log.read_text(errors='replace')[-2000:]}")
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise StartError(f"{self.name} does not listen:\n{self.log.read_text(errors='replace')[-2000:]}") from None
                    time.sleep(0.05)

    def state(self):
        """How its processes have ended, and what it has logged last."""
        ended = [process.poll() for process in self.processes]
        return f"exit statuses {ended}\n{self.log.read_text(errors='replace')[-2000:]}"

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Howdah(Server):
    """One process for each site, with no configuration at all."""

    def __init__(self, work, roots, php, binary):
        super().__init__("howdah", work, roots, php)
        for site in SITES:
            self.run(str(binary), "serve", str(roots[site]), "--no-htaccess", "--listen", f"127.0.0.1:{self.ports[site]}")


class Nginx(Server):
    """nginx with PHP-FPM on a unix socket, as in Debian's snippets, but HTTP_HOST as the client sent it."""

    def __init__(self, work, roots, php):
        super().__init__("nginx", work, roots, php)
        user = account()
        pool_user = f"user = {user}\ngroup = {user}\nlisten.owner = {user}\n" if os.geteuid() == 0 else ""
        self.work.chmod(0o755)
        fpm = self.write("fpm.conf", f"""
[global]
daemonize = no
error_log = {self.work}/fpm.log
[www]
{pool_user}listen = {self.work}/fpm.sock
pm = static
pm.max_children = 4
catch_workers_output = yes
""")
        servers = "".join(self.site(site) for site in SITES)
        user_line = f"user {user};" if os.geteuid() == 0 else ""
        nginx = self.write("nginx.conf", f"""
{user_line}
daemon off;
worker_processes 1;
pid {self.work}/nginx.pid;
error_log {self.work}/error.log info;
events {{ worker_connections 256; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log {self.work}/access.log;
    sendfile on;
    tcp_nopush on;
    client_max_body_size 64m;
    client_body_temp_path {self.work}/body;
    fastcgi_temp_path {self.work}/fastcgi;
    proxy_temp_path {self.work}/proxy;
    scgi_temp_path {self.work}/scgi;
    uwsgi_temp_path {self.work}/uwsgi;
{servers}}}
""")
        self.run(f"php-fpm{php}", "-F", "-y", fpm, "-c", f"{self.ini}/php.ini")
        deadline = time.monotonic() + 60
        while not (self.work / "fpm.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.run("nginx", "-c", nginx, "-e", f"{self.work}/error.log")

    def site(self, site):
        fallback = "/index.php$is_args$args" if site == "front" else "=404"
        return f"""
    server {{
        listen 127.0.0.1:{self.ports[site]};
        server_name site.test;
        root {self.roots[site]};
        index index.php index.html;
        location / {{ try_files $uri $uri/ {fallback}; }}
        location ~ /\\.ht {{ deny all; }}
        location ~ [^/]\\.php(/|$) {{
            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
            try_files $fastcgi_script_name =404;
            set $path_info $fastcgi_path_info;
            include /etc/nginx/fastcgi.conf;
            fastcgi_param PATH_INFO $path_info;
            fastcgi_param HTTP_HOST $http_host;
            fastcgi_pass unix:{self.work}/fpm.sock;
        }}
    }}
"""


class Apache(Server):
    """Apache (prefork) with mod_php; the front controller as WordPress and most others write it for mod_rewrite."""

    MODULES = ("mpm_prefork", "authz_core", "authz_host", "dir", "mime", "rewrite", "reqtimeout")

    def __init__(self, work, roots, php):
        super().__init__("apache", work, roots, php)
        self.work.chmod(0o755)
        modules = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in self.MODULES)
        user = f"User {account()}\nGroup {account()}\n" if os.geteuid() == 0 else ""
        conf = self.write("apache.conf", f"""
ServerRoot /etc/apache2
DefaultRuntimeDir {self.work}
Mutex file:{self.work} default
PidFile {self.work}/apache.pid
ErrorLog {self.work}/error.log
LogLevel warn
ServerName site.test
{user}{modules}LoadModule php_module /usr/lib/apache2/modules/libphp{php}.so
PHPIniDir {self.ini}
StartServers 4
MaxRequestWorkers 8
Timeout 20
TypesConfig /etc/mime.types
AddType application/x-gzip .tgz
DirectoryIndex index.php index.html
<FilesMatch ".+\\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch ".+\\.phps$">
    SetHandler application/x-httpd-php-source
    Require all denied
</FilesMatch>
<FilesMatch "^\\.ph(?:ar|p|ps|tml)$">
    Require all denied
</FilesMatch>
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
{"".join(self.site(site) for site in SITES)}
""")
        self.run("apache2", "-f", conf, "-DFOREGROUND")

    def site(self, site):
        front = """
        RewriteEngine On
        RewriteRule ^index\\.php$ - [L]
        RewriteCond %{REQUEST_FILENAME} !-f
        RewriteCond %{REQUEST_FILENAME} !-d
        RewriteRule . /index.php [L]"""
        port, root = self.ports[site], self.roots[site]
        return f"""
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
    DocumentRoot {root}
    <Directory {root}>
        Require all granted{front if site == "front" else ""}
    </Directory>
    <Directory {Path(root).parent}/outside>
        Require all granted
    </Directory>
</VirtualHost>
"""
