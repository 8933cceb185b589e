//! A pool: where it listens, and the application that takes its place.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::files::Section;
use super::settings::Settings;
use crate::{Error, Id, Report, Source, Status};

mod access_log;
mod address;
mod evaluation;
mod ini;
mod paths;
mod php;
mod processes;

use evaluation::Evaluation;
use php::Php;

/// Endings of scripts that PHP-FPM runs if the pool does not name others.
const DEFAULT_EXTENSIONS: [&str; 2] = [".php", ".phar"];

/// What is in front of the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Front {
    /// A web server whose configuration is imported, too: its requests need no socket any more.
    Imported,
    /// Nothing that is imported.
    Unknown,
}

/// A pool of PHP-FPM.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The name of the section.
    pub name: String,
    /// The file in which the section begins.
    pub file: PathBuf,
    /// The line on which the section begins, from 1.
    pub line: u32,
    /// The address, with a whole path if it is a unix socket.
    pub listen: String,
    application: Map<String, Value>,
    extensions: Option<Vec<String>>,
    pages: Vec<Page>,
    /// Addresses of the web servers that may connect; all if `None`.
    clients: Option<Vec<String>>,
    directory: Option<String>,
    ids: Vec<Id>,
}

/// A path for which PHP-FPM runs no script.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    path: String,
    kind: PageKind,
    id: Id,
}

#[derive(Debug, Clone, PartialEq)]
enum PageKind {
    /// `pm.status_path`
    Status,
    /// `ping.path`, with `ping.response`
    Ping(Option<String>),
    /// `access.suppress_path[]`, a script whose requests are not logged.
    NotLogged,
}

impl Pool {
    /// Evaluates the directives of a section, and reports each of them.
    pub(super) fn new(
        section: &Section,
        global: &Settings,
        front: Front,
        source: &Source,
        report: &mut Report,
    ) -> Result<Self, Error> {
        let name = &section.name;
        let missing = |what: &str| {
            let message = format!("the pool \"{name}\" has no {what}, so PHP-FPM does not start");
            Err(Error::at(&section.file, section.line, message))
        };
        let settings = Settings::of_pool(name, &section.directives, report);
        let Some(listen) = settings.text("listen") else {
            return missing("\"listen\"");
        };
        if settings.get("pm").is_none() && settings.get("pm.max_children").is_none() {
            return missing("\"pm\" and no \"pm.max_children\"");
        }
        let listen = if address::is_path(listen) {
            paths::whole(listen, &settings).into_owned()
        } else {
            listen.to_owned()
        };
        let mut evaluation = Evaluation::new(name, &settings, global, front, report);
        evaluation.run(&Php::of(&section.file, &listen, source), &listen);
        let Evaluation { application, extensions, pages, clients, .. } = evaluation;
        Ok(Self {
            name: name.clone(),
            file: section.file.clone(),
            line: section.line,
            listen,
            application,
            extensions,
            pages,
            clients,
            directory: settings.text("chdir").map(str::to_owned),
            ids: section.directives.iter().map(|directive| directive.id).collect(),
        })
    }

    /// Returns true if the pool listens at an address, as `fastcgi_pass` of nginx and
    /// `SetHandler proxy:` of Apache have it: `unix:/run/php/a.sock`, `127.0.0.1:9000`,
    /// `[::1]:9000`, `localhost:9000`, `unix:/run/php/a.sock|fcgi://localhost`.
    pub fn is_at(&self, address: &str) -> bool {
        address::is_same(&self.listen, address)
    }

    /// Returns the members of an application of type `php`: user, group, processes, limits,
    /// options, environment and others, without the pool's access log behind a web server, without `root`, `script` and `targets`. It has an `index`
    /// only if `.php` is not among the endings of scripts.
    pub fn application(&self) -> Map<String, Value> {
        self.application.clone()
    }

    /// Returns the endings of the names of scripts: those of `security.limit_extensions`, or those
    /// that PHP-FPM has without it. The application has the key only if the directive is set.
    pub fn limit_extensions(&self) -> Vec<String> {
        match &self.extensions {
            Some(extensions) => extensions.clone(),
            None => DEFAULT_EXTENSIONS.map(str::to_owned).to_vec(),
        }
    }

    /// Returns the `chdir` of the pool, which may be the directory of the site. Inside `chroot` if
    /// there is one.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref().map(Path::new)
    }

    /// Returns steps for the paths that PHP-FPM answers without a script (`pm.status_path` and
    /// `ping.path`), where requests are passed to the pool. `target` is the application:
    /// `"applications/NAME"`.
    pub fn pages(&self, target: &str) -> Vec<Value> {
        let step = |page: &Page| {
            let action = match &page.kind {
                PageKind::Status => json!({ "status": target }),
                PageKind::Ping(None) => json!({ "ping": target }),
                PageKind::Ping(Some(text)) => json!({ "ping": target, "response": text }),
                PageKind::NotLogged => return None,
            };
            Some(json!({ "match": { "uri": page.path }, "action": action }))
        };
        self.pages.iter().filter_map(step).collect()
    }

    /// Returns the paths of scripts whose requests are not in the pool's access log.
    pub fn paths_without_log(&self) -> Vec<&str> {
        let paths = self.pages.iter().filter(|page| page.kind == PageKind::NotLogged);
        paths.map(|page| page.path.as_str()).collect()
    }

    /// Returns the addresses of clients that may connect to the socket; `None` for all.
    pub(super) fn clients(&self) -> Option<&[String]> {
        self.clients.as_deref()
    }

    /// Reports that the document has the steps of [`Pool::pages`].
    pub fn report_pages(&self, report: &mut Report) {
        for page in &self.pages {
            if page.kind != PageKind::NotLogged {
                report.replace(page.id, Status::Converted, "");
            }
        }
    }

    /// Reports that no request is passed to the pool, so that the document does not have it.
    pub fn report_unused(&self, report: &mut Report) {
        for id in &self.ids {
            if report.entry(*id).status() != Status::NotConverted {
                let reason = "no request is passed to this pool, so the document does not have it";
                report.replace(*id, Status::NotNeeded, reason);
            }
        }
    }
}
