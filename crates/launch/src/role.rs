//! The steps from a fork to a process of an application.

use std::fs::File;
use std::os::fd::BorrowedFd;

use howdah_sys::credentials::Credentials;
use howdah_sys::process::{self, Resource};
use howdah_sys::signals;
use howdah_wire::messages::{ApplicationSpec, Problem};
use rustix::fs::Mode;

use crate::{open_files, output_file, sandbox};

/// The user that a process becomes.
#[derive(Debug, Clone, Copy)]
pub struct User<'a> {
    /// User and groups.
    pub credentials: &'a Credentials,
    /// False in a user namespace that was created without privileges: supplementary groups cannot
    /// be set there.
    pub has_groups: bool,
}

/// Resets signals, redirects the standard streams to a pipe, and begins a session: no controlling
/// terminal, and a scheduling group of its own if the kernel schedules by session.
pub fn begin_session(output: BorrowedFd<'_>) -> Result<(), Problem> {
    signals::reset();
    process::set_standard_streams(output, output).map_err(unstartable)?;
    rustix::process::setsid().map_err(unstartable)?;
    Ok(())
}

/// Sets the limit of open files, the configured limits, the priority and the umask.
pub fn set_limits(spec: &ApplicationSpec) -> Result<(), Problem> {
    if spec.rlimits.iter().any(|(name, _)| name == "nofile") {
        open_files::restore().map_err(unstartable)?
    } else {
        open_files::restore_for_application().map_err(unstartable)?
    }
    for (name, limit) in &spec.rlimits {
        set_limit(name, *limit)
            .map_err(|error| Problem::at(format!("limits/rlimits/{name}"), error))?;
    }
    if let Some(nice) = spec.priority.and_then(|priority| i32::try_from(priority).ok()) {
        set_priority(nice - 20).map_err(|error| Problem::at("priority", error))?;
    }
    if let Some(umask) = spec.umask {
        rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    }
    Ok(())
}

fn set_priority(nice: i32) -> std::io::Result<()> {
    rustix::process::setpriority_process(None, nice)?;
    // Where the kernel schedules by session, the value of the session counts beside other sessions.
    let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
    Ok(())
}

/// Becomes the user (`None`: that of this process), without capabilities. From then on the process
/// ends with `parent`; `None` if the parent is in another process namespace.
pub fn assume_user(
    spec: &ApplicationSpec,
    user: Option<User<'_>>,
    parent: Option<u32>,
) -> Result<(), Problem> {
    assume(spec.isolation.new_privileges, user).map_err(unstartable)?;
    process::die_with_parent(parent);
    Ok(())
}

fn assume(new_privileges: bool, user: Option<User<'_>>) -> std::io::Result<()> {
    if new_privileges {
        process::keep_right_to_restrict_itself()?
    } else {
        process::drop_bounding_set()
    }
    match user {
        Some(User { credentials, has_groups: true }) => credentials.assume()?,
        Some(User { credentials, has_groups: false }) => credentials.assume_without_groups()?,
        None => {}
    }
    if new_privileges {
        process::drop_capabilities_but_to_restrict_itself()
    } else {
        process::drop_capabilities().and_then(|()| process::no_new_privileges())
    }
}

/// Opens the output files, changes to the working directory and enters the sandbox. `executable` is
/// the program `howdah-php`. `is_dry_run`: files are only checked, and none is created.
pub fn enter(spec: &ApplicationSpec, executable: &File, is_dry_run: bool) -> Result<(), Problem> {
    for (key, path, target) in [("stdout", &spec.stdout, 1), ("stderr", &spec.stderr, 2)] {
        let Some(path) = path else { continue };
        let redirected = if is_dry_run {
            output_file::check(path)
        } else {
            output_file::open(path).and_then(|file| process::duplicate_to(&file, target))
        };
        redirected.map_err(|error| Problem::at(key, format_args!("{path}: {error}")))?;
    }
    if let Some(directory) = &spec.working_directory {
        std::env::set_current_dir(directory).map_err(|error| {
            Problem::at("working_directory", format_args!("{directory}: {error}"))
        })?;
    }
    sandbox::enter(spec, executable)?;
    process::drop_capabilities().map_err(unstartable)
}

fn set_limit(name: &str, limit: Option<u64>) -> std::io::Result<()> {
    let resource = match name {
        "as" => Resource::As,
        "core" => Resource::Core,
        "data" => Resource::Data,
        "fsize" => Resource::Fsize,
        "memlock" => Resource::Memlock,
        "nofile" => Resource::Nofile,
        "nproc" => Resource::Nproc,
        "stack" => Resource::Stack,
        _ => return Err(std::io::Error::other(format!("there is no limit \"{name}\""))),
    };
    process::limit(resource, limit)
}

fn unstartable(error: impl std::fmt::Display) -> Problem {
    Problem::of(format_args!("it cannot be started: {error}"))
}
