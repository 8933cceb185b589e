//! Starts the router's process.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use howdah_sys::log::Log;
use howdah_sys::packet;
use howdah_wire::messages::{FromSupervisor, Secret};

use crate::certificates::Certificates;
use crate::changes::Current;
use crate::memory::memory_file;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::unprivileged::{self, Kind};

/// A running router.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) pid: u32,
    pub(crate) socket: OwnedFd,
    pub(crate) started: Instant,
    /// Names of the certificate bundles that the router has.
    pub(crate) certificates: BTreeSet<String>,
    /// Messages that wait until the socket has room.
    pub(crate) outbox: RefCell<Outbox>,
    /// The router has reported that it serves.
    pub(crate) serves: bool,
}

#[cfg(any(test, feature = "model"))]
impl Router {
    /// Creates a router that is played by a test.
    pub(crate) fn model(pid: u32, socket: OwnedFd) -> Router {
        let (certificates, outbox) = (BTreeSet::new(), RefCell::default());
        Router { pid, socket, started: Instant::now(), certificates, outbox, serves: false }
    }
}

/// Stage of the server. It decides about a configuration that cannot be run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stage {
    /// There is a control API: the administrator can correct the configuration, so the server
    /// continues.
    pub(crate) can_be_corrected: bool,
    /// A router has served before, so another one is started.
    pub(crate) has_served: bool,
}

/// Limits of a router during an upgrade.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Applications without which the router must not serve.
    pub(crate) required: Vec<String>,
    /// The router must not order certificates yet.
    pub(crate) holds_renewals: bool,
}

/// Resources that a router begins with.
pub(crate) struct Resources<'a> {
    pub(crate) options: &'a Options,
    pub(crate) current: &'a Current,
    pub(crate) certificates: &'a Certificates,
    /// The secret of HTTP/3 in hexadecimal.
    pub(crate) http3_secret: &'a str,
    /// Name of the socket of the dashboard process.
    pub(crate) dashboard: &'a str,
    /// The socket to the former router.
    pub(crate) former_router: Option<BorrowedFd<'a>>,
    /// The sockets that take spans and metrics, and the memory with the number of lost spans.
    pub(crate) telemetry: Option<[BorrowedFd<'a>; 3]>,
    pub(crate) log: &'a Log,
}

/// Starts the router. Sends it the current configuration and the certificate bundles that it names.
pub(crate) fn start(
    resources: &Resources<'_>,
    stage: Stage,
    limits: Limits,
    now: Instant,
) -> io::Result<Router> {
    let Resources { options, current, certificates, telemetry, dashboard, log, .. } = *resources;
    let Resources { http3_secret, former_router, .. } = *resources;
    let (pid, socket) = unprivileged::start(Kind::Router, options, log)?;
    let hello = FromSupervisor::Hello {
        php: options
            .php
            .iter()
            .map(|program| (program.version.clone(), program.path.display().to_string()))
            .collect(),
        origin: options.origin.clone(),
        generation: current.generation,
        tmp: options.tmp.display().to_string(),
        has_control: stage.can_be_corrected,
        unit_defaults: options.unit_defaults,
        sandbox: options.sandbox,
        strict: options.strict,
        has_served: stage.has_served,
        required: limits.required,
        holds_renewals: limits.holds_renewals,
        dashboard: dashboard.to_owned(),
        http3_secret: Secret::new(http3_secret.to_owned()),
        has_former: former_router.is_some(),
    };
    let document = memory_file("document", &current.document)?;
    let granted = |name: &str| current.grants.has_certificate(name);
    let bundles = memory_file("certificates", &certificates.encode(granted))?;
    let log = log.handle()?;
    let descriptors = [log.as_fd(), document.as_fd(), bundles.as_fd()];
    let others = former_router.into_iter().chain(telemetry.into_iter().flatten());
    let descriptors: Vec<_> = descriptors.into_iter().chain(others).collect();
    packet::send(&socket, &hello.encode(), &descriptors)?;
    let certificates = certificates.names().filter(|name| granted(name)).map(str::to_owned);
    let (certificates, outbox) = (certificates.collect(), RefCell::default());
    Ok(Router { pid, socket, started: now, certificates, outbox, serves: false })
}
