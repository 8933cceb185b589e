#!/usr/bin/env python3
"""Prints a root file system in which packages for a release of Debian or Ubuntu are built, and makes it if need be.

    packaging/build_root.py SUITE        prints its directory; prints the reason and fails if it cannot be had
    packaging/build_root.py --php SUITE  prints the version of PHP of this release
    packaging/build_root.py --distribution SUITE
                                         prints "Debian" or "Ubuntu"
    packaging/build_root.py --sysroot ARCHITECTURE SUITE
                                         prints the directory of a system of another architecture, with the libraries and
                                         headers of PHP; nothing runs in it
"""

import sys

import machine

# The version of PHP of each release.
PHP = {"bookworm": "8.2", "trixie": "8.4", "noble": "8.3"}


def main():
    suite = sys.argv[-1]
    if suite not in PHP:
        print(f"\"{suite}\" is none of {', '.join(PHP)}")
        return 1
    php = PHP[suite]
    if "--php" in sys.argv:
        print(php)
        return 0
    if "--distribution" in sys.argv:
        print("Ubuntu" if suite in machine.UBUNTU else "Debian")
        return 0
    if "--sysroot" in sys.argv:
        architecture = sys.argv[sys.argv.index("--sysroot") + 1]
        print(machine.make_root(f"sysroot-{suite}-{architecture}", suite, (f"php{php}-dev", f"libphp{php}-embed", "libc6-dev"),
                                architecture=architecture, variant="extract"))
        return 0
    if reason := machine.obstacle():
        print(reason)
        return 1
    packages = ("gcc", "libc6-dev", "make", "git", "python3", "debhelper", "systemd", "ca-certificates",
                f"php{php}-dev", f"libphp{php}-embed")
    print("/" if is_this_system(suite) else machine.make_root(f"build-{suite}", suite, packages))
    return 0


def is_this_system(suite):
    with open("/etc/os-release", encoding="utf-8") as file:
        return f"VERSION_CODENAME={suite}\n" in file.readlines()


if __name__ == "__main__":
    sys.exit(main())
