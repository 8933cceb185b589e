//! The document with the sites, and the server that serves it.

use std::fs;
use std::path::{Path, PathBuf};

use howdah_config::include::{
    Expanded, IncludedFiles, SiteFiles, compile_sent, has_sites, site_files,
};
use howdah_config::{Config, json};
use howdah_questions::{PartStatus, Status};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::args::Server;
use crate::args::sites::name as check_name;
use crate::client::Client;
use crate::failure::Failure;
use crate::find::connect;
use crate::output::one_line;

/// The name of a document that is not in a file.
const SENT: &str = "the configuration of the control API";

/// The document of the service of the packages.
const DEFAULT: &str = "/etc/howdah/howdah.json";

/// The document with the sites.
pub(super) struct Document {
    /// Its file; absolute. [`SENT`] for a document of the control API.
    pub(super) file: PathBuf,
    /// It was sent to the control API.
    pub(super) is_sent: bool,
    /// Its text.
    pub(super) text: Vec<u8>,
    /// Its sites.
    pub(super) sites: SiteFiles,
    /// The disk, and the compiler of sites.
    pub(super) files: Box<dyn IncludedFiles>,
    /// The server that serves it, if one runs.
    pub(super) server: Option<Running>,
}

/// The server that serves a document.
pub(super) struct Running {
    pub(super) client: Client,
    pub(super) status: Status,
}

impl Document {
    /// Finds the document: the given one, that of the running server, or that of the packages. `files`
    /// reads the sites.
    pub(super) fn open(
        server: &Server,
        given: Option<&Path>,
        files: Box<dyn IncludedFiles>,
    ) -> Result<Document, Failure> {
        let mut running = match connect(server) {
            Ok(client) => status_of(client, given.is_some())?,
            // An address that was given must lead to a server.
            Err(Failure::Unreachable(_)) if server.control.is_none() => None,
            Err(failure) => return Err(failure),
        };
        let served = running.as_ref().and_then(|running| running.status.files.as_ref());
        let served = served.map(|files| files.document.clone().unwrap_or_default());
        let absolute = |path: &Path| std::path::absolute(path).map_err(failed);
        let file = match (given, served) {
            (Some(given), served) => {
                let given = absolute(given)?;
                let same = |path: &Path| fs::canonicalize(path).ok();
                if served.is_none_or(|served| same(Path::new(&served)) != same(&given)) {
                    running = None;
                }
                given
            }
            (None, Some(served)) if Path::new(&served).is_file() => PathBuf::from(served),
            (None, Some(served)) => {
                if let Some(document) = Document::sent(running, files)? {
                    return Ok(document);
                }
                let what = match served.as_str() {
                    "" => "a configuration of the control API".to_owned(),
                    directory => format!("the directory {directory}"),
                };
                return Err(Failure::Failed(format!(
                    "the running server serves {what}, which has no sites; start it with \
                     --config {DEFAULT}, name the document with --config, or send a site to the \
                     control API: howdah config set sites/NAME @FILE"
                )));
            }
            (None, None) => PathBuf::from(DEFAULT),
        };
        let text = fs::read(&file).map_err(|error| {
            let advice = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "there is no such file; name the document of the server with --config".into()
                }
                std::io::ErrorKind::PermissionDenied => {
                    "it may not be read by this user; run the command as root: sudo howdah site"
                        .into()
                }
                _ => error.to_string(),
            };
            Failure::Failed(format!("{}: {advice}", file.display()))
        })?;
        let sites = site_files(&text, &file, &*files).map_err(Failure::Failed)?;
        Ok(Document { file, is_sent: false, text, sites, files, server: running })
    }

    /// Returns the document that was sent to the control API; `None` if it has no sites.
    fn sent(
        server: Option<Running>,
        files: Box<dyn IncludedFiles>,
    ) -> Result<Option<Document>, Failure> {
        let Some(Running { client, .. }) = &server else { return Ok(None) };
        let document = client.request("GET", "/config", b"")?;
        if !has_sites(&document) {
            return Ok(None);
        }
        let (file, text) = (PathBuf::from(SENT), document.to_string().into_bytes());
        let sites = site_files(&text, &file, &*files).map_err(Failure::Failed)?;
        Ok(Some(Document { file, is_sent: true, text, sites, files, server }))
    }

    /// Returns a site that the document itself has.
    pub(super) fn named(&self, name: &str) -> Option<Value> {
        let mut document = json::parse(&self.text).ok()?;
        Some(document.get_mut("sites")?.get_mut(name)?.take())
    }

    /// Returns what a site of the document itself becomes. Error: its mistakes, as lines.
    pub(super) fn expand_named(&self, name: &str, site: &Value) -> Result<Expanded, String> {
        let document = json!({"sites": {name: site}, "defaults": self.sites.defaults});
        let expanded = compile_sent(&document, None, &*self.files, 0)?;
        match Config::from_value(expanded.document.clone()) {
            Ok(_) => Ok(expanded),
            Err(error) => Err(expanded.explain(&error)),
        }
    }

    /// Returns the file of a site. The error says what to type.
    pub(super) fn file_of(&self, name: &str) -> Result<&Path, Failure> {
        let file = self.sites.files.iter().find(|file| name_of(file) == name);
        if let Some(file) = file {
            return Ok(file);
        }
        if self.is_sent && self.sites.named.iter().any(|named| named == name) {
            return Err(Failure::Failed(format!(
                "the site {name} was sent to the control API, and has no file; change it there: \
                 howdah config edit sites/{name} (config set, config delete)"
            )));
        }
        if self.sites.named.iter().any(|named| named == name) {
            return Err(Failure::Failed(format!(
                "the site {name} is in {} itself, and not in a file of its own; change it there",
                self.file.display()
            )));
        }
        let by_host = self.sites.files.iter().find(|file| {
            let site = self.read(file);
            hosts(&site).iter().any(|host| host.eq_ignore_ascii_case(name))
        });
        let advice = match by_host.map(|file| name_of(file)) {
            Some(other) => format!("the site with this host is called {other}"),
            None => "howdah site list shows all, howdah site add makes one".to_owned(),
        };
        let name = one_line(name);
        Err(Failure::Failed(format!("there is no site \"{name}\"; {advice}")))
    }

    /// Returns the content of the file of a site; null if it cannot be read.
    pub(super) fn read(&self, file: &Path) -> Value {
        let text = self.files.read_site(file).unwrap_or_default();
        json::parse(&text).unwrap_or_default()
    }

    /// Returns the directory for new sites. Error: the document names none.
    pub(super) fn directory(&self) -> Result<&Path, Failure> {
        self.sites.directory.as_deref().ok_or_else(|| {
            if self.is_sent {
                return Failure::Failed(
                    "the sites of this server are sent to the control API, and have no files; add \
                     one there: howdah config set sites/NAME @FILE (or '{\"hosts\": ..., \"root\": \
                     ...}')"
                        .to_owned(),
                );
            }
            Failure::Failed(format!(
                "{}: the document has no directory for sites; write \"sites\": \"sites/*.json\" \
                 into it (and give its routes names: hosts that no site has get \
                 \"routes\": {{\"default\": [...]}})",
                self.file.display()
            ))
        })
    }

    /// Returns the file for a new site.
    pub(super) fn new_file(&self, name: &str) -> Result<PathBuf, Failure> {
        check_name(name)
            .map_err(|why| Failure::Failed(format!("\"{}\": {why}", one_line(name))))?;
        let directory = self.directory()?;
        let existing = directory.ancestors().find(|above| above.exists());
        let is_denied = existing.is_some_and(|above| {
            accessat(CWD, above, Access::WRITE_OK, AtFlags::EACCESS) == Err(Errno::ACCESS)
        });
        if is_denied {
            return Err(Failure::Failed(format!(
                "{}: this user may not write there; run the command as root: sudo howdah site",
                directory.display()
            )));
        }
        Ok(directory.join(format!("{name}.json")))
    }

    /// Lets the server read the document again. `None` if no server runs. Returns what the status
    /// says about a file of a site, if it cannot be used.
    pub(super) fn reload(&self, site: &Path) -> Result<Option<Reloaded>, Failure> {
        let Some(Running { client, .. }) = &self.server else { return Ok(None) };
        let answer = client.request("POST", "/control/reload", b"")?;
        let status: Status = client.read(answer)?;
        let problem = problem_of(&status, site);
        let application = part_of(&status, site, true);
        Ok(Some(Reloaded { problem, application }))
    }
}

