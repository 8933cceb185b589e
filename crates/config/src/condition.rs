//! `if`: a template that comes to something, or to nothing.

use crate::error::Error;
use crate::node::Node;
use crate::template::{Part, Template, Variable};

/// A condition on a template: holds if the template comes to something. Empty text, `0`, `false`,
/// `null` and `undefined` are nothing. With a `!` in front it is the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    negative: bool,
    template: Template,
}

/// When a condition is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// While a step is chosen.
    BeforeResponse,
    /// When the access log gets its line; the head of the request may have been refused.
    AfterResponse,
}

/// What a part of a condition can come to.
enum Piece<'a> {
    Text(&'a str),
    Any,
    /// Text that is neither empty nor one of [`NOTHING`], also with other text beside it.
    Something,
}

/// Texts that a condition takes for nothing, as [`Condition::holds`] compares them.
const NOTHING: [&str; 5] = ["", "0", "false", "null", "undefined"];

impl Condition {
    /// Whether the condition holds, if that is the same for all requests.
    pub(crate) fn constant(&self, moment: Moment) -> Option<bool> {
        let pieces: Vec<_> =
            self.template.parts().iter().map(|part| Piece::of(part, moment)).collect();
        if pieces.iter().any(|piece| matches!(piece, Piece::Something))
            || !NOTHING.iter().any(|word| can_be(&pieces, word))
        {
            return Some(!self.negative);
        }
        let is_fixed = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
        is_fixed.then_some(self.negative)
    }

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

impl<'a> Piece<'a> {
    fn of(part: &'a Part, moment: Moment) -> Piece<'a> {
        use Variable::{
            BodyBytesSent, Method, RemoteAddress, RequestId, RequestLine, RequestTime, RequestUri,
            ResponseHeader, Scheme, Status, TimeLocal, Uri,
        };
        let variable = match part {
            Part::Literal(text) => return Piece::Text(text),
            Part::Variable(variable) => variable,
        };
        match (variable, moment) {
            (RemoteAddress | RequestTime | Scheme | TimeLocal, _) => Piece::Something,
            (Status, Moment::AfterResponse) => Piece::Something,
            (Method | RequestId | RequestLine | RequestUri | Uri, Moment::BeforeResponse) => {
                Piece::Something
            }
            (Status | ResponseHeader(_), Moment::BeforeResponse) => Piece::Text(""),
            (BodyBytesSent, Moment::BeforeResponse) => Piece::Text("0"),
            _ => Piece::Any,
        }
    }
}

/// Whether pieces can come to a word.
fn can_be(pieces: &[Piece<'_>], word: &str) -> bool {
    // Ends of the beginnings of the word that the pieces so far can come to.
    let mut ends = vec![0];
    for piece in pieces {
        ends = match piece {
            Piece::Something => return false,
            Piece::Any => ends.first().map_or(Vec::new(), |first| (*first..=word.len()).collect()),
            Piece::Text(text) => { ends.into_iter() }
                .filter(|end| word.get(*end..).is_some_and(|rest| rest.starts_with(text)))
                .map(|end| end + text.len())
                .collect(),
        };
    }
    ends.contains(&word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_is_the_same_for_all_requests_is_known() {
        use Moment::{AfterResponse, BeforeResponse};
        let constant = |text: &str, moment| {
            let (negative, text) = match text.strip_prefix('!') {
                Some(text) => (true, text),
                None => (false, text),
            };
            let template = Template::parse(text).expect("valid");
            Condition { negative, template }.constant(moment)
        };
        for (text, before, after) in [
            ("", Some(false), Some(false)),
            ("!", Some(true), Some(true)),
            ("1", Some(true), Some(true)),
            ("!false", Some(true), Some(true)),
            ("$cookie_a", None, None),
            ("$cookie_a$cookie_b", None, None),
            ("a$cookie_a", Some(true), Some(true)),
            ("fal$cookie_a", None, None),
            ("$uri", Some(true), None),
            ("!$uri", Some(false), None),
            ("$status", Some(false), Some(true)),
            ("$response_header_etag", Some(false), None),
            ("$body_bytes_sent", Some(false), None),
            ("$scheme", Some(true), Some(true)),
        ] {
            assert_eq!(constant(text, BeforeResponse), before, "{text}");
            assert_eq!(constant(text, AfterResponse), after, "{text}");
        }
    }

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
