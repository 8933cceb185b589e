//! Apache's modules, one file or directory each: configuration, directives, and what they do to a request.

use crate::directive::Directive;

pub mod accept_list;
pub mod access_compat;
pub mod alias;
pub mod auth_basic;
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
pub mod support;
#[cfg(test)]
pub(crate) mod testing;

/// A module, as `<IfModule>` and the table of directives see it.
#[derive(Debug)]
pub struct Module {
    /// Name of its source: `mod_dir.c`.
    pub file: &'static str,
    /// Name in `LoadModule`: `dir_module`.
    pub identifier: &'static str,
    /// Directives of the module.
    pub directives: &'static [Directive],
}

/// All modules of the engine.
pub static MODULES: &[Module] = &[
    module("core.c", "core_module", core::DIRECTIVES),
    module("mod_access_compat.c", "access_compat_module", access_compat::DIRECTIVES),
    module("mod_alias.c", "alias_module", alias::DIRECTIVES),
    module("mod_auth_basic.c", "auth_basic_module", auth_basic::DIRECTIVES),
    module("mod_authn_core.c", "authn_core_module", &[]),
    module("mod_authn_file.c", "authn_file_module", authn_file::DIRECTIVES),
    module("mod_authz_core.c", "authz_core_module", authz::DIRECTIVES),
    module("mod_authz_groupfile.c", "authz_groupfile_module", authz_groupfile::DIRECTIVES),
    module("mod_authz_host.c", "authz_host_module", &[]),
    module("mod_authz_user.c", "authz_user_module", &[]),
    module("mod_autoindex.c", "autoindex_module", autoindex::DIRECTIVES),
    module("mod_dir.c", "dir_module", dir::DIRECTIVES),
    module("mod_env.c", "env_module", env::DIRECTIVES),
    module("mod_expires.c", "expires_module", expires::DIRECTIVES),
    module("mod_deflate.c", "deflate_module", &[]),
    module("mod_filter.c", "filter_module", filter::DIRECTIVES),
    module("mod_headers.c", "headers_module", headers::DIRECTIVES),
    module("mod_mime.c", "mime_module", mime::DIRECTIVES),
    module("mod_negotiation.c", "negotiation_module", negotiation::DIRECTIVES),
    module("mod_php.c", "php_module", php::DIRECTIVES),
    module("mod_rewrite.c", "rewrite_module", rewrite::DIRECTIVES),
    module("mod_setenvif.c", "setenvif_module", setenvif::DIRECTIVES),
    module("mod_so.c", "so_module", &[]),
    module("mod_version.c", "version_module", &[]),
    module("http_core.c", "http_module", &[]),
];

const fn module(
    file: &'static str,
    identifier: &'static str,
    directives: &'static [Directive],
) -> Module {
    Module { file, identifier, directives }
}
