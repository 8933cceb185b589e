//! The steps from the options to a server that can start its processes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use howdah_sys::log::{Level, Log};
use howdah_sys::{process, process_tree, signals};

use super::state::Tree;
use super::succession;
use crate::descriptor_store::DescriptorStore;
use crate::grants::Grants;
use crate::options::{LogTarget, Options};
use crate::passed_socket::InheritedSocket;
use crate::pid_file::PidFile;
use crate::sockets::Sockets;
use crate::{control_groups, store};
use howdah_launch::open_files;

/// Backlog of the control socket, in connections.
pub(super) const CONTROL_BACKLOG: u32 = 64;

/// Mode of the control socket: only the server's user can connect.
pub(super) const CONTROL_MODE: u32 = 0o600;

/// Backlog of the socket for users of sites, in connections: one user must not fill it for others.
pub(super) const SITE_USERS_BACKLOG: u32 = 1024;

/// Mode of the socket for users of sites: the kernel says who they are.
pub(super) const SITE_USERS_MODE: u32 = 0o666;

/// Opens the log, claims the PID file and binds the control socket. Returns the state of the event
/// loop and the descriptor that signals are read from.
pub(super) fn start(mut options: Options) -> Result<(Tree, OwnedFd), String> {
    process::deny_tracing()
        .map_err(|error| format!("cannot keep other processes from tracing the server: {error}"))?;
    open_files::raise();
    let document = std::mem::take(&mut options.document);
    let grants = match &options.grants {
        Some(derive) => derive(&document)?,
        None => Grants::default(),
    };
    let signals = handled_signals()?;
    let log = open_log(&options)?;
    let predecessor = options.predecessor.take();
    if let Some(predecessor) = &predecessor {
        succession::inherit(predecessor, &mut options, &grants)?;
    }
    let mut sockets = Sockets::at_start();
    sockets.store_at(DescriptorStore::new(options.notifier.clone()));
    for InheritedSocket { fd, name, owner } in std::mem::take(&mut options.inherited) {
        if let Err(problem) = sockets.inherit(fd, &name, owner) {
            options.warnings.push(format!("inherited descriptor \"{name}\" is closed: {problem}"));
        }
    }
    // Before any address: a second server with the same settings has the same PID file and control
    // socket.
    let claim = |path: &PathBuf| {
        PidFile::claim(path)
            .map_err(|error| format!("cannot write the PID file {}: {error}", path.display()))
    };
    let own_pid_file = options.pid.as_ref().filter(|_| predecessor.is_none());
    let pid_file = own_pid_file.map(claim).transpose()?;
    if let Some(control) = &options.control {
        sockets.bind(control, CONTROL_BACKLOG, CONTROL_MODE)?;
    }
    control_groups::begin();
    let must_start = options.control.is_none();
    if must_start {
        match sockets.bind_first(&options.default_controls, CONTROL_BACKLOG, CONTROL_MODE) {
            Ok(bound) => options.control = bound,
            Err(problem) => options.warnings.push(format!("there is no control socket: {problem}")),
        }
    }
    if let Some(address) = &options.site_users
        && let Err(problem) = sockets.bind(address, SITE_USERS_BACKLOG, SITE_USERS_MODE)
    {
        options.warnings.push(format!("users of sites cannot ask about them: {problem}"));
        options.site_users = None;
    }
    sockets.stop_waiting();
    for warning in &options.warnings {
        log.write(Level::Warn, format_args!("{warning}"));
    }
    let mut tree = Tree::new(options, log, document, grants);
    tree.can_be_corrected = !must_start;
    if let Some(reason) = tree.options.refused.take() {
        tree.log.write(Level::Alert, format_args!("{reason}"));
        tree.source_read(reason);
    }
    tree.sockets = sockets;
    tree.pid_file = pid_file;
    tree.succeed(predecessor)?;
    // Orphans of applications become children of this process, so that it can end them.
    if let Err(error) = process_tree::adopt_orphans() {
        tree.log.write(
            Level::Warn,
            format_args!("orphaned processes of applications cannot be ended: {error}"),
        );
    }
    Ok((tree, signals))
}

fn handled_signals() -> Result<OwnedFd, String> {
    signals::descriptor(&[
        signals::SIGCHLD,
        signals::SIGTERM,
        signals::SIGINT,
        signals::SIGQUIT,
        signals::SIGHUP,
        signals::SIGUSR1,
        signals::SIGUSR2,
    ])
    .map_err(|error| format!("cannot receive signals: {error}"))
}

fn open_log(options: &Options) -> Result<Log, String> {
    let log = match &options.log {
        LogTarget::File(path) => store::open_log(path)
            .map(|file| Log::passed(file).named(path.display().to_string()))
            .map_err(|error| format!("cannot open the log {}: {error}", path.display())),
        LogTarget::Journal => Log::journal()
            .map_err(|error| format!("cannot log to the journal: {error}; name a file with --log")),
        LogTarget::StandardError => Log::standard_error().map_err(|error| {
            format!("cannot log to standard error: {error}; name a file with --log")
        }),
    }?;
    Ok(match options.log_level {
        Some(threshold) => log.limited_to(threshold),
        None => log,
    })
}
