//! Patterns in the names of files.

pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Returns true for a file that a pattern names.
pub(super) fn is_named(pattern: &str, file: &str) -> bool {
    !file.starts_with('.') && matches(pattern.as_bytes(), file.as_bytes())
}

/// Returns true if a name matches a pattern, in which `*` stands for any bytes and `?` for one.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The place behind the last `*`, and the bytes of the name that it stands for end there.
    let mut retry: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, in_name));
            }
            Some(b'?') => (at, in_name) = (at + 1, in_name + 1),
            Some(byte) if name.get(in_name) == Some(byte) => (at, in_name) = (at + 1, in_name + 1),
            _ => match retry {
                Some((behind, end)) => {
                    retry = Some((behind, end + 1));
                    (at, in_name) = (behind, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|byte| *byte == b'*')
}
