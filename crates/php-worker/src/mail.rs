//! Checks that `mail()` can work.
//!
//! The `sendmail` of most mail servers has a set-user-ID or set-group-ID bit, or runs a program
//! that has one: it needs that user's rights for its settings and its queue. A process with
//! `no_new_privs` cannot give it these rights, and the program's own message (exim4: "failed to
//! open configuration file: Permission denied") does not say what to change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::ffi::Php;

/// The set-user-ID and set-group-ID bits of a mode.
const SET_ID: u32 = 0o6000;

/// Programs that `sendmail` runs to write to the queue: those of Postfix and nullmailer.
const HELPERS: [&str; 2] = ["postdrop", "nullmailer-queue"];

/// Returns the reason why `mail()` cannot work in this process; `None` if none is known.
pub fn problem(spec: &ApplicationSpec, php: &Php) -> Option<Problem> {
    // Without an answer of the kernel, the default is assumed: no new privileges.
    if rustix::thread::no_new_privs() == Ok(false) {
        return None;
    }
    let command = php.setting("sendmail_path")?;
    explain(&command.to_string_lossy(), spec.isolation.new_privileges)
}

/// Returns the reason why `mail()` cannot work in a process with `no_new_privs`. `command` is PHP's
/// `sendmail_path`; `is_allowed` is true if the document permits new privileges.
fn explain(command: &str, is_allowed: bool) -> Option<Problem> {
    let program = needs_rights(&find(command)?)?;
    let advice = match is_allowed {
        false => {
            "set it to true in the application's \"isolation\" (in a document for --config; `howdah \
             serve DIR` has no such key), or send mail over SMTP"
        }
        true => {
            "the server itself was started without new privileges; look for NoNewPrivileges= in its \
             systemd unit, or allowPrivilegeEscalation of its container"
        }
    };
    let problem = format_args!(
        "mail() cannot send: {} works only with the rights that its mode gives it (setuid, setgid), \
         and programs of this application get none; {advice}",
        program.display()
    );
    Some(Problem::at("isolation/new_privs", problem))
}

/// Returns the path of the program of a command line.
fn find(command: &str) -> Option<PathBuf> {
    let name = command.split_ascii_whitespace().next()?;
    if name.contains('/') {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Returns the program, or its helper, with a set-ID bit.
fn needs_rights(program: &Path) -> Option<PathBuf> {
    let program = fs::canonicalize(program).ok()?;
    let helpers = HELPERS.iter().map(|name| program.with_file_name(name));
    let mut all = std::iter::once(program.clone()).chain(helpers);
    all.find(|path| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & SET_ID != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_sendmail_with_rights_of_its_own_is_told_with_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let (exim, link) = (directory.path().join("exim4"), directory.path().join("sendmail"));
        std::os::unix::fs::symlink("exim4", &link).unwrap();
        let command = format!("{} -t -i", link.display());
        for (mode, is_told) in [(0o4755, true), (0o2755, true), (0o755, false)] {
            program(&exim, mode);
            let told = explain(&command, false).map(|problem| problem.to_string());
            assert_eq!(told.is_some(), is_told, "{mode:o}: {told:?}");
            let is_named = |text: String| text.contains("new_privs") && text.contains("exim4");
            assert!(told.is_none_or(is_named));
        }
        program(&directory.path().join("postdrop"), 0o2755);
        let told = explain(&command, true).unwrap().to_string();
        assert!(told.contains("postdrop") && told.contains("NoNewPrivileges"), "{told}");
    }

    #[test]
    fn without_a_program_there_is_nothing_to_tell() {
        for command in ["", " ", "/none/sendmail -t", "no-such-program -t"] {
            assert!(explain(command, false).is_none(), "{command:?}");
        }
    }
}
