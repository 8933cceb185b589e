"""Tiny Tiny RSS from Debian's package, with MariaDB: logged in, feeds uploaded as OPML, an article published.

It has a script for each kind of request beside each other, and a Dojo application that calls them.
Howdah serves it with no configuration.
"""

import re
import subprocess
from pathlib import Path

import machine
import servers
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/tt-rss/www")
SCHEMA = Path("/usr/share/tt-rss/schema/ttrss_schema_mysql.sql")
DATABASE = "feeds"
OPML = """<?xml version="1.0" encoding="utf-8"?>
<opml version="1.0"><head><title>Feeds</title></head><body>
<outline text="Stable news"><outline type="rss" text="Girths Σ" xmlUrl="http://stable.example/feed"/></outline>
</body></opml>
"""


def run(session):
    """Logs in as the first user of the database, and uses it."""
    step, browser = session.report.step, session.browser
    root = session.tree("ttrss", SOURCE)
    settings = root / "config.php"
    text = settings.read_text().replace("include_once('/etc/tt-rss/database.php');", "")
    for name, value in (("DB_TYPE", "mysql"), ("DB_HOST", "127.0.0.1"), ("DB_PORT", session.database.port),
                        ("DB_USER", servers.DATABASE_USER), ("DB_NAME", DATABASE), ("DB_PASS", servers.DATABASE_PASSWORD),
                        ("LOCK_DIRECTORY", root / "lock"), ("CACHE_DIR", root / "cache"), ("LOG_DESTINATION", "")):
        text = re.sub(rf"define\('{name}', [^\n]*\);", f"define('{name}', '{value}');", text)
    text = text.replace("define('SELF_URL_PATH', '%SELF_URL_PATH');",
                        "define('SELF_URL_PATH', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost') . '/');")
    settings.write_text(text)
    for name in ("lock", "cache", "cache/images", "cache/upload", "cache/export", "cache/js", "feed-icons"):
        (root / name).mkdir(exist_ok=True)
    machine.give_away(root)
    server = session.under_test("ttrss", root)
    base = f"http://127.0.0.1:{server.port}"
    statements = SCHEMA.read_text()
    subprocess.run(["mariadb", "--no-defaults", "--protocol=TCP", "--host=127.0.0.1", f"--port={session.database.port}",
                    f"--user={servers.DATABASE_USER}", f"--password={servers.DATABASE_PASSWORD}", DATABASE],
                   input=statements, text=True, check=True)
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("ttrss: a wrong password is refused, the right one logs in", needed=True):
        for password in ("wrong", "password"):
            # Its pages are ready before their last picture is.
            page.goto(f"{base}/", wait_until="domcontentloaded")
            page.wait_for_selector("#login")
            browser.fill(page, {"#login": "admin", "input[name=password]": password})
            browser.follow(page, ".dijitButton.alt-primary")
            equal("logged in", page.locator("#login").count() == 0, password == "password")
        page.wait_for_selector("#feedTree")
        browser.shot(page, "ttrss-feeds")
    with step("ttrss: upload a list of feeds"):
        page.goto(f"{base}/prefs.php")
        page.wait_for_selector("#pref-tabs")
        page.locator("#pref-tabs_tablist >> text=Feeds").first.click()
        page.locator("text=OPML").first.click()
        file = session.directory / "feeds of the stable.opml"
        file.write_text(OPML)
        page.set_input_files("#opml_file", file)
        page.locator(".dijitButton:has-text('Import OPML')").click()
        page.wait_for_selector("text=Girths Σ")
        browser.shot(page, "ttrss-opml")
    with step("ttrss: publish a page by its bookmarklet, and read it by the address of the feed"):
        page.goto(f"{base}/public.php?op=sharepopup&title=Girths%20%26%20more&url=http%3A%2F%2Fstable.example%2Fgirth%3Fa%3Db")
        with page.expect_response(lambda response: "action=share" in response.url):
            page.locator(".dijitButton:has-text('Share')").click()
        page.goto(f"{base}/")
        page.wait_for_selector("#feedTree")
        # It asks for another password than that of the database's first user.
        page.locator("#defaultPasswordDlg .dijitDialogCloseIcon").click()
        page.locator("#feedTree >> text=Published articles").click()
        page.wait_for_selector("#headlines-frame >> text=Girths & more")
    with step("ttrss: what is not there is 404"):
        equal("status", page.goto(f"{base}/public.php?op=share&key=nothing").status, 404)
    with step("ttrss: its interface for programs takes JSON"):
        body = b'{"op": "login", "user": "admin", "password": "password"}'
        answer = fetch(server.port, "127.0.0.1", Request("/api/", "POST", (("Content-Type", "application/json"),), body))
        check(answer.status == 200, f"{answer.status}: {answer.body[:300]}")
    with step("ttrss: no settings and no source are sent"):
        for path in ("/config.php", "/include/functions.php", "/classes/db.php", "/schema/ttrss_schema_mysql.sql"):
            answer = fetch(server.port, "127.0.0.1", Request(path))
            check(b"<?php" not in answer.body and b"correct horse" not in answer.body, f"{path} is sent")
    with step("ttrss: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
