"""All cases, and the rows that cannot be observed."""

from . import core

MODULES = {
    "core": core,
}
CASES = [case for module in MODULES.values() for case in module.CASES]

# {directive: why no client, upstream or log shows its effect}. A directive is proven in a case or is here.
UNOBSERVABLE = {
    "client_body_buffer_size": "a script reads the same body from memory and from a file",
    "client_body_temp_path": "files with bodies have no name; tests/http/limits.rs looks for them",
    "error_log": "messages are worded differently; every comparison writes such a file with `--log`",
    "resolver": "takes a DNS server; tests/proxy/dns.rs has one",
}
