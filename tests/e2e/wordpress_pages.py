"""Every page of the WordPress site, compared with Apache and mod_php."""

import json
from urllib.parse import urlencode

import servers
from compare import Accepted, Comparison, Mask, Request, crawl, fetch
from report import Failure, equal

# WordPress's own rules, as it writes them for Apache.
REWRITE = """
    RewriteEngine On
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
    RewriteBase /
    RewriteRule ^index\\.php$ - [L]
    RewriteCond %{REQUEST_FILENAME} !-f
    RewriteCond %{REQUEST_FILENAME} !-d
    RewriteRule . /index.php [L]
"""

MASKS = (
    Mask(rb'secret=(\\?"|)[A-Za-z0-9]{10}\b', "an embedded post's secret: random in each answer"),
    Mask(rb'data-pw="[^"]*"', "a suggested password: random in each answer"),
    Mask(rb"[012]\.gravatar\.com", "without an address to hash, the host is random"),
    Mask(rb"<kbd>\w{8}</kbd>", "suggested mail boxes: random in each answer"),
    Mask(rb'mailto:[^"]*">[^<]*<', "WordPress hides addresses by random entities"),
    Mask(rb'<p><a href="https://wordpress\.org/support/article/nginx/">[^<]*</a>\.</p>',
         "help on rewriting, shown where the server is not Apache", b""),
    Mask(rb'"activePostLock":"\d+:\d+"', "when the editor was opened"),
    Mask(rb'"time":"\d{10}"', "the time of the answer"),
    Mask(rb"time is <code>[-0-9: ]{19}</code>", "the time of the answer"),
)

ACCEPTED = (
    # A plug-in brings `.htaccess` files, so they are read, with the compression of Debian's Apache.
    Accepted(r".", "vary", "a page that could be compressed may be kept by caches in both forms; the Apache of "
             "this test does not compress"),
    Accepted(r"^GET /(wp-includes|wp-content/themes)/$", "status 404",
             "a directory without an index is no file, so WordPress answers it: not found; "
             "Apache refuses to list it"),
    Accepted(r"^GET /wp-includes/css/dashicons\.min\.css \[Range: bytes=99999999-\]$", "content-range",
             "RFC 9110 wants the length in a 416; Apache leaves it out"),
    Accepted(r"^GET /wp-includes/css/dashicons\.min\.css \[If-Modified-Since: ", "last-modified",
             "RFC 9110 wants no more than the ETag in a 304 that has one"),
    Accepted(r"^GET /wp-admin/post-new\.php", "body",
             "each request makes a draft, whose number and nonces are all over the page; "
             "/wp-admin/post.php?post=1&action=edit is the same page and is compared"),
)

SEEDS = (
    "/", "/?p=1", "/?page_id=2", "/index.php", "/index.php?p=1", "/hello-world", "/HELLO-WORLD/",
    "/a-howdah-crosses-the-dunes/", "/about-the-caravan/", "/category/uncategorized/",
    "/tag/desert/", "/author/mahout/", "/?author=1", "/?s=dunes", "/?s=", "/search/dunes/",
    "/page/2/", "/?cat=1", "/?m=202601", "/2026/", "/wp-login.php",
    "/wp-login.php?action=lostpassword", "/wp-admin", "/wp-admin/", "/admin", "/login",
    "/feed/", "/feed/atom/", "/feed/rdf/", "/comments/feed/", "/hello-world/feed/", "/?feed=rss2",
    "/wp-sitemap.xml", "/wp-sitemap.xsl", "/sitemap.xml", "/robots.txt", "/favicon.ico",
    "/xmlrpc.php", "/xmlrpc.php?rsd", "/wp-cron.php", "/wp-comments-post.php", "/wp-trackback.php",
    "/wp-links-opml.php", "/wp-signup.php", "/wp-activate.php", "/wp-mail.php", "/wp-load.php",
    "/wp-config.php", "/readme.html", "/wp-admin/install.php", "/wp-admin/setup-config.php",
    "/wp-admin/admin-ajax.php", "/wp-includes/version.php",
    "/no/such/page/", "/no-such.php", "/wp-content/no-such.png", "/wp-content/uploads/no/such.jpg",
    "/wp-includes", "/wp-content/themes", "/index.php/hello-world/", "/hello-world/2/",
    "/%68ello-world/", "/hello-world//", "//hello-world/", "/caf%C3%A9/", "/a%20b/",
    "/hello-world/?utm_source=x%20y&z[]=1&z[]=2", "/wp-login.php/extra/path",
    # the REST API
    "/wp-json/", "/wp-json", "/?rest_route=/", "/wp-json/wp/v2/posts", "/wp-json/wp/v2/posts/1",
    "/wp-json/wp/v2/posts?per_page=1&page=2&_fields=id,slug", "/wp-json/wp/v2/pages",
    "/wp-json/wp/v2/categories", "/wp-json/wp/v2/tags", "/wp-json/wp/v2/media",
    "/wp-json/wp/v2/comments", "/wp-json/wp/v2/users", "/wp-json/wp/v2/types",
    "/wp-json/wp/v2/settings", "/wp-json/wp/v2/posts/999999", "/wp-json/no/such/route",
    "/wp-json/oembed/1.0/embed?url=http%3A%2F%2F{host}%2Fhello-world%2F",
    "/wp-json/wp/v2/posts?per_page=0",
)

