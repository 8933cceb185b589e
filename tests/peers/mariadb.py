"""MariaDB with data, socket and log of its own."""

import shutil
import subprocess

from .ports import free_port
from .processes import Process, Unusable, plain_user


class MariaDb:
    """A running server whose databases belong to one account. Its data lives for minutes: durability would only cost time."""

    def __init__(self, directory, databases, user, password, options=()):
        directory.mkdir(exist_ok=True)
        self.socket, self.port = directory / "socket", free_port()
        owner = plain_user()
        as_user = [f"--user={owner}"] if owner else []
        if owner:
            shutil.chown(directory, owner, owner)
        made = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={directory}/data", "--skip-test-db", "--skip-name-resolve",
             "--auth-root-authentication-method=normal", *as_user], capture_output=True, text=True, check=False)
        if made.returncode:
            raise Unusable(f"mariadb-install-db failed:\n{made.stdout}{made.stderr}")
        statements = [f"CREATE DATABASE {name} CHARACTER SET utf8mb4;" for name in databases]
        for host in ("localhost", "127.0.0.1"):
            statements.append(f"CREATE USER '{user}'@'{host}' IDENTIFIED BY '{password}';")
            statements += [f"GRANT ALL ON {name}.* TO '{user}'@'{host}';" for name in databases]
        first = directory / "first.sql"
        first.write_text("\n".join(statements) + "\n")
        self.process = Process("mariadbd", [
            "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={directory}/data", f"--socket={self.socket}",
            "--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve", f"--init-file={first}",
            f"--pid-file={directory}/pid", "--innodb-flush-log-at-trx-commit=0", *options, *as_user], directory / "log")
        # Everything in the init file has run by the time connections are taken.
        self.process.wait_for(self.socket.exists, "socket")

    def stop(self):
        """Ends it."""
        self.process.stop()
