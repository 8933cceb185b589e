//! Lists to which several files add: the certificates of a listener.
//!
//! The file of a customer has its certificate, too. A list is joined in the order of reading, the
//! entries of the document itself first.

use serde_json::{Map, Value};

use super::{Origin, Place, Reading};

/// Returns true for the path of a list to which several files may add.
fn is_list(path: &[String]) -> bool {
    let [first, _, tls, list] = path else { return false };
    first == "listeners" && tls == "tls" && (list == "certificate" || list == "acme")
}

/// Returns the path of the list of which an entry has this path.
pub(super) fn list_of(path: &[String]) -> Option<&[String]> {
    path.split_last().map(|(_, list)| list).filter(|list| is_list(list))
}

/// Returns the entries of a list. One value stands for a list with it alone.
pub(super) fn entries(list: Value) -> Vec<Value> {
    match list {
        Value::Array(entries) => entries,
        one => vec![one],
    }
}

/// Changes the path of a part of a file's first entry of such a list, if it is one: to that which
/// it gets behind the entries that `members` has.
pub(super) fn shift(path: &mut [String], members: &Map<String, Value>) {
    let Some((list, [index, ..])) = path.split_at_mut_checked(4) else { return };
    if !is_list(list) {
        return;
    }
    let there = list.iter().skip(1).fold(members.get("listeners"), |value, step| value?.get(step));
    let length = match there {
        Some(Value::Array(entries)) => entries.len(),
        Some(_) => 1,
        None => 0,
    };
    *index = length.to_string();
}

impl Place {
    /// Returns true for a list to which several files may add.
    pub(super) fn is_list(&self) -> bool {
        is_list(&self.path)
    }
}

impl Reading<'_> {
    /// Adds the entries of a file to those that are there.
    pub(super) fn append(&mut self, there: &mut Value, value: Value, place: &Place) {
        let is_one = !value.is_array();
        let mut all = entries(there.take());
        let step = |path: &[String], index: usize| [path, &[index.to_string()]].concat();
        for (index, entry) in entries(value).into_iter().enumerate() {
            let path = step(&place.path, all.len());
            let inner = if is_one { place.inner.clone() } else { step(&place.inner, index) };
            self.origins.push(Origin { path, source: place.source, inner });
            all.push(entry);
        }
        *there = Value::Array(all);
    }

    /// Removes the origins from `first_origin` on of a part that is merged into one of another
    /// file.
    pub(super) fn forget(&mut self, place: &Place, first_origin: usize) {
        let is_other =
            |path: &[String]| path != place.path && list_of(path) != Some(place.path.as_slice());
        let later = self.origins.split_off(first_origin.min(self.origins.len()));
        self.origins.extend(later.into_iter().filter(|origin| is_other(&origin.path)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::changed;
    use super::super::tests::expanded;
    use crate::Config;

    const MAIN: &str = r#"{"include": "c/*.json", "listeners": {
        "*:443": {"pass": "routes", "tls": {"certificate": "own"}}}, "routes": []}"#;

    /// A file with a value of a member of the listener's `tls`.
    fn with(member: &str, value: &Value) -> String {
        json!({"listeners": {"*:443": {"tls": {member: value}}}}).to_string()
    }

    fn certificates(document: &Value) -> &Value {
        &document["listeners"]["*:443"]["tls"]["certificate"]
    }

    fn included(document: &Value) -> Vec<(&str, &str)> {
        let all = document["included"].as_object().unwrap().iter();
        all.map(|(part, file)| {
            let part = part.strip_prefix("/listeners/*:443/tls/").unwrap();
            (part, file.as_str().unwrap().strip_prefix("/etc/h/c/").unwrap())
        })
        .collect()
    }

    #[test]
    fn files_add_certificates_to_those_of_the_document() {
        let (a, b) = (with("certificate", &json!("a")), with("certificate", &json!(["b", "c"])));
        let inner = with("certificate", &json!("i"));
        let d = b.replacen('{', "{\"include\": \"inner/i.json\", ", 1);
        let files = [
            ("/etc/h/c/a.json", a.as_str()),
            ("/etc/h/c/b.json", b.as_str()),
            ("/etc/h/c/d.json", d.as_str()),
            ("/etc/h/c/e.json", r#"{"include": "inner/i.json"}"#),
            ("/etc/h/c/inner/i.json", inner.as_str()),
        ];
        let found = expanded(MAIN, &files).unwrap();
        let document = &found.document;
        let all = json!(["own", "a", "b", "c", "b", "c", "i", "i"]);
        assert_eq!(certificates(document), &all);
        assert_eq!(
            included(document),
            [
                ("certificate/1", "a.json"),
                ("certificate/2", "b.json"),
                ("certificate/3", "b.json"),
                ("certificate/4", "d.json"),
                ("certificate/5", "d.json"),
                ("certificate/6", "d.json"),
                ("certificate/7", "e.json"),
            ]
        );
        Config::from_value(document.clone()).unwrap();
        // The control API changes the entries of the document, and no others.
        for (index, owner) in [(0, None), (1, Some("/etc/h/c/a.json"))] {
            let mut after = document.clone();
            after["listeners"]["*:443"]["tls"]["certificate"][index] = json!("other");
            let owners = changed(document, &mut after);
            assert_eq!(owners.first().map(|(_, file)| *file), owner);
        }
    }

    #[test]
    fn a_mistake_in_a_certificate_has_its_file() {
        let a = with("certificate", &json!([{"chain": "/a", "key": "/a"}]));
        let b = with("certificate", &json!({"chain": "/b", "kye": "/b"}));
        let files = [("/etc/h/c/a.json", a.as_str()), ("/etc/h/c/b.json", b.as_str())];
        let found = expanded(MAIN, &files).unwrap();
        let error = Config::from_value(found.document.clone()).unwrap_err();
        let explained = found.explain(&error);
        let place = "/etc/h/c/b.json: line 1, column 45: /listeners/*:443/tls/certificate/2: ";
        assert!(explained.starts_with(place), "{explained}");
    }

    #[test]
    fn everything_else_is_in_one_file() {
        let acme = with("acme", &json!({"domains": ["a.example"]}));
        let files = [("/etc/h/c/a.json", acme.as_str()), ("/etc/h/c/b.json", acme.as_str())];
        let document = expanded(MAIN, &files).unwrap().document;
        assert_eq!(document["listeners"]["*:443"]["tls"]["acme"].as_array().unwrap().len(), 2);
        let rule = json!([{"authorities": "/a"}]);
        for (member, value) in [
            ("client_certificates", rule),
            ("refuse_unknown_names", json!(true)),
            ("session", json!({"timeout": 1})),
        ] {
            let file = with(member, &value);
            let files = [("/etc/h/c/a.json", file.as_str()), ("/etc/h/c/b.json", file.as_str())];
            let error = expanded(MAIN, &files).unwrap_err();
            assert!(error.starts_with("/etc/h/c/b.json: "), "{error}");
            assert!(error.contains("is in /etc/h/c/a.json as well"), "{error}");
        }
    }
}
