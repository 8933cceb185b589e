//! `auth_basic`: passwords.

use serde_json::json;

use super::context::Place;
use super::convert::Converter;
use super::reader::Directive;
use super::state::State;
use super::steps::object;
use super::template::Template;
use super::variables::{Object, Reason};
use crate::Status;

impl Converter<'_> {
    /// Returns `basic_auth` of a place, `None` without a password, and an error if requests have to
    /// be refused.
    pub fn basic_auth(&mut self, place: &Place<'_>, state: &State) -> Result<Option<Object>, ()> {
        let directive = place.scope.one("auth_basic").filter(|directive| directive.arg(0) != "off");
        let Some(directive) = directive else {
            if let Some(off) = place.scope.one("auth_basic") {
                self.report.converted(off.id);
            }
            for file in place.scope.all("auth_basic_user_file") {
                self.report.mark(file.id, Status::NotNeeded, "no auth_basic holds here");
            }
            return Ok(None);
        };
        let Some(file) = place.scope.one("auth_basic_user_file") else {
            self.report.mark(
                directive.id,
                Status::NotNeeded,
                "without auth_basic_user_file nginx asks for no password",
            );
            return Ok(None);
        };
        let users = self.users_file(file, place, state);
        let users = self.or_refused(file, users)?;
        let realm = self.value(directive.arg(0), place, state);
        let realm = self.or_refused(directive, realm)?;
        let mut auth = object([("users_file", users.into())]);
        let text = realm.map_texts(|text| text.replace(char::is_control, "")).render();
        let mut reason =
            "browsers are told that names and passwords are in UTF-8 (charset=\"UTF-8\")"
                .to_owned();
        if directive.arg(0).contains(|c: char| c.is_control() || matches!(c, '"' | '\\')) {
            reason += "; quotation marks and backslashes of the realm are escaped, which nginx does not do, and control characters left out";
        }
        self.report.mark(directive.id, Status::Changed, reason);
        auth.insert("realm".to_owned(), text.into());
        if realm.constant().is_none() {
            // A realm of this text asks for no password; the case of its letters counts.
            let definition =
                json!({ "map": realm.render(), "values": { "~^off$": "0" }, "default": "1" });
            let name = self.define("with_password", definition);
            auth.insert("if".to_owned(), format!("${name}").into());
        }
        Ok(Some(auth))
    }

    /// Returns the name of the file of users.
    fn users_file(
        &mut self,
        file: &Directive,
        place: &Place<'_>,
        state: &State,
    ) -> Result<String, Reason> {
        let name = self.value(file.arg(0), place, state)?;
        if name.constant().is_none() {
            if name.beginning().is_empty() {
                return Err("the name of the file of users begins with a variable".to_owned());
            }
            let reason = "a variable in the name of the file of users that is empty or has a slash is answered with 403";
            self.report.mark(file.id, Status::Changed, reason);
        }
        self.report.converted(file.id);
        let beginning = self.whole_path(name.beginning());
        Ok(Template::text(&beginning).with(&name.without_beginning()).render())
    }

    /// Returns the value, or marks that requests are refused.
    fn or_refused<T>(&mut self, directive: &Directive, value: Result<T, Reason>) -> Result<T, ()> {
        value.map_err(|reason| {
            let reason = format!("{reason}; requests are refused (403)");
            self.report.mark(directive.id, Status::NotConverted, reason);
        })
    }
}
