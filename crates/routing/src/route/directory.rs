//! Directories whose names depend on the request.

use howdah_config::{Part, Template};

/// Returns true if a directory is below the text in front of the first variable of its template:
/// no later segment leads back.
pub fn is_below(template: &Template, expanded: &[u8]) -> bool {
    let fixed = match template.parts() {
        [] | [Part::Literal(_)] => return true,
        [Part::Literal(start), ..] => start.rfind('/').map_or(0, |slash| slash + 1),
        _ => 0,
    };
    let variable = expanded.get(fixed..).unwrap_or_default();
    let mut segments = variable.split(|byte| *byte == b'/');
    !variable.contains(&0) && !segments.any(|segment| matches!(segment, b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_leads_back() {
        let template = Template::parse("/srv/./x-$host/public").expect("a template");
        for (expanded, expected) in [
            ("/srv/./x-a.org/public", true),
            ("/srv/./x-..", true),
            ("/srv/./x-a/../b/public", false),
            ("/srv/./x-a/./public", false),
            ("/srv/./x-a\0/public", false),
        ] {
            assert_eq!(is_below(&template, expanded.as_bytes()), expected, "{expanded}");
        }
        let host = Template::parse("/srv/$host").expect("a template");
        assert!(!is_below(&host, b"/srv/..") && is_below(&host, b"/srv/..."));
        let constant = Template::parse("/srv/../www").expect("a template");
        assert!(is_below(&constant, b"/srv/../www"), "the administrator has written it");
    }
}
