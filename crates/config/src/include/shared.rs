//! Applications that several sites share.
//!
//! Each of the sites has the same definition, under a name that is made from it. The first one adds
//! it to the document, the others find it there.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Reading;

/// Start of the names of applications that sites share. A site cannot have such a name.
pub const SHARED: &str = "shared:";

/// Returns the name of the application of a site in a document: that of its own, or the one that it
/// shares, to which its route passes.
pub fn application_of_site<'d>(document: &'d Value, site: &str) -> Option<&'d str> {
    let applications = document.get("applications")?.as_object()?;
    if let Some((own, _)) = applications.get_key_value(site) {
        return Some(own);
    }
    let routes = document.get("routes")?;
    let content = routes.get(format!("{site}/content")).or_else(|| routes.get(site))?;
    let is_used = |name: &&String| name.starts_with(SHARED) && passes_to(content, name);
    applications.keys().find(is_used).map(String::as_str)
}

/// Returns the names of the sites of a document by the application that they have, sorted.
pub fn sites_by_application(document: &Value) -> BTreeMap<String, Vec<String>> {
    let routes = document.get("routes").and_then(Value::as_object);
    let names = routes.into_iter().flatten().map(|(name, _)| name);
    let mut sites = BTreeMap::<_, Vec<_>>::new();
    for name in names.filter(|name| !name.contains('/')) {
        if let Some(application) = application_of_site(document, name) {
            sites.entry(application.to_owned()).or_default().push(name.clone());
        }
    }
    sites.values_mut().for_each(|names| names.sort_unstable());
    sites
}

/// Returns true if a part of a document passes requests to an application that sites share.
fn passes_to(part: &Value, application: &str) -> bool {
    match part {
        Value::String(text) => text
            .strip_prefix("applications/")
            .and_then(|rest| rest.strip_prefix(application))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        Value::Array(elements) => elements.iter().any(|part| passes_to(part, application)),
        Value::Object(members) => members.values().any(|part| passes_to(part, application)),
        _ => false,
    }
}

/// Leaves out the application of a site that the document has from another one.
pub(super) fn leave_out_known(document: &Map<String, Value>, parts: &mut Map<String, Value>) {
    let known = document.get("applications");
    let Some(own) = parts.get_mut("applications").and_then(Value::as_object_mut) else {
        return;
    };
    own.retain(|name, application| {
        !name.starts_with(SHARED) || known.and_then(|all| all.get(name)) != Some(application)
    });
    if own.is_empty() {
        parts.shift_remove("applications");
    }
}

impl Reading<'_> {
    /// Adds the applications that the former parts of a site share, and that another site had added
    /// to the document.
    pub(super) fn add_former_shared(&self, parts: &mut Map<String, Value>) {
        let former = self.tolerance.as_ref().and_then(|tolerance| tolerance.former.document());
        let former = former.and_then(|former| former.get("applications")?.as_object());
        let routes = parts.get("routes").cloned().unwrap_or_default();
        for (name, application) in former.into_iter().flatten() {
            if !name.starts_with(SHARED) || !passes_to(&routes, name) {
                continue;
            }
            let own = parts.entry("applications").or_insert_with(|| Value::Object(Map::new()));
            if let Some(own) = own.as_object_mut() {
                own.entry(name.clone()).or_insert_with(|| application.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_application_of_a_site_is_its_own_or_the_one_that_it_shares() {
        let step = |application: &str| json!([{"action": {"share": "/x$uri", "fallback": {"pass": application}}}]);
        let document = json!({
            "routes": {
                "a": step("applications/a"),
                "b": [{"action": {"pass": "routes/b%2Fcontent"}}],
                "b/content": step("applications/shared:wp:1/front"),
                "c": step("applications/shared:wp:11"),
                "d": [{"action": {"return": 503}}],
            },
            "applications": {"a": {}, "shared:wp:1": {}, "shared:wp:11": {}},
        });
        let of = |site| application_of_site(&document, site);
        assert_eq!(of("a"), Some("a"));
        assert_eq!(of("b"), Some("shared:wp:1"));
        assert_eq!(of("c"), Some("shared:wp:11"));
        assert_eq!((of("d"), of("e")), (None, None));
        let sites = [("a", "a"), ("shared:wp:1", "b"), ("shared:wp:11", "c")];
        let sites = sites.map(|(name, site)| (name.to_owned(), vec![site.to_owned()]));
        assert_eq!(sites_by_application(&document), BTreeMap::from(sites));
    }
}
