//! A line for each stack: its calls, the outermost first, with `;` between them, and its ticks.

use std::fmt::Write;

use super::tree::Tree;

pub(super) fn write(tree: &Tree<'_>) -> String {
    let mut text = String::new();
    for (at, node) in tree.0.iter().enumerate().filter(|(_, node)| node.own > 0) {
        let calls: Vec<_> = tree.stack(at).filter_map(|at| tree.0.get(at)).collect();
        for (place, call) in calls.iter().rev().enumerate() {
            if place > 0 {
                text.push(';');
            }
            text.extend(call.label().chars().map(|c| match c {
                ';' => ',',
                c if c.is_control() => '\u{fffd}',
                c => c,
            }));
        }
        let _ = writeln!(text, " {}", node.own);
    }
    text
}
