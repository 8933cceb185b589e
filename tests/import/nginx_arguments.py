"""Wrong arguments: a configuration with which nginx does not start is refused (2), or the report says that it is not converted (3).

A case is a directive. `nginx -t` has to refuse each of its lines, so that the table says nothing that nginx does not.
"""

import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import imported
import nginx_side
from peers import nginx

THREADS = 3

# Contexts in which lines stand.
MAIN, EVENTS, HTTP, SERVER, LOCATION, UPSTREAM = "main events http server location upstream".split()

WRONG = {
    MAIN: ["events { } events { }", "worker_priority zz", "worker_cpu_affinity zz", "worker_processes zz", "thread_pool a zz", "http zz { }"],
    EVENTS: ["use zz", "debug_connection zz", "worker_connections zz", "worker_connections 0", "multi_accept zz"],
    HTTP: ["limit_conn_zone $host zz", "limit_req_zone $host zone=a:1m rate=zz", "server zz { }", "upstream u { }", "map $host x { }", "log_format a",
           "proxy_cache_path /c zz", "geo x { }", "split_clients $host x { }", "open_log_file_cache zz", "server_names_hash_bucket_size zz"],
    SERVER: ["listen zz:zz", "large_client_header_buffers zz 1k", "large_client_header_buffers 0 1k", "client_header_timeout zz", "server_name ~(",
             "ssl_session_cache zz", "ssl_session_cache shared:a", "ssl_protocols zz", "ssl_verify_client zz", "merge_slashes zz", "if $x { }", "set x y",
             "return 1000", "return", "rewrite ^ /a zz", "rewrite ( /a", "error_page 200 /a", "error_page 404", "try_files $uri", "auth_basic $zz", "fastcgi_cache zz", "proxy_cache_key $zz", "resolver zz", "ssl_certificate /zz",
             "secure_link $zz", "valid_referers ~( a", "gzip_disable ~(", "disable_symlinks off off", "proxy_redirect ~( a"],
    LOCATION: ["access_log off off", "aio zz", "auth_request_set zz zz", "client_body_temp_path /a zz", "directio zz", "disable_symlinks zz", "gzip_buffers zz 1k",
               "output_buffers 1 zz", "proxy_buffers zz 1k", "fastcgi_buffers 1 zz", "fastcgi_cache_use_stale zz", "proxy_cache_use_stale zz",
               "fastcgi_cache_use_stale http_502", "fastcgi_cache_valid zz", "proxy_cache_valid 200 zz", "proxy_cache_valid zz 1m", "fastcgi_ignore_headers zz",
               "proxy_ignore_headers zz", "fastcgi_next_upstream http_502", "proxy_next_upstream zz", "fastcgi_pass zz", "fastcgi_split_path_info zz",
               "fastcgi_temp_path /a zz", "proxy_temp_path /a zz", 'index ""', "keepalive_timeout 1 zz", "limit_except zz { }", "limit_rate_after zz",
               "open_file_cache zz", "proxy_cookie_domain zz", "proxy_cookie_path zz", "proxy_cookie_flags zz", "proxy_redirect zz",
               "valid_referers a.test a.test", "satisfy zz", "expires 1h 2h", "client_max_body_size zz", "limit_conn_status 200", "gzip_comp_level 10",
               "autoindex zz", "root", "root /a; root /b", "alias /a; alias /b", "location { }", "location zz / { }", "expires zz", "deny zz", "limit_req zz",
               "add_header A", "add_header A b zz", "fastcgi_param A b zz", "proxy_pass zz", "proxy_http_version 3", "autoindex_format zz",
               "internal zz", "mirror", "allow", "error_page zz /a"],
    UPSTREAM: ["hash a zz", "random zz", "keepalive zz", "keepalive 0", "zone a zz", "zone a", "server 127.0.0.1:2 weight=zz", "server 127.0.0.1:2 zz", "least_conn zz"],
}


def configuration(context, line):
    """A configuration with a line in a context."""
    line = line if line.endswith("}") else f"{line};"
    lines = {name: line if name == context else "" for name in WRONG}
    upstream = f"upstream back {{ server 127.0.0.1:1; {lines[UPSTREAM]} }}"
    server = f"server {{ listen 127.0.0.1:8999; {lines[SERVER]} location /q/ {{ {lines[LOCATION]} }} }}"
    # nginx takes one block of each.
    events = "" if line.startswith("events") else f"events {{ {lines[EVENTS]} }}"
    http = "" if line.startswith("http") else f"http {{ access_log off; {upstream} {lines[HTTP]} {server} }}"
    return f"{lines[MAIN]} {events} {http}\n"


class Arguments:
    """The cases of the table."""

    def needs(self):
        return nginx_side.needs()

    def run(self, arguments):
        """Compares the cases. Returns how many have failed."""
        cases = [(context, line) for context, lines in WRONG.items() for line in lines]
        cases = imported.chosen(cases, arguments.cases, lambda case: case[1].split()[0])
        tmp = Path(tempfile.mkdtemp(prefix="howdah-import-nginx-arguments-"))
        importer = [arguments.importer.resolve()] if arguments.importer else [arguments.howdah, "import"]
        try:
            with ThreadPoolExecutor(THREADS) as pool:
                found = list(pool.map(lambda case: difference(tmp / str(case[0]), case[1], importer), enumerate(cases)))
        finally:
            shutil.rmtree(tmp)
        for (_, line), problem in zip(cases, found):
            if problem:
                print(f"FAIL: {line}: {problem}")
        failed = sum(problem is not None for problem in found)
        print(f"nginx-arguments: {len(found) - failed} passed, {failed} failed", flush=True)
        return failed


def difference(directory, case, importer):
    """What is wrong with the answers of nginx and of the importer to a line; None if nothing is."""
    directory.mkdir()
    file = directory / "nginx.conf"
    file.write_text(configuration(*case))
    settings = f"pid {directory}/pid; error_log {directory}/log;"
    tested = subprocess.run([nginx.PROGRAM, "-t", "-q", "-p", str(directory), "-c", str(file), "-g", settings], capture_output=True, text=True)
    if not tested.returncode:
        return "nginx takes it"
    command = [*importer, "nginx", file, "--output", directory / "howdah.json"]
    made = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return None if made.returncode in (2, 3) else f"import ends with {made.returncode}, nginx: {tested.stderr.strip()}"
