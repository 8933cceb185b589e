//! The mail process: delivers the messages of applications over SMTP.
//!
//! The supervisor starts it when an application submits the first message. It has the server's own
//! user, no capabilities, and may open no files but those of name resolution and the system's
//! authorities. It gets each submission with the application's name and mail server; a script
//! reaches it through the two pipes of the submission alone. It keeps no message: the text goes
//! from one connection to the other in pieces. The supervisor keeps the numbers of recipients, so
//! the end of the process ends no limit.
//!
//! 1. [`process`]: takes submissions, counts them, and ends when there are none.
//! 2. [`delivery`]: one submission, from the envelope to the answer.
//! 3. [`session`]: a conversation with a mail server; [`reply`]: its replies.
//! 4. [`usage`]: recipients in an hour; [`unreachable`]: servers that have just not answered.
//! 5. [`socket`]: the supervisor; [`frames`]: messages on the pipes; [`mailbox`]: a file in place
//!    of a mail server.

#![forbid(unsafe_code)]

mod delivery;
mod frames;
mod mailbox;
mod process;
pub mod reply;
mod session;
mod socket;
mod unreachable;
mod usage;

pub use process::run;
