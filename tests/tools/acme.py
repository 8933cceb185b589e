#!/usr/bin/env python3
"""Certificates by themselves, against a real authority that misbehaves: Let's Encrypt's Pebble.

    go install github.com/letsencrypt/pebble/v2/cmd/pebble@latest
    go install github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@latest
    tests/tools/acme.py --howdah target/debug/howdah --tools "$(go env GOPATH)/bin"

Every case starts an authority and a Howdah of its own. `--only NAME` runs one, `--list` names them.
It needs openssl, and takes some ten minutes. Not part of `make test`, which has no Go.
"""

import argparse
import base64
import http.client
import http.server
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
import threading
import time
import traceback
import urllib.request
from pathlib import Path

HTTP, TLS, CA, MANAGE, DNS, CHALL, ASK, FRONT = 15002, 15001, 15000, 15003, 15053, 15055, 15056, 15057
PATIENCE = 60


class Machine:
    """A directory, an authority, and a server, for one case."""

    def __init__(self, arguments):
        self.howdah, self.tools = Path(arguments.howdah).resolve(), Path(arguments.tools).resolve()
        self.directory = Path(tempfile.mkdtemp(prefix="howdah-acme-"))
        self.directory.chmod(0o755)
        self.programs = []
        site = self.directory / "site"
        site.mkdir()
        (site / "a.txt").write_text("a file")
        (self.directory / "state").mkdir(mode=0o700)
        self.log = self.directory / "log"
        self.make_ca()
        self.run("challtestsrv", [self.tools / "pebble-challtestsrv", "-dnsserver", f"127.0.0.1:{DNS}",
                                  "-management", f"127.0.0.1:{CHALL}", "-defaultIPv4", "127.0.0.1",
                                  "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""])
        self.authority = self.server = None

    def close(self):
        for program in reversed(self.programs):
            self.end(program)
        shutil.rmtree(self.directory, ignore_errors=True)

    def openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, cwd=self.directory,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def make_ca(self):
        """The authority's own certificate, and its issuer."""
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 9,
                     "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", "pebble.key", "-out", "pebble.csr", "-subj", "/CN=pebble")
        (self.directory / "ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self.openssl("x509", "-req", "-in", "pebble.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", 9,
                     "-CAcreateserial", "-extfile", "ext", "-out", "pebble.pem")

    def run(self, name, words, **environment):
        output = open(self.directory / f"{name}.log", "ab")
        program = subprocess.Popen(list(map(str, words)), stdout=output, stderr=output, cwd=self.directory,
                                   env={**os.environ, **environment})
        self.programs.append(program)
        return program

    def end(self, program, how=signal.SIGTERM):
        if program in self.programs:
            self.programs.remove(program)
        program.send_signal(how)
        try:
            program.wait(20)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()

    def pebble(self, life=7776000, eab=None, **environment):
        config = {
            "listenAddress": f"127.0.0.1:{CA}", "managementListenAddress": f"127.0.0.1:{MANAGE}",
            "certificate": "pebble.pem", "privateKey": "pebble.key", "httpPort": HTTP, "tlsPort": TLS,
            "ocspResponderURL": "", "externalAccountBindingRequired": bool(eab), "keyAlgorithm": "ecdsa",
            "retryAfter": {"authz": 1, "order": 1},
            "profiles": {"default": {"description": "one", "validityPeriod": life}},
        }
        if eab:
            config["externalAccountMACKeys"] = eab
        (self.directory / "pebble.json").write_text(json.dumps({"pebble": config}))
        settings = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0", **environment}
        self.authority = self.run("pebble", [self.tools / "pebble", "-config", "pebble.json", "-strict",
                                             "-dnsserver", f"127.0.0.1:{DNS}"], **settings)
        eventually("the authority answers", lambda: self.port(CA))

    def port(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            return False

    def acme(self, *domains, **more):
        acme = {"servers": self.server_of(CA), "email": "somebody@example.org", **more}
        if domains:
            acme["domains"] = list(domains)
        return acme

    def server_of(self, port, path="dir"):
        return {"directory": f"https://127.0.0.1:{port}/{path}", "ca": str(self.directory / "ca.pem")}

    def serve(self, acme):
        listeners = {f"127.0.0.1:{HTTP}": {"pass": "routes"},
                     f"127.0.0.1:{TLS}": {"pass": "routes", "tls": {"acme": acme}}}
        config = {"listeners": listeners, "routes": [{"action": {"share": f"{self.directory}/site$uri"}}]}
        (self.directory / "conf.json").write_text(json.dumps(config))
        words = [self.howdah, "serve", "--no-daemon", "--state", "state", "--control", "unix:control.sock",
                 "--log", "log"]
        self.server = self.run("howdah", words)
        eventually("the control API is there", lambda: (self.directory / "control.sock").exists())
        if not self.control("GET", "/config")["listeners"]:
            self.configure()

    def configure(self):
        self.control("PUT", "/config", (self.directory / "conf.json").read_bytes())

    def control(self, method, path, body=None):
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self.directory / "control.sock"))
        connection.request(method, path, body)
        response = connection.getresponse()
        text = response.read()
        assert response.status < 300, (response.status, text)
        return json.loads(text)

    def status(self, name):
        return self.control("GET", "/status").get("certificates", {}).get(f"acme:{name}", {})

    def plain(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{HTTP}/a.txt", timeout=10) as response:
            return response.read() == b"a file"

    def handshake(self, name, request=True):
        """The certificate that a name gets (DER); raises each problem."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", TLS), 30) as plain:
            with context.wrap_socket(plain, server_hostname=name) as stream:
                if request:
                    stream.sendall(f"GET /a.txt HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
                    answer = b""
                    while part := stream.recv(4096):
                        answer += part
                    assert answer.endswith(b"a file"), answer
                return stream.getpeercert(True)

    def has(self, name):
        """The certificate that a name gets, if it is for the name."""
        try:
            der = self.handshake(name)
        except (ssl.SSLError, OSError):
            return None
        found = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-checkhost", name], input=der,
                               capture_output=True).stdout
        return der if b"does match" in found else None

    def arrives(self, name, patience=PATIENCE):
        return eventually(f"there is a certificate for {name}", lambda: self.has(name), patience, self.explain)

    def explain(self):
        """The server's output."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return "\n".join([line for line in lines if "TLS handshake" not in line][-20:])

    def dns(self, what, **body):
        request = urllib.request.Request(f"http://127.0.0.1:{CHALL}/{what}", json.dumps(body).encode())
        urllib.request.urlopen(request, timeout=10).read()

    def hook(self, body=None):
        """A program that changes DNS records of the test's own server."""
        hook = self.directory / "hook"
        hook.write_text(body or f"""#!/bin/sh
echo "hook: $* for $CERTBOT_DOMAIN"
case $1 in
present) data='{{"host": "'$2'", "value": "'$3'"}}'; what=set-txt ;;
cleanup) data='{{"host": "'$2'"}}'; what=clear-txt ;;
esac
exec curl -sS --fail -d "$data" http://127.0.0.1:{CHALL}/$what
""")
        hook.chmod(0o755)
        return {"program": str(hook), "wait": 0, "timeout": 10}


def eventually(what, condition, patience=PATIENCE, explain=lambda: ""):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.2)
    raise AssertionError(f"never: {what}\n{explain()}")


