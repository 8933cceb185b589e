//! Advice of `howdah check`, the control API and the start of the server about a document beyond
//! its errors, and the document of a directory.
//!
//! [`parse`] adds the equivalents of names that other servers have to the errors of a document;
//! [`advise`] finds settings that are legal and nearly always a mistake; [`detect`] recognises the
//! site in a directory. The process that serves requests uses none of it.
#![forbid(unsafe_code)]

pub mod detect;
mod document;
mod foreign;

pub use document::{Advice, advise, obstructed_listeners};
pub use foreign::{explained, parse};
