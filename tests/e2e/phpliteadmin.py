"""phpLiteAdmin from Debian's package: one script that is no index page; a database made, filled by an upload, exported.

Howdah serves it with no configuration.
"""

from pathlib import Path

import machine
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/phpliteadmin")
PASSWORD = "eleven quiet elephants at dawn"
SETTINGS = """<?php
$password = '{password}';
$directory = '{root}/databases';
"""
TABLE = "CREATE TABLE straps (name TEXT, metres INTEGER); INSERT INTO straps VALUES ('girth Σ', 4);"


def run(session):
    """Logs in, and works with a database."""
    step, browser = session.report.step, session.browser
    root = session.tree("phpliteadmin", SOURCE)
    (root / "databases").mkdir()
    (root / "phpliteadmin.config.php").write_text(SETTINGS.format(password=PASSWORD, root=root))
    machine.give_away(root)
    server = session.under_test("phpliteadmin", root)
    base = f"http://127.0.0.1:{server.port}"
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("phpliteadmin: a wrong password is refused, the right one logs in", needed=True):
        for password in ("wrong", PASSWORD):
            page.goto(f"{base}/phpliteadmin.php")
            browser.fill(page, {"input[name=password]": password})
            browser.follow(page, "input[type=submit]")
            equal("logged in", page.locator("input[name=password]").count() == 0, password == PASSWORD)
    with step("phpliteadmin: make a database, and fill it by an upload", needed=True):
        browser.fill(page, {"input[name=new_dbname]": "stable.sqlite"})
        browser.follow(page, "form:has(input[name=new_dbname]) input[type=submit]")
        check((root / "databases" / "stable.sqlite").is_file(), "there is no file of the database")
        browser.follow(page, "a[href*='view=import']")
        file = session.directory / "straps of the stable.sql"
        file.write_text(TABLE)
        page.set_input_files("input[name=file]", file)
        browser.follow(page, "input[name=import]")
    with step("phpliteadmin: an address of its own shows the row, to those who are logged in"):
        browser.follow(page, "a[href*='table=straps']")
        browser.follow(page, "a:has-text('Browse')")
        address = page.url
        page.goto(address)
        check("girth Σ" in page.content(), "the row is not shown")
        browser.shot(page, "phpliteadmin-table")
        visitor = browser.visitor(f"127.0.0.1:{server.port}")
        visitor.goto(address)
        check("girth Σ" not in visitor.content() and visitor.locator("input[name=password]").count() == 1, "not closed")
    with step("phpliteadmin: what is not there is 404, databases and settings are not sent"):
        equal("status", page.goto(f"{base}/no/such/page").status, 404)
        for path in ("/databases/stable.sqlite", "/databases/", "/phpliteadmin.config.php", "/languages/"):
            answer = fetch(server.port, "127.0.0.1", Request(path))
            check(b"SQLite format" not in answer.body and b"elephants" not in answer.body and b"stable" not in answer.body,
                  f"{path} is sent")
    with step("phpliteadmin: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