def serial(der):
    text = subprocess.run(["openssl", "x509", "-inform", "DER", "-noout", "-serial", "-enddate"], input=der,
                          check=True, capture_output=True).stdout.decode()
    return re.search("serial=(.*)", text)[1]


# -- cases --

def certificates_arrive_by_every_way(machine):
    machine.pebble()
    machine.serve([machine.acme("http.test", "two.test", challenges="http"),
                   machine.acme("alpn.test", challenges="tls-alpn", key="rsa"),
                   machine.acme("*.dns.test", "dns.test", dns=machine.hook())])
    for name in ("http.test", "two.test", "alpn.test", "x.dns.test", "dns.test"):
        machine.arrives(name)
    assert "hook: cleanup _acme-challenge.dns.test." in machine.log.read_text()
    stored = list((machine.directory / "state/certs").iterdir())
    assert len(stored) == 4 and all(file.stat().st_mode & 0o777 == 0o600 for file in stored), stored
    assert (machine.directory / "state/certs").stat().st_mode & 0o777 == 0o700
    assert machine.control("GET", "/certificates")["acme:http.test"]["chain"]
    shown = machine.status("http.test")
    assert shown["expires"] and shown["renewal"]["next"] and not shown["renewal"]["error"], shown
    said = machine.control("GET", "/")
    assert "PRIVATE KEY" not in json.dumps(said) + machine.log.read_text()


def a_restart_orders_nothing(machine):
    machine.pebble()
    machine.serve(machine.acme("a.test"))
    first = serial(machine.arrives("a.test"))
    machine.end(machine.server)
    machine.end(machine.authority)
    machine.serve(machine.acme("a.test"))
    assert serial(machine.arrives("a.test")) == first


def half_of_all_nonces_are_refused_and_the_authority_sleeps(machine):
    machine.pebble(PEBBLE_WFE_NONCEREJECT="50", PEBBLE_VA_NOSLEEP="", PEBBLE_VA_SLEEPTIME="4")
    machine.serve([machine.acme(f"{n}.test") for n in range(6)])
    for number in range(6):
        machine.arrives(f"{number}.test", 120)


