"""WordPress from Debian's package: installed, written in, read, commented, administered, compared.

Howdah serves it with no configuration. The oracle is Apache with the rewrite rules that WordPress
itself writes to `.htaccess`.
"""

import re
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

import machine
import servers
import wordpress_pages
from report import check, equal

SOURCE = Path("/usr/share/wordpress")
CONTENT = Path("/var/lib/wordpress/wp-content")

SITE_TITLE = "The Caravan"
USER = "mahout"
PASSWORD = "eleven quiet elephants at dawn"

POST_TITLE = "A howdah crosses the dunes"
POST_TEXT = ("We left before sunrise, and by noon the wind had drawn new lines across the sand.",
             "The second paragraph says naïve café – and Ωκεανός – to see that no byte is lost.")
SCHEDULED_TITLE = "Written yesterday, published by the clock"
COMMENT = "What a view! Were the elephants not thirsty?"

# The test must not depend on other people's servers, and the scheduler may run every few seconds.
CONSTANTS = """
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'WP_CRON_LOCK_TIMEOUT', 2 );
"""


def run(session):
    """All of WordPress's steps."""
    Caravan(session).run()


class Caravan:
    """One WordPress site and its users."""

    # Name of its directory and of its database.
    name = "wordpress"
    # Makes the server's document from the address to listen on; without one, it serves the directory.
    configuration = None
    # Keys of a site with `--sites` that say the same.
    site = {}

    def __init__(self, session):
        self.session = session
        self.step = session.report.step
        self.browser = session.browser
        self.root = session.tree(self.name, SOURCE)
        for name in ("wp-config.php", ".htaccess"):
            (self.root / name).unlink(missing_ok=True)
        sample = self.root / "wp-config-sample.php"
        sample.write_text(sample.read_text().replace(
            "/* Add any custom values", CONSTANTS + "/* Add any custom values"))
        machine.give_away(self.root)
        self.server = session.under_test(self.name, self.root, self.configuration, site=self.site)
        self.own = f"127.0.0.1:{self.server.port}"
        self.base = f"http://{self.own}"
        self.photograph = session.directory / "dunes.jpg"
        self.browser.paint(self.photograph)
        self.admin = self.browser.visitor(self.own)
        self.guest = self.browser.visitor(self.own)
        self.post = None
        self.due = None

    def run(self):
        """The steps in the order in which a site comes to life."""
        step = self.step
        with step("wordpress: the web installer writes the configuration", needed=True):
            self.configure()
        with step("wordpress: the web installer creates the site", needed=True):
            self.install()
        with step("wordpress: log in", needed=True):
            self.log_in()
        with step("wordpress: pretty permalinks are found working and are offered"):
            self.rewriting_known()
        with step("wordpress: set the permalink structure"):
            self.permalinks()
        with step("wordpress: write a post with an uploaded image in the block editor", needed=True):
            self.write()
        with step("wordpress: create a page, a tag and a scheduled post through the REST API"):
            self.create_by_rest()
        with step("wordpress: upload through the media library"):
            self.upload()
        with step("wordpress: read the post as a visitor"):
            self.read()
        with step("wordpress: comment as a visitor"):
            self.comment()
        with step("wordpress: approve the comment"):
            self.approve()
        with step("wordpress: search from the page that says what is missing"):
            self.search()
        with step("wordpress: feeds and sitemap are well-formed and list the post"):
            self.feeds()
        with step("wordpress: the REST API reads, writes and refuses"):
            self.rest()
        with step("wordpress: Site Health finds loopback requests and credentials working"):
            self.health()
        with step("wordpress: every page of the administration menu"):
            self.administration()
        with step("wordpress: the scheduler publishes the scheduled post"):
            self.scheduler()
        with step("wordpress: no server error and no script error was seen by the browser"):
            self.browser.expect_no_problems()
        wordpress_pages.compare(self)
        with step("wordpress: log out"):
            self.log_out()

    def configure(self):
        page = self.admin
        page.goto(f"{self.base}/")
        check("/wp-admin/setup-config.php" in page.url,
              f"an unconfigured WordPress leads to {page.url} instead of its installer")
        if "step=" not in page.url and page.locator("#language").count():
            self.browser.follow(page, "#language-continue")
        if page.locator("a[href*='step=1']").count():
            self.browser.follow(page, "a[href*='step=1']")
        self.browser.fill(page, {
            "#dbname": self.name,
            "#uname": servers.DATABASE_USER,
            "#pwd": servers.DATABASE_PASSWORD,
            "#dbhost": f"localhost:{self.session.database.socket}",
        })
        self.browser.shot(page, "wordpress-installer")
        self.browser.follow(page, "input[type=submit]")
        page.wait_for_selector("a[href*='install.php']")
        check((self.root / "wp-config.php").is_file(), "the installer wrote no wp-config.php")

    def install(self):
        page = self.admin
        self.browser.follow(page, "a[href*='install.php']")
        if page.locator("#language-continue").count():
            self.browser.follow(page, "#language-continue")
        self.browser.fill(page, {
            "#weblog_title": SITE_TITLE,
            "#user_login": USER,
            "#pass1": PASSWORD,
            "#admin_email": "mahout@example.org",
        })
        self.browser.follow(page, "#submit")
        page.wait_for_selector("text=Success!")
        self.browser.shot(page, "wordpress-installed")

    def log_in(self):
        page = self.admin
        page.goto(f"{self.base}/wp-login.php")
        self.browser.fill(page, {"#user_login": USER, "#user_pass": PASSWORD})
        self.browser.follow(page, "#wp-submit")
        page.wait_for_selector("#wpadminbar")
        check(page.url.startswith(f"{self.base}/wp-admin/"), f"logged in to {page.url}")
        equal("the site's title", page.locator("#wp-admin-bar-site-name > a").inner_text(), SITE_TITLE)
        self.browser.shot(page, "wordpress-dashboard")

    def rewriting_known(self):
        page = self.admin
        page.goto(f"{self.base}/wp-admin/options-permalink.php")
        # The installer asks the server for an address without index.php, and keeps addresses with it
        # when it gets an answer; the form offers them when WordPress takes the server for one that
        # can rewrite, which it tells from SERVER_SOFTWARE.
        kept = page.input_value("#permalink_structure")
        equal("the structure that the installer kept", kept, "/%year%/%monthnum%/%day%/%postname%/")
        offered = page.locator("input[name=selection]").evaluate_all("all => all.map(i => i.value)")
        check("/%postname%/" in offered, f"the settings offer only {', '.join(offered)}")

    def permalinks(self):
        page = self.admin
        page.goto(f"{self.base}/wp-admin/options-permalink.php")
        page.check("#custom_selection")
        self.browser.fill(page, {"#permalink_structure": "/%postname%/"})
        self.browser.follow(page, "#submit")
        page.wait_for_selector("#setting-error-settings_updated, .notice-success")
        answer = self.guest.goto(f"{self.base}/hello-world/")
        equal("status of /hello-world/", answer.status, 200)

    def write(self):
        page = self.admin
        page.goto(f"{self.base}/wp-admin/post-new.php")
        title = page.locator(".editor-post-title__input")
        title.wait_for()
        # The guide comes some moments after the editor, on the first visit only.
        closing = page.get_by_role("button", name="Close dialog")
        try:
            closing.click(timeout=8_000)
        except Exception:  # no guide to close
            pass
        title.click()
        page.keyboard.type(POST_TITLE)
        for paragraph in POST_TEXT:
            page.keyboard.press("Enter")
            page.keyboard.type(paragraph)
        page.keyboard.press("Enter")
        page.keyboard.type("/image")
        page.get_by_role("option", name=re.compile("^Image")).first.click()
        page.locator(".wp-block-image input[type=file]").set_input_files(self.photograph)
        page.wait_for_selector(".wp-block-image img[src*='/wp-content/uploads/']")
        page.wait_for_selector(".wp-block-image .components-spinner", state="detached")
        self.browser.shot(page, "wordpress-editor")
        page.click(".editor-post-publish-panel__toggle")
        page.click(".editor-post-publish-panel .editor-post-publish-button")
        page.wait_for_selector(".post-publish-panel__postpublish-header")
        self.post = page.locator(".post-publish-panel__postpublish-buttons a").first.get_attribute("href")
        equal("the post's address", self.post, f"{self.base}/a-howdah-crosses-the-dunes/")

    def api(self, method, path, data=None, headers=None):
        """Calls the REST API as the logged-in administrator, from a page of the site."""
        page = self.admin
        if not page.url.startswith(f"{self.base}/wp-admin/index.php"):
            page.goto(f"{self.base}/wp-admin/index.php")
        nonce = page.request.get(f"{self.base}/wp-admin/admin-ajax.php?action=rest-nonce").text()
        return page.request.fetch(f"{self.base}/wp-json{path}", method=method, data=data,
                                  headers={"X-WP-Nonce": nonce, **(headers or {})})

    def create_by_rest(self):
        page = self.api("POST", "/wp/v2/pages", {
            "title": "About the caravan", "status": "publish",
            "content": "<!-- wp:paragraph --><p>Eleven elephants and a cook.</p><!-- /wp:paragraph -->"})
        equal("status of creating a page", page.status, 201)
        tag = self.api("POST", "/wp/v2/tags", {"name": "Desert"})
        equal("status of creating a tag", tag.status, 201)
        [post] = self.api("GET", "/wp/v2/posts?slug=a-howdah-crosses-the-dunes").json()
        [image] = self.api("GET", "/wp/v2/media").json()
        tagged = self.api("PUT", f"/wp/v2/posts/{post['id']}",
                          {"tags": [tag.json()["id"]], "featured_media": image["id"]})
        equal("status of changing the post with PUT", tagged.status, 200)
        # WordPress publishes posts at once that are due within a minute.
        self.due = datetime.now(timezone.utc) + timedelta(seconds=64)
        future = self.api("POST", "/wp/v2/posts", {
            "title": SCHEDULED_TITLE, "content": "Good morning.", "status": "future",
            "date_gmt": self.due.strftime("%Y-%m-%dT%H:%M:%S")})
        equal("status of scheduling a post", future.status, 201)
        equal("the scheduled post's state", future.json()["status"], "future")

    def upload(self):
        page = self.admin
        page.goto(f"{self.base}/wp-admin/media-new.php")
        page.locator("input[type=file][id^=html5_]").set_input_files(
            {"name": "evening.jpg", "mimeType": "image/jpeg", "buffer": self.photograph.read_bytes()})
        page.wait_for_selector("#media-items .edit-attachment", state="attached")
        page.goto(f"{self.base}/wp-admin/upload.php?mode=list")
        equal("number of media", page.locator("#the-list tr").count(), 2)

    def read(self):
        page = self.guest
        answer = page.goto(self.post)
        equal("status", answer.status, 200)
        page.wait_for_load_state("networkidle")
        text = page.locator("main").inner_text()
        for part in (POST_TITLE, *POST_TEXT):
            check(part in text, f"the page does not say: {part}")
        width = page.locator(".wp-block-image img").evaluate("image => image.naturalWidth")
        check(width >= 600, f"the image is {width} pixels wide: it was not loaded")
        page.locator("h1").first.evaluate("title => title.scrollIntoView()")
        self.browser.shot(page, "wordpress-post")

    def comment(self):
        page = self.guest
        page.goto(self.post)
        self.browser.fill(page, {
            "#comment": COMMENT, "#author": "Aïsha", "#email": "aisha@example.org"})
        self.browser.follow(page, "#submit")
        page.wait_for_selector("text=awaiting moderation")
        check("moderation-hash=" in page.url, f"commenting led to {page.url}")

    def approve(self):
        page = self.admin
        page.goto(f"{self.base}/wp-admin/edit-comments.php?comment_status=moderated")
        page.locator("#the-comment-list tr").first.hover()
        page.locator("#the-comment-list .approve a").first.click()
        page.wait_for_selector("#the-comment-list tr.unapproved", state="hidden")
        self.guest.goto(self.post)
        check(COMMENT in self.guest.locator(".wp-block-comments").inner_text(),
              "the approved comment is not on the page")
        self.guest.locator(".wp-block-comments").scroll_into_view_if_needed()
        self.browser.shot(self.guest, "wordpress-comment")

    def search(self):
        page = self.guest
        answer = page.goto(f"{self.base}/no/such/page/")
        equal("status of a missing page", answer.status, 404)
        page.locator("main input[name=s]").fill("dunes")
        page.keyboard.press("Enter")
        page.wait_for_url("**/?s=dunes")
        check(page.get_by_role("link", name=POST_TITLE).count() > 0, "the search does not find the post")
        self.browser.shot(page, "wordpress-search")

    def feeds(self):
        for path, kind in (("/feed/", "application/rss+xml"), ("/feed/atom/", "application/atom+xml"),
                           ("/comments/feed/", "application/rss+xml"),
                           ("/wp-sitemap.xml", "application/xml"),
                           ("/wp-sitemap-posts-post-1.xml", "application/xml")):
            answer = self.guest.request.get(self.base + path)
            equal(f"status of {path}", answer.status, 200)
            equal(f"type of {path}", answer.headers["content-type"].split(";")[0], kind)
            ElementTree.fromstring(answer.body())
            if path in ("/feed/", "/feed/atom/"):
                check(POST_TITLE in answer.text(), f"{path} does not have the post")
            if "posts-post" in path:
                check(self.post in answer.text(), f"{path} does not list the post")

    def rest(self):
        read = self.guest.request.get(f"{self.base}/wp-json/wp/v2/posts?search=dunes")
        equal("status of a search", read.status, 200)
        equal("titles found", [post["title"]["rendered"] for post in read.json()], [POST_TITLE])
        equal("header X-WP-Total", read.headers.get("x-wp-total"), "1")
        refused = self.guest.request.post(f"{self.base}/wp-json/wp/v2/posts", data={"title": "No"})
        equal("status of writing without a login", refused.status, 401)
        draft = self.api("POST", "/wp/v2/posts", {"title": "Soon gone"})
        equal("status of writing a draft", draft.status, 201)
        path = f"/wp/v2/posts/{draft.json()['id']}"
        changed = self.api("PATCH", path, {"title": "Gone"})
        equal("title after PATCH", changed.json()["title"]["raw"], "Gone")
        equal("status of DELETE", self.api("DELETE", f"{path}?force=true").status, 200)
        equal("status once deleted", self.api("GET", path).status, 404)

    def health(self):
        tests = "/wp-site-health/v1/tests"
        loopback = self.api("GET", f"{tests}/loopback-requests").json()
        equal(f"loopback requests ({loopback.get('description')})", loopback.get("status"), "good")
        # The credentials that WordPress's own test sends.
        credentials = self.api("GET", f"{tests}/authorization-header",
                               headers={"Authorization": "Basic dXNlcjpwd2Q="}).json()
        equal(f"credentials ({credentials.get('description')})", credentials.get("status"), "good")

    def menu(self):
        """The addresses of the administration menu, in its order."""
        self.admin.goto(f"{self.base}/wp-admin/index.php")
        links = self.admin.locator("#adminmenu a[href]").evaluate_all("all => all.map(a => a.href)")
        own = [link for link in links if link.startswith(f"{self.base}/wp-admin/")]
        return list(dict.fromkeys(urlsplit(link)._replace(fragment="").geturl() for link in own))

    def administration(self):
        page = self.admin
        links = self.menu()
        check(len(links) > 20, f"the menu has only {len(links)} entries")
        for link in links:
            answer = page.goto(link, wait_until="domcontentloaded")
            equal(f"status of {link}", answer.status, 200)
            text = answer.text()
            for sign in ("<b>Fatal error</b>", "<b>Warning</b>", "critical error on this website"):
                check(sign not in text, f"{link} shows {sign}")
            check("</html>" in text, f"{link} is cut short")
        page.goto(f"{self.base}/wp-admin/plugins.php")
        page.wait_for_load_state("networkidle")
        self.browser.shot(page, "wordpress-plugins")

    def scheduler(self):
        left = (self.due - datetime.now(timezone.utc)).total_seconds()
        time.sleep(max(0, left + 1))
        deadline = time.monotonic() + 30
        while True:
            # A visit starts the scheduler, which publishes the post; a later visit shows it.
            self.guest.goto(f"{self.base}/")
            if self.guest.get_by_role("link", name=SCHEDULED_TITLE).count():
                break
            check(time.monotonic() < deadline, "the post is not published 30 s after it was due")
            time.sleep(1)
        self.guest.wait_for_load_state("networkidle")
        self.browser.shot(self.guest, "wordpress-front")

    def log_out(self):
        page = self.admin
        page.goto(f"{self.base}/wp-login.php?action=logout")
        self.browser.follow(page, "a[href*='action=logout']")
        page.wait_for_url("**/wp-login.php?loggedout=true*")
        page.goto(f"{self.base}/wp-admin/")
        check("wp-login.php" in page.url, f"after logging out, {page.url} is open")
