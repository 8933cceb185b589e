#!/usr/bin/env python3
"""Calls packaging/octane/frankenphp as Laravel Octane calls FrankenPHP's program.

    tests/octane_test.py --howdah target/debug/howdah [TEST...]

Laravel is not needed: the project has a worker script that follows the contract of Octane's.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent))
from peers import free_port  # noqa: E402

PROGRAM = Path(__file__).resolve().parent.parent / "packaging" / "octane" / "frankenphp"
HOWDAH = None
# Seconds after which a test fails that waits for something.
PATIENCE = 60

CADDYFILE = """{
    admin {$CADDY_SERVER_ADMIN_HOST}:{$CADDY_SERVER_ADMIN_PORT}
    {$CADDY_GLOBAL_OPTIONS}
    frankenphp {
        worker {
            {$CADDY_SERVER_WORKER_DIRECTIVE}
            {$CADDY_SERVER_WATCH_DIRECTIVES}
            file "{$APP_PUBLIC_PATH}/frankenphp-worker.php"
        }
    }
}

{$CADDY_SERVER_SERVER_NAME} {
    log {
        level {$CADDY_SERVER_LOG_LEVEL}
    }
    route {
        # A comment with a brace {
        {$CADDY_SERVER_EXTRA_DIRECTIVES}
        root * "{$APP_PUBLIC_PATH}"
        encode gzip
        php_server {
            index frankenphp-worker.php
        }
    }
}
"""

WORKER = r"""<?php
if (!($_SERVER['FRANKENPHP_WORKER'] ?? false) || !function_exists('frankenphp_handle_request')) {
    exit(1);
}
ignore_user_abort(true);
$base = $_SERVER['APP_BASE_PATH'];
$limit = $_ENV['MAX_REQUESTS'] ?? $_SERVER['MAX_REQUESTS'];
set_time_limit((int) $_SERVER['REQUEST_MAX_EXECUTION_TIME']);
require "$base/app/version.php";
$handle = static function () use ($base) {
    switch (strtok($_SERVER['REQUEST_URI'], '?')) {
        case '/throw':
            error_log(json_encode(['type' => 'throwable', 'class' => 'E', 'message' => "two\nlines"]), 4);
            http_response_code(500);
            break;
        case '/print':
            file_put_contents('php://stderr', "printed\n");
            break;
        case '/slow':
            touch("$base/public/slow");
            while (!file_exists("$base/public/go")) {
                usleep(10000);
                clearstatcache();
            }
            echo 'done';
            return;
        case '/sleep':
            sleep(30);
    }
    static $requests = 0;
    header('Content-Type: application/json');
    echo json_encode(['requests' => ++$requests, 'pid' => getmypid(), 'version' => VERSION, 'server' => $_SERVER]);
};
for ($count = 0; $count < $limit && frankenphp_handle_request($handle); $count++);
"""


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: waited for {PATIENCE} s")
        time.sleep(0.02)


def stat_of(pid):
    """Parent and start time of a process; None if there is none or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (int(fields[1]), fields[19])


def descendants(pid):
    """Identities (pid, start time) of a process and of all below it."""
    stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := stat_of(name))}
    found = [pid]
    for parent in found:
        found += [child for child, stat in stats.items() if stat[0] == parent]
    return [(one, stats[one][1]) for one in found if one in stats]


