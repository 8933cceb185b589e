"""The cases of fpm_proof.py: the equivalents of PHP-FPM's directives in docs/coming-from-php-fpm.md.

Each case is a pool and an application. The observation of the two must be the value that the case names. `/srv/`, `/log/` and
`/run/` stand for directories of the comparison.
"""

import json
import os
import re
import threading
import time
from dataclasses import dataclass, field

PATIENCE = 30  # seconds until an expected state is reached

FILES = {
    "a.php": "<?php echo 'a';",
    "a.phtml": "<?php echo 'phtml';",
    "a.inc": "<?php echo 'inc';",
    "pid.php": "<?php echo getmypid();",
    # A signal would end one sleep().
    "sleep.php": "<?php $end = microtime(true) + $_GET['s']; while (microtime(true) < $end) usleep(20000); echo 'slept';",
    "environment.php": "<?php foreach (['ONE', 'TWO', 'THREE', 'FOUR', 'FROM_OUTSIDE', 'HOME', 'USER'] as $name) $all[$name] = "
                       "[getenv($name), $_SERVER[$name] ?? false, $_ENV[$name] ?? false]; echo json_encode($all);",
    "settings.php": "<?php $names = ['memory_limit', 'display_errors', 'precision', 'short_open_tag', 'session.cache_limiter'];"
                    "foreach ($names as $name) { $before = ini_get($name); $set = @ini_set($name, '7');"
                    "$all[$name] = [$before, $set !== false, ini_get($name)]; } echo json_encode($all);",
    "directory.php": "<?php register_shutdown_function(function () { echo getcwd(); });",
    "ids.php": "<?php echo json_encode([posix_geteuid(), posix_getegid(), posix_getuid(), posix_getgroups()]);",
    "limits.php": "<?php preg_match_all('/^Max (open files|core file size) +(\\S+) +(\\S+)/m',"
                  "file_get_contents('/proc/self/limits'), $all, PREG_SET_ORDER);"
                  "foreach ($all as $one) echo \"$one[1]: $one[2] $one[3]\\n\";",
    "nice.php": "<?php echo explode(' ', preg_replace('/.*\\) /', '', file_get_contents('/proc/self/stat')))[16];",
    "output.php": "<?php file_put_contents('php://stderr', \"script writes $_GET[text]\\n\");"
                  "exec(\"echo program writes $_GET[text] >&2\"); echo 'done';",
    "finish.php": "<?php echo 'finished'; fastcgi_finish_request(); sleep(4);"
                  "file_put_contents($_SERVER['DOCUMENT_ROOT'] . '/../run/' . $_GET['to'], 'reached');",
    "deep.php": "<?php function inner($n) { if ($n) inner($n - 1); else sleep(3); }"
                "function outer() { inner(40); } outer(); echo 'slept';",
    "root.php": "<?php echo json_encode([file_exists('/inside.txt'), file_exists('/etc/shadow')]);",
    "log.php": "<?php http_response_code((int) ($_GET['status'] ?? 200)); header('X-Own: own'); usleep(50000); echo 'x';",
}


@dataclass
class Differs:
    """Values that differ, with the words of the row that say so."""

    fpm: object
    howdah: object
    words: str


@dataclass
class Case:
    """A pool and an application of the same name."""

    name: str
    rows: str  # Names of directives; those in [global] have "global:" in front.
    pool: str  # Lines of the pool.
    application: dict
    observed: list  # (function of a side, value)
    routes: list | None = None  # The default passes everything to the application.
    group: str = "plain"  # Cases of a group share their two servers.
    listener: str | None = None  # A further route that has a listener of its own.
    further: dict = field(default_factory=dict)  # Further routes.
    inside: str = ""  # Directory that is the root directory of the processes.
    tcp: bool = False  # Whether the pool has an address in place of a unix socket.


@dataclass
class Group:
    """Settings of the servers of a group."""

    globals: str = ""  # Lines of [global]
    document: dict = field(default_factory=dict)
    background: bool = False


GROUPS = {
    "plain": Group("process_control_timeout = 5"),
    "slow end": Group("process_control_timeout = 20", {"settings": {"shutdown_timeout": 20}}),
    "quick end": Group("process_control_timeout = 1", {"settings": {"shutdown_timeout": 1}}),
    "default end": Group(),
    "background": Group(background=True),
    "few processes": Group("process.max = 2", {"settings": {"max_processes": 2}}),
    "rights": Group("process.priority = 4\nrlimit_files = 700\nrlimit_core = 0"),
}

