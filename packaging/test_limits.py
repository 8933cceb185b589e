#!/usr/bin/env python3
"""Tests limits of applications under systemd, in a virtual machine of Debian.

    packaging/test_limits.py --programs target/quick [--suite bookworm] [--php 8.2]

A memory hog and a fork bomb meet limits of 128 MB and of 20 processes: of control groups below that of the
unit, which has Delegate=yes. They must hold, with the files of the groups, before and after a restart of the
unit and of the machine. Takes root and qemu-system-x86. The machine is emulated, which takes some minutes.
Prints a line for each test, and at the end how many have passed.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

HERE = Path(__file__).resolve().parent
TIMEOUT_SECONDS = 1500
PACKAGES = ("linux-image-cloud-amd64", "initramfs-tools", "udev", "dbus", "curl")
LIMITS = {"memory": 128 << 20, "processes": 20}
GROUP = {"path": "blog", "memory_max": 128 << 20, "pids_max": 20, "cpu_max": 0.5}
# Each program of the bomb waits, so that all are there at the same time: at most 60.
SCRIPT = r"""<?php
switch (basename($_SERVER['REQUEST_URI'])) {
    case 'hog':
        ini_set('memory_limit', -1);
        for ($i = 0; $i < 200; $i++) $taken[] = str_repeat('x', 4 << 20);
        break;
    case 'bomb':
        for ($i = 0; $i < 60; $i++) @exec('sleep 60 > /dev/null 2>&1 &');
        break;
}
echo getmypid();
"""
UNIT = """[Unit]
Description=Test of limits
After=multi-user.target
[Service]
ExecStart=/usr/local/sbin/limits
[Install]
WantedBy=multi-user.target
"""


def document():
    """The document of the server: `shop` names limits, `blog` a control group, `calm` neither."""
    def application(user, isolation):
        return {"type": "php", "root": "/srv/site", "script": "index.php", "user": user, "processes": 1,
                "isolation": isolation}
    routes = [{"match": {"uri": f"/{name}/*"}, "action": {"pass": f"applications/{name}"}}
              for name in ("shop", "blog")]
    return {
        "listeners": {"*:80": {"pass": "routes"}},
        "routes": [*routes, {"action": {"pass": "applications/calm"}}],
        "applications": {"shop": application("games", {"limits": LIMITS}),
                         "blog": application("news", {"cgroup": GROUP}),
                         "calm": application("backup", {})},
    }


def obstacle():
    """The reason for which no virtual machine can run here, if there is one."""
    if os.geteuid() != 0:
        return "it takes root"
    for program in ("mmdebstrap", "qemu-system-x86_64", "mke2fs", "flock"):
        if not shutil.which(program):
            return f"there is no {program}"
    return None


def install(root, programs, php):
    """Puts the server, its document and the test into the files of the machine."""
    def put(path, text, mode=0o644):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
    # tools/build.sh names the program after the version of PHP, Cargo does not.
    own_php = programs / f"howdah-php{php}"
    for program, place in ((programs / "howdah", "usr/bin/howdah"),
                           (programs / "howdah-sendmail", "usr/lib/howdah/howdah-sendmail"),
                           (own_php if own_php.exists() else programs / "howdah-php",
                            f"usr/lib/howdah/howdah-php{php}")):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["strip", "-o", root / place, program], check=True)
    subprocess.run([HERE / "systemd/install", root / "usr/lib/systemd/system"], check=True)
    for kind in ("sysusers", "tmpfiles"):
        put(f"usr/lib/{kind}.d/howdah.conf", (HERE / f"debian/howdah.{kind}").read_text())
    put("etc/howdah/howdah.json", json.dumps(document(), indent=4))
    put("srv/site/index.php", SCRIPT)
    put("usr/local/sbin/limits", (HERE / "limits.sh").read_text(), 0o755)
    put("etc/systemd/system/limits.service", UNIT)
    put("etc/fstab", "/dev/vda / ext4 rw 0 0\n")
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    for unit in ("/usr/lib/systemd/system/howdah.service", "/etc/systemd/system/limits.service"):
        (wanted / Path(unit).name).symlink_to(unit)


@contextlib.contextmanager
def changed(original, directory):
    """Yields a directory with these files, whose changes do not change them."""
    root, upper, work = (directory / name for name in ("root", "upper", "work"))
    for path in (root, upper, work):
        path.mkdir()
    layers = f"lowerdir={original},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", root], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", root], check=True)


def make_disk(root, directory):
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, directory / "disk", "2G"], check=True)


def boot(root, directory, accelerator):
    """Boots the machine; returns what the test in it has said."""
    disk, console = directory / "disk", directory / "console"
    kernel, = sorted((root / "boot").glob("vmlinuz-*"))[-1:]
    initrd, = sorted((root / "boot").glob("initrd.img-*"))[-1:]
    command = ["nice", "qemu-system-x86_64", "-accel", accelerator, "-cpu", "max", "-m", "1024", "-nographic",
               "-nodefaults", "-kernel", kernel, "-initrd", initrd, "-append",
               # An emulated timer that a busy machine delays is no broken one.
               "root=/dev/vda rw console=ttyS0 systemd.show_status=no no_timer_check",
               "-drive", f"file={disk},if=virtio,format=raw", "-serial", f"file:{console}"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            process.wait(TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    text = console.read_text(errors="replace")
    lines = [line.partition("limits: ")[2].strip() for line in text.splitlines() if "limits: " in line]
    if "done" not in lines:
        print(text[-6000:])
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=Path, required=True, help="directory of howdah and howdah-php")
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--php", default="8.2")
    parser.add_argument("--accelerator", default="tcg", help="kvm is faster, where it can be used")
    arguments = parser.parse_args()
    if reason := obstacle():
        print(f"skipped: limits in a virtual machine: {reason}")
        print("0 passed, 0 failed")
        return 0
    packages = (*machine.SYSTEM, *PACKAGES, f"libphp{arguments.php}-embed")
    original = machine.make_root(f"limits-{arguments.suite}", arguments.suite, packages)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="howdah-limits-", ignore_cleanup_errors=True) as directory:
        with changed(original, Path(directory)) as root:
            install(root, arguments.programs, arguments.php)
            make_disk(root, Path(directory))
        lines = boot(original, Path(directory), arguments.accelerator)
    for line in lines:
        print(f"test {line}")
    passed, failed = (sum(line.startswith(word) for line in lines) for word in ("ok ", "FAILED "))
    is_whole = "reboots" in lines and lines[-1:] == ["done"]
    if not is_whole:
        print("test the machine ends as it should ... FAILED")
    print(f"{passed} passed, {failed + (not is_whole)} failed, in {time.monotonic() - begun:.0f} s")
    return 0 if is_whole and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
