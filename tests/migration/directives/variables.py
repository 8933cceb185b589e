"""The modules geo, map, split_clients and secure_link."""

import base64
import hashlib

from . import Case

# `$arg_x` is the text that is looked up, and the field `X` shows the value.


def shown(variable):
    return {"return": 204, "response_headers": {"X": f"${variable}."}}


def shares(side):
    """The shares of 400 visitors: each value occurs about as often as configured, and always for the same visitors."""
    def values():
        return [side.ask(f"GET /?x={number}")[1]["x"] for number in range(200)]
    first = values()
    return 20 < first.count("new.") < 90 and first.count("new.") + first.count("old.") == 200 and first == values()


def signed(text):
    return base64.urlsafe_b64encode(hashlib.md5(text.encode()).digest()).decode().rstrip("=")


def hexed(text):
    return hashlib.md5(text.encode()).hexdigest()


LINKS = [f"200 GET /a.txt?md5={signed('4000000000/a.txt secret')}&expires=4000000000", f"410 GET /a.txt?md5={signed('1000/a.txt secret')}&expires=1000",
         f"403 GET /b.txt?md5={signed('4000000000/a.txt secret')}&expires=4000000000", f"403 GET /a.txt?md5={signed('/a.txt secret')}&expires=",
         f"403 GET /a.txt?md5={signed('0/a.txt secret')}&expires=0", f"403 GET /a.txt?md5={signed('x/a.txt secret')}&expires=x",
         f"403 GET /a.txt?md5={signed('4000000000/a.txt secret')}&expires=4000000001", "403 GET /a.txt", "403 GET /a.txt?md5=,&expires=,",
         f"200 GET /a.txt?md5={signed('4000000000/a.txt secret')}==&expires=4000000000"]
SECRET_LINKS = [f"204 GET /p/{hexed(link + 'word')}/{link}" for link in ["a", "a/b.txt", "a?b=c"]] + [
    f"403 GET /p/{hexed('aword')}/b", "403 GET /p/a", f"403 GET /p/{hexed('aword')[:30]}/a", f"204 GET /q/{hexed('aword').upper()}/a", "403 GET /"]

CASES = [
    Case("secure-link", "secure_link secure_link_md5", """
        root /srv/www; secure_link $arg_md5,$arg_expires; secure_link_md5 "$secure_link_expires$uri secret";
        if ($secure_link = "") { return 403; } if ($secure_link = "0") { return 410; }""", LINKS,
         routes=[{"match": {"if": "$linked"}, "action": {"share": "/srv/www$uri"}}, {"match": {"if": "$expired"}, "action": {"return": 410}},
                 {"action": {"return": 403}}],
         document={"variables": {"linked": {"secure_link": "${arg_md5},$arg_expires", "md5": "$secure_link_expires$uri secret"},
                                 "expired": {"map": "$linked", "values": {"0": "1"}}}}),
    Case("secure-link-secret", "secure_link_secret", """
        secure_link_secret word; if ($secure_link = "") { return 403; } add_header X $secure_link.; return 204;""", SECRET_LINKS,
         routes=[{"match": {"if": "$signed"}, "action": shown("signed")}, {"action": {"return": 403}}],
         document={"variables": {"signed": {"secure_link": "$request_uri", "secret": "word"}}}, fields="x"),
    Case("map", "map", "add_header X $mapped.; return 204;", [
        "204 GET /?x=one", "204 GET /?x=ONE", "204 GET /?x=abc.example", "204 GET /?x=example", "204 GET /?x=b12", "204 GET /?x=B12",
        "204 GET /?x=C12", "204 GET /?x=other", "204 GET /", "204 GET /?x=empty", "204 GET /?x=var",
    ], shown("mapped"), http="""map $arg_x $mapped { one 1; ~^b[0-9]+ two; ~*^c[0-9]+ three; "" nothing; empty ""; var $request_method; default d; }""",
         document={"variables": {"mapped": {"map": "$arg_x", "default": "d", "values": {
             "one": "1", "~^b[0-9]+": "two", "~(?i)^c[0-9]+": "three", "": "nothing", "empty": "", "var": "$method"}}}}, fields="x"),
    Case("map-hosts", "map", "add_header X $by_host.; return 204;",
         ["204 GET / | Host: map-hosts.test", "204 GET / | Host: a.b.map-hosts.test", "204 GET / | Host: x.map-hosts.test"], shown("by_host"),
         http="map $host $by_host { hostnames; map-hosts.test exact; x.map-hosts.test x; *.map-hosts.test star; default d; }",
         document={"variables": {"by_host": {"map": "$host", "default": "d", "values": {
             "map-hosts.test": "exact", "x.map-hosts.test": "x", "*.map-hosts.test": "star"}}}}, fields="x"),
    Case("map-include", "map", "add_header X $from_file.; return 204;", ["204 GET /?x=a", "204 GET /?x=b"], shown("from_file"),
         http="map $arg_x $from_file { include /srv/tables/map.conf; default d; }", fields="x",
         document={"variables": {"from_file": {"map": "$arg_x", "default": "d", "values": "/srv/tables/map.json"}}},
         files={"tables/map.conf": "a 1;\n", "tables/map.json": '{"a": "1"}\n'}),
    Case("geo", "geo", "add_header X $network.; return 204;", [
        "204 GET /?x=10.1.2.3", "204 GET /?x=10.2.0.1", "204 GET /?x=192.0.2.1", "204 GET /?x=127.0.0.1", "204 GET /?x=fd00::1", "204 GET /?x=none",
    ], shown("network"), http="geo $arg_x $network { default d; 10.0.0.0/8 ten; 10.2.0.0/16 smaller; 192.0.2.1 one; fd00::/8 six; }",
         document={"variables": {"network": {"geo": "$arg_x", "default": "d", "values": {
             "10.0.0.0/8": "ten", "10.2.0.0/16": "smaller", "192.0.2.1": "one", "fd00::/8": "six"}}}}, fields="x"),
    Case("geo-client", "geo", "if ($inside) { return 204; } return 403;", ["204 GET /"],
         routes=[{"match": {"if": "$inside"}, "action": {"return": 204}}, {"action": {"return": 403}}],
         http="geo $inside { default 0; 127.0.0.0/8 1; }",
         document={"variables": {"inside": {"geo": "$remote_addr", "values": {"127.0.0.0/8": "1"}, "default": "0"}}}),
    Case("split", "split_clients", "add_header X $design.; return 204;", [shares], shown("design"),
         http="split_clients $arg_x $design { 25% new; * old; }",
         document={"variables": {"design": {"split": "$arg_x", "values": {"new": 25}, "default": "old"}}}),
]
