//! Lines of a file: a backslash at the end of one joins the next.

use std::path::Path;
use std::rc::Rc;

/// A line with a directive.
#[derive(Debug, Clone)]
pub struct Line {
    /// The file; `None` for a text that is no file.
    pub file: Option<Rc<Path>>,
    /// Number of the line on which it begins, from 1.
    pub number: u32,
    /// Content without blanks at both ends.
    pub text: String,
}

/// Divides a text. Comments and empty lines are left out.
pub fn of(text: &str, file: Option<&Rc<Path>>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        let (_, joined) = open.get_or_insert_with(|| (number, String::new()));
        joined.push_str(part);
        if !goes_on && let Some((number, joined)) = open.take() {
            add(&mut lines, file, number, &joined);
        }
    }
    if let Some((number, joined)) = open {
        add(&mut lines, file, number, &joined);
    }
    lines
}

fn add(lines: &mut Vec<Line>, file: Option<&Rc<Path>>, number: u32, joined: &str) {
    let text = joined.trim();
    if !text.is_empty() && !text.starts_with('#') {
        lines.push(Line { file: file.cloned(), number, text: text.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_comments_left_out() {
        let text = "a \\\n  b\n# no \\\nno either\n\n c\r\nd \\";
        let lines: Vec<(u32, String)> =
            of(text, None).into_iter().map(|line| (line.number, line.text)).collect();
        let expected = [(1, "a   b"), (6, "c"), (7, "d")];
        assert_eq!(lines, expected.map(|(number, text)| (number, text.to_owned())));
    }
}
