#!/usr/bin/env python3
"""Serves domains as HestiaCP adds, changes and deletes them, with integrations/hestia.

    tests/hestia_test.py --howdah target/debug/howdah [--hestia DIR] [TEST...]

The templates are filled in with sed, as HestiaCP does; with DIR, a checkout of HestiaCP, by its own func/domain.sh.
"""

import argparse
import contextlib
import grp
import http.client
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))
from peers import Process, free_port  # noqa: E402

INTEGRATION = HERE.parent / "integrations" / "hestia"
HOWDAH = None
HESTIA = None
USER = "www-data"
# Seconds after which a test fails that waits for something.
PATIENCE = 60

# What a change of a domain does to its files. Arguments: the end of the template.
FILL = r"""
add_web_config() {
    values="domain=$domain domain_idn=$domain web_system=$WEB_SYSTEM user=$user group=$user home=$HOMEDIR"
    conf=$HOMEDIR/$user/conf/web/$domain/$1.conf link=$ROOT/etc/$1/conf.d/domains/$domain.conf
    case $2 in *.stpl)
        conf=${conf%.conf}.ssl.conf link=${link%.conf}.ssl.conf ;;
    esac
    cp "$WEBTPL/$1/$2" "$conf"
    for value in $values; do
        sed -i "s|%${value%%=*}%|${value#*=}|g" "$conf"
    done
    sed -i -e "s|%alias_idn%|${aliases_idn//,/ }|g" -e "s|%docroot%|$docroot|g" -e "s|%sdocroot%|$docroot|g" \
        -e "s|%ssl_pem%|$ssl_pem|g" -e "s|%ssl_key%|$ssl_key|g" "$conf"
    chown "root:$user" "$conf"
    chmod 640 "$conf"
    ln -sf "$conf" "$link"
}
"""
OWN = r"""
set +eu
. <(sed "s|/etc/|$ROOT/etc/|g" "$SOURCE/func/domain.sh")
. <(sed -n '/^format_domain_idn/,/^}/p; /^version_ge/,/^}/p' "$SOURCE/func/main.sh")
mkdir -p "$ROOT/etc/nginx/conf.d"
"""
ADD = r"""
mkdir -p "$HOMEDIR/$user/conf/web/$domain"
sdocroot=$docroot
ssl_pem=$HOMEDIR/$user/conf/web/$domain/ssl/$domain.pem ssl_key=${ssl_pem%.pem}.key
local_ip= alias_string= backend_lsnr= ssl_crt= ssl_ca= ssl_ca_str= PROXY_EXT= WEB_BACKEND= PROXY_SYSTEM=
WEB_RGROUPS= WEB_PORT=80 WEB_SSL_PORT=443 PROXY_PORT= PROXY_SSL_PORT= aliases=$aliases_idn
add_web_config "$WEB_SYSTEM" "$template"
exit 0
"""