ONE = "pm = static\npm.max_children = 1"


def until(condition):
    """Waits for a condition; its last value."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return value


def answer(request):
    def observe(side):
        status, _, body, _ = side.ask(request)
        return status, body.decode("utf-8", "replace")
    observe.__name__ = request
    return observe


def value(request):
    """The JSON of a response."""
    def observe(side):
        return json.loads(side.ask(request)[2])
    observe.__name__ = request
    return observe


def together(requests, act=None):
    """The responses to concurrent requests, and the result of an action meanwhile."""
    def make(side):
        answers = [None] * len(requests)

        def ask(number):
            answers[number] = side.ask(requests[number])
        threads = [threading.Thread(target=ask, args=[number]) for number in range(len(requests))]
        for thread in threads:
            thread.start()
        found = act(side) if act else None
        for thread in threads:
            thread.join()
        return answers, found
    return make


def processes(number):
    """The number of processes, once it is this one."""
    def number_of_processes(side):
        until(lambda: len(side.processes()) == number)
        return len(side.processes())
    return number_of_processes


def most_processes(requests):
    """The maximum of processes while requests run that sleep, and their statuses."""
    def maximum_of_processes(side):
        running, answers = [], []

        def ask():
            answers.append(side.ask("/sleep.php?s=3")[0])
        for _ in range(requests):
            running.append(threading.Thread(target=ask))
            running[-1].start()
            time.sleep(0.2)  # for requests that arrive together, PHP-FPM may start one process with `ondemand`
        seen = 0
        while any(thread.is_alive() for thread in running):
            seen = max(seen, len(side.processes()))
            time.sleep(0.05)
        return seen, answers
    return maximum_of_processes


def changes_of_process(requests):
    def of_process(side):
        """The number of the process that answers each request."""
        ids = []
        numbers = []
        for _ in range(requests):
            pid = int(side.ask("/pid.php")[2])
            ids += [] if pid in ids else [pid]
            numbers.append(ids.index(pid))
        return numbers
    return of_process


def killed(request, low, high):
    def is_killed(side):
        """The status, and whether it comes in this time."""
        start = time.monotonic()
        status = side.ask(request)[0]
        return status, low < time.monotonic() - start < high
    return is_killed


def after_the_response(name):
    def is_reached(side):
        """Whether a script continues after its response beyond the time limit."""
        body = side.ask(f"/finish.php?to={side.name}-{name}")[2]
        return body.decode(), until(lambda: (side.tmp / "run" / f"{side.name}-{name}").exists())
    return is_reached


def slow_log(path, request, calls):
    def has_calls(side):
        """Whether the record of a slow request has these calls, innermost first, and the script."""
        status = side.ask(request)[0]
        until(lambda: all(call in side.read(path) for call in calls))
        text = side.read(path)
        places = [text.find(call) for call in calls]
        return status, -1 not in places and places == sorted(places), "deep.php" in text
    return has_calls


def lines(path, number, change=lambda line: line):
    def of_log(side):
        """The lines of a log."""
        until(lambda: side.read(path).count("\n") >= number)
        time.sleep(0.3)  # for one too many
        return sorted(change(line) for line in side.read(path).splitlines())
    return of_log


def in_log(text, expected):
    def has_text(side):
        """Whether the server's log gets the lines that a script and a program write to standard error."""
        status = side.ask(f"/output.php?text={text}")[0]
        parts = [f"{who} writes {text}" for who in ("script", "program")]
        until(lambda: all(part in side.log() for part in parts) or not expected)
        time.sleep(0 if expected else 1)
        return status, [part in side.log() for part in parts]
    return has_text


def undecorated(path, text):
    def lines_of_output(side):
        """The lines of output without a prefix."""
        status = side.ask(f"/output.php?text={text}")[0]
        file = lambda: (side.log() if side.is_fpm else side.read(path)).splitlines()
        until(lambda: sum(line.endswith(text) for line in file()) >= 2)
        return status, sorted(line for line in file() if not line.startswith("["))
    return lines_of_output


def status_keys(request):
    def of_status(side):
        """The names of the first twelve values, and those that say how many processes there are."""
        status = json.loads(side.ask(request)[2])
        told = {name: status[name] for name in ("pool", "process manager", "total processes", "accepted conn")}
        return list(status)[:14], told | {"accepted conn": told["accepted conn"] > 0}
    return of_status


def mode_of_process(side):
    """Whether the process belongs to its user for the kernel, as one that may leave a core file does."""
    pid = int(side.ask("/pid.php")[2])
    return os.stat(f"/proc/{pid}/mem").st_uid == side.user_id


