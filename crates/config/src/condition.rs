//! `if`: a template as a condition.

use howdah_template::{Part, Template, Variable};

use crate::error::Error;
use crate::node::Node;
use crate::templates;

/// A condition. It holds unless the text of the template is empty, `0`, `false`, `null` or
/// `undefined`. A leading `!` negates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    negative: bool,
    template: Template,
}

/// Time at which a condition is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// While a route selects a step.
    BeforeResponse,
    /// At the end of a request, for its log line. The head of the request may have been refused.
    AfterResponse,
}

/// The texts that a part of a condition can expand to.
enum Piece<'a> {
    Text(&'a str),
    Any,
    /// Text that is neither empty nor one of [`FALSE_TEXTS`], also next to other text.
    True,
}

/// Texts for which a condition does not hold, in the form that [`Condition::holds`] compares.
const FALSE_TEXTS: [&str; 5] = ["", "0", "false", "null", "undefined"];

impl Condition {
    /// Returns the value of the condition if it is the same for all requests.
    pub fn constant(&self, moment: Moment) -> Option<bool> {
        let pieces: Vec<_> =
            self.template.parts().iter().map(|part| Piece::of(part, moment)).collect();
        if pieces.iter().any(|piece| matches!(piece, Piece::True))
            || !FALSE_TEXTS.iter().any(|word| can_be(&pieces, word))
        {
            return Some(!self.negative);
        }
        let is_fixed = pieces.iter().all(|piece| matches!(piece, Piece::Text(_)));
        is_fixed.then_some(self.negative)
    }

    /// Returns true if the condition holds. `value` appends the value of a variable; `scratch` is
    /// cleared and holds the text.
    pub fn holds(&self, scratch: &mut Vec<u8>, value: impl FnMut(&Variable, &mut Vec<u8>)) -> bool {
        scratch.clear();
        self.template.expand(scratch, value);
        let is_false = matches!(scratch.as_slice(), b"" | b"0" | b"false" | b"null" | b"undefined");
        is_false == self.negative
    }

    /// Returns true if the condition depends on a variable of this kind.
    pub fn leads_to(&self, is_wanted: &dyn Fn(&Variable) -> bool) -> bool {
        self.template.leads_to(is_wanted)
    }

    pub(crate) fn read(node: &Node<'_>) -> Result<Condition, Error> {
        let text = node.string()?;
        let (negative, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Ok(Condition { negative, template: templates::read_text(node, text)? })
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
            (RemoteAddress | RequestTime | Scheme | TimeLocal, _) => Piece::True,
            (Status, Moment::AfterResponse) => Piece::True,
            (Method | RequestId | RequestLine | RequestUri | Uri, Moment::BeforeResponse) => {
                Piece::True
            }
            (Status | ResponseHeader(_), Moment::BeforeResponse) => Piece::Text(""),
            (BodyBytesSent, Moment::BeforeResponse) => Piece::Text("0"),
            _ => Piece::Any,
        }
    }
}

/// Returns true if the pieces can expand to a word.
fn can_be(pieces: &[Piece<'_>], word: &str) -> bool {
    // Lengths of the prefixes of the word that the pieces so far can expand to.
    let mut ends = vec![0];
    for piece in pieces {
        ends = match piece {
            Piece::True => return false,
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
