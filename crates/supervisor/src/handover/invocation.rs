//! The way in which this program was started, so that it can be started again in the same way.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_sys::protected::protected;

/// The program file, the command line, the environment and the working directory.
#[derive(Debug, Clone)]
pub struct Invocation {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
}

/// Variables of a service manager that are meant for one process: descriptors that it passes
/// (sd_listen_fds(3)). The sockets are handed over.
const DESCRIPTOR_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// Process id for which the watchdog of a service manager is meant (sd_watchdog_enabled(3)).
const WATCHDOG_VARIABLE: &str = "WATCHDOG_PID";

impl Invocation {
    /// Returns the invocation of this process; must be called before the working directory or the
    /// environment changes. The program is named as it was on the command line, so that a link
    /// which leads to another version by the time of the upgrade is followed anew. `None` if the
    /// program file has no path.
    pub fn of_this_process() -> Option<Invocation> {
        let arguments: Vec<_> = std::env::args_os().collect();
        let directory = std::env::current_dir().ok()?;
        let running = fs::metadata("/proc/self/exe").ok()?;
        let is_running = |path: &PathBuf| {
            let found = fs::metadata(path);
            found.is_ok_and(|found| (found.dev(), found.ino()) == (running.dev(), running.ino()))
        };
        let named = arguments.first().and_then(|name| named(name, &directory));
        let program = named.into_iter().chain(fs::read_link("/proc/self/exe")).find(is_running)?;
        let environment = std::env::vars_os();
        let environment =
            environment.filter(|(name, _)| DESCRIPTOR_VARIABLES.iter().all(|other| name != other));
        let environment = environment.collect();
        Some(Invocation { program, arguments, environment, directory })
    }

    /// Returns the path of the program file without links. Error: the reason why it must not be
    /// executed; other users could have changed it, or it does not exist.
    pub(super) fn trusted(&self) -> Result<PathBuf, String> {
        let program = protected(&self.program).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("the program {} no longer exists", self.program.display())
            }
            _ => format!("the program cannot be executed: {error}"),
        })?;
        // execvp(3) would run any other file as a shell script.
        let mut magic = [0; 4];
        let read = File::open(&program).and_then(|mut file| file.read_exact(&mut magic));
        if read.is_ok() && (magic == *b"\x7fELF" || magic.starts_with(b"#!")) {
            Ok(program)
        } else {
            Err(format!("{} is no program; install it again", program.display()))
        }
    }

    /// Executes the program in place of this process, with one more environment variable. Returns
    /// only the error.
    pub(super) fn execute(&self, program: &Path, variable: (&str, &str)) -> io::Error {
        if let Err(error) = std::env::set_current_dir(&self.directory) {
            let directory = self.directory.display();
            return io::Error::new(error.kind(), format!("working directory {directory}: {error}"));
        }
        let (name, arguments) = match self.arguments.split_first() {
            Some((name, arguments)) => (name.as_os_str(), arguments),
            None => (program.as_os_str(), &[][..]),
        };
        let mut command = Command::new(program);
        command.arg0(name).args(arguments).env_clear().envs(self.environment.iter().cloned());
        if self.environment.iter().any(|(name, _)| name == WATCHDOG_VARIABLE) {
            command.env(WATCHDOG_VARIABLE, std::process::id().to_string());
        }
        command.env(variable.0, variable.1).exec()
    }
}

/// Returns the path that the first word of a command line means.
fn named(name: &OsStr, directory: &Path) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 || path.is_absolute() {
        return Some(directory.join(path));
    }
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths).map(|place| directory.join(place).join(path));
    found.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn this_program_is_found_by_its_name_or_through_the_kernel() {
        let found = Invocation::of_this_process().unwrap();
        assert_eq!(fs::canonicalize(&found.program).unwrap(), std::env::current_exe().unwrap());
        assert_eq!(found.arguments, std::env::args_os().collect::<Vec<_>>());
    }

    #[test]
    fn a_relative_name_begins_at_the_working_directory_and_a_plain_one_in_path() {
        let at = |name: &str| named(OsStr::new(name), Path::new("/srv"));
        assert_eq!(at("./howdah"), Some("/srv/./howdah".into()));
        assert_eq!(at("/bin/howdah"), Some("/bin/howdah".into()));
        assert!(at("sh").is_some_and(|found| found.is_absolute() && found.ends_with("sh")));
        assert_eq!(at("no-such-program-anywhere"), None);
    }

    #[test]
    fn a_program_that_others_can_change_or_that_is_gone_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let (old, link) = (place.path().join("old"), place.path().join("link"));
        fs::write(&old, "#!/bin/sh\n").unwrap();
        symlink("old", &link).unwrap();
        let invocation = |program: &Path| Invocation {
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: "/".into(),
        };
        fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(invocation(&link).trusted(), Ok(fs::canonicalize(&old).unwrap()));
        fs::set_permissions(&old, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(invocation(&link).trusted().unwrap_err().contains("can be changed"));
        fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
        for cut in ["", "EL", "text\n"] {
            fs::write(&old, cut).unwrap();
            assert!(invocation(&link).trusted().unwrap_err().contains("is no program"), "{cut:?}");
        }
        fs::remove_file(&old).unwrap();
        assert!(invocation(&link).trusted().unwrap_err().contains("no longer exists"));
    }
}