def waiting(requests):
    def some_are_refused(side):
        """Whether some requests are answered and some refused, and the status of the latter."""
        answers, _ = together(["/sleep.php?s=2"] * requests)(side)
        statuses = {status for status, *_ in answers}
        return sorted(statuses)
    return some_are_refused


def ended(seconds):
    def at_the_end(side):
        """Whether a running request is completed after the signal to end, and whether that takes time."""
        answers, took = together([f"/sleep.php?s={seconds}"], end_of)(side)
        return answers[0][0] == 200, took
    return at_the_end


def end_of(side):
    """Whether a server needs more than five seconds to end, once a request has begun."""
    time.sleep(1)
    start = time.monotonic()
    side.quit()
    return time.monotonic() - start > 5


STATUS = ["pool", "process manager", "start time", "start since", "accepted conn", "listen queue", "max listen queue",
          "listen queue len", "idle processes", "active processes", "total processes", "max active processes",
          "max children reached", "slow requests"]


def to(action, uri, name):
    """Steps with an action for one path, and the application for all others."""
    return [{"match": {"uri": uri}, "action": action}, {"action": {"pass": f"applications/{name}"}}]


def without_time(line):
    return re.sub(r"\d\.\d{3}", lambda found: "SECONDS" if 0.04 < float(found[0]) < 5 else found[0],
                  re.sub(r"\d\d/\w\w\w/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}", "TIME", line))


