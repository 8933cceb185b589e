//! Words of a line, as Apache divides it.

/// Takes the first word of a line. Quotation marks of either kind may be around it; inside of them,
/// a backslash escapes a quotation mark or a backslash.
pub fn take(line: &str) -> (String, &str) {
    let line = line.trim_start();
    let mut word = String::new();
    let mut left = line.char_indices();
    match line.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            left.next();
            let mut is_escaped = false;
            for (at, c) in left {
                if is_escaped {
                    if c != quote && c != '\\' {
                        word.push('\\');
                    }
                    word.push(c);
                    is_escaped = false;
                } else if c == '\\' {
                    is_escaped = true;
                } else if c == quote {
                    return (word, line[at + 1..].trim_start());
                } else {
                    word.push(c);
                }
            }
            if is_escaped {
                word.push('\\');
            }
            (word, "")
        }
        _ => {
            let end = line.find(char::is_whitespace).unwrap_or(line.len());
            (line[..end].to_owned(), line[end..].trim_start())
        }
    }
}

/// Returns all words of a line.
pub fn all(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, left) = take(rest);
        words.push(word);
        rest = left;
    }
    words
}

/// Returns a word that is read as it is: with quotation marks around it.
pub fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for c in word.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_divided_at_blanks_outside_of_quotation_marks() {
        assert_eq!(all(r#"a "b c" 'd "e"' f"#), ["a", "b c", "d \"e\"", "f"]);
        assert_eq!(all(r#""a\"b" "c\d" "e\\""#), ["a\"b", "c\\d", "e\\"]);
        assert_eq!(all(r#"a"b c"#), ["a\"b", "c"]);
        assert_eq!(all(r#""open"#), ["open"]);
        assert_eq!(all("  "), [] as [String; 0]);
    }

    #[test]
    fn a_quoted_word_is_read_as_it_was() {
        for word in ["", "a b", "\"", "\\", "\\.php$", "a\\\"b\\\\"] {
            assert_eq!(all(&quoted(word)), [word]);
        }
    }
}
