//! `secure_link`, `secure_link_md5` and `secure_link_secret`: links with a hash.

use serde_json::json;

use super::context::Place;
use super::convert::Converter;
use super::state::State;
use super::template::Template;
use super::variables::Reason;

impl Converter<'_> {
    /// Returns the value of `$secure_link`: a variable that checks the link of a request.
    pub fn secure_link(&mut self, place: &Place<'_>, state: &State) -> Result<Template, Reason> {
        let scope = &place.scope;
        if let Some(secret) = scope.one("secure_link_secret") {
            self.report.converted(secret.id);
            let definition = json!({ "secure_link": "$request_uri", "secret": secret.arg(0) });
            return Ok(Template::variable(&self.define("linked", definition)));
        }
        let (Some(link), Some(hashed)) = (scope.one("secure_link"), scope.one("secure_link_md5"))
        else {
            // Without one of them, nginx finds no link authentic.
            return Ok(Template::default());
        };
        let text = self.value(link.arg(0), place, state)?;
        // The second in the link is known in what is hashed.
        let mut inner = state.clone();
        let expires = "secure_link_expires";
        inner.variables.insert(expires.to_owned(), Some(Template::variable(expires)));
        let md5 = self.value(hashed.arg(0), place, &inner)?;
        self.report.converted(link.id);
        self.report.converted(hashed.id);
        let definition = json!({ "secure_link": text.render(), "md5": md5.render() });
        Ok(Template::variable(&self.define("linked", definition)))
    }
}
