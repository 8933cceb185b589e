//! The supervisor's first message to the router.

use std::io;
use std::os::fd::OwnedFd;

use howdah_config::Defaults;
use howdah_sys::packets::from_memory;
use howdah_tls::stored::Certificates;
use howdah_wire::messages::{FromSupervisor, Secret};

use super::certificates;
use super::link::Link;

/// The supervisor's first message.
pub(super) struct Hello {
    /// Name of the document's file or store, for messages.
    pub(super) origin: String,
    /// Number of the document.
    pub(super) generation: u32,
    /// Directory for temporary files.
    pub(super) tmp: String,
    /// Versions of PHP and their programs.
    pub(super) php: Vec<(String, String)>,
    /// A control socket exists.
    pub(super) has_control: bool,
    /// An earlier router of this server has served.
    pub(super) has_served: bool,
    /// Applications without which the router must not serve.
    pub(super) required: Vec<String>,
    /// No certificate may be ordered until the supervisor permits it.
    pub(super) holds_renewals: bool,
    /// The first document is refused if a part of it cannot run.
    pub(super) strict: bool,
    /// The router must restrict itself.
    pub(super) sandbox: bool,
    /// The error log.
    pub(super) log: OwnedFd,
    pub(super) document: Vec<u8>,
    pub(super) defaults: Defaults,
    pub(super) certificates: Certificates,
    /// Name of the abstract socket of the dashboard process.
    pub(super) dashboard: String,
    /// Secret of HTTP/3.
    pub(super) http3_secret: Secret,
    /// The socket to the former router.
    pub(super) former: Option<OwnedFd>,
    /// The sockets of the telemetry process.
    pub(super) spans: Option<OwnedFd>,
    pub(super) metrics: Option<OwnedFd>,
    /// Memory with the number of lost spans.
    pub(super) lost_spans: Option<OwnedFd>,
}

impl Hello {
    /// Waits for the message.
    pub(super) async fn receive(link: &Link) -> io::Result<Self> {
        let (message, descriptors) =
            link.receive().await?.ok_or_else(|| io::Error::other("the supervisor has ended"))?;
        let mut descriptors = descriptors.into_iter();
        let (
            FromSupervisor::Hello {
                php,
                origin,
                generation,
                tmp,
                has_control,
                unit_defaults,
                sandbox,
                strict,
                has_served,
                required,
                holds_renewals,
                dashboard,
                http3_secret,
                has_former,
            },
            Some(log),
            document,
        ) = (message, descriptors.next(), descriptors.next())
        else {
            return Err(io::Error::other(
                "the supervisor's first message is not Hello; are all processes of the same \
                 version?",
            ));
        };
        Ok(Hello {
            origin,
            generation,
            tmp,
            php,
            has_control,
            has_served,
            required,
            holds_renewals,
            dashboard,
            http3_secret,
            sandbox,
            strict,
            log,
            document: from_memory(document, u64::MAX)?,
            certificates: certificates::read(descriptors.next())?,
            former: if has_former { descriptors.next() } else { None },
            spans: descriptors.next(),
            metrics: descriptors.next(),
            lost_spans: descriptors.next(),
            defaults: Defaults::of(unit_defaults),
        })
    }
}
