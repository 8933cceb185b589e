//! Configuration of a site outside of its `.htaccess` files.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::allow::Allow;
use crate::memory::SiteMemory;
use crate::modules::mime::Types;
use crate::rewrite_map::RewriteMap;

/// Configuration of a site outside of its `.htaccess` files: Apache's as Debian ships it.
#[derive(Debug, Clone)]
pub struct Base {
    /// The directives that a `.htaccess` may have.
    pub allow: Allow,
    /// Index files of a directory.
    pub directory_index: Vec<Vec<u8>>,
    /// Words of an `Options` directive.
    pub options: String,
    /// Names of PHP's scripts, as a regular expression; `None` runs none.
    pub php_pattern: Option<String>,
    /// Modules beside those of the engine that `<IfModule>` takes for present, as words:
    /// `mod_deflate.c`.
    pub modules: &'static str,
    /// Names that `<IfDefine>` takes for defined, as words.
    pub defines: &'static str,
    /// Version for `<IfVersion>`.
    pub version: [u32; 3],
    /// Further directives of the base, as in a `.htaccess`. Rules of mod_rewrite and redirects are
    /// those of the server: they see the path of the URL, before a file is looked for.
    pub extra: String,
    /// Sections of the server's configuration, in their order.
    pub sections: Vec<Section>,
    /// Paths of URLs that lead to files elsewhere, in their order.
    pub aliases: Vec<Alias>,
    /// Maps that rules look values up in, by name.
    pub maps: BTreeMap<String, RewriteMap>,
    /// Media types by suffix.
    pub types: Arc<Types>,
    /// Memory that compiled files count in; `None` to count none.
    pub memory: Option<Arc<SiteMemory>>,
}

/// Kind of a [`Section`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// `<Directory>`: a directory and those below it; the path may have wildcards.
    Directory,
    /// `<DirectoryMatch>`: directories whose path matches an expression.
    DirectoryMatch,
    /// `<Location>`: paths of URLs; the path may have wildcards.
    Location,
    /// `<LocationMatch>`: paths of URLs that match an expression.
    LocationMatch,
}

/// A section of the server's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Kind of the pattern.
    pub kind: SectionKind,
    /// Path, or a regular expression for the kinds with `Match`.
    pub pattern: String,
    /// Directives, as in a `.htaccess`.
    pub directives: String,
    /// Whether the `.htaccess` files of the directory and those below it are read; `None` leaves
    /// the setting of the directory above.
    pub reads_files: Option<bool>,
}

/// A path of URLs that leads to files elsewhere (`Alias`, `AliasMatch`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alias {
    /// Path, or an expression.
    pub path: String,
    /// The path is an expression.
    pub is_expression: bool,
    /// Path of the files; behind an expression with `$1` to `$9`.
    pub target: String,
    /// The directory that all of them are in, without a slash at its end.
    pub root: String,
}

impl Base {
    /// Returns true if another base has the same directives. What files may have, and the memory
    /// that they count in, does not concern them.
    pub(crate) fn has_same_directives(&self, other: &Base) -> bool {
        let Base {
            allow: _,
            directory_index,
            options,
            php_pattern,
            modules,
            defines,
            version,
            extra,
            sections,
            aliases,
            maps,
            types,
            memory: _,
        } = self;
        *directory_index == other.directory_index
            && *options == other.options
            && *php_pattern == other.php_pattern
            && *modules == other.modules
            && *defines == other.defines
            && *version == other.version
            && *extra == other.extra
            && *sections == other.sections
            && *aliases == other.aliases
            && *maps == other.maps
            && Arc::ptr_eq(types, &other.types)
    }
}

impl Default for Base {
    fn default() -> Base {
        Base {
            allow: Allow::all(),
            directory_index: vec![b"index.html".to_vec(), b"index.php".to_vec()],
            options: "Indexes FollowSymLinks".to_owned(),
            php_pattern: Some(r".+\.ph(?:ar|p|tml)$".to_owned()),
            modules: DEBIAN_MODULES,
            defines: "FOREGROUND",
            version: [2, 4, 71],
            extra: String::new(),
            sections: Vec::new(),
            aliases: Vec::new(),
            maps: BTreeMap::new(),
            types: built_in_types(),
            memory: None,
        }
    }
}

/// Further modules that Debian has built in or turns on.
const DEBIAN_MODULES: &str = "
    mod_log_config.c log_config_module mod_logio.c logio_module mod_unixd.c unixd_module
    mod_watchdog.c watchdog_module mod_reqtimeout.c reqtimeout_module mod_status.c status_module
    prefork.c mpm_prefork_module
";
/// Returns the built-in media types, read once.
fn built_in_types() -> Arc<Types> {
    static TYPES: OnceLock<Arc<Types>> = OnceLock::new();
    TYPES.get_or_init(|| Arc::new(Types::built_in())).clone()
}
