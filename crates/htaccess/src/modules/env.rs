//! `mod_env`: `SetEnv`, `UnsetEnv` and `PassEnv`.

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::record::Record;
use crate::table::Table;

/// Variables for scripts.
#[derive(Debug, Clone, Default)]
pub struct Config {
    set: Table,
    unset: Vec<Vec<u8>>,
    /// Names of `PassEnv`: the value is that of the server's environment.
    passed: Vec<Vec<u8>>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Env;

    fn merged(&self, child: &Config) -> Config {
        let mut merged =
            Config { set: self.set.clone(), unset: Vec::new(), passed: self.passed.clone() };
        let same = |a: &[u8], b: &[u8]| a.eq_ignore_ascii_case(b);
        for name in &child.unset {
            merged.set.unset(name);
            merged.passed.retain(|other| !same(other, name));
        }
        for (name, value) in child.set.iter() {
            merged.passed.retain(|other| !same(other, name));
            merged.set.set(name, value);
        }
        for name in &child.passed {
            merged.set.unset(name);
            merged.passed.retain(|other| !same(other, name));
            merged.passed.push(name.clone());
        }
        merged
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "PassEnv",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "a list of environment variables to pass to CGI.",
        apply: pass,
    },
    Directive {
        name: "SetEnv",
        arguments: Arguments::OneOrTwo,
        class: Override::FILE_INFO,
        usage: "an environment variable name and optional value to pass to CGI.",
        apply: set,
    },
    Directive {
        name: "UnsetEnv",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "a list of variables to remove from the CGI environment.",
        apply: unset,
    },
];

/// Adds the variables to the environment of the request: a fixup after rewriting. `passed` returns
/// variables of the server's environment.
///
/// As in Apache, a variable that the request has already keeps its first value for directives and
/// expressions (`Table::get`), while scripts, which get all entries in order, see the one of
/// `SetEnv`.
pub fn fixup(record: &mut Record, passed: &dyn Fn(&[u8]) -> Option<Vec<u8>>) {
    let config = record.config.clone();
    for (name, value) in config.of::<Config>().set.iter() {
        record.env.add(name, value);
    }
    for name in &config.of::<Config>().passed {
        if let Some(value) = passed(name) {
            record.env.add(name.as_slice(), value);
        }
    }
}

fn set(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    let Some(&name) = arguments.first() else { return Err(String::new()) };
    let value = arguments.get(1).copied().unwrap_or_default();
    config.of_mut::<Config>().passed.retain(|other| !other.eq_ignore_ascii_case(name));
    config.of_mut::<Config>().set.set(name, value);
    Ok(())
}

fn unset(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    for name in arguments {
        config.of_mut::<Config>().set.unset(name);
        config.of_mut::<Config>().passed.retain(|other| !other.eq_ignore_ascii_case(name));
        config.of_mut::<Config>().unset.push(name.to_vec());
    }
    Ok(())
}

fn pass(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    for name in arguments {
        config.of_mut::<Config>().set.unset(name);
        config.of_mut::<Config>().passed.push(name.to_vec());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{apply, record};

    fn environment(parent: &[&str], child: &[&str]) -> Vec<(String, String)> {
        let mut config = apply(DIRECTIVES, parent).unwrap();
        config = config.merged(&apply(DIRECTIVES, child).unwrap());
        let mut record = record(config);
        record.env.set("OLD", "1");
        fixup(&mut record, &|name| (name == b"HOME").then(|| b"/root".to_vec()));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        record.env.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    #[test]
    fn a_child_unsets_variables_of_the_parent_but_not_others() {
        let found = environment(
            &["SetEnv a 1", "SetEnv b \"x y\"", "PassEnv HOME X"],
            &["UnsetEnv A OLD", "SetEnv c"],
        );
        let expected = [("OLD", "1"), ("b", "x y"), ("c", ""), ("HOME", "/root")];
        assert_eq!(found, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn directives_see_the_earlier_value_and_scripts_the_later_one() {
        let mut record = record(apply(DIRECTIVES, &["SetEnv a late"]).unwrap());
        record.env.set("a", "early");
        fixup(&mut record, &|_| None);
        assert_eq!(record.env.get(b"a"), Some(&b"early"[..]));
        assert_eq!(record.env.all(b"a").last(), Some(&b"late"[..]));
    }

    #[test]
    fn set_after_unset_in_a_file_sets() {
        let found = environment(&["SetEnv a 1"], &["UnsetEnv a", "SetEnv a 2"]);
        assert_eq!(found[1], ("a".into(), "2".into()));
    }
}
