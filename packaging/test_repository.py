#!/usr/bin/env python3
"""Tests an apt repository of the Debian packages in a fresh root file system of a release, with systemd as process 1.

    packaging/test_repository.py [--suite bookworm] [--php 8.2] --packages DIR [--next DIR]

The arguments are those of test_deb.py. packaging/repository makes the repository, with a key that is made for the
tests, and the machine reaches it over HTTP. The commands are those of docs/install.md.
"""

import filecmp
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import test_deb
from test_deb import Load, get, package

HERE = Path(__file__).resolve().parent
# In the documentation, and in the tests.
PUBLISHED = "https://packages.example.org/howdah"
ADDRESS = "http://127.0.0.1:8000"
# Of the repository with the first packages; later ones need a later time.
TIME = 1700000000


def commands(containing, document="docs/install.md"):
    """The block of commands of a document that contains a text."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (HERE.parent / document).read_text(), re.MULTILINE | re.DOTALL)
    found = [block for block in blocks if containing in block]
    assert len(found) == 1, f"{document}: {len(found)} blocks contain \"{containing}\""
    return found[0]


def run(host, script, check=True):
    """Runs commands of the documentation as root."""
    script = script.replace(PUBLISHED, ADDRESS).replace("apt install", "apt install --yes")
    sudo = 'sudo() { case $1 in -u) user=$2; shift 2; runuser -u "$user" -- "$@";; *) "$@";; esac; }\n'
    return host.run(sudo + script, check=check)


def installed(host, name="howdah"):
    """The installed version of a package."""
    return host.run(f"dpkg-query -W -f '${{Version}}' {name}").stdout


def main_process(host):
    return host.run("systemctl show -p MainPID --value howdah").stdout.strip()


class Key:
    """A key for signatures, in a directory of its own. It is newer than the commits of the tests."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(mode=0o700)
        self.environment = {**os.environ, "GNUPGHOME": str(directory), "HOWDAH_SIGNING_KEY": "test@howdah.invalid"}
        subprocess.run(["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key",
                        "Test <test@howdah.invalid>", "ed25519", "sign", "never"],
                       env=self.environment, check=True, capture_output=True)

    def end(self):
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=self.environment)


class Repository:
    """A repository of one release of Debian."""

    def __init__(self, directory, suite, key):
        self.directory, self.suite, self.key = directory, suite, key

    def add(self, packages, age=0, check=True):
        """Adds the packages of a directory, at a number of seconds after the first time."""
        environment = {**self.key.environment, "SOURCE_DATE_EPOCH": str(TIME + age)}
        return subprocess.run([HERE / "repository", "--out", self.directory, f"{self.suite}={packages}"],
                              env=environment, check=check, capture_output=True, text=True)

    def file(self, name):
        return self.directory / "dists" / self.suite / name

    def change(self, path, old, new):
        """Replaces bytes of a file. A server must notice that it is newer."""
        content = path.read_bytes()
        assert old in content, (path, old)
        path.write_bytes(content.replace(old, new, 1))
        later = time.time() + 10
        os.utime(path, (later, later))


