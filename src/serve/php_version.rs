//! The version of PHP of `howdah serve DIR` without `--php`: that of `.php-version` in the directory,
//! which Symfony's command line and others read, else the newest that `composer.json` permits.

use std::path::Path;

use howdah_advice::detect;
use howdah_sites::php_version::{Choice, of_project};
use serde_json::{Value, json};

use crate::cli::{self, Serve};
use crate::php_programs;

const FILE: &str = ".php-version";

/// Maximum length of the file in bytes.
const MAX_LENGTH: usize = 64;

/// Returns the versions that are installed.
pub fn installed() -> Vec<String> {
    php_programs::find().found.iter().map(|php| php.version.clone()).collect()
}

/// Gives the applications of a document the version that a directory asks for. Returns the line that
/// tells it. Error: a version that is not installed.
pub fn add(
    document: &mut Value,
    arguments: &Serve,
    directory: &Path,
    installed: &dyn Fn() -> Vec<String>,
) -> Result<Option<String>, String> {
    let applications = document.get_mut("applications").and_then(Value::as_object_mut);
    let Some(applications) = applications.filter(|_| arguments.php.is_none()) else {
        return Ok(None);
    };
    let (version, line) = match of_file(directory, installed)? {
        Some(found) => found,
        None => match of_project(directory, installed) {
            Choice::Newest => return Ok(None),
            Choice::Other(version) => {
                let line = format!("php: {version}, the newest that composer.json permits");
                (version, line)
            }
            Choice::NoneFits(reason) => {
                return Ok(Some(format!("php: {reason}, or name it with --php")));
            }
        },
    };
    for application in applications.values_mut() {
        application["type"] = json!(format!("php {version}"));
    }
    Ok(Some(line))
}

/// Returns the version of the file in a directory, and the line that tells it; `None` if there is no
/// such file.
pub fn of_file(
    directory: &Path,
    installed: &dyn Fn() -> Vec<String>,
) -> Result<Option<(String, String)>, String> {
    let file = directory.join(FILE);
    let Some(text) = detect::read_start(&file, MAX_LENGTH) else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    let named = text.lines().next().unwrap_or_default().trim();
    let file = file.display();
    let wanted = cli::php_version(named).map_err(|_| {
        format!(
            "{file}: \"{}\" is not a version of PHP such as 8.2; correct it, or name one with --php",
            named.escape_debug()
        )
    })?;
    // Distributions have one patch level of each version.
    let minor: Vec<_> = wanted.split('.').take(2).collect();
    let (minor, installed) = (minor.join("."), installed());
    let begins =
        |version: &String| version.strip_prefix(&minor).is_some_and(|rest| rest.starts_with('.'));
    // Without any, another message says what to install.
    if installed.iter().any(begins) || installed.is_empty() {
        let line = format!("php: {minor}, of {FILE}");
        return Ok(Some((minor, line)));
    }
    Err(format!(
        "{file}: PHP {wanted} is not installed, there is {}; install the package howdah-php{minor}, or \
         name another version with --php",
        installed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_directory_chooses_among_the_installed_versions() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
        let installed = || ["8.2.36", "8.4.1"].map(str::to_owned).to_vec();
        let chosen = |php: Option<&str>| {
            let arguments = Serve { php: php.map(str::to_owned), ..Serve::default() };
            let mut document = json!({"applications": {"site": {"type": "php"}}});
            let line = add(&mut document, &arguments, place.path(), &installed)?;
            let kind = document["applications"]["site"]["type"].as_str().unwrap().to_owned();
            Ok::<_, String>((kind, line.unwrap_or_default()))
        };
        assert_eq!(chosen(None).unwrap(), ("php".to_owned(), String::new()));
        write("composer.json", r#"{"require": {"php": "~8.2.0"}}"#);
        let (kind, line) = chosen(None).unwrap();
        assert!(kind == "php 8.2" && line.contains("composer.json permits"), "{kind} {line}");
        write("composer.json", r#"{"require": {"php": "^9.0"}}"#);
        let (kind, line) = chosen(None).unwrap();
        assert!(kind == "php" && line.contains("requires PHP \"^9.0\""), "{kind} {line}");
        assert!(line.ends_with("or name it with --php"), "{line}");
        write(FILE, "8.4.20\n");
        assert_eq!(
            chosen(None).unwrap(),
            ("php 8.4".to_owned(), "php: 8.4, of .php-version".to_owned())
        );
        for (text, expected) in
            [("8.3", "PHP 8.3 is not installed"), ("\u{1b}[2J", "is not a version")]
        {
            write(FILE, text);
            let problem = chosen(None).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains('\u{1b}'), "{problem}");
            assert_eq!(chosen(Some("8.2")).unwrap().0, "php", "--php wins");
        }
    }
}
