#!/usr/bin/env python3
"""Tests the archive for other systems: builds it from programs, and runs its install.sh with --destdir.

    packaging/test_tarball.py --programs DIR [--build]

DIR has howdah, howdah-sendmail and a howdah-phpX.Y. With --build, build-worker.sh builds the program that runs PHP from
the source in the archive, without a network, which takes minutes. Prints a line for each test, and at the end how many
have passed.
"""

import argparse
import hashlib
import os
import pty
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import runner  # noqa: E402

HERE = Path(__file__).resolve().parent
PREFIX = "usr/local"
PROGRAMS = f"{PREFIX}/libexec/howdah"

# Runs the script $2 in this system, with changes in memory: $1 is an empty directory, $3 one that the script uses.
OVERLAY = r"""
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
mkdir -p "$1/root$3"
mount --bind "$3" "$1/root$3"
exec chroot "$1/root" sh -eu -c "$2" sh "$3"
"""

# Installs, upgrades and removes Howdah, with a recorder in place of systemctl.
WHOLE_LIFE = r"""
{ rm -rf /etc/howdah /var/lib/howdah /var/log/howdah /usr/local/*/howdah && userdel howdah; } 2>/dev/null || true
mkdir -p /run/systemd/system
cat >/usr/local/sbin/systemctl <<'END'
#!/bin/sh
case "$*" in
    *list-units*) [ ! -e /running ] || echo 'howdah.service loaded active running Howdah' ;;
    *is-enabled*) exit 1 ;;
    *) echo "systemctl $*" ;;
esac
END
chmod +x /usr/local/sbin/systemctl
export PATH=/usr/local/sbin:$PATH
install() {
    echo "== $*"
    sh "$archive/install.sh" "$@" --yes 2>&1 | sed -n '/^systemctl/p; /^[a-z]* *the user/p; /^user /p'
}
archive=$1
install
getent passwd howdah | cut -d : -f 1
stat -c '%a %U:%G' /var/lib/howdah /var/log/howdah
touch /running
install
install --uninstall
getent passwd howdah | cut -d : -f 1
install
install --uninstall --purge
getent passwd howdah || echo no user
find /etc /usr/local /var/lib/howdah /var/log/howdah -xdev -path '*howdah*' 2>/dev/null || true
"""


def build(programs, out):
    """Builds the archive in a directory of its own, and returns its file."""
    with tempfile.TemporaryDirectory() as target:
        done = subprocess.run([HERE / "tarball", "--programs", programs, "--out", out],
                              env=os.environ | {"CARGO_TARGET_DIR": target}, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"packaging/tarball fails: {done.stderr}")
    return next(out.glob("*.tar.gz"))


def content(directory):
    """Files, links and directories below a directory, with modes and checksums."""
    found = {}
    for path in sorted(directory.rglob("*")):
        mode = f"{stat.S_IMODE(path.lstat().st_mode):o}"
        what = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else \
            hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(directory))] = (mode, what)
    return found


