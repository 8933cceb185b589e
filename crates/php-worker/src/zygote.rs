//! The zygote: starts PHP up to the point at which OPcache starts, and forks prototypes from there.
//!
//! A prototype that is forked here has the memory of PHP's start in common with all others, needs
//! no time for it, and gets an OPcache of its own, as that starts later, as the application's user.
//!
//! 1. Descriptor 3 is the socket of requests, descriptor 4 the pipe of replies. The first request
//!    names the zygote's own user; it keeps the right to become the user of an application.
//! 2. PHP is started, if only the administrator can change the loaded files
//!    ([`trusted_start`](crate::trusted_start)). If forks of this process could not run separate
//!    applications ([`obstacle`]), the zygote says why and ends.
//! 3. Each further request forks a prototype. If a file has changed that PHP was started from, the
//!    zygote says so and ends ([`LoadedFiles`]).
//!
//! The zygote runs no script, opens no socket and reads no file of an application.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use howdah_launch::known_start::check_roots;
use howdah_launch::{User, open_files};
use howdah_sys::credentials::{self, Credentials};
use howdah_sys::packet::{self, Received};
use howdah_sys::process::{self, Forked};
use howdah_sys::{environment, handlers, memory, pipe, process_tree, signals, title};
use howdah_wire::messages::{
    ApplicationSpec, FromZygote, MAX_MESSAGE, Problem, ProcessUser, ToPrototype, ToZygote,
};
use rustix::event::{PollFd, PollFlags, poll};

use crate::application::IGNORED_SIGNALS;
use crate::ffi::{IniFiles, Php, Settings};
use crate::loaded_files::LoadedFiles;
use crate::loading;
use crate::open_files::OpenFiles;
use crate::prototype::{self, COMMANDS, Prototype, REPORTS};
use crate::start_files::not_regular;
use crate::supervisor::Supervisor;
use crate::trusted_start::refusal;

/// The connection to the supervisor.
struct Zygote {
    requests: OwnedFd,
    replies: OwnedFd,
    /// Process id of the supervisor.
    parent: u32,
    /// The program that this process runs.
    executable: File,
    /// Descriptors that were open before PHP started.
    descriptors: OpenFiles,
}

/// A process that was forked to become a prototype.
struct Child {
    supervisor: Supervisor,
    output: OwnedFd,
    parent: u32,
    executable: File,
    /// The files that PHP was started from. To free them would copy the pages that they are in.
    loaded: LoadedFiles,
}

/// A prototype whose PHP is about to start OPcache.
struct Beginning {
    supervisor: Supervisor,
    prototype: Prototype,
    loaded: LoadedFiles,
}

/// Runs the zygote to its end, and in each fork the prototype.
pub fn run() -> ExitCode {
    let inherited = (process::take_inherited(COMMANDS), process::take_inherited(REPORTS));
    let (Some(requests), Some(replies)) = inherited else {
        eprintln!("howdah-php is started by howdah: descriptors 3 and 4 are not both open");
        return ExitCode::from(2);
    };
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    process::die_with_parent(Some(parent));
    process::close_on_exec_from(3);
    signals::reset();
    handlers::disarm(&IGNORED_SIGNALS);
    open_files::record();
    let executable = match process::own_program() {
        Ok(program) => program.into(),
        Err(error) => {
            eprintln!("howdah-php: cannot open its own program: {error}");
            return ExitCode::FAILURE;
        }
    };
    let descriptors = OpenFiles::of_this_process();
    let zygote = Zygote { requests, replies, parent, executable, descriptors };
    let begun = RefCell::new(None);
    let started = match zygote.load_request() {
        Ok((user, ini_file)) => credentials::keep_rights_to_change_user(user)
            .and_then(|()| process::deny_tracing())
            .map_err(|error| format!("it cannot change its user: {error}"))
            .and_then(|()| start(zygote, ini_file.as_deref(), &begun)),
        Err(message) => {
            eprintln!("howdah-php: {message}");
            return ExitCode::FAILURE;
        }
    };
    match (started, begun.take()) {
        (Ok(php), Some(Beginning { supervisor, prototype, loaded })) => {
            loading::loading_ends();
            let notices = loading::apply(&prototype.spec, &php);
            prototype.serve(supervisor, php, notices, loaded)
        }
        (Err(message), Some(Beginning { supervisor, .. })) => {
            loading::loading_ends();
            prototype::failed(&supervisor, Problem::of(message))
        }
        (_, None) => ExitCode::FAILURE,
    }
}

