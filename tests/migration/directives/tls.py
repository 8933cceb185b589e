"""The modules ssl, v2, gzip, gzip_static and referer."""

import gzip
import re
import socket
import ssl
import subprocess
import time

from . import Case

WWW = {"share": "/srv/www$uri"}
CERTIFICATE = "ssl_certificate /srv/tls/chain.pem; ssl_certificate_key /srv/tls/key.pem;"
PAIR = {"chain": "/srv/tls/chain.pem", "key": "/srv/tls/key.pem"}


def encoded(request):
    def response(side):
        """Status, encoding and decoded body; whether a cache learns that the encoding depends on the request."""
        status, fields, body = side.ask(request)
        encoding = fields.get("content-encoding")
        if encoding == "gzip":
            return status, encoding, gzip.decompress(body), "accept-encoding" in fields.get("vary", "").lower()
        return status, encoding, body
    return response


def must_be(found, expected):
    """A value that both servers could fail to have."""
    if found != expected:
        raise AssertionError(f"{found!r} in place of {expected!r}")
    return found


def connected(side, context, session=None, after=None, names=()):
    """A property of a connection once it has a response, or "refused". The client requests the first name, or that of the side."""
    name = [*names, side.host][0]
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", side.port), 60) as client:
            with context.wrap_socket(client, server_hostname=name, session=session) as stream:
                stream.sendall(side.bytes_of("GET /a.txt"))
                data = b""
                while part := stream.recv(65536):
                    data += part
                return after(stream, data) if data else "refused"
    except (ssl.SSLError, ConnectionError):
        return "refused"


def context_of(**settings):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def versions(side):
    """The version of TLS that clients get which know one, or both."""
    newest = {"minimum_version": ssl.TLSVersion.TLSv1_3}
    oldest = {"maximum_version": ssl.TLSVersion.TLSv1_2}
    return [connected(side, context_of(**known), after=lambda stream, _: stream.version()) for known in (newest, oldest, {})]


def cipher(side):
    return connected(side, context_of(), after=lambda stream, _: stream.cipher()[0])


def group(side):
    """The group of the key exchange."""
    shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{side.port}", "-groups", "P-384:P-256"],
                           input=b"", capture_output=True, timeout=60).stdout.decode()
    # The words of OpenSSL 3.0, and of 3.5.
    found = re.search(r"Temp Key: ECDH, (\w+)|TLS1\.3 group: (\w+)", shown)
    return must_be(found and (found[1] or found[2]).replace("secp256r1", "prime256v1"), "prime256v1")


def stapled(side):
    """The server's statement about its certificate in the handshake."""
    shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{side.port}", "-status"],
                           input=b"", capture_output=True, timeout=60).stdout.decode()
    return must_be(re.findall(r"OCSP Response Status: (\w+)|Cert Status: (\w+)", shown), [("successful", ""), ("", "good")])


def resumed(expected, pause=0.0):
    def is_resumed(side):
        """A second connection resumes the session of the first, or does not."""
        context = context_of(maximum_version=ssl.TLSVersion.TLSv1_2)
        session = connected(side, context, after=lambda stream, _: stream.session)
        time.sleep(pause)
        return must_be(connected(side, context, session, lambda stream, _: stream.session_reused), expected)
    return is_resumed


def client_certificate(expected):
    def verdicts(side):
        """Results of clients with and without a certificate: the verdict of the server, or no page."""
        return must_be(verdicts_on_clients(side), expected)
    return verdicts


def verdicts_on_clients(side):
    found = []
    for has_certificate in (True, False):
        context = context_of()
        if has_certificate:
            context.load_cert_chain(side.tmp / "srv/tls/chain.pem", side.tmp / "srv/tls/key.pem")
        verdict = connected(side, context, after=lambda _, data: re.findall(rb"(?i)x-verify: (\w+)", data) if b" 200 " in data[:15] else "refused")
        found.append(verdict)
    return found


