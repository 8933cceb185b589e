//! Translation of a site's `.htaccess` files into a document with routes.
//!
//! 1. [`folder`] sorts the directives of each file: access, sections, rules, redirects, settings.
//! 2. [`access`], [`rules`], [`redirects`] and [`fields`] translate them, with [`condition`] for `RewriteCond` and
//!    [`pcre`] for patterns.
//! 3. [`entry`] puts access control together, [`document`] everything else, in Apache's order. [`index`] adds what
//!    rules say about index files, with [`residual`] for their patterns.
//!
//! Routes can do less than Apache. What does not convert is a [`Note`]. A directive that denies something and
//! does not convert becomes a refusal of everything that it may deny: a document never opens what the files
//! close.
#![forbid(unsafe_code)]

mod access;
mod condition;
mod conditions;
mod document;
mod entry;
mod fields;
mod folder;
mod index;
mod matching;
mod notes;
mod pcre;
mod redirects;
mod residual;
mod rounds;
mod rules;
mod script_names;
mod site;
mod template;
mod tree;
mod variants;

#[cfg(test)]
mod closed_tests;
#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod tests;

pub use self::notes::{Kind, Note};
pub use self::site::{Conversion, File, Site};

/// Converts a site.
pub fn convert(site: &Site<'_>) -> Conversion {
    document::convert(site)
}
