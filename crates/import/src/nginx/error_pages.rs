//! `error_page`: pages in place of errors.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::reader::Directive;
use super::rewrite::rewrite_text;
use super::state::State;
use super::steps::object;
use super::variables::Object;
use crate::Status;

impl<'t> Converter<'_> {
    /// Returns the error pages of a place.
    pub fn error_pages(&mut self, place: &Place<'t>, state: &State) -> Object {
        let mut pages = Object::new();
        for directive in place.scope.all("error_page") {
            let Some((target, codes)) = directive.args.split_last() else { continue };
            let (codes, status) = match codes.split_last() {
                Some((sign, codes)) if sign.starts_with('=') => (codes, Some(&sign[1..])),
                _ => (codes, None),
            };
            let page = match self.error_page(directive, target, status, place, state) {
                Ok(page) => page,
                Err(reason) => {
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    continue;
                }
            };
            let mut is_complete = true;
            for code in codes {
                match code.parse::<u16>() {
                    Ok(code) if (400..600).contains(&code) && !(494..=499).contains(&code) => {
                        // The first page of a status counts.
                        pages.entry(code.to_string()).or_insert_with(|| page.clone());
                    }
                    _ => is_complete = false,
                }
            }
            if is_complete {
                self.report.converted(directive.id);
            } else {
                let reason = "statuses below 400, and nginx's own from 494 to 499, have no page";
                let all_foreign = codes
                    .iter()
                    .all(|code| !matches!(code.parse::<u16>(), Ok(400..=493 | 500..=599)));
                let status = if all_foreign { Status::NotConverted } else { Status::Changed };
                self.report.mark(directive.id, status, reason);
            }
        }
        pages
    }

    fn error_page(
        &mut self,
        directive: &'t Directive,
        target: &str,
        status: Option<&str>,
        place: &Place<'t>,
        state: &State,
    ) -> Result<Value, String> {
        self.note_query(directive, target);
        // The page is another request, for which groups of an expression have other values.
        let value = self.value(target, place, state)?;
        let text = value.render();
        let is_url = target.starts_with("http://")
            || target.starts_with("https://")
            || target.starts_with("$scheme");
        if is_url {
            let code = match status {
                Some(code) if matches!(code, "301" | "302" | "303" | "307" | "308") => {
                    code.parse().unwrap_or(302)
                }
                _ => 302,
            };
            return Ok(
                json!({ "action": { "return": code, "location": text }, "keep_status": false }),
            );
        }
        let action = if target.starts_with('@') {
            self.report.mark(directive.id, Status::Changed, "the page is asked for with GET and without a body; nginx keeps both for a named location");
            self.named(place, state, target)?
        } else if value.beginning().starts_with('/') {
            let entry = place.site.as_ref().map(|site| site.internal_entry()).unwrap_or_default();
            object([
                ("rewrite", rewrite_text(&value, true).into()),
                ("pass", format!("routes/{entry}").into()),
            ])
        } else {
            return Err("the page begins with a variable".to_owned());
        };
        let mut page = object([("action", action.into())]);
        match status {
            None => {}
            Some("" | "200") => {
                if !text.split('?').next().unwrap_or_default().ends_with(".php") {
                    let reason = "the page is sent whole: a Range and the conditions of the request have no effect on it";
                    self.report.mark(directive.id, Status::Changed, reason);
                }
                page.insert("keep_status".to_owned(), false.into());
            }
            Some(code) => {
                let code = code.parse::<u16>().ok().filter(|code| (200..600).contains(code));
                let code = code.ok_or("the status of the page is not between 200 and 599")?;
                page.insert("status".to_owned(), code.into());
            }
        }
        Ok(page.into())
    }
}
