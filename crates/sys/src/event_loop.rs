//! The event loop of an unprivileged process: the router, control, mail and telemetry processes.

use std::io;

use tokio::runtime::{Builder, LocalOptions};

use crate::signals;

/// Runs a process in an event loop on this thread, until `serving` has ended. Logs its error with
/// the name of the process. Returns the exit status.
pub fn run(process: &str, serving: impl Future<Output = io::Result<()>>) -> u8 {
    signals::ignore_pipe();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let served = runtime.and_then(|runtime| {
        let served = runtime.block_on(serving);
        // A helper thread may wait for a disk that does not answer.
        runtime.shutdown_background();
        served
    });
    match served {
        Ok(()) => 0,
        Err(error) => {
            crate::eprintln!("howdah: {process}: {error}");
            1
        }
    }
}
