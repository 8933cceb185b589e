"""Random steps of several users on a cached WordPress site, beside the same site without a cache.

1. A step reads or writes. Writes go through the cached site.
2. A page that is read is asked for at both sites, with the same cookies: they are equal, whoever has read or written
   before. So a page is never outdated, and never that of another user.
3. At last, visitors read while an editor writes: a request that begins after an edit is answered gets the edit.

A failure prints the seed and the last steps; `WALK_SEED` repeats a walk.
"""

import json
import os
import random
import re
import threading
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode, urljoin, urlsplit

import wordpress_pages
from compare import Comparison, Mask, Request, fetch
from report import Failure, check

CACHE_HEADERS = {
    "age": "only answers from the cache have it",
    "cache-status": "only answers of the cached site have it",
}
MASKS = (
    *wordpress_pages.MASKS,
    Mask(rb"<dateCreated>[^<]*<", "the time of the answer"),
)
FORM = ("Content-Type", "application/x-www-form-urlencoded")
DOCUMENT = ("Content-Type", "application/json")

# Pages that every site has.
PAGES = (
    "/", "/", "/", "/hello-world/", "/hello-world/", "/hello-world", "/sample-page/", "/a-howdah-crosses-the-dunes/",
    "/category/uncategorized/", "/author/mahout/", "/page/2/", "/no/such/page/", "/?p=1", "/?cat=1", "/?m=202601",
    "/feed/", "/feed/atom/", "/comments/feed/", "/hello-world/feed/", "/?s=dunes", "/wp-sitemap.xml",
    "/wp-sitemap-posts-post-1.xml", "/wp-sitemap-taxonomies-category-1.xml", "/robots.txt", "/wp-links-opml.php",
    "/wp-json/wp/v2/posts", "/wp-json/wp/v2/comments", "/?utm_source=a", "/wp-login.php", "/index.php",
)
# Parts of pages that show the subjects of other pages.
FOOTERS = (
    "<!-- wp:latest-posts {\"displayPostContent\":true,\"excerptLength\":8} /-->",
    "<!-- wp:latest-comments /-->",
    "<!-- wp:latest-posts {\"displayAuthor\":true,\"displayFeaturedImage\":true} /--><!-- wp:archives /-->",
    "<!-- wp:tag-cloud {\"smallestFontSize\":\"8pt\"} /--><!-- wp:categories {\"showPostCounts\":true} /-->",
    "<!-- wp:query {\"query\":{\"perPage\":3,\"postType\":\"post\"}} --><!-- wp:post-template --><!-- wp:post-title /-->"
    "<!-- wp:post-excerpt /--><!-- wp:post-comments-count /--><!-- /wp:post-template --><!-- /wp:query -->",
    "<!-- wp:page-list /--><!-- wp:calendar /-->",
)


