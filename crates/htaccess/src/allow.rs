//! `AllowOverride` and `AllowOverrideList`: which directives a `.htaccess` may have.

use crate::directive::Override;
use crate::options::Options;

/// Directives that a `.htaccess` may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// Classes of directives.
    pub classes: Override,
    /// Options that the directive `Options` may name.
    pub options: Options,
    /// Names that are allowed in addition to the classes (`AllowOverrideList`).
    pub list: Vec<String>,
    /// A directive that is not allowed is ignored (`Nonfatal=Override`).
    pub ignores_forbidden: bool,
    /// An unknown directive is ignored (`Nonfatal=Unknown`).
    pub ignores_unknown: bool,
}

impl Default for Allow {
    fn default() -> Allow {
        Allow::all()
    }
}

impl Allow {
    /// `AllowOverride All`.
    pub fn all() -> Allow {
        Allow { classes: Override::ALL, ..Allow::none() }
    }

    /// `AllowOverride None`.
    pub fn none() -> Allow {
        Allow {
            classes: Override::NONE,
            options: Options::ANY,
            list: Vec::new(),
            ignores_forbidden: false,
            ignores_unknown: false,
        }
    }

    /// Reads the words of an `AllowOverride` directive. The error is the text that Apache logs.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<Allow, String> {
        let mut allow = Allow::none();
        for word in words.iter().map(AsRef::as_ref) {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (word, None),
            };
            let class = match key.to_ascii_lowercase().as_str() {
                "limit" => Override::LIMIT,
                "fileinfo" => Override::FILE_INFO,
                "authconfig" => Override::AUTH_CONFIG,
                "indexes" => Override::INDEXES,
                "options" => {
                    allow.options = match value {
                        Some(names) => Options::listed(names)?,
                        None => Options::ALL,
                    };
                    Override::OPTIONS
                }
                "nonfatal" => {
                    match value.map(str::to_ascii_lowercase).as_deref() {
                        Some("override") => allow.ignores_forbidden = true,
                        Some("unknown") => allow.ignores_unknown = true,
                        Some("all") => {
                            allow.ignores_forbidden = true;
                            allow.ignores_unknown = true;
                        }
                        Some(_) => {}
                        None => {
                            return Err(format!(
                                "=Override, =Unknown or =All expected after {key}"
                            ));
                        }
                    }
                    continue;
                }
                "none" => {
                    allow = Allow { options: allow.options, ..Allow::none() };
                    continue;
                }
                "all" => {
                    allow = Allow { options: allow.options, ..Allow::all() };
                    continue;
                }
                _ => return Err(format!("Illegal override option {word}")),
            };
            allow.classes = allow.classes.union(class);
        }
        Ok(allow)
    }

    /// Returns true if a directive is allowed.
    pub(crate) fn permits(&self, name: &str, class: Override) -> bool {
        self.classes.intersects(class)
            || self.list.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    }

    /// Returns true if no directive at all is allowed: files are not looked for.
    pub fn is_none(&self) -> bool {
        self.classes == Override::NONE && self.list.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_add_up() {
        let allow = Allow::parse(&["AuthConfig", "limit"]).unwrap();
        assert!(allow.permits("AuthType", Override::AUTH_CONFIG));
        assert!(!allow.permits("Header", Override::FILE_INFO));
    }

    #[test]
    fn options_without_names_exclude_multiviews() {
        assert_eq!(Allow::parse(&["Options"]).unwrap().options, Options::ALL);
        assert_eq!(Allow::parse(&["Options=MultiViews"]).unwrap().options, Options::MULTI_VIEWS);
        assert_eq!(Allow::all().options, Options::ANY);
    }

    #[test]
    fn unknown_words_are_errors() {
        assert_eq!(Allow::parse(&["Foo"]).unwrap_err(), "Illegal override option Foo");
        assert!(Allow::parse(&["Nonfatal"]).is_err());
        assert!(Allow::parse(&["Options=Foo"]).is_err());
    }

    #[test]
    fn a_list_allows_single_directives() {
        let allow = Allow { list: vec!["Header".into()], ..Allow::none() };
        assert!(allow.permits("header", Override::FILE_INFO));
        assert!(!allow.is_none());
    }
}
