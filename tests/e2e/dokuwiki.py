"""DokuWiki from Debian's package: installed by its web installer, written in, searched, compared.

Howdah serves it with a configuration document that keeps the wiki's data, settings and libraries
from the web, as DokuWiki's `.htaccess` files do for Apache.
"""

from pathlib import Path

import machine
from compare import Accepted, Comparison, Mask, Request, crawl, fetch
from report import Failure, check, equal

SOURCE = Path("/usr/share/dokuwiki")
SETTINGS = Path("/etc/dokuwiki")
STATE = Path("/var/lib/dokuwiki")

TITLE = "The Mahout's Handbook"
USER = "mahout"
PASSWORD = "eleven quiet elephants at dawn"

# Relative to the document root; DokuWiki brings or recommends an `.htaccess` for each.
PRIVATE = ("data", "conf", "bin", "inc", "vendor")
DATA = ("attic", "cache", "index", "locks", "log", "media", "media_attic", "media_meta", "meta",
        "pages", "tmp")

PAGE = """====== Harness ======

The **girth** goes on before the //howdah//. Naïve café – Ωκεανός.

===== Checks =====

  * knots
  * padding

<code php>echo "tight";</code>

^ Strap ^ Length ^
| girth | 4 m    |
"""

MASKS = (
    Mask(rb'name="sectok" value="\w*"', "a form's token belongs to the session"),
    Mask(rb"sectok=\w+", "a form's token belongs to the session"),
    Mask(rb">\d+ seconds ago<", "the time of the answer"),
    Mask(rb"\(\d+ min\)<", "the time of the answer"),
    Mask(rb'taskrunner\.php\?id=([^&"]*)&amp;\d+', "the time of the answer"),
)

ACCEPTED = (
    Accepted(r"^GET /lib/tpl/dokuwiki/images/favicon\.ico$", "content-type",
             "image/x-icon is what nginx and Unit send; browsers take both"),
    # With `--sites`:
    Accepted(".", "vary", "a page that could be compressed may be kept by caches in both forms; the Apache of this test "
                          "does not compress"),
    Accepted(r"^GET /lib/images/interwiki/amazon\.(de|uk)\.svg$", "content-language",
             "a site has the languages of Debian's Apache for names of files; the Apache of this test has none"),
    Accepted(r"^GET /install\.php$", "status 302",
             "what is no file goes to index.php, as most applications need; Apache does so only when told"),
)

SEEDS = (
    "/", "/doku.php", "/doku.php?id=start", "/doku.php?id=harness", "/doku.php?id=harness&do=edit",
    "/doku.php?id=harness&do=revisions", "/doku.php?id=harness&do=export_raw",
    "/doku.php?id=harness&do=export_xhtml", "/doku.php?id=harness&do=backlink",
    "/doku.php?id=no:such:page", "/doku.php?do=index", "/doku.php?do=recent", "/doku.php?do=login",
    "/doku.php?do=search&q=girth", "/doku.php/harness", "/feed.php", "/index.php", "/install.php",
    "/lib/exe/css.php?t=dokuwiki", "/lib/exe/js.php?t=dokuwiki", "/lib/exe/xmlrpc.php",
    "/lib/exe/fetch.php?media=dunes.jpg", "/lib/exe/fetch.php?media=dunes.jpg&w=200",
    "/lib/exe/detail.php?media=dunes.jpg", "/lib/exe/opensearch.php", "/lib/exe/manifest.php",
    "/lib/tpl/dokuwiki/images/favicon.ico", "/lib/images/external-link.svg", "/lib/", "/lib/tpl",
    "/VERSION", "/data/pages/harness.txt", "/data/", "/conf/local.php", "/conf/users.auth.php",
    "/inc/init.php", "/inc/lang/en/lang.php", "/bin/dwpage.php", "/vendor/autoload.php",
    "/vendor/composer/installed.json", "/%64ata/pages/harness.txt", "/lib/../data/pages/harness.txt",
)


def configuration(root, address):
    """The document that Howdah serves the wiki with."""
    pass_to_wiki = {"pass": "applications/wiki"}
    return {
        "listeners": {address: {"pass": "routes"}},
        "routes": [
            {"match": {"uri": [*(f"/{name}/*" for name in PRIVATE), "/VERSION"]},
             "action": {"return": 403}},
            {"match": {"uri": ["*.php", "*.php/*"]}, "action": pass_to_wiki},
            {"action": {"share": f"{root}$uri", "fallback": pass_to_wiki}},
        ],
        "applications": {
            "wiki": {"type": "php", "root": str(root), "index": "index.php", "processes": 4},
        },
    }


