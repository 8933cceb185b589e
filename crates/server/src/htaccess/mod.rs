//! `.htaccess`: requests to directories in which files of Apache's directives hold.
//!
//! `howdah_htaccess` has the directives and their order. This module is the server around it:
//!
//! - `site`: the settings of an application or a share, and the compiled files that threads share.
//! - `allowance`: the processor time that the directives of a site may take from other sites.
//! - `world`: the file system and the passwords, as the directives see them.
//! - `lookups`: what takes time: files that are read, passwords and groups.
//! - `compiling`: files of directives are compiled, on other threads.
//! - `exchange`: a request becomes a record, and a record the head of a response.
//! - `head`: heads that are made once, of answers that depend on a file alone.
//! - `answer`: files, scripts, pages and errors, in the order of the engine's outcome.

mod allowance;
mod answer;
mod compiled;
mod compiling;
mod exchange;
mod head;
mod lookups;
mod site;
mod world;

pub use self::answer::{answer, answer_from_known};
pub use self::compiled::KnownDirectives;
pub use self::head::Head;
pub use self::site::{Engines, Site};
pub use self::world::known;