/// Starts PHP. In a fork, which has none of the zygote's descriptors, `begun` is set.
fn start(
    zygote: Zygote,
    ini_file: Option<&str>,
    begun: &RefCell<Option<Beginning>>,
) -> Result<Php, String> {
    let zygote = Cell::new(Some(zygote));
    let pause = || {
        let Some(zygote) = zygote.take() else { process::exit_now(70) };
        let (beginning, settings) = zygote.serve().begin();
        begun.replace(Some(beginning));
        settings
    };
    let check = || {
        let (ini, extensions) = IniFiles::of_this_start();
        // PHP reads it before the pause.
        let browscap = IniFiles::setting("browscap").map(PathBuf::from);
        let browscap = browscap.and_then(|path| not_regular(&path));
        if let Some(reason) = refusal(&ini, &extensions).or(browscap)
            && let Some(zygote) = zygote.take()
        {
            zygote.reply(&FromZygote::Unfit { reason });
            process::exit_now(0);
        }
    };
    let started = Php::start_paused(ini_file, check, pause, loading::ended_by_php);
    if let Some(zygote) = zygote.take() {
        let reason = match &started {
            Ok(_) => "an extension changes the start of PHP".to_owned(),
            Err(message) => message.clone(),
        };
        zygote.reply(&FromZygote::Unfit { reason });
    }
    started
}

impl Zygote {
    /// Waits for the first request. Returns the user and the `php.ini` that it names.
    fn load_request(&self) -> Result<(Option<u32>, Option<String>), &'static str> {
        match self.receive() {
            Some((ToZygote::Load { user, ini_file }, _)) => Ok((user, ini_file)),
            _ => Err("the supervisor's first message does not name the zygote's user"),
        }
    }

    /// Waits for a request. `None` if the supervisor has ended, or has sent something else.
    fn receive(&self) -> Option<(ToZygote, Vec<OwnedFd>)> {
        loop {
            let _ = poll(&mut [PollFd::new(&self.requests, PollFlags::IN)], None);
            match packet::receive_next(&self.requests, MAX_MESSAGE) {
                Ok((Received::Packet(_, descriptors), message)) => {
                    return Some((ToZygote::decode(&message).ok()?, descriptors));
                }
                Ok((Received::Empty, _)) => {} // a signal interrupted the wait
                Ok((Received::Closed, _)) | Err(_) => return None,
            }
        }
    }

    fn reply(&self, message: &FromZygote) {
        if pipe::send(&self.replies, &message.encode()).is_err() {
            process::exit_now(0);
        }
    }

    /// Serves requests until the supervisor ends. Returns in each fork.
    fn serve(self) -> Child {
        if let Some(reason) = obstacle(&self.descriptors) {
            self.reply(&FromZygote::Unfit { reason });
            process::exit_now(0);
        }
        title::set(&std::env::args().next().unwrap_or_default());
        let loaded = LoadedFiles::of(&IniFiles::of_this_start().0);
        memory::release_start_memory();
        memory::fill_heap_gaps();
        self.reply(&FromZygote::Ready {});
        loop {
            let Some((ToZygote::Fork {}, descriptors)) = self.receive() else {
                process::exit_now(0);
            };
            if loaded.have_changed() {
                self.reply(&FromZygote::Outdated {});
                process::exit_now(0);
            }
            let Ok([commands, reports, output]) = <[OwnedFd; 3]>::try_from(descriptors) else {
                let message = "a descriptor did not arrive".to_owned();
                self.reply(&FromZygote::NotForked { message });
                continue;
            };
            match process::fork_detached() {
                Ok(Forked::Parent(pid)) => self.reply(&FromZygote::Forked { pid }),
                Ok(Forked::Child) => {
                    let Zygote { parent, executable, .. } = self;
                    let supervisor = Supervisor { commands, reports };
                    return Child { supervisor, output, parent, executable, loaded };
                }
                Err(error) => {
                    self.reply(&FromZygote::NotForked { message: error.to_string() });
                }
            }
        }
    }
}

