"""The servers of a run: MariaDB, Apache with mod_php, PHP-FPM, and Howdah."""

import json
import socket
import subprocess
from pathlib import Path

import machine
from machine import Unusable
from processes import Process, free_port

DATABASE_USER = "e2e"
DATABASE_PASSWORD = "correct horse battery staple"

APACHE_MODULES = Path("/usr/lib/apache2/modules")
APACHE_CONFIGURATION = """
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile {directory}/apache.pid
Mutex file:{directory} default
DefaultRuntimeDir {directory}
ErrorLog {directory}/error.log
LogFormat "%h %t \\"%r\\" %>s %b" common
CustomLog {directory}/access.log common
{user}

LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_host_module {modules}/mod_authz_host.so
LoadModule alias_module {modules}/mod_alias.so
LoadModule autoindex_module {modules}/mod_autoindex.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule mime_module {modules}/mod_mime.so
LoadModule rewrite_module {modules}/mod_rewrite.so
LoadModule php_module {modules}/libphp{php}.so
TypesConfig /etc/mime.types
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


class MariaDb:
    """An own MariaDB instance: own data directory, own socket, own port."""

    def __init__(self, directory, databases):
        self.directory = directory / "mariadb"
        self.socket = self.directory / "socket"
        self.port = free_port()
        self.directory.mkdir()
        data = self.directory / "data"
        owner = machine.plain_user()
        as_user = [f"--user={owner}"] if owner else []
        machine.give_away(self.directory)
        made = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal", "--skip-name-resolve", *as_user],
            capture_output=True, text=True, check=False)
        if made.returncode:
            raise Unusable(f"mariadb-install-db failed:\n{made.stdout}{made.stderr}")
        accounts = [f"'{DATABASE_USER}'@'{host}'" for host in ("localhost", "127.0.0.1")]
        statements = [f"CREATE DATABASE {name} CHARACTER SET utf8mb4;" for name in databases]
        for account in accounts:
            statements.append(f"CREATE USER {account} IDENTIFIED BY '{DATABASE_PASSWORD}';")
            statements += [f"GRANT ALL ON {name}.* TO {account};" for name in databases]
        first = self.directory / "first.sql"
        first.write_text("\n".join(statements) + "\n")
        self.process = Process("mariadbd", [
            "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={self.socket}",
            "--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve",
            f"--pid-file={self.directory}/pid", f"--init-file={first}",
            # The data lives for minutes: durability and big buffers would only cost time.
            "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-fast-shutdown=2",
            "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", *as_user,
        ], self.directory / "log")
        # Everything in the init file has run by the time connections are taken.
        self.process.wait_for(self.socket.exists, "socket")

    def stop(self):
        """Ends it."""
        self.process.stop()


class Apache:
    """Apache with mod_php over a directory. `extra` is added to the directory's section."""

    title = "Apache"

    def __init__(self, directory, root, extra=""):
        self.port = free_port()
        directory.mkdir()
        owner = machine.plain_user()
        configuration = directory / "apache.conf"
        configuration.write_text(APACHE_CONFIGURATION.format(
            port=self.port, directory=directory, modules=APACHE_MODULES, php=machine.php(), root=root, extra=extra,
            user=f"User {owner}\nGroup {owner}" if owner else ""))
        self.process = Process("apache2", ["/usr/sbin/apache2", "-f", configuration, "-DFOREGROUND"],
                               directory / "error.log")
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
        owner = machine.plain_user()
        configuration = directory / "fpm.conf"
        configuration.write_text("\n".join([
            "[global]", f"error_log = {directory}/error.log", "[www]",
            *([f"user = {owner}"] if owner else []), f"listen = {listen}", "listen.mode = 0666",
            "pm = static", "pm.max_children = 2", ""]))
        self.process = Process("php-fpm", [f"/usr/sbin/php-fpm{machine.php()}", "--nodaemonize",
                                           "--fpm-config", configuration], directory / "log")
        self.process.wait_for(listen.exists, "socket")

    def stop(self):
        """Ends it."""
        self.process.stop()


class Howdah:
    """Howdah over a directory, with no configuration or with a document of its own."""

    title = "Howdah"

    def __init__(self, program, directory, root, configuration=None, controlled=False):
        """`configuration` makes the document from the address to listen on."""
        self.program = program
        self.port = free_port()
        directory.mkdir()
        address = f"127.0.0.1:{self.port}"
        owner = machine.plain_user()
        command = [program, "serve"]
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
