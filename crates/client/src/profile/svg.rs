//! A flame graph: a picture that needs no other file. Names come from scripts: they are text of the
//! document, and the script in it only reads them.

use std::fmt::Write;

use howdah_questions::Profile;

use super::tree::{Node, Tree};

/// Sizes in pixels: the picture, the rows, and the space beside, above and below them.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const SIDE: f64 = 10.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 30.0;

/// Width of a character, and the minimum width of a call that is drawn.
const CHARACTER: f64 = 7.1;
const MIN_WIDTH: f64 = 0.1;

/// Maximum number of rows. Deeper calls are part of those above them.
const MAX_ROWS: usize = 256;

/// The script: a click on a call zooms, Ctrl+F or the text above searches.
const SCRIPT: &str = include_str!("svg/script.js");

/// A call as it is drawn.
struct Shape<'t, 'a> {
    node: &'t Node<'a>,
    row: usize,
    /// Ticks to the left of it.
    left: u64,
}

pub(super) fn write(profile: &Profile, tree: &Tree<'_>) -> String {
    let all = tree.ticks().max(1);
    let scale = (WIDTH - 2.0 * SIDE) / all as f64;
    let shapes = shapes(tree, scale);
    let rows = shapes.iter().map(|shape| shape.row + 1).max().unwrap_or_default() + 1;
    let height = TOP + rows as f64 * ROW + BOTTOM;
    let clock = if profile.clock == "processor" { "processor time" } else { "time" };
    let title = format!("{}: {clock} of {} requests", profile.site, profile.requests);
    let mut out = String::new();
    let _ = write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" \
         font-size=\"12\" data-width=\"{}\" data-side=\"{SIDE}\" data-character=\"{CHARACTER}\">\n\
         <style>rect{{stroke:#fff;stroke-width:.5}}g.c{{cursor:pointer}}g.c:hover rect{{stroke:#000}}\
         text{{pointer-events:none}}#reset,#search{{pointer-events:auto;cursor:pointer;fill:#06c}}\
         g.c.found rect{{fill:#e4c}}g.c.parent{{opacity:.55}}.out{{display:none}}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{}\" y=\"22\" text-anchor=\"middle\" font-size=\"16\">",
        WIDTH - 2.0 * SIDE,
        WIDTH / 2.0,
    );
    escape(&title, &mut out);
    let _ = write!(
        out,
        "</text>\n<text id=\"reset\" class=\"out\" x=\"{SIDE}\" y=\"44\">Show all</text>\n\
         <text id=\"search\" x=\"{}\" y=\"44\" text-anchor=\"end\">Search</text>\n\
         <text id=\"told\" x=\"{SIDE}\" y=\"{}\"> </text>\n",
        WIDTH - SIDE,
        height - 10.0,
    );
    let period = f64::from(profile.period_us) / 1e6;
    let mut draw = |label: &str, file: &str, row: usize, left: u64, ticks: u64, own: u64| {
        let (x, width) = (SIDE + left as f64 * scale, ticks as f64 * scale);
        let y = height - BOTTOM - (row + 1) as f64 * ROW;
        let share = ticks as f64 * 100.0 / all as f64;
        let (seconds, own) = (ticks as f64 * period, own as f64 * period);
        out.push_str("<g class=\"c\"><title>");
        escape(label, &mut out);
        if !file.is_empty() && !label.ends_with(file) {
            out.push_str(" in ");
            escape(file, &mut out);
        }
        let _ = write!(
            out,
            ": {share:.1} %, {seconds:.2} s, itself {own:.2} s</title>\
             <rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\" \
             data-x=\"{left}\" data-w=\"{ticks}\"/><text x=\"{:.1}\" y=\"{:.0}\" data-n=\"",
            ROW - 1.0,
            color(label, file),
            x + 3.0,
            y + 12.0,
        );
        escape(label, &mut out);
        out.push_str("\">");
        escape(&shortened(label, width), &mut out);
        out.push_str("</text></g>\n");
    };
    draw("all", "", 0, 0, all, 0);
    for Shape { node, row, left } in shapes {
        draw(&node.label(), node.file, row + 1, left, node.total, node.own);
    }
    let _ = write!(out, "<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n");
    out
}

/// Returns the calls that are wide enough, with their places: those of one call side by side in the
/// order of their names, as in other flame graphs.
fn shapes<'t, 'a>(tree: &'t Tree<'a>, scale: f64) -> Vec<Shape<'t, 'a>> {
    let mut order: Vec<_> = tree.0.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| (a.name, a.file).cmp(&(b.name, b.file)));
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); tree.0.len()];
    let mut roots = Vec::new();
    for (at, node) in order {
        match node.parent.and_then(|parent| below.get_mut(parent)) {
            Some(calls) => calls.push(at),
            None => roots.push(at),
        }
    }
    let (mut shapes, mut left) = (Vec::new(), 0u64);
    // Calls to draw, the next one last: number, row, ticks to its left.
    let mut next = Vec::new();
    for at in roots {
        next.push((at, 0usize, left));
        left = left.saturating_add(tree.0.get(at).map_or(0, |node| node.total));
    }
    while let Some((at, row, left)) = next.pop() {
        let Some(node) = tree.0.get(at) else { continue };
        if (node.total as f64) * scale < MIN_WIDTH || row >= MAX_ROWS {
            continue;
        }
        shapes.push(Shape { node, row, left });
        let mut left = left;
        for call in below.get(at).into_iter().flatten() {
            next.push((*call, row + 1, left));
            left = left.saturating_add(tree.0.get(*call).map_or(0, |node| node.total));
        }
    }
    shapes
}

/// Returns as much of a name as fits a width.
fn shortened(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / CHARACTER).max(0.0) as usize;
    match name.chars().count() {
        length if length <= room => name.to_owned(),
        _ if room < 3 => String::new(),
        _ => name.chars().take(room - 2).chain("..".chars()).collect(),
    }
}

/// Returns a warm color that is always the same for a function; functions of PHP are blue.
fn color(name: &str, file: &str) -> String {
    let hash = name.bytes().chain(file.bytes());
    let hash =
        hash.fold(2_166_136_261u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(16_777_619));
    let (a, b) = (hash % 50, hash / 50 % 110);
    match (name, file) {
        ("all", "") => "#ddd".to_owned(),
        (_, "") => format!("rgb({},{},230)", 100 + a, 140 + b / 2),
        _ => format!("rgb({},{},{a})", 205 + a, 90 + b),
    }
}

/// Appends text of an XML document. Characters that XML does not have are replaced.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}
