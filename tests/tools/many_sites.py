#!/usr/bin/env python3
"""Many sites of four lines: time of the start, of `howdah check` and of adding one, and idle memory.

    tests/tools/many_sites.py [--howdah PROGRAM] [--sites 500] [--shape plain|wordpress|mixed] [--users]

Each site has a directory of its own; with --users, also a user of its own (as root; the users are in
a mount namespace only). While one is added (its file, then `howdah reload`), clients request pages of
other sites: none may fail, and no worker of another site may be replaced. Beside each time is the
processor time of all processes of the server and the command, which other programs do not lengthen.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ADDRESS = ("127.0.0.1", 18981)
SCRIPT = "<?php echo getmypid(), ' ', $_SERVER['REQUEST_URI'];"
FIRST_ID = 20000
# More sites than are there at the start are added.
SPARE_USERS = 10
IN_NAMESPACE = "MANY_SITES_IN_NAMESPACE"


def make_directory(directory, is_wordpress):
    directory.mkdir(parents=True)
    (directory / "index.php").write_text(SCRIPT)
    if is_wordpress:
        for name in ("wp-admin", "wp-content/plugins", "wp-content/themes", "wp-includes"):
            (directory / name).mkdir(parents=True)
        for name in ("wp-load.php", "wp-login.php", "wp-settings.php", "wp-blog-header.php", "wp-cron.php"):
            (directory / name).write_text("<?php\n")
        (directory / "wp-includes/version.php").write_text("<?php $wp_version = '6.8';\n")
        (directory / "wp-config.php").write_text("<?php define('DB_NAME', 'x');\n")
        (directory / ".htaccess").write_text(
            "RewriteEngine On\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n"
            "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n"
            "RewriteRule . /index.php [L]\n")


def enter_namespace(count):
    """Starts this program again, in a mount namespace with a user for each site."""
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(temporary)
        for file, rest in (("passwd", ":/nonexistent:/bin/false"), ("group", "")):
            lines = [f"site{number:04}:x:{FIRST_ID + number}:" + (f"{FIRST_ID + number}:{rest}" if rest else "")
                     for number in range(count + SPARE_USERS)]
            (top / file).write_text(pathlib.Path("/etc", file).read_text() + "\n".join(lines) + "\n")
        mount = " && ".join(f'mount --bind "$0/{file}" /etc/{file}' for file in ("passwd", "group"))
        command = ["unshare", "--mount", "sh", "-c", mount + ' && exec "$@"', top, sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, IN_NAMESPACE: "1"}).returncode


def add_site(top, number, options):
    name = f"site{number:04}"
    directory = top / "www" / name
    is_wordpress = options.shape == "wordpress" or (options.shape == "mixed" and number % 100 == 0)
    make_directory(directory, is_wordpress)
    user = f',\n  "user": "{name}"' if options.users else ""
    text = f'{{\n  "hosts": ["{name}.example", "www.{name}.example"],\n  "root": "{directory}"{user}\n}}\n'
    file = top / "sites" / f"{name}.json"
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").rename(file)
    return f"{name}.example"


def get(host, path="/a"):
    connection = http.client.HTTPConnection(*ADDRESS, timeout=60)
    try:
        connection.request("GET", path, headers={"Host": host})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def wait_for(host, process):
    while True:
        if process.poll() is not None:
            sys.exit(f"the server has ended with {process.returncode}")
        try:
            return get(host)
        except OSError:
            time.sleep(0.002)


def processes(server):
    """The process ids of the server and of all processes below it."""
    parents = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    for pid in parents:
        above = pid
        while above not in (0, server):
            above = parents.get(above, 0)
        if above == server:
            yield pid


def memory(server):
    """Proportional set size of the server and all processes below it, in MB."""
    found = {}
    for pid in processes(server):
        try:
            title = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
            pss = re.search(r"^Pss: *(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
            found[f"{title.split('/')[-1][:40]} ({pid})"] = round(int(pss[1]) / 1024, 1)
        except (OSError, TypeError):
            continue
    return found


def processor_time(server=None):
    """Seconds of the processor of commands that have ended, and of the server with its processes."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime
    for pid in processes(server) if server else ():
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Its own time, and that of its processes that have ended.
        seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return seconds


