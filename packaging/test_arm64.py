#!/usr/bin/env python3
"""Tests the Debian packages for arm64 with qemu's user mode, in a root file system of this architecture.

    packaging/test_arm64.py [--suite bookworm] [--php 8.2] --packages DIR

DIR has the packages of `packaging/deb --arch arm64`. qemu has neither seccomp nor Landlock, so all servers run with
--no-sandbox: the limits of processes are not tested here. Prints a line for each test, and at the end how many have passed.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import machine
import runner

HERE = Path(__file__).resolve().parent
ARCHITECTURE = "arm64"

SITE = r'''
mkdir -p /srv/site
head -c 300000 /dev/urandom >/srv/site/file.bin
cat >/srv/site/index.php <<'END'
<?php
session_start();
echo PHP_VERSION, " ", php_uname("m"), " ", opcache_get_status(false)["opcache_enabled"] ? "cached" : "not cached", "\n";
echo md5(file_get_contents("php://input")), "\n";
END
echo '<?php strlen(...)->missing();' >/srv/site/broken.php
echo '<?php while (true) {}' >/srv/site/endless.php
cat >/srv/site/worker.php <<'END'
<?php
$booted = getmypid() . "-" . random_int(0, PHP_INT_MAX);
for ($number = 1; frankenphp_handle_request(function () use ($booted, &$number) { echo "$booted ", $number++, "\n"; });) {}
END
'''

DOCUMENT = """{
    "listeners": {
        "127.0.0.1:8080": { "pass": "routes" },
        "127.0.0.1:8081": { "pass": "applications/worker" }
    },
    "routes": [{ "action": { "share": "/srv/site$uri", "index": "index.php", "scripts": "applications/site", "fallback": { "return": 404 } } }],
    "applications": {
        "site": { "type": "php", "root": "/srv/site", "processes": 2, "limits": { "timeout": 2 } },
        "worker": { "type": "php", "root": "/srv/site", "script": "worker.php", "processes": 1,
                    "worker": { "script": "worker.php" } }
    }
}
"""


class Tests:
    """Each test uses the server that the second one has started."""

    def __init__(self, host, arguments):
        self.host = host
        self.packages = sorted(Path(arguments.packages).glob(f"*_{ARCHITECTURE}.deb"))
        self.php = arguments.php

    def curl(self, arguments):
        return self.host.run(f"curl --silent --show-error --max-time 60 {arguments}").stdout

    def test_the_packages_install_with_their_dependencies(self):
        names = ("howdah", f"howdah-php{self.php}")
        packages = [path for path in self.packages if path.name.split("_")[0] in names]
        assert len(packages) == 2, self.packages
        self.host.path("/tmp/packages").mkdir()
        for path in packages:
            shutil.copy(path, self.host.path("/tmp/packages") / path.name)
        self.host.run("apt-get install --yes --no-install-recommends /tmp/packages/*.deb")
        version = self.host.run("howdah --version").stdout
        assert "aarch64" in version and f"PHP {self.php}" in version, version

    def test_a_document_is_served(self):
        self.host.run(SITE)
        self.host.path("/srv/site.json").write_text(DOCUMENT)
        self.host.run("howdah check --syntax /srv/site.json")
        self.server = self.host.run("setsid howdah serve --no-sandbox --config /srv/site.json --user www-data --group www-data "
                                    "--control unix:/run/howdah.sock </dev/null >/tmp/log 2>&1 & echo $!").stdout
        self.host.run("for try in $(seq 300); do ! curl -sf http://127.0.0.1:8080/ >/dev/null || exit 0; sleep 0.2; done; "
                      "cat /tmp/log; exit 1")

    def test_files_are_sent_whole_and_in_parts(self):
        file = "http://127.0.0.1:8080/file.bin"
        self.host.run(f"curl -sf {file} | cmp - /srv/site/file.bin; curl -sf -r 1000-200999 {file} >/tmp/part; "
                      "tail -c +1001 /srv/site/file.bin | head -c 200000 | cmp - /tmp/part")
        assert self.curl(f"-o /dev/null -w '%{{http_code}}' {file}.missing") == "404"

    def test_php_runs_with_opcache_sessions_and_bodies(self):
        output = self.curl("--data-binary @/srv/site/file.bin http://127.0.0.1:8080/")
        expected = self.host.run("md5sum </srv/site/file.bin").stdout.split()[0]
        first, second = output.splitlines()
        assert first.startswith(f"{self.php}.") and first.endswith(" aarch64 cached"), output
        assert second == expected, output

    def test_errors_and_endless_scripts_do_not_stop_others(self):
        assert self.curl("-o /dev/null -w '%{http_code}' http://127.0.0.1:8080/broken.php") == "500"
        status = self.curl("-o /dev/null -w '%{http_code}' http://127.0.0.1:8080/endless.php")
        assert status in ("500", "503", "504"), status
        assert self.curl("http://127.0.0.1:8080/").startswith(self.php)

    def test_many_requests_on_many_connections_succeed(self):
        self.host.run("seq 300 | xargs -P 8 -n 30 sh -c 'for n in \"$@\"; do "
                      "curl -sf http://127.0.0.1:8080/ http://127.0.0.1:8080/file.bin >/dev/null || exit 255; done' sh")

    def test_worker_mode_keeps_the_script(self):
        answers = [self.curl("http://127.0.0.1:8081/").split() for _ in range(3)]
        assert len({boot for boot, _ in answers}) == 1 and [number for _, number in answers] == ["1", "2", "3"], answers

    def test_the_configuration_is_changed_and_applications_restart(self):
        control = "curl -sf --unix-socket /run/howdah.sock"
        self.host.run(f"{control} -X PUT -d '\"routes/new\"' http://x/config/listeners/127.0.0.1:8081/pass && exit 1 || true")
        self.host.run(f"{control} -X PUT -d '{{\"return\": 204}}' http://x/config/routes/0/action")
        assert self.curl("-o /dev/null -w '%{http_code}' http://127.0.0.1:8080/") == "204"
        self.host.run(f"{control} -X GET http://x/control/applications/worker/restart")
        assert self.curl("http://127.0.0.1:8081/").split()[1] == "1"

    def test_the_server_ends(self):
        self.host.run(f"kill -QUIT {self.server}; for try in $(seq 100); do kill -0 {self.server} 2>/dev/null || exit 0; "
                      "sleep 0.2; done; exit 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--php", default="8.2")
    parser.add_argument("--packages", required=True)
    parser.add_argument("--only", default="", help="tests whose name contains this")
    arguments = parser.parse_args()
    reason = machine.obstacle()
    if not reason:
        emulated = subprocess.run([HERE / "emulate", ARCHITECTURE], capture_output=True, text=True)
        reason = emulated.stderr.strip() if emulated.returncode else None
    if reason:
        for name in runner.names(Tests, arguments.only):
            print(f"skipped: {name}: {reason}")
        print("0 passed, 0 failed")
        return 0
    php = arguments.php
    root = machine.make_root(f"packages-{arguments.suite}-{ARCHITECTURE}", arguments.suite,
                             ("ca-certificates", "curl", f"libphp{php}-embed", f"php{php}-opcache", "systemd-standalone-sysusers"),
                             architecture=ARCHITECTURE)
    with machine.Machine(root, init=("/bin/sleep", "infinity")) as host:
        passed, failed = runner.run(Tests(host, arguments), arguments.only)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
