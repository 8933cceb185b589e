"""The modules geo, map and split_clients."""

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


CASES = [
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