def run(session):
    """All of DokuWiki's steps."""
    Handbook(session).run()


class Handbook:
    """One wiki and its author."""

    def __init__(self, session):
        self.session = session
        self.step = session.report.step
        self.browser = session.browser
        self.root = self.tree()
        self.server = session.under_test(
            "dokuwiki", self.root, lambda address: configuration(self.root, address))
        self.own = f"127.0.0.1:{self.server.port}"
        self.base = f"http://{self.own}"
        self.photograph = session.directory / "dunes.jpg"
        if not self.photograph.exists():
            self.browser.paint(self.photograph)
        self.author = self.browser.visitor(self.own)

    def tree(self):
        """DokuWiki as it is laid out by its authors: Debian keeps settings and state elsewhere."""
        root = self.session.tree("dokuwiki", SOURCE)
        (root / "inc" / "preload.php").unlink()
        settings = root / "conf"
        settings.mkdir()
        for path in SETTINGS.iterdir():
            # The files of the installer must not be there yet.
            written = path.name in ("local.php", "plugins.local.php", "acl.auth.php",
                                    "users.auth.php", "apache.conf", "lighttpd.conf", "htaccess")
            if path.is_file() and not path.is_symlink() and not written:
                (settings / path.name).write_bytes(path.read_bytes())
        defaults = settings / "dokuwiki.php"
        defaults.write_text(defaults.read_text().replace(f"'{STATE}/data'", "'./data'"))
        for name in DATA:
            (root / "data" / name).mkdir(parents=True)
        for name in ("data", "conf"):
            (root / name / ".htaccess").write_bytes((root / "inc" / ".htaccess").read_bytes())
        machine.give_away(root)
        return root

    def run(self):
        """The steps in the order in which a wiki comes to life."""
        step = self.step
        with step("dokuwiki: the web installer creates the wiki", needed=True):
            self.install()
        with step("dokuwiki: log in", needed=True):
            self.log_in()
        with step("dokuwiki: create a page", needed=True):
            self.create()
        with step("dokuwiki: preview, change and compare revisions"):
            self.change()
        with step("dokuwiki: upload an image and see it scaled"):
            self.upload()
        with step("dokuwiki: search finds the page"):
            self.search()
        with step("dokuwiki: the configuration manager saves a setting"):
            self.configure()
        with step("dokuwiki: data, settings and libraries are not served"):
            self.private()
        with step("dokuwiki: no server error and no script error was seen by the browser"):
            self.browser.expect_no_problems()
        self.compare()
        with step("dokuwiki: log out"):
            self.log_out()

    def install(self):
        page = self.author
        page.goto(f"{self.base}/install.php")
        self.browser.shot(page, "dokuwiki-installer")
        errors = page.locator(".error, form ~ ul li").all_inner_texts()
        check(page.locator("input[name='d[title]']").count(), f"no form: {errors}")
        self.browser.fill(page, {
            "input[name='d[title]']": TITLE,
            "input[name='d[superuser]']": USER,
            "input[name='d[fullname]']": "The Mahout",
            "input[name='d[email]']": "mahout@example.org",
            "input[name='d[password]']": PASSWORD,
            "input[name='d[confirm]']": PASSWORD,
        })
        if page.locator("input[name='d[pop]']").count():
            page.uncheck("input[name='d[pop]']")
        self.browser.follow(page, "button[name=submit]")
        page.wait_for_selector("text=finished successfully")
        check((self.root / "conf" / "local.php").is_file(), "the installer wrote no local.php")
        # As the installer asks for.
        (self.root / "install.php").unlink()
        # No news from elsewhere: the test must not depend on other people's servers.
        with open(self.root / "conf" / "local.php", "a") as settings:
            settings.write("$conf['updatecheck'] = 0;\n")

    def log_in(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=start&do=login")
        self.browser.fill(page, {
            "#dw__login input[name=u]": USER, "#dw__login input[name=p]": PASSWORD})
        self.browser.follow(page, "#dw__login button[type=submit]")
        page.wait_for_selector("text=Logged in as")

    def save(self, text, summary, preview=False):
        """Fills the editor that is open and saves."""
        page = self.author
        self.browser.fill(page, {"#wiki__text": text, "#edit__summary": summary})
        if preview:
            self.browser.follow(page, "#edbtn__preview")
            page.wait_for_selector("#draft__status, .preview")
        self.browser.follow(page, "#edbtn__save")
        page.wait_for_selector("#wiki__text", state="detached")

    def create(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=harness&do=edit")
        self.save(PAGE, "first words")
        equal("heading", page.locator("h1.sectionedit1").inner_text(), "Harness")
        check("Naïve café – Ωκεανός" in page.locator(".page").inner_text(), "the text is not as typed")
        equal("cells of the table", page.locator(".page td").count(), 2)
        check((self.root / "data" / "pages" / "harness.txt").is_file(), "the page is in no file")
        self.browser.shot(page, "dokuwiki-page")

    def change(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=harness&do=edit")
        self.save(PAGE.replace("knots", "knots, twice"), "more care", preview=True)
        check("knots, twice" in page.locator(".page").inner_text(), "the change is not on the page")
        page.goto(f"{self.base}/doku.php?id=harness&do=revisions")
        equal("revisions", page.locator("#page__revisions li").count(), 2)
        self.browser.follow(page, "#page__revisions a.diff_link")
        page.wait_for_selector("table.diff")
        check("twice" in page.locator("table.diff").inner_text(), "the difference is not shown")
        self.browser.shot(page, "dokuwiki-revisions")

    def upload(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=harness&do=media&ns=&tab_files=upload")
        page.locator("#mediamanager__uploader input[type=file], #dw__upload input[type=file]"
                     ).first.set_input_files(self.photograph)
        page.locator("#mediamanager__upload_button, #dw__upload button[type=submit]").first.click()
        page.wait_for_selector(".qq-upload-success, .success, .panelContent img", state="attached")
        page.goto(f"{self.base}/doku.php?id=harness&do=edit")
        self.save(PAGE + "\n{{dunes.jpg?300}}\n", "a picture")
        page.wait_for_load_state("networkidle")
        width = page.locator(".page img.media").evaluate("image => image.naturalWidth")
        equal("width of the scaled image", width, 300)
        self.browser.shot(page, "dokuwiki-image")

    def search(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=start")
        self.browser.fill(page, {"#qsearch__in": "girth"})
        page.keyboard.press("Enter")
        page.wait_for_selector(".search_fullpage_result, .search_results")
        check(page.locator(".search_results a[title=harness], .search_fullpage_result a").count() > 0,
              "the search does not find the page")

    def configure(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=start&do=admin&page=config")
        self.browser.fill(page, {"#config___tagline": "Knots and padding"})
        self.browser.follow(page, "#dw__configform button[type=submit], "
                                  "#config__manager button[type=submit]")
        page.wait_for_selector("text=Settings updated successfully")
        page.goto(f"{self.base}/doku.php?id=start")
        check("Knots and padding" in page.locator("#dokuwiki__header").inner_text(),
              "the new tag line is not shown")
        self.browser.shot(page, "dokuwiki-start")

    def private(self):
        for path in ("/data/pages/harness.txt", "/conf/users.auth.php", "/conf/local.php",
                     "/inc/init.php", "/vendor/autoload.php", "/bin/dwpage.php"):
            answer = self.author.request.get(self.base + path)
            equal(f"status of {path}", answer.status, 403)

    def compare(self):
        oracle = self.session.oracle("dokuwiki", self.root)
        comparison = Comparison(self.server, oracle, self.own, MASKS, ACCEPTED)
        cookies = "; ".join(f"{cookie['name']}={cookie['value']}"
                            for cookie in self.author.context.cookies(self.base))
        with self.step("dokuwiki: the login counts on both servers", needed=True):
            for server in (self.server, oracle):
                answer = fetch(server.port, self.own,
                               Request("/doku.php", headers=(("Cookie", cookies),)))
                check(b"Logged in as" in answer.body, f"not logged in on {server.title}")
        for who, headers in (("a visitor", ()), ("the author", (("Cookie", cookies),))):
            with self.step(f"dokuwiki: every page and asset for {who} as with Apache"):
                differences = crawl(comparison, SEEDS, headers, wanted)
                self.session.report.note(f"answers compared: {comparison.summary()}")
                if differences:
                    raise Failure("\n".join(differences))
        self.session.note_accepted(comparison)

    def log_out(self):
        page = self.author
        page.goto(f"{self.base}/doku.php?id=start")
        self.browser.follow(page, "#dokuwiki__usertools .logout a")
        page.wait_for_selector("#dokuwiki__usertools .login")


def wanted(path, page):
    """Whether to follow a link: all but those that act, and endless variations of one page."""
    acts = ("do=logout", "sectok=", "do=diff", "do=media", "rev=", "idx=", "do=admin",
            "taskrunner.php", "do=login", "do=resendpwd", "do=subscribe", "do=profile", "do=index&")
    return not any(part in path for part in acts)
