//! The sandbox of the control, mail and telemetry processes. The router has its own, which depends on
//! the configuration.

use super::landlock::{Access, Domain, Grant};
use super::router_calls::ROUTER;

/// Files that a process opens to connect to servers: for their names and their certificates.
pub const FILES_OF_CLIENTS: &[&str] = &[
    // Names of servers.
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    // The system's authorities.
    "/etc/ssl/certs",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/usr/share/ca-certificates",
    "/var/lib/ca-certificates",
    // Names of functions in a report of a panic.
    "/proc/self/exe",
];

/// Gives up access to all files but these, and all system calls but those of the router. Must be
/// called before there is a second thread. Restrictions that the kernel lacks are logged by the
/// router.
pub fn enter(files: &[&str]) {
    let files = files.iter().filter_map(|path| Grant::open(path, Access::Open).ok());
    let domain = Domain {
        files: Some(files.collect()),
        no_device_ioctl: true,
        no_bind_tcp: true,
        no_abstract_sockets: true,
    };
    let _ = domain.enter();
    let _ = ROUTER.install();
}
