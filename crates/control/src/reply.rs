//! Responses: the only place where an outcome becomes a status and a text. They are Unit's where
//! Unit has the outcome.

use howdah_config::{Error, split_path};
use howdah_questions::ProfileOrder;
use serde_json::{Value, json};

use crate::path::Path;
use crate::print::{print, print_part};
use crate::refusal::Refusal;

/// The response to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    status: u16,
    allow: Option<&'static str>,
    authenticate: Option<&'static str>,
    retry_after: Option<&'static str>,
    body: Content,
}

/// The body of a response.
#[derive(Debug, Clone, PartialEq)]
enum Content {
    Value(Value),
    /// Text that is printed already.
    Printed(String),
}

/// Time in seconds after which a change is tried again during an upgrade: most take about as long.
const UPGRADE_RETRY_SECONDS: &str = "5";

/// A successful change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// A certificate bundle is deleted.
    CertificateDeleted,
    /// A certificate bundle is stored.
    CertificateStored,
    /// The new configuration runs and is stored.
    Reconfigured,
    /// The configuration is read again and all applications are restarted.
    Reloaded,
    /// Stored responses are purged.
    Purged,
    /// An order to a job is carried out.
    Ordered,
    /// An application is restarted.
    Restarted,
    /// Another process of the program serves.
    Upgraded,
}

impl Reply {
    /// Responds with a value.
    pub fn value(value: Value) -> Reply {
        Reply::new(200, value)
    }

    /// Responds with a part of a JSON text, such as an answer of the router; `None` if the text has
    /// no such part. No tree of its values is made.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or is longer than 32 MiB when it is printed.
    pub fn part(text: &[u8], part: &Path) -> Result<Option<Reply>, serde_json::Error> {
        let printed = print_part(text, part)?;
        Ok(printed.map(|text| Reply { body: Content::Printed(text), ..Reply::value(Value::Null) }))
    }

    /// Returns the HTTP status code.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the value of the `Allow` field; only for 405 (RFC 9110, 15.5.6).
    pub fn allow(&self) -> Option<&'static str> {
        self.allow
    }

    /// Returns the value of the `WWW-Authenticate` field; only for 401 (RFC 9110, 15.5.2).
    pub fn authenticate(&self) -> Option<&'static str> {
        self.authenticate
    }

    /// Returns the value of the `Retry-After` field in seconds; only for 503 (RFC 9110, 10.2.3).
    pub fn retry_after(&self) -> Option<&'static str> {
        self.retry_after
    }

    /// Returns the body as a value; null if it is a part of a text.
    pub fn body(&self) -> &Value {
        match &self.body {
            Content::Value(value) => value,
            Content::Printed(_) => &Value::Null,
        }
    }

    /// Returns the body as text, of type `application/json`.
    pub fn into_text(self) -> String {
        match self.body {
            Content::Value(value) => print(&value),
            Content::Printed(text) => text,
        }
    }

    /// Adds a note about a change that was made.
    pub fn noting(self, note: impl Into<String>) -> Reply {
        self.with("note", Value::String(note.into()))
    }

    /// Adds the new process after an upgrade.
    pub fn upgraded_to(self, pid: u32, version: &str) -> Reply {
        self.with("pid", json!(pid)).with("version", json!(version))
    }

    fn error(status: u16, title: &str) -> Reply {
        Reply::new(status, json!({ "error": title }))
    }

    fn new(status: u16, body: Value) -> Reply {
        Reply {
            status,
            allow: None,
            authenticate: None,
            retry_after: None,
            body: Content::Value(body),
        }
    }

    fn with(mut self, name: &str, value: Value) -> Reply {
        if let Content::Value(Value::Object(members)) = &mut self.body {
            members.insert(name.to_owned(), value);
        }
        self
    }

    fn detail(self, detail: impl Into<String>) -> Reply {
        self.with("detail", Value::String(detail.into()))
    }

    fn allowing(mut self, methods: &'static str) -> Reply {
        self.allow = Some(methods);
        self
    }
}

