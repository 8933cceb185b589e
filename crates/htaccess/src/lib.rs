//! Apache's `.htaccess` files: parsed once, merged along the directories of a path, applied to a
//! request in the order of Apache's phases.
//!
//! The crate knows neither sockets nor the server: a [`record::Record`] is the request, a
//! [`world::World`] is the file system and everything that takes time. The behaviour is that of
//! Apache 2.4 with `AllowOverride All`.
//!
//! - [`config::DirConfig`] has the directives that hold for a directory, a slot for each module.
//! - [`modules`] has the directives, one module of Apache each, and their effects on a request;
//!   [`registry`] lists them.
//! - [`parse`] turns the bytes of a file into a [`config::DirConfig`]: lines, words, sections,
//!   directives.
//! - [`phases`] runs the modules in Apache's order.
//! - [`engine`] is the entrance for a server.
#![forbid(unsafe_code)]

pub mod allow;
pub mod base;
mod budget;
pub mod config;
pub mod directive;
pub mod engine;
pub mod expr;
pub mod handler_name;
pub mod memory;
pub mod merge;
mod method;
pub mod modules;
pub mod options;
pub mod outcome;
pub mod parse;
pub mod phases;
pub mod query;
mod reading;
pub mod record;
pub mod regex;
pub mod registry;
pub mod rewrite_map;
pub mod server_config;
mod site;
mod support;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod uri;
mod words;
pub mod work;
pub mod world;
