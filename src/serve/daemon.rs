//! Runs the server in the background.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::process::{self, Forked};

/// Forks and returns in the child, which has no terminal, a descriptor. The parent waits until `ok`
/// is written to it, calls `on_served` and exits with status 0; it exits with 1 if the descriptor
/// is closed before.
pub fn detach(on_served: impl FnOnce()) -> std::io::Result<OwnedFd> {
    let (wait, serving) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    if let Forked::Parent(_) = process::fork()? {
        drop(serving);
        let mut word = String::new();
        let served = File::from(wait).read_to_string(&mut word).is_ok() && word == "ok";
        if served {
            on_served();
        }
        process::exit_now(i32::from(!served));
    }
    drop(wait);
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    Ok(serving)
}

/// Replaces standard input, output and error, which may be a terminal, with `/dev/null`.
pub fn leave_terminal() -> std::io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    process::set_standard_streams(null.as_fd(), null.as_fd())
}
