"""An authority for certificates (ACME, RFC 8555) of tests: it issues each certificate without a challenge, and notes the accounts.

Signatures of requests are not verified. Keys are made with openssl, and are in a directory of the test.
"""

import base64
import http.server
import json
import ssl
import subprocess
import threading

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*words, data=None):
    """Runs openssl; returns its output."""
    done = subprocess.run(["openssl", *map(str, words)], input=data, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"openssl {words[0]}: {done.stderr.decode()}")
    return done.stdout


def decoded(text):
    """The bytes of a text in base64url without padding (RFC 7515, 2)."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Authority:
    """A server on a free port, with the directory `/directory`."""

    def __init__(self, directory):
        self.directory = directory
        self.ca = directory / "authority.pem"
        self.key = directory / "authority.key"
        # Names of new orders with the account of each; number of accounts that were created.
        self.orders, self.created = [], 0
        self.certificate = b""
        # Later versions of Python demand the extensions of RFC 5280, among them a critical name where there is no subject.
        openssl("req", "-x509", *CURVE, "-days", 90, "-subj", "/CN=authority", "-addext", "keyUsage=critical,keyCertSign",
                "-keyout", self.key, "-out", self.ca)
        own = directory / "authority-server.pem"
        own.write_bytes(b"".join(self.issue(["127.0.0.1"], "IP")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.port = self.server.server_address[1]
        self.url = f"https://127.0.0.1:{self.port}"
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        """Ends the server."""
        self.server.shutdown()
        self.server.server_close()

    def sign(self, request, names, kind="DNS"):
        """The certificate (PEM) for a request (PEM)."""
        extensions = self.directory / "extensions"
        extensions.write_text("subjectAltName=critical," + ",".join(f"{kind}:{name}" for name in names) + "\n"
                              "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        return openssl("x509", "-req", "-CA", self.ca, "-CAkey", self.key, "-days", 90, "-extfile", extensions,
                       data=request)

    def issue(self, names, kind="DNS"):
        """A certificate and its key (PEM, PKCS #8)."""
        key = self.directory / "issued.key"
        request = openssl("req", *CURVE, "-subj", f"/CN={names[0]}", "-keyout", key)
        return self.sign(request, names, kind), key.read_bytes()

    def handler(self):
        """The class that answers requests."""
        authority = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.answer(200, {})

            def do_GET(self):
                paths = {"newNonce": "/nonce", "newAccount": "/account", "newOrder": "/order", "revokeCert": "/revoke",
                         "keyChange": "/key"}
                self.answer(200, {name: authority.url + path for name, path in paths.items()})

            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                account = json.loads(decoded(message["protected"])).get("kid")
                content = json.loads(decoded(message["payload"]) or b"{}")
                order = {"status": "ready", "authorizations": [], "finalize": f"{authority.url}/order/1/finalize",
                         "identifiers": [{"type": "dns", "value": name} for name, _ in authority.orders[-1:]]}
                if self.path == "/account":
                    authority.created += 1
                    self.answer(201, {"status": "valid"}, Location=f"{authority.url}/account/1")
                elif self.path == "/order":
                    authority.orders.append((content["identifiers"][0]["value"], account))
                    self.answer(201, {**order, "identifiers": content["identifiers"]},
                                Location=f"{authority.url}/order/1")
                elif self.path == "/order/1":
                    self.answer(200, order)
                elif self.path == "/order/1/finalize":
                    request = openssl("req", "-inform", "DER", data=decoded(content["csr"]))
                    authority.certificate = authority.sign(request, [authority.orders[-1][0]])
                    self.answer(200, {**order, "status": "valid", "certificate": f"{authority.url}/certificate"})
                elif self.path == "/certificate":
                    self.answer(200, authority.certificate)
                else:
                    self.answer(404, {"type": "urn:ietf:params:acme:error:malformed", "detail": self.path})

            def answer(self, status, content, **fields):
                is_json = isinstance(content, dict)
                body = json.dumps(content).encode() if is_json else content
                self.send_response_only(status)
                kind = "application/json" if is_json else "application/pem-certificate-chain"
                # Each response has a nonce; none is checked.
                for name, value in {"Content-Type": kind, "Replay-Nonce": "bm9uY2U", **fields}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler
