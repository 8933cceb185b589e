"""MediaWiki from Debian's package, with SQLite: written in, uploaded to, and asked for what is closed.

Howdah serves it with no configuration.
"""

import shutil
import subprocess
from pathlib import Path

import machine
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/mediawiki")
USER = "Mahout"
PASSWORD = "eleven quiet elephants at dawn"
TEXT = "The girth of a howdah is '''four''' metres."
# What no visitor may read, with the statuses that a refusal may have.
CLOSED = ("/data/wiki.sqlite", "/includes/AutoLoader.php", "/maintenance/update.php", "/.git/config", "/LocalSettings.php.bak")


def run(session):
    """Installs the wiki with its own command, and uses it."""
    step, browser = session.report.step, session.browser
    root = session.tree("mediawiki", SOURCE)
    (root / "data").mkdir()
    server = session.under_test("mediawiki", root)
    base = f"http://127.0.0.1:{server.port}"
    with step("mediawiki: its command installs it", needed=True):
        done = subprocess.run(
            [f"php{machine.php()}", root / "maintenance" / "install.php", "--dbtype", "sqlite", "--dbpath", root / "data",
             "--dbname", "wiki", "--server", base, "--scriptpath", "", "--pass", PASSWORD, "Caravan", USER],
            cwd=root, capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
        settings = root / "LocalSettings.php"
        with settings.open("a") as written:
            # Debian's cache directory is outside of what a site in a sandbox may open.
            written.write("$wgEnableUploads = true;\n$wgUseImageMagick = false;\n"
                          f"$wgCacheDirectory = '{root / 'data'}';\n")
        shutil.copy(settings, root / "LocalSettings.php.bak")
        machine.give_away(root)
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("mediawiki: log in", needed=True):
        page.goto(f"{base}/index.php?title=Special:UserLogin")
        browser.fill(page, {"#wpName1": USER, "#wpPassword1": PASSWORD})
        browser.follow(page, "#wpLoginAttempt")
        check(USER in page.locator("#pt-userpage").inner_text(), "not logged in")
    with step("mediawiki: write a page, and read it by its address"):
        page.goto(f"{base}/index.php?title=Girth&action=edit")
        page.fill("#wpTextbox1", TEXT)
        browser.follow(page, "#wpSave")
        page.goto(f"{base}/index.php/Girth")
        check("four" in page.locator("#mw-content-text b").inner_text(), "the page has another text")
        browser.shot(page, "mediawiki-page")
    with step("mediawiki: upload a picture, and see it smaller"):
        picture = session.directory / "dunes-of-the-wiki.jpg"
        browser.paint(picture)
        page.goto(f"{base}/index.php/Special:Upload")
        page.set_input_files("#wpUploadFile", picture)
        page.fill("#wpDestFile", "Dunes.jpg")
        browser.follow(page, "input[name=wpUpload]")
        shown = page.locator(".fullImageLink img")
        shown.wait_for()
        check(shown.evaluate("image => image.complete && image.naturalWidth > 0"), "the picture is not shown")
        check("/thumb/" in shown.get_attribute("src"), "the picture is not smaller")
    with step("mediawiki: a page that is not there is 404, what is closed is refused"):
        equal("status", page.goto(f"{base}/index.php/No_such_page").status, 404)
        for path in CLOSED:
            status = fetch(server.port, "127.0.0.1", Request(path)).status
            check(status in (403, 404), f"{path}: {status}")
    with step("mediawiki: its interface for programs answers"):
        answer = fetch(server.port, "127.0.0.1", Request("/api.php?action=parse&page=Girth&format=json"))
        check(answer.status == 200 and b"howdah" in answer.body, f"{answer.status}: {answer.body[:300]}")
    with step("mediawiki: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
