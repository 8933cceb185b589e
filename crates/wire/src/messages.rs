//! Messages between router, control process, supervisor, prototypes and workers.
//!
//! Each message is one packet of a `SOCK_SEQPACKET` socket; descriptors are attached in the order
//! that the variant documents. Messages of a prototype use a pipe, which carries no descriptors.
//!
//! - `router`: between router and supervisor.
//! - `control`: between control process, supervisor and router.
//! - `prototype`: between supervisor and prototypes.
//! - `template`: between a prototype and the template of a resident application.
//! - `worker`: from the router to workers.
//! - `mail`: between supervisor and mail process, and between that and a program that submits mail.
//! - `telemetry`: from the supervisor to the telemetry process.
//! - `dashboard`: from the supervisor to the dashboard process.
//! - `handover`: between a server and the program that replaces it.
//! - `zygote`: between supervisor and zygotes.

#[macro_use]
mod field;
#[macro_use]
mod macros;
mod bundles;
mod control;
mod dashboard;
mod exit;
mod former_router;
mod handover;
mod job_order;
mod mail;
mod outcome;
mod prototype;
mod router;
mod secret;
mod spec;
mod telemetry;
mod template;
#[cfg(test)]
mod tests;
mod usage;
mod worker;
mod zygote;

pub use self::bundles::{put_bundles, take_bundles};
pub use self::control::{FromControl, FromRouter, ToControl, ToRouter};
pub use self::dashboard::ToDashboard;
pub use self::exit::Exit;
pub use self::field::Field;
pub use self::former_router::ToFormerRouter;
pub use self::handover::{FromSuccessor, HANDOVER_PROTOCOL, ToSuccessor};
pub use self::job_order::JobOrder;
pub use self::mail::{
    FromMail, FromSendmail, MailRoute, MailTls, MailUsage, ToMail, ToSendmail, put_mail_usage,
    take_mail_usage,
};
pub use self::outcome::{ChangeOutcome, Restart};
pub use self::prototype::{FromPrototype, Stack, ToPrototype};
pub use self::router::{FromSupervisor, HAND_OVER_TIMEOUT, RUN_INTERVAL, ToSupervisor};
pub use self::secret::Secret;
pub use self::spec::{
    ApplicationSpec, IdRange, Isolation, Problem, ProblemKind, ProcessUser, ResourceLimits,
    SERVER_GROUP, Sandbox, WorkerScript,
};
pub use self::telemetry::{MetricsRoute, OtlpServer, TelemetryRoute, ToTelemetry};
pub use self::template::{FromTemplate, ToTemplate};
pub use self::usage::{MAX_SITE_NAME, SiteUsed, Usage};
pub use self::worker::ToWorker;
pub use self::zygote::{FromZygote, ToZygote};

/// Maximum length of a message, in bytes. Longer contents (documents) travel as descriptors.
pub const MAX_MESSAGE: usize = howdah_sys::packet::MAX_PACKET;

/// Maximum length of a prototype's message, in bytes: its contents fit a message to the router.
pub const MAX_REPORT: usize = MAX_MESSAGE - 1024;

/// Maximum number of descriptors attached to one message.
pub const MAX_DESCRIPTORS: usize = 80;
