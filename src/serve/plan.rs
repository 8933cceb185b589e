//! The configuration to serve, from the command line.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use howdah_advice::detect;
use howdah_config::{Address, Config, Defaults, include};
use howdah_sites::sandbox::{self, ProjectMarks};
use howdah_supervisor::{
    self as supervisor, CompileDocument, Predecessor, ReloadDocument, TableFiles, state_format,
};
use howdah_sys::plain::Plain;
use howdah_sys::{credentials, environment};
use serde_json::Value;

use super::local_tls::LocalCertificate;
use super::variables::Variables;
use super::{cache, https, last_good, mail_page, mail_to, named_sites, reload, watch};
use super::{php_options, php_version};
use crate::cli::{CommonOptions, Serve};
use crate::config_file::{self, Disk, Hanging};
use crate::{directories, server_user};

/// The document to serve, and lines to print at the start.
pub(super) struct StartupPlan {
    /// The text of the document.
    pub document: Vec<u8>,
    /// The source of the document, for messages.
    pub origin: String,
    /// Lines about the site.
    pub explanation: Vec<String>,
    /// The directories of the command line.
    pub directories: Vec<PathBuf>,
    /// The certificate for development, if there is one.
    pub local: Option<LocalCertificate>,
}

impl StartupPlan {
    /// The source of a document that the control API changes.
    pub const STORED: &str = "the stored configuration";

    /// Chooses the document: a file, the stored document, or one for a directory.
    /// `former` is the document that was served before: files of it that cannot be used keep their
    /// content.
    pub fn new(arguments: &Serve, former: Option<&[u8]>) -> Result<StartupPlan, String> {
        StartupPlan::without(arguments, former, &Hanging::default())
    }

    /// Chooses the document as [`StartupPlan::new`] does, without files and sites that do not
    /// answer.
    pub fn without(
        arguments: &Serve,
        former: Option<&[u8]>,
        hanging: &Hanging,
    ) -> Result<StartupPlan, String> {
        if let Some(path) = &arguments.config {
            let origin = path.display().to_string();
            let defaults = Defaults::of(arguments.unit);
            let disk = Disk::of(&arguments.common)?.without(hanging);
            let document = if arguments.strict || arguments.print_config {
                config_file::read_document(path, &disk, &defaults)?
            } else {
                config_file::read_usable(path, &disk, &defaults, former)?
            };
            document.notes.iter().for_each(|line| eprintln!("howdah: note: {}", Plain(line)));
            return Ok(StartupPlan::of_document(document.text, origin));
        }
        if !arguments.host.is_empty() || !arguments.others.is_empty() {
            return named_sites::plan(arguments);
        }
        let is_https = arguments.tls || !arguments.domain.is_empty();
        let has_unit_options = arguments.common.state.is_some() || arguments.control.is_some();
        if arguments.dir.is_none() && has_unit_options && !is_https {
            return StartupPlan::stored(arguments.common.state.as_deref());
        }
        let directory = arguments.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let mut site = detect::detect(&directory).map_err(|error| error.to_string())?;
        if arguments.worker && site.worker_script.is_none() {
            return Err(format!(
                "--worker: {} has no worker script: neither that of Laravel Octane \
                 (public/frankenphp-worker.php) nor Symfony's runtime for FrankenPHP \
                 (symfony/runtime 7.4, or runtime/frankenphp-symfony); for another one, name it \
                 in a configuration (\"worker\")",
                directory.display()
            ));
        }
        site.is_resident = arguments.worker;
        let user = server_user::find(&arguments.common)?;
        let files = if arguments.no_htaccess || arguments.worker {
            0
        } else {
            howdah_review::count(&site.root, user.as_ref())?
        };
        site.obeys_htaccess = files > 0;
        let listen = listen_addresses(arguments)?;
        let mut document = site.document(&listen, arguments.workers);
        let local = if arguments.tls { Some(StartupPlan::local(arguments)?) } else { None };
        https::secure(&mut document, arguments, local.as_ref());
        mail_to::add(&mut document, arguments.mail_to.as_deref())?;
        Variables::read(&arguments.env)?.add_to(&mut document, &environment::all());
        let php = php_version::add(&mut document, arguments, &directory, &php_version::installed)?;
        php_options::add(&mut document, arguments)?;
        arguments.request_lines.add(&mut document);
        let mut explanation = site.explain();
        explanation.extend(php);
        explanation.extend(cache::add(&mut document, &site, arguments));
        if arguments.watch && arguments.worker {
            explanation.push(watch::add(&mut document, &directory)?);
        }
        reload::add(&mut document, arguments.reload_events);
        mail_page::add(&mut document, arguments.mail_page.as_deref());
        explanation.extend(reload::explain(arguments));
        if document
            .get("applications")
            .is_some_and(|all| all.as_object().is_some_and(|all| !all.is_empty()))
        {
            explanation.push(mail_to::explain(&document, arguments.mail_to.as_deref()));
        }
        if site.obeys_htaccess {
            let (files_are, them) = match files {
                1 => ("file is", "it"),
                _ => ("files are", "them"),
            };
            explanation.push(format!(
                "rules: {files} .htaccess {files_are} read as by Apache; --no-htaccess leaves \
                 {them} out"
            ));
        }
        if !arguments.no_sandbox && site.has_php() {
            let (sandbox, line) = sandbox::of(&site, user.as_ref(), true, &ProjectMarks::default());
            if let Some(sandbox) = sandbox {
                document["applications"]["site"]["isolation"]["sandbox"] = sandbox;
            }
            explanation.push(line);
        }
        Ok(StartupPlan {
            document: document.to_string().into_bytes(),
            origin: directory.display().to_string(),
            explanation,
            directories: vec![directory],
            local,
        })
    }

