"""phpMyAdmin from Debian's package: logged in to the run's MariaDB, a table made, filled and exported.

Howdah serves it with no configuration.
"""

from pathlib import Path

import machine
import servers
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/phpmyadmin")
DATABASE = "stable"
TABLE = "CREATE TABLE elephants (id INT PRIMARY KEY, name VARCHAR(40)); INSERT INTO elephants VALUES (1, 'Σεβαστή');"
SETTINGS = """<?php
$cfg['blowfish_secret'] = 'eleven_quiet_elephants_at_dawn__';
$cfg['Servers'][1] = ['auth_type' => 'cookie', 'host' => '127.0.0.1', 'port' => '{port}'];
$cfg['TempDir'] = '{root}/tmp';
"""


def run(session):
    """Logs in, and works with a table."""
    step, browser = session.report.step, session.browser
    root = session.tree("phpmyadmin", SOURCE)
    (root / "tmp").mkdir()
    (root / "config.inc.php").write_text(SETTINGS.format(port=session.database.port, root=root))
    vendor = root / "libraries" / "vendor_config.php"
    vendor.write_text(vendor.read_text().replace("'/etc/phpmyadmin/config.inc.php'", f"'{root}/config.inc.php'")
                      .replace("'/var/lib/phpmyadmin/tmp/'", f"'{root}/tmp/'"))
    machine.give_away(root)
    server = session.under_test("phpmyadmin", root)
    base = f"http://127.0.0.1:{server.port}"
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("phpmyadmin: a wrong password is refused, the right one logs in", needed=True):
        for password in ("wrong", servers.DATABASE_PASSWORD):
            page.goto(f"{base}/")
            browser.fill(page, {"#input_username": servers.DATABASE_USER, "#input_password": password})
            browser.follow(page, "#input_go")
            refused = page.locator("text=Access denied").count() > 0
            equal("refused", refused, password == "wrong")
        page.wait_for_selector("#server_breadcrumb, #serverinfo, .breadcrumb")
    with step("phpmyadmin: make and fill a table"):
        page.goto(f"{base}/index.php?route=/database/sql&db={DATABASE}")
        # The editor on top of the text field is phpMyAdmin's.
        page.locator("#queryfieldscontainer .CodeMirror").evaluate("(field, text) => field.CodeMirror.setValue(text)", TABLE)
        page.locator("#button_submit_query").click()
        page.wait_for_selector("text=1 row inserted")
        page.goto(f"{base}/index.php?route=/sql&db={DATABASE}&table=elephants&pos=0")
        page.wait_for_selector(".table_results")
        check("Σεβαστή" in page.locator(".table_results").inner_text(), "the row is not shown")
        browser.shot(page, "phpmyadmin-table")
    with step("phpmyadmin: no source is sent"):
        for path in ("/libraries/vendor_config.php", "/config.inc.php", "/templates/base.twig", "/sql/create_tables.sql"):
            answer = fetch(server.port, "127.0.0.1", Request(path))
            check(b"elephants_at_dawn" not in answer.body, f"{path} is sent")
    with step("phpmyadmin: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
