"""Cases of mod_proxy, and those whose settings are those of the whole server. See apache_rows.py."""

from apache_rows import DENIED, ONE, Case, step

# {group: the common part of its cases}. Each group is a process of each server.
GROUPS = {
    "sites": {
        "modules": "mpm_prefork authz_core authn_core dir mime alias rewrite env setenvif headers expires proxy proxy_http autoindex php",
        "apache": "",
    },
    "server": {
        "modules": "mpm_event authz_core authn_core dir mime alias headers proxy proxy_http proxy_balancer slotmem_shm "
                   "lbmethod_byrequests http2",
        "apache": """
            ServerTokens Prod
            LimitRequestFields 5
            LimitRequestFieldSize 1000
            LimitRequestLine 1000
            Timeout 1
            ProxyTimeout 60
            Protocols h2c http/1.1
            CustomLog @TMP@/apache/document.log common
            ServerLimit 1
            StartServers 1""",
        "settings": {"http": {"server_version": False, "max_header_fields": 5, "large_header_buffer_size": 1000,
                              "large_header_buffers": 8, "body_read_timeout": 1, "send_timeout": 1}},
        "listener": {"http2": True},
        "document": {"access_log": {"path": "@TMP@/howdah/document.log", "format": "common"}},
    },
}

BACK = "ProxyAddHeaders Off\nProxyPass /back/ http://@ONE@/app/\n"


def proxied(name, rows, apache, steps, requests, upstream=None, **more):
    """A case with an upstream of its own."""
    own = {"upstreams": {name: upstream or {"servers": {"@ONE@": {}}}}}
    return Case(name, rows, apache, steps, requests, own=own, group="server", **more)


def passed(name, uri="~^/back/(.*)", **keys):
    return step({"rewrite": "/app/$1", "pass": f"upstreams/{name}"} | keys, uri=uri)


def balanced(name, rows, members, servers, requests, extra="", **more):
    apache = f"<Proxy balancer://{name}>\n{members}\n</Proxy>\nProxyPass /back/ balancer://{name}/app/\n{extra}"
    upstream = {"servers": servers} | more.pop("upstream", {})
    return proxied(name, rows, apache, [passed(name)], requests, upstream, **more)