class Panel(unittest.TestCase):
    """A machine with the integration below a directory, and a server that reads its sites."""

    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="howdah-hestia-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.root.chmod(0o755)
        program = self.root / "usr" / "lib" / "howdah"
        program.mkdir(parents=True)
        (program / "howdah-php8.2").touch()
        subprocess.run([INTEGRATION / "install", self.root], check=True)
        self.port = free_port()
        document = self.root / "etc" / "howdah" / "howdah.json"
        document.write_text(f'{{"sites": "hestia/*.json", "defaults": {{"listen": "127.0.0.1:{self.port}"}}}}')
        # The hook calls the program by its name.
        programs = self.root / "bin"
        programs.mkdir()
        (programs / "howdah").symlink_to(HOWDAH)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
                            "HOWDAH_RUNTIME_DIR": str(self.root / "run")}
        command = ["env", f"HOWDAH_RUNTIME_DIR={self.root / 'run'}", HOWDAH, "serve", "--config", document, "--state",
                   self.root / "state"]
        self.server = Process("howdah", command, self.root / "log")
        self.addCleanup(self.server.stop)
        self.server.wait_for_http(self.port)

    def domain(self, name, template="default.tpl", aliases="", docroot=None):
        """Adds a domain, or changes it, without a restart."""
        if docroot is None:
            docroot = self.root / "home" / USER / "web" / name / "public_html"
        Path(docroot).mkdir(parents=True, exist_ok=True)
        index = Path(docroot) / "index.php"
        if not index.exists():
            index.write_text(f"<?php echo '{name}';")
        script = (OWN if HESTIA else FILL) + ADD
        values = {"ROOT": self.root, "SOURCE": HESTIA or "", "HOMEDIR": self.root / "home", "user": USER,
                  "WEB_SYSTEM": "howdah-hestia", "domain": name, "aliases_idn": aliases, "template": template,
                  "docroot": docroot, "WEBTPL": self.root / "usr/local/hestia/data/templates/web"}
        subprocess.run(["bash", "-eu", "-c", script], check=True,
                       env={**self.environment, **{key: str(value) for key, value in values.items()}})
        # The log is where the test is.
        for file in (self.root / "home" / USER / "conf" / "web" / name).glob("*.conf"):
            file.write_text(file.read_text().replace('"/var/log', f'"{self.root}/var/log'))

    def restart(self):
        """What the unit does. Returns its result."""
        hook = self.root / "usr/local/lib/howdah-hestia/howdah-hestia"
        return subprocess.run([hook, self.root / "etc/howdah-hestia/conf.d/domains", self.root / "etc/howdah/hestia"],
                              env=self.environment, capture_output=True, text=True, check=False)

    def get(self, host):
        """Status and body of the start page."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", "/", headers={"Host": host})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def wait_for(self, condition):
        """Waits until a condition holds."""
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, "what was waited for did not happen")
            time.sleep(0.05)

    def check(self):
        """Checks the document with its sites."""
        done = subprocess.run([HOWDAH, "check", self.root / "etc/howdah/howdah.json"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_domains_are_added_changed_and_deleted(self):
        self.assertEqual(self.get("shop.example")[0], 404)
        self.domain("shop.example", aliases="www.shop.example,shop.test")
        self.domain("wiki.example", "PHP-8_2.tpl")
        self.domain("blog.example", "wordpress.tpl")
        done = self.restart()
        self.assertEqual(done.returncode, 0, done.stderr)
        for host in ("shop.example", "www.shop.example", "shop.test"):
            self.assertEqual(self.get(host), (200, "shop.example"))
        self.assertEqual(self.get("wiki.example"), (200, "wiki.example"))
        self.assertEqual(self.get("blog.example"), (200, "blog.example"))
        self.check()
        logs = self.root / "var/log/howdah-hestia/domains"
        self.wait_for(lambda: (logs / "shop.example.bytes").read_text().split() == ["12"] * 3)
        self.wait_for(lambda: len((logs / "shop.example.log").read_text().splitlines()) == 3)
        for file in (self.root / "etc/howdah-hestia/conf.d/domains").glob("wiki.*"):
            file.unlink()
        self.domain("shop.example", aliases="shop.test")
        self.assertEqual(self.restart().returncode, 0)
        self.assertEqual(self.get("wiki.example")[0], 404)
        self.assertEqual(self.get("www.shop.example")[0], 404)
        self.assertEqual(self.get("shop.test"), (200, "shop.example"))

    def test_a_domain_with_a_certificate_has_one_site(self):
        self.domain("shop.example")
        self.domain("shop.example", "default.stpl")
        ssl = self.root / "home" / USER / "conf/web/shop.example/ssl"
        ssl.mkdir()
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example",
                        "-addext", "subjectAltName=DNS:shop.example", "-days", "30",
                        "-keyout", ssl / "shop.example.key", "-out", ssl / "shop.example.pem"],
                       check=True, capture_output=True)
        document = self.root / "etc/howdah/howdah.json"
        port = free_port()
        document.write_text(document.read_text().replace('"defaults": {', '"defaults": {"listen_https": '
                                                         f'"127.0.0.1:{port}", '))
        done = self.restart()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get("shop.example")[0], 301)
        fetched = subprocess.run(["curl", "--silent", "--cacert", ssl / "shop.example.pem", "--resolve",
                                  f"shop.example:{port}:127.0.0.1", f"https://shop.example:{port}/"],
                                 capture_output=True, text=True, check=False)
        self.assertEqual(fetched.stdout, "shop.example")
        self.check()

    def test_a_customer_cannot_add_keys_to_a_site(self):
        self.domain("shop.example")
        web = self.root / "home" / USER / "web/shop.example/public_html"
        self.assertEqual(self.restart().returncode, 0)
        self.domain("shop.example", docroot=f'{web}/a", "user": "root", "group": "root')
        done = self.restart()
        self.assertEqual(done.returncode, 1)
        self.assertIn("its root has a quotation mark", done.stderr)
        self.assertEqual(self.get("shop.example"), (200, "shop.example"))
        # A file of one customer's group with the user of another.
        self.domain("shop.example")
        conf = self.root / "home" / USER / "conf/web/shop.example/howdah-hestia.conf"
        conf.write_text(conf.read_text().replace(f'"user": "{USER}"', '"user": "root"'))
        done = self.restart()
        self.assertEqual(done.returncode, 1)
        self.assertIn('its user is "root"', done.stderr)

    def test_a_mistake_is_reported_for_its_own_domain_only(self):
        self.domain("shop.example")
        self.domain("wiki.example")
        self.assertEqual(self.restart().returncode, 0)
        # A site that was in order loses its directory; then another one changes.
        conf = self.root / "home" / USER / "conf/web/wiki.example/howdah-hestia.conf"
        conf.write_text(conf.read_text().replace("/public_html", "/gone"))
        done = self.restart()
        self.assertEqual(done.returncode, 1)
        self.assertIn("wiki.example.json", done.stderr)
        self.assertEqual(self.get("wiki.example"), (200, "wiki.example"))
        self.domain("shop.example", aliases="shop.test")
        done = self.restart()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.get("shop.test"), (200, "shop.example"))


def main():
    global HOWDAH, HESTIA
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", required=True, type=Path)
    parser.add_argument("--hestia", type=Path)
    options, rest = parser.parse_known_args()
    HOWDAH, HESTIA = options.howdah.resolve(), options.hestia
    try:
        known = pwd.getpwnam(USER) and grp.getgrnam(USER)
    except KeyError:
        known = None
    if os.geteuid() or not known:
        print(f"skipped: it takes root and the user {USER}")
        return
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
