"""SimpleSAMLphp from Debian's package: its public directory is `www`, and its pages are paths behind `module.php`.

Howdah serves it with no configuration.
"""

from pathlib import Path

import machine
from compare import Request, fetch
from report import check, equal

SOURCE = Path("/usr/share/simplesamlphp")
PASSWORD = "eleven quiet elephants at dawn"
SETTINGS = """
$config = array_replace($config, [
    'baseurlpath' => '/',
    'secretsalt' => 'elephantsatdawn24abcdefghijklmno',
    'auth.adminpassword' => '{password}',
    'datadir' => '{root}/data/',
    'tempdir' => '{root}/temp',
    'metadatadir' => '{root}/config/metadata/',
    'attributenamemapdir' => '{root}/config/attributemap/',
    'logging.handler' => 'errorlog',
    'session.cookie.secure' => false,
    'session.cookie.samesite' => null,
    'language.cookie.secure' => false,
    'language.cookie.samesite' => null,
    'statistics.out' => [],
    'module.enable' => ['exampleauth' => true, 'core' => true, 'saml' => true],
]);
"""
SOURCES = """<?php
$config = [
    'admin' => ['core:AdminPassword'],
    'default-sp' => ['saml:SP', 'entityID' => null, 'idp' => null, 'discoURL' => null],
    'example-userpass' => [
        'exampleauth:UserPass',
        'student:studentpass' => ['uid' => ['test'], 'eduPersonAffiliation' => ['member', 'student']],
    ],
];
"""
ENTITY = """<?xml version="1.0"?>
<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://stable.example/girth">
  <md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
    <md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
      Location="https://stable.example/acs" index="0"/>
  </md:SPSSODescriptor>
</md:EntityDescriptor>
"""


def run(session):
    """Logs in as a user and as the administrator."""
    step, browser = session.report.step, session.browser
    root = session.tree("simplesamlphp", SOURCE)
    for name in ("data", "temp", "config/metadata"):
        (root / name).mkdir(exist_ok=True)
    settings = root / "config" / "config.php"
    text = settings.read_text().replace("require_once('/var/lib/simplesamlphp/secrets.inc.php');", "")
    settings.write_text(text + SETTINGS.format(password=PASSWORD, root=root))
    (root / "config" / "authsources.php").write_text(SOURCES)
    machine.give_away(root)
    server = session.under_test("simplesamlphp", root if session.howdah else root / "www")
    base = f"http://127.0.0.1:{server.port}"
    page = browser.visitor(f"127.0.0.1:{server.port}")
    with step("simplesamlphp: the first page has its style", needed=True):
        page.goto(f"{base}/")
        check(page.url.startswith(f"{base}/module.php/core/frontpage_welcome.php"), page.url)
        missing = page.evaluate("performance.getEntriesByType('resource').filter(r => r.responseStatus >= 400)"
                                ".map(r => r.name)")
        check(not missing, f"missing: {missing}")
        browser.shot(page, "simplesamlphp-welcome")
    with step("simplesamlphp: a wrong password is refused, the right one shows the user's attributes"):
        for password in ("wrong", "studentpass"):
            page.goto(f"{base}/module.php/core/authenticate.php?as=example-userpass")
            check("/module.php/core/loginuserpass.php?AuthState=" in page.url, page.url)
            browser.fill(page, {"#username": "student", "#password": password})
            browser.follow(page, "#submit_button, #regularsubmit button")
            shown = "eduPersonAffiliation" in page.content()
            equal("the attributes are shown", shown, password == "studentpass")
    with step("simplesamlphp: the administrator uploads metadata"):
        page.goto(f"{base}/admin/metadata-converter.php")
        browser.fill(page, {"#password": PASSWORD})
        browser.follow(page, "#submit_button, #regularsubmit button")
        equal("address", page.url, f"{base}/admin/metadata-converter.php")
        file = session.directory / "metadata of the stable.xml"
        file.write_text(ENTITY)
        page.set_input_files("input[name=xmlfile]", file)
        browser.follow(page, "form[action*=converter] button, form[method=post] button, form input[type=submit]")
        check("https://stable.example/girth" in page.content() and "saml20-sp-remote" in page.content(),
              "the metadata is not converted")
        browser.shot(page, "simplesamlphp-metadata")
    with step("simplesamlphp: the metadata of a source, whose name is the end of the path, has the site's address"):
        answer = fetch(server.port, f"127.0.0.1:{server.port}", Request("/module.php/saml/sp/metadata.php/default-sp"))
        equal("status", answer.status, 200)
        check(f"{base}/module.php/saml/sp/saml2-acs.php/default-sp".encode() in answer.body, f"{answer.body[:500]}")
    with step("simplesamlphp: what is not there is its page, and nothing above www is sent"):
        # SimpleSAMLphp sends it with 200, on Apache, too.
        page.goto(f"{base}/module.php/core/no-such-page.php")
        check("not found" in page.locator("body").inner_text().lower(), "another page")
        for path in ("/config/config.php", "/../config/config.php", "/%2e%2e/config/config.php", "/lib/_autoload.php",
                     "/module.php/core/../../config/config.php", "/data/", "/composer.json"):
            answer = fetch(server.port, "127.0.0.1", Request(path))
            check(b"secretsalt" not in answer.body and b"elephants" not in answer.body, f"{path} is sent")
    with step("simplesamlphp: no server error and no script error was seen by the browser"):
        browser.expect_no_problems()
