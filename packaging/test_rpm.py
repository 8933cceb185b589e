#!/usr/bin/env python3
"""Tests the RPM packages: builds them from programs, examines them, and installs them into an empty root directory.

    packaging/test_rpm.py --programs DIR [--packages DIR]

DIR has howdah, howdah-sendmail and a howdah-phpX.Y for each version of PHP; that of --packages has the Debian packages
of the same programs, with which files and modes are compared. The scripts of the packages run in a root directory that
has a shell, and records the calls of systemctl and howdah in place of these programs; one test installs and upgrades
them with rpm in a machine of this release of Debian. Prints a line for each test, and at the end how many have passed.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import build_root  # noqa: E402
import machine  # noqa: E402
import runner  # noqa: E402
import test_deb  # noqa: E402

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
# Where rpm keeps its database: Debian's rpm has another default.
DATABASE = ("--dbpath", "/var/lib/rpm")
# What the scripts of the packages call, except for the programs that STUBS stands for.
COMMANDS = ("sh", "cat", "cut", "grep", "rm", "sleep", "touch")
PRIVATE_MODES = {"etc/howdah/howdah.json": "640", "etc/howdah/sites": "750", "etc/howdah/servers": "750",
                 "var/lib/howdah": "700", "var/log/howdah": "2750"}
STUBS = {
    "systemctl": """
case "$*" in
    *list-units*) [ ! -e /running ] || echo 'howdah.service loaded active running Howdah' ;;
    *is-enabled*' howdah.service') [ -e /enabled ] ;;
    *is-enabled* | *is-failed*) exit 1 ;;
esac
""",
    "systemd-sysusers": "", "systemd-tmpfiles": "", "howdah": "",
}


def output(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **options).stdout


def build(programs, out, release=1):
    """Builds the packages in a directory of their own, and returns their files by name."""
    with tempfile.TemporaryDirectory() as target:
        done = subprocess.run([HERE / "rpm", "--programs", programs, "--release", str(release), "--out", out],
                              env=os.environ | {"CARGO_TARGET_DIR": target}, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"packaging/rpm fails: {done.stderr}")
    return {output("rpm", "-qp", "--qf", "%{NAME}", path): path for path in sorted(out.glob("*.rpm"))}


def query(package, form):
    return output("rpm", "-qp", "--qf", form, package)


def files(package):
    """The files of a package with their modes: {"usr/bin/howdah": "755"}."""
    lines = query(package, "[%{FILENAMES} %{FILEMODES:octal}\n]").splitlines()
    return {name.lstrip("/"): f"{int(mode, 8) & 0o7777:o}" for name, mode in (line.rsplit(" ", 1) for line in lines)}


def debian_files(package):
    """The same of a Debian package, at the places that these files have in other distributions."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], check=True, capture_output=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            name = member.name.removeprefix("./").rstrip("/")
            if name in (".", "lib"):
                continue
            if name.startswith("lib/"):
                name = f"usr/{name}"
            name = name.replace("/zsh/vendor-completions", "/zsh/site-functions")
            if name.startswith("usr/share/doc/"):
                name = name.removesuffix(".gz").replace("/changelog", "/CHANGELOG.md")
            found[name] = f"{member.mode:o}"
    return found


# Files of Debian's rules alone.
DEBIAN_ONLY = re.compile(r"usr/share/(lintian.*|doc/[^/]*/(copyright|CHANGELOG\.md\.Debian)|doc/howdah-.*)")
# Directories that RPM packages must own, and the license, which Debian has in its file of copyrights.
RPM_ONLY = re.compile(r"usr/share/licenses/.*|var/(lib|log)/howdah")


