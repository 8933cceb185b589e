//! Going to the background.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use howdah_sys::process::{self, Forked};

/// Continues in the background: returns, in the process there, the descriptor that tells the one
/// in the foreground that the site is served. That one waits for this and ends with the status
/// that its caller wants to know.
pub fn detach() -> std::io::Result<OwnedFd> {
    let (wait, serving) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    if let Forked::Parent(_) = process::fork()? {
        drop(serving);
        let mut word = String::new();
        let served = File::from(wait).read_to_string(&mut word).is_ok() && word == "ok";
        process::exit_now(i32::from(!served));
    }
    drop(wait);
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    Ok(serving)
}

/// Lets go of the terminal, once there is nothing more to tell it.
pub fn leave_terminal() -> std::io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    process::standard_streams(null.as_fd(), null.as_fd())
}
