//! Values on the command line, in files, or on standard input.

use std::fs;
use std::io::Read;

use howdah_config::json;

use crate::failure::Failure;

/// Reads a value: JSON, `@FILE`, or `-` for standard input, which is also the default. Checks that
/// it is JSON, so that errors name the file.
pub(super) fn json(value: Option<&str>) -> Result<Vec<u8>, Failure> {
    let (name, text) = match value {
        None | Some("-") => {
            let mut text = Vec::new();
            let read = std::io::stdin().take(MAX_READ).read_to_end(&mut text);
            read.map_err(|error| Failure::Failed(format!("standard input: {error}")))?;
            ("standard input", text)
        }
        Some(value) => match value.strip_prefix('@') {
            Some(file) => {
                let text = fs::read(file);
                (file, text.map_err(|error| Failure::Failed(format!("{file}: {error}")))?)
            }
            None => ("the value", value.as_bytes().to_vec()),
        },
    };
    match json::parse(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            // Of letters, only these three start a JSON value.
            let is_word = value.is_some_and(|value| {
                value.starts_with(|first: char| first.is_alphabetic() || first == '/')
            });
            let advice = match value {
                Some(word) if is_word => format!("; write a string as '\"{word}\"'"),
                _ => String::new(),
            };
            Err(Failure::Failed(format!("{name}: {error}{advice}")))
        }
    }
}

/// Maximum number of bytes that are read: a byte more than is accepted.
const MAX_READ: u64 = json::MAX_SIZE as u64 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_json_or_the_name_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.json");
        fs::write(&file, "{} // empty\n").unwrap();
        let at = format!("@{}", file.display());
        assert_eq!(json(Some(&at)), Ok(b"{} // empty\n".to_vec()));
        assert_eq!(json(Some("-1")), Ok(b"-1".to_vec()));
        fs::write(&file, "{\n]").unwrap();
        let Err(Failure::Failed(problem)) = json(Some(&at)) else { panic!() };
        assert!(problem.starts_with(&format!("{}: line 2, column 1: ", file.display())));
    }

    #[test]
    fn a_string_without_quotes_is_explained() {
        let Err(Failure::Failed(problem)) = json(Some("www-data")) else { panic!() };
        assert!(problem.ends_with("; write a string as '\"www-data\"'"), "{problem}");
    }
}
