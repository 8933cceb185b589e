#!/usr/bin/env python3
"""Tests the Debian packages in a fresh root file system of a release, with systemd as process 1.

    packaging/test_deb.py [--suite bookworm] [--php 8.2] --packages DIR [--next DIR]

DIR has the packages for this release (packaging/deb --out DIR); the second one has those of the next
revision, which are installed over them while clients send requests. Without it that test is skipped. What
a test leaves is gone with the machine. Prints a line for each test, and at the end how many have passed.
"""

import argparse
import concurrent.futures
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path

import machine
from clients import Load, get, post


def install(host, packages):
    """Installs packages from files; their dependencies have been downloaded."""
    copy(host, packages)
    names = " ".join(f"/tmp/packages/{path.name}" for path in packages)
    return host.run(f"apt-get install --yes {names}")


def copy(host, packages):
    """Puts packages into the machine, and removes others from there."""
    shutil.rmtree(host.path("/tmp/packages"), ignore_errors=True)
    host.path("/tmp/packages").mkdir()
    for path in packages:
        shutil.copy(path, host.path("/tmp/packages") / path.name)


def wordpress(arguments):
    """The packages of WordPress and a database. php-cgi stands for the PHP that they depend on, but is not used."""
    themes = {"bookworm": "twentytwentythree", "noble": "twentytwentyfour"}
    theme = themes.get(arguments.suite, "twentytwentyfive")
    return ("wordpress", f"wordpress-theme-{theme}", "mariadb-server",
            *(f"php{arguments.php}-{name}" for name in ("cgi", "mysql", "gd")))


SITE = """{
    "listeners": { "*:80": { "pass": "applications/site" } },
    // A remark of the administrator.
    "applications": { "site": { "type": "php", "root": "/srv/site", "script": "index.php", "processes": 2 } }
}
"""


PASSWORD = "eleven quiet elephants at dawn"
# A directory with WordPress, and its database. The test must not depend on other servers.
WORDPRESS = r'''
cp -rL /usr/share/wordpress /srv/blog 2>/dev/null || true
cd /srv/blog
rm -f wp-config.php .htaccess
sed -e s/database_name_here/blog/ -e s/username_here/blog/ -e s/password_here/secret/ \
    -e "/Add any custom values/a define('WP_HTTP_BLOCK_EXTERNAL', true);" wp-config-sample.php >wp-config.php
chown -R www-data:www-data .
systemctl start mariadb
mariadb -e "CREATE DATABASE blog; GRANT ALL ON blog.* TO blog@localhost IDENTIFIED BY 'secret'"
'''