class User:
    """A visitor with cookies."""

    def __init__(self, name, cookies=None):
        self.name = name
        self.cookies = dict(cookies or {})

    def headers(self):
        """The fields of this user's requests."""
        if not self.cookies:
            return ()
        return (("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())),)

    def take(self, answer):
        """Keeps the cookies of an answer."""
        for line in answer.headers.get("set-cookie", []):
            name, _, value = line.split(";", 1)[0].partition("=")
            if re.search(r"(?i)max-age=(0|-\d+)\b|expires=[^;]*19[67]\d", line):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value


class Walk:
    """The two sites, and the known facts about their content."""

    def __init__(self, site):
        self.site = site
        self.seed = int(os.environ.get("WALK_SEED") or random.randrange(10**6))
        self.random = random.Random(self.seed)
        self.both = Comparison(site.server, site.uncached(), site.own, MASKS)
        self.editor = User("editor", self.cookies(site.admin))
        self.nonce = self.send(self.editor, Request("/wp-admin/admin-ajax.php?action=rest-nonce")).body.decode()
        self.visitors = [User("visitor"), User("visitor with statistics", {"_ga": "GA1.2.3", "consent": "yes"})]
        self.shoppers = [User("shopper A"), User("shopper B")]
        self.commenter, self.fleeting = User("commenter"), User("commenter without cookies")
        self.paths = list(PAGES)
        self.recent = deque(PAGES[:6], 6)
        self.posts = {1: "/hello-world/"}
        self.terms, self.comments, self.navigation = [], [], None
        self.steps = deque(maxlen=12)
        self.yesterday = f"{datetime.now(timezone.utc) - timedelta(days=1):%Y-%m-%d}"
        self.times = 0
        # Both sites compute a page at the same time.
        self.pool = ThreadPoolExecutor(1)
        self.counts = Counter()

    def cookies(self, page):
        """The cookies of a user of the browser."""
        found = page.context.cookies([f"{self.site.base}/", f"{self.site.base}/wp-admin/"])
        return {cookie["name"]: cookie["value"] for cookie in found}

    # ---- requests ----

    def send(self, user, request):
        """Sends a request to the cached site alone."""
        headers = (*request.headers, *user.headers())
        answer = fetch(self.site.server.port, self.site.own, Request(request.path, request.method, headers, request.body))
        user.take(answer)
        return answer

    def api(self, method, path, data=None):
        """Writes through the REST API, and returns the result."""
        body = None if data is None else json.dumps(data).encode()
        answer = self.send(self.editor, Request(
            f"/wp-json/wp/v2{path}", method, (DOCUMENT, ("X-WP-Nonce", self.nonce)), body))
        self.steps.append(f"editor: {method} {path} {data or ''}: {answer.status}")
        check(answer.status not in (401, 403) and answer.status < 500, f"{method} {path}: status {answer.status}: {answer.body[:300]}")
        return json.loads(answer.body) if answer.status < 300 else None

    def read(self, user, path):
        """Compares a page of both sites."""
        request = Request(path, headers=user.headers())
        waiting = self.pool.submit(fetch, self.both.oracle.port, self.site.own, request)
        found = fetch(self.site.server.port, self.site.own, request)
        expected = waiting.result()
        status = found.headers.get("cache-status", [""])[0]
        self.steps.append(f"{user.name}: {path}: {found.status} {status}")
        # WordPress only learns from this cookie that the client keeps cookies.
        is_known = user.cookies.keys() - {"wordpress_test_cookie"}
        kind = user.name.split()[0] if is_known else "visitor"
        self.counts[f"{kind} {'hit' if '; hit' in status else 'miss'}"] += 1
        for answer in (found, expected):
            for name in CACHE_HEADERS:
                answer.headers.pop(name, None)
            if "moderation-hash=" in path:
                # Ten minutes after the answer.
                answer.headers.pop("expires", None)
        problems = [text for _, text in self.both.differences(request, found, expected)]
        check(not problems, f"{user.name} gets another page than without a cache:\n" + "\n".join(problems))
        user.take(expected)

    # ---- steps ----

    def step(self):
        """One step of one user."""
        kind = self.random.random()
        if kind < 0.56:
            self.visit(self.random.choice(self.visitors))
        elif kind < 0.68:
            self.shop(self.random.choice(self.shoppers))
        elif kind < 0.78:
            self.talk(self.random.choice((self.commenter, self.fleeting)))
        elif kind < 0.86:
            self.visit(self.editor)
        else:
            self.edit()

    def visit(self, user):
        """Reads a page: mostly one that was read lately, which the cache then has."""
        path = self.random.choice(self.recent if self.random.random() < 0.7 else self.paths)
        if user is self.editor and path == "/wp-login.php":
            # It begins another session, with other nonces.
            path = "/"
        self.recent.append(path)
        self.read(user, path)

    def shop(self, user):
        """Puts something in a cart, or looks at a page with it."""
        if not user.cookies or self.random.random() < 0.2:
            self.send(user, Request(f"/?add-to-cart={user.name[-1]}{self.random.randrange(1000)}"))
            check("woocommerce_cart_hash" in user.cookies, f"{user.name} has no cart")
        elif self.random.random() < 0.05:
            user.cookies.clear()
        self.visit(user)

    def talk(self, user):
        """Comments, or looks at a page."""
        if self.random.random() < 0.6:
            return self.visit(user)
        post = self.random.choice(list(self.posts))
        form = {"comment_post_ID": post, "comment": f"Said {self.random.random()}", "author": user.name,
                "email": f"{user.name.replace(' ', '.')}@example.org"}
        if user is self.commenter and self.random.random() < 0.7:
            form["wp-comment-cookies-consent"] = "yes"
        answer = self.send(user, Request("/wp-comments-post.php", "POST", (FORM,), urlencode(form).encode()))
        self.steps.append(f"{user.name}: comments on {self.posts[post]}: {answer.status}")
        if "location" in answer.headers:
            target = urlsplit(urljoin(self.site.base, answer.headers["location"][0]))
            self.read(user, target._replace(scheme="", netloc="", fragment="").geturl())
        self.recent.append(self.posts[post])
        if user is self.commenter and self.random.random() < 0.1:
            user.cookies.clear()
        return None

    def edit(self):
        """The editor changes a part of the site; then a visitor looks at the pages that it concerns."""
        change = self.random.choice((
            self.write_post, self.write_post, self.change_post, self.change_post, self.change_post, self.change_post,
            self.remove_post, self.change_term, self.change_settings, self.change_menu, self.moderate, self.moderate,
            self.moderate, self.change_name, self.change_footer, self.change_image))
        shown = change()
        self.counts["edits"] += 1
        if shown:
            self.recent.append(shown)
        for path in self.random.sample([*self.recent], 2):
            self.read(self.visitors[0], path)

    def time_of_day(self):
        """A time that no other post has: the database lists posts of the same second in any order."""
        self.times += 1
        minutes, seconds = divmod(self.times, 60)
        return f"10:{minutes:02}:{seconds:02}"

    def write_post(self):
        """A new post, often at an address that was in use."""
        word = self.random.choice(("camel", "tent", "well", "moon", "guide"))
        post = self.api("POST", "/posts", {
            "title": f"On the {word}", "slug": word, "content": self.content(),
            "date_gmt": f"{self.yesterday}T{self.time_of_day()}",
            "status": self.random.choice(("publish", "publish", "publish", "draft", "private")),
            "tags": self.random.sample(self.terms, min(1, len(self.terms))), "sticky": self.random.random() < 0.1,
            "password": "sesame" if self.random.random() < 0.1 else ""})
        return self.known(post)

    def known(self, post):
        """Keeps a post and its addresses."""
        if not post:
            return None
        path = urlsplit(post["link"])._replace(scheme="", netloc="").geturl()
        self.posts[post["id"]] = path
        for known in (path, f"/?p={post['id']}", f"{path}feed/"):
            if known not in self.paths and "?" not in path:
                self.paths.append(known)
        return path

    def content(self):
        """A text that no other post has."""
        return f"<!-- wp:paragraph --><p>Version {self.random.random()} of the text.</p><!-- /wp:paragraph -->"

    def change_post(self):
        """One property of a post."""
        post = self.random.choice(list(self.posts))
        return self.known(self.api("POST", f"/posts/{post}", self.random.choice((
            {"content": self.content()}, {"content": self.content()}, {"content": self.content()},
            {"excerpt": f"In short: {self.random.random()}"}, {"title": f"Title {self.random.random()}"},
            {"slug": self.random.choice(("camel", "tent", "oasis", "hello-world"))}, {"status": "draft"},
            {"status": "publish"}, {"status": "publish"}, {"comment_status": self.random.choice(("open", "closed"))},
            {"tags": self.random.sample(self.terms, min(2, len(self.terms)))}, {"sticky": True}, {"sticky": False},
            {"date": f"2026-01-{self.random.randrange(10, 28)}T{self.time_of_day()}"}, {"password": "sesame"}, {"password": ""}))))

    def remove_post(self):
        """A post in the trash, or gone; the first stays."""
        posts = [post for post in self.posts if post != 1]
        if len(posts) < 4:
            return self.write_post()
        post = self.random.choice(posts)
        self.api("DELETE", f"/posts/{post}?force={self.random.choice(('true', 'false'))}")
        return self.posts.pop(post)

    def change_term(self):
        """A new tag, another name, or one less."""
        if len(self.terms) < 3 or self.random.random() < 0.2:
            term = self.api("POST", "/tags", {"name": f"Tag {self.random.randrange(1000)}"})
            if term:
                self.terms.append(term["id"])
                self.paths.append(urlsplit(term["link"]).path)
        elif self.random.random() < 0.2:
            self.api("DELETE", f"/tags/{self.terms.pop(0)}?force=true")
        else:
            self.api("POST", f"/tags/{self.random.choice(self.terms)}", {
                self.random.choice(("name", "description")): f"Tag {self.random.random()}"})
        return self.paths[-1]

    def change_settings(self):
        """An option of the site."""
        self.api("POST", "/settings", self.random.choice((
            {"title": f"Site {self.random.random()}"}, {"description": f"{self.random.random()}"},
            {"posts_per_page": self.random.randrange(2, 6)}, {"date_format": self.random.choice(("Y-m-d", "d. m. Y"))},
            {"default_comment_status": self.random.choice(("open", "closed"))})))
        return "/"

    def change_menu(self):
        """The navigation of the header."""
        links = "".join(f'<!-- wp:navigation-link {{"label":"{self.random.random()}","url":"/{word}/"}} /-->'
                        for word in self.random.sample(("camel", "tent", "well"), 2))
        menu = {"title": "Menu", "content": links, "status": "publish"}
        made = self.api("POST", f"/navigation/{self.navigation}" if self.navigation else "/navigation", menu)
        self.navigation = made["id"] if made else None
        return "/sample-page/"

    def moderate(self):
        """The editor decides about a comment."""
        comments = self.api("GET", "/comments?context=edit&per_page=20&status=" + self.random.choice(
            ("hold", "hold", "approve", "spam"))) or []
        if not comments:
            return None
        comment = self.random.choice(comments)
        if self.random.random() < 0.1:
            self.api("DELETE", f"/comments/{comment['id']}?force=true")
        else:
            self.api("POST", f"/comments/{comment['id']}", self.random.choice((
                {"status": "approved"}, {"status": "approved"}, {"status": "hold"}, {"status": "spam"},
                {"content": f"Edited {self.random.random()}"}, {"author_name": f"Somebody {self.random.random()}"})))
        self.recent.append("/comments/feed/")
        return self.posts.get(comment["post"])

    def change_name(self):
        """The name of an author."""
        self.api("POST", "/users/1", {self.random.choice(("name", "description")): f"Mahout {self.random.random()}"})
        return "/author/mahout/"

    def change_footer(self):
        """A part of all pages."""
        theme = self.api("GET", "/themes?status=active")[0]["stylesheet"]
        self.api("POST", f"/template-parts/{theme}//footer", {"content": self.random.choice(FOOTERS)})
        return "/"

    def change_image(self):
        """The image of a post, or the text about it."""
        [*images] = self.api("GET", "/media?per_page=3") or []
        if not images:
            return None
        image = self.random.choice(images)["id"]
        post = self.random.choice(list(self.posts))
        if self.random.random() < 0.5:
            return self.known(self.api("POST", f"/posts/{post}", {"featured_media": self.random.choice((0, image, image))}))
        self.api("POST", f"/media/{image}", {
            self.random.choice(("alt_text", "caption", "title")): f"Image {self.random.random()}"})
        return self.posts[post]


def walk(site):
    """The steps of the walk."""
    steps = site.session.options.steps
    with site.step(f"wordpress with cache: {steps} random steps of several users as without a cache"):
        walker = Walk(site)
        try:
            for _ in range(steps):
                walker.step()
        except Exception as problem:
            history = "\n".join(walker.steps)
            raise Failure(f"{problem}\nWALK_SEED={walker.seed}, after {history}") from problem
        site.session.report.note(f"seed {walker.seed}: " + ", ".join(
            f"{count} {what}" for what, count in sorted(walker.counts.items())))
        if site.session.howdah:
            hits, misses = walker.counts["visitor hit"], walker.counts["visitor miss"]
            check(hits * 4 > misses, f"of the visitors' pages, {hits} came from the cache and {misses} did not")
            for user in ("commenter", "editor", "shopper"):
                check(not walker.counts[f"{user} hit"], f"pages of a {user} came from the cache")
    with site.step("wordpress with cache: visitors who read while an editor writes"):
        read_while_written(walker)


def read_while_written(walker, edits=40, readers=4):
    """A request that begins after an edit was answered gets that edit or a later one."""
    versions = re.compile(rb"edition (\d+)")
    # The newest post, on the front page and in the feed.
    now = datetime.now(timezone.utc) - timedelta(seconds=2)
    walker.api("POST", "/posts/1", {"password": "", "status": "publish"})
    made = walker.api("POST", "/posts/1", {"title": "edition 0", "content": "edition 0", "sticky": True,
                                           "slug": "editions", "date_gmt": f"{now:%Y-%m-%dT%H:%M:%S}"})
    check(made and made["status"] == "publish", f"the post cannot be prepared: {made}")
    address = urlsplit(made["link"]).path
    state = {"answered": 0, "over": False}
    problems, reads = [], Counter()

    def look(number):
        chosen = random.Random(number)
        while not state["over"]:
            path, known = chosen.choice((address, "/", "/feed/")), state["answered"]
            answer = fetch(walker.site.server.port, walker.site.own, Request(path))
            found = [int(version) for version in versions.findall(answer.body)]
            if answer.status != 200 or not found or min(found) < known:
                problems.append(f"{path}: status {answer.status}, editions {found} after {known} was answered")
            reads["hit" if "; hit" in answer.headers.get("cache-status", [""])[0] else "miss"] += 1

    def watched(number):
        try:
            look(number)
        except Exception as problem:  # it would end the thread unnoticed
            problems.append(repr(problem))

    threads = [threading.Thread(target=watched, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    try:
        for edition in range(1, edits + 1):
            made = walker.api("POST", "/posts/1", {"title": f"edition {edition}", "content": f"edition {edition}"})
            check(made, f"edit {edition} failed")
            state["answered"] = edition
            time.sleep(0.05)
    finally:
        state["over"] = True
        for thread in threads:
            thread.join()
    walker.site.session.report.note(f"{edits} edits, pages read: {reads['hit']} hits, {reads['miss']} misses")
    check(not problems, "\n".join(problems[:10]))
