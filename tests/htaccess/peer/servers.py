"""Starts Apache and Howdah on the same document roots, as processes of the test on ports of its own."""

import json
import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests/differential"))

from differ import servers as differ  # noqa: E402 - finds peers as well
from peers import Unusable, apache, plain_user  # noqa: E402,F401

MODULES = """
    mpm_prefork access_compat alias auth_basic authn_core authn_file authz_core authz_groupfile authz_host authz_user
    autoindex deflate dir env expires filter headers mime negotiation reqtimeout rewrite setenvif
""".split()

# Debian's settings of its modules; alias.conf names only icons, dir.conf another list of index files.
SETTINGS = ("autoindex", "deflate", "mime", "negotiation", "setenvif")


class Server(differ.Server):
    """A server with a port for each site."""

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
        user = ["--user", plain_user(), "--group", plain_user()] if plain_user() else []
        self.run("howdah", [binary, "serve", "--config", self.write("howdah.json", json.dumps(document, indent=4)),
                            "--control", f"unix:{self.work}/control", *user], TZ="UTC")


class Apache(Server):
    """Apache (prefork) with mod_php, set up as by Debian, and AllowOverride All."""

    def __init__(self, work, roots, php):
        super().__init__("apache", work, roots, php)
        settings = "".join(f"Include /etc/apache2/mods-available/{name}.conf\n" for name in SETTINGS)
        self.errors = self.work / "error.log"
        text = f"""
ErrorLogFormat "%E %m: %M"
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
{"".join(self.site(site) for site in roots)}"""
        text = apache.configuration(self.work, [*MODULES, "php"], text, os.environ.get("APACHE_LOG_LEVEL", "warn"), errors=self.errors)
        self.run("apache", apache.command(self.work, text), TZ="UTC")

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
        """The lines that Apache has logged so far."""
        return self.errors.read_text(errors="replace").splitlines() if self.errors.exists() else []
