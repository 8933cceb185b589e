"""Starts Apache and Howdah on the same document roots, as processes of the test on ports of its own."""

import json
import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests/differential"))

from differ import servers as differ  # noqa: E402
from differ.servers import StartError, account, free_port  # noqa: E402,F401

MODULES = """
    mpm_prefork access_compat alias auth_basic authn_core authn_file authz_core authz_groupfile authz_host authz_user
    autoindex deflate dir env expires filter headers mime negotiation reqtimeout rewrite setenvif
""".split()

# Debian's settings of its modules; alias.conf names only icons, dir.conf another list of index files.
SETTINGS = ("autoindex", "deflate", "mime", "negotiation", "setenvif")


class Server(differ.Server):
    """A server with a port for each site."""

    def __init__(self, name, work, roots, php):
        self.name, self.work, self.roots = name, work / name, roots
        self.work.mkdir(mode=0o755)
        self.work.chmod(0o755)
        self.php, self.ini = php, f"/etc/php/{php}/embed"
        self.ports = {root: free_port() for root in roots}
        self.processes = []
        self.log = self.work / "log"

    def port(self, case):
        return self.ports[case.site]


class Howdah(Server):
    """One process; each site is an application with `.htaccess`."""

    def __init__(self, work, roots, php, binary):
        super().__init__("howdah", work, roots, php)
        document = {
            "listeners": {f"127.0.0.1:{self.ports[site]}": {"pass": f"applications/{site}"} for site in roots},
            "applications": {
                site: {"type": "php", "root": str(root), "htaccess": {"without_scripts": "~/without-scripts/"},
                       "processes": {"max": 2, "spare": 1}}
                for site, root in roots.items()
            },
        }
        user = ["--user", account(), "--group", account()] if os.geteuid() == 0 else []
        self.run(str(binary), "serve", "--config", self.write("howdah.json", json.dumps(document, indent=4)),
                 "--control", f"unix:{self.work}/control", *user, TZ="UTC")


class Apache(Server):
    """Apache (prefork) with mod_php, set up as by Debian, and AllowOverride All."""

    def __init__(self, work, roots, php):
        super().__init__("apache", work, roots, php)
        modules = "".join(f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so\n" for m in MODULES)
        settings = "".join(f"Include /etc/apache2/mods-available/{name}.conf\n" for name in SETTINGS)
        user = f"User {account()}\nGroup {account()}\n" if os.geteuid() == 0 else ""
        self.errors = self.work / "error.log"
        conf = self.write("apache.conf", f"""
ServerRoot /etc/apache2
DefaultRuntimeDir {self.work}
Mutex file:{self.work} default
PidFile {self.work}/apache.pid
ErrorLog {self.errors}
ErrorLogFormat "%E %m: %M"
LogLevel {os.environ.get("APACHE_LOG_LEVEL", "warn")}
ServerName site.test
{user}{modules}LoadModule php_module /usr/lib/apache2/modules/libphp{php}.so
PHPIniDir {self.ini}
StartServers 3
MinSpareServers 1
MaxRequestWorkers 8
MaxKeepAliveRequests 0
Timeout 20
# As in Debian's security.conf.
ServerTokens OS
ServerSignature On
TraceEnable Off
AccessFileName .htaccess
{settings}Include /etc/apache2/mods-available/php{php}.conf
DirectoryIndex index.html index.php
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>
<Directory />
    Options FollowSymLinks
    AllowOverride None
    Require all denied
</Directory>
{"".join(self.site(site) for site in roots)}
""")
        self.run("apache2", "-f", conf, "-DFOREGROUND", TZ="UTC")

    def site(self, site):
        port, root = self.ports[site], self.roots[site]
        return f"""
Listen 127.0.0.1:{port}
<VirtualHost 127.0.0.1:{port}>
ServerName 127.0.0.1
    DocumentRoot {root}
    <Directory {root}>
        Options Indexes FollowSymLinks
        AllowOverride All
        Require all granted
    </Directory>
</VirtualHost>
"""

    def error_lines(self):
        """What Apache has logged so far."""
        return self.errors.read_text(errors="replace").splitlines() if self.errors.exists() else []
