"""The servers of a run: MariaDB, Apache with mod_php, PHP-FPM, and Howdah."""

import json
import socket
import subprocess

import machine
from machine import Unusable
from peers import Process, apache, fpm, free_port
from peers.mariadb import MariaDb

DATABASE_USER = "e2e"
DATABASE_PASSWORD = "correct horse battery staple"

APACHE_MODULES = ("mpm_prefork", "authz_core", "authz_host", "alias", "autoindex", "dir", "mime", "rewrite", "php")
APACHE_CONFIGURATION = """
Listen 127.0.0.1:{port}
LogFormat "%h %t \\"%r\\" %>s %b" common
CustomLog {directory}/access.log common
DirectoryIndex index.php index.html

# The browser keeps a dozen connections open, and prefork gives each a process.
StartServers 6
MaxRequestWorkers 32

PHPIniDir /etc/php/{php}/apache2
<FilesMatch ".+\\.ph(?:ar|p|tml)$">
    SetHandler application/x-httpd-php
</FilesMatch>
<FilesMatch "^\\.ht">
    Require all denied
</FilesMatch>

DocumentRoot {root}
<Directory {root}>
    Options FollowSymLinks
    AllowOverride All
    Require all granted
    {extra}
</Directory>
"""


def maria_db(directory, databases):
    """An own MariaDB with these databases."""
    return MariaDb(directory / "mariadb", databases, DATABASE_USER, DATABASE_PASSWORD, [
        "--innodb-doublewrite=0", "--innodb-fast-shutdown=2", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"])


class Apache:
    """Apache with mod_php over a directory. `extra` is added to the directory's section."""

    title = "Apache"

    def __init__(self, directory, root, extra=""):
        self.port = free_port()
        directory.mkdir()
        text = APACHE_CONFIGURATION.format(port=self.port, directory=directory, php=machine.php(), root=root, extra=extra)
        text = apache.configuration(directory, APACHE_MODULES, text, errors=directory / "error.log")
        self.process = Process("apache2", apache.command(directory, text), directory / "error.log")
        self.process.wait_for_http(self.port)

    def stop(self):
        """Ends it."""
        self.process.stop()


class Fpm:
    """PHP-FPM, on a unix socket at `address`."""

    def __init__(self, directory):
        directory.mkdir()
        directory.chmod(0o755)
        listen = directory / "socket"
        self.address = f"unix:{listen}"
        pool = fpm.pool(listen, "listen.mode = 0666\npm = static\npm.max_children = 2")
        self.process = Process("php-fpm", fpm.command(directory, pool), directory / "log")
        self.process.wait_for(listen.exists, "socket")

    def stop(self):
        """Ends it."""
        self.process.stop()


class Howdah:
    """Howdah over a directory: with no configuration, with a document of its own, or as a site."""

    title = "Howdah"

    def __init__(self, program, directory, root, configuration=None, controlled=False, site=None):
        """`configuration` makes the document from the address to listen on. `site` has keys of a site of the root."""
        self.program = program
        self.port = free_port()
        directory.mkdir()
        address = f"127.0.0.1:{self.port}"
        owner = machine.plain_user()
        command = [program, "serve"]
        if site is not None:
            configuration = self.with_site(directory, root, {"user": owner, **site} if owner else site)
        if configuration:
            document = directory / "howdah.json"
            document.write_text(json.dumps(configuration(address), indent=4))
            command += ["--config", document]
        else:
            command += [root, "--listen", address]
        if owner:
            command += ["--user", owner, "--group", owner]
        self.socket = directory / "control"
        if controlled:
            command += ["--control", f"unix:{self.socket}"]
        self.process = Process("howdah", command, directory / "log")
        self.process.wait_for_http(self.port)

    @staticmethod
    def with_site(directory, root, keys):
        """Writes the file of a site for all hosts, and returns what makes the document that reads it."""
        (directory / "sites").mkdir(mode=0o755)
        site = directory / "sites" / "site.json"
        site.write_text(json.dumps({"hosts": "*", "root": str(root), **keys}, indent=4))
        site.chmod(0o644)
        return lambda address: {"sites": "sites/*.json", "defaults": {"listen": address}}

    def stop(self):
        """Ends it."""
        self.process.stop()

    def control(self, path):
        """The body of an answer of the control API."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.socket))
            connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise Unusable(f"{path} of the control API: {answer.decode('utf-8', 'replace')}")
        return body.decode()

    def command(self, *words):
        """Runs a command of the program on this server."""
        done = subprocess.run([self.program, *words, "--control", f"unix:{self.socket}"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"howdah {' '.join(words)}: {done.stdout}{done.stderr}")
