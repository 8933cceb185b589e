//! Configuration of a site outside of its `.htaccess` files.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use howdah_text::wildcard::{self, Rules};

use crate::allow::Allow;
use crate::memory::SiteMemory;
use crate::modules::mime::Types;
use crate::rewrite_map::RewriteMap;

/// Configuration of a site outside of its `.htaccess` files: Apache's as Debian ships it.
#[derive(Debug, Clone)]
pub struct Base {
    /// The directives that a `.htaccess` may have, unless a section says something else.
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
    /// What these files may have, of a [`SectionKind::Directory`]; `None` leaves it to the directory
    /// above.
    pub allow: Option<Allow>,
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

impl Section {
    /// Returns the pattern; that of a directory has a slash at its end.
    pub(crate) fn path(&self) -> Vec<u8> {
        let mut path = self.pattern.clone().into_bytes();
        if self.kind == SectionKind::Directory && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path
    }
}

impl Base {
    /// Returns what the `.htaccess` file of a directory, which has a slash at its end, may have: what
    /// the last of the deepest sections says that the directory is in (`AllowOverride`).
    pub(crate) fn allowed_in(&self, directory: &[u8]) -> &Allow {
        let mut found = (0, &self.allow);
        for section in self.sections.iter().filter(|own| own.kind == SectionKind::Directory) {
            let Some(allow) = &section.allow else { continue };
            let path = section.path();
            let depth = slashes(&path);
            let mut ends = memchr::memchr_iter(b'/', directory);
            let Some(end) = depth.checked_sub(1).and_then(|depth| ends.nth(depth)) else {
                continue;
            };
            let above = &directory[..=end];
            let is_meant = if wildcard::is_pattern(&path) {
                is_wildcard_of(&path, above)
            } else {
                path == above
            };
            if depth >= found.0 && is_meant {
                found = (depth, allow);
            }
        }
        found.1
    }

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
/// Rules of wildcards in the paths of sections.
const RULES: Rules =
    Rules { has_classes: true, has_escapes: true, is_path: true, ignores_case: false };

/// Longest path that a wildcard is tried on.
const MAX_WILDCARD_BYTES: usize = 4096;

/// Returns true if a path of a section with wildcards stands for a path.
pub(crate) fn is_wildcard_of(pattern: &[u8], path: &[u8]) -> bool {
    path.len() <= MAX_WILDCARD_BYTES && wildcard::matches(pattern, path, RULES)
}

/// Returns the number of slashes, by which sections of directories are sorted.
pub(crate) fn slashes(path: &[u8]) -> usize {
    path.iter().filter(|byte| **byte == b'/').count()
}

/// Returns the built-in media types, read once.
fn built_in_types() -> Arc<Types> {
    static TYPES: OnceLock<Arc<Types>> = OnceLock::new();
    TYPES.get_or_init(|| Arc::new(Types::built_in())).clone()
}