CASES = [
    Case("static", "pm pm.max_children", "pm = static\npm.max_children = 3", {"processes": 3},
         [(processes(3), 3), (most_processes(5), (3, [200] * 5)), (processes(3), 3)]),
    Case("dynamic", "pm pm.max_children pm.start_servers pm.min_spare_servers pm.max_spare_servers",
         "pm = dynamic\npm.max_children = 4\npm.start_servers = 2\npm.min_spare_servers = 2\npm.max_spare_servers = 2",
         {"processes": {"max": 4, "start": 2, "spare": 2, "max_spare": 2}},
         [(processes(2), 2), (most_processes(8), (4, [200] * 8)), (processes(2), 2)]),
    Case("ondemand", "pm pm.max_children pm.process_idle_timeout",
         "pm = ondemand\npm.max_children = 2\npm.process_idle_timeout = 3s",
         {"processes": {"max": 2, "spare": 0, "idle_timeout": 3}},
         [(processes(0), 0), (most_processes(4), (2, [200] * 4)), (processes(0), 0), (answer("/a.php"), (200, "a")),
          (processes(1), 1), (processes(0), 0)]),
    Case("few-processes", "global:process.max", "pm = ondemand\npm.max_children = 4\npm.process_idle_timeout = 3s",
         {"processes": {"max": 4, "spare": 0, "idle_timeout": 3}}, [(most_processes(4), (2, [200] * 4))], group="few processes"),
    Case("requests", "pm.max_requests", f"{ONE}\npm.max_requests = 2", {"processes": 1, "limits": {"requests": 2}},
         [(changes_of_process(5), [0, 0, 1, 1, 2])]),
    Case("timeout", "request_terminate_timeout", f"{ONE}\nrequest_terminate_timeout = 2s", {"processes": 1, "limits": {"timeout": 2}},
         [(killed("/sleep.php?s=20", 1, 8), Differs((502, True), (504, True), "is 504 (nginx: 502)")), (answer("/a.php"), (200, "a")),
          (after_the_response("timeout"), ("finished", True))]),
    Case("slow", "slowlog request_slowlog_timeout", f"{ONE}\nslowlog = /log/slow\nrequest_slowlog_timeout = 1s",
         {"processes": 1, "limits": {"slow": 1, "slow_log": "/log/slow"}},
         [(slow_log("/log/slow", "/deep.php", ["sleep", "inner"]), (200, True, True)), (answer("/a.php"), (200, "a"))]),
    Case("status", "pm.status_path ping.path ping.response",
         f"{ONE}\npm.status_path = /fpm-status\nping.path = /fpm-ping\nping.response = here", {"processes": 1},
         [(answer("/a.php"), (200, "a")), (answer("/fpm-ping"), (200, "here")),
          (status_keys("/fpm-status?json"), (STATUS, {"pool": "status", "process manager": "static", "total processes": 1,
                                                      "accepted conn": True}))],
         [{"match": {"uri": "/fpm-ping"}, "action": {"ping": "applications/status", "response": "here"}},
          *to({"status": "applications/status"}, "/fpm-status", "status")]),
    Case("ping", "ping.path", f"{ONE}\nping.path = /fpm-ping", {"processes": 1}, [(answer("/fpm-ping"), (200, "pong"))],
         to({"ping": "applications/ping"}, "/fpm-ping", "ping")),
    Case("status-listener", "pm.status_listen pm.status_path",
         f"{ONE}\npm.status_path = /state\npm.status_listen = /run/own-status.sock", {"processes": 1},
         [(lambda side: together(["/sleep.php?s=3"], lambda side: side.ask("/state?json", own=True)[0])(side)[1], 200)],
         listener="state", further={"state": [{"match": {"uri": "/state"}, "action": {"status": "applications/status-listener"}}]}),
    Case("environment", "env", f"{ONE}\nenv[ONE] = 1\nenv[TWO] = 'two words'\n"
         "env[THREE] = $FROM_OUTSIDE\nenv[FOUR] = $NO_SUCH\nphp_admin_value[variables_order] = EGPCS",
         {"processes": 1,
          "environment": {"ONE": "1", "TWO": "two words", "THREE": {"env": "FROM_OUTSIDE"}, "FOUR": {"env": "NO_SUCH", "default": ""}},
          "options": {"admin": {"variables_order": "EGPCS"}}},
         [(value("/environment.php"), {"ONE": ["1"] * 3, "TWO": ["two words"] * 3, "THREE": ["1"] * 3, "FOUR": [""] * 3, "FROM_OUTSIDE": [False] * 3,
                                       "HOME": ["/var/www"] * 3, "USER": ["www-data"] * 3})]),
    Case("whole-environment", "clear_env", f"{ONE}\nclear_env = no\nphp_admin_value[variables_order] = EGPCS",
         {"processes": 1, "environment": {"*": {"env": True}}, "options": {"admin": {"variables_order": "EGPCS"}}},
         [(lambda side: value("/environment.php")(side)["FROM_OUTSIDE"], ["1"] * 3)]),
    Case("settings", "php_value php_flag php_admin_value php_admin_flag", f"""{ONE}
         php_admin_value[memory_limit] = 77M
         php_admin_flag[display_errors] = on
         php_value[precision] = 5
         php_flag[short_open_tag] = on
         php_value[session.cache_limiter] = public""",
         {"processes": 1, "options": {"admin": {"memory_limit": "77M", "display_errors": "1"},
                                      "user": {"precision": "5", "short_open_tag": "1", "session.cache_limiter": "public"}}},
         [(value("/settings.php"), {"memory_limit": ["77M", False, "77M"], "display_errors": ["1", False, "1"],
                                    "precision": ["5", True, "7"], "short_open_tag": ["1", False, "1"],
                                    "session.cache_limiter": ["public", True, "7"]})]),
    Case("extensions", "security.limit_extensions", f"{ONE}\nsecurity.limit_extensions = .php .phtml",
         {"processes": 1, "limit_extensions": [".php", ".phtml"]},
         [(answer("/a.php"), (200, "a")), (answer("/a.phtml"), (200, "phtml")), (lambda side: side.ask("/a.inc")[0], 403)]),
    Case("extension", "security.limit_extensions", ONE, {"processes": 1},
         [(answer("/a.php"), (200, "a")), (lambda side: side.ask("/a.phtml")[0], 403)]),
    Case("directory", "chdir", f"{ONE}\nchdir = /srv/other", {"processes": 1, "working_directory": "/srv/other"},
         [(lambda side: side.ask("/directory.php")[2].decode().removeprefix(str(side.tmp)), "/srv/other")]),
    Case("log", "access.log access.format",
         f"""{ONE}
         access.log = /log/access
         access.format = '"%m %r%Q%q" %s %n %{{seconds}}d [%t] %{{HTTP_USER_AGENT}}e %{{X-Own}}o' """,
         {"processes": 1, "access_log": {"path": "/log/access", "format":
          '"$method $request_uri" $status $application $php_time [$time_local] $header_user_agent $response_header_x_own'}},
         [(answer("/log.php"), (200, "x")), (answer("/log.php?status=404&b=%41"), (404, "x")),
          (lines("/log/access", 2, without_time), [
              '"GET /log.php" 200 log SECONDS [TIME] proof own',
              '"GET /log.php?status=404&b=%41" 404 log SECONDS [TIME] proof own'])]),
    Case("quiet", "access.suppress_path", f"{ONE}\naccess.log = /log/quiet\naccess.format = '%r'\naccess.suppress_path[] = /a.php",
         {"processes": 1, "access_log": {"path": "/log/quiet", "format": "$uri"}},
         [(answer("/a.php"), (200, "a")), (answer("/log.php"), (200, "x")), (lines("/log/quiet", 1), ["/log.php"])],
         to({"pass": "applications/quiet", "access_log": False}, "/a.php", "quiet")),
    Case("output", "catch_workers_output global:error_log", f"{ONE}\ncatch_workers_output = yes", {"processes": 1},
         [(in_log("seen", True), (200, [True, True]))]),
    Case("no-output", "catch_workers_output", f"{ONE}\ncatch_workers_output = no", {"processes": 1, "stderr": "/dev/null"},
         [(in_log("unseen", False), (200, [False, False]))]),
    Case("plain-output", "decorate_workers_output", f"{ONE}\ncatch_workers_output = yes\ndecorate_workers_output = no",
         {"processes": 1, "stderr": "/log/plain"},
         [(undecorated("/log/plain", "plain"), (200, ["program writes plain", "script writes plain"]))], group="background"),
    Case("priority", "process.priority", f"{ONE}\nprocess.priority = 7", {"processes": 1, "priority": 7}, [(answer("/nice.php"), (200, "7"))]),
    Case("limits", "rlimit_files rlimit_core", f"{ONE}\nrlimit_files = 321\nrlimit_core = 4096",
         {"processes": 1, "limits": {"rlimits": {"nofile": 321, "core": 4096}}},
         [(answer("/limits.php"), (200, "core file size: 4096 4096\nopen files: 321 321\n"))]),
    Case("user", "user group", f"{ONE}\nuser = daemon\ngroup = games", {"processes": 1, "user": "daemon", "group": "games"},
         [(lambda side: value("/ids.php")(side)[:3], [1, 60, 1])]),
    Case("chroot", "chroot", f"{ONE}\nchroot = /srv/inside", {"processes": 1, "root": "/site", "isolation": {"rootfs": "/srv/inside"}},
         [(value("/root.php"), [True, False])], inside="/srv/inside"),
    Case("dumpable", "process.dumpable", f"{ONE}\nprocess.dumpable = yes", {"processes": 1}, [(mode_of_process, True)]),
    Case("backlog", "listen.backlog", f"{ONE}\nlisten.backlog = 1", {"processes": 1, "limits": {"queue": 1}},
         [(waiting(8), Differs([200, 502], [200, 503], "they get 503 (nginx: 502)"))]),
    Case("clients", "listen.allowed_clients", f"{ONE}\nlisten.allowed_clients = 127.0.0.9", {"processes": 1},
         [(lambda side: side.ask("/a.php")[0], Differs(502, 403, "others get 403 (PHP-FPM: a closed connection)")),
          (lambda side: side.ask("/a.php", source="127.0.0.9")[0], 200)],
         [{"action": {"pass": "applications/clients", "allow": "127.0.0.9"}}], tcp=True),
    Case("global-rights", "global:process.priority global:rlimit_files global:rlimit_core", ONE,
         {"processes": 1, "priority": 4, "limits": {"rlimits": {"nofile": 700, "core": 0}}},
         [(answer("/nice.php"), (200, "4")),
          (answer("/limits.php"), Differs((200, "core file size: 0 unlimited\nopen files: 700 700\n"),
                                          (200, "core file size: 0 0\nopen files: 700 700\n"),
                                          "scripts cannot raise either (PHP-FPM: they can raise that of core files)"))], group="rights"),
    Case("slow-end", "global:process_control_timeout", ONE, {"processes": 1}, [(ended(9), (True, True))], group="slow end"),
    Case("default-end", "global:process_control_timeout", ONE, {"processes": 1},
         [(ended(9), Differs((False, False), (True, True), "requests in progress are completed (PHP-FPM: cut)"))], group="default end"),
    Case("quick-end", "global:process_control_timeout", ONE, {"processes": 1}, [(ended(9), (False, False))], group="quick end"),
]
# {directive: why no test shows its effect}. A directive with an equivalent is proven in a case or is here.
UNOBSERVABLE = {
    "pm.max_spawn_rate": "PHP-FPM starts processes once a second, Howdah as requests wait; crates/php-pool/src/worker_count.rs tests it",
    "global:pid": "fpm_proof.py compares the files of all servers that it starts",
    "global:include": "fpm_proof.py has each pool and each application in a file of its own",
    "global:daemonize": "fpm_proof.py starts the servers of one group in the background, and ends them by their files",
}
