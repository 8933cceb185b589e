//! Programs that change DNS records, to prove control of names (ACME, DNS-01).
//!
//! The programs run as the user that started the server, because they need access to the DNS. The
//! router chooses one that the configuration names. Only root and this user may be able to change
//! the program, its arguments are a keyword, a DNS name and a text in base64url, and its run time
//! is limited.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use howdah_sys::log::Log;
use howdah_sys::protected::protected;
use howdah_sys::{process, signals};
use howdah_wire::messages::Exit;

use howdah_launch::open_files;

/// Maximum number of programs that run at the same time.
const MAX_PROGRAMS: usize = 16;

/// Maximum run time of a program.
const MAX_RUN_TIME: Duration = Duration::from_secs(3600);

/// A program that the router requests.
pub(crate) struct Run {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) timeout: Duration,
}

/// Running programs, by process id.
#[derive(Default)]
pub(crate) struct Programs(HashMap<u32, Running>);

struct Running {
    /// Process id of the router that requested it, and the router's number for the request.
    request: (u32, u32),
    deadline: Instant,
    is_late: bool,
}

impl Programs {
    /// Starts a program. `request` is the router's process id and its number for the request.
    pub(crate) fn start(
        &mut self,
        run: &Run,
        request: (u32, u32),
        log: &Log,
        now: Instant,
    ) -> Result<(), String> {
        if self.0.len() >= MAX_PROGRAMS {
            return Err("too many programs run at once".to_owned());
        }
        check(run)?;
        let program = trusted(Path::new(&run.program)).map_err(|error| error.to_string())?;
        let output = log.handle().map_err(|error| error.to_string())?;
        match process::fork().map_err(|error| error.to_string())? {
            process::Forked::Parent(pid) => {
                let deadline = now + run.timeout.min(MAX_RUN_TIME);
                self.0.insert(pid, Running { request, deadline, is_late: false });
                Ok(())
            }
            process::Forked::Child => {
                signals::reset();
                process::close_on_exec_from(3);
                let error = process::set_standard_streams(output.as_fd(), output.as_fd())
                    .and_then(|()| Ok(open_files::restore()?))
                    .and_then(|()| Ok(rustix::process::setsid()?))
                    .err();
                let error = error.unwrap_or_else(|| become_program(&program, run));
                eprintln!("howdah: {}: {error}", run.program);
                process::exit_now(127);
            }
        }
    }

    /// Removes a program whose process has ended. Returns its request and an error message, empty
    /// on success; `None` if the process was not a program.
    pub(crate) fn ended(&mut self, pid: u32, exit: Exit) -> Option<((u32, u32), String)> {
        let running = self.0.remove(&pid)?;
        let problem = match exit {
            _ if running.is_late => "it took too long".to_owned(),
            Exit::Status(0) => String::new(),
            exit => format!("it {exit}; its output is in the log"),
        };
        Some((running.request, problem))
    }

    /// Kills programs that exceed their run time.
    pub(crate) fn end_if_due(&mut self, now: Instant) {
        for (pid, running) in &mut self.0 {
            if !running.is_late && running.deadline <= now {
                running.is_late = true;
                kill(*pid);
            }
        }
    }

    /// Returns the next time at which a program exceeds its run time.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.values().filter(|running| !running.is_late).map(|running| running.deadline).min()
    }

    /// Returns the process ids of running programs.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }

    /// Kills all programs.
    pub(crate) fn end(&self) {
        self.0.keys().for_each(|pid| kill(*pid));
    }
}

/// Kills a program and all processes of its session, which it leads.
fn kill(pid: u32) {
    let raw = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(group) = raw {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = signals::send(pid, signals::SIGKILL);
}

fn become_program(program: &Path, run: &Run) -> io::Error {
    let environment = run.environment.iter().map(|(name, value)| (name, value));
    Command::new(program).args(&run.arguments).envs(environment).current_dir("/").exec()
}

/// Checks that the arguments are those of a DNS program.
fn check(run: &Run) -> Result<(), String> {
    let fits = |text: &String, more: &[u8]| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        text.len() <= 300 && !text.starts_with('-') && text.bytes().all(fits)
    };
    let [action, record, value] = run.arguments.as_slice() else {
        return Err("the arguments are not those of a program for DNS records".to_owned());
    };
    let mut values = run.environment.iter();
    let is_known = matches!(action.as_str(), "present" | "cleanup")
        && fits(record, b"-_.")
        && record.starts_with("_acme-challenge.")
        // A digest may begin with a dash.
        && fits(&format!("x{value}"), b"-_")
        && values.all(|(name, value)| {
            name.starts_with("CERTBOT_") && fits(&format!("x{value}"), b"-_.")
        });
    if is_known {
        Ok(())
    } else {
        Err("the arguments are not those of a program for DNS records".to_owned())
    }
}

/// Returns the path of a program without symbolic links. An error if other users could change the
/// program or replace it in its directories.
pub fn trusted(program: &Path) -> io::Result<PathBuf> {
    let real = protected(program)?;
    let found = fs::metadata(&real)?;
    if !found.is_file() || found.mode() & 0o111 == 0 {
        return Err(refuse(&real, "is not an executable file"));
    }
    Ok(real)
}

fn refuse(path: &Path, problem: &str) -> io::Error {
    io::Error::other(format!("{} {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn run(arguments: &[&str]) -> Run {
        Run {
            program: "/bin/true".to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            environment: vec![("CERTBOT_DOMAIN".to_owned(), "a.org".to_owned())],
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn the_router_cannot_choose_what_a_program_is_told() {
        let record = "_acme-challenge.a.org.";
        assert_eq!(check(&run(&["present", record, "-b_64"])), Ok(()));
        assert_eq!(check(&run(&["cleanup", record, "b64"])), Ok(()));
        for bad in [
            &["-c", "rm", "x"][..],
            &["present", record],
            &["present", record, "x", "y"],
            &["present", "a.org.", "x"],
            &["present", "_acme-challenge.a org", "x"],
            &["present", "_acme-challenge./etc", "x"],
            &["present", record, "x;y"],
            &["present", record, &"x".repeat(400)],
        ] {
            assert!(check(&run(bad)).is_err(), "{bad:?}");
        }
        let mut other = run(&["present", record, "x"]);
        other.environment = vec![("LD_PRELOAD".to_owned(), "x".to_owned())];
        assert!(check(&other).is_err());
    }

    #[test]
    fn a_program_that_others_can_change_is_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hook");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(directory.path(), 0o755);
        mode(&path, 0o644);
        assert!(trusted(&path).unwrap_err().to_string().contains("is not an executable file"));
        mode(&path, 0o755);
        assert_eq!(trusted(&path).unwrap(), fs::canonicalize(&path).unwrap());
        for bad in [0o775, 0o757] {
            mode(&path, bad);
            assert!(trusted(&path).unwrap_err().to_string().contains("can be changed"));
        }
        mode(&path, 0o755);
        mode(directory.path(), 0o777);
        assert!(trusted(&path).unwrap_err().to_string().contains("can be changed"));
        mode(directory.path(), 0o755);
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(trusted(&link).unwrap(), fs::canonicalize(&path).unwrap());
        assert!(trusted(Path::new("hook")).is_err() && trusted(directory.path()).is_err());
    }
}
