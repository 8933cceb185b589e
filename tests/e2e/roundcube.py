"""Roundcube from Debian's package, with SQLite and its `.htaccess`: up to the mail server, which is not there.

Howdah serves it with no configuration.
"""

import sqlite3
from pathlib import Path

import machine
from compare import Request, fetch
from report import check

SOURCE = Path("/var/lib/roundcube")
SETTINGS = """<?php
$config = [
    'db_dsnw' => 'sqlite:///{root}/temp/mail.db?mode=0640',
    'imap_host' => '127.0.0.1:1',
    'smtp_host' => '127.0.0.1:1',
    'des_key' => 'elephants-at-dawn-24-abc',
    'log_dir' => '{root}/logs/',
    'temp_dir' => '{root}/temp/',
    'plugins' => [],
    'skin' => 'elastic',
];
"""
CLOSED = ("/config/config.inc.php", "/temp/mail.db", "/logs/errors.log", "/SQL/sqlite.initial.sql", "/program/lib/",
          "/README.md")


def run(session):
    """Opens the page for the login, and tries to log in."""
    step, browser = session.report.step, session.browser
    root = session.tree("roundcube", SOURCE)
    for name in ("temp", "logs"):
        (root / name).mkdir(exist_ok=True)
    (root / "config" / "config.inc.php").write_text(SETTINGS.format(root=root))
    start = root / "program" / "include" / "iniset.php"
    start.write_text(start.read_text().replace("'/var/lib/roundcube/'", f"'{root}/'"))
    database = sqlite3.connect(root / "temp" / "mail.db")
    database.executescript((root / "SQL" / "sqlite.initial.sql").read_text())
    database.close()
    machine.give_away(root)
    server = session.under_test("roundcube", root)
    base = f"http://127.0.0.1:{server.port}"
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("roundcube: the page for the login has its style and its scripts", needed=True):
        page.goto(f"{base}/")
        page.wait_for_selector("#rcmloginuser")
        missing = page.evaluate("performance.getEntriesByType('resource').filter(r => r.responseStatus >= 400)"
                                ".map(r => r.name)")
        check(not missing, f"missing: {missing}")
        check(page.evaluate("typeof rcmail") == "object", "its scripts have not run")
        browser.shot(page, "roundcube-login")
    with step("roundcube: a login is sent to the mail server"):
        browser.fill(page, {"#rcmloginuser": "mahout", "#rcmloginpwd": "dawn"})
        browser.follow(page, "#rcmloginsubmit")
        said = (root / "logs" / "errors.log").read_text()
        check("Could not connect to 127.0.0.1:1: Connection refused" in said, said)
    with step("roundcube: settings, data and logs are closed"):
        for path in CLOSED:
            answer = fetch(server.port, "127.0.0.1", Request(path))
            check(answer.status in (403, 404), f"{path}: {answer.status}")
