//! Findings that many sites share: one line with the number of sites and the first names.

use std::collections::HashMap;

/// Number of equal lines from which on they become one: those of a few sites show their files.
const MIN_REPEATED: usize = 4;

/// Maximum number of names in a line.
const MAX_NAMES: usize = 5;

/// Parts of a document whose names are those of sites.
const PARTS: [&str; 2] = ["/applications/", "/routes/"];

/// Returns lines such as `FILE: /applications/NAME/user: PROBLEM`, or `DIRECTORY/NAME.json: /user:
/// PROBLEM` of sites, with one in place of those that differ in their file and their name only.
pub(super) fn joined(lines: Vec<String>) -> Vec<String> {
    let mut names = HashMap::<(String, String), Vec<String>>::new();
    for line in &lines {
        if let Some((name, key)) = split(line) {
            let known = names.entry(key).or_default();
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    let mut joined = Vec::new();
    for line in lines {
        let Some((name, key)) = split(&line) else {
            joined.push(line);
            continue;
        };
        match names.get(&key) {
            Some(all) if all.len() >= MIN_REPEATED => {
                let Some((first, others)) = all.split_first() else { continue };
                if *first == name {
                    joined.push(format!("{line} (the same for {})", listed(others)));
                }
            }
            _ => joined.push(line),
        }
    }
    joined
}

/// Returns the name of the part that a line is about, and the line without its file and the name:
/// what is in front of the name, and what is behind it.
fn split(line: &str) -> Option<(String, (String, String))> {
    let found = PARTS.iter().filter_map(|part| Some((line.find(&format!(": {part}"))?, *part)));
    let Some((at, part)) = found.min() else { return split_file(line) };
    let rest = line.get(at + 2 + part.len()..)?;
    let (path, _) = rest.split_once(": ")?;
    let name = path.split('/').next().filter(|name| !name.is_empty())?;
    // The name may be in the text as well.
    let behind = rest.get(name.len()..)?.replace(&format!("\"{name}\""), "\"\"");
    Some((name.to_owned(), (part.to_owned(), behind)))
}

/// Does the same for a line such as `DIRECTORY/NAME.json: /user: PROBLEM`.
fn split_file(line: &str) -> Option<(String, (String, String))> {
    let (file, rest) = line.split_once(".json: ")?;
    let (directory, name) = file.rsplit_once('/').filter(|(_, name)| !name.is_empty())?;
    let behind = rest.replace(&format!("\"{name}\""), "\"\"");
    Some((name.to_owned(), (directory.to_owned(), behind)))
}

/// Returns the number of names and the first ones.
fn listed(names: &[String]) -> String {
    let first = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", ");
    let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
    format!("{} others: {first}{more}", names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(site: usize, rest: &str) -> String {
        format!("/etc/howdah/sites/s{site}.json: /applications/s{site}{rest}")
    }

    #[test]
    fn the_line_of_many_sites_is_one() {
        let mut lines = vec!["/etc/howdah/howdah.json: /listeners/*:80: is taken".to_owned()];
        for site in 0..500 {
            lines.push(line(site, "/isolation: no cgroup"));
            lines.push(line(site, &format!(": \"s{site}\" has no memory")));
            lines.push(format!(
                "/etc/howdah/sites/s{site}.json: /user: there is no user \"s{site}\""
            ));
        }
        lines.push(line(7, "/root: /srv/7 is missing"));
        let expected = [
            lines[0].clone(),
            format!("{} (the same for 499 others: s1, s2, s3, s4, s5, ...)", lines[1]),
            format!("{} (the same for 499 others: s1, s2, s3, s4, s5, ...)", lines[2]),
            format!("{} (the same for 499 others: s1, s2, s3, s4, s5, ...)", lines[3]),
            line(7, "/root: /srv/7 is missing"),
        ];
        assert_eq!(joined(lines), expected);
    }

    #[test]
    fn other_lines_stay() {
        let lines = vec![
            line(1, "/user: none"),
            line(2, "/user: none"),
            line(3, "/user: none"),
            line(4, "/user: another"),
            line(4, "/user: another"),
            "d: /applications: a".to_owned(),
            "d: /routes/".to_owned(),
            ": /applications/: : ".to_owned(),
            String::new(),
        ];
        assert_eq!(joined(lines.clone()), lines);
    }
}
