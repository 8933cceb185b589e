//! Asks the engine of `.htaccess` whether it takes directives.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use howdah_htaccess::engine::debian_directives;
use howdah_htaccess::{registry, server_config};

use super::tree::Node;
use super::words;

/// Returns what is wrong with lines of directives; `None` if nothing is.
pub fn problem(lines: &[String]) -> Option<String> {
    // The message begins with "base: line 1: ".
    server_config::check(&lines.join("\n")).err().map(|broken| {
        match broken.message.split_once("line ") {
            Some((_, rest)) => rest.split_once(": ").map_or(rest, |(_, text)| text).to_owned(),
            None => broken.message,
        }
    })
}

/// Returns true for a line that the base of the engine has: one of Debian's files.
pub fn is_of_base(node: &Node) -> bool {
    static LINES: OnceLock<BTreeSet<String>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let split = |line: &str| words::all(line).join("\0").to_ascii_lowercase();
        debian_directives().lines().map(split).collect()
    });
    let mut line = vec![node.written.clone()];
    line.extend(node.words());
    lines.contains(&line.join("\0").to_ascii_lowercase())
}

/// Returns true if the engine knows a directive or a section of requirements.
pub fn knows(name: &str) -> bool {
    !registry::find(name).is_empty()
}
