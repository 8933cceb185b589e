//! The version of PHP of a site that names none.

use std::path::Path;

use serde_json::Value;

use crate::composer::Constraint;

/// Maximum length of a `composer.json` that is looked at, in bytes.
const MAX_LENGTH: usize = 1 << 20;

/// The version for a project.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    /// The newest one that is installed.
    Newest,
    /// Another one that is installed.
    Other(String),
    /// The newest one, which the project does not allow; with the reason.
    NoneFits(String),
}

/// Returns the newest version of PHP that a project allows by `require.php` of its `composer.json`.
///
/// `installed` returns the versions that are installed, such as `8.4.21`.
pub fn of_project(root: &Path, installed: &dyn Fn() -> Vec<String>) -> Choice {
    let file = root.join("composer.json");
    let Some(required) = required(&file) else { return Choice::Newest };
    choose(&required, &installed())
}

fn required(file: &Path) -> Option<String> {
    let text = howdah_advice::detect::read_start(file, MAX_LENGTH)?;
    let project: Value = serde_json::from_slice(&text).ok()?;
    project.get("require")?.get("php")?.as_str().map(str::to_owned)
}

/// Chooses one of the installed versions.
fn choose(required: &str, installed: &[String]) -> Choice {
    let newest = installed.iter().max_by_key(|version| numbers(version));
    let Some(newest) = newest else { return Choice::Newest };
    // Of a customer's file, for a log.
    let shown: String = required.chars().filter(|c| !c.is_control()).take(80).collect();
    let Some(constraint) = Constraint::parse(required) else {
        return Choice::NoneFits(format!(
            "require.php of composer.json, \"{shown}\", is not understood, so the site has PHP \
             {newest}; correct it"
        ));
    };
    let allowed = installed.iter().filter(|version| constraint.allows(version));
    match allowed.max_by_key(|version| numbers(version)) {
        Some(version) if version == newest => Choice::Newest,
        Some(version) => {
            let [major, minor, _] = numbers(version);
            Choice::Other(format!("{major}.{minor}"))
        }
        None => Choice::NoneFits(format!(
            "composer.json requires PHP \"{shown}\", which no installed version is ({}), so the \
             site has PHP {newest}; install another version (apt-get install howdah-phpX.Y)",
            installed.join(", ")
        )),
    }
}

/// Returns the numbers of a version, such as `8.5.0RC1`.
fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = version.split('.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part.get(..end).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    });
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_is_allowed_is_chosen() {
        let installed = ["8.2.36", "8.10.0", "8.4.21", "7.4.33"].map(str::to_owned);
        let choose = |required| choose(required, &installed);
        assert_eq!(choose("^8.1"), Choice::Newest);
        assert_eq!(choose(">=7"), Choice::Newest);
        assert_eq!(choose("~8.4.0 || ^7"), Choice::Other("8.4".to_owned()));
        assert_eq!(choose("<8.4"), Choice::Other("8.2".to_owned()));
        for (required, expected) in [
            ("^9", "composer.json requires PHP \"^9\", which no installed version is (8.2.36, "),
            ("newest\n", "\"newest\", is not understood, so the site has PHP 8.10.0"),
        ] {
            match choose(required) {
                Choice::NoneFits(text) => assert!(text.contains(expected), "{text}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(super::choose("^9", &[]), Choice::Newest);
    }
}
