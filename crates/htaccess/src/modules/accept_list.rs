//! Lists of elements in header fields.

use crate::support::{is_space, trimmed};
use crate::table::Table;

/// Returns the elements of a list, without white space outside of quotes and in lower case, as
/// Apache's `ap_get_list_item`.
pub fn elements(list: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let (mut is_quoted, mut bytes) = (false, list.iter().copied());
    while let Some(byte) = bytes.next() {
        let Some(current) = all.last_mut() else { break };
        match byte {
            b',' if !is_quoted => all.push(Vec::new()),
            b' ' | b'\t' if !is_quoted => {}
            b'\\' if is_quoted => {
                current.push(byte);
                current.extend(bytes.next());
            }
            _ => {
                is_quoted ^= byte == b'"';
                current.push(if is_quoted { byte } else { byte.to_ascii_lowercase() });
            }
        }
    }
    all.retain(|element| !element.is_empty());
    all
}

/// Joins all fields `Vary` of a response into one without repetitions, separated by commas only, as
/// Apache's core does for each response before it is sent.
pub fn join_vary(headers: &mut Table) {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for field in headers.all(b"Vary") {
        for name in field.split(|&byte| byte == b',' || is_space(byte)).map(trimmed) {
            if !name.is_empty() && !names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                names.push(name.to_vec());
            }
        }
    }
    if !names.is_empty() {
        headers.set("Vary", names.join(&b','));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vary_has_each_name_once() {
        let mut headers = Table::default();
        headers.add("Vary", "negotiate, accept");
        headers.add("vary", "Accept,Accept-Encoding");
        join_vary(&mut headers);
        let all: Vec<&[u8]> = headers.all(b"Vary").collect();
        assert_eq!(all, [b"negotiate,accept,Accept-Encoding"]);
    }

    #[test]
    fn quotes_keep_commas_and_white_space() {
        assert_eq!(elements(b"A , \"b, C\",,d"), [&b"a"[..], b"\"b, C\"", b"d"]);
    }
}
