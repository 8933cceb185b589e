//! Apache's modules, one file or directory each: configuration, directives, and their effects on a
//! request.

pub mod accept_list;
pub mod access_compat;
pub mod alias;
pub mod auth_basic;
pub mod auth_file;
pub mod authn_file;
pub mod authz;
pub mod authz_groupfile;
pub mod autoindex;
pub mod core;
pub mod dir;
pub mod env;
pub mod expires;
pub mod filter;
pub mod headers;
#[cfg(test)]
mod hostile_tests;
pub mod mime;
pub mod negotiation;
pub mod pattern;
pub mod php;
pub mod rewrite;
pub mod services;
pub mod setenvif;
#[cfg(test)]
pub(crate) mod testing;
