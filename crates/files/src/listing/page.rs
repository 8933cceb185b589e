//! A listing as a page of HTML: without scripts and images, for screens of any width, light or
//! dark.

use std::fmt::Write;

use howdah_text::{date, html, percent};

use super::entry::Entry;
use super::order::{Order, SortBy};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8883;--dim:#666;--link:#0b57d0}\
@media(prefers-color-scheme:dark){:root{--dim:#aaa;--link:#8ab4f8}}\
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;\
background:Canvas;color:CanvasText}\
h1{font-size:1.25rem;font-weight:600;overflow-wrap:anywhere;margin:.5rem 0 1rem}\
a{color:var(--link);text-decoration:none}a:hover,a:focus{text-decoration:underline}\
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}\
th{text-align:left;font-weight:600;white-space:nowrap}\
th,td{padding:.4rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}\
td:first-child{overflow-wrap:anywhere}td+td,th+th{text-align:right;white-space:nowrap}\
td+td,p{color:var(--dim)}.d a{font-weight:600}\
@media(max-width:36rem){body{padding:.5rem}thead tr,tbody tr{display:flex;flex-wrap:wrap;\
border-bottom:1px solid var(--line)}td,th{border:0;padding:.4rem .25rem}\
td:first-child{flex:0 0 100%;padding-bottom:0}td+td{font-size:.85rem;padding:0 .25rem .4rem}\
td:empty{display:none}}";