impl Child {
    /// Waits for the specification of the application and takes its role. Returns the settings with
    /// which the start of PHP continues. On failure, reports it and ends the process.
    fn begin(self) -> (Beginning, Settings) {
        let _ = process_tree::adopt_orphans();
        let hello = match self.supervisor.first_message() {
            Ok((ToPrototype::Hello { spec, tmp, sendmail, user, .. }, descriptors)) => {
                loading::use_sendmail(&sendmail);
                Ok((spec, tmp, user.map(credentials_of), descriptors))
            }
            _ => Err(Problem::of("the supervisor's first message is not the specification")),
        };
        let begun = hello.and_then(|(spec, tmp, user, descriptors)| {
            self.assume_role(&spec, user.as_ref())?;
            let prototype = Prototype::new(spec, descriptors)?;
            check_roots(&prototype.spec.roots)?;
            let settings = loading::begin(&self.supervisor, &prototype.spec, &tmp)?;
            Ok((prototype, settings))
        });
        match begun {
            Ok((prototype, settings)) => {
                let Child { supervisor, loaded, .. } = self;
                (Beginning { supervisor, prototype, loaded }, settings)
            }
            Err(problem) => {
                prototype::failed(&self.supervisor, problem);
                process::exit_now(1)
            }
        }
    }

    fn assume_role(
        &self,
        spec: &ApplicationSpec,
        user: Option<&Credentials>,
    ) -> Result<(), Problem> {
        howdah_launch::begin_session(self.output.as_fd())?;
        handlers::disarm(&IGNORED_SIGNALS);
        howdah_launch::set_limits(spec)?;
        let environment = howdah_launch::environment(spec, user, &[]);
        let user = user.map(|credentials| User { credentials, has_groups: true });
        howdah_launch::assume_user(spec, user, Some(self.parent))?;
        let at_start = |error| Problem::of(format_args!("it cannot be started: {error}"));
        process::deny_tracing().map_err(at_start)?;
        environment::replace(&environment).map_err(at_start)?;
        howdah_launch::enter(spec, &self.executable, false)
    }
}

fn credentials_of(user: ProcessUser) -> Credentials {
    let ProcessUser { uid, gid, groups, name, home } = user;
    Credentials { uid, gid, groups, name, home }
}

/// Returns the reason why forks of this process would not be separate from each other, or could not
/// run an application. `before` are the descriptors that were open before PHP started.
fn obstacle(before: &OpenFiles) -> Option<String> {
    let threads = process::thread_count();
    if threads != 1 {
        return Some(format!("an extension has started {} threads", threads - 1));
    }
    let maps = fs::read_to_string("/proc/self/maps").ok();
    let Some(maps) = maps else { return Some("/proc/self/maps cannot be read".to_owned()) };
    if has_shared_memory(&maps) {
        return Some("an extension shares memory between processes, as APCu does".to_owned());
    }
    if let Some(opened) = OpenFiles::of_this_process().opened_since(before) {
        return Some(format!("an extension keeps {opened} open"));
    }
    None
}

/// Returns true if a process has memory that it could change together with others.
fn has_shared_memory(maps: &str) -> bool {
    maps.lines().any(|line| {
        let access = line.split_ascii_whitespace().nth(1).unwrap_or_default();
        access.contains('w') && access.ends_with('s')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_several_processes_can_change_is_found() {
        let line =
            |access: &str| format!("7f00-7f01 {access} 00000000 00:01 9 /dev/zero (deleted)\n");
        assert!(has_shared_memory(&[line("rw-p"), line("rw-s")].concat()));
        for access in ["rw-p", "r--s", "r-xp", "---p"] {
            assert!(!has_shared_memory(&line(access)), "{access}");
        }
    }
}
