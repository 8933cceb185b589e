//! `if`: a template that comes to something, or to nothing.

use crate::error::Error;
use crate::node::Node;
use crate::template::{Template, Variable};

/// A condition on a template: holds if the template comes to something. Empty text, `0`, `false`,
/// `null` and `undefined` are nothing. With a `!` in front it is the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    negative: bool,
    template: Template,
}

impl Condition {
    /// Whether the condition holds; `value` appends what a variable stands for, and `scratch` is
    /// cleared and used for the text.
    pub fn holds(&self, scratch: &mut Vec<u8>, value: impl FnMut(&Variable, &mut Vec<u8>)) -> bool {
        scratch.clear();
        self.template.expand(scratch, value);
        let is_nothing =
            matches!(scratch.as_slice(), b"" | b"0" | b"false" | b"null" | b"undefined");
        is_nothing == self.negative
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Condition, Error> {
        let text = node.string()?;
        let (negative, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Condition { negative, template: Template::read_text(node, text)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_if_the_template_comes_to_something() {
        let mut scratch = b"left over".to_vec();
        let mut holds = |negative, text: &str, value: &str| {
            let template = Template::parse(text).expect("valid");
            let condition = Condition { negative, template };
            condition.holds(&mut scratch, |_, out| out.extend_from_slice(value.as_bytes()))
        };
        for nothing in ["", "0", "false", "null", "undefined"] {
            assert!(!holds(false, "$arg_a", nothing) && holds(true, "$arg_a", nothing));
        }
        for something in ["1", "00", "False", " "] {
            assert!(holds(false, "$arg_a", something) && !holds(true, "$arg_a", something));
        }
        assert!(holds(false, "$arg_a$arg_b", "0"), "00 is something");
        assert!(!holds(false, "", "x"));
    }
}
