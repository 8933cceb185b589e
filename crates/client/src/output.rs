//! Output of the commands.

use std::io::Write;

use howdah_control::print;
use serde_json::Value;

use crate::failure::Failure;

/// Prints the outcome of a change, and its note on standard error.
pub(super) fn print_outcome(answer: &Value) -> Result<(), Failure> {
    if let Some(note) = answer.get("note").and_then(Value::as_str) {
        eprintln!("howdah: {note}");
    }
    match answer.get("success").and_then(Value::as_str) {
        Some(text) => write_out(&format!("{text}\n")),
        None => write_out(&json_text(answer)),
    }
}

/// Returns JSON in the format of the API, with the line ends of text files.
pub(super) fn json_text(value: &Value) -> String {
    print(value).replace("\r\n", "\n")
}

/// Writes to standard output. A closed pipe (`| head`) is no error.
pub(super) fn write_out(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Returns a message as one line: the lines of several are joined, and other control characters are
/// replaced.
pub(super) fn one_line(message: &str) -> String {
    let mut text = String::new();
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match text.chars().last() {
            None => {}
            Some(':' | ';' | ',' | '.') => text.push(' '),
            Some(_) => text.push_str("; "),
        }
        text.push_str(&printable(&line.replace('\t', " ")));
    }
    text
}

/// Replaces control characters of a text that scripts, clients or a configuration have chosen, and
/// characters that change the direction of what follows.
pub(super) fn printable(name: &str) -> String {
    let is_direction = |c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let replaced = |c: char| c.is_control() || is_direction(c);
    name.chars().map(|c| if replaced(c) { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_several_lines_are_one_line_without_controls() {
        for (message, expected) in [
            ("", ""),
            ("one", "one"),
            ("a.json: no\nb.json: no\r\n", "a.json: no; b.json: no"),
            ("two mistakes:\n\n  x\t1\n  y", "two mistakes: x 1; y"),
            ("\u{1b}[2Ja\rb\n\u{9b}c", "\u{fffd}[2Ja\u{fffd}b; \u{fffd}c"),
            ("\n\r\n", ""),
        ] {
            assert_eq!(one_line(message), expected, "{message:?}");
        }
    }
}