class Octane:
    """A project, and the program started in it with Octane's arguments."""

    def __init__(self, **environment):
        self.place = tempfile.TemporaryDirectory(prefix="howdah-octane-test-")
        self.base = Path(self.place.name) / "shop"
        self.process = None
        self.port, self.admin = free_port(), free_port()
        for name in ("public", "app", "bin", "bootstrap"):
            (self.base / name).mkdir(parents=True)
        self.temporary = Path(self.place.name) / "tmp"
        self.temporary.mkdir()
        self.temporary.chmod(0o1777)
        Path(self.place.name).chmod(0o755)
        (self.base / "artisan").write_text("#!/usr/bin/env php\n")
        (self.base / "bootstrap/app.php").write_text("<?php\n")
        (self.base / "public/index.php").write_text("<?php echo 'classic';\n")
        (self.base / "public/frankenphp-worker.php").write_text(WORKER)
        (self.base / "public/robots.txt").write_text("robots\n")
        (self.base / "frankenphp").symlink_to(PROGRAM)
        (self.base / "Caddyfile").write_text(CADDYFILE)
        self.write_version("one")
        if os.geteuid() == 0:
            shutil.chown(self.base / "public", "www-data")
        self.environment = {
            "PATH": f"{HOWDAH.parent}:{os.environ['PATH']}", "TMPDIR": str(self.temporary), "DB_PASSWORD": "pass $word",
            "APP_ENV": "local", "APP_BASE_PATH": str(self.base), "APP_PUBLIC_PATH": str(self.base / "public"),
            "LARAVEL_OCTANE": "1", "MAX_REQUESTS": "500", "REQUEST_MAX_EXECUTION_TIME": "30",
            "CADDY_GLOBAL_OPTIONS": "auto_https disable_redirects", "CADDY_SERVER_ADMIN_HOST": "localhost",
            "CADDY_SERVER_ADMIN_PORT": str(self.admin), "CADDY_SERVER_LOG_LEVEL": "INFO", "CADDY_SERVER_LOGGER": "json",
            "CADDY_SERVER_SERVER_NAME": f"http://:{self.port}", "CADDY_SERVER_WORKER_COUNT": "2",
            "CADDY_SERVER_WORKER_DIRECTIVE": "num 2", "CADDY_SERVER_EXTRA_DIRECTIVES": "",
            "CADDY_SERVER_WATCH_DIRECTIVES": "", "HOWDAH_LISTEN": f"127.0.0.1:{self.port}",
        } | environment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(PATIENCE)
        self.place.cleanup()

    def write_version(self, version):
        (self.base / "app/version.php").write_text(f"<?php const VERSION = '{version}';\n")

    def start(self):
        """Returns when a request is answered."""
        with open(self.base / "log", "wb") as log:
            self.process = subprocess.Popen([self.base / "frankenphp", "run", "-c", self.base / "Caddyfile"], cwd=self.base,
                                            env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.process.poll() is not None or self.logged("started: howdah"), "the start")
        if self.process.poll() is not None:
            raise AssertionError(self.log)
        return self

    def fail(self, *arguments):
        """Runs it to its end, which must be a failure; returns the messages."""
        done = subprocess.run([self.base / "frankenphp", *(arguments or ("run", "-c", self.base / "Caddyfile"))], cwd=self.base,
                              env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode == 0:
            raise AssertionError(f"no failure: {done}")
        if list(self.temporary.iterdir()):
            raise AssertionError("files are left")
        return done.stderr

    @property
    def log(self):
        return (self.base / "log").read_text()

    def records(self):
        """The lines of the log; each must be JSON."""
        return [json.loads(line) for line in self.log.splitlines()]

    def logged(self, text):
        return text in self.log

    def is_listening(self):
        """Whether the server takes new connections; it takes none once it ends."""
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path, **headers):
        return self.send(self.port, "GET", path, headers=headers)

    def page(self, path="/"):
        status, body = self.get(path)
        if status != 200:
            raise AssertionError(f"{path} answers {status}: {body}")
        return json.loads(body)

    def send(self, port, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("localhost", port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def call(self, method, path, body=None, **headers):
        return self.send(self.admin, method, path, body, headers)

    def reload(self):
        """The effect of octane:reload."""
        status, config = self.call("GET", "/config/apps/frankenphp")
        assert status == 200, config
        return self.call("PATCH", "/config/apps/frankenphp", config,
                         **{"Content-Type": "application/json", "Cache-Control": "must-revalidate"})


class Commands(unittest.TestCase):
    def test_build_info_has_the_version_that_octane_looks_for(self):
        with Octane() as octane:
            output = subprocess.run([octane.base / "frankenphp", "build-info"], capture_output=True, text=True, check=True).stdout
        line = next(line for line in output.splitlines() if line.startswith("dep") and "github.com/dunglas/frankenphp" in line)
        version = line.strip().rsplit("v", 1)[1]
        self.assertGreaterEqual(tuple(map(int, version.split("."))), (1, 5, 0))

    def test_other_commands_and_options_are_refused_with_those_that_exist(self):
        with Octane() as octane:
            for arguments in (["php-server"], ["--help"], [""]):
                self.assertIn("build-info, version, run -c CADDYFILE", octane.fail(*arguments))
            for arguments in (["run"], ["run", "--watch"], ["run", "-c", "Caddyfile", "--environ"]):
                self.assertIn("frankenphp run -c CADDYFILE", octane.fail(*arguments))
            self.assertIn("missing cannot be read", octane.fail("run", "-c", octane.base / "missing"))

    def test_what_howdah_cannot_do_is_said_in_one_message(self):
        with Octane(CADDY_SERVER_EXTRA_DIRECTIVES="mercure {\n\tdemo\n}", CADDY_EXTRA_CONFIG="x.example {\n}") as octane:
            (octane.base / "Caddyfile").write_text(CADDYFILE.replace("encode gzip", "basic_auth {\n me secret\n}\nheader X-A b"))
            lines = octane.fail().splitlines()
        self.assertEqual(len(lines), 1)
        message = json.loads(lines[0])
        self.assertEqual(message["level"], "error")
        for part in ("Mercure", "CADDY_EXTRA_CONFIG", '"me secret" (line 22)', '"header X-A b" (line 24)'):
            self.assertIn(part, message["msg"])

    def test_values_that_make_no_sense_are_refused(self):
        for name, value in (("CADDY_SERVER_ADMIN_PORT", "99999"), ("CADDY_SERVER_ADMIN_PORT", "1; rm"), ("MAX_REQUESTS", "-1"),
                            ("CADDY_SERVER_ADMIN_HOST", "0.0.0.0"), ("CADDY_SERVER_ADMIN_HOST", "127.example.org"),
                            ("CADDY_SERVER_SERVER_NAME", "ftp://x"), ("CADDY_SERVER_SERVER_NAME", "http://:1, http://:2"),
                            ("CADDY_SERVER_WORKER_DIRECTIVE", "many"),
                            ("CADDY_SERVER_LOGGER", "console"), ("APP_BASE_PATH", "relative"), ("APP_PUBLIC_PATH", "/missing"),
                            ("CADDY_SERVER_WATCH_DIRECTIVES", "watch /a\n}\nadmin off")):
            with self.subTest(name, value=value), Octane(**{name: value}) as octane:
                self.assertIn(name, json.loads(octane.fail())["msg"])


class Serving(unittest.TestCase):
    def test_the_worker_script_answers_with_the_environment_of_octane(self):
        with Octane().start() as octane:
            page = octane.page("/any/path?x=1")
            server = page["server"]
            self.assertEqual(server["REQUEST_URI"], "/any/path?x=1")
            self.assertEqual(server["APP_BASE_PATH"], str(octane.base))
            self.assertEqual(server["APP_PUBLIC_PATH"], str(octane.base / "public"))
            self.assertEqual((server["LARAVEL_OCTANE"], server["MAX_REQUESTS"], server["APP_ENV"]), ("1", "500", "local"))
            self.assertEqual(server["DB_PASSWORD"], "pass $word")
            self.assertFalse([name for name in server if name.startswith(("CADDY_", "HOWDAH_"))])
            self.assertEqual(octane.get("/robots.txt"), (200, "robots\n"))

    def test_a_worker_is_replaced_after_its_number_of_requests(self):
        with Octane(MAX_REQUESTS="3", CADDY_SERVER_WORKER_DIRECTIVE="num 1").start() as octane:
            self.assertGreaterEqual(len({octane.page()["pid"] for _ in range(10)}), 3)
        with Octane(MAX_REQUESTS="0", CADDY_SERVER_WORKER_DIRECTIVE="num 1").start() as octane:
            self.assertEqual(len({octane.page()["pid"] for _ in range(10)}), 1)

    def test_a_path_can_warm_up_the_workers(self):
        with Octane().start() as octane:
            self.assertEqual(octane.page()["requests"], 1)
        with Octane(HOWDAH_WARM_UP="/").start() as octane:
            self.assertEqual(octane.page()["requests"], 2)

    def test_a_request_ends_at_the_maximum_execution_time(self):
        with Octane(REQUEST_MAX_EXECUTION_TIME="1").start() as octane:
            self.assertEqual(octane.get("/sleep")[0], 504)
            octane.page()

    def test_log_lines_are_those_that_octane_parses(self):
        with Octane().start() as octane:
            octane.page("/page?authorization=secret&a=%22%ff")
            octane.get("/throw")
            octane.get("/print")
            wait_for(lambda: octane.log.count("handled request") == 3, "the log")
            records = octane.records()
        requests = [record for record in records if record["msg"] == "handled request"]
        self.assertEqual({(record["request"]["method"], record["request"]["uri"], record["status"], record["level"])
                          for record in requests},
                         {("GET", "/page?authorization=REDACTED&a=%22%ff", 200, "info"), ("GET", "/throw", 500, "error"),
                          ("GET", "/print", 200, "info")})
        self.assertTrue(all(isinstance(record["duration"], float) for record in requests))
        self.assertTrue(all(record["level"] in ("info", "warn", "error") for record in records))
        streams = [json.loads(record["msg"]) for record in records if record["msg"].startswith("{")]
        self.assertEqual(streams, [{"type": "throwable", "class": "E", "message": "two\nlines"}])
        self.assertIn("printed", [record["msg"] for record in records])

    def test_requests_are_not_logged_above_level_info(self):
        with Octane(CADDY_SERVER_LOG_LEVEL="WARN").start() as octane:
            octane.page()
            octane.get("/throw")
            wait_for(lambda: octane.logged("throwable"), "the log")
            self.assertNotIn("handled request", octane.log)

    def test_ports_in_use_are_reported(self):
        for name in ("port", "admin"):
            with self.subTest(name), Octane() as octane, socket.socket() as other:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                other.bind(("127.0.0.1", getattr(octane, name)))
                other.listen()
                messages = [json.loads(line) for line in octane.fail().splitlines()]
                self.assertTrue([one for one in messages if one["level"] == "error"
                                 and f"127.0.0.1:{getattr(octane, name)}" in one["msg"]], messages)


class Reload(unittest.TestCase):
    def test_a_reload_uses_changed_files_and_loses_no_request(self):
        with Octane().start() as octane:
            answers, problems, stop = [], [], threading.Event()

            def visit():
                while not stop.is_set() and len(problems) < 20:
                    try:
                        answers.append(octane.page()["version"])
                    except Exception as problem:  # of any kind: each is a failed request
                        problems.append(problem)

            visitors = [threading.Thread(target=visit) for _ in range(4)]
            for visitor in visitors:
                visitor.start()
            try:
                for version in ("two", "three"):
                    wait_for(lambda: len(answers) > 20, "visitors")
                    octane.write_version(version)
                    self.assertEqual(octane.reload()[0], 200)
                    self.assertEqual(octane.page()["version"], version)
                    answers.clear()
                octane.write_version("four")
                self.assertEqual(octane.call("POST", "/frankenphp/workers/restart")[0], 200)
                self.assertEqual(octane.page()["version"], "four")
            finally:
                stop.set()
                for visitor in visitors:
                    visitor.join()
            self.assertEqual(problems, [])

    def test_a_script_that_does_not_work_leaves_the_old_one(self):
        with Octane().start() as octane:
            (octane.base / "app/version.php").write_text("<?php broken(")
            status, body = octane.reload()
            self.assertEqual(status, 500, body)
            self.assertEqual(octane.page()["version"], "one")
            wait_for(lambda: octane.logged("The workers were not restarted: "), "the record of the failure")

    def test_a_start_with_a_script_that_does_not_work_fails(self):
        with Octane() as octane:
            (octane.base / "app/version.php").write_text("<?php broken(")
            self.assertIn("Unclosed", octane.fail())

    def test_changes_of_watched_paths_restart_the_workers(self):
        with Octane() as octane:
            octane.environment["CADDY_SERVER_WATCH_DIRECTIVES"] = f"\t\twatch {octane.base}/app/**/*.php\n\t\twatch {octane.base}/.env"
            octane.start()
            self.assertEqual(octane.page()["version"], "one")
            octane.write_version("two")
            wait_for(lambda: octane.page()["version"] == "two", "the restart")


class Administration(unittest.TestCase):
    def test_only_requests_of_programs_of_this_machine_are_answered(self):
        with Octane().start() as octane:
            for headers in ({"Host": "evil.example"}, {"Host": "localhost.evil.example:2019"}, {"Origin": "http://localhost"},
                            {"Sec-Fetch-Site": "same-site"}):
                self.assertEqual(octane.call("POST", "/stop", **headers)[0], 403, headers)
            for method, path in (("GET", "/stop"), ("POST", "/load"), ("DELETE", "/config/apps/frankenphp"), ("GET", "/")):
                status, body = octane.call(method, path)
                self.assertEqual(status, 404)
                self.assertIn("POST /frankenphp/workers/restart", body)
            self.assertEqual(octane.call("PATCH", "/config/apps/frankenphp", '{"workers": []}')[0], 400)
            octane.page()

    def test_malformed_requests_disturb_nothing(self):
        with Octane().start() as octane:
            held = [socket.create_connection(("127.0.0.1", octane.admin)) for _ in range(100)]
            for bytes_, answer in ((b"\x16\x03\x01\r\n\r\n", b" 400 "), (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 9000, b" 431 "),
                                   (b"POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b" 413 "),
                                   (b"POST /stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000000\r\n\r\n", b" 413 "),
                                   (b"POST /stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b" 413 "),
                                   (b"POST /stop HTTP/1.1\r\n\r\n", b" 403 ")):
                with socket.create_connection(("127.0.0.1", octane.admin)) as connection:
                    connection.settimeout(PATIENCE)
                    try:
                        connection.sendall(bytes_)
                        self.assertIn(answer, connection.recv(4096))
                    except ConnectionError:
                        pass  # refused before all of it was sent
            for connection in held:
                connection.close()
            self.assertEqual(octane.reload()[0], 200)
            octane.page()


class End(unittest.TestCase):
    def ended(self, octane, processes, status):
        self.assertEqual(octane.process.wait(PATIENCE), status)
        wait_for(lambda: not [pid for pid, start in processes if (stat_of(pid) or (0, 0))[1] == start], "the end of the processes")
        wait_for(lambda: not list(octane.temporary.iterdir()), "the removal of its files")

    def test_stop_and_signals_answer_the_request_in_progress_and_leave_nothing(self):
        for how in ("/stop", signal.SIGTERM, signal.SIGINT):
            with self.subTest(how), Octane().start() as octane:
                answers = []
                visitor = threading.Thread(target=lambda: answers.append(octane.get("/slow")))
                visitor.start()
                wait_for((octane.base / "public/slow").exists, "the request")
                processes = descendants(octane.process.pid)
                self.assertGreater(len(processes), 4)
                if how == "/stop":
                    self.assertEqual(octane.call("POST", how)[0], 200)
                else:
                    octane.process.send_signal(how)
                (octane.base / "public/go").touch()
                visitor.join()
                self.assertEqual(answers, [(200, "done")])
                self.ended(octane, processes, 0)

    def test_a_second_signal_ends_it_at_once(self):
        with Octane().start() as octane:
            visitor = threading.Thread(target=lambda: self.assertRaises((OSError, http.client.HTTPException), octane.get, "/slow"))
            visitor.start()
            wait_for((octane.base / "public/slow").exists, "the request")
            processes = descendants(octane.process.pid)
            octane.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not octane.is_listening(), "the first signal")
            octane.process.send_signal(signal.SIGTERM)
            visitor.join()
            self.ended(octane, processes, 0)
            self.assertFalse(octane.logged("shutdown_timeout has passed"), "the first signal has ended it")

    def test_nothing_is_left_when_octane_kills_the_program(self):
        with Octane().start() as octane:
            octane.page()
            processes = descendants(octane.process.pid)
            octane.process.kill()
            self.ended(octane, processes, -signal.SIGKILL)

    def test_the_end_of_the_server_ends_the_program_with_its_status(self):
        with Octane().start() as octane:
            processes = descendants(octane.process.pid)
            pid = int(re.search(r"started: howdah .* pid (\d+)", octane.log).group(1))
            os.kill(pid, signal.SIGKILL)
            self.ended(octane, processes, 128 + signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", metavar="PROGRAM", required=True, type=lambda path: Path(path).resolve())
    options, rest = parser.parse_known_args()
    HOWDAH = options.howdah
    unittest.main(argv=[sys.argv[0], *rest])
