//! Patterns of names with `*` and `?`, as of shells (fnmatch(3)).

/// Rules by which a pattern is read. The default has `*` for any bytes and `?` for one, no more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// `[a-z]` and `[!a-z]` stand for one byte. A bracket without its end stands for itself.
    pub has_classes: bool,
    /// A backslash takes the meaning of the byte behind it away.
    pub has_escapes: bool,
    /// Only a slash matches a slash.
    pub is_path: bool,
    /// Letters match in any case.
    pub ignores_case: bool,
}

/// Returns true if a text matches a pattern. One star is tried at a time: the work is at most the
/// product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8], rules: Rules) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Behind the last star, and where the part of the text that it matches ends.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(at..).unwrap_or_default();
        let step = match (rest, text.get(in_text)) {
            ([b'*', ..], _) => {
                at += 1;
                star = Some((at, in_text));
                continue;
            }
            ([], None) => return true,
            (rest, byte) => byte.and_then(|byte| rules.element(rest, *byte)),
        };
        if let Some(length) = step {
            (at, in_text) = (at + length, in_text + 1);
            continue;
        }
        let Some((behind, end)) = star else { return false };
        if text.get(end).is_none_or(|byte| rules.is_path && *byte == b'/') {
            return false;
        }
        star = Some((behind, end + 1));
        (at, in_text) = (behind, end + 1);
    }
}

/// Returns true if a pattern with classes and escapes stands for more than one text.
pub fn is_pattern(pattern: &[u8]) -> bool {
    let (mut bytes, mut is_open) = (pattern.iter(), false);
    while let Some(byte) = bytes.next() {
        match byte {
            b'?' | b'*' => return true,
            b'\\' => {
                bytes.next();
            }
            b'[' => is_open = true,
            b']' if is_open => return true,
            _ => {}
        }
    }
    false
}

impl Rules {
    /// Returns the length of the pattern's first element if it matches a byte.
    fn element(self, pattern: &[u8], byte: u8) -> Option<usize> {
        let is_wild = !self.is_path || byte != b'/';
        let (own, length) = match pattern {
            [] => return None,
            [b'?', ..] => return is_wild.then_some(1),
            [b'[', class @ ..] if self.has_classes => match self.class(class, byte) {
                Some((length, has_byte)) => return (has_byte && is_wild).then_some(length + 1),
                None => (b'[', 1),
            },
            [b'\\', escaped, ..] if self.has_escapes => (*escaped, 2),
            [own, ..] => (*own, 1),
        };
        (self.folded(own) == self.folded(byte)).then_some(length)
    }

    /// Reads a class behind its bracket: its length with the end, and whether it has a byte.
    fn class(self, class: &[u8], byte: u8) -> Option<(usize, bool)> {
        let is_negated = matches!(class.first(), Some(b'!' | b'^'));
        let start = usize::from(is_negated);
        let (mut at, mut is_found) = (start, false);
        while at == start || class.get(at) != Some(&b']') {
            let first = self.member(class, &mut at)?;
            let is_range = matches!(class.get(at..), Some([b'-', last, ..]) if *last != b']');
            let last = if is_range {
                at += 1;
                self.member(class, &mut at)?
            } else {
                first
            };
            is_found |= (first..=last).contains(&byte)
                || (self.folded(first)..=self.folded(last)).contains(&self.folded(byte));
        }
        Some((at + 1, is_found != is_negated))
    }

    fn member(self, class: &[u8], at: &mut usize) -> Option<u8> {
        let is_escaped = self.has_escapes && class.get(*at) == Some(&b'\\');
        *at += usize::from(is_escaped) + 1;
        class.get(*at - 1).copied()
    }

