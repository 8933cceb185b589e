"""Machines for tests of the packages: a root file system of a release of Debian or Ubuntu, and systemd in namespaces over it.

It takes root, mmdebstrap, and a kernel that permits all of that; `obstacle` names a missing requirement.
"""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Where the root file systems are kept between runs, and a lock for the processes that make them.
ROOTS = Path(os.environ.get("HOWDAH_ROOTS", "/tmp/roots"))
# Releases of Ubuntu; all others are Debian's.
UBUNTU = {"noble"}
UBUNTU_MIRROR = "http://archive.ubuntu.com/ubuntu"
# Ubuntu's package with the keys of its archive, and the fingerprint of the key that signs it since 2018. Debian's systems
# have neither.
UBUNTU_KEYRING = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
UBUNTU_FINGERPRINT = "F6ECB3762474EDA9D21B7022871920D1991BC93C"
# Packages of a system besides the essential ones.
SYSTEM = ("systemd", "systemd-sysv", "ca-certificates")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
               "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def obstacle():
    """The reason for which no machine can run here, if there is one."""
    if os.geteuid() != 0:
        return "it takes root"
    for program in ("mmdebstrap", "unshare", "nsenter", "ip", "flock"):
        if not shutil.which(program):
            return f"there is no {program}"
    probe = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--net", "sh", "-c",
             "mount -t tmpfs tmpfs /mnt && mkdir /mnt/c && mount -t cgroup2 none /mnt/c"]
    if subprocess.run(probe, capture_output=True).returncode:
        return "namespaces, or the file systems in them, are not permitted here"
    return None


def mirror():
    """The address of the mirror of Debian that this machine uses."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True)
    sites = [site for site in listed.stdout.split() if site.rstrip("/").endswith("/debian")]
    return sites[0] if sites else "http://deb.debian.org/debian"


def ubuntu_keyring():
    """The path of the public keys of Ubuntu's archive, if they are those that are known here."""
    keyring = ROOTS / "ubuntu-archive-keyring.gpg"
    package = ROOTS / "ubuntu-keyring.deb"
    if not keyring.exists():
        urllib.request.urlretrieve(f"{UBUNTU_MIRROR}/{UBUNTU_KEYRING}", package)
        archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            member = files.extractfile("./usr/share/keyrings/ubuntu-archive-keyring.gpg")
            keys = member.read()
        shown = subprocess.run(["gpg", "--show-keys", "--with-colons"], input=keys, capture_output=True, check=True).stdout
        found = {line.split(":")[9] for line in shown.decode().splitlines() if line.startswith("fpr:")}
        if UBUNTU_FINGERPRINT not in found:
            raise RuntimeError(f"{UBUNTU_MIRROR} sends keys that are not Ubuntu's: {', '.join(sorted(found))}")
        # Only this key is trusted, whatever else the file has.
        with tempfile.TemporaryDirectory() as home:
            gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
            subprocess.run([*gpg, "--import"], input=keys, check=True)
            exported = subprocess.run([*gpg, "--export", UBUNTU_FINGERPRINT], capture_output=True, check=True).stdout
        keyring.write_bytes(exported)
    return keyring


def sources(suite):
    """Arguments of mmdebstrap and lines of sources.list for a release."""
    if suite in UBUNTU:
        suites = (suite, f"{suite}-updates", f"{suite}-security")
        return [f"--keyring={ubuntu_keyring()}"], [f"deb {UBUNTU_MIRROR} {one} main universe" for one in suites]
    site = mirror()
    return [], [f"deb {site} {suite} main", f"deb {site} {suite}-updates main",
                f"deb {site}-security {suite}-security main"]


def make_root(name, suite, packages, downloads=(), architecture=None, variant="minbase"):
    """Returns a root file system of a release with these packages, and others downloaded but not installed.

    Each of `downloads` is the arguments of one `apt-get install`. `architecture` is that of this system if there is
    none; for another one, either the kernel runs its programs (binfmt_misc), or `variant` is "extract". The root is made
    once, and again when what is asked for has changed.
    """
    root, stamp = ROOTS / name, ROOTS / f"{name}.stamp"
    wanted = " ".join([suite, *packages, "/", *downloads])
    ROOTS.mkdir(parents=True, exist_ok=True)
    if stamp.exists() and stamp.read_text() == wanted:
        return root
    if root.exists():
        shutil.rmtree(root)
    options, lines = sources(suite)
    command = ["flock", f"{ROOTS}.lock", "mmdebstrap", "--mode=root", f"--variant={variant}", "--quiet",
               *options, *([f"--architectures={architecture}"] if architecture else []),
               # Later installations need the downloads and the lists.
               "--skip=cleanup/apt", f"--include={','.join(packages)}"]
    for arguments in downloads:
        command.append(f"--customize-hook=chroot \"$1\" apt-get -qq install --download-only {arguments}")
    subprocess.run([*command, suite, root, "-"], input="\n".join(lines) + "\n", text=True, check=True)
    stamp.write_text(wanted)
    return root


class Machine:
    """A machine over a root file system, with a network of its own. It leaves no trace at the end."""

    def __init__(self, root, init=("/usr/lib/systemd/systemd", "--unit=multi-user.target", "--log-target=console")):
        self.directory = Path(tempfile.mkdtemp(prefix="howdah-machine-"))
        self.log = self.directory / "console"
        command = ["unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--net", "--propagation",
                   "private", "--kill-child", HERE / "boot.sh", root, self.directory, *init]
        with self.log.open("w") as console:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        try:
            self.pid = self.first_process()
        except Exception:
            self.end()
            raise

    def first_process(self):
        """The id of the machine's process 1, when it has the machine's root."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for _ in range(1200):
            if self.process.poll() is not None:
                break
            for pid in children.read_text().split():
                if not Path(f"/proc/{pid}/root/.old").exists() and "boot.sh" not in \
                        Path(f"/proc/{pid}/cmdline").read_text(errors="replace"):
                    return int(pid)
            time.sleep(0.05)
        raise RuntimeError(f"the machine does not start: {self.log.read_text()[-500:]}")

    def wait_for_systemd(self):
        """Waits until systemd has started everything; returns its state."""
        for _ in range(1200):
            state = self.run("systemctl is-system-running", check=False).stdout.strip()
            if state in ("running", "degraded"):
                return state
            time.sleep(0.1)
        raise RuntimeError(f"systemd does not get ready: {state}")

    def run(self, script, check=True, **options):
        """Runs a shell script in the machine; fails with its output if it fails."""
        command = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup",
                   "--root", "--wd", "sh", "-ec", script]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=ENVIRONMENT, **options)
        if check and done.returncode:
            raise AssertionError(f"{script}: status {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
        return done

    def beside(self, command, **options):
        """Starts a program of this system in the network of the machine."""
        return subprocess.Popen(["nsenter", f"--target={self.pid}", "--net", *command], **options)

    def path(self, name):
        """A file of the machine, as seen from this system."""
        return Path(f"/proc/{self.pid}/root{name}")

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
