//! Options of a directory: the directive `Options`.

use std::ops::BitOr;

use crate::words::Words;

/// Options, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options(u8);

impl Options {
    /// No option.
    pub const NONE: Options = Options(0);
    /// Directories without an index file are listed.
    pub const INDEXES: Options = Options(1);
    /// Server-side includes.
    pub const INCLUDES: Options = Options(2);
    /// Symbolic links are followed.
    pub const FOLLOW_SYM_LINKS: Options = Options(4);
    /// CGI scripts; there is no CGI here.
    pub const EXEC_CGI: Options = Options(8);
    /// Server-side includes that run programs.
    pub const INCLUDES_WITH_EXEC: Options = Options(16);
    /// Symbolic links are followed if the owner of link and target is the same.
    pub const SYM_LINKS_IF_OWNER_MATCH: Options = Options(32);
    /// Variants of a name are negotiated.
    pub const MULTI_VIEWS: Options = Options(64);
    /// `Options All`: all but `MultiViews` and `SymLinksIfOwnerMatch`.
    pub const ALL: Options = Options(31);
    /// All options that there are.
    pub const ANY: Options = Options(127);

    /// Returns true if rules may rewrite URLs: that can lead around a restriction of links.
    pub fn allows_rewriting(self) -> bool {
        self.contains(Options::FOLLOW_SYM_LINKS) || self.contains(Options::SYM_LINKS_IF_OWNER_MATCH)
    }

    /// Returns true if all of the others are set.
    pub const fn contains(self, other: Options) -> bool {
        self.0 & other.0 == other.0
    }

    const fn without(self, other: Options) -> Options {
        Options(self.0 & !other.0)
    }

    /// Reads a name.
    fn named(name: &[u8]) -> Result<Options, String> {
        Ok(match name.to_ascii_lowercase().as_slice() {
            b"indexes" => Options::INDEXES,
            b"includes" => Options::INCLUDES | Options::INCLUDES_WITH_EXEC,
            b"includesnoexec" => Options::INCLUDES,
            b"followsymlinks" => Options::FOLLOW_SYM_LINKS,
            b"symlinksifownermatch" => Options::SYM_LINKS_IF_OWNER_MATCH,
            b"execcgi" => Options::EXEC_CGI,
            b"multiviews" => Options::MULTI_VIEWS,
            b"runscripts" => Options::MULTI_VIEWS | Options::EXEC_CGI,
            b"none" => Options::NONE,
            b"all" => Options::ALL,
            _ => return Err(format!("Illegal option {}", String::from_utf8_lossy(name))),
        })
    }

    /// Reads names with commas between them (`AllowOverride Options=…`).
    pub(crate) fn listed(names: &str) -> Result<Options, String> {
        let mut options = Options::NONE;
        for name in names.split(',').filter(|name| !name.is_empty()) {
            options = options | Options::named(name.as_bytes())?;
        }
        Ok(options)
    }

    /// Returns true if links may be followed independent of their owners.
    pub fn follows_links(self) -> bool {
        self.contains(Options::FOLLOW_SYM_LINKS)
            && !self.contains(Options::SYM_LINKS_IF_OWNER_MATCH)
    }
}

impl BitOr for Options {
    type Output = Options;

    fn bitor(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }
}

/// Setting of `Options` directives: options that replace those above, or changes to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OptionsSetting {
    set: Option<Options>,
    added: Options,
    removed: Options,
}

impl OptionsSetting {
    /// Returns the options; without any directive, Apache's default (`FollowSymLinks`).
    pub fn get(self) -> Options {
        self.set.unwrap_or(Options::FOLLOW_SYM_LINKS.without(self.removed) | self.added)
    }