    /// Returns the document of the server that this one replaces. It may differ from its source:
    /// the control API has changed it, or the source has changed since.
    pub fn inherited(arguments: &Serve, old: &Predecessor) -> Result<StartupPlan, String> {
        let local = if arguments.tls { Some(StartupPlan::local(arguments)?) } else { None };
        Ok(StartupPlan {
            document: old.document().to_vec(),
            origin: old.origin().to_owned(),
            explanation: Vec::new(),
            directories: Vec::new(),
            local,
        })
    }

    /// Returns the plan to serve a document that was served before.
    pub fn of_document(document: Vec<u8>, origin: String) -> StartupPlan {
        let (explanation, directories) = Default::default();
        StartupPlan { document, origin, explanation, directories, local: None }
    }

    fn local(arguments: &Serve) -> Result<LocalCertificate, String> {
        let state = directories::state(arguments.common.state.as_deref(), credentials::is_root())?;
        Ok(LocalCertificate::new(&state, &arguments.domain))
    }

    /// Returns the stored document, or the empty document of Unit.
    fn stored(state: Option<&Path>) -> Result<StartupPlan, String> {
        let document = match state {
            Some(state) => supervisor::load_document(state).map_err(|error| {
                format!("cannot read the state in {}: {error}", state.display())
            })?,
            None => None,
        };
        Ok(StartupPlan {
            document: document
                .unwrap_or_else(|| br#"{"listeners":{},"routes":[],"applications":{}}"#.to_vec()),
            origin: StartupPlan::STORED.to_owned(),
            explanation: Vec::new(),
            directories: Vec::new(),
            local: None,
        })
    }

    /// Parses the document. `None`: the stored document is not valid. The server then starts
    /// without a configuration and reports that. Error: a document of another source is not valid,
    /// or a newer version has stored it.
    pub fn config(&self, arguments: &Serve) -> Result<Option<Config>, String> {
        match self.valid_config(arguments) {
            Err(error) if keeps_document(arguments) => {
                let state = arguments.common.state.as_deref();
                if state.and_then(state_format::newer_writer).is_some() {
                    return Err(error);
                }
                let file = state.map(supervisor::stored_document).unwrap_or_default();
                eprintln!(
                    "howdah: {}; restore {} from a backup, or send a configuration to the control \
                     API",
                    Plain(error),
                    file.display()
                );
                Ok(None)
            }
            config => config.map(Some),
        }
    }

    /// Parses the document. Error: the reason why it is not valid.
    pub fn valid_config(&self, arguments: &Serve) -> Result<Config, String> {
        howdah_advice::parse(&self.document, &Defaults::of(arguments.unit))
            .map_err(|error| self.wrong(&error))
    }

    /// Returns the mistakes of the document as lines.
    fn wrong(&self, error: &howdah_config::Error) -> String {
        if !self.directories.is_empty() || self.origin == StartupPlan::STORED {
            return error.lines(|error| format!("{}: {error}", self.origin));
        }
        include::explain(&self.origin, &self.document, error)
    }

    /// Prints the document on standard output. Fails if it is not valid.
    pub fn print_document(&self, options: &CommonOptions) -> Result<(), String> {
        howdah_advice::parse(&self.document, &Defaults::default())
            .map_err(|error| self.wrong(&error))?;
        let mut document =
            howdah_config::json::parse(&self.document).map_err(|error| self.wrong(&error))?;
        name_user(&mut document, options);
        if let Some(members) = document.as_object_mut() {
            // The printed document can be served, without the files.
            members.shift_remove("included");
            members.shift_remove("left_out");
            members.shift_remove("places");
        }
        println!("{document:#}");
        Ok(())
    }
}

/// Names the user and group of the command line in the applications without one: a server that is
/// started with the document may be another user.
fn name_user(document: &mut Value, options: &CommonOptions) {
    let Some(user) = &options.user else { return };
    let applications = document.get_mut("applications").and_then(Value::as_object_mut);
    for application in applications.into_iter().flat_map(|all| all.values_mut()) {
        let Some(application) = application.as_object_mut() else { continue };
        if !application.contains_key("user") {
            application.insert("user".to_owned(), user.as_str().into());
            if let Some(group) = &options.group {
                application.insert("group".to_owned(), group.as_str().into());
            }
        }
    }
}

/// Returns the addresses of `--listen`, which are valid, or those to listen on without it.
pub(super) fn listen_addresses(arguments: &Serve) -> Result<Vec<String>, String> {
    for address in &arguments.listen {
        Address::parse(address).map_err(|error| match Address::listen_advice(address) {
            Some(advice) => {
                format!("--listen: \"{address}\" is not an address to listen on; {advice}")
            }
            None => format!("--listen: \"{address}\" {error}"),
        })?;
    }
    Ok(match arguments.listen.as_slice() {
        [] => https::addresses(arguments, howdah_sites::has_ipv6()),
        listen => listen.to_vec(),
    })
}

/// Returns true if the document is the stored one, which the control API changes.
pub(super) fn keeps_document(arguments: &Serve) -> bool {
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let is_given = arguments.dir.is_some() || arguments.config.is_some() || is_https;
    arguments.common.state.is_some() && !is_given
}

/// Returns the function that compiles the sites of documents that are sent to the control API.
pub(super) fn compile_document(arguments: &Serve) -> CompileDocument {
    let defaults = Defaults::of(arguments.unit);
    let common = user_options(arguments);
    Box::new(move |document, running| {
        // A site whose directory does not answer refuses no change of the others.
        last_good::without_hanging("the document", &Hanging::is_site, &|hanging| {
            let disk = Disk::of(&common)?.without_files().without(hanging);
            config_file::compile_sent(document, running, &disk, &defaults)
        })
    })
}

fn user_options(arguments: &Serve) -> CommonOptions {
    CommonOptions {
        user: arguments.common.user.clone(),
        group: arguments.common.group.clone(),
        ..CommonOptions::default()
    }
}

/// Returns the functions that read the tables of a document file again.
pub(super) fn table_files(arguments: &Serve) -> Option<TableFiles> {
    let defaults = Defaults::of(arguments.unit);
    let config = arguments.config.clone()?;
    let common = user_options(arguments);
    let disk = move || Disk::of(&common);
    Some(TableFiles {
        has_tables: |document| {
            config_file::may_have_tables(document) || config_file::may_have_left_out(document)
        },
        has_left_out: config_file::may_have_left_out,
        watched: config_file::watched,
        read: Box::new(move |document| {
            if config_file::may_have_left_out(document) {
                let read = config_file::read_left_out(&config, &disk()?, &defaults, document)?;
                let is_same = read == document && config_file::may_have_tables(document);
                if is_same {
                    config_file::reread_tables(document, &disk()?, &defaults)
                } else {
                    Ok(read)
                }
            } else {
                config_file::reread_tables(document, &disk()?, &defaults)
            }
        }),
    })
}

/// Returns the function that reads the document again; `None` if the control API is its only
/// source.
pub(super) fn reload_document(arguments: &Serve) -> Result<Option<ReloadDocument>, String> {
    let only_control = arguments.control.is_some() && arguments.common.state.is_none();
    if only_control && arguments.dir.is_none() && arguments.config.is_none() {
        return Ok(None); // the document is only in memory
    }
    // The server may have changed its working directory when it reads the file again.
    let absolute = |path: &Option<PathBuf>| {
        path.as_ref().map(std::path::absolute).transpose().map_err(|error| error.to_string())
    };
    let others: Result<_, _> = arguments.others.iter().map(std::path::absolute).collect();
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let dir = match (&arguments.config, &arguments.common.state, &arguments.dir) {
        (None, state, None) if state.is_none() || is_https => Some(PathBuf::from(".")),
        (_, _, dir) => dir.clone(),
    };
    let arguments = Serve {
        dir: absolute(&dir)?,
        others: others.map_err(|error| error.to_string())?,
        host: arguments.host.clone(),
        config: arguments.config.clone(),
        common: CommonOptions {
            state: absolute(&arguments.common.state)?,
            user: arguments.common.user.clone(),
            group: arguments.common.group.clone(),
            ..CommonOptions::default()
        },
        listen: arguments.listen.clone(),
        workers: arguments.workers,
        cache: arguments.cache,
        worker: arguments.worker,
        watch: arguments.watch,
        reload_events: arguments.reload_events,
        mail_page: arguments.mail_page.clone(),
        no_htaccess: arguments.no_htaccess,
        tls: arguments.tls,
        domain: arguments.domain.clone(),
        email: arguments.email.clone(),
        acme: arguments.acme.clone(),
        mail_to: arguments.mail_to.clone(),
        env: arguments.env.clone(),
        setting: arguments.setting.clone(),
        dev: arguments.dev,
        request_lines: arguments.request_lines,
        php: arguments.php.clone(),
        no_sandbox: arguments.no_sandbox,
        unit: arguments.unit,
        strict: arguments.strict,
        ..Serve::default()
    };
    Ok(Some(Box::new(move |running| {
        let plan = last_good::read(&arguments, Some(running), true)?;
        plan.local.as_ref().map_or(Ok(()), |local| local.prepare(SystemTime::now()))?;
        Ok(plan.document)
    })))
}