/// Formats the entries of the directory with the decoded path `shown`.
pub(super) fn format(shown: &[u8], order: Order, entries: &[Entry], is_complete: bool) -> String {
    let mut page = String::with_capacity(2048 + 192 * entries.len());
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    page.push_str("<title>Index of ");
    escape(&String::from_utf8_lossy(shown), &mut page);
    page.push_str("</title>\n<style>");
    page.push_str(STYLE);
    page.push_str("</style>\n</head>\n<body>\n<h1>Index of ");
    write_ancestors(shown, &mut page);
    page.push_str("</h1>\n<table>\n<thead><tr>");
    for (by, label) in [(SortBy::Name, "Name"), (SortBy::Size, "Size"), (SortBy::Time, "Modified")]
    {
        write_heading(by, label, order, &mut page);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    if shown.len() > 1 {
        page.push_str("<tr class=\"d\"><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
    entries.iter().for_each(|entry| write_row(entry, &mut page));
    page.push_str("</tbody>\n</table>\n");
    if entries.is_empty() {
        page.push_str("<p>This directory is empty.</p>\n");
    }
    if !is_complete {
        page.push_str("<p>This directory has more files than are shown.</p>\n");
    }
    page.push_str("</body>\n</html>\n");
    page
}

/// Writes the path with a link for each directory above. Links are relative, so that they also hold
/// behind a proxy that serves the site under another path.
fn write_ancestors(shown: &[u8], page: &mut String) {
    let segments: Vec<_> =
        shown.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
    match segments.len() {
        0 => page.push('/'),
        depth => {
            let _ = write!(page, "<a href=\"{}\">/</a>", "../".repeat(depth));
        }
    }
    for (index, segment) in segments.iter().enumerate() {
        let above = segments.len() - index - 1;
        match above {
            0 => escape(&String::from_utf8_lossy(segment), page),
            _ => {
                let _ = write!(page, "<a href=\"{}\">", "../".repeat(above));
                escape(&String::from_utf8_lossy(segment), page);
                page.push_str("</a>");
            }
        }
        page.push('/');
    }
}

fn write_heading(by: SortBy, label: &str, order: Order, page: &mut String) {
    let is_current = order.by == by;
    let (state, arrow) = match (is_current, order.is_descending) {
        (false, _) => ("", ""),
        (true, false) => (" aria-sort=\"ascending\"", " ↑"),
        (true, true) => (" aria-sort=\"descending\"", " ↓"),
    };
    // The largest and the newest files are wanted more often than the others.
    let is_descending = if is_current { !order.is_descending } else { by != SortBy::Name };
    let next = if is_descending { "desc" } else { "asc" };
    let word = by.word();
    let _ = write!(
        page,
        "<th scope=\"col\"{state}><a href=\"?sort={word}&amp;order={next}\">{label}</a>{arrow}</th>"
    );
}

fn write_row(entry: &Entry, page: &mut String) {
    let slash = if entry.is_directory { "/" } else { "" };
    page.push_str(if entry.is_directory {
        "<tr class=\"d\"><td><a href=\""
    } else {
        "<tr><td><a href=\""
    });
    encode(&entry.name, page);
    page.push_str(slash);
    page.push_str("\">");
    escape(&String::from_utf8_lossy(&entry.name), page);
    page.push_str(slash);
    page.push_str("</a></td><td>");
    if !entry.is_directory {
        write_size(entry.size, page);
    }
    page.push_str("</td><td>");
    write_time(entry.modified, page);
    page.push_str("</td></tr>\n");
}

/// Writes a size with at most three digits in front of its unit.
fn write_size(bytes: u64, page: &mut String) {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        let _ = write!(page, "{bytes} B");
        return;
    }
    let (mut whole, mut tenths) = (bytes, 0);
    for unit in UNITS {
        tenths = whole % 1000 / 100;
        whole /= 1000;
        if whole < 1000 {
            let _ = if whole < 10 {
                write!(page, "{whole}.{tenths} {unit}")
            } else {
                write!(page, "{whole} {unit}")
            };
            return;
        }
    }
    let _ = tenths;
}

/// Writes a time, in UTC.
fn write_time(seconds: u64, page: &mut String) {
    let mut text = String::with_capacity(24);
    date::rfc3339(std::time::Duration::from_secs(seconds), &mut text);
    // The format is 2026-12-31T23:59:59.000Z.
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    let minutes = time.get(..5).unwrap_or_default();
    let _ = write!(page, "<time datetime=\"{date}T{minutes}Z\">{date} {minutes}</time>");
}

/// Writes text so that it cannot be markup, end a line or turn the direction of the text behind it.
fn escape(text: &str, page: &mut String) {
    let is_bad = |character: char| {
        character.is_control()
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    html::escape(&text.replace(is_bad, "\u{fffd}"), page);
}

/// Writes a name as a relative reference. A colon is encoded, as it could end a scheme.
fn encode(name: &[u8], page: &mut String) {
    let is_plain = |byte| percent::is_unreserved(byte) || b"!$()*+,;=@".contains(&byte);
    percent::encode_text(name, is_plain, page);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ORDER: Order = Order { by: SortBy::Name, is_descending: false };

    fn page(shown: &str, entries: &[Entry]) -> String {
        format(shown.as_bytes(), ORDER, entries, true)
    }

    #[test]
    fn a_name_is_text_and_a_reference() {
        let name = b"a&b <script>\"'#?%:\xff/".to_vec();
        let page = page("/", &[Entry::file(name, 1, 0)]);
        let expected = "<a href=\"a%26b%20%3Cscript%3E%22%27%23%3F%25%3A%FF%2F\">\
                        a&amp;b &lt;script&gt;&quot;&#39;#?%:\u{fffd}/</a>";
        assert!(page.contains(expected), "{page}");
        assert!(!page.contains("<script"));
    }

    #[test]
    fn directories_above_have_links() {
        let top = page("/", &[]);
        assert!(top.contains("<h1>Index of /</h1>") && !top.contains("../"), "{top}");
        assert!(top.contains("This directory is empty."));
        let below = page("/a/b&/c/", &[]);
        let links =
            "<a href=\"../../../\">/</a><a href=\"../../\">a</a>/<a href=\"../\">b&amp;</a>/c/";
        assert!(below.contains(links) && below.contains("<a href=\"../\">../</a>"), "{below}");
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 KB"),
            (9_999, "9.9 KB"),
            (123_456, "123 KB"),
            (1_500_000, "1.5 MB"),
            (u64::MAX, "18 EB"),
        ] {
            let mut text = String::new();
            write_size(bytes, &mut text);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn times_are_in_utc() {
        let mut text = String::new();
        write_time(1_000_000_000, &mut text);
        assert_eq!(text, "<time datetime=\"2001-09-09T01:46Z\">2001-09-09 01:46</time>");
        write_time(u64::MAX, &mut text);
    }

    proptest! {
        #[test]
        fn no_name_changes_the_markup(name: Vec<u8>, shown: Vec<u8>) {
            let entries = [Entry::file(name, 1, 1)];
            let page = format(&shown, ORDER, &entries, true);
            let plain = format(&shown, ORDER, &[Entry::file(b"a".to_vec(), 1, 1)], true);
            prop_assert_eq!(page.matches('<').count(), plain.matches('<').count());
            prop_assert_eq!(page.matches('"').count(), plain.matches('"').count());
            prop_assert_eq!(page.lines().count(), plain.lines().count());
        }
    }
}