PROXY_CASES = [
    proxied("proxy-pass", "ProxyPass ProxyPassReverse ProxyPassReverseCookieDomain ProxyPassReverseCookiePath", """
        ProxyAddHeaders Off
        ProxyPass /back/no !
        ProxyPass /back/ http://@ONE@/app/
        ProxyPassReverse /back/ http://@ONE@/app/
        ProxyPassReverseCookieDomain backend.test front.test
        ProxyPassReverseCookiePath /app/ /back/""",
            [step({"share": "@SRV@$uri"}, uri=["/back/no*"]), passed("proxy-pass"), step({"share": "@SRV@$uri"})],
            ["GET /back/a?x=y", "GET /back/a%20b", "GET /back/", "GET /back/redirect", "GET /back/cookie", "GET /back/no/x", "GET /a.txt",
             "POST /back/form || a=b", "PUT /back/a || x", "HEAD /back/a", "GET /back/status/500", "GET /back/a | X-Own: 1 | Cookie: a=b"],
            {"servers": {"@ONE@": {}}, "host": "@ONE@", "rewrite_location": {"http://@ONE@/app/": "/back/"},
             "cookie_domain": {"backend.test": "front.test"}, "cookie_path": {"/app/": "/back/"}}),
    proxied("proxy-match", "ProxyPassMatch ProxyPreserveHost", """
        ProxyAddHeaders Off
        ProxyPreserveHost On
        ProxyPassMatch "^/m/(.*\\.gif)$" "http://@ONE@/images/$1" """,
            [step({"rewrite": "/images/$1", "pass": "upstreams/proxy-match"}, uri="~^/m/(.*\\.gif)$")],
            ["GET /m/a.gif?x", "GET /m/sub/a.gif", "GET /m/a.png"]),
    proxied("forwarded", "ProxyAddHeaders", "ProxyPreserveHost On\nProxyPass /back/ http://@ONE@/app/",
            [passed("forwarded", forwarded="x-forwarded")],
            ["GET /back/a", "GET /back/a | X-Forwarded-For: 10.0.0.1"],
            but={"GET /back/a | X-Forwarded-For: 10.0.0.1": (200, 200, "fields of the client are replaced")}),
    proxied("error-override", "ProxyErrorOverride", BACK + "ProxyErrorOverride On\nProxyPreserveHost On\nErrorDocument 503 /e404.html",
            [passed("error-override", intercept_errors=True, error_pages={"503": "@SRV@/e404.html"})],
            ["GET /back/status/503", "GET /back/status/404", "GET /back/status/200", "GET /back/status/299", "HEAD /back/status/503"],
            but={"GET /back/status/404": (404, 404, "only statuses with a page")}),
    proxied("proxy-timeout", "ProxyTimeout", BACK + "ProxyTimeout 1", [passed("proxy-timeout", timeouts={"first_byte": 1})],
            ["GET /back/silence"],
            but={"GET /back/silence": (502, 504, "504")}),
    proxied("proxy-sections", "<Proxy> <ProxyMatch>", """
        <Proxy "http://@ONE@/app/closed*">
            Require all denied
        </Proxy>
        <ProxyMatch "^http://@ONE@/app/(x|y)/">
            Require all denied
        </ProxyMatch>
        ProxyPreserveHost On
        """ + BACK, [step(DENIED, uri=["/back/closed*", "~^/back/(x|y)/"]), passed("proxy-sections")],
            ["GET /back/closed/a", "GET /back/x/a", "GET /back/y/a", "GET /back/z/a"]),
    balanced("weights", "BalancerMember", "BalancerMember http://@ONE@\nBalancerMember http://@TWO@ loadfactor=2",
             {"@ONE@": {}, "@TWO@": {"weight": 2}}, ["9 × GET /back/a"]),
    balanced("backup", "BalancerMember", "BalancerMember http://@DEAD@\nBalancerMember http://@TWO@ status=+H",
             {"@DEAD@": {}, "@TWO@": {"backup": True}}, ["3 × GET /back/a"], upstream={"tries": 2, "failures": {}}),
    balanced("drain", "BalancerMember", "BalancerMember http://@ONE@ status=+N\nBalancerMember http://@TWO@",
             {"@ONE@": {"drain": True}, "@TWO@": {}}, ["4 × GET /back/a"]),
    balanced("sticky", "ProxySet", "BalancerMember http://@ONE@ route=a\nBalancerMember http://@TWO@ route=b\nProxySet stickysession=SERVER",
             {"@ONE@": {}, "@TWO@": {}}, ["session GET /back/a"], upstream={"sticky": {"cookie": "SERVER"}},
             extra='Header add Set-Cookie "SERVER=x.%{BALANCER_WORKER_ROUTE}e; path=/" env=BALANCER_ROUTE_CHANGED'),
    balanced("fail-on-status", "ProxySet", "BalancerMember http://@ONE@ retry=600\nBalancerMember http://@TWO@ status=+H\n"
             "ProxySet failonstatus=503 lbmethod=byrequests timeout=50",
             {"@ONE@": {}, "@TWO@": {"backup": True}}, ["GET /back/switch", "3 × GET /back/switch"],
             upstream={"tries": 2, "retry": {"on": 503}, "failures": {}, "balance": "round_robin", "timeouts": {"first_byte": 50}},
             but={"GET /back/switch": (503, 200, "asks another server at once")}),
    Case("tokens", "ServerTokens", "", [step({"share": "@SRV@$uri"})], ["GET /a.txt", "GET /none"], group="server"),
    Case("fields", "LimitRequestFields LimitRequestFieldsize LimitRequestLine", "", [step({"share": "@SRV@$uri"})],
         ["GET /a.txt | A: 1 | B: 2 | C: 3", "GET /a.txt | A: 1 | B: 2 | C: 3 | D: 4", "GET /a.txt | A: " + "a" * 900,
          "GET /a.txt | A: " + "a" * 1100, "GET /a.txt?" + "a" * 900, "GET /a.txt?" + "a" * 1100],
         but={"GET /a.txt | A: 1 | B: 2 | C: 3 | D: 4": (400, 431, "431"), "GET /a.txt | A: " + "a" * 1100: (400, 431, "431")},
         group="server"),
    proxied("timeout", "Timeout", BACK, [passed("timeout")], ["POST /back/a | Content-Length: 10 || abc"]),
    Case("global-log", "GlobalLog CustomLog", "", [step({"share": "@SRV@$uri"})], ["GET /logged", "GET /a.txt?/logged"],
         group="server", logs=["document.log"]),
    Case("protocols", "Protocol Protocols ProtocolsHonorOrder", "", [step({"share": "@SRV@$uri"})], ["h2c"], group="server"),
]
