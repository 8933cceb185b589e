//! Compiles the bytes of a `.htaccess`.
//!
//! 1. [`lines`] joins continuation lines.
//! 2. [`words`] divides a line.
//! 3. [`tree`] nests sections and resolves `<IfModule>` and its kin.
//! 4. [`compiler`] runs the directives of the tree in order; [`sections`] does so for sections that
//!    hold for some requests only.
//!
//! The first error ends the work, as in Apache.

mod compiler;
mod conditions;
mod failure;
mod lines;
pub mod review;
mod section_kind;
mod sections;
mod tree;

use crate::base::Base;
use crate::budget;
use crate::config::DirConfig;
use crate::world::Broken;
use compiler::{Compiler, Scope};
use failure::Failure;
use tree::Reader;

/// Largest file in bytes.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Compiles the bytes of a file. `path` is for messages; `directory` is the absolute path of the
/// directory that the file is in, with a slash at the end; `exists` says whether there is something
/// at an absolute path (`<IfFile>`).
///
/// # Errors
///
/// The first error, with the file, the line and Apache's text: requests below the directory fail
/// with 500.
pub fn compile(
    bytes: &[u8],
    path: &[u8],
    directory: &[u8],
    base: &Base,
    exists: &dyn Fn(&[u8]) -> bool,
) -> Result<DirConfig, Broken> {
    let file = String::from_utf8_lossy(path).into_owned();
    let broken =
        |failure: Failure| Broken::new(format!("{file}: line {}: {}", failure.line, failure.text));
    if bytes.len() > MAX_FILE_BYTES {
        return Err(broken(Failure::new(0, "the file is too large")));
    }
    let allow = base.allowed_in(directory);
    let mut reader = Reader::new(bytes, &file, base, allow, exists);
    let nodes = reader.tree().map_err(broken)?;
    let mut compiler = Compiler { file: &file, directory, allow, warnings: Vec::new() };
    let run = || {
        let mut config = DirConfig::default();
        (compiler.run(&nodes, &mut config, Scope::default()), config)
    };
    let ((result, mut config), bytes, exceeded) = budget::limited(base.memory.as_ref(), run);
    let line = result.as_ref().map_or_else(|failure| failure.line, |()| 0);
    // A module may have replaced the reason with its own, or continue without a pattern.
    exceeded.map_or(result, |limit| Err(Failure::new(line, limit))).map_err(broken)?;
    config.size += bytes;
    config.probes = std::mem::take(&mut reader.probes);
    config.warnings = compiler.warnings;
    Ok(config)
}

#[cfg(test)]
mod tests;