class Tests(test_deb.Tests):
    def __init__(self, arguments, root):
        super().__init__(arguments, root)
        self.versions = [subprocess.run(["dpkg-deb", "--field", package(directory, "howdah"), "Version"], check=True,
                                        capture_output=True, text=True).stdout.strip()
                         for directory in (arguments.packages, arguments.next) if directory]
        self.php = f"howdah-php{arguments.php}"

    def with_repository(self, *steps):
        """Calls each function with a machine and a repository of the first packages."""
        with tempfile.TemporaryDirectory(prefix="howdah-repository-") as directory, self.machine() as host:
            key = Key(Path(directory) / "key")
            repository = Repository(Path(directory) / "files", self.arguments.suite, key)
            repository.add(self.arguments.packages)
            server = host.beside([sys.executable, "-m", "http.server", "8000", "--bind", "127.0.0.1", "--directory",
                                  repository.directory], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                test_deb.wait_for(lambda: get(host, "/howdah.asc", 8000)[0] == 200)
                # The machine does not reach Debian's mirrors: it has the lists and packages of its root.
                host.path("/etc/apt/apt.conf.d/90test").write_text('Acquire::Retries "0";\n')
                host.run("apt-get install --yes --no-install-recommends curl")
                for step in steps:
                    step(host, repository)
            finally:
                server.kill()
                server.wait()
                key.end()

    def install(self, host, _):
        run(host, commands("howdah.sources"))

    def install_with_site(self, host, repository):
        self.install(host, repository)
        self.with_site(host)

    def add_next(self, host, repository):
        repository.add(self.arguments.next, age=60)
        host.run("apt update")

    def under_load(self, host, script):
        """Runs a script that replaces the server, while clients send requests."""
        before = main_process(host)
        load = Load(host)
        time.sleep(1)
        output = run(host, script)
        time.sleep(2)
        count, failures = load.end()
        print(f"    {count} requests, {len(failures)} failed")
        assert count > 100 and not failures, failures
        assert main_process(host) != before, f"the server was not replaced: {output.stdout[-1000:]}"
        assert "was not upgraded" not in output.stdout + output.stderr, output.stderr

    def test_the_commands_of_the_documentation_install_a_server(self):
        def test(host, _):
            assert "Howdah is running" in get(host, "/")[1]
            assert installed(host) == installed(host, self.php) == self.versions[0]
            run(host, "sudo apt install howdah-doc howdah-dbgsym")
            host.run("zcat -f /usr/share/doc/howdah/install.md* | grep '^# '")
        assert commands("howdah.sources") == commands("howdah.sources", "README.md")
        self.with_repository(self.install, test)

    def test_the_readme_leads_to_two_sites_with_users(self):
        def test(host, _):
            host.path("/tmp/site").mkdir()
            host.path("/tmp/site/index.php").write_text("<?php echo posix_geteuid();")
            host.run("chmod 755 /tmp/site && tar -C /tmp -czf /tmp/latest.tar.gz site")
            # No name leads to this machine: the README says to leave the address out until then.
            script = commands("site add shop.example", "README.md").replace(" --email you@example.org", "")
            run(host, f"cd /tmp\n{script}")
            host.run("cp -r /tmp/site/. /srv/wiki && howdah reload")
            for name in ("shop", "wiki"):
                status, user = get(host, "/", name=f"{name}.example")
                assert (status, user.strip()) == (200, host.run(f"id -u {name}").stdout.strip()), (status, user)
            shown = host.run("howdah site list").stdout
            assert "shop.example" in shown and "wiki.example" in shown, shown

        self.with_repository(self.install, test)

    def test_an_upgrade_by_apt_fails_no_request(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"

        def test(host, _):
            self.under_load(host, "apt upgrade --yes")
            assert installed(host) == installed(host, self.php) == self.versions[1]
            assert host.path("/etc/howdah/howdah.json").read_text() == test_deb.SITE
        self.with_repository(self.install_with_site, self.add_next, test)

    def test_a_downgrade_by_apt_fails_no_request(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"

        def test(host, _):
            assert installed(host) == self.versions[1]
            script = re.sub(r"(howdah\S*)=\S+", rf"\1={self.versions[0]}", commands("--all-versions"))
            self.under_load(host, script.replace("howdah-php8.2", self.php))
            assert installed(host) == installed(host, self.php) == self.versions[0]
            # The commands hold the version.
            host.run("apt upgrade --yes")
            assert installed(host) == self.versions[0]
        self.with_repository(self.add_next_alone, self.install_with_site, test)

    def add_next_alone(self, _, repository):
        repository.add(self.arguments.next, age=60)

    def test_unattended_upgrades_install_the_next_version(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"

        def test(host, _):
            host.run("apt-get install --yes --no-install-recommends unattended-upgrades")
            host.run("unattended-upgrade")
            assert installed(host) == self.versions[0], "it upgrades packages of an origin that is not configured"
            run(host, commands("52unattended-upgrades-howdah"))
            host.run("unattended-upgrade")
            assert installed(host) == installed(host, self.php) == self.versions[1], \
                host.run("cat /var/log/unattended-upgrades/unattended-upgrades.log").stdout[-2000:]
            assert "Howdah is running" in get(host, "/")[1]
        self.with_repository(self.install, self.add_next, test)

    def test_held_and_pinned_versions_stay(self):
        if not self.arguments.next:
            return "there are no packages of a next revision"

        def test(host, _):
            hold = re.search(r"`sudo (apt-mark hold [^`]*)`", (HERE.parent / "docs/install.md").read_text())[1]
            host.run(hold + " && apt upgrade --yes")
            assert installed(host) == self.versions[0]
            host.run(hold.replace("hold", "unhold", 1))
            script = commands("/etc/apt/preferences.d/howdah")
            pinned = re.compile(r"(?<=Pin: version ).*")
            # The next version stands for one that the preferences exclude.
            pattern = self.versions[0].replace("~", "*")
            run(host, pinned.sub(pattern, script) + "\napt upgrade --yes")
            assert installed(host) == installed(host, self.php) == self.versions[0], host.run("apt policy howdah").stdout
            # Without that, it is installed.
            run(host, pinned.sub("0.*", script) + "\napt upgrade --yes")
            assert installed(host) == installed(host, self.php) == self.versions[1], host.run("apt policy howdah").stdout
        self.with_repository(self.install, self.add_next, test)

    def test_a_purge_leaves_only_the_source(self):
        def test(host, _):
            get(host, "/index.php")
            run(host, "sudo apt install howdah-doc && apt purge --yes 'howdah*'")
            found = host.run("find / -xdev -name '*howdah*' -not -path '/proc/*' -not -path '/tmp/*' "
                             "-not -path '/sys/*' 2>/dev/null || true; find /run -name '*howdah*'").stdout.split()
            assert sorted(found) == ["/etc/apt/keyrings/howdah.asc", "/etc/apt/sources.list.d/howdah.sources"], found
            assert not host.run("getent passwd howdah || true").stdout
            assert not host.run("ps ax 2>/dev/null | grep '[h]owdah' || true").stdout
        self.with_repository(self.install_with_site, test)

    def test_a_changed_repository_is_refused(self):
        def package_changed(repository):
            path = repository.directory / f"pool/{repository.suite}/{package(self.arguments.packages, 'howdah').name}"
            # A byte in the middle of the compressed files.
            content = path.read_bytes()
            repository.change(path, content[len(content) // 2:][:64], bytes(64))

        def index_changed(repository):
            for index in repository.directory.glob("dists/*/main/binary-*"):
                repository.change(index / "Packages", b"Package: howdah\n", b"Package: apache\n")
                (index / "Packages.gz").unlink()

        def release_changed(repository):
            for name in ("InRelease", "Release"):
                repository.change(repository.file(name), b"Label: Howdah", b"Label: Debian")

        def release_alone_changed(repository):
            repository.file("InRelease").unlink()
            repository.change(repository.file("Release"), b"Label: Howdah", b"Label: Debian")

        def signature_missing(repository):
            repository.file("InRelease").unlink()
            repository.file("Release.gpg").unlink()

        def another_key(repository):
            other = Key(repository.directory.parent / "other")
            try:
                Repository(repository.directory, repository.suite, other).add(self.arguments.packages)
            finally:
                other.end()

        def test(host, repository):
            kept = repository.directory.parent / "kept"
            shutil.copytree(repository.directory, kept)
            script = commands("howdah.sources")
            # The key of before, not that which the repository has by then.
            run(host, script.split("sudo apt update")[0])
            for change, message in ((package_changed, "Hash Sum mismatch"), (index_changed, "Hash Sum mismatch"),
                                    (release_changed, "signature"), (release_alone_changed, "signature"),
                                    (signature_missing, "not signed"), (another_key, "signature")):
                shutil.rmtree(repository.directory)
                shutil.copytree(kept, repository.directory)
                change(repository)
                host.run("rm -rf /var/lib/apt/lists/127.0.0.1* /var/lib/apt/lists/partial/* /var/cache/apt/archives/howdah*")
                done = run(host, "sudo apt update && sudo apt install howdah", check=False)
                said = done.stdout + done.stderr
                assert done.returncode and message in said, (change.__name__, said[-2000:])
                assert not host.path("/usr/bin/howdah").exists(), change.__name__
            shutil.rmtree(repository.directory)
            shutil.copytree(kept, repository.directory)
            run(host, "sudo apt update && sudo apt install howdah")
            assert "Howdah is running" in get(host, "/")[1]
        self.with_repository(test)

    def test_the_same_packages_give_the_same_bytes(self):
        with tempfile.TemporaryDirectory(prefix="howdah-repository-") as directory:
            directory = Path(directory)
            key = Key(directory / "key")
            try:
                first, second = (Repository(directory / name, self.arguments.suite, key) for name in ("a", "longer-b"))
                first.add(self.arguments.packages)
                # Again and later, in a directory that has the packages.
                shutil.copytree(first.directory / "pool", second.directory / "pool")
                time.sleep(1.1)
                second.add(self.arguments.packages)
                second.add(self.arguments.packages)
                names = sorted(str(path.relative_to(first.directory)) for path in first.directory.rglob("*")
                               if path.is_file())
                assert f"dists/{first.suite}/InRelease" in names and "howdah.asc" in names, names
                _, differing, missing = filecmp.cmpfiles(first.directory, second.directory, names, shallow=False)
                assert not differing and not missing, (differing, missing)

                # Another package of the same version, and an earlier time.
                other = directory / "other"
                shutil.copytree(self.arguments.packages, other)
                package(other, "howdah-doc").write_bytes(b"changed")
                done = first.add(other, check=False)
                assert done.returncode == 1 and "another package of the same version" in done.stderr, done.stderr
                done = first.add(self.arguments.packages, age=-60, check=False)
                assert done.returncode == 1 and "is newer" in done.stderr, done.stderr
                del key.environment["HOWDAH_SIGNING_KEY"]
                done = first.add(self.arguments.packages, check=False)
                assert done.returncode == 1 and "name a key" in done.stderr, done.stderr
            finally:
                key.end()


if __name__ == "__main__":
    sys.exit(test_deb.run(Tests, __doc__))
