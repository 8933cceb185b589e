//! Names of PHP's scripts in directives.

use crate::pcre::Pattern;

/// Returns true for suffixes of PHP's scripts: `php`, `php7`, `phtml`.
pub fn is_script(suffix: &str) -> bool {
    matches!(suffix.to_ascii_lowercase().as_str(), "phtml" | "pht" | "phar" | "php")
        || suffix
            .strip_prefix("php")
            .is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
}

/// Returns true if a `<Files>` or `<FilesMatch>` with these arguments is for scripts alone.
pub fn section_is_of_scripts(section: &str, words: &[String]) -> bool {
    match words {
        [pattern] if section.eq_ignore_ascii_case("<filesmatch") => {
            let suffixes = Pattern::parse(pattern).ok().and_then(|pattern| pattern.suffixes());
            suffixes.is_some_and(|suffixes| suffixes.iter().all(|suffix| is_script(suffix)))
        }
        [name] => name.ends_with(".php"),
        _ => false,
    }
}