def renewals_under_load_cost_no_handshake(machine):
    machine.pebble(life=30)
    machine.serve(machine.acme("a.test"))
    machine.arrives("a.test")
    end, seen, failed, done = time.monotonic() + 75, set(), [], [0]

    def load():
        while time.monotonic() < end:
            try:
                seen.add(machine.handshake("a.test"))
                done[0] += 1
            except Exception as error:  # any exception is a failure
                failed.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(f"    {done[0]} handshakes, {len(seen)} certificates, {len(failed)} failures")
    assert not failed and len(seen) >= 3, failed[:3]


def an_authority_that_is_down_stops_nothing(machine):
    machine.serve(machine.acme("a.test"))
    assert machine.plain()
    eventually("the failure is shown", lambda: machine.status("a.test").get("renewal", {}).get("error"))
    assert machine.has("a.test") is None, "there is nothing to show yet"
    machine.pebble(life=30)
    machine.configure()  # which is a reason to try at once
    first = machine.arrives("a.test")
    machine.end(machine.authority)
    end = time.monotonic() + 45
    while time.monotonic() < end:  # it runs out meanwhile
        assert machine.handshake("a.test") == first and machine.plain()
        time.sleep(0.5)
    shown = machine.status("a.test")
    assert shown["renewal"]["failures"] >= 2 and shown["renewal"]["error"], shown
    # A server that does not know the account.
    machine.pebble(life=3600)
    machine.configure()
    eventually("there is another", lambda: machine.handshake("a.test") != first, 60, machine.explain)
    assert machine.status("a.test")["renewal"]["error"] is None


def what_cannot_be_proved_is_said_and_tried_again(machine):
    machine.pebble()
    machine.dns("add-a", host="a.test", addresses=["127.0.0.9"])
    machine.serve([machine.acme("a.test"), machine.acme("b.test")])
    machine.arrives("b.test")
    error = eventually("the failure is shown", lambda: machine.status("a.test")["renewal"]["error"])
    assert "a.test" in error and "tls-alpn" in error and "http" in error, error
    assert machine.status("a.test")["renewal"]["failures"] == 1
    orders = (machine.directory / "pebble.log").read_text().count("POST /order-plz")
    time.sleep(10)
    assert (machine.directory / "pebble.log").read_text().count("POST /order-plz") == orders, "it does not wait"
    machine.dns("clear-a", host="a.test")
    machine.configure()
    eventually("it is there", lambda: machine.status("a.test").get("expires"), 60, machine.explain)
    machine.arrives("a.test")


def a_program_for_dns_that_fails_or_hangs_is_ended(machine):
    machine.pebble()
    hook = machine.hook("#!/bin/sh\nsleep 1000\n")
    machine.serve(machine.acme("*.a.test", dns={**hook, "timeout": 2}))
    error = eventually("the failure is shown", lambda: machine.status("*.a.test")["renewal"]["error"])
    assert "took too long" in error, error
    (machine.directory / "hook").chmod(0o777)
    machine.configure()
    eventually("it is refused", lambda: "changed by other users" in machine.status("*.a.test")["renewal"]["error"])
    machine.hook()
    machine.configure()
    machine.arrives("x.a.test")


def the_next_authority_is_asked_if_one_fails(machine):
    machine.pebble()
    dead = machine.server_of(1)
    machine.serve(machine.acme("a.test", servers=[dead, machine.server_of(CA, "nowhere"), machine.server_of(CA)]))
    machine.arrives("a.test")


def an_account_that_the_authority_knows_is_bound(machine):
    key = base64.urlsafe_b64encode(b"k" * 32).decode().rstrip("=")
    machine.pebble(eab={"kid-1": key})
    server = {**machine.server_of(CA), "external_account": {"id": "kid-1", "key": key}}
    machine.serve([machine.acme("a.test", servers=server), machine.acme("b.test")])
    machine.arrives("a.test")
    error = eventually("the failure is shown", lambda: machine.status("b.test")["renewal"]["error"])
    assert "external" in error.lower(), error


