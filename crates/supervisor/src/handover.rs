//! An upgrade: a server hands its listening sockets and its state over to a new start of its
//! program.
//!
//! [`Successor`] is the view of the server that is replaced, [`Predecessor`] that of the new one;
//! [`ToSuccessor`] has the messages and their order. Everything that the new server needs waits in
//! its socket before it starts. It therefore gets all of it even if the old one is killed
//! meanwhile.
//!
//! The socket has no name: only the new process inherits it. The program that is executed must be
//! one that no other user can change ([`Invocation::trusted`]).

mod invocation;
mod predecessor;
mod successor;

pub use self::invocation::Invocation;
pub(crate) use self::predecessor::Instruction;
pub use self::predecessor::Predecessor;
pub(crate) use self::successor::{Answer, State, Successor};

use howdah_wire::messages::HANDOVER_PROTOCOL;

/// Environment variable that tells a program that it replaces a server: the process id of the
/// program. A process that it starts has another id, and takes no notice.
const VARIABLE: &str = "HOWDAH_UPGRADE";

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Number of the socket in the new process.
const SOCKET: i32 = 3;

/// Checks the version of the messages of the other server. Error: the remedy.
fn check_protocol(protocol: u32, version: &str) -> Result<(), String> {
    if protocol == HANDOVER_PROTOCOL {
        Ok(())
    } else {
        Err(format!(
            "howdah {version} hands over with protocol {protocol}, howdah {VERSION} with protocol \
             {HANDOVER_PROTOCOL}; end the server and start the other version in its place"
        ))
    }
}
