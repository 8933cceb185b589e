//! Directives of a directory, a section or a whole chain of directories, compiled.

use std::sync::OnceLock;

use crate::budget;
use crate::memory::Charges;
use crate::modules;
use crate::shared::Shared;

/// Methods of a `<Limit>` or `<LimitExcept>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Names in upper case; `HEAD` is `GET`.
    pub names: Vec<Vec<u8>>,
    /// True for `<LimitExcept>`: all methods but these.
    pub is_except: bool,
}

impl Methods {
    /// Returns true if a method of a request is among them. `HEAD` counts as `GET`.
    pub fn contains(&self, method: &[u8]) -> bool {
        let method = if method == b"HEAD" { b"GET" } else { method };
        self.names.iter().any(|name| name == method) != self.is_except
    }

    /// Returns the methods that are in both, for sections inside of each other.
    pub(crate) fn both(&self, other: &Methods) -> Methods {
        let keep = |from: &Methods, by: &Methods| Methods {
            names: from.names.iter().filter(|name| by.contains(name)).cloned().collect(),
            is_except: false,
        };
        match (self.is_except, other.is_except) {
            (true, true) => Methods {
                names: self.names.iter().chain(&other.names).cloned().collect(),
                is_except: true,
            },
            (false, _) => keep(self, other),
            (true, false) => keep(other, self),
        }
    }
}

/// Declares [`DirConfig`]: a line for each module.
macro_rules! modules {
    ($($module:ident,)*) => {
        /// Compiled directives, a field for each module. Each module has a type `Config` with `Default` and
        /// `fn merged(&self, child: &Config) -> Config`, which returns the parent for a child without directives.
        #[derive(Debug, Clone)]
        pub struct DirConfig {
            $(
                /// Directives of the module.
                pub $module: Shared<modules::$module::Config>,
            )*
            /// Notes for the log: directives that are ignored.
            pub warnings: Vec<String>,
            /// Files that `<IfFile>` asked for, and whether they were there.
            pub probes: Vec<(Vec<u8>, bool)>,
            /// Approximate memory in bytes that no other configuration shares.
            pub size: usize,
            /// Files that this configuration has something of.
            pub charges: Charges,
        }

        impl Default for DirConfig {
            fn default() -> DirConfig {
                // Sections of a file, too: they may outlive the rest of it.
                let charges = Charges::of(budget::charge());
                DirConfig { charges, ..DirConfig::none().clone() }
            }
        }

        impl DirConfig {
            /// Returns a configuration without directives. Its modules are those of all that have none.
            fn none() -> &'static DirConfig {
                static NONE: OnceLock<DirConfig> = OnceLock::new();
                NONE.get_or_init(|| DirConfig {
                    $($module: Shared::default(),)*
                    warnings: Vec::new(),
                    probes: Vec::new(),
                    size: size_of::<DirConfig>(),
                    charges: Charges::default(),
                })
            }

            /// Returns the directives of a directory with those of a directory or section below it.
            pub fn merged(&self, child: &DirConfig) -> DirConfig {
                let none = DirConfig::none();
                let mut size = size_of::<DirConfig>();
                $(
                    let ($module, copied) = Shared::merged(
                        &self.$module,
                        &child.$module,
                        &none.$module,
                        modules::$module::Config::merged,
                    );
                    size += copied;
                )*
                DirConfig {
                    $($module,)*
                    warnings: Vec::new(),
                    probes: Vec::new(),
                    size,
                    charges: self.charges.with(&child.charges),
                }
            }
        }
    };
}

modules! {
    core,
    access_compat,
    alias,
    auth_basic,
    authn_file,
    authz,
    authz_groupfile,
    autoindex,
    dir,
    env,
    expires,
    filter,
    headers,
    mime,
    negotiation,
    php,
    rewrite,
    setenvif,
}

impl DirConfig {
    /// Returns true if a file that `<IfFile>` asked for has come or gone: the `.htaccess` must be compiled again.
    pub fn is_outdated(&self, exists: &dyn Fn(&[u8]) -> bool) -> bool {
        self.probes.iter().any(|(path, was_there)| exists(path) != *was_there)
    }

    /// Returns true if the head of the answer to a GET for a whole file, without compression, depends on the file
    /// alone unless a rule has replaced its path: no directive looks at the client, at header fields, at the time or at other files. False if in doubt.
    pub fn is_constant(&self) -> bool {
        let core = &self.core;
        core.branches.is_empty()
            && core.handler.is_none()
            && core.content_digest != Some(true)
            && core.limit_request_body.is_none()
            && self.access_compat.is_constant()
            && self.alias.is_constant()
            && self.auth_basic.is_constant()
            && self.authz.is_constant()
            && self.expires.is_constant()
            && self.filter.is_constant()
            && self.headers.is_constant()
            && self.rewrite.is_constant()
            && self.setenvif.is_constant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(names: &[&str], is_except: bool) -> Methods {
        Methods { names: names.iter().map(|name| name.as_bytes().to_vec()).collect(), is_except }
    }

    #[test]
    fn head_counts_as_get() {
        assert!(methods(&["GET"], false).contains(b"HEAD"));
        assert!(!methods(&["GET"], true).contains(b"HEAD"));
    }

    #[test]
    fn nested_sections_have_the_methods_of_both() {
        let both = methods(&["GET", "POST"], false).both(&methods(&["GET"], true));
        assert!(both.contains(b"POST") && !both.contains(b"GET") && !both.contains(b"PUT"));
        let both = methods(&["GET"], true).both(&methods(&["PUT"], true));
        assert!(both.contains(b"POST") && !both.contains(b"GET") && !both.contains(b"PUT"));
    }
}
