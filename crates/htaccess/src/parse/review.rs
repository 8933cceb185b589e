//! Summary of a `.htaccess` for an administrator: its first error, its denials, and the parts that
//! are not read.

use super::compile;
use super::tree::{Node, Reader};
use crate::base::Base;
use crate::words::Words;
use crate::world::Broken;

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Number of the line, from 1.
    pub number: u32,
    /// Directive with its arguments, on one line.
    pub text: String,
}

/// Review of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Review {
    /// The first error: requests below the directory fail with 500.
    pub error: Option<Broken>,
    /// All directives, those inside of sections indented.
    pub directives: Vec<Line>,
    /// Directives that deny access to some clients.
    pub denials: Vec<Line>,
    /// Directives that send requests to other files: rewrite rules and fallbacks.
    pub rewrites: Vec<Line>,
    /// Sections that are not read, because their condition is false: `<IfModule mod_security2.c>`.
    pub skipped: Vec<Line>,
    /// Directives that are ignored although they are known.
    pub warnings: Vec<String>,
}

/// Reviews the bytes of a file; the arguments are those of [`compile`].
pub fn review(
    bytes: &[u8],
    path: &[u8],
    directory: &[u8],
    base: &Base,
    exists: &dyn Fn(&[u8]) -> bool,
) -> Review {
    let mut review = Review::default();
    match compile(bytes, path, directory, base, exists) {
        Ok(config) => review.warnings = config.warnings,
        Err(error) => review.error = Some(error),
    }
    let file = String::from_utf8_lossy(path);
    let allow = base.allowed_in(directory);
    let mut reader = Reader::new(bytes, &file, base, allow, exists);
    // An error in the tree is that of the compilation; the lines before it are not known then.
    if let Ok(nodes) = reader.tree() {
        add_lines(&nodes, &is_denial, &mut review.denials);
        add_lines(&nodes, &is_rewrite, &mut review.rewrites);
        add_directives(&nodes, 0, &mut review.directives);
    }
    let skipped = std::mem::take(&mut reader.skipped).into_iter();
    review.skipped = skipped.map(|(number, text)| Line { number, text: one_line(&text) }).collect();
    review
}

fn add_lines(nodes: &[Node], is_meant: &dyn Fn(&Node) -> bool, lines: &mut Vec<Line>) {
    for node in nodes {
        if is_meant(node) {
            let arguments = String::from_utf8_lossy(&node.arguments);
            let text = one_line(&format!("{} {arguments}", node.name));
            lines.push(Line { number: node.line, text });
        }
        add_lines(&node.children, is_meant, lines);
    }
}

fn add_directives(nodes: &[Node], depth: usize, directives: &mut Vec<Line>) {
    for node in nodes {
        let arguments = String::from_utf8_lossy(&node.arguments);
        let text = one_line(&format!("{} {arguments}", node.name));
        directives.push(Line { number: node.line, text: format!("{}{text}", "  ".repeat(depth)) });
        add_directives(&node.children, depth + 1, directives);
    }
}

/// Returns true if a directive by itself lets only some requests through.
fn is_denial(node: &Node) -> bool {
    let words = || Words::new(&node.arguments).all();
    let is = |word: &[u8], text: &str| word.eq_ignore_ascii_case(text.as_bytes());
    match node.name.to_ascii_lowercase().as_str() {
        "require" => match words().as_slice() {
            [first, second, ..] => !(is(first, "all") && is(second, "granted")),
            _ => true,
        },
        "deny" => true,
        "rewriterule" => words().get(2).is_some_and(|flags| {
            let flags = flags.strip_prefix(b"[").unwrap_or(flags);
            let flags = flags.strip_suffix(b"]").unwrap_or(flags);
            flags.split(|byte| *byte == b',').any(|flag| {
                let flag = flag.trim_ascii();
                ["F", "forbidden", "G", "gone"].iter().any(|name| is(flag, name))
            })
        }),
        _ => false,
    }
}

/// Returns true if a directive sends requests to another file.
fn is_rewrite(node: &Node) -> bool {
    match node.name.to_ascii_lowercase().as_str() {
        "rewriterule" => Words::new(&node.arguments).all().get(1).is_some_and(|to| &to[..] != b"-"),
        "fallbackresource" => true,
        _ => false,
    }
}

/// Returns a text without line breaks and control characters.
fn one_line(text: &str) -> String {
    text.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reviewed(text: &str) -> Review {
        review(text.as_bytes(), b"/www/.htaccess", b"/www/", &Base::default(), &|_| false)
    }

    #[test]
    fn denials_are_found_in_sections_and_behind_conditions_that_hold() {
        let review = reviewed(
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n\
             <Files \"*.sql\">\nOrder allow,deny\nDeny from all\n</Files>\n\
             RewriteRule ^secret - [NC,F]\nRewriteRule ^a b [L]\nRequire all granted\n",
        );
        let lines: Vec<_> = review.denials.iter().map(|line| (line.number, &*line.text)).collect();
        let expected =
            [(2, "Require all denied"), (6, "Deny from all"), (8, "RewriteRule ^secret - [NC,F]")];
        assert_eq!(lines, expected);
        let rewrites: Vec<_> = review.rewrites.iter().map(|line| &*line.text).collect();
        assert_eq!(rewrites, ["RewriteRule ^a b [L]"]);
        assert_eq!(review.error, None);
    }

    #[test]
    fn sections_that_are_not_read_and_errors_are_named() {
        let review =
            reviewed("<IfModule mod_security2.c>\nSecRuleEngine Off\n</IfModule>\nFoo bar\n");
        assert_eq!(review.skipped, [Line { number: 1, text: "<IfModule mod_security2.c>".into() }]);
        let error = review.error.unwrap().message;
        assert!(error.contains("line 4") && error.contains("Foo"), "{error}");
    }
}
