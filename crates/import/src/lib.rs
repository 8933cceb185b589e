//! The import of other servers' configurations.
//!
//! An importer reads the files of one server, writes a [document](Import::document) of Howdah, and
//! gives each directive of the input exactly one entry in a [report](Report). Nothing is executed,
//! and no name is resolved. Two rules hold for all importers:
//!
//! 1. A request that depends on a directive gets another response than from the original only if
//!    the report says [`Status::Changed`] or [`Status::NotConverted`].
//! 2. What the original refuses is refused by the document, even where the directive cannot be
//!    converted: then the document closes the place.
#![forbid(unsafe_code)]

pub mod apache;
pub mod command;
mod error;
pub mod layout;
pub mod nginx;
pub mod php_fpm;
mod report;
pub mod shorten;
pub mod sites;
mod source;
pub mod unit;

pub use error::Error;
pub use report::{Entry, Id, Report, Status};
pub use source::Source;

/// What an importer has made of a configuration.
#[derive(Debug)]
pub struct Import {
    /// The document, in the grammar of Howdah.
    pub document: serde_json::Value,
    /// One entry for each directive of the input.
    pub report: Report,
}

/// What the command line says about an import, beside the files.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// The directory below which absolute paths of the configuration are read (`--root`).
    pub root: Option<std::path::PathBuf>,
    /// Files of PHP-FPM's pools, or directories with them (`--fpm`).
    pub pools: Vec<std::path::PathBuf>,
}