    fn folded(self, byte: u8) -> u8 {
        if self.ignores_case { byte.to_ascii_lowercase() } else { byte }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHELL: Rules =
        Rules { has_classes: true, has_escapes: true, is_path: false, ignores_case: false };

    #[track_caller]
    fn check(rules: Rules, matching: &[[&str; 2]], others: &[[&str; 2]]) {
        for ([pattern, text], expected) in
            matching.iter().map(|pair| (pair, true)).chain(others.iter().map(|pair| (pair, false)))
        {
            let found = matches(pattern.as_bytes(), text.as_bytes(), rules);
            assert_eq!(found, expected, "{pattern} {text}");
        }
    }

    #[test]
    fn stars_and_question_marks_match_whole_texts() {
        check(
            Rules::default(),
            &[["*.php", "a.php"], ["*", ""], ["a*b*c", "axxbbyc"], ["*a*b", "xaxxb"], ["[", "["]],
            &[["*.php", "a.phpx"], ["a?c", "ac"], ["", "a"], ["[a]", "a"], ["\\a", "a"]],
        );
    }

    #[test]
    fn classes_and_escapes_are_those_of_fnmatch() {
        check(
            SHELL,
            &[
                ["[a-c]?[!x]", "bzy"],
                ["[]a]", "]"],
                ["[!]]", "a"],
                ["[a-]", "-"],
                ["[\\]]", "]"],
                ["[a-\\c]", "b"],
                ["[", "["],
                ["[a", "[a"],
                ["\\*", "*"],
                ["\\", "\\"],
            ],
            &[["[a-c]?[!x]", "bzx"], ["[!a]", "a"], ["[!a]", ""], ["\\*", "a"], ["\\*?", "ax"]],
        );
        let plain = Rules { has_escapes: false, ..SHELL };
        check(plain, &[["\\*", "\\a"], ["[\\]]", "\\]"]], &[["\\*", "*"]]);
    }

    #[test]
    fn rules_restrict_slashes_and_ignore_case() {
        let path = Rules { is_path: true, ..SHELL };
        check(
            path,
            &[["*/b", "a/b"], ["a/?", "a/b"]],
            &[["*", "a/b"], ["a?b", "a/b"], ["a[!x]b", "a/b"]],
        );
        let any_case = Rules { ignores_case: true, ..SHELL };
        check(any_case, &[["A[B-D]", "ac"], ["a[b-d]", "AC"]], &[["a[b-d]", "AE"]]);
    }

    #[test]
    fn names_without_wildcards_are_no_patterns() {
        for (pattern, expected) in [
            ("a*", true),
            ("a?", true),
            ("[a]", true),
            ("a", false),
            ("]a[", false),
            ("\\*", false),
        ] {
            assert_eq!(is_pattern(pattern.as_bytes()), expected, "{pattern}");
        }
    }

    /// A second matcher, by recursion.
    fn matches_slowly(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                (0..=name.len()).any(|length| matches_slowly(rest, &name[length..]))
            }
            ([b'?', rest @ ..], [_, name @ ..]) => matches_slowly(rest, name),
            ([byte, rest @ ..], [other, name @ ..]) => byte == other && matches_slowly(rest, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn stars_match_as_by_recursion(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(
                matches(pattern, text, Rules::default()),
                matches_slowly(pattern, text)
            );
        }

        #[test]
        fn any_pattern_ends(
            pattern in "[ab*?\\[\\]!\\\\-]{0,20}",
            text in "[ab]{0,40}",
            has_classes: bool,
            has_escapes: bool,
        ) {
            let rules = Rules { has_classes, has_escapes, ..Rules::default() };
            matches(pattern.as_bytes(), text.as_bytes(), rules);
        }

        #[test]
        fn a_text_matches_itself_and_stars_in_it(text in "[a-c]{0,10}", at in 0_usize..10) {
            let (start, end) = text.split_at(at.min(text.len()));
            let star = format!("{start}*{end}");
            for pattern in [&text, &star] {
                prop_assert!(matches(pattern.as_bytes(), text.as_bytes(), SHELL));
            }
        }
    }
}
