//! Settings of PHP: `php_value` and `php_flag`, as mod_php reads them; in the server's configuration
//! also `php_admin_value` and `php_admin_flag`.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};

/// Settings of PHP, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Names and values in the order of the first mention.
    pub settings: Vec<(Vec<u8>, Vec<u8>)>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Php;

    fn merged(&self, child: &Config) -> Config {
        let mut merged = self.clone();
        for (name, value) in &child.settings {
            merged.set(name, value);
        }
        merged
    }
}

impl Config {
    fn set(&mut self, name: &[u8], value: &[u8]) {
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
        apply: value,
    },
    Directive {
        name: "php_admin_flag",
        arguments: Arguments::Two,
        class: Override::NONE,
        usage: "PHP Flag Modifier (Admin)",
        apply: flag,
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
    let value = if words[1].eq_ignore_ascii_case(b"none") { b"" } else { words[1] };
    config.of_mut::<Config>().set(words[0], value);
    Ok(())
}

fn flag(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    let is_on = words[1].eq_ignore_ascii_case(b"on") || words[1] == b"1";
    config.of_mut::<Config>().set(words[0], if is_on { b"1" } else { b"0" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lines: &[[&str; 2]]) -> Config {
        let mut config = Config::default();
        for [name, value] in lines {
            config.set(name.as_bytes(), value.as_bytes());
        }
        config
    }

    #[test]
    fn a_setting_replaces_that_of_the_directory_above() {
        let merged = config(&[["a", "1"], ["b", "1"]]).merged(&config(&[["b", "2"], ["c", "3"]]));
        assert_eq!(merged, config(&[["a", "1"], ["b", "2"], ["c", "3"]]));
    }

    #[test]
    fn the_engine_can_be_turned_off() {
        assert!(config(&[]).runs_scripts());
        assert!(!config(&[["engine", "0"]]).runs_scripts());
        assert!(!config(&[["engine", "off"]]).runs_scripts());
        assert!(config(&[["engine", "On"]]).runs_scripts());
    }
}
