//! Which files of a location Howdah does not send though nginx does: names that begin with a dot,
//! and sources of PHP.

use std::rc::Rc;

use howdah_config::{Pattern, Subject};

use super::context::{Kind, Location, Place, Site};
use super::convert::Converter;
use crate::Status;

impl<'t> Converter<'_> {
    /// Reports files of a place that are not sent.
    pub fn note_files(&mut self, place: &Place<'t>) {
        let Some(directive) = place.scope.any_of(&["root", "alias"]).into_iter().next() else {
            return;
        };
        let Some(site) = &place.site else { return };
        let prefix = place.prefix();
        let prefix = if prefix.is_empty() { "/" } else { prefix };
        let rules = place.scope.any_of(&["allow", "deny"]);
        let is_closed =
            rules.first().is_some_and(|rule| rule.name == "deny" && rule.arg(0) == "all");
        if is_closed || place.location.as_ref().is_some_and(|location| location.kind == Kind::Exact)
        {
            return;
        }
        let reaches = |path: &str| {
            let chosen = choose(site, path);
            match (&chosen, &place.location) {
                (Some(one), Some(other)) => std::ptr::eq(one.directive, other.directive),
                (None, None) => true,
                _ => false,
            }
        };
        let dots = [".env", ".git/config", ".htaccess"]
            .iter()
            .any(|name| reaches(&format!("{prefix}{name}")));
        let sources = ["index.php", "x.php", "inc/x.php"]
            .iter()
            .any(|name| reaches(&format!("{prefix}{name}")));
        let reason = match (dots, sources) {
            (true, true) => {
                "files whose names begin with a dot, and sources of PHP, are not sent (404); nginx sends them"
            }
            (true, false) => {
                "files whose names begin with a dot are not sent (404); nginx sends them"
            }
            (false, true) => "sources of PHP are not sent (404); nginx sends them",
            (false, false) => return,
        };
        self.report.mark(directive.id, Status::Changed, reason);
    }
}

/// Returns the location that nginx chooses for a path.
fn choose<'t>(site: &Site<'t>, path: &str) -> Option<Rc<Location<'t>>> {
    level(&site.locations, path).map(|(location, _)| location)
}

/// Returns the location of a level, and whether the choice is final.
fn level<'t>(locations: &[Rc<Location<'t>>], path: &str) -> Option<(Rc<Location<'t>>, bool)> {
    if let Some(found) =
        locations.iter().find(|location| location.kind == Kind::Exact && location.name == path)
    {
        return Some((Rc::clone(found), true));
    }
    let prefixes = locations.iter().filter(|location| {
        matches!(location.kind, Kind::Prefix | Kind::Forced) && path.starts_with(&location.name)
    });
    let longest = prefixes.max_by_key(|location| location.name.len());
    let mut found = None;
    if let Some(longest) = longest {
        found = match level(&longest.inner, path) {
            Some((inner, true)) => return Some((inner, true)),
            Some((inner, false)) => Some(inner),
            None => Some(Rc::clone(longest)),
        };
    }
    if !longest.is_some_and(|longest| longest.kind == Kind::Forced) {
        for location in locations {
            let Kind::Regex { expression, superset } = &location.kind else { continue };
            let Some(expression) = expression.as_ref().or(superset.as_ref()) else { continue };
            let finds = |text: &str| {
                Pattern::parse(&format!("~{text}"), Subject::Uri)
                    .is_ok_and(|pattern| pattern.matches(path.as_bytes()))
            };
            if finds(&expression.text) && !expression.excluded.iter().any(|text| finds(text)) {
                let inner = level(&location.inner, path).map(|(inner, _)| inner);
                return Some((inner.unwrap_or_else(|| Rc::clone(location)), true));
            }
        }
    }
    found.map(|location| (location, false))
}
