//! Directives of a configuration, nested as its sections are.

use std::path::Path;
use std::rc::Rc;

use crate::Id;

use super::words;

/// A directive, or a section with directives.
#[derive(Debug, Clone)]
pub struct Node {
    /// Name in lower case; that of a section begins with `<`.
    pub name: String,
    /// Name as it is written.
    pub written: String,
    /// Arguments with their variables replaced; of a section without `>`.
    pub arguments: String,
    /// Directives of a section.
    pub children: Vec<Node>,
    /// The entry in the report; `None` for directives that Debian's files have.
    pub id: Option<Id>,
    /// The file; `None` for a text that is no file.
    pub file: Option<Rc<Path>>,
    /// Number of its first line.
    pub line: u32,
}

impl Node {
    /// Returns true for a section.
    pub fn is_section(&self) -> bool {
        self.name.starts_with('<')
    }

    /// Returns the words of the arguments.
    pub fn words(&self) -> Vec<String> {
        words::all(&self.arguments)
    }

    /// Returns the first word; empty if there is none.
    pub fn first(&self) -> String {
        words::take(&self.arguments).0
    }

    /// Returns the directive as lines of a configuration.
    pub fn lines(&self) -> Vec<String> {
        if !self.is_section() {
            return vec![joined(&self.written, &self.arguments)];
        }
        let mut lines = vec![format!("{}>", joined(&self.written, &self.arguments))];
        lines.extend(self.children.iter().flat_map(Node::lines));
        lines.push(format!("</{}>", &self.written[1..]));
        lines
    }

    /// Calls a function for the directive and those inside.
    pub fn each(&self, run: &mut dyn FnMut(&Node)) {
        run(self);
        self.children.iter().for_each(|child| child.each(run));
    }
}

fn joined(name: &str, arguments: &str) -> String {
    if arguments.is_empty() { name.to_owned() } else { format!("{name} {arguments}") }
}
