"""All cases, and the rows that cannot be observed."""

from . import access, core, fastcgi, files, log_and_rewrite, proxy, tls, upstream, variables

CASES = [*core.CASES, *log_and_rewrite.CASES, *files.CASES, *variables.CASES, *access.CASES, *fastcgi.CASES, *proxy.CASES, *tls.CASES,
         *upstream.CASES]

# {directive: why no client, upstream or log shows its effect}. A directive is proven in a case or is here.
UNOBSERVABLE = {
    "client_body_buffer_size": "a script reads the same body from memory and from a file",
    "client_body_temp_path": "files with bodies have no name; tests/config/check.rs checks the directory",
    "error_log": "messages are worded differently; every comparison writes such a file with `--log`",
    "resolver": "takes a DNS server; tests/proxy/dns.rs has one",
    "rewrite_log": "both write to the server's log, in words of their own",
    "fastcgi_keep_conn": "PHP-FPM does not show its connections; tests/proxy/fastcgi.rs counts them",
    "fastcgi_temp_path": "files with responses have no name; tests/config/check.rs checks the directory",
    "proxy_temp_path": "files with responses have no name; tests/config/check.rs checks the directory",
    "ssl_session_ticket_key": "takes two servers with one key; crates/tls/src/tickets.rs tests it",
    "http2_idle_timeout": "a row of HTTP/1.1 that holds for HTTP/2 too; tests/http has clients of it",
    "http2_recv_timeout": "the same as http2_idle_timeout",
    "http2_max_field_size": "the same as http2_idle_timeout",
    "http2_max_header_size": "the same as http2_idle_timeout",
    "proxy_ssl_password_file": "there is no key for it",
    "proxy_ssl_verify_depth": "there is no key for it: chains may have any depth",
}
