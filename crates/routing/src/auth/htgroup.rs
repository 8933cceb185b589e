//! Files of groups as Apache reads them: a line `GROUP: USER USER…` for each. Lines of one group add
//! up; names of groups are the same in upper and lower case.

use std::collections::HashMap;

/// Returns the groups of each user, in lower case.
pub fn parse(text: &[u8]) -> HashMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut groups = HashMap::<Vec<u8>, Vec<Vec<u8>>>::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        let Some(colon) = memchr::memchr(b':', line).filter(|_| !line.starts_with(b"#")) else {
            continue;
        };
        let (group, members) = line.split_at(colon);
        let group = group.trim_ascii().to_ascii_lowercase();
        let members = members.get(1..).unwrap_or_default();
        for member in members.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()) {
            let quoted = |quote: &[u8]| member.strip_prefix(quote)?.strip_suffix(quote);
            let name = quoted(b"\"").or_else(|| quoted(b"'")).unwrap_or(member);
            let own = groups.entry(name.to_vec()).or_default();
            if !own.contains(&group) {
                own.push(group.clone());
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_group_add_up() {
        let text =
            b"# note: x\nStaff: ann bob\r\n\nadmin:ann\nstaff:\t'eve' \"dan\"\nno colon\nempty:\n";
        let groups = parse(text);
        let of = |name: &str| {
            let own = groups.get(name.as_bytes()).cloned().unwrap_or_default();
            own.iter().map(|group| String::from_utf8_lossy(group).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of("ann"), ["staff", "admin"]);
        assert_eq!(
            (of("bob"), of("eve"), of("dan")),
            (vec!["staff".into()], vec!["staff".into()], vec!["staff".into()])
        );
        assert!(of("x").is_empty() && of("colon").is_empty() && of("Staff").is_empty());
    }
}
