//! The machine.

/// Returns the name of the machine.
pub fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
