//! `.htaccess`: requests to directories in which files of Apache's directives hold.
//!
//! `howdah_htaccess` has the directives and their order. This module is the server around it:
//!
//! - `site`: the settings of an application or a share, and the compiled files that threads share.
//! - `world`: the file system and the passwords, as the directives see them.
//! - `exchange`: a request becomes a record, and a record the head of a response.
//! - `answer`: files, scripts, pages and errors, in the order of the engine's outcome.

mod answer;
mod compiled;
mod exchange;
mod site;
mod world;

pub use self::answer::answer;
pub use self::compiled::Directives;
pub use self::site::{Engines, Site};
