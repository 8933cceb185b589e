"""Adminer from Debian's package: logged in to the run's MariaDB, tables made, filled and asked.

Howdah serves it with no configuration.
"""

import re
from pathlib import Path

import machine
import servers
from compare import Accepted, Comparison, Mask, Request, crawl, fetch
from report import Failure, check, equal

ENTRY = Path("/etc/adminer/conf.php")
DATABASE = "ledger"

TABLE = """CREATE TABLE elephants (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(40), height DECIMAL(3,2));
INSERT INTO elephants (name, height) VALUES ('Moti', 2.71), ('Hanno', 2.95), ('Σεβαστή', 2.40);"""
QUERY = "SELECT name, height FROM elephants WHERE height > 2.5 ORDER BY height DESC"

MASKS = (
    Mask(rb"\b\d+:\d+(?=['\"])", "a form's token: random in each answer"),
    Mask(rb'nonce="[^"]+"|nonce-[A-Za-z0-9+/=]+', "a script's nonce: random in each answer"),
    Mask(rb"\d\.\d{3} s\b", "how long the query took"),
)

ACCEPTED = (
    Accepted("^GET /no-such$", "status 200",
             "with no configuration, what is no file goes to index.php, as most applications need; "
             "Apache does so only when told"),
    Accepted(".", "vary", "a page of a site (`--sites`) that could be compressed may be kept by caches in both forms; the "
                          "Apache of this test does not compress"),
)


def run(session):
    """All of Adminer's steps."""
    Ledger(session).run()


class Ledger:
    """One Adminer and its user."""

    def __init__(self, session):
        self.session = session
        self.step = session.report.step
        self.browser = session.browser
        self.root = session.directory / "adminer" / "root"
        self.root.mkdir(parents=True)
        (self.root / "index.php").write_bytes(ENTRY.read_bytes())
        machine.give_away(self.root)
        self.server = session.under_test("adminer", self.root)
        self.own = f"127.0.0.1:{self.server.port}"
        self.base = f"http://{self.own}"
        self.user = self.browser.visitor(self.own)

    def run(self):
        """The steps in the order of a first visit."""
        step = self.step
        with step("adminer: a wrong password is refused"):
            self.refused()
        with step("adminer: log in to the database", needed=True):
            self.log_in()
        with step("adminer: create and fill a table", needed=True):
            self.create()
        with step("adminer: run a query"):
            self.query()
        with step("adminer: edit a row"):
            self.edit()
        with step("adminer: export the database"):
            self.export()
        with step("adminer: no server error and no script error was seen by the browser"):
            self.browser.expect_no_problems()
        self.compare()
        with step("adminer: log out"):
            self.log_out()

    def sign(self, password):
        page = self.user
        page.goto(f"{self.base}/")
        self.browser.fill(page, {
            "input[name='auth[server]']": f"127.0.0.1:{self.session.database.port}",
            "input[name='auth[username]']": servers.DATABASE_USER,
            "input[name='auth[password]']": password,
            "input[name='auth[db]']": DATABASE,
        })
        self.browser.follow(page, "input[type=submit][value=Login]")

    def refused(self):
        self.sign("wrong")
        self.user.wait_for_selector(".error")
        check("Access denied" in self.user.locator(".error").first.inner_text(),
              "no word of the refused password")

    def log_in(self):
        self.sign(servers.DATABASE_PASSWORD)
        self.user.wait_for_selector("#logout")
        check(DATABASE in self.user.locator("h2").inner_text(), "the database is not open")

    def command(self, statements):
        """Runs statements on the page for SQL commands."""
        page = self.user
        self.browser.follow(page, "a[href*='sql=']:has-text('SQL command')")
        # The editor on top of the text field is Adminer's; the field is sent.
        page.locator("textarea[name=query]").evaluate(
            "(field, text) => { field.value = text; }", statements)
        editor = page.locator("pre.sqlarea")
        if editor.count():
            editor.fill(statements)
        self.browser.follow(page, "input[type=submit][value=Execute]")

    def create(self):
        self.command(TABLE)
        self.user.wait_for_selector("text=3 rows affected")
        self.user.goto(f"{self.user.url.split('&sql=')[0]}&select=elephants")
        text = self.user.locator("#table").inner_text()
        check("Moti" in text and "Σεβαστή" in text, f"the table shows {text!r}")
        self.browser.shot(self.user, "adminer-table")

    def query(self):
        self.command(QUERY)
        self.user.wait_for_selector("text=2 rows")
        rows = self.user.locator("#content table.nowrap tbody tr, #content table tr:has(td)"
                                 ).all_inner_texts()
        equal("rows", [row.split() for row in rows[:2]], [["Hanno", "2.95"], ["Moti", "2.71"]])
        self.browser.shot(self.user, "adminer-query")

    def edit(self):
        page = self.user
        page.goto(f"{page.url.split('&sql=')[0]}&select=elephants")
        self.browser.follow(page, "#table a.edit, #table a:has-text('edit')")
        self.browser.fill(page, {"input[name='fields[height]']": "2.80"})
        self.browser.follow(page, "input[type=submit][value=Save]")
        page.wait_for_selector("text=Item has been updated")
        check("2.80" in page.locator("#table").inner_text(), "the change is not in the table")

    def export(self):
        page = self.user
        page.goto(f"{page.url.split('&select=')[0]}&dump=")
        page.check("input[name=output][value=text]")
        with page.expect_response(lambda answer: answer.request.method == "POST") as waited:
            page.click("input[type=submit][value=Export]")
        text = waited.value.text()
        check("CREATE TABLE `elephants`" in text and "Σεβαστή" in text, f"exported: {text[:200]}")

    def compare(self):
        oracle = self.session.oracle("adminer", self.root)
        comparison = Comparison(self.server, oracle, self.own, MASKS, ACCEPTED)
        cookies = "; ".join(f"{cookie['name']}={cookie['value']}"
                            for cookie in self.user.context.cookies(self.base))
        account = f"/?server=127.0.0.1%3A{self.session.database.port}&username={servers.DATABASE_USER}"
        seeds = ("/", "/index.php", "/no-such", account, f"{account}&db={DATABASE}",
                 f"{account}&db={DATABASE}&select=elephants", f"{account}&db={DATABASE}&sql=",
                 f"{account}&db={DATABASE}&table=elephants", f"{account}&db={DATABASE}&dump=")
        with self.step("adminer: the login counts on both servers", needed=True):
            for server in (self.server, oracle):
                answer = fetch(server.port, self.own,
                               Request(account, headers=(("Cookie", cookies),)))
                check(b'id="logout"' in answer.body or b"id='logout'" in answer.body,
                      f"not logged in on {server.title}")
        with self.step("adminer: every page as with Apache"):
            differences = crawl(comparison, seeds, [("Cookie", cookies)], wanted)
            self.session.report.note(f"answers compared: {comparison.summary()}")
            if differences:
                raise Failure("\n".join(differences))
        self.session.note_accepted(comparison)

    def log_out(self):
        page = self.user
        page.goto(f"{self.base}/?server=127.0.0.1%3A{self.session.database.port}"
                  f"&username={servers.DATABASE_USER}&db={DATABASE}")
        self.browser.follow(page, "#logout")
        page.wait_for_selector("text=Logout successful")


def wanted(path, _page):
    """Whether to follow a link: the pages of the one database and the assets."""
    return "file=" in path or (f"db={DATABASE}" in path and not re.search(
        r"processlist|&(order|desc|page|where|script)[=%]", path))
