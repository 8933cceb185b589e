//! Words of a command line, as a shell would split it.

/// Splits a command line that has only plain words, quotes and backslashes, as `escapeshellcmd()`
/// and `escapeshellarg()` of PHP make them. Returns `None` if a shell would do more with it: a
/// redirection, a variable, another command.
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' => words.extend(word.take()),
            b'\\' => word.get_or_insert_default().push(bytes.next().filter(|next| *next != b'\n')?),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next()? {
                        b'\'' => break,
                        other => word.push(other),
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next()? {
                        b'"' => break,
                        b'$' | b'`' => return None,
                        b'\\' => match bytes.next()? {
                            next @ (b'$' | b'`' | b'"' | b'\\') => word.push(next),
                            b'\n' => return None,
                            next => word.extend([b'\\', next]),
                        },
                        other => word.push(other),
                    }
                }
            }
            b'#' if word.is_none() => return None,
            b'~' if word.is_none() => return None,
            b'\n' | b'\r' | b'\0' => return None,
            _ if b"|&;<>()$`*?[]{}!^".contains(&byte) => return None,
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_are_a_shells() {
        for (line, expected) in [
            ("-t -i", &["-t", "-i"][..]),
            ("  -f 'joe doe'@a.org  ", &["-f", "joe doe@a.org"]),
            ("-f\\<joe\\@a.org\\>", &["-f<joe@a.org>"]),
            ("\"a \\\"b\\\" \\c\"", &["a \"b\" \\c"]),
            ("''", &[""]),
            ("-FJoe\\ Doe", &["-FJoe Doe"]),
            ("a#b a~", &["a#b", "a~"]),
        ] {
            let words = split(line.as_bytes()).unwrap();
            let expected: Vec<_> = expected.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert_eq!(words, expected, "{line}");
        }
    }

    #[test]
    fn what_needs_a_shell_is_left_to_it() {
        for line in [
            "a > b",
            "a; b",
            "a | b",
            "$HOME",
            "\"$HOME\"",
            "`id`",
            "a &",
            "(a)",
            "a*",
            "~",
            "# a",
            "'a",
            "\"a",
            "a\\",
            "a\nb",
            "\"`id`\"",
            "{a,b}",
            "!x",
        ] {
            assert_eq!(split(line.as_bytes()), None, "{line}");
        }
    }
}