ADMINISTRATION = (
    "/wp-admin/", "/wp-admin", "/wp-admin/index.php", "/wp-admin/post.php?post=1&action=edit",
    "/wp-admin/profile.php", "/wp-admin/no-such.php", "/wp-admin/admin.php?page=no-such",
    "/wp-admin/edit.php?s=dunes", "/wp-admin/upload.php?mode=grid", "/wp-admin/update-core.php",
    "/wp-admin/load-styles.php?c=0&dir=ltr&load%5B%5D=dashicons,admin-bar,common",
    "/wp-admin/load-scripts.php?c=0&load%5B%5D=jquery-core,jquery-migrate,utils",
    "/wp-admin/admin-ajax.php?action=rest-nonce", "/wp-json/wp/v2/users/me",
)


def compare(site):
    """The steps of the comparison."""
    oracle = site.session.oracle("wordpress", site.root, REWRITE)
    comparison = Comparison(site.server, oracle, site.own, MASKS, ACCEPTED)
    seeds = [seed.replace("{host}", site.own) for seed in SEEDS]

    def step(name, differences):
        with site.step(f"wordpress: {name} as with Apache"):
            found = differences()
            site.session.report.note(f"answers compared: {comparison.summary()}")
            if found:
                raise Failure("\n".join(found))

    step("every page and asset for a visitor",
         lambda: crawl(comparison, seeds, wanted=wanted_by_visitor))
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}"
                        for cookie in site.admin.context.cookies(f"{site.base}/wp-admin/"))
    with site.step("wordpress: the login counts on both servers", needed=True):
        for server in (site.server, oracle):
            answer = fetch(server.port, site.own, Request("/wp-admin/", headers=(("Cookie", cookies),)))
            equal(f"status of /wp-admin/ on {server.title}", answer.status, 200)
    pages = [link.removeprefix(site.base) for link in site.menu()]
    step("every page of the administration",
         lambda: crawl(comparison, [*ADMINISTRATION, *pages], [("Cookie", cookies)],
                       wanted=lambda path, page: not page and wanted_by_visitor(path, page)))
    step("other methods, forms and conditional requests",
         lambda: [text for request in other_requests(comparison)
                  for text in comparison.compare(request)[0]])
    if site.session.howdah:
        with site.step("wordpress: pages, assets and forms through PHP-FPM as with Apache"):
            through_fpm(site, oracle, cookies)
    site.session.note_accepted(comparison)