impl From<Done> for Reply {
    fn from(done: Done) -> Reply {
        Reply::value(json!({
            "success": match done {
                Done::CertificateDeleted => "Certificate deleted.",
                Done::CertificateStored => "Certificate chain uploaded.",
                Done::Reconfigured => "Reconfiguration done.",
                Done::Reloaded => "Reload done.",
                Done::Purged => "Cache purged.",
                Done::Restarted | Done::Ordered => "Ok",
                Done::Upgraded => "Upgrade done.",
            }
        }))
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Reply {
        let error = Reply::error;
        match refusal {
            Refusal::BodyTooLarge | Refusal::Unreadable { status: 413 } => {
                error(413, "Request body is too large.").detail("a document has at most 16 MiB")
            }
            Refusal::CertificateExists => error(400, "Certificate already exists."),
            Refusal::CertificateInUse => error(400, "Certificate is used in the configuration."),
            Refusal::DocumentTooLarge { detail } => {
                error(400, "Invalid configuration.").detail(detail)
            }
            Refusal::ForAdministrators => error(403, "Only for administrators.").detail(
                "this socket answers the user of a site: the status, the last requests, the pools \
                 and profiles of that site; ask as the user who has started the server (with sudo)",
            ),
            Refusal::ForeignHost => error(403, "Request for another host.").detail(
                "over TCP, this API answers only to localhost and loopback addresses in \"Host\"",
            ),
            Refusal::FromBrowser { field } => error(403, "Request of a browser.").detail(format!(
                "the request has a field \"{field}\"; over TCP, this API does not answer browsers"
            )),
            Refusal::MadeFromSite { part, from } => error(400, "Part of a site.")
                .detail(format!("{part} is made from {from}; change /config{from}")),
            Refusal::InvalidSites { mistakes } => {
                let reply = error(400, "Invalid configuration.").detail(&*mistakes);
                match mistakes.split_once(": ").filter(|(path, _)| path.starts_with('/')) {
                    Some((path, _)) => reply.with("location", json!({"path": pointer(path)})),
                    None => reply,
                }
            }
            Refusal::Included { parts } => {
                let shown = parts.iter().take(MAX_PARTS);
                let mut list: Vec<_> =
                    shown.map(|(part, file)| format!("{part} comes from {file}")).collect();
                let more = parts.len().saturating_sub(MAX_PARTS);
                list.extend((more > 0).then(|| format!("and {more} others from files")));
                let files = if parts.len() == 1 { "that file" } else { "these files" };
                error(400, "Part of a file.")
                    .detail(format!("{}; change {files}, and run `howdah reload`", list.join(", ")))
            }
            Refusal::InvalidCertificate { detail } => {
                error(400, "Invalid certificate.").detail(detail)
            }
            Refusal::InvalidCertificateName => error(400, "Invalid certificate name."),
            Refusal::InvalidConfiguration(problem) => {
                let mistakes = problem.lines(ToString::to_string);
                located(error(400, "Invalid configuration.").detail(mistakes), &problem)
            }
            Refusal::InvalidSource { problem, mistakes } => {
                located(error(400, "Invalid configuration.").detail(mistakes), &problem)
            }
            Refusal::InvalidJson(problem) => {
                located(error(400, "Invalid JSON.").detail(problem.message()), &problem)
            }
            Refusal::InvalidPurge { detail } => error(400, "Invalid purge.").detail(detail),
            Refusal::InvalidQuery { detail } => error(400, "Invalid query.").detail(detail),
            Refusal::InvalidReload => error(400, "Invalid reload.").detail(
                "the body must be empty, or {\"restart\": true} to restart all \
                         applications",
            ),
            Refusal::InvalidProfile => error(400, "Invalid profile.").detail(format!(
                "the body must be empty, or an object with \"seconds\" (1 to {}), \"url\" (a path) \
                 and \"clock\" (\"wall\" or \"processor\")",
                ProfileOrder::MAX_SECONDS
            )),
            Refusal::InvalidMethod { allow } => error(405, "Invalid method.").allowing(allow),
            Refusal::InvalidPath => error(400, "Invalid path."),
            Refusal::MethodNotAllowed { allow } => {
                error(405, "Method isn't allowed.").allowing(allow)
            }
            Refusal::NoSuchApplication { name } => error(404, "Value doesn't exist.")
                .detail(format!("the configuration has no application \"{name}\"")),
            Refusal::NoSuchCache { name } => {
                error(404, "Value doesn't exist.").detail(match name {
                    Some(name) => format!("the configuration has no cache \"{name}\""),
                    None => "the configuration has no \"cache\"".to_owned(),
                })
            }
            Refusal::NoSuchJob { application, job } => error(404, "Value doesn't exist.")
                .detail(format!("the application \"{application}\" has no job \"{job}\"")),
            Refusal::NotOrdered { detail } => error(409, "The job cannot do that.").detail(detail),
            Refusal::NoSuchCertificate => error(404, "Certificate doesn't exist."),
            Refusal::NoOwnSite => error(403, "No site of this user.").detail(
                "no application of the configuration has the user who asks as its \"user\"",
            ),
            Refusal::NoSuchOwnSite { name } => error(404, "Value doesn't exist.").detail(format!(
                "no site \"{name}\" has the user who asks as its \"user\"; administrators see all \
                 sites (with sudo)"
            )),
            Refusal::NoSuchPath => error(404, "Invalid path."),
            Refusal::NoSuchValue => error(404, "Value doesn't exist."),
            Refusal::NotAnArray => error(405, "Method isn't allowed.")
                .detail("only an array can be appended to")
                .allowing("GET, PUT, DELETE"),
            Refusal::TooMuchAtOnce { detail } => error(429, "Too much at once.").detail(detail),
            Refusal::Unauthorized => Reply {
                authenticate: Some("Bearer"),
                ..error(401, "Token required.").detail(
                    "the request needs a field \"Authorization: Bearer TOKEN\" with the token \
                     that is in the server's file (--control-token-file)",
                )
            },
            Refusal::Unreadable { status } => error(
                status,
                match status {
                    400 => "Request is malformed or not complete.",
                    408 => "Request did not arrive in time.",
                    414 | 431 => "Request head is too long.",
                    _ => "Request cannot be served.",
                },
            ),
            Refusal::CertificateNotDeleted { detail } => {
                error(500, "Failed to delete certificate.").detail(detail)
            }
            Refusal::CertificateNotStored { detail } => {
                error(500, "Failed to store certificate.").detail(detail)
            }
            Refusal::NotApplied { detail } => {
                error(500, "Failed to apply new configuration.").detail(detail)
            }
            Refusal::NotRead { detail } => {
                error(500, "Failed to read configuration.").detail(detail)
            }
            Refusal::NotRestarted { detail } => error(500, "Failed to restart app.").detail(detail),
            Refusal::NotStored { detail } => {
                error(500, "Failed to store new configuration.").detail(detail)
            }
            Refusal::NotUpgraded { detail } => error(500, "Failed to upgrade.").detail(detail),
            Refusal::Upgrading => Reply {
                retry_after: Some(UPGRADE_RETRY_SECONDS),
                ..error(503, "Upgrade in progress.").detail(
                    "the server is being replaced by a new start of its program; try again in some \
                     seconds",
                )
            },
            Refusal::NoAnswer { detail } => Reply {
                retry_after: Some(UPGRADE_RETRY_SECONDS),
                ..error(503, "Server doesn't answer.").detail(detail)
            },
            Refusal::StatusUnavailable => error(500, "Failed to get status."),
        }
    }
}

/// Returns the JSON pointer (RFC 6901) of a path as errors show it.
fn pointer(path: &str) -> String {
    let steps = split_path(path).into_iter();
    steps.map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Adds the place of the problem: in the text, or in the document with the key that was meant, as
/// FreeUnit does.
fn located(reply: Reply, problem: &Error) -> Reply {
    let place = match (problem.position(), problem.pointer()) {
        (Some(at), _) => json!({ "offset": at.offset, "line": at.line, "column": at.column }),
        (None, Some(pointer)) => json!({ "path": pointer }),
        (None, None) => return reply,
    };
    let reply = reply.with("location", place);
    match problem.suggestion() {
        Some(key) => reply.with("suggestion", json!(key)),
        None => reply,
    }
}

/// Maximum number of parts of files that an error names.
const MAX_PARTS: usize = 5;
