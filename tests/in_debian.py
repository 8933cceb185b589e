#!/usr/bin/env python3
"""Runs a command of this source tree in a Debian of another release.

    tests/in_debian.py trixie make test-php            with the PHP of Debian 13

The root of the release is made with mmdebstrap, from the mirror that apt uses here, and kept in .build/debian for
the next run. The command sees this tree, cargo's downloads and the Rust toolchain as they are here; files that
it writes there are dropped at the end. Its build is kept. It runs in namespaces of its own for mounts and processes,
which end with it: no mount is ever visible to this system, and no process is left.

It takes root and the packages mmdebstrap and debian-archive-keyring. If it cannot run here, it says why on a line that
begins with "skipped: ", and ends with status 0.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".build" / "debian"
# Packages of a new system beside the essential ones; the Makefile installs all others.
PACKAGES = "ca-certificates,make,git,python3,util-linux"
# Where the tree is in the root: the same path for every user and checkout, so that builds are found again.
TREE = "/srv/howdah"
NAMESPACE = ("unshare", "--mount", "--propagation", "private")


class Unable(Exception):
    """The command cannot run here."""


def mirror():
    """The mirror of Debian's main archive in apt's sources."""
    if not shutil.which("apt-get"):
        raise Unable("there is no apt-get")
    told = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)",
                           "Identifier: Packages"], stdout=subprocess.PIPE, text=True, check=False).stdout
    found = chosen(told)
    if not found:
        raise Unable("apt's sources have no mirror of Debian; run apt-get update")
    return found


def chosen(targets):
    """The mirror in lines of origin, component, codename and URI; not that of security updates."""
    for line in targets.splitlines():
        origin, component, codename, uri = (line.split() + [""] * 4)[:4]
        if (origin, component) == ("Debian", "main") and "-" not in codename:
            return uri
    return None


def check():
    """Fails if the system lacks a requirement of a root."""
    if os.geteuid() != 0:
        raise Unable("it takes root")
    if subprocess.run([*NAMESPACE, "--pid", "--fork", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Unable("this system permits no mount namespaces")
    if "\toverlay\n" not in Path("/proc/filesystems").read_text() \
            and subprocess.run(["modprobe", "overlay"], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Unable("the kernel has no overlayfs")


def make_root(release, directory):
    """Makes the root of a release, unless it is there already."""
    if directory.exists():
        return
    source = mirror()
    if subprocess.run([ROOT / "tools/require.sh", "mmdebstrap", "debian-archive-keyring"], check=False).returncode:
        raise Unable("mmdebstrap cannot be installed")
    print(f"Making a root of Debian's {release} from {source}", flush=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT, prefix=f"{release}-") as made:
        new = Path(made) / "root"
        # Its mounts are visible only to it, and gone when it ends in any way.
        command = [*NAMESPACE, "mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "--format=directory",
                   release, new, source]
        if subprocess.run(command, check=False).returncode:
            raise Unable(f"mmdebstrap cannot make a root of {release} from {source}")
        shutil.copy("/etc/resolv.conf", new / "etc/resolv.conf")
        new.rename(directory)


def toolchain():
    """The directories of the Rust toolchain and of cargo's downloads."""
    told = subprocess.run(["rustc", "--print", "sysroot"], stdout=subprocess.PIPE, text=True, check=False)
    if told.returncode:
        raise Unable("there is no rustc")
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    # The root may have no network for cargo, and none for this user's proxies and credentials.
    if subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=ROOT, check=False).returncode:
        raise Unable("cargo cannot fetch the crates")
    return Path(told.stdout.strip()), home


# Runs in the new namespaces: $1 is the root, $2 a directory for files that are dropped afterwards, $3 the tree, $4 the
# toolchain, $5 cargo's home, $6 the directory of builds, $7 the path of the tree in the root.
MOUNT = r"""
set -eu
root=$1 scratch=$2 tree=$3 sysroot=$4 home=$5 target=$6 inner=$7
shift 7
overlay() {
    mkdir -p "$scratch/$3/upper" "$scratch/$3/work" "$2"
    mount -t overlay overlay -o "lowerdir=$1,upperdir=$scratch/$3/upper,workdir=$scratch/$3/work" "$2"
}
mount -t tmpfs -o mode=755 tmpfs "$scratch"
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir -p "$root/usr/local/rust" "$root/var/cache/howdah-target"
mount --bind -o ro "$sysroot" "$root/usr/local/rust"
mount --bind "$target" "$root/var/cache/howdah-target"
overlay "$tree" "$root$inner" tree
overlay "$home" "$root/usr/local/cargo" cargo
# A process below chroot(2) could make no namespace of its own.
cd "$root"
mkdir -p mnt/system
pivot_root . mnt/system
umount --lazy /mnt/system
exec /usr/bin/env -i HOME=/root PATH=/usr/local/rust/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never \
    CARGO_TARGET_DIR=/var/cache/howdah-target "$@"
"""


def run(release, command, variables):
    """Runs a command in the root of a release; returns its status."""
    check()
    directory = KEPT / release
    make_root(release, directory)
    sysroot, home = toolchain()
    target = KEPT / f"{release}-target"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="howdah-debian-") as scratch:
        inside = ["sh", "-c", f'cd {TREE} && exec "$@"', "sh", *command]
        mounted = ["sh", "-c", MOUNT, "sh", directory, scratch, ROOT, sysroot, home, target, TREE]
        return subprocess.run([*NAMESPACE, "--pid", "--fork", "--kill-child", *mounted, *variables, *inside],
                              stdin=subprocess.DEVNULL, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", help="codename, such as trixie")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    variables = [f"{name}={os.environ[name]}" for name in ("CI", "PHP", "CARGO_INCREMENTAL") if name in os.environ]
    try:
        return run(options.release, options.command, variables)
    except Unable as reason:
        print(f"skipped: {options.release}: {reason}", flush=True)
        return 0


if __name__ == "__main__":
    sys.exit(main())
