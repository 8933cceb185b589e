//! The tree of calls of a profile. The answer may come from a router that was taken over.

use std::collections::HashMap;

use howdah_questions::{Profile, ProfileFrame, ProfileNode};

/// Names of calls that are no functions; their files tell them apart.
const UNNAMED: [&str; 3] = ["{main}", "include()", "eval()"];

/// A call, in a place of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node<'a> {
    /// The call that it was made by; smaller than its own number.
    pub parent: Option<usize>,
    /// Name of the function.
    pub name: &'a str,
    /// Path of the file; empty for functions of PHP.
    pub file: &'a str,
    /// The line that ran; 0 if unknown or of several.
    pub line: u32,
    /// Ticks of the call itself.
    pub own: u64,
    /// Ticks of the call with all that it has called.
    pub total: u64,
}

impl Node<'_> {
    /// Returns the name that tells it apart: of a file, with its path.
    pub(super) fn label(&self) -> String {
        if UNNAMED.contains(&self.name) && !self.file.is_empty() {
            format!("{} {}", self.name, self.file)
        } else {
            self.name.to_owned()
        }
    }
}

/// The calls, each behind the one that has made it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree<'a>(pub(super) Vec<Node<'a>>);

impl<'a> Tree<'a> {
    /// Returns the tree of a profile; `None` if one of its numbers leads nowhere.
    pub(super) fn new(profile: &'a Profile) -> Option<Self> {
        let string = |number: u32| profile.strings.get(number as usize).map(String::as_str);
        let mut nodes = Vec::with_capacity(profile.nodes.len());
        for (at, ProfileNode(parent, frame, own)) in profile.nodes.iter().enumerate() {
            let parent = (*parent as usize).checked_sub(1);
            if parent.is_some_and(|parent| parent >= at) {
                return None;
            }
            let ProfileFrame(name, file, line) = profile.frames.get(*frame as usize)?;
            let (name, file) = (string(*name)?, string(*file)?);
            nodes.push(Node { parent, name, file, line: *line, own: *own, total: *own });
        }
        Some(Tree(nodes).with_totals())
    }

    /// Returns the tree in which calls of one function by another are together, whatever their
    /// lines.
    pub(super) fn by_function(&self) -> Self {
        let mut numbers: HashMap<(Option<usize>, &str, &str), usize> = HashMap::new();
        let (mut nodes, mut places): (Vec<Node<'a>>, Vec<usize>) = (Vec::new(), Vec::new());
        for node in &self.0 {
            let parent = node.parent.and_then(|parent| places.get(parent).copied());
            let number = *numbers.entry((parent, node.name, node.file)).or_insert_with(|| {
                nodes.push(Node { parent, line: 0, own: 0, total: 0, ..node.clone() });
                nodes.len() - 1
            });
            if let Some(same) = nodes.get_mut(number) {
                same.own = same.own.saturating_add(node.own);
            }
            places.push(number);
        }
        Tree(nodes).with_totals()
    }

    fn with_totals(mut self) -> Self {
        self.0.iter_mut().for_each(|node| node.total = node.own);
        for at in (0..self.0.len()).rev() {
            let Some(Node { parent: Some(parent), total, .. }) = self.0.get(at) else { continue };
            let (parent, total) = (*parent, *total);
            if let Some(parent) = self.0.get_mut(parent) {
                parent.total = parent.total.saturating_add(total);
            }
        }
        self
    }

    /// Returns the ticks of all calls.
    pub(super) fn ticks(&self) -> u64 {
        self.0.iter().fold(0, |sum, node| sum.saturating_add(node.own))
    }

    /// Returns the numbers of the calls of a stack, the innermost first.
    pub(super) fn stack(&self, innermost: usize) -> impl Iterator<Item = usize> {
        let parent = |at: &usize| self.0.get(*at)?.parent;
        std::iter::successors(Some(innermost), parent)
    }
}