    /// Adds the words of a directive. The error is the text that Apache logs.
    pub(crate) fn add(&mut self, line: &[u8], allowed: Options) -> Result<(), String> {
        let mixed = || "Either all Options must start with + or -, or no Option may.".to_owned();
        let (mut is_first, mut is_relative, mut is_all_or_none) = (true, false, false);
        let mut words = Words::new(line);
        while !words.rest().is_empty() {
            let word = words.take();
            let (action, name) = match word.split_first() {
                Some((&action @ (b'+' | b'-'), name)) => (Some(action), name),
                _ => (None, word.as_slice()),
            };
            if action.is_some() {
                if !is_relative && !is_first && !is_all_or_none {
                    return Err(mixed());
                }
                is_relative = true;
            } else if is_first {
                self.set = Some(Options::NONE);
            } else if is_relative {
                return Err(mixed());
            }
            let option = Options::named(name)?;
            let is_none = name.eq_ignore_ascii_case(b"none");
            if is_none || name.eq_ignore_ascii_case(b"all") {
                let text = if is_none { "None" } else { "All" };
                if !is_first {
                    let noun = if is_none { "Option" } else { "option" };
                    return Err(format!("'Options {text}' must be the first {noun} given."));
                }
                if is_relative {
                    return Err(format!("You may not use 'Options +{text}' or 'Options -{text}'."));
                }
                is_all_or_none = true;
            }
            if !allowed.contains(option) {
                let name = String::from_utf8_lossy(name);
                return Err(format!("Option {name} not allowed here"));
            }
            match action {
                Some(b'-') => {
                    self.removed = self.removed | option;
                    self.added = self.added.without(option);
                    self.set = self.set.map(|set| set.without(option));
                }
                Some(_) => {
                    self.added = self.added | option;
                    self.removed = self.removed.without(option);
                    self.set = self.set.map(|set| set | option);
                }
                None => self.set = self.set.map(|set| set | option),
            }
            is_first = false;
        }
        Ok(())
    }

    /// Returns the setting of a directory with that of one below it.
    pub(crate) fn merged(self, child: OptionsSetting) -> OptionsSetting {
        if child.set.is_some() {
            return child;
        }
        let added = self.added.without(child.removed) | child.added;
        let removed = self.removed.without(child.added) | child.removed;
        let mut set = self.set.map(|set| set.without(removed) | added);
        let had_exec = self
            .set
            .is_some_and(|set| set.contains(Options::INCLUDES | Options::INCLUDES_WITH_EXEC));
        let is_without_exec = child.added.contains(Options::INCLUDES)
            && !child.added.contains(Options::INCLUDES_WITH_EXEC);
        if had_exec && is_without_exec {
            set = set.map(|set| set.without(Options::INCLUDES_WITH_EXEC));
        }
        OptionsSetting { set, added, removed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(lines: &[&str]) -> Result<OptionsSetting, String> {
        let mut setting = OptionsSetting::default();
        for line in lines {
            setting.add(line.as_bytes(), Options::ANY)?;
        }
        Ok(setting)
    }

    #[test]
    fn relative_options_change_those_of_the_parent() {
        let parent = setting(&["Indexes FollowSymLinks"]).unwrap();
        let merged = parent.merged(setting(&["-Indexes +MultiViews"]).unwrap()).get();
        assert_eq!(merged, Options::FOLLOW_SYM_LINKS | Options::MULTI_VIEWS);
        let merged = parent.merged(setting(&["None"]).unwrap()).get();
        assert_eq!(merged, Options::NONE);
    }

    #[test]
    fn all_leaves_out_multiviews() {
        assert!(!setting(&["All"]).unwrap().get().contains(Options::MULTI_VIEWS));
        assert!(setting(&["All +MultiViews"]).unwrap().get().contains(Options::MULTI_VIEWS));
    }

    #[test]
    fn relative_and_absolute_options_do_not_mix() {
        assert!(setting(&["Indexes -FollowSymLinks"]).is_err());
        assert!(setting(&["+Indexes FollowSymLinks"]).is_err());
        assert!(setting(&["+All"]).is_err());
        assert!(setting(&["Indexes None"]).is_err());
        assert_eq!(setting(&["Foo"]).unwrap_err(), "Illegal option Foo");
    }

    #[test]
    fn options_that_are_not_allowed_are_errors() {
        let mut setting = OptionsSetting::default();
        let error = setting.add(b"+Indexes", Options::NONE).unwrap_err();
        assert_eq!(error, "Option Indexes not allowed here");
    }
}
