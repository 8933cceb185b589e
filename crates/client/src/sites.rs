//! `howdah site` and `howdah php`: sites as files of a few lines.
//!
//! `document` finds the document and its sites, `check` finds mistakes, `file` replaces files, and
//! each command is a module or a function. The running server is only asked to reload: what a site
//! becomes is decided by the functions with which the server itself reads its document.

mod account;
mod add;
mod answer;
mod change;
mod check;
mod document;
mod edit;
mod file;
mod list;
mod logs;
mod php;
mod show;
mod text;
mod user;

use std::path::Path;

use howdah_config::include::IncludedFiles;
use howdah_sys::credentials::Credentials;
use serde_json::Value;

use crate::args::sites::{SiteArgs, SiteCommand};
use crate::failure::Failure;
use crate::usage;

use self::document::Document;

pub(super) use self::account::Account;
pub(super) use self::php::run as php;

/// What the commands about sites need of the program.
pub trait Machine {
    /// Returns the files of the disk, as the server reads them, and the compiler of sites. For
    /// another machine, directories and files of sites may be missing.
    ///
    /// # Errors
    ///
    /// The user that the server runs as is not known.
    fn files(&self, is_for_another_machine: bool) -> Result<Box<dyn IncludedFiles>, String>;

    /// Returns the user that a server started by this user runs as; `None` for this user.
    fn server_user(&self) -> Option<Credentials>;

    /// Checks what a document names: users, directories, programs. `file` is the file of the
    /// document that a running server may have.
    fn check(&self, document: &Value, file: &Path) -> Vec<Problem>;
}

/// A problem of a part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How severe it is.
    pub severity: Severity,
    /// JSON path of the part, such as `/applications/shop/user`.
    pub path: String,
    /// The problem, and what to do.
    pub message: String,
}

/// How severe a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The site, or a part of it, does not run.
    Error,
    /// It shows later or causes less harm.
    Warning,
    /// It may be intended.
    Note,
}

/// Runs a command about sites.
pub(super) fn run(args: SiteArgs, machine: &dyn Machine) -> Result<(), Failure> {
    if let SiteCommand::Logs { name, follow, lines } = &args.command
        && let Some(outcome) = logs::as_site_user(&args, name, *follow, *lines)
    {
        return outcome;
    }
    let open = |is_for_another_machine| {
        Document::open(
            &args.server,
            args.config.as_deref(),
            machine.files(is_for_another_machine).map_err(Failure::Failed)?,
        )
    };
    let document = || open(false);
    match args.command {
        SiteCommand::Add(add) => add::run(document()?, &add, machine),
        SiteCommand::List { names: true, .. } => list::names(&document()?),
        SiteCommand::List { json, .. } => list::run(&document()?, json),
        SiteCommand::Show { name, json } => show::run(&document()?, &name, json),
        SiteCommand::Expand { name } => show::expand(&document()?, &name),
        SiteCommand::Edit { name } => edit::run(&document()?, &name, machine),
        SiteCommand::Enable { names } => change::enable(&document()?, &names, true),
        SiteCommand::Disable { names } => change::enable(&document()?, &names, false),
        SiteCommand::Remove { name } => change::remove(&document()?, &name),
        SiteCommand::Rename { old, new } => change::rename(&document()?, &old, &new),
        SiteCommand::Usage(usage) => usage::run(&args.server, &usage),
        SiteCommand::Restart { names } => change::restart(&document()?, &names),
        SiteCommand::Logs { name, follow, lines } => logs::run(&document()?, &name, follow, lines),
        SiteCommand::Check { names, file, syntax, json } => {
            let machine = (!syntax).then_some(machine);
            check::run(&open(syntax)?, &names, file.as_deref(), machine, json)
        }
    }
}