def an_authority_that_wants_to_be_left_alone_is(machine):
    machine.pebble()
    orders = []

    class Front(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/order-plz":
                orders.append(time.monotonic())
            if self.path == "/order-plz" and len(orders) == 1:
                problem = {"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many", "status": 429}
                return self.answer(429, [("Retry-After", "15"), ("Content-Type", "application/problem+json")],
                                   json.dumps(problem).encode())
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection("127.0.0.1", CA, context=context, timeout=30)
            connection.request(self.command, self.path, body, dict(self.headers))
            response = connection.getresponse()
            answer = response.read()
            fields = [(n, v) for n, v in response.getheaders() if n.lower() not in ("content-length", "connection")]
            self.answer(response.status, fields, answer)

        def answer(self, status, fields, body):
            self.send_response_only(status)
            for name, value in fields:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = pass_on

        def log_message(self, *_):
            pass

    front = http.server.ThreadingHTTPServer(("127.0.0.1", FRONT), Front)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(machine.directory / "pebble.pem", machine.directory / "pebble.key")
    front.socket = context.wrap_socket(front.socket, server_side=True)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    try:
        machine.serve(machine.acme("a.test", servers=machine.server_of(FRONT)))
        error = eventually("the failure is shown", lambda: machine.status("a.test")["renewal"]["error"])
        assert "rateLimited" in error, error
        machine.configure()  # no reason to trouble it
        time.sleep(5)
        assert len(orders) == 1, orders
        time.sleep(11)
        machine.configure()
        machine.arrives("a.test")
        assert len(orders) == 2 and orders[1] - orders[0] >= 15, orders
    finally:
        front.shutdown()
        front.server_close()


def names_on_demand_are_asked_about(machine):
    machine.pebble()
    asked = []

    class Ask(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200 if "good" in self.path else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    ask = http.server.ThreadingHTTPServer(("127.0.0.1", ASK), Ask)
    threading.Thread(target=ask.serve_forever, daemon=True).start()
    try:
        machine.serve(machine.acme(on_demand={"ask": f"http://127.0.0.1:{ASK}/ask"}))
        results = []
        several = [threading.Thread(target=lambda: results.append(machine.handshake("good.test"))) for _ in range(8)]
        [thread.start() for thread in several]
        [thread.join() for thread in several]
        assert len(results) == 8 and len(set(results)) == 1, "the first handshake waits for it"
        assert machine.handshake("also.good.test") != results[0]
        for _ in range(3):
            assert machine.has("bad.test") is None
        for name in ("localhost", "nodot", "127.0.0.1"):
            assert machine.has(name) is None
        assert sum("bad.test" in path for path in asked) == 1, asked
        assert all(re.fullmatch(r"/ask\?domain=(also\.)?(good|bad)\.test", path) for path in asked), asked
        count = len(asked)
        machine.end(machine.server)
        machine.serve(machine.acme(on_demand={"ask": f"http://127.0.0.1:{ASK}/ask"}))
        assert machine.arrives("good.test") == results[0] and len(asked) == count
    finally:
        ask.shutdown()
        ask.server_close()


def a_router_that_dies_keeps_its_certificates(machine):
    machine.pebble()
    machine.serve(machine.acme("a.test"))
    first = machine.arrives("a.test")
    children = Path(f"/proc/{machine.server.pid}/task/{machine.server.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    eventually("it is served again", lambda: machine.has("a.test") == first)


def a_certificate_that_cannot_be_stored_is_used(machine):
    machine.pebble()
    (machine.directory / "state/certs").write_text("no directory")
    machine.serve(machine.acme("a.test"))
    machine.arrives("a.test")
    assert "it cannot be stored, and is lost at the next start" in machine.log.read_text()
    assert machine.status("a.test")["expires"]


CASES = [
    certificates_arrive_by_every_way,
    a_restart_orders_nothing,
    a_router_that_dies_keeps_its_certificates,
    a_certificate_that_cannot_be_stored_is_used,
    half_of_all_nonces_are_refused_and_the_authority_sleeps,
    renewals_under_load_cost_no_handshake,
    an_authority_that_is_down_stops_nothing,
    what_cannot_be_proved_is_said_and_tried_again,
    a_program_for_dns_that_fails_or_hangs_is_ended,
    the_next_authority_is_asked_if_one_fails,
    an_account_that_the_authority_knows_is_bound,
    an_authority_that_wants_to_be_left_alone_is,
    names_on_demand_are_asked_about,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--howdah", default="target/debug/howdah")
    parser.add_argument("--tools", default=".", help="where pebble and pebble-challtestsrv are")
    parser.add_argument("--only", action="append")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        return print("\n".join(case.__name__ for case in CASES))
    failed = 0
    for case in CASES:
        if arguments.only and case.__name__ not in arguments.only:
            continue
        begun, machine = time.monotonic(), Machine(arguments)
        try:
            case(machine)
            print(f"ok   {case.__name__} ({time.monotonic() - begun:.0f} s)", flush=True)
        except Exception:  # the other cases are of interest too
            failed += 1
            print(f"FAIL {case.__name__}\n{traceback.format_exc()}\n{machine.explain()}", flush=True)
        finally:
            machine.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
