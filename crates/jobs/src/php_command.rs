//! The command-line PHP of the distribution, `phpX.Y`, with the settings of an application.

use std::path::{Path, PathBuf};

/// Directories of programs.
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/php/bin"];

/// Finds the command of a version of PHP: `8.4`, or the newest for an empty one. `exists` tells
/// whether there is a file. Error: there is none, and the package to install.
pub fn find(version: &str, exists: &dyn Fn(&Path) -> bool) -> Result<PathBuf, String> {
    // The package has the first two numbers only.
    let short: Vec<_> = version.split('.').take(2).collect();
    let versions: Vec<String> = match short.as_slice() {
        [""] | [] => (0..20).rev().map(|minor| format!("8.{minor}")).collect(),
        [major] => (0..20).rev().map(|minor| format!("{major}.{minor}")).collect(),
        parts => vec![parts.join(".")],
    };
    for version in &versions {
        let name = format!("php{version}");
        let paths = DIRECTORIES.iter().map(|directory| Path::new(directory).join(&name));
        if let Some(path) = paths.into_iter().find(|path| exists(path)) {
            return Ok(path);
        }
    }
    let package = match versions.as_slice() {
        [one] => format!("php{one}-cli"),
        _ => "php-cli".to_owned(),
    };
    Err(format!(
        "there is no command php{version} in {}; install it (Debian: apt-get install {package})",
        DIRECTORIES.join(", ")
    ))
}

/// Returns the arguments that give the command a setting.
pub fn setting(name: &str, value: &str) -> [String; 2] {
    ["-d".to_owned(), format!("{name}={}", quoted(value))]
}

/// Returns a value as `-d` reads it: as in a file of settings.
fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:,".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_the_version_is_found() {
        let there = ["/usr/bin/php8.2", "/usr/bin/php8.10", "/usr/bin/php8.4"];
        let exists = |path: &Path| there.iter().any(|one| Path::new(one) == path);
        let found = |version| find(version, &exists).map(|path| path.display().to_string());
        assert_eq!(found("8.2").as_deref(), Ok("/usr/bin/php8.2"));
        assert_eq!(found("8.4.7").as_deref(), Ok("/usr/bin/php8.4"));
        assert_eq!(found("").as_deref(), Ok("/usr/bin/php8.10"));
        assert_eq!(found("8").as_deref(), Ok("/usr/bin/php8.10"));
        let problem = found("8.3").unwrap_err();
        assert!(problem.contains("apt-get install php8.3-cli"), "{problem}");
    }

    #[test]
    fn values_of_settings_are_quoted() {
        let value = |value| setting("a", value)[1].clone();
        assert_eq!(value("256M"), "a=256M");
        assert_eq!(value("a b;c"), "a=\"a b;c\"");
        assert_eq!(value("a\"b\\"), "a=\"a\\\"b\\\\\"");
        assert_eq!(value(""), "a=\"\"");
    }
}
