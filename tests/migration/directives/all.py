"""All cases, and the rows that cannot be observed."""

from . import access, core, files, log_and_rewrite, variables

# The modules of nginx whose rows are proven.
MODULES = ["core", "log", "headers_filter", "rewrite", "index", "autoindex", "charset_filter", "try_files", "geo", "map",
           "split_clients", "realip", "access", "auth_basic", "auth_request", "mirror", "limit_conn", "limit_req"]
CASES = [*core.CASES, *log_and_rewrite.CASES, *files.CASES, *variables.CASES, *access.CASES]

# {directive: why no client, upstream or log shows its effect}. A directive is proven in a case or is here.
UNOBSERVABLE = {
    "client_body_buffer_size": "a script reads the same body from memory and from a file",
    "client_body_temp_path": "files with bodies have no name; tests/config/check.rs checks the directory",
    "error_log": "messages are worded differently; every comparison writes such a file with `--log`",
    "resolver": "takes a DNS server; tests/proxy/dns.rs has one",
    "rewrite_log": "both write to the server's log, in words of their own",
}
