//! Settings of PHP: `php_value` and `php_flag`, as mod_php reads them; in the server's configuration
//! also `php_admin_value` and `php_admin_flag`.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};

/// Settings of PHP, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Names and values in the order of the first mention.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of the settings of the server's configuration, which those of a `.htaccess` do not
    /// replace.
    admin: Vec<Vec<u8>>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Php;

    fn merged(&self, child: &Config) -> Config {
        let mut merged = self.clone();
        for (name, value) in &child.settings {
            merged.set(name, value, child.admin.contains(name));
        }
        merged
    }
}

impl Config {
    fn set(&mut self, name: &[u8], value: &[u8], is_admin: bool) {
        let is_of_admin = self.admin.iter().any(|known| known == name);
        if is_of_admin && !is_admin {
            return;
        }
        if is_admin && !is_of_admin {
            self.admin.push(name.to_vec());
        }
        match self.settings.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value.to_vec(),
            None => self.settings.push((name.to_vec(), value.to_vec())),
        }
    }

    /// Returns false if scripts are not run (`php_flag engine off`).
    pub fn runs_scripts(&self) -> bool {
        let engine = self.settings.iter().find(|(name, _)| name == b"engine");
        engine.is_none_or(|(_, value)| is_true(value))
    }
}

/// Reads a switch as PHP does: `on`, `yes`, `true` or a number other than 0.
fn is_true(value: &[u8]) -> bool {
    match value.to_ascii_lowercase().as_slice() {
        b"on" | b"yes" | b"true" => true,
        text => crate::support::atoi(text) != 0,
    }
}

/// Settings of PHP.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "php_value",
        arguments: Arguments::Two,
        class: Override::OPTIONS,
        usage: "PHP Value Modifier",
        apply: value,
    },
    Directive {
        name: "php_admin_value",
        arguments: Arguments::Two,
        class: Override::NONE,
        usage: "PHP Value Modifier (Admin)",
        apply: admin_value,
    },
    Directive {
        name: "php_admin_flag",
        arguments: Arguments::Two,
        class: Override::NONE,
        usage: "PHP Flag Modifier (Admin)",
        apply: admin_flag,
    },
    Directive {
        name: "php_flag",
        arguments: Arguments::Two,
        class: Override::OPTIONS,
        usage: "PHP Flag Modifier",
        apply: flag,
    },
];

fn value(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().set(words[0], text(words[1]), false);
    Ok(())
}

fn admin_value(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().set(words[0], text(words[1]), true);
    Ok(())
}

fn flag(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().set(words[0], switch(words[1]), false);
    Ok(())
}

fn admin_flag(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    config.of_mut::<Config>().set(words[0], switch(words[1]), true);
    Ok(())
}

/// Returns the value of a `php_value`; `none` stands for the empty one.
fn text(word: &[u8]) -> &[u8] {
    if word.eq_ignore_ascii_case(b"none") { b"" } else { word }
}

/// Returns the value of a `php_flag`.
fn switch(word: &[u8]) -> &'static [u8] {
    if word.eq_ignore_ascii_case(b"on") || word == b"1" { b"1" } else { b"0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lines: &[[&str; 2]]) -> Config {
        let mut config = Config::default();
        for [name, value] in lines {
            config.set(name.as_bytes(), value.as_bytes(), false);
        }
        config
    }

    #[test]
    fn a_setting_replaces_that_of_the_directory_above() {
        let merged = config(&[["a", "1"], ["b", "1"]]).merged(&config(&[["b", "2"], ["c", "3"]]));
        assert_eq!(merged, config(&[["a", "1"], ["b", "2"], ["c", "3"]]));
    }

    /// Scenario: the administrator has turned PHP off for a directory of uploads, and a visitor has
    /// uploaded a `.htaccess`.
    #[test]
    fn a_setting_of_the_administrator_is_not_replaced_by_another_one() {
        let mut server = Config::default();
        server.set(b"engine", b"0", true);
        server.set(b"engine", b"1", false);
        let merged = server.merged(&config(&[["engine", "1"], ["a", "2"]]));
        assert!(!merged.runs_scripts());
        assert_eq!(merged.settings.len(), 2);
        let mut below = Config::default();
        below.set(b"engine", b"1", true);
        assert!(merged.merged(&below).runs_scripts());
        assert!(
            !merged.merged(&Config::default()).merged(&config(&[["engine", "1"]])).runs_scripts()
        );
    }

    #[test]
    fn the_engine_can_be_turned_off() {
        assert!(config(&[]).runs_scripts());
        assert!(!config(&[["engine", "0"]]).runs_scripts());
        assert!(!config(&[["engine", "off"]]).runs_scripts());
        assert!(config(&[["engine", "On"]]).runs_scripts());
    }
}