def through_fpm(site, oracle, cookies):
    """A few pages of each kind, with PHP-FPM behind Howdah and a connection kept to it."""
    directory = site.session.directory / "wordpress"
    fpm = site.session.own(servers.Fpm(directory / "fpm"))
    front = {"share": f"{site.root}$uri", "index": ["index.php"], "scripts": "applications/blog/direct",
             "fallback": {"pass": "applications/blog/front"}}
    targets = {"direct": {"root": str(site.root)},
               "front": {"root": str(site.root), "script": "index.php"}}
    blog = {"type": "fastcgi", "server": fpm.address, "keepalive": 1, "targets": targets}
    server = site.session.own(servers.Howdah(
        site.session.howdah, directory / "before-fpm", site.root, lambda address: {
            "listeners": {address: {"pass": "routes"}}, "routes": [{"action": front}],
            "applications": {"blog": blog}}))
    comparison = Comparison(server, oracle, site.own, MASKS, ACCEPTED)
    paths = ("/", "/a-howdah-crosses-the-dunes/", "/wp-login.php", "/wp-includes/css/dashicons.min.css",
             "/feed/", "/wp-json/wp/v2/posts", "/no/such/page/", "/wp-admin/")
    requests = [*map(Request, paths), Request("/wp-admin/profile.php", headers=(("Cookie", cookies),)),
                *other_requests(comparison)]
    found = [text for request in requests for text in comparison.compare(request)[0]]
    site.session.report.note(f"answers compared: {comparison.summary()}")
    if found:
        raise Failure("\n".join(found))


def wanted_by_visitor(path, page):
    """Whether to follow a link: all but those that act, and endless variations of one page."""
    acts = ("action=logout", "_wpnonce=", "customize.php", "replytocom=", "/wp-admin/")
    return not (page and any(part in path for part in acts))


def other_requests(comparison):
    """Requests that no link makes."""
    form = ("Content-Type", "application/x-www-form-urlencoded")
    document = ("Content-Type", "application/json")
    yield from (Request(path, "HEAD") for path in (
        "/", "/hello-world/", "/wp-json/wp/v2/posts", "/feed/", "/no/such/", "/readme.html"))
    yield from (Request(path, "OPTIONS") for path in ("/wp-json/wp/v2/posts", "/wp-json/"))
    yield Request("/wp-login.php", "POST", (form,),
                  urlencode({"log": "mahout", "pwd": "wrong"}).encode())
    yield Request("/wp-comments-post.php", "POST", (form,), b"comment_post_ID=1&comment=")
    yield Request("/hello-world/", "POST", (form,), b"a=1&b[]=2&b[]=%C3%A9")
    yield Request("/xmlrpc.php", "POST", (("Content-Type", "text/xml"),),
                  b"<?xml version='1.0'?><methodCall><methodName>system.listMethods</methodName>"
                  b"<params></params></methodCall>")
    yield Request("/wp-json/wp/v2/posts", "POST", (document,), json.dumps({"title": "x"}).encode())
    yield Request("/wp-json/wp/v2/posts", "POST", (document,), b"{broken")
    for method in ("PUT", "PATCH", "DELETE"):
        yield Request("/wp-json/wp/v2/posts/1", method, (document,), b"{}")
    yield Request("/wp-admin/admin-ajax.php", "POST", (form,), b"action=heartbeat")
    yield Request("/wp-admin/admin-post.php", "POST", (form,), b"action=nothing")
    yield Request("/", headers=(("Authorization", "Basic dXNlcjpwd2Q="),))
    yield Request("/wp-json/wp/v2/users/me", headers=(("Authorization", "Basic dXNlcjpwd2Q="),))
    feed = comparison.compare(Request("/feed/"))[1]
    for name, condition in (("last-modified", "If-Modified-Since"), ("etag", "If-None-Match")):
        if name in feed.headers:
            yield Request("/feed/", headers=((condition, feed.headers[name][0]),))
    style = "/wp-includes/css/dashicons.min.css"
    modified = comparison.compare(Request(style))[1].headers["last-modified"][0]
    yield Request(style, headers=(("If-Modified-Since", modified),))
    yield Request(style, headers=(("Range", "bytes=0-99"),))
    yield Request(style, headers=(("Range", "bytes=-10"),))
    yield Request(style, headers=(("Range", "bytes=99999999-"),))
