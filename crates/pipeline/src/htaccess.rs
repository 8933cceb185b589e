//! `.htaccess`: requests to directories in which files of Apache's directives hold.
//!
//! `howdah_htaccess` has the directives and their order, [`howdah_routing::htaccess_state`] the
//! state of a site between requests. This module takes one request through them:
//!
//! - `answer`: the phases of the engine, and the effect of its outcome.
//! - `response`: responses with files and errors, and the fields that directives change.
//! - `script`: scripts, which the pipeline runs.
//! - `world`: the file system and the passwords, as the directives see them.
//! - `lookups`: results that take time: files that are read, passwords and groups.
//! - `compiling`: files of directives are compiled, on other threads.
//! - `exchange`: a request becomes a record, and a record the head of a response.

mod answer;
mod compiling;
mod exchange;
mod lookups;
mod response;
mod script;
mod world;

pub use self::answer::{Answered, Reply, SiteRequest, file_with_known_head};
pub use self::script::ScriptRun;
pub use self::world::{Known, known};