class Load:
    """Clients that request pages of some sites until they are stopped."""

    def __init__(self, hosts):
        self.failed, self.times, self.is_over = [], [], False
        self.threads = [threading.Thread(target=self.run, args=(host,)) for host in hosts]
        for thread in self.threads:
            thread.start()

    def run(self, host):
        while not self.is_over:
            start = time.monotonic()
            try:
                status, text = get(host)
                if status != 200:
                    self.failed.append((host, status, text[:200]))
            except OSError as error:
                self.failed.append((host, repr(error)))
            self.times.append(time.monotonic() - start)
            time.sleep(0.01)

    def stop(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--howdah", default=ROOT / "target" / "release" / "howdah")
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--shape", choices=["plain", "wordpress", "mixed"], default="mixed")
    parser.add_argument("--users", action="store_true", help="each site has a user of its own")
    parser.add_argument("--calm", action="store_true", help="request nothing while sites are added")
    parser.add_argument("--keep", action="store_true", help="wait for a line on standard input before the end")
    options = parser.parse_args()
    if options.users and IN_NAMESPACE not in os.environ:
        sys.exit(enter_namespace(options.sites))
    with tempfile.TemporaryDirectory() as temporary:
        top = pathlib.Path(temporary)
        top.chmod(0o755)
        (top / "sites").mkdir()
        hosts = [add_site(top, number, options) for number in range(options.sites)]
        config = top / "howdah.json"
        address = f"{ADDRESS[0]}:{ADDRESS[1]}"
        config.write_text(json.dumps({"sites": "sites/*.json", "defaults": {"listen": address, "https": False}}))
        for _ in range(2):
            start, used = time.monotonic(), processor_time()
            checked = subprocess.run([options.howdah, "check", config], capture_output=True, text=True)
            print(f"howdah check: {time.monotonic() - start:.2f} s, processor {processor_time() - used:.2f} s")
            if checked.returncode != 0:
                sys.exit(checked.stderr)
        control = f"unix:{top}/control.sock"
        log = top / "log"
        start, commands = time.monotonic(), processor_time()
        server = subprocess.Popen([options.howdah, "serve", "--config", config, "--control", control,
                                   "--state", top / "state", "--log", log], stdout=subprocess.DEVNULL)
        try:
            status, _ = wait_for("none.example", server)
            seconds, used = time.monotonic() - start, processor_time(server.pid)
            print(f"start until a request is answered: {seconds:.2f} s, processor {used - commands:.2f} s "
                  f"(status {status})")
            time.sleep(2)
            found = memory(server.pid)
            print(f"idle memory: {sum(found.values()):.1f} MB:", found)
            print(f"processor time of the start, with what follows it: {processor_time(server.pid) - commands:.2f} s")
            visited = [hosts[0], hosts[len(hosts) // 2], hosts[-1]]
            before = {host: get(host)[1].split()[0] for host in visited}
            load = Load([] if options.calm else visited)
            time.sleep(0.5)
            calm = max(load.times, default=0)
            for number in range(options.sites, options.sites + 3):
                load.times.clear()
                host = add_site(top, number, options)
                start, used = time.monotonic(), processor_time(server.pid)
                said = subprocess.run([options.howdah, "reload", "--control", control],
                                      capture_output=True, text=True)
                seconds = time.monotonic() - start
                if said.returncode != 0:
                    sys.exit(said.stderr)
                status, _ = get(host)
                answered = time.monotonic() - start
                used = processor_time(server.pid) - used
                print(f"one site added: reload {seconds:.2f} s, answered after {answered:.2f} s ({status}), "
                      f"processor {used:.2f} s; slowest of {len(load.times)} other requests "
                      f"{max(load.times, default=0) * 1000:.0f} ms (calm: {calm * 1000:.0f} ms)")
            load.stop()
            after = {host: get(host)[1].split()[0] for host in visited}
            print(f"failed requests: {len(load.failed)} {load.failed[:3]}; "
                  f"workers kept: {before == after}")
            if options.keep:
                print("pid", server.pid, top, flush=True)
                sys.stdin.readline()
            if load.failed or before != after:
                sys.exit(1)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
            if log.exists() and os.environ.get("SHOW_LOG"):
                print(log.read_text()[-3000:])


if __name__ == "__main__":
    main()
