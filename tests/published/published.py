"""The documents and state directories of published versions, and a server that is started on a copy of them.

The files name no path, port or month of the machine that wrote them: `@root@`, `@port@`, `@tls@`, `@authority@`, `@account@` and
`@month@` stand for them. Nor do they contain keys and certificates: the content of each block of PEM is `@removed@`, and a test makes
another one.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(HERE.parent))
from peers import Process, free_port, wait_for  # noqa: E402

from authority import Authority, openssl  # noqa: E402

SOURCE = HERE / "source"
VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?")
PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----\n(.*?)\n-----END \1-----", re.DOTALL)
REMOVED = "@removed@"
# The member of a stored account that has its key: PKCS #8 in base64url.
ACCOUNT_KEY = re.compile(r'("key_pkcs8": ?")[^"]*(")')
# Seconds until a server that was told to end counts as hanging.
END_PATIENCE = 60


def version():
    """The version of this tree."""
    return subprocess.run([ROOT / "packaging" / "version"], capture_output=True, text=True, check=True).stdout.strip()


def git(*words):
    """The output of git; empty if this tree is no checkout."""
    command = ["git", "-c", "safe.directory=*", "-C", ROOT, *words]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout


def tagged():
    """The versions that have a tag."""
    names = (tag.removeprefix("v") for tag in git("tag", "--list", "v*").split())
    return [name for name in names if VERSION.fullmatch(name)]


def released(changelog):
    """The versions that have a section in the text of a changelog."""
    return [name for name in re.findall(r"^## \[(.*?)\]", changelog, re.MULTILINE) if VERSION.fullmatch(name)]


def kept(where=HERE):
    """The directories of versions, in order."""
    found = [path for path in where.iterdir() if VERSION.fullmatch(path.name)]
    return sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])


def files(directory):
    """The files below a directory: {name: bytes}."""
    return {str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*")) if path.is_file()}


def account_name(url, email):
    """The name of the file that keeps the account of an e-mail address with an authority."""
    return "acme-account:" + hashlib.sha256(f"{url}/directory\n{email}\n".encode()).hexdigest()[:24]


def without_keys(text):
    """A text without the content of its certificates and keys."""
    text = PEM.sub(lambda block: f"-----BEGIN {block[1]}-----\n{REMOVED}\n-----END {block[1]}-----", text)
    return ACCOUNT_KEY.sub(rf"\g<1>{REMOVED}\2", text)


def with_keys(text, certificate, key):
    """The opposite of `without_keys`, with a certificate and its key in PEM."""
    certificate, key = certificate.decode().strip(), key.decode().strip()
    made = {PEM.match(pem)[1]: pem for pem in (certificate, key)}
    text = PEM.sub(lambda block: made[block[1]], text)
    der = base64.urlsafe_b64encode(openssl("pkcs8", "-topk8", "-nocrypt", "-outform", "DER", data=key.encode()))
    return ACCOUNT_KEY.sub(rf"\g<1>{der.decode().rstrip('=')}\2", text)


class ControlConnection(http.client.HTTPConnection):
    """A connection to the control API."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Machine:
    """A directory with sites, an authority for certificates, and a server."""

    EMAIL = "you@example.org"

    def __init__(self, howdah):
        self.howdah, self.server = howdah, None
        self.root = Path(tempfile.mkdtemp(prefix="howdah-published-"))
        self.root.chmod(0o755)
        self.state, self.log, self.etc = self.root / "state", self.root / "log", self.root / "etc"
        self.ports = {name: free_port() for name in ("port", "tls")}
        for name, text in {"shop/index.php": "<?php echo 'shop ', 6 * 7;", "shop/a.txt": "a file of shop",
                           "wiki/a.txt": "a file of wiki", "plain/a.txt": "a file"}.items():
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        # The options of a server with a certificate for development.
        self.development = ["--tls", "--listen", f"127.0.0.1:{self.ports['tls']}", self.root / "plain"]
        (self.root / "authority").mkdir()
        self.authority = Authority(self.root / "authority")
        self.pairs = {}
        self.month = time.strftime("%Y-%m", time.gmtime())
        self.values = {
            "@root@": str(self.root),
            "127.0.0.1:@port@": f"127.0.0.1:{self.ports['port']}",
            "127.0.0.1:@tls@": f"127.0.0.1:{self.ports['tls']}",
            "127.0.0.1:@authority@": f"127.0.0.1:{self.authority.port}",
            "acme-account:@account@": account_name(self.authority.url, self.EMAIL),
            "@month@": self.month,
        }

    def close(self):
        """Ends all and removes the directory."""
        if self.server:
            self.server.stop()
        self.authority.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def fill(self, text):
        """A text with the values of this machine."""
        for name, value in self.values.items():
            text = text.replace(name, value)
        return text

    def blank(self, text):
        """A text without the values of this machine."""
        for name, value in self.values.items():
            text = text.replace(value, name)
        return text

    def keep(self, directory, where):
        """Copies the files of a directory without what is only of this machine."""
        for name, content in files(directory).items():
            path = where / self.blank(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(without_keys(self.blank(content.decode())))

    def restore(self, kept, where):
        """Copies the files of a version for this machine."""
        for name, content in files(kept).items():
            path, text = where / self.fill(name), self.fill(content.decode())
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text(with_keys(text, *self.pair(path)) if REMOVED in text else text)
            path.chmod(0o600)

    def pair(self, path):
        """The certificate and the key for a file of a state directory."""
        if path.parent.name != "local":
            # Certificates are stored under their names, with "acme:" in front of those that the server has ordered.
            return self.issued(path.name.split(":")[-1])
        if path.stem == "authority":
            return self.authority.ca.read_bytes(), self.authority.key.read_bytes()
        return self.issued("localhost")

    def issued(self, name):
        """The certificate for a name and its key, the same ones each time."""
        if name not in self.pairs:
            self.pairs[name] = self.authority.issue([name])
        return self.pairs[name]

    def command(self, *options):
        """The command that starts a server with the state of this machine."""
        return [self.howdah, "serve", "--state", self.state, "--control", f"unix:{self.root / 'control'}",
                "--log", self.log, *options]

    def environment(self):
        """The variables of commands."""
        return {"HOWDAH_RUNTIME_DIR": str(self.root / "run")}

    def start(self, *options):
        """Starts a server and waits until it serves."""
        self.log.write_bytes(b"")
        self.server = Process("howdah", self.command(*options), self.root / "output", self.environment())
        self.server.wait_for(lambda: " started: howdah " in self.log.read_text(), "start")

    def fails(self, *options):
        """The exit status and output of a server that must not start."""
        done = subprocess.run([str(part) for part in self.command(*options)], capture_output=True, text=True, check=False,
                              env={**os.environ, **self.environment()}, stdin=subprocess.DEVNULL, timeout=END_PATIENCE)
        return done.returncode, done.stdout + done.stderr

    def stop(self):
        """Ends the server, which stores its counts, and returns its log."""
        self.server.child.send_signal(signal.SIGQUIT)
        status = self.server.child.wait(END_PATIENCE)
        self.server = None
        log = self.log.read_text()
        if status:
            raise AssertionError(f"the server ended with status {status}:\n{log}")
        return log

    def control(self, method, path, body=None):
        """The status and value of a response of the control API."""
        if not isinstance(body, (str, bytes, type(None))):
            body = json.dumps(body)
        with contextlib.closing(ControlConnection(self.root / "control")) as connection:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def get(self, host, path):
        """Status and text of a response over HTTP."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.ports["port"], timeout=60)) as connection:
            connection.request("GET", path, headers={"Host": host})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def certificate(self, host):
        """The certificate (PEM) that a host shows, verified with the authority; None if there is no valid one."""
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            with socket.create_connection(("127.0.0.1", self.ports["tls"]), 60) as plain:
                with context.wrap_socket(plain, server_hostname=host) as stream:
                    return ssl.DER_cert_to_PEM_cert(stream.getpeercert(True)).strip()
        except ssl.SSLError:
            return None

    def wait_for(self, what, condition):
        """Waits until a condition holds, or the server ends."""
        wait_for(what, condition, [self.server] if self.server else [])

    def serve_stored(self):
        """Gives a server a certificate and the configuration of `source/stored.json`, and waits for the other certificate."""
        answers = [self.control("PUT", "/certificates/uploaded.example", b"\n".join(self.issued("uploaded.example"))),
                   self.control("PUT", "/config", self.fill((SOURCE / "stored.json").read_text()))]
        assert [status for status, _ in answers] == [200, 200], answers
        self.wait_for("certificate of the authority", lambda: self.certificate("issued.example"))

    def usage(self):
        """The counts of this month by site."""
        status, found = self.control("GET", f"/usage/{self.month}")
        assert status == 200, found
        return found["sites"]
