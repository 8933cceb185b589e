"""Starts the servers that are compared, each with its own configuration in a temporary directory and on its own ports.

All of them run PHP with the settings of its embed library, which are Debian's for production.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
from peers import Programs, Unusable, apache, fpm, free_port, nginx, plain_user  # noqa: E402,F401

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SITES = ("front", "plain")


class Server:
    """A server that is compared: a port for each site, and its programs."""

    def __init__(self, name, work, roots, php):
        """`php` is the version of PHP, such as 8.4."""
        self.name, self.work, self.roots = name, work / name, roots
        self.work.mkdir()
        self.work.chmod(0o755)
        self.ini = f"/etc/php/{php}/embed"
        self.ports = {site: free_port() for site in roots}
        self.programs = Programs(self.work)

    def run(self, name, command, **environment):
        only = {"PATH": PATH, "PHP_INI_SCAN_DIR": f"{self.ini}/conf.d", "DIFFERENTIAL_SECRET": "in the environment"}
        self.programs.start(name, command, only=only | environment, cwd=self.work)

    def write(self, name, text):
        path = self.work / name
        path.write_text(text)
        return path

    def wait(self):
        """Until every port accepts connections."""
        self.programs.wait_for_ports(self.ports.values())

    def state(self):
        """How its programs have ended, and their last output."""
        return self.programs.told()

    def stop(self):
        self.programs.stop()


class Howdah(Server):
    """One process for each site, with no configuration at all."""

    def __init__(self, work, roots, php, binary):
        super().__init__("howdah", work, roots, php)
        for site in SITES:
            self.run("howdah", [binary, "serve", roots[site], "--no-htaccess", "--listen", f"127.0.0.1:{self.ports[site]}"])


class Nginx(Server):
    """nginx with PHP-FPM on a unix socket, as in Debian's snippets, but HTTP_HOST as the client sent it."""

    def __init__(self, work, roots, php):
        super().__init__("nginx", work, roots, php)
        socket = self.work / "fpm.sock"
        pool = fpm.pool(socket, "pm = static\npm.max_children = 4\ncatch_workers_output = yes")
        self.run("php-fpm", fpm.command(self.work, pool, f"{self.ini}/php.ini"))
        self.programs.wait_for("socket of PHP-FPM", socket.exists)
        http = f"""
    access_log {self.work}/access.log;
    sendfile on;
    tcp_nopush on;
    client_max_body_size 64m;
{"".join(self.site(site) for site in SITES)}"""
        self.run("nginx", nginx.command(self.work, nginx.configuration(self.work, http, connections=256)))

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

    MODULES = ("mpm_prefork", "authz_core", "authz_host", "dir", "mime", "rewrite", "reqtimeout", "php")

    def __init__(self, work, roots, php):
        super().__init__("apache", work, roots, php)
        text = f"""
PHPIniDir {self.ini}
StartServers 4
MaxRequestWorkers 8
Timeout 20
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
{"".join(self.site(site) for site in SITES)}"""
        self.run("apache", apache.command(self.work, apache.configuration(self.work, self.MODULES, text)))

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
