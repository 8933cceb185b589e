//! Addresses of pools, as PHP-FPM, nginx and Apache write them.

/// Returns true if `listen` of a pool is the path of a unix socket.
pub(super) fn is_path(listen: &str) -> bool {
    listen.starts_with('/')
        || !(listen.contains(':') || listen.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns true if a web server that connects to `address` reaches a pool that listens at `listen`.
pub(super) fn is_same(listen: &str, address: &str) -> bool {
    let address = address.split('|').next().unwrap_or_default();
    let address = address.strip_prefix("fcgi://").unwrap_or(address).trim_end_matches('/');
    let socket = address.strip_prefix("unix:").or(address.starts_with('/').then_some(address));
    match socket {
        Some(socket) => is_path(listen) && is_same_path(listen, socket),
        None => !is_path(listen) && is_same_host(listen, address),
    }
}

fn is_same_path(listen: &str, socket: &str) -> bool {
    let plain = |path: &str| {
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        let path: Vec<&str> = parts.collect();
        // Debian's /var/run is a link to /run.
        match path.strip_prefix(&["var", "run"][..]) {
            Some(rest) => [&["run"], rest].concat(),
            None => path,
        }
        .join("/")
    };
    // nginx permits a colon behind the path, as in front of a URI.
    let (listen, socket) = (plain(listen), plain(socket.trim_end_matches(':')));
    // Debian's alternative, a link to the socket of one of the versions of PHP.
    let is_version = |listen: &str| {
        listen
            .strip_prefix("run/php/php")
            .and_then(|rest| rest.strip_suffix("-fpm.sock"))
            .is_some_and(|version| version.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.')))
    };
    listen == socket || socket == "run/php/php-fpm.sock" && is_version(&listen)
}

fn is_same_host(listen: &str, address: &str) -> bool {
    let (own_host, own_port) = split(listen);
    let (host, port) = split(address);
    // Without a port, nginx connects to port 80.
    let port = if port.is_empty() { "80" } else { port };
    let is_any = |host: &str| matches!(host, "" | "*" | "0.0.0.0" | "::");
    let is_local = |host: &str| host == "localhost" || host == "::1" || host.starts_with("127.");
    own_port == port
        && (own_host.eq_ignore_ascii_case(host)
            || is_any(own_host)
            || is_local(own_host)
                && is_local(host)
                && (own_host == "localhost" || host == "localhost"))
}

/// Returns host and port of an address; a number alone is a port.
fn split(address: &str) -> (&str, &str) {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ if address.bytes().all(|byte| byte.is_ascii_digit()) => ("", address),
        _ => (address, ""),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_web_servers_lead_to_pools() {
        for (listen, address) in [
            ("/run/php/a.sock", "unix:/run/php/a.sock"),
            ("/run/php/a.sock", "unix:/run/php/a.sock:"),
            ("/run/php/a.sock", "/run/php/a.sock"),
            ("/run/php/a.sock", "unix:/run/php/a.sock|fcgi://localhost/"),
            ("/run/php/a.sock", "unix:/var/run/php/a.sock"),
            ("/var/run/a.sock", "unix:/run//a.sock"),
            ("/run/php/php8.2-fpm.sock", "unix:/run/php/php-fpm.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("127.0.0.1:9000", "fcgi://127.0.0.1:9000/"),
            ("127.0.0.1:9000", "localhost:9000"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("9000", "127.0.0.1:9000"),
            ("9000", "php:9000"),
            ("[::]:9000", "[::1]:9000"),
            ("0.0.0.0:9000", "10.0.0.1:9000"),
            ("[::1]:9000", "[::1]:9000"),
        ] {
            assert!(is_same(listen, address), "{listen} {address}");
        }
        for (listen, address) in [
            ("/run/php/a.sock", "unix:/run/php/b.sock"),
            ("/run/php/shop.sock", "unix:/run/php/php-fpm.sock"),
            ("127.0.0.1:9000", "127.0.0.1:9001"),
            ("127.0.0.1:9000", "127.0.0.2:9000"),
            ("127.0.0.1:9000", "[::1]:9000"),
            ("127.0.0.1:9000", "127.0.0.1"),
            ("/run/php/a.sock", "127.0.0.1:9000"),
            ("9000", "unix:/9000"),
        ] {
            assert!(!is_same(listen, address), "{listen} {address}");
        }
    }
}
