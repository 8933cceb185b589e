"""Shaarli from Debian's package, with its `.htaccess`: installed, written in, imported to, read by permalinks.

It keeps its data in files. All of its addresses are paths without a file, and its rules refuse most methods.
Howdah serves it with no configuration.
"""

import base64
import hmac
import json
import shutil
import time
from pathlib import Path

import machine
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/shaarli")
USER = "mahout"
PASSWORD = "eleven quiet elephants at dawn"
TITLE = "Links of the caravan"
BOOKMARKS = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<TITLE>Bookmarks</TITLE>
<DL><p>
<DT><A HREF="http://stable.example/girth" ADD_DATE="1700000000" TAGS="strap,leather">Γirths of all lengths</A>
<DD>Four metres and more
<DT><A HREF="http://stable.example/padding" ADD_DATE="1700000001" TAGS="leather">Padding</A>
</DL><p>
"""
CLOSED = ("/data/config.json.php", "/data/datastore.php", "/data/log.txt", "/application/Utils.php",
          "/application/config/ConfigManager.php", "/vendor/autoload.php", "/.htaccess")


def token(root):
    """A token for the interface, signed with the secret of the settings."""
    text = (root / "data" / "config.json.php").read_text()
    secret = json.loads(text[text.index("{"):text.rindex("}") + 1])["api"]["secret"]
    parts = [{"typ": "JWT", "alg": "HS512"}, {"iat": int(time.time())}]
    signed = ".".join(base64url(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{base64url(hmac.digest(secret.encode(), signed.encode(), 'sha512'))}"


def base64url(octets):
    """Base64 without padding, for addresses."""
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def run(session):
    """Installs it in the browser, and uses it."""
    step, browser = session.report.step, session.browser
    root = session.tree("shaarli", SOURCE)
    # Debian has them in /var; elsewhere they are in the directory.
    for name in ("data", "cache", "pagecache", "tmp"):
        (root / name).mkdir(exist_ok=True)
        shutil.copy(root / "application" / ".htaccess", root / name)
    for file in ("init.php", "index.php", "autoload.php", "application/config/ConfigManager.php"):
        text = (root / file).read_text()
        for old, new in (("/var/lib/shaarli/data", root / "data"), ("/var/cache/shaarli", root),
                         ("/usr/share/shaarli", root)):
            text = text.replace(old, str(new))
        (root / file).write_text(text)
    machine.give_away(root)
    server = session.under_test("shaarli", root)
    base = f"http://127.0.0.1:{server.port}"
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("shaarli: the first visit leads to its installation", needed=True):
        page.goto(f"{base}/")
        equal("address", page.url, f"{base}/install")
        browser.fill(page, {"#username": USER, "#password": PASSWORD, "#title": TITLE})
        browser.follow(page, "#installform input[name=Save]")
        check((root / "data" / "config.json.php").is_file(), f"not installed: {page.url}")
    with step("shaarli: a wrong password is refused, the right one logs in", needed=True):
        for password in ("wrong", PASSWORD):
            page.goto(f"{base}/login")
            browser.fill(page, {"#login-form input[name=login]": USER, "#login-form input[name=password]": password})
            browser.follow(page, "#login-form input[type=submit]")
            equal("logged in", page.locator("a[href$='/admin/logout']").count() > 0, password == PASSWORD)
    with step("shaarli: save a link, and read it by its permalink as a visitor"):
        page.goto(f"{base}/admin/shaare?post=http%3A%2F%2Fstable.example%2Fhowdah%3Fa%3Db%26c")
        browser.fill(page, {"#lf_title": "Howdahs & more", "#lf_description": "Σεβαστή carries one.", "#lf_tags": "howdah"})
        browser.follow(page, "#button-save-edit")
        link = page.locator("a[href*='/shaare/']:not([href*='/admin/'])").first.get_attribute("href")
        visitor = browser.visitor(f"127.0.0.1:{server.port}")
        equal("status", visitor.goto(f"{base}{link}").status, 200)
        shown = visitor.locator(".linklist-item").inner_text()
        check("Howdahs & more" in shown and "Σεβαστή" in shown, shown)
        browser.shot(visitor, "shaarli-permalink")
    with step("shaarli: upload bookmarks of a browser, and find them"):
        file = session.directory / "bookmarks of the caravan.html"
        file.write_text(BOOKMARKS)
        page.goto(f"{base}/admin/import")
        page.set_input_files("input[name=filetoupload]", file)
        browser.follow(page, "input[name=import_file]")
        page.goto(f"{base}/?searchtags=leather")
        equal("links", page.locator(".linklist-item").count(), 2)
        page.goto(f"{base}/?searchterm=Γirths")
        check("Four metres" in page.locator(".linklist-item").inner_text(), "the imported link is not found")
        page.goto(f"{base}/add-tag/strap")
        equal("links of a tag in the path", page.locator(".linklist-item").count(), 1)
    with step("shaarli: its feeds and its interface for programs answer"):
        answer = fetch(server.port, f"127.0.0.1:{server.port}", Request("/feed/atom"))
        check(answer.status == 200 and answer.kind == "application/atom+xml", f"{answer.status} {answer.kind}")
        check(f"{base}/shaare/".encode() in answer.body, "the feed has other addresses")
        answer = fetch(server.port, "127.0.0.1", Request("/api/v1/links"))
        equal("without a token", (answer.status, answer.kind), (401, "application/json"))
        fields = (("Authorization", f"Bearer {token(root)}"),)
        answer = fetch(server.port, "127.0.0.1", Request("/api/v1/links?limit=all", headers=fields))
        check(answer.status == 200 and b"stable.example" in answer.body, f"{answer.status}: {answer.body[:300]}")
    with step("shaarli: what is not there is 404, what its rules close is refused"):
        equal("status", page.goto(f"{base}/no/such/page").status, 404)
        # Shaarli sends this page with 200.
        page.goto(f"{base}/shaare/nothing")
        check("you are trying to reach does not exist" in page.locator("body").inner_text(), "another page")
        browser.shot(page, "shaarli-404")
        for path in CLOSED:
            status = fetch(server.port, "127.0.0.1", Request(path)).status
            check(status in (403, 404), f"{path}: {status}")
        equal("PROPFIND", fetch(server.port, "127.0.0.1", Request("/", "PROPFIND")).status, 403)
        equal("HEAD", fetch(server.port, "127.0.0.1", Request("/", "HEAD")).status, 200)
    with step("shaarli: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
