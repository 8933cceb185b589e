//! nginx: a main file, a file of `sites-available`, or the output of `nginx -T` → a document.
//!
//! 1. [`lexer`] and [`reader`] read files and includes into a tree of directives.
//! 2. [`grammar`] checks it as nginx does at a start, and knows what needs no conversion.
//! 3. [`server`] chooses the server of a request, [`locations`] its location.
//! 4. [`rewrite`] carries out `set`, `if`, `rewrite` and `return` in their order.
//! 5. [`content`] answers: with files, or by [`fastcgi`] and [`proxy`], behind [`access`], with
//!    the [`options`] of the place.
//!
//! 6. [`streams`] and [`mail`] convert the blocks of these names.
//!
//! Values of variables that the configuration sets are put in where they are used ([`variables`]),
//! because a document has no variables that change in the course of a request.

use std::path::Path;

use crate::{Error, Import, Options, Report, Source};

mod access;
mod arguments;
mod cache;
mod conditions;
mod content;
mod context;
mod convert;
mod document;
mod dump;
mod error_pages;
mod fastcgi;
mod files;
mod geo;
mod grammar;
mod headers;
mod hoist;
mod lexer;
mod limits;
mod listen;
mod locations;
mod logs;
mod mail;
mod media_types;
mod options;
mod passwords;
mod pcre;
mod proxy;
mod reader;
mod referer;
mod replacements;
mod returns;
mod rewrite;
mod samples;
mod scope;
mod secure_link;
mod server;
mod session_parts;
mod settings;
mod state;
mod steps;
mod streams;
mod tables;
mod template;
mod tls;
mod undefined;
mod units;
mod upstream;
mod variables;

/// Imports a configuration of nginx. Requests that it passes to a pool of PHP-FPM that is
/// imported, too, are handled by an application of type `php`.
pub fn import(file: &Path, options: &Options, source: &mut Source) -> Result<Import, Error> {
    let mut report = Report::default();
    let directory = file.parent().map(Path::to_owned).unwrap_or_default();
    let tree = reader::Reader::new(source, &mut report, directory).read(file)?;
    let pools = crate::php_fpm::read(&options.pools, source, &mut report)?;
    document::convert(&tree, file, options.root.as_deref(), pools, report)
}

#[cfg(test)]
mod tests;
