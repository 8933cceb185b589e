//! Adds the members of files to the document.

use serde_json::{Map, Value};

use super::expanded::Origin;
use super::{Place, Reading, Source};
use crate::node::Shown;

impl Reading<'_> {
    pub(super) fn record(&mut self, place: &Place) {
        let Place { source, inner, path } = place.clone();
        self.origins.push(Origin { path, source, inner });
    }

    /// Adds the members of a file to those that are there. The origins of the files that the file
    /// itself includes are those from `first_origin` on. Keeps one problem: a copy of a file would
    /// have as many as members.
    pub(super) fn add(
        &mut self,
        all: &mut Map<String, Value>,
        members: Map<String, Value>,
        inside: &Place,
        first_origin: usize,
    ) -> Result<(), String> {
        match self.merge(all, members, inside, first_origin) {
            Ok(()) => Ok(()),
            Err((source, problem)) => self.reject(source, problem),
        }
    }

    /// Adds members to those that are there. Objects are merged, lists of certificates are joined.
    /// Error: the source that must not have a member, and why.
    fn merge(
        &mut self,
        all: &mut Map<String, Value>,
        members: Map<String, Value>,
        inside: &Place,
        first_origin: usize,
    ) -> Result<(), (usize, String)> {
        for (name, value) in members {
            let place = inside.child(&name);
            let name_of = name.clone();
            match (all.get_mut(&name), value) {
                (None, value) => {
                    self.record(&place);
                    all.insert(name, value);
                }
                (Some(there), value) if place.is_list() => {
                    self.forget(&place, first_origin);
                    self.append(there, value, &place);
                }
                (Some(Value::Object(there)), Value::Object(members)) => {
                    self.forget(&place, first_origin);
                    self.merge(there, members, &place, first_origin)?;
                }
                (Some(_), _) => {
                    let above = |origin: &&Origin| place.path.starts_with(&origin.path);
                    let length = |origin: &&Origin| origin.path.len();
                    let origin = self.origins.iter().filter(above).max_by_key(length);
                    let other = origin.map_or(0, |origin| origin.source);
                    let intruder = self.intruder(&place, other);
                    let name = |source: usize| {
                        let source = self.sources.get(source);
                        source.map(Source::name).unwrap_or_default()
                    };
                    let owner = name(if intruder == other { place.source } else { other });
                    let place = self.place_in_site(Place { source: intruder, ..place });
                    let subject = match place.path.first() {
                        Some(first) if first == "hosts" => format!("\"{}\" ", Shown(&name_of)),
                        _ => String::new(),
                    };
                    let problem =
                        format!("{subject}is in {owner} as well; leave it out of one of them");
                    return Err((intruder, self.problem(&place, &problem)));
                }
            }
        }
        Ok(())
    }

    /// Returns the place in the file of a site from which a part of the document was made.
    fn place_in_site(&self, place: Place) -> Place {
        let is_around =
            |known: &&Origin| known.source == place.source && place.path.starts_with(&known.path);
        let known = self.places.iter().filter(is_around).max_by_key(|known| known.path.len());
        match known {
            Some(known) => Place { inner: known.inner.clone(), path: known.inner.clone(), ..place },
            None => place,
        }
    }
}