class Tests:
    def __init__(self, arguments, root):
        self.arguments = arguments
        self.root = root
        self.packages = programs(arguments.packages, arguments.php)

    def machine(self):
        host = machine.Machine(self.root)
        host.wait_for_systemd()
        return host

    def with_site(self, host):
        """Serves a PHP site with a configuration that the administrator has changed."""
        host.path("/srv/site").mkdir(parents=True)
        host.path("/srv/site/index.php").write_text("<?php echo 'PHP ', PHP_VERSION;")
        host.path("/etc/howdah/howdah.json").write_text(SITE)
        host.run("howdah check /etc/howdah/howdah.json")
        host.run("systemctl reload howdah")
        wait_for(lambda: get(host, "/index.php")[1].startswith(f"PHP {self.arguments.php}."))

    def test_an_installed_server_answers(self):
        with self.machine() as host:
            begin = time.monotonic()
            install(host, self.packages)
            took = time.monotonic() - begin
            status, body = get(host, "/")
            assert status == 200 and "Howdah is running" in body, (status, body)
            print(f"    installed in {took:.1f} s, with PHP {self.arguments.php} and its dependencies")
            # The router's own user, without files.
            assert "howdah" in host.run("getent passwd howdah").stdout
            versions = host.run("howdah --version").stdout
            assert f"PHP {self.arguments.php}." in versions, versions
            for page in ("howdah", "howdah-serve"):
                assert host.path(f"/usr/share/man/man1/{page}.1.gz").exists() or \
                    "path-exclude" in host.run("cat /etc/dpkg/dpkg.cfg.d/* || true").stdout, page
            # The example of all keys includes the files of a directory.
            host.run("mkdir -p /tmp/example/conf.d && cp /usr/share/doc/howdah/examples/example.json /tmp/example && "
                     "howdah check --syntax /tmp/example/example.json")
            host.run("for document in /usr/share/doc/howdah/examples/*/howdah.json; do "
                     "howdah check --syntax $document 2>&1 | { ! grep -v 'configuration is valid'; }; done")
            for document in ("README.md", "examples/README.md"):
                host.run(f"zcat -f /usr/share/doc/howdah/{document}* | grep '^# '")
            for file in ("grafana/howdah.json", "prometheus/howdah-alerts.yml", "fail2ban/filter.d/howdah-auth.conf"):
                assert host.path(f"/usr/share/howdah/monitoring/{file}").exists(), file
            assert "answers" in host.run("howdah ping").stdout
            # systemd has copies of the sockets; they are the server's own.
            done = host.run("howdah check /etc/howdah/howdah.json")
            assert "listens on" not in done.stdout + done.stderr, done.stdout + done.stderr
            self.with_site(host)

    def test_the_documents_are_a_package_of_their_own(self):
        with self.machine() as host:
            install(host, [*self.packages, package(self.arguments.packages, "howdah-doc")])
            for document in ("README.md", "contents.md", "install.md", "configuration/sites.md"):
                host.run(f"zcat -f /usr/share/doc/howdah/{document}* | grep '^# '")

    def test_the_service_of_php_fpm_runs_howdah(self):
        """Debian's service with another program, its helper for the socket, a reload, and the way back."""
        php = self.arguments.php
        service, program = f"php{php}-fpm", f"/usr/sbin/howdah-fpm{php}"
        ask = "SCRIPT_FILENAME=/srv/a.php REQUEST_METHOD=GET cgi-fcgi -bind -connect /run/php/php-fpm.sock"
        with self.machine() as host:
            install(host, [*self.packages, package(self.arguments.packages, "howdah-fpm")])
            host.run(f"apt-get install --yes --no-install-recommends {service} libfcgi-bin")
            host.path("/srv/a.php").write_text("<?php echo php_ini_loaded_file();")
            assert f"PHP {php}." in host.run("php-fpm -v").stdout
            assert host.run("readlink -f /usr/sbin/php-fpm").stdout.strip() == "/usr/bin/howdah"
            directory = host.path(f"/etc/systemd/system/{service}.service.d")
            directory.mkdir(parents=True)
            (directory / "howdah.conf").write_text(
                f"[Service]\nExecStart=\nExecStart={program} --nodaemonize --fpm-config /etc/php/{php}/fpm/php-fpm.conf\n")
            host.run(f"systemctl daemon-reload && systemctl restart {service}")
            assert f"/etc/php/{php}/fpm/php.ini" in host.run(ask).stdout
            assert f"/run/php/php{php}-fpm.sock" in host.run("readlink -f /run/php/php-fpm.sock").stdout
            status = host.run(f"systemctl show {service} --property StatusText --value").stdout
            assert "Ready to handle connections" in status or "Processes active: " in status, status
            main = host.run(f"systemctl show {service} --property MainPID --value").stdout
            host.run(f"systemctl reload {service}")
            wait_for(lambda: "/php.ini" in host.run(ask).stdout)
            assert host.run(f"systemctl show {service} --property MainPID --value").stdout == main
            (directory / "howdah.conf").unlink()
            host.run(f"systemctl daemon-reload && systemctl restart {service}")
            assert "/php.ini" in host.run(ask).stdout
            host.run("apt-get purge --yes howdah-fpm")
            assert host.run("test ! -e /usr/sbin/php-fpm", check=False).returncode == 0

    def test_sites_are_added_and_stand_alone(self):
        with self.machine() as host:
            install(host, self.packages)
            for name in ("shop", "wiki"):
                host.run(f"howdah site add {name}.example --root /srv/{name} --user {name} --create-user")
                index = host.path(f"/srv/{name}/index.php")
                index.write_text("<?php echo posix_geteuid(), ' ', getmypid(), ' ', "
                                 "@file_get_contents('/srv/shop/index.php') ? 'reads' : 'no';")
            host.run("howdah reload")
            user, process, _ = get(host, "/", name="shop.example")[1].split()
            assert user == host.run("id -u shop").stdout.strip()
            assert get(host, "/", name="wiki.example")[1].split()[2] == "no"
            assert "Howdah is running" in get(host, "/")[1]
            for directory in ("sites", "servers"):
                mode = host.run(f"stat -c '%a %U:%G' /etc/howdah/{directory}").stdout.strip()
                assert mode == "750 root:root", (directory, mode)
            # A whole document, as a unit of its own takes it.
            host.run("howdah serve /srv/wiki --listen 127.0.0.1:8081 --print-config >/etc/howdah/sites/wiki.example.json")
            done = host.run("howdah reload", check=False)
            assert done.returncode == 4 and "/etc/howdah/servers" in done.stderr, done.stderr
            assert get(host, "/", name="wiki.example")[0] == 200
            assert get(host, "/", name="shop.example")[1].split()[1] == process
            host.run("systemctl restart howdah")
            assert get(host, "/", name="wiki.example")[0] == 200

    def test_a_server_of_its_own_has_a_unit(self):
        with self.machine() as host:
            install(host, self.packages)
            host.path("/srv/blog").mkdir(parents=True)
            host.path("/srv/blog/index.php").write_text("<?php echo 'PHP ', PHP_VERSION;")
            host.run("howdah serve /srv/blog --listen 127.0.0.1:8081 --print-config "
                     ">/etc/howdah/servers/blog.json && systemctl enable --now howdah@blog")
            assert get(host, "/", 8081)[1].startswith("PHP ")
            host.run("apt-get remove --yes howdah")
            assert host.run("systemctl is-active howdah@blog", check=False).stdout.strip() == "inactive"

    def test_wordpress_is_served_from_a_new_system(self):
        with self.machine() as host:
            copy(host, self.packages)
            measured("apt install ./howdah*.deb", host.run, "apt-get install --yes /tmp/packages/howdah*.deb")
            measured("apt install wordpress mariadb-server", host.run,
                     "apt-get install --yes --no-install-recommends " + " ".join(wordpress(self.arguments)))
            host.run(WORDPRESS)
            measured("howdah serve --print-config", host.run,
                     "howdah serve /srv/blog --listen '*:8080' --print-config >/etc/howdah/servers/blog.json")
            measured("systemctl enable --now howdah@blog", host.run, "systemctl enable --now howdah@blog")
            status, body = measured("the first page", get, host, "/wp-admin/install.php", 8080)
            assert status == 200 and "weblog_title" in body, (status, body[:2000])
            form = {"weblog_title": "A Caravan", "user_name": "mahout", "admin_email": "mahout@example.org",
                    "admin_password": PASSWORD, "admin_password2": PASSWORD, "pw_weak": "1"}
            status, body = post(host, "/wp-admin/install.php?step=2", form, 8080)
            assert status == 200 and "Success" in body, (status, body[:2000])
            status, body = measured("the front page", get, host, "/", 8080)
            assert status == 200 and "A Caravan" in body and "Hello world!" in body, (status, body[:2000])
            log = host.run("journalctl --no-pager --priority warning --unit howdah@blog").stdout
            assert "PHP Fatal" not in log, log

    def test_an_upgrade_under_load_fails_no_request(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        new = programs(self.arguments.next, self.arguments.php)
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            # A dash stands for a slash in systemd's names of units; here it is a dash.
            host.run("howdah serve /srv/site --listen 127.0.0.1:8081 --print-config "
                     ">/etc/howdah/servers/my-blog.json && systemctl start howdah@my-blog")
            before = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
            load = Load(host)
            time.sleep(1)
            output = install(host, new)
            time.sleep(2)
            count, failures = load.end()
            after = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
            program = host.path(f"/proc/{after}/exe").readlink()
            assert after != before, f"the server was not replaced: {output.stdout[-1000:]}"
            assert str(program) == "/usr/bin/howdah", program
            site = host.run("systemctl show -p MainPID --value howdah@my-blog").stdout.strip()
            program = host.path(f"/proc/{site}/exe").readlink()
            assert str(program) == "/usr/bin/howdah", f"{program}: {output.stdout[-1000:]}"
            assert get(host, "/index.php", 8081)[1].startswith("PHP ")
            print(f"    {count} requests during the upgrade, {len(failures)} failed")
            assert count > 100 and not failures, failures
            assert host.path("/etc/howdah/howdah.json").read_text() == SITE

    def test_an_upgrade_keeps_the_server_if_the_new_version_cannot_run(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            before = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
            # As if a version that is newer than both had written the state.
            host.path("/var/lib/howdah/format").write_text("howdah state 999\nwritten by howdah 9.9.9\n")
            done = install(host, programs(self.arguments.next, self.arguments.php))
            said = done.stdout + done.stderr
            assert "goes on with the program that it runs" in said and "has format 999" in said, said
            assert host.run("systemctl show -p MainPID --value howdah").stdout.strip() == before
            assert get(host, "/index.php")[1].startswith("PHP ")

    def test_an_upgrade_keeps_the_running_configuration(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            before = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
            # An administrator is editing it.
            host.path("/etc/howdah/howdah.json").write_text(SITE.replace("processes", "proceses"))
            install(host, programs(self.arguments.next, self.arguments.php))
            assert host.run("systemctl show -p MainPID --value howdah").stdout.strip() != before
            assert get(host, "/index.php")[1].startswith("PHP ")

    def test_what_the_administrator_changed_survives(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            host.run("howdah serve /srv/site --listen 127.0.0.1:8081 --print-config "
                     ">/etc/howdah/servers/my-blog.json && systemctl enable --now howdah@my-blog")
            host.run("systemctl disable howdah && apt-get remove --yes 'howdah*'")
            assert host.path("/etc/howdah/howdah.json").read_text() == SITE
            try:
                get(host, "/")
            except AssertionError:
                pass
            else:
                raise AssertionError("a removed server answers")
            install(host, self.packages)
            assert host.path("/etc/howdah/howdah.json").read_text() == SITE
            host.run("systemctl start howdah")
            assert get(host, "/index.php")[1].startswith("PHP ")
            # The unit of another server was enabled before, and is started again.
            assert get(host, "/index.php", 8081)[1].startswith("PHP ")

    def test_a_stop_after_an_upgrade_lets_requests_finish(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            host.path("/srv/site/index.php").write_text(
                "<?php if (isset($_GET['slow'])) { touch('/tmp/begun'); sleep(3); } echo 'done';")
            old = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
            host.run("howdah upgrade")
            wait_for(lambda: not host.path(f"/proc/{old}").exists())
            with concurrent.futures.ThreadPoolExecutor() as pool:
                slow = pool.submit(get, host, "/?slow")
                wait_for(lambda: host.run("ls /tmp/systemd-private-*/tmp/begun /tmp/begun", check=False).stdout)
                host.run("systemctl stop howdah")
                assert slow.result()[0] == 200 and slow.result()[1].strip() == "done", slow.result()
            assert host.run("systemctl show -p Result --value howdah").stdout.strip() == "success"

    def test_a_stop_soon_after_an_upgrade_lets_requests_of_the_old_server_finish(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            host.path("/srv/site/index.php").write_text(
                "<?php if (isset($_GET['slow'])) { touch('/var/tmp/begun'); sleep(8); } echo 'done';")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                slow = pool.submit(get, host, "/?slow")
                wait_for(lambda: host.run("ls /var/tmp/systemd-private-*/tmp/begun", check=False).stdout)
                host.run("howdah upgrade && systemctl stop howdah")
                assert slow.result()[0] == 200 and slow.result()[1].strip() == "done", slow.result()
            assert host.run("systemctl show -p Result --value howdah").stdout.strip() == "success"

    def test_an_upgrade_waits_for_the_server_of_the_one_before(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            host.path("/srv/site/index.php").write_text(
                "<?php if (isset($_GET['slow'])) { touch('/var/tmp/begun'); sleep(20); } echo 'done';")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                slow = pool.submit(get, host, "/?slow")
                wait_for(lambda: host.run("ls /var/tmp/systemd-private-*/tmp/begun", check=False).stdout)
                host.run("howdah upgrade")
                before = host.run("systemctl show -p MainPID --value howdah").stdout.strip()
                done = install(host, programs(self.arguments.next, self.arguments.php))
                assert "was not upgraded" not in done.stdout + done.stderr, done.stderr
                assert slow.result()[0] == 200, slow.result()
            assert host.run("systemctl show -p MainPID --value howdah").stdout.strip() != before

    def test_a_port_in_use_is_left_to_its_program(self):
        with self.machine() as host:
            # Of IPv4 and IPv6: a server that can listen on one of its addresses runs.
            other = host.beside([sys.executable, "-m", "http.server", "80", "--bind", "::"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_for(lambda: get(host, "/")[0] == 200)
                done = install(host, self.packages)
                said = done.stdout + done.stderr
                assert "howdah.service is installed but does not run" in said, said
                assert "another program listens there" in said and "systemctl start howdah" in said, said
                assert "Could not execute" not in said, said
            finally:
                other.kill()
                other.wait()
            # A server that is started again would have the port now.
            time.sleep(5)
            shown = host.run("systemctl show -p ActiveState -p NRestarts howdah").stdout.split()
            assert shown == ["NRestarts=0", "ActiveState=failed"] or \
                shown == ["ActiveState=failed", "NRestarts=0"], shown
            host.run("systemctl start howdah")
            assert "Howdah is running" in get(host, "/")[1]

    def test_the_socket_unit_outlives_upgrades_and_a_new_installation(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        with self.machine() as host:
            install(host, self.packages)
            host.run("systemctl disable --now howdah && systemctl enable --now howdah.socket")
            assert "Howdah is running" in get(host, "/")[1]
            # The document has a listener for each socket.
            assert "Howdah is running" in get(host, "/", address="::1")[1]
            install(host, programs(self.arguments.next, self.arguments.php))
            assert "Howdah is running" in get(host, "/")[1]
            assert host.run("systemctl is-active howdah.socket").stdout.strip() == "active"
            host.run("apt-get remove --yes 'howdah*'")
            install(host, self.packages)
            assert host.run("systemctl is-active howdah.socket").stdout.strip() == "active"
            assert "Howdah is running" in get(host, "/")[1]
            # A socket without a listener keeps no client waiting.
            host.path("/etc/howdah/howdah.json").write_text(
                '{"listeners": {"*:80": {"pass": "routes"}}, "routes": [{"action": {"return": 204}}]}')
            host.run("systemctl restart howdah")
            assert get(host, "/")[0] == 204
            try:
                get(host, "/", address="::1")
            except AssertionError as error:
                assert "timed out" not in str(error), error
            else:
                raise AssertionError("a socket without a listener answers")

    def test_the_server_alone_is_not_upgraded_beside_its_php(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            copy(host, programs(self.arguments.next, self.arguments.php))
            done = host.run("dpkg --install /tmp/packages/howdah_*.deb", check=False)
            assert done.returncode and "would break" in done.stdout + done.stderr, done.stdout + done.stderr
            host.run("apt-get install --yes --fix-broken")
            assert host.run(f"dpkg-query -W -f '${{Status}}' howdah-php{self.arguments.php}").stdout == \
                "install ok installed"
            assert get(host, "/index.php")[1].startswith("PHP ")

    def test_applications_are_restarted_when_php_is_replaced(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            host.path("/srv/site/index.php").write_text("<?php echo 'PHP ', getmypid();")
            before = {get(host, "/")[1] for _ in range(20)}
            server = host.run("systemctl show -p MainPID --value howdah").stdout
            host.run("dpkg-trigger --by-package=base-files /usr/lib/php && dpkg --configure --pending")
            wait_for(lambda: not before & {get(host, "/")[1] for _ in range(10)})
            assert host.run("systemctl show -p MainPID --value howdah").stdout == server

    def test_administrators_read_logs_and_only_root_documents(self):
        with self.machine() as host:
            install(host, self.packages)
            mode = host.run("stat -c '%a %U:%G' /etc/howdah/howdah.json").stdout.strip()
            assert mode == "640 root:root", mode
            self.with_site(host)
            document = SITE.replace('"listeners"', '"access_log": "/var/log/howdah/access.log", "listeners"')
            host.path("/etc/howdah/howdah.json").write_text(document)
            host.run("systemctl restart howdah")
            get(host, "/index.php")
            wait_for(lambda: host.path("/var/log/howdah/access.log").exists())
            assert host.run("stat -c '%U:%G' /var/log/howdah /var/log/howdah/access.log").stdout.split() == \
                ["root:adm", "root:adm"]
            host.run("useradd --groups adm reader && setpriv --reuid reader --regid reader --init-groups "
                     "cat /var/log/howdah/access.log")
            assert "--tmp" in host.path(
                "/proc/" + host.run("systemctl show -p MainPID --value howdah").stdout.strip() + "/cmdline").read_text()

    def test_a_purge_leaves_nothing_and_the_next_installation_is_new(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            get(host, "/index.php")
            host.run("touch /var/log/howdah/access.log /var/lib/howdah/x")
            host.run("howdah serve /srv/site --listen 127.0.0.1:8081 --print-config "
                     ">/etc/howdah/servers/blog.json && systemctl enable --now howdah@blog")
            host.run("apt-get purge --yes 'howdah*'")
            found = host.run("find / -xdev -name '*howdah*' -not -path '/proc/*' -not -path '/tmp/*' "
                             "-not -path '/sys/*' 2>/dev/null || true; find /run -name '*howdah*'").stdout.split()
            assert not found, found
            assert not host.run("getent passwd howdah || true").stdout
            assert not host.run("ps ax 2>/dev/null | grep '[h]owdah' || true").stdout
            install(host, self.packages)
            assert "Howdah is running" in get(host, "/")[1]

    def test_logs_are_rotated_without_losing_a_line(self):
        with self.machine() as host:
            install(host, self.packages)
            self.with_site(host)
            document = SITE.replace('"listeners"', '"access_log": "/var/log/howdah/access.log", "listeners"')
            host.path("/etc/howdah/howdah.json").write_text(document)
            host.run("systemctl reload howdah")
            wait_for(lambda: get(host, "/index.php?one") and host.path("/var/log/howdah/access.log").exists())
            host.run("apt-get install --yes --no-install-recommends logrotate")
            host.run("logrotate --force /etc/logrotate.d/howdah")
            wait_for(lambda: get(host, "/index.php?two") and
                     "?two" in host.path("/var/log/howdah/access.log").read_text())
            assert "?one" in host.path("/var/log/howdah/access.log.1").read_text()


def programs(directory, php):
    """The packages of the server and of one PHP."""
    return [package(directory, name) for name in ("howdah", f"howdah-php{php}")]


def package(directory, name):
    """The file of a package."""
    found = sorted(Path(directory).glob(f"{name}_*.deb"))
    if len(found) != 1:
        sys.exit(f"{directory}: expected one package {name}, found {[path.name for path in found]}")
    return found[0]


def measured(title, function, *arguments):
    """Calls a function, and prints its duration."""
    begin = time.monotonic()
    result = function(*arguments)
    print(f"    {time.monotonic() - begin:5.1f} s  {title}", flush=True)
    return result


def wait_for(condition):
    for _ in range(600):
        try:
            if condition():
                return
        except AssertionError:
            pass
        time.sleep(0.1)
    raise AssertionError("what was waited for did not happen")


def run(tests, description):
    """Runs each test of a class, as the arguments of the program say. Returns the status of the program."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--php", default="8.2")
    parser.add_argument("--packages", required=True)
    parser.add_argument("--next")
    parser.add_argument("--only", default="", help="tests whose name contains this")
    arguments = parser.parse_args()
    names = [name for name in vars(tests) if name.startswith("test_") and arguments.only in name]
    passed = failed = 0
    if reason := machine.obstacle():
        for name in names:
            print(f"skipped: {name}: {reason}")
        print("0 passed, 0 failed")
        return 0
    php = arguments.php
    root = machine.make_root(f"packages-{arguments.suite}", arguments.suite, machine.SYSTEM,
                             (f"--install-recommends libphp{php}-embed php{php}-sqlite3 media-types",
                              "--no-install-recommends logrotate",
                              f"--no-install-recommends php{php}-fpm libfcgi-bin",
                              "--no-install-recommends curl unattended-upgrades",
                              "--no-install-recommends " + " ".join(wordpress(arguments))))
    tests = tests(arguments, root)
    for name in names:
        try:
            reason = getattr(tests, name)()
        except Exception:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print(f"test {name} ... FAILED", flush=True)
            continue
        if reason:
            print(f"skipped: {name}: {reason}")
        passed += 1
        print(f"test {name} ... {'skipped' if reason else 'ok'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(Tests, __doc__))
