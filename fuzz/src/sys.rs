//! The log.

/// Escapes a message for the log. The result must not control a terminal, and must have no line
/// that could be taken for another record.
pub fn log(input: &[u8]) {
    let mut line = Vec::new();
    howdah_sys::log::escape(input, &mut line);
    let text = String::from_utf8_lossy(&line);
    for (at, character) in text.char_indices() {
        match character {
            '\n' => assert!(text[at..].starts_with("\n    ")),
            '\t' => {}
            character => assert!(!character.is_control(), "{character:?} in {text:?}"),
        }
    }
    // All bytes but control bytes stay.
    let kept = |bytes: &[u8]| bytes.iter().filter(|byte| byte.is_ascii_graphic()).count();
    assert!(kept(&line) >= kept(input));
}
