//! `return`: a status, a text, or a redirect.

use super::context::Place;
use super::convert::Converter;
use super::options::Answer;
use super::reader::Directive;
use super::state::State;
use super::steps::object;
use super::variables::Object;
use crate::Status;

impl<'t> Converter<'_> {
    /// Returns the action of a `return`.
    pub fn return_directive(
        &mut self,
        directive: &'t Directive,
        place: &Place<'t>,
        state: &State,
    ) -> Object {
        let first = directive.arg(0);
        let is_url = |text: &str| {
            text.starts_with("http://")
                || text.starts_with("https://")
                || text.starts_with("$scheme")
        };
        let (status, text) = match (first.parse::<u16>(), directive.args.get(1)) {
            (Ok(status), text) if status <= 999 => (status, text.map(String::as_str)),
            _ if is_url(first) => (302, Some(first)),
            _ => {
                self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    "it is neither a status nor a URL; requests are refused (403)",
                );
                return self.closed(place, state, 403);
            }
        };
        // nginx closes the connection for both.
        let status = if status == 499 { 444 } else { status };
        let mut action = object([("return", status.into())]);
        if let Some(text) = text {
            match self.value(text, place, state) {
                Ok(value) => {
                    let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
                    let has_body = !matches!(status, 100..=199 | 204 | 205 | 304);
                    if is_redirect {
                        action.insert(
                            "location".to_owned(),
                            super::rewrite::location_text(&value).into(),
                        );
                    } else if has_body {
                        action.insert("body".to_owned(), value.render().into());
                    }
                }
                Err(reason) => {
                    let is_refusal = status >= 400;
                    let reason = if is_refusal {
                        format!("{reason}; the response has no text")
                    } else {
                        format!("{reason}; requests are refused (403)")
                    };
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    if !is_refusal {
                        return self.closed(place, state, 403);
                    }
                }
            }
        }
        self.report.converted(directive.id);
        self.add_options(&mut action, place, state, Answer::Own);
        action
    }
}
