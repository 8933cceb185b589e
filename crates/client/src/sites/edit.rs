//! `howdah site edit`: a copy in an editor, which is checked before it replaces the file.

use std::fs;
use std::path::PathBuf;

use super::check::{self, Finding};
use super::document::{Document, Reloaded};
use super::{Machine, file};
use crate::edit::{ask_again, editor, open};
use crate::failure::Failure;
use crate::output::{one_line, write_out};

pub(super) fn run(document: &Document, name: &str, machine: &dyn Machine) -> Result<(), Failure> {
    let site = document.file_of(name)?.to_owned();
    let before = fs::read(&site).map_err(|error| file::failed(&site, error))?;
    let copy = Copy::new(name, &before)?;
    loop {
        open(&editor(), &copy.file)?;
        let edited = fs::read(&copy.file).map_err(|error| file::failed(&copy.file, error))?;
        if edited == before {
            return write_out("Nothing was changed.\n");
        }
        let problem = match checked(document, name, &edited, Some(machine)) {
            Ok(()) if fs::read(&site).ok().as_ref() != Some(&before) => {
                format!("{} has been changed meanwhile by another program", site.display())
            }
            Ok(()) => {
                file::replace(&site, &edited)?;
                return told(document.reload(&site)?, &format!("{name}: changed\n"));
            }
            Err(Failure::Failed(problem)) => problem,
            Err(failure) => return Err(failure),
        };
        if !ask_again(&problem) {
            let kept = copy.keep();
            eprintln!("howdah: your text is kept in {}", kept.display());
            return Err(Failure::Failed(problem));
        }
    }
}

/// Prints the outcome of a change. Fails if the server cannot use the file, or the site has PHP
/// that cannot run.
pub(super) fn told(reloaded: Option<Reloaded>, text: &str) -> Result<(), Failure> {
    match reloaded {
        Some(Reloaded { problem: Some(problem), .. }) => Err(Failure::Failed(problem)),
        Some(Reloaded { application: Some(problem), .. }) => {
            write_out(text)?;
            eprintln!("howdah: its PHP cannot run: {problem}");
            Err(Failure::PartsOut(4))
        }
        Some(_) => write_out(text),
        None => {
            write_out(text)?;
            eprintln!("howdah: no server runs with this document; it counts when one is started");
            Ok(())
        }
    }
}

/// Checks the text of the file of a site before it is used. Notes and warnings are printed.
pub(super) fn checked(
    document: &Document,
    name: &str,
    text: &[u8],
    machine: Option<&dyn Machine>,
) -> Result<(), Failure> {
    let copy = Copy::new(name, text)?;
    let known = check::hosts_of_others(document, &[name]);
    let shown = format!("{name}.json");
    let show = |finding: Finding| finding.named(&shown);
    let refused = |findings: Vec<Finding>| {
        let lines = findings.into_iter().map(|finding| one_line(&show(finding).line()));
        Failure::Failed(lines.collect::<Vec<_>>().join("\n"))
    };
    let expanded = check::expand(document, &copy.file, &known).map_err(refused)?;
    let Some(machine) = machine else { return Ok(()) };
    let found = check::of_machine(document, &copy.file, &expanded, machine);
    let (errors, others): (Vec<_>, Vec<_>) = found.into_iter().partition(Finding::is_error);
    for finding in others {
        eprintln!("howdah: {}", one_line(&show(finding).line()));
    }
    if errors.is_empty() { Ok(()) } else { Err(refused(errors)) }
}

/// A copy of the file of a site, in a directory that only this user can enter.
struct Copy {
    directory: PathBuf,
    file: PathBuf,
    is_kept: bool,
}

impl Copy {
    fn new(name: &str, text: &[u8]) -> Result<Copy, Failure> {
        let base = std::env::temp_dir();
        let directory = private_directory(&base).map_err(|error| file::failed(&base, error))?;
        let file = directory.join(format!("{name}.json"));
        let copy = Copy { directory, file, is_kept: false };
        fs::write(&copy.file, text).map_err(|error| file::failed(&copy.file, error))?;
        use std::os::unix::fs::PermissionsExt;
        // It may have passwords.
        let _ = fs::set_permissions(&copy.file, fs::Permissions::from_mode(0o600));
        Ok(copy)
    }

    /// Leaves the file where it is. Returns its path.
    fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.file.clone()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Makes a directory that only this user can enter, with a name that nobody has.
fn private_directory(base: &std::path::Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let mut attempt = 0_u32;
    loop {
        let directory = base.join(format!("howdah-site-{}-{attempt}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
