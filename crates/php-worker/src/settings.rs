//! The application's settings in the syntax of `php.ini`.
//!
//! PHP reads them after the file and before it loads extensions, some of which need them then
//! (`opcache.memory_consumption`, `extension`). Values are literal: they are not evaluated.
//! Settings of the administrator are locked once PHP is loaded. `disable_functions` and
//! `disable_classes` add to those of the file.

use howdah_wire::messages::{ApplicationSpec, Problem};

use crate::ffi::Php;

const FUNCTIONS: &str = "disable_functions";
const CLASSES: &str = "disable_classes";

/// Returns the text that overrides `php.ini`. Error: a setting that it cannot contain.
pub fn text(spec: &ApplicationSpec) -> Result<String, Problem> {
    let problem = |text: String| Problem::at("options", text);
    let mut out = String::new();
    // The later of two values counts, so the administrator's settings come last.
    for (name, value) in spec.ini_user.iter().chain(&spec.ini_admin) {
        if !is_valid_name(name) {
            return Err(problem(format!("\"{name}\" is not the name of a PHP setting")));
        }
        if value.contains('\0') {
            return Err(problem(format!("the value of \"{name}\" contains a NUL character")));
        }
        if name == FUNCTIONS || name == CLASSES {
            continue;
        }
        put(name, value, &mut out);
    }
    Ok(out)
}

/// Appends a line with a literal value.
pub fn put(name: &str, value: &str, out: &mut String) {
    out.push_str(name);
    out.push('=');
    quote(value, out);
    out.push('\n');
}

/// Locks the administrator's settings and disables functions and classes, once PHP is loaded.
/// Returns the names of settings that no extension has.
pub fn apply(spec: &ApplicationSpec, php: &Php) -> Vec<String> {
    let mut unknown = Vec::new();
    for (name, value) in spec.ini_user.iter().chain(&spec.ini_admin) {
        // Names and values contain no NUL, see `text`.
        let _ = match name.as_str() {
            FUNCTIONS => php.disable_functions(value),
            CLASSES => php.disable_classes(value),
            _ => Ok(()),
        };
    }
    for (name, _) in &spec.ini_admin {
        let special = matches!(name.as_str(), "extension" | "zend_extension");
        if !php.lock_setting(name) && !special {
            unknown.push(name.clone());
        }
    }
    unknown
}

fn is_valid_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !name.is_empty() && name.bytes().all(allowed)
}

/// Appends a value in single quotes, which make it literal; single quotes in it are put in double
/// quotes.
fn quote(value: &str, out: &mut String) {
    for (index, part) in value.split('\'').enumerate() {
        if index > 0 {
            out.push_str("\"'\"");
        }
        if !part.is_empty() || index == 0 {
            out.push('\'');
            out.push_str(part);
            out.push('\'');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_literal() {
        let mut out = String::new();
        quote("a;b ${X} \"c\" \\", &mut out);
        assert_eq!(out, "'a;b ${X} \"c\" \\'");
    }

    #[test]
    fn a_single_quote_cannot_end_the_value() {
        let mut out = String::new();
        quote("it's", &mut out);
        assert_eq!(out, "'it'\"'\"'s'");
    }

    #[test]
    fn names_cannot_begin_another_line() {
        assert!(is_valid_name("opcache.jit_buffer_size"));
        assert!(!is_valid_name("a=1\nb"));
        assert!(!is_valid_name(""));
        assert!(!is_valid_name("[PATH=/]"));
    }
}