class System:
    """A root directory in which rpm installs packages and runs their scripts."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="howdah-rpm-"))
        for name in ("bin", "sbin", "etc", "run/systemd/system", "var/lib/rpm", "dev"):
            (self.directory / name).mkdir(parents=True)
        (self.directory / "dev/null").touch()
        (self.directory / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (self.directory / "etc/group").write_text("root:x:0:\nadm:x:4:\n")
        for command in COMMANDS:
            self.add_command(Path(shutil.which(command)).resolve(), command)
        for name, script in STUBS.items():
            path = self.directory / "sbin" / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >>/log\n{script}')
            path.chmod(0o755)

    def add_command(self, program, name):
        shutil.copy(program, self.directory / "bin" / name)
        for library in re.findall(r"(/\S+) \(0x", output("ldd", program)):
            target = self.directory / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)

    def rpm(self, *arguments, check=True):
        done = subprocess.run(["rpm", "--root", self.directory, *DATABASE, *arguments], capture_output=True, text=True)
        if check and done.returncode:
            raise AssertionError(f"rpm {arguments[0]} fails: {done.stderr}")
        assert not check or "warning: %" not in done.stderr, done.stderr
        return done

    def calls(self):
        """The calls since the last question, without those that only ask."""
        log = self.directory / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line for line in lines if not re.search("list-units|is-enabled|is-failed", line)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)


class Tests:
    """The tests, and the packages of two releases, built once."""

    def __init__(self, arguments, work):
        self.arguments = arguments
        self.work = work
        self.packages = build(arguments.programs, work / "1")
        self.next = build(arguments.programs, work / "2", release=2)
        self.workers = [name for name in self.packages if name.startswith("howdah-php")]
        self.server = self.packages["howdah"]

    def programs(self, packages):
        return [packages["howdah"], *(packages[name] for name in self.workers)]

    def system(self):
        if os.geteuid() != 0:
            raise runner.Skip("it takes root")
        return System()

    def test_there_is_a_package_for_each_program(self):
        programs = {path.name for path in Path(self.arguments.programs).glob("howdah-php[0-9]*")}
        assert set(self.packages) == {"howdah", "howdah-doc"} | programs, self.packages
        version = output(HERE / "version").strip()
        for name, path in self.packages.items():
            arch = "noarch" if name == "howdah-doc" else os.uname().machine
            assert re.fullmatch(rf"{re.escape(name)}-{re.escape(version)}-1[^-]*\.{arch}\.rpm", path.name), path

    def test_two_builds_have_the_same_bytes(self):
        again = build(self.arguments.programs, self.work / "again")
        for name, path in self.packages.items():
            assert again[name].read_bytes() == path.read_bytes(), f"{path.name} differs"

    def test_files_and_modes_are_those_of_the_debian_packages(self):
        if not self.arguments.packages:
            raise runner.Skip("--packages names no Debian packages")
        for name, path in self.packages.items():
            debs = sorted(Path(self.arguments.packages).glob(f"{name}_*.deb"))
            if not debs:
                raise runner.Skip(f"{self.arguments.packages} has no package {name}")
            debian, rpm = debian_files(debs[0]), files(path)
            # Directories of the system belong to no RPM package.
            missing = {file for file in debian if not DEBIAN_ONLY.fullmatch(file) and file not in rpm
                       and not any(other.startswith(f"{file}/") for other in debian)}
            added = {file for file in rpm if not RPM_ONLY.fullmatch(file) and file not in debian}
            assert not missing and not added, f"{name}: only Debian: {missing}, only RPM: {added}"
            modes = {file: (debian[file], mode) for file, mode in rpm.items() if debian.get(file, mode) != mode}
            assert not modes, modes

    def test_only_root_reads_what_may_have_passwords(self):
        found = files(self.server)
        assert {name: found[name] for name in PRIVATE_MODES} == PRIVATE_MODES, found
        owners = query(self.server, "[%{FILENAMES} %{FILEUSERNAME}:%{FILEGROUPNAME}\n]").splitlines()
        assert {line for line in owners if not line.endswith(" root:root")} == {"/var/log/howdah root:adm"}

    def test_changed_configuration_is_kept(self):
        flags = dict(line.split(" ") for line in
                     query(self.server, "[%{FILENAMES} %{FILEFLAGS:fflags}\n]").splitlines())
        configuration = {name: flag for name, flag in flags.items() if name.startswith("/etc/") and flag}
        assert configuration == {"/etc/howdah/howdah.json": "cn", "/etc/logrotate.d/howdah": "cn"}, configuration
        assert flags["/usr/share/licenses/howdah/LICENSE"] == "l", flags

    def test_requirements_are_libraries_and_packages_of_this_version(self):
        for name, path in self.packages.items():
            requires = output("rpm", "-qpR", path).splitlines()
            others = [one for one in requires if not re.match(r"lib(c|m|gcc_s)\.so|ld-linux|rpmlib\(|rtld\(|config\(", one)]
            expected = {"howdah": {"/bin/sh", "systemd"}, "howdah-doc": set()}.get(name)
            if expected is None:
                needed = output("readelf", "--dynamic", Path(self.arguments.programs) / name)
                library = re.search(r"NEEDED.*\[(libphp.*)\]", needed)[1]
                directory = re.search(r"RUNPATH.*\[(.*)\]", needed)
                library = f"{directory[1]}/{library}" if directory else f"{library}()(64bit)"
                expected = {f"howdah = {query(path, '%{VERSION}-%{RELEASE}')}", library}
                assert "howdah-php = " in output("rpm", "-qp", "--provides", path)
            assert set(others) == expected, f"{name}: {others}"

    def test_every_package_has_its_license_and_changes(self):
        for path in self.packages.values():
            assert query(path, "%{LICENSE}") == "Apache-2.0"
            assert "usr/share/licenses/howdah/LICENSE" in files(path), path
        changes = output(HERE / "changes.py", "--rpm", output(HERE / "version").strip()).replace("%%", "%").strip()
        assert query(self.server, "%{CHANGELOGTEXT}").strip() == changes

    def test_scripts_are_valid(self):
        forms = {"post": "%{POSTIN}", "preun": "%{PREUN}", "postun": "%{POSTUN}", "trigger": "[%{TRANSFILETRIGGERSCRIPTS}]"}
        for name, form in forms.items():
            script = query(self.server, form)
            assert "(none)" not in script and not re.search("@[A-Z]+@", script), f"{name}: {script}"
            subprocess.run(["sh", "-n"], input=script, text=True, check=True)
            if shutil.which("shellcheck"):
                # rpm passes the arguments.
                done = subprocess.run(["shellcheck", "--shell=sh", "-"], input=script, text=True, capture_output=True)
                assert not done.returncode, f"{name}: {done.stdout}"

    def test_an_empty_root_has_the_files(self):
        if os.geteuid() != 0:
            raise runner.Skip("it takes root")
        with tempfile.TemporaryDirectory() as root:
            (Path(root) / "etc").mkdir()
            (Path(root) / "etc/group").write_text("root:x:0:\nadm:x:4:\n")
            subprocess.run(["rpm", "--root", root, *DATABASE, "-i", "--nodeps", "--noscripts", "--notriggers",
                            *self.packages.values()], check=True)
            for path in self.packages.values():
                for name, mode in files(path).items():
                    assert f"{(Path(root) / name).lstat().st_mode & 0o7777:o}" == mode, name
            changed = subprocess.run(["rpm", "--root", root, *DATABASE, "-Va", "--nodeps", "--noscripts"],
                                     capture_output=True, text=True)
            assert not changed.stdout, changed.stdout
            assert output(Path(root) / "usr/bin/howdah", "--version")

    def test_the_first_installation_starts_what_is_enabled_at_its_end(self):
        for enabled in (False, True):
            with self.system() as system:
                if enabled:
                    (system.directory / "enabled").touch()
                system.rpm("-i", "--nodeps", *self.programs(self.packages))
                assert system.calls() == [
                    "systemd-sysusers howdah.conf", "systemd-tmpfiles --create howdah.conf",
                    "systemctl --no-reload preset howdah.service", "systemctl daemon-reload",
                    *(["systemctl start howdah.service"] if enabled else [])]

    def test_an_upgrade_replaces_running_servers_once(self):
        with self.system() as system:
            system.rpm("-i", "--nodeps", *self.programs(self.packages))
            (system.directory / "running").touch()
            system.calls()
            system.rpm("-U", "--nodeps", *self.programs(self.next))
            assert system.calls() == [
                "systemd-sysusers howdah.conf", "systemd-tmpfiles --create howdah.conf", "systemctl daemon-reload",
                "howdah upgrade --tolerant --control unix:/run/howdah/control.sock"]

    def test_an_upgrade_starts_no_server_that_does_not_run(self):
        with self.system() as system:
            system.rpm("-i", "--nodeps", *self.programs(self.packages))
            (system.directory / "enabled").touch()
            system.calls()
            system.rpm("-U", "--nodeps", *self.programs(self.next))
            assert not [call for call in system.calls() if "start" in call or call.startswith("howdah")]

    def test_the_server_alone_is_not_upgraded_beside_its_php(self):
        with self.system() as system:
            system.rpm("-i", "--nodeps", *self.programs(self.packages))
            done = system.rpm("-U", "--test", self.next["howdah"], check=False)
            assert done.returncode and "howdah-php < " in done.stderr and "conflicts" in done.stderr, done.stderr

    def test_applications_are_restarted_when_php_is_replaced(self):
        extension = self.extension()
        with self.system() as system:
            system.rpm("-i", "--nodeps", *self.programs(self.packages))
            (system.directory / "running").touch()
            system.calls()
            system.rpm("-i", "--nodeps", extension)
            assert system.calls() == ["systemctl daemon-reload",
                                      "howdah restart --all --control unix:/run/howdah/control.sock"]

    def test_an_upgrade_under_load_loses_no_request(self):
        # The programs are linked to the libraries of this system.
        suite = next((suite for suite in build_root.PHP if build_root.is_this_system(suite)), None)
        worker = f"howdah-php{build_root.PHP.get(suite)}"
        if reason := machine.obstacle() or (worker not in self.workers and f"there is no {worker} for a Debian"):
            raise runner.Skip(reason)
        php = build_root.PHP[suite]
        root = machine.make_root(f"rpm-{suite}", suite, (*machine.SYSTEM, "rpm", f"libphp{php}-embed"))
        with machine.Machine(root) as host:
            host.wait_for_systemd()
            self.rpm_in(host, "-i", self.packages, worker)
            # Debian's presets enable every service.
            test_deb.wait_for(lambda: "Howdah is running" in test_deb.get(host, "/")[1])
            host.path("/srv/site").mkdir(parents=True)
            host.path("/srv/site/index.php").write_text("<?php echo 'PHP ', PHP_VERSION;")
            host.path("/etc/howdah/howdah.json").write_text(test_deb.SITE)
            host.run("systemctl reload howdah")
            test_deb.wait_for(lambda: test_deb.get(host, "/index.php")[1].startswith(f"PHP {php}."))
            before = main_process(host)
            load = test_deb.Load(host)
            done = self.rpm_in(host, "-U", self.next, worker)
            assert "was not upgraded" not in done.stdout + done.stderr, done.stderr
            test_deb.wait_for(lambda: main_process(host) not in (before, "0"))
            count, failures = load.end()
            assert count and not failures, (count, failures)
            print(f"    {count} requests during an upgrade, none failed")
            assert host.path("/etc/howdah/howdah.json").read_text() == test_deb.SITE
            host.run(f"rpm -e {worker} howdah")
            assert host.run("systemctl is-active howdah", check=False).stdout.strip() != "active"
            assert host.path("/etc/howdah/howdah.json.rpmsave").read_text() == test_deb.SITE

    def rpm_in(self, host, action, packages, worker):
        test_deb.copy(host, [packages["howdah"], packages[worker]])
        return host.run(f"rpm {action} --nodeps /tmp/packages/*.rpm")

    def extension(self):
        """A package with a file of an extension of PHP."""
        spec = self.work / "extension.spec"
        spec.write_text("Name: php-test\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n"
                        "%description\n%install\ninstall -D /dev/null %{buildroot}/usr/lib64/php/modules/test.so\n"
                        "%files\n/usr/lib64/php/modules/test.so\n")
        subprocess.run(["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {self.work}/extension", "--define",
                        f"_rpmdir {self.work}", spec], check=True, capture_output=True)
        return self.work / "noarch/php-test-1-1.noarch.rpm"

    def test_a_removal_stops_the_server_and_keeps_what_was_changed(self):
        with self.system() as system:
            system.rpm("-i", "--nodeps", *self.programs(self.packages))
            configuration = system.directory / "etc/howdah/howdah.json"
            configuration.write_text("{}")
            (system.directory / "etc/howdah/sites/shop.json").write_text("{}")
            system.calls()
            system.rpm("-e", *self.workers, "howdah")
            assert system.calls() == [
                "systemctl stop howdah.socket howdah.service howdah@*.service",
                "systemctl --no-reload disable howdah.socket howdah.service howdah@.service",
                "systemctl daemon-reload"]
            left = {str(path.relative_to(system.directory)) for path in system.directory.rglob("*howdah*")}
            assert left == {"sbin/howdah", "etc/howdah", "etc/howdah/howdah.json.rpmsave"}, left
            assert (system.directory / "etc/howdah/sites/shop.json").exists()


def main_process(host):
    return host.run("systemctl show -p MainPID --value howdah").stdout.strip()


def obstacle(arguments):
    """The reason for which no test can run here, if there is one."""
    for program in ("rpm", "rpmbuild", "readelf", "strip"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not arguments.programs:
        return "--programs names no programs"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--only", default="", help="tests whose name contains this")
    arguments = parser.parse_args()
    if reason := obstacle(arguments):
        for name in runner.names(Tests, arguments.only):
            print(f"skipped: {name}: {reason}")
        print("0 passed, 0 failed")
        return 0
    with tempfile.TemporaryDirectory() as work:
        tests = Tests(arguments, Path(work))
        passed, failed = runner.run(tests, arguments.only)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
