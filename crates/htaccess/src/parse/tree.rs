//! Tree of a file: directives, and sections with their contents.
//!
//! Sections that decide while a file is read (`<IfModule>` and its kin) are resolved here, as in
//! Apache: their content takes their place, or is skipped up to their end without a look at it.

use super::conditions;
use super::failure::Failure;
use super::lines::{Lines, TooLong};
use crate::allow::Allow;
use crate::base::Base;
use crate::words::Words;

/// Deepest nesting of sections.
const MAX_DEPTH: usize = 100;
/// Most directives in a file.
const MAX_NODES: usize = 50_000;

/// A directive, or a section with the directives inside of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// First word of the line, without `>` at its end; a section's begins with `<`.
    pub name: String,
    /// Rest of the line.
    pub arguments: Vec<u8>,
    /// Number of the line, from 1.
    pub line: u32,
    /// Directives of the section.
    pub children: Vec<Node>,
}

/// Reads a file.
pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    file: &'a str,
    base: &'a Base,
    allow: &'a Allow,
    exists: &'a dyn Fn(&[u8]) -> bool,
    nodes: usize,
    /// Sections whose condition is false, with their lines.
    pub(super) skipped: Vec<(u32, String)>,
    /// Files that were asked for, and whether they were there.
    pub(super) probes: Vec<(Vec<u8>, bool)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        bytes: &'a [u8],
        file: &'a str,
        base: &'a Base,
        allow: &'a Allow,
        exists: &'a dyn Fn(&[u8]) -> bool,
    ) -> Reader<'a> {
        Reader {
            lines: Lines::new(bytes),
            file,
            base,
            allow,
            exists,
            nodes: 0,
            skipped: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// Reads the whole file.
    pub(super) fn tree(&mut self) -> Result<Vec<Node>, Failure> {
        self.level(None, 0)
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        self.lines.next().map_err(|TooLong| {
            let line = self.lines.number();
            Failure::new(line, format!("Error reading {} at line {line}: Line too long", self.file))
        })
    }

    fn failure(&self, text: impl Into<String>) -> Failure {
        Failure::new(self.lines.number(), text)
    }

    /// Reads up to the end of the file, or up to the line that ends the section `until`. A section
    /// that the file does not close is an error on the outermost level only: inside of `<IfModule>`
    /// Apache takes it as closed.
    fn level(&mut self, until: Option<&str>, depth: usize) -> Result<Vec<Node>, Failure> {
        let mut open: Vec<Node> = Vec::new();
        let mut done: Vec<Node> = Vec::new();
        while let Some(line) = self.line()? {
            if open.is_empty() && until.is_some_and(|name| is_end(&line, name)) {
                return Ok(done);
            }
            if line.first().is_none_or(|&byte| byte == b'#') {
                continue;
            }
            let node = self.node(&line);
            if node.name.is_empty() {
                continue;
            }
            let level = depth + open.len();
            if level >= MAX_DEPTH || self.nodes >= MAX_NODES {
                return Err(self.failure("Too many directives or nested sections"));
            }
            self.nodes += 1;
            if let Some(section) = conditions::find(&node.name) {
                let children = if self.decide(section, &node)? {
                    self.level(Some(&section.name[1..]), level + 1)?
                } else {
                    let condition = String::from_utf8_lossy(&node.arguments);
                    let condition = condition.trim_end_matches('>');
                    self.skipped.push((node.line, format!("{} {condition}>", node.name)));
                    self.skip(&node.name, level)?;
                    Vec::new()
                };
                open.last_mut().map_or(&mut done, |parent| &mut parent.children).extend(children);
            } else if node.name.starts_with("</") {
                let section = self.close(&node, &mut open)?;
                open.last_mut().map_or(&mut done, |parent| &mut parent.children).push(section);
            } else if node.name.starts_with('<') {
                open.push(node);
            } else {
                open.last_mut().map_or(&mut done, |parent| &mut parent.children).push(node);
            }
        }
        if until.is_none() && !open.is_empty() {
            return Err(self.unclosed(&open));
        }
        while let Some(section) = open.pop() {
            open.last_mut().map_or(&mut done, |parent| &mut parent.children).push(section);
        }
        Ok(done)
    }

    fn node(&self, line: &[u8]) -> Node {
        let mut words = Words::new(line);
        let mut name = words.take();
        let mut arguments = words.rest();
        if name.get(1) != Some(&b'/') {
            if name.last() == Some(&b'>') {
                name.pop();
            }
            if name.first() == Some(&b'<') && arguments.is_empty() {
                arguments = b">";
            }
        }
        Node {
            name: String::from_utf8_lossy(&name).into_owned(),
            arguments: arguments.to_vec(),
            line: self.lines.number(),
            children: Vec::new(),
        }
    }

    fn decide(
        &mut self,
        section: &'static conditions::Section,
        node: &Node,
    ) -> Result<bool, Failure> {
        if !self.allow.permits(section.name, crate::directive::Override::ALL) {
            return Err(self.failure(format!("{} not allowed here", section.name)));
        }
        let mut context =
            conditions::Context { base: self.base, exists: self.exists, probes: &mut self.probes };
        let decision = (section.decide)(section, &node.arguments, &mut context);
        decision.map_err(|text| self.failure(text))
    }

    fn close(&self, node: &Node, open: &mut Vec<Node>) -> Result<Node, Failure> {
        let name = node.name.as_str();
        let Some(section) = open.last() else {
            return Err(self.failure(format!("{name} without matching <{} section", &name[2..])));
        };
        let Some(closed) = name.strip_suffix('>') else {
            return Err(self.failure(format!("{name}> directive missing closing '>'")));
        };
        if !closed[2..].eq_ignore_ascii_case(&section.name[1..]) {
            let expected = &section.name[1..];
            return Err(self.failure(format!("Expected </{expected}> but saw {closed}>")));
        }
        open.pop().ok_or_else(|| self.failure("section is not open"))
    }

    fn unclosed(&self, open: &[Node]) -> Failure {
        let texts: Vec<String> = open
            .iter()
            .rev()
            .map(|section| {
                format!("{}:{}: {}> was not closed.", self.file, section.line, section.name)
            })
            .collect();
        Failure::new(open.first().map_or(0, |section| section.line), texts.join("\n"))
    }

    /// Skips a section and the sections inside of it.
    fn skip(&mut self, name: &str, depth: usize) -> Result<(), Failure> {
        let mut open = vec![name[1..].to_owned()];
        while let Some(line) = self.line()? {
            let mut words = Words::new(&line);
            let mut word = words.take();
            if word.first() != Some(&b'<') {
                continue;
            }
            if word.get(1) == Some(&b'/') {
                word.pop();
                let closed =
                    String::from_utf8_lossy(word.get(2..).unwrap_or_default()).into_owned();
                let expected = open.pop().unwrap_or_default();
                if !closed.eq_ignore_ascii_case(&expected) {
                    let text = format!("Expected </{expected}> but saw </{closed}>");
                    return Err(self.failure(text));
                }
                if open.is_empty() {
                    return Ok(());
                }
                continue;
            }
            if words.rest().is_empty() && word.last() == Some(&b'>') {
                word.pop();
            }
            if depth + open.len() >= MAX_DEPTH {
                return Err(self.failure("Too many nested sections"));
            }
            open.push(String::from_utf8_lossy(word.get(1..).unwrap_or_default()).into_owned());
        }
        let expected = open.pop().unwrap_or_default();
        Err(self.failure(format!("Expected </{expected}> before end of configuration")))
    }
}

/// Returns true for the line that ends a section: exactly `</Name>`.
fn is_end(line: &[u8], name: &str) -> bool {
    line.strip_prefix(b"</")
        .and_then(|line| line.strip_suffix(b">"))
        .is_some_and(|line| line.eq_ignore_ascii_case(name.as_bytes()))
}