def refused_names(side):
    """Which clients are refused: those that request no name of the certificate, or no name."""
    names = ("www.example.org", side.host, None)
    found = [connected(side, context_of(), after=lambda *_: "served", names=[name]) for name in names]
    return must_be(found, ["served", "refused", "refused"])


def protocol_of(side):
    """The protocol that is negotiated with a client of HTTP/2."""
    context = context_of()
    context.set_alpn_protocols(["h2", "http/1.1"])
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", side.port), 60) as client, context.wrap_socket(client, server_hostname=side.host) as stream:
        return stream.selected_alpn_protocol()


def with_tls(name, rows, directives, settings, requests, listen="ssl", **more):
    return Case(name, rows, f"root /srv/www; {CERTIFICATE} {directives}", requests, WWW | more.pop("action", {}), listen=listen,
                listener={"tls": {"certificate": PAIR} | settings}, **more)


GZIP = " | Accept-Encoding: gzip"
LARGE = {"www/large.css": "a { color: red }\n" * 500, "www/small.css": "a { }\n", "www/packed.txt": "as it is\n", "www/packed.txt.gz": "a copy\n",
         "www/off/large.css": "a { color: red }\n" * 500}

CASES = [
    Case("gzip", "gzip gzip_types gzip_comp_level gzip_min_length gzip_vary", """
        root /srv/www; gzip on; gzip_types text/css; gzip_comp_level 9; gzip_min_length 1000; gzip_vary on; location /off/ { gzip off; }
        """, [encoded(f"GET /large.css{GZIP}"), encoded("GET /large.css"), encoded(f"GET /small.css{GZIP}"), encoded(f"GET /large.txt{GZIP}"),
              encoded(f"GET /off/large.css{GZIP}"), encoded("GET /large.css | Accept-Encoding: gzip;q=0")],
         routes=[{"match": {"uri": "/off/*"}, "action": WWW | {"compress": False}}, {"action": WWW}], listener={}, group="gzip", files=LARGE,
         document={"settings": {"http": {"compression": {"types": ["text/html", "text/css"], "compressors": {
             "encoding": "gzip", "level": 9, "min_length": 1000}}}}}),
    Case("gzip-static", "gzip_static", "root /srv/www; gzip_static on;",
         [f"200 GET /packed.txt{GZIP}", "200 GET /packed.txt", f"200 GET /a.txt{GZIP}", f"200 HEAD /packed.txt{GZIP}"], WWW, listener={}, group="gzip",
         files=LARGE, fields="content-length"),
    Case("referer", "valid_referers", """
        root /srv/www; valid_referers none blocked example.org *.example.org; if ($invalid_referer) { return 403; }
        """, ["200 GET /a.txt", "200 GET /a.txt | Referer: https://example.org/page?x", "200 GET /a.txt | Referer: http://www.example.org:8080/",
              "403 GET /a.txt | Referer: https://other.test/https://example.org/", "403 GET /a.txt | Referer: http://example.org.other.test/",
              "200 GET /a.txt | Referer: hidden", "403 GET /a.txt | Referer: http://notexample.org/"],
         routes=[{"match": {"headers": {"Referer": ["http*", "!~^https?://([^/]+\\.)?example\\.org[:/]"]}}, "action": {"return": 403}}, {"action": WWW}]),
    with_tls("ssl", "ssl ssl_certificate ssl_certificate_key ssl_protocols", "ssl_protocols TLSv1.2 TLSv1.3;",
             {"conf_commands": {"MinProtocol": "TLSv1.2"}}, [versions, "200 GET /a.txt"]),
    with_tls("ssl-new", "ssl_protocols ssl_ecdh_curve ssl_conf_command",
             "ssl_protocols TLSv1.3; ssl_ecdh_curve secp256r1; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;",
             {"conf_commands": {"MinProtocol": "TLSv1.3", "Groups": "P-256", "Ciphersuites": "TLS_CHACHA20_POLY1305_SHA256"}},
             [versions, cipher, group]),
    with_tls("ssl-ciphers", "ssl_ciphers ssl_prefer_server_ciphers ssl_protocols", """
             ssl_protocols TLSv1.2; ssl_ciphers ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-GCM-SHA384; ssl_prefer_server_ciphers on;
             """, {"conf_commands": {"MaxProtocol": "TLSv1.2", "Options": "ServerPreference",
                                     "CipherString": "ECDHE-RSA-CHACHA20-POLY1305:ECDHE-RSA-AES256-GCM-SHA384"}}, [versions, cipher]),
    with_tls("ssl-cache", "ssl_session_cache ssl_session_timeout", "ssl_session_cache shared:cached:1m; ssl_session_timeout 1h; ssl_session_tickets off;",
             {"session": {"cache_size": 100, "timeout": 3600}}, [resumed(True)]),
    with_tls("ssl-cache-short", "ssl_session_cache ssl_session_timeout", "ssl_session_cache shared:short:1m; ssl_session_timeout 1s; ssl_session_tickets off;",
             {"session": {"cache_size": 100, "timeout": 1}}, [resumed(False, 3)]),
    with_tls("ssl-tickets", "ssl_session_tickets", "ssl_session_tickets on;", {"session": {"tickets": True}}, [resumed(True)]),
    with_tls("ssl-no-tickets", "ssl_session_tickets", "ssl_session_tickets off;", {}, [resumed(False)]),
    Case("ssl-stapling", "ssl_stapling_file", f"root /srv/www; {CERTIFICATE} ssl_stapling on; ssl_stapling_file /srv/tls/ocsp.der;", [stapled],
         WWW, listen="ssl", listener={"tls": {"certificate": PAIR | {"ocsp": "/srv/tls/ocsp.der"}}}),
    with_tls("ssl-clients", "ssl_client_certificate ssl_verify_client",
             "ssl_client_certificate /srv/tls/chain.pem; ssl_verify_client on; add_header X-Verify $ssl_client_verify;",
             {"client_certificates": {"authorities": "/srv/tls/chain.pem"}}, [client_certificate([[b"SUCCESS"], "refused"])],
             action={"response_headers": {"X-Verify": "$ssl_client_verify"}}),
    with_tls("ssl-some-clients", "ssl_client_certificate ssl_verify_client",
             "ssl_client_certificate /srv/tls/chain.pem; ssl_verify_client optional; add_header X-Verify $ssl_client_verify;",
             {"client_certificates": {"authorities": "/srv/tls/chain.pem", "optional": True}}, [client_certificate([[b"SUCCESS"], [b"NONE"]])],
             action={"response_headers": {"X-Verify": "$ssl_client_verify"}}),
    with_tls("ssl-revoked", "ssl_crl",
             "ssl_client_certificate /srv/tls/chain.pem; ssl_verify_client on; ssl_crl /srv/tls/revoked-own.pem; add_header X-Verify $ssl_client_verify;",
             {"client_certificates": {"authorities": "/srv/tls/chain.pem", "revoked": "/srv/tls/revoked-own.pem"}},
             [client_certificate(["refused", "refused"])], action={"response_headers": {"X-Verify": "$ssl_client_verify"}}),
    with_tls("ssl-not-revoked", "ssl_crl",
             "ssl_client_certificate /srv/tls/chain.pem; ssl_verify_client on; ssl_crl /srv/tls/revoked-none.pem; add_header X-Verify $ssl_client_verify;",
             {"client_certificates": {"authorities": "/srv/tls/chain.pem", "revoked": "/srv/tls/revoked-none.pem"}},
             [client_certificate([[b"SUCCESS"], "refused"])], action={"response_headers": {"X-Verify": "$ssl_client_verify"}}),
    Case("ssl-reject", "ssl_reject_handshake", f"""
        ssl_reject_handshake on; }} server {{ listen 127.0.0.1:PORT ssl; server_name www.example.org; root /srv/www; {CERTIFICATE}
        """, [refused_names], WWW, listen="ssl", listener={"tls": {"certificate": PAIR, "refuse_unknown_names": True}}),
    with_tls("http2", "http2", "", {}, [protocol_of], listen="ssl http2"),
]