class Tests:
    def __init__(self, arguments, work):
        self.arguments = arguments
        self.work = work
        self.archive = build(arguments.programs, work / "out")
        self.number = 0
        self.unpacked = self.unpack()

    def unpack(self):
        """The directory of a new copy of the archive."""
        self.number += 1
        directory = self.work / f"unpacked{self.number}"
        directory.mkdir()
        subprocess.run(["tar", "--extract", "--file", self.archive, "--directory", directory], check=True)
        return next(directory.iterdir())

    def with_php(self):
        """A copy with a program that runs PHP, which was built elsewhere."""
        unpacked = self.unpack()
        shutil.copy(self.worker(), unpacked / "worker")
        return unpacked

    def worker(self):
        found = sorted(Path(self.arguments.programs).glob("howdah-php[0-9]*"))
        if not found:
            raise runner.Skip(f"{self.arguments.programs} has no program that runs PHP")
        return found[0]

    def destination(self):
        self.number += 1
        return self.work / f"destination{self.number}"

    def install(self, destination, *arguments, unpacked=None, check=True, variables=None):
        done = subprocess.run(["sh", (unpacked or self.unpacked) / "install.sh", "--destdir", destination, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ | (variables or {}))
        assert not check or not done.returncode, done.stdout + done.stderr
        return done

    def test_two_builds_have_the_same_bytes(self):
        again = build(self.arguments.programs, self.work / "again")
        assert again.name == self.archive.name and again.read_bytes() == self.archive.read_bytes()

    def test_the_archive_has_no_links_and_one_owner(self):
        with tarfile.open(self.archive) as archive:
            top = self.archive.name.removesuffix(".tar.gz")
            for member in archive:
                assert member.name == top or member.name.startswith(f"{top}/"), member.name
                assert member.isfile() or member.isdir(), member.name
                assert (member.uid, member.gid) == (0, 0) and not member.mode & 0o022, member.name

    def test_scripts_have_no_findings_of_shellcheck(self):
        if not shutil.which("shellcheck"):
            raise runner.Skip("there is no shellcheck")
        scripts = [self.unpacked / "install.sh", self.unpacked / "build-worker.sh"]
        done = subprocess.run(["shellcheck", *scripts], capture_output=True, text=True)
        assert not done.returncode, done.stdout
        for path in (*scripts, self.unpacked / "README"):
            assert not re.search("@[A-Z]+@|#SERVERS#", path.read_text()), path

    def test_without_an_answer_it_only_shows(self):
        destination = self.destination()
        done = self.install(destination, check=False)
        assert done.returncode == 1 and "add --yes" in done.stdout, done
        assert not list(destination.iterdir())

    def test_it_asks_on_a_terminal(self):
        for answer, installs in (("n", False), ("", False), ("y", True)):
            destination = self.destination()
            terminal, other = pty.openpty()
            process = subprocess.Popen(["sh", self.unpacked / "install.sh", "--destdir", destination], stdin=other,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            os.close(other)
            os.write(terminal, f"{answer}\n".encode())
            output, _ = process.communicate()
            os.close(terminal)
            assert "Do this? [y/N]" in output, output
            assert (process.returncode == 0) == installs, output
            assert (destination / PROGRAMS / "howdah").exists() == installs, output

    def test_everything_that_it_installs_was_shown(self):
        destination = self.destination()
        shown = self.install(destination, check=False).stdout
        self.install(destination, "--yes")
        lines = dict(reversed(line.split(maxsplit=1)) for line in shown.splitlines() if line.startswith("install "))
        files = {str(path) for path in destination.rglob("*") if path.is_file() and not path.is_symlink()}
        own = {f"{destination}/{PROGRAMS}/{name}" for name in ("installed.sha256", "made-directories")}
        assert files - own == set(lines), files - own ^ set(lines)
        for path in ("etc/howdah/sites", "etc/howdah/servers", f"{PREFIX}/bin/howdah"):
            assert f"{destination}/{path}" in shown, path

    def test_what_is_installed_runs_and_fits_the_prefix(self):
        for prefix in ("/usr/local", "/opt/howdah", "/usr"):
            destination = self.destination()
            self.install(destination, "--yes", "--prefix", prefix)
            at = destination / prefix.lstrip("/")
            assert (at / "bin/howdah").resolve() == (at / "libexec/howdah/howdah").resolve()
            assert subprocess.run([at / "bin/howdah", "--version"], capture_output=True).returncode == 0
            for unit in ("howdah.service", "howdah@.service"):
                text = (destination / "etc/systemd/system" / unit).read_text()
                assert f"ExecStart={prefix}/bin/howdah serve" in text
                assert prefix == "/usr" or "=/usr/bin/howdah" not in text, unit
            document = (destination / "etc/howdah/howdah.json").read_text()
            assert f'"{prefix}/share/howdah/welcome$uri"' in document, document
            named = re.search(r"^// (/\S+/sites\.md) says more", document, re.MULTILINE)[1]
            assert (destination / named.lstrip("/")).exists(), named
            modes = {path: content(destination)[path][0] for path in
                     ("etc/howdah/howdah.json", "etc/howdah/sites", "etc/howdah/servers", "etc/howdah")}
            assert list(modes.values()) == ["640", "750", "750", "755"], modes

    def test_other_prefixes_are_refused(self):
        for prefix in ("usr/local", "/home/x", "/usr/../home", "/opt/a b", "/opt/a|b", "/opt/a/"):
            done = self.install(self.destination(), "--yes", "--prefix", prefix, check=False)
            assert done.returncode == 1 and "--prefix" in done.stderr, (prefix, done)

    def test_php_is_found_beside_the_server(self):
        unpacked = self.with_php()
        destination = self.destination()
        self.install(destination, "--yes", unpacked=unpacked)
        worker = destination / PROGRAMS / self.worker().name
        if subprocess.run([worker, "--version"], capture_output=True).returncode:
            raise runner.Skip("this system has not the PHP of the program")
        shown = subprocess.run([destination / PREFIX / "bin/howdah", "version"], capture_output=True, text=True).stdout
        assert f"({worker})" in shown, shown

    def test_a_second_installation_changes_nothing(self):
        destination = self.destination()
        self.install(destination, "--yes")
        before = content(destination)
        done = self.install(destination, "--yes")
        assert content(destination) == before
        assert not re.search("^(install|replace|remove|keep) ", done.stdout, re.MULTILINE), done.stdout

    def test_an_upgrade_keeps_changed_configuration_and_replaces_the_rest(self):
        destination = self.destination()
        self.install(destination, "--yes")
        document = destination / "etc/howdah/howdah.json"
        document.write_text('{"mine": true}')
        unit = destination / "etc/systemd/system/howdah.service"
        following = self.unpack()
        for name in ("root/etc/howdah/howdah.json", "root/usr/lib/systemd/system/howdah.service",
                     "root/usr/share/howdah/welcome/index.html"):
            with (following / name).open("a") as file:
                file.write("\n# next\n")
        (following / "root/usr/share/doc/howdah/SECURITY.md").unlink()
        done = self.install(destination, "--yes", unpacked=following)
        assert document.read_text() == '{"mine": true}'
        assert document.with_name("howdah.json.new").read_text().endswith("# next\n")
        assert f"{document}, which was changed" in done.stdout, done.stdout
        assert unit.read_text().endswith("# next\n")
        assert (destination / PREFIX / "share/howdah/welcome/index.html").read_text().endswith("# next\n")
        assert not (destination / PREFIX / "share/doc/howdah/SECURITY.md").exists()
        # It stays changed in later upgrades.
        self.install(destination, "--yes", unpacked=self.unpacked)
        assert document.read_text() == '{"mine": true}'

    def test_files_of_others_are_not_overwritten(self):
        destination = self.destination()
        other = destination / PREFIX / "share/man/man1/howdah.1.gz"
        other.parent.mkdir(parents=True)
        other.write_text("of a package")
        done = self.install(destination, "--yes", check=False)
        assert done.returncode == 1 and "was not installed by this script" in done.stderr, done
        assert content(destination)[str(other.relative_to(destination))][1] == \
            hashlib.sha256(b"of a package").hexdigest()
        assert not (destination / PROGRAMS).exists()

    def test_an_upgrade_does_not_leave_php_behind(self):
        destination = self.destination()
        self.install(destination, "--yes", unpacked=self.with_php())
        name = self.worker().name
        before = content(destination)
        done = self.install(destination, "--yes", check=False)
        assert done.returncode == 1 and f"no {name} of this one" in done.stderr, done
        assert content(destination) == before
        self.install(destination, "--yes", "--without-php")
        assert not (destination / PROGRAMS / name).exists()

    def test_a_removal_leaves_nothing(self):
        destination = self.destination()
        # A directory that was there before stays.
        (destination / "usr/local/bin").mkdir(parents=True)
        before = content(destination)
        self.install(destination, "--yes", unpacked=self.with_php())
        shown = self.install(destination, "--uninstall", check=False)
        assert shown.returncode == 1 and (destination / PROGRAMS / "howdah").exists(), shown
        self.install(destination, "--uninstall", "--yes")
        assert content(destination) == before

    def test_a_removal_keeps_changed_configuration_and_a_purge_does_not(self):
        destination = self.destination()
        for purge in ((), ("--purge",)):
            self.install(destination, "--yes")
            document = destination / "etc/howdah/howdah.json"
            document.write_text('{"mine": true}')
            (destination / "etc/howdah/sites/shop.json").write_text("{}")
            self.install(destination, "--yes")
            self.install(destination, "--uninstall", *purge, "--yes")
            files = {str(path.relative_to(destination)) for path in destination.rglob("*") if not path.is_dir()}
            assert files == (set() if purge else {"etc/howdah/howdah.json", "etc/howdah/sites/shop.json"}), files

    def test_a_removal_leaves_what_others_have_installed(self):
        destination = self.destination()
        page = destination / PREFIX / "share/man/man1/howdah.1.gz"
        page.parent.mkdir(parents=True)
        shutil.copy(self.unpacked / "root/usr/share/man/man1/howdah.1.gz", page)
        self.install(destination, "--yes")
        link = destination / PREFIX / "bin/howdah"
        link.unlink()
        link.write_text("of somebody")
        self.install(destination, "--uninstall", "--yes")
        assert page.exists() and link.read_text() == "of somebody"

    def test_an_installation_that_ends_early_is_removed_or_done_again(self):
        tools = self.work / "tools"
        tools.mkdir()
        (tools / "mv").write_text('#!/bin/sh\ncase $* in */howdah-sendmail) exit 1 ;; esac\nexec /bin/mv "$@"\n')
        (tools / "mv").chmod(0o755)
        path = {"PATH": f"{tools}:{os.environ['PATH']}"}
        for following in (("--uninstall", "--yes"), ("--yes",)):
            destination = self.destination()
            destination.mkdir()
            done = self.install(destination, "--yes", check=False, variables=path)
            assert done.returncode and (destination / PROGRAMS / "howdah").exists(), done
            assert not list(destination.rglob("*.tmp"))
            self.install(destination, *following)
            left = [path for path in destination.rglob("*") if not path.is_dir()]
            assert len(left) == len(set(left)) and bool(left) == (following[0] == "--yes"), left
        whole = self.destination()
        self.install(whole, "--yes")
        assert content(destination).keys() == content(whole).keys()

    def test_a_question_that_is_interrupted_leaves_nothing(self):
        temporary = self.work / "temporary"
        temporary.mkdir()
        terminal, other = pty.openpty()
        # A test in the background of a shell has to ignore the signal, and a script cannot take that back.
        process = subprocess.Popen(["sh", self.unpacked / "install.sh", "--destdir", self.destination()], stdin=other,
                                   stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)},
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        os.close(other)
        for line in process.stdout:
            if line.startswith("note"):
                break
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        os.close(terminal)
        assert process.returncode == 130 and not list(temporary.iterdir()), process.returncode

    def test_a_second_installation_elsewhere_is_refused(self):
        destination = self.destination()
        self.install(destination, "--yes")
        before = content(destination)
        done = self.install(destination, "--yes", "--prefix", "/opt/howdah", check=False)
        assert done.returncode == 1 and "is installed with --prefix /usr/local" in done.stderr, done
        assert content(destination) == before

    def test_an_empty_directory_name_is_refused(self):
        done = self.install("", "--yes", check=False)
        assert done.returncode == 1 and "--destdir needs a directory" in done.stderr, done

    def test_a_removal_of_nothing_says_so(self):
        done = self.install(self.destination(), "--uninstall", "--yes", check=False)
        assert done.returncode == 1 and "nothing is installed" in done.stderr, done

    def test_in_a_system_it_makes_the_user_and_replaces_running_servers(self):
        if os.geteuid() != 0:
            raise runner.Skip("it takes root")
        unpacked = self.unpack()
        program = unpacked / "root/usr/bin/howdah"
        program.write_text('#!/bin/sh\n[ "$1" = --version ] || echo "howdah $*" >>/calls\n')
        done = self.in_overlay("true", unpacked)
        if done.returncode:
            raise runner.Skip(f"file systems over others are not permitted here: {done.stderr.strip()}")
        done = self.in_overlay(f"{WHOLE_LIFE}\ncat /calls", unpacked)
        replaced = "systemctl daemon-reload"
        stopped = ["systemctl stop howdah.socket howdah.service howdah@*.service",
                   "systemctl --quiet --no-reload disable howdah.socket howdah.service howdah@.service", replaced]
        assert done.stdout.splitlines() == [
            "== ", "user       howdah, a system user that owns no files", replaced, "howdah", "700 root:root",
            "2750 root:adm", "== ", replaced, "== --uninstall", *stopped, "howdah", "== ", replaced,
            "== --uninstall --purge", "remove     the user howdah", *stopped, "no user",
            *["howdah upgrade --tolerant --control unix:/run/howdah/control.sock"] * 2], done.stdout + done.stderr

    def in_overlay(self, script, directory):
        self.number += 1
        overlay = self.work / f"overlay{self.number}"
        overlay.mkdir()
        return subprocess.run(["unshare", "--mount", "--pid", "--fork", "--propagation", "private", "sh", "-euc", OVERLAY,
                               "sh", overlay, script, directory], capture_output=True, text=True)

    def test_the_source_of_the_worker_is_complete(self):
        """Cargo reads the manifests of all libraries, without a cache and a network."""
        cargo = shutil.which(os.environ.get("CARGO", "cargo"))
        if not cargo:
            raise runner.Skip("there is no cargo")
        worker = self.unpacked / "worker"
        for name in ("LICENSE", "Cargo.lock", "crates/php-worker/shim/sapi.c", "vendor/rustix-*/LICENSE-MIT"):
            assert list(worker.glob(name)), name
        assert not [path for path in worker.glob("crates/*/*") if path.name in ("tests", "benches")]
        # rustup finds its toolchains below HOME.
        done = subprocess.run([cargo, "metadata", "--format-version=1", "--locked", "--offline"], cwd=worker,
                              env=self.without_cache(), capture_output=True, text=True)
        assert not done.returncode, done.stderr

    def test_the_build_obeys_no_files_above_the_archive(self):
        """Cargo and rustup look for files in the directory in which they run, and in those above."""
        unpacked = self.unpack()
        tools = unpacked.parent / "tools"
        tools.mkdir()
        for name, text in {"php-config": "echo 8.2.1", "cargo": 'pwd; echo "$PHP_CONFIG" "$@"; exit 3'}.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)
        done = subprocess.run(["sh", unpacked / "build-worker.sh", "tools/php-config"], cwd=unpacked.parent,
                              env=os.environ | {"CARGO": "tools/cargo"}, capture_output=True, text=True)
        directory, command = done.stdout.splitlines()
        assert done.returncode == 3 and directory == "/", done
        assert command.startswith(f"{tools}/php-config build "), command
        for option in (f"--manifest-path {unpacked}/worker/Cargo.toml", f"--config {unpacked}/worker/.cargo/config.toml"):
            assert option in command, command

    def test_the_worker_is_built_without_a_network(self):
        if not self.arguments.build:
            raise runner.Skip("it takes minutes; --build runs it")
        unpacked = self.unpack()
        command = ["sh", unpacked / "build-worker.sh"]
        if os.geteuid() == 0 and shutil.which("unshare"):
            command = ["unshare", "--net", *command]
        done = subprocess.run(command, env=self.without_cache(), capture_output=True, text=True)
        assert not done.returncode and "Howdah" in done.stdout, done.stdout + done.stderr
        destination = self.destination()
        self.install(destination, "--yes", unpacked=unpacked)
        assert list((destination / PROGRAMS).glob("howdah-php[0-9]*"))

    def without_cache(self):
        """An environment in which Cargo has downloaded nothing."""
        home = self.work / "cargo-home"
        home.mkdir(exist_ok=True)
        return os.environ | {"CARGO_HOME": str(home)}


def obstacle(arguments):
    """The reason for which no test can run here, if there is one."""
    for program in ("readelf", "strip"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not arguments.programs:
        return "--programs names no programs"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--build", action="store_true")
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