/// The outcome of a reload.
pub(super) struct Reloaded {
    /// Reason why the file of the site is out.
    pub(super) problem: Option<String>,
    /// Reason why the application of the site is out.
    pub(super) application: Option<String>,
}

/// Returns the reason why the file of a site is out.
pub(super) fn problem_of(status: &Status, site: &Path) -> Option<String> {
    part_of(status, site, false)
}

/// Returns the reason why the application of the site in a file is out, or the file itself.
fn part_of(status: &Status, site: &Path, is_application: bool) -> Option<String> {
    let site = site.to_string_lossy();
    let mut all = status.out.iter();
    let is_it = |part: &&PartStatus| {
        (part.kind == "application") == is_application
            && part.file.as_deref().unwrap_or(&part.name) == site
    };
    all.find(is_it).map(|part| one_line(&part.reason))
}

/// Returns the name of the site of a file.
pub(super) fn name_of(file: &Path) -> &str {
    file.file_stem().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the hosts that a site names.
pub(super) fn hosts(site: &Value) -> Vec<&str> {
    match site.get("hosts") {
        Some(Value::Array(hosts)) => hosts.iter().filter_map(Value::as_str).collect(),
        one => one.and_then(Value::as_str).into_iter().collect(),
    }
}

/// Asks for the status. A server that does not answer counts as none if it `may_be_another`.
fn status_of(client: Client, may_be_another: bool) -> Result<Option<Running>, Failure> {
    let asked = client.request("GET", "/status", b"").and_then(|answer| client.read(answer));
    match asked {
        Ok(status) => Ok(Some(Running { client, status })),
        Err(Failure::Unreachable(_)) => Ok(None),
        Err(_) if may_be_another => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn failed(error: std::io::Error) -> Failure {
    Failure::Failed(error.to_string())
}
