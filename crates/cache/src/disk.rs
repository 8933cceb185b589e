//! A file for stored responses, beside the memory of a store: more of them than the memory takes,
//! and after a restart.
//!
//! 1. The supervisor opens and locks the file; until then, and while the file is read, only memory
//!    is used. Responses that are removed meanwhile are removed from the file too.
//! 2. Each stored response is written by one thread: its content, the lines of its chunks in the
//!    table, and at last the first line, which makes it exist. Threads of requests only write
//!    single lines: those of removed objects, and purges.
//! 3. Responses that are not in memory are read by a helper thread, and compared with their
//!    checksums. Small responses go into memory again, large ones are sent from the file.
//! 4. If the disk is full, responses are not written. If a removal or purge cannot be written, the
//!    file is emptied and not used any more.
//!
//! [`crate::space`] has the chunks of the file, and the content in them.
//!
//! | module | content |
//! | --- | --- |
//! | `record`, `journal` | bytes; no I/O |
//! | `index` | which object has a key, and which one makes room |
//! | `file` | the file as threads of requests use it |
//! | `front` | the store that the file belongs to |
//! | `opening`, `writing` | the thread of the file |
//! | `trouble` | why responses are not kept in the file |

pub mod file;
pub mod front;
mod index;
pub mod journal;
mod opening;
pub mod record;
mod trouble;
pub mod writing;

#[cfg(test)]
mod tests;
