//! The meaning of texts of the configuration for a request: strings with variables, patterns, and
//! their captured groups.
//!
//! This crate does not read the configuration; errors say why a text has no meaning. It opens no
//! file. Texts of the configuration and of requests are untrusted: none causes a panic.
#![forbid(unsafe_code)]

mod captures;
pub mod geo_database;
mod groups;
pub mod networks;
mod pattern;
pub mod php_name;
mod shown;
mod substitution;
mod template;

pub use captures::Captures;
pub use groups::{Group, Groups};
pub use pattern::{Pattern, PatternError, Patterns, RequiredTexts, Subject};
pub use shown::Shown;
pub use substitution::{MAX_RESULT_BYTES, Substitution, SubstitutionError};
pub use template::{
    Defined, DefinedVariables, MAX_WEIGHT, Part, SecureLink, SslVariable, Table, Template,
    TemplateError, UpstreamVariable, Variable, names, split_name,
};
