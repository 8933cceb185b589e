//! Documents with an object `sites` that are sent to the control API.
//!
//! The sites are compiled as those of a file are. The compiled document has the member `source`
//! with the `sites` and `defaults` that it was made from, and names the site of each part in
//! `included`. So the document that was sent can be made from it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::changed::at;
use super::former::{Former, parts};
use super::left_out::LeftOut;
use super::places::PLACES;
use super::refused::first_file;
use super::rest::without;
use super::sites::{DEFAULTS, SITES};
use super::tolerance::{Found, Tolerance};
use super::tolerant::{record, since};
use super::{Expanded, INCLUDED, IncludedFiles, SiteParts, SiteProblem, expand_once};
use crate::definitions::LEFT_OUT;
use crate::error::{Error, ErrorKind};
use crate::node::{Shown, path};
use crate::site::Site;

/// The name of the member of a compiled document with the `sites` and `defaults` that it was made
/// from.
pub(super) const SOURCE: &str = "source";

/// Start of the names of parts of a document that was sent, in place of those of files.
pub(super) const SENT: &str = "source:";

const NO_FILES: &str = "cannot be read for this document; only a document that the server reads \
                        with \"--config\" can have parts in files: write it into such a file and \
                        use \"howdah reload\"";

/// Returns true for the name of a member that the server makes.
pub fn is_made_by_server(name: &str) -> bool {
    [INCLUDED, LEFT_OUT, PLACES, SOURCE].contains(&name)
}

/// Returns true if a document has sites that must be compiled, or what they share.
pub fn has_sites(document: &Value) -> bool {
    document.get(SITES).is_some() || document.get(DEFAULTS).is_some()
}

/// Checks that a document with sites that was sent names no files.
///
/// # Errors
///
/// The first name of a file, and what to do.
pub fn check_sent(document: &Value) -> Result<(), Error> {
    let refuse = |steps: &[&str], message: &str, hint: &str| {
        let error = Error::new(ErrorKind::InvalidValue, path(steps), message);
        Err(error.with_hint(hint))
    };
    if document.get(INCLUDED).is_some() {
        return refuse(
            &[SITES],
            "sites cannot be added to a document that has parts in files",
            "write the site into a file that the document names in \"sites\", and use \"howdah \
             reload\"",
        );
    }
    if document.get(SITES).is_some_and(|sites| !sites.is_object()) {
        return refuse(
            &[SITES],
            "must be an object of sites: files of sites are read with a document that the server \
             reads with \"--config\"",
            "send the sites themselves ({\"NAME\": {\"hosts\": ..., \"root\": ...}}), or write the \
             document into such a file and use \"howdah reload\"",
        );
    }
    first_file(document).map_or(Ok(()), Err)
}

/// Compiles the sites of a document that was sent. It names no files ([`check_sent`]). `running` is
/// the document that runs, if there is one: a site that is as it was there, and cannot be used by
/// now, keeps its parts, and is named in `left_out`. `now` is the time in seconds since 1970.
///
/// # Errors
///
/// The JSON path of each mistake, and the problem, as lines.
pub fn compile_sent(
    document: &Value,
    running: Option<&Value>,
    files: &dyn IncludedFiles,
    now: u64,
) -> Result<Expanded, String> {
    check_sent(document).map_err(|error| error.to_string())?;
    let mut source = Map::new();
    for name in [SITES, DEFAULTS] {
        source.extend(document.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    let text = document.to_string();
    let files = WithoutFiles(files);
    let mut expanded = match expand_once(text.as_bytes(), Path::new(SENT), &files, None) {
        Ok(Some((expanded, _))) => expanded,
        Ok(None) => return Err("there are no sites to compile".to_owned()),
        Err(mistakes) => {
            running.and_then(|running| keeping(document, running, &files, now)).ok_or(mistakes)?
        }
    };
    if let Some(members) = expanded.document.as_object_mut() {
        members.entry(INCLUDED).or_insert_with(|| json!({}));
        members.insert(SOURCE.to_owned(), Value::Object(source));
    }
    Ok(expanded)
}

/// Compiles a document whose sites with mistakes are as they were in the running one, and keep their
/// parts. `None` if there are other mistakes.
fn keeping(
    document: &Value,
    running: &Value,
    files: &dyn IncludedFiles,
    now: u64,
) -> Option<Expanded> {
    let (text, unusable) = (document.to_string(), BTreeMap::new());
    let former = Former::of_document(running.clone());
    let tolerance = Some(Tolerance::new(&former, &unusable));
    let read = expand_once(text.as_bytes(), Path::new(SENT), files, tolerance).ok()?;
    let (mut expanded, tolerance) = read?;
    let Found { left_out, contradicting } = tolerance?.found.into_inner();
    let before = running.get(SOURCE)?;
    let is_kept = |out: &LeftOut| {
        let site = |whole: &Value| whole.get(SITES)?.get(out.site.as_deref()?).cloned();
        out.is_former && site(before) == site(document)
    };
    let is_same = before.get(DEFAULTS) == document.get(DEFAULTS);
    if !is_same || !contradicting.is_empty() || !left_out.iter().all(is_kept) {
        return None;
    }
    let dated = |out: LeftOut| {
        let since = since(&former, &out.file).unwrap_or(now);
        LeftOut { since, ..out }
    };
    expanded.left_out = left_out.into_iter().map(dated).collect();
    record(&mut expanded);
    Some(expanded)
}

/// Returns the document that a compiled one was made from. `None` if it has no `source`.
pub fn sent(document: &Value) -> Option<Value> {
    let source = document.get(SOURCE)?.as_object()?.clone();
    let owners = parts(document).filter(|(_, file)| file.starts_with(SENT));
    let owners = owners.map(|(path, _)| (path, true)).collect();
    let mut rest = document.as_object()?.clone();
    rest.retain(|name, _| !is_made_by_server(name));
    let mut rest = without(Value::Object(rest), &mut Vec::new(), false, &owners)?;
    rest.as_object_mut()?.extend(source);
    Some(rest)
}

/// The part of a compiled document that sites were compiled to.
#[derive(Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Its path.
    pub part: String,
    /// The path of the site that it was made from, such as `/sites/shop`; `/sites` if it is for all
    /// sites.
    pub from: String,
}

/// Returns the part of a compiled document that has a value which the document that was sent does
/// not have. `None` if both have the value, or none has it.
pub fn compiled_part(document: &Value, sent: &Value, steps: &[String]) -> Option<Compiled> {
    at(document, steps)?;
    if at(sent, steps).is_some() {
        return None;
    }
    let around = parts(document).filter(|(path, _)| steps.starts_with(path));
    let (part, file) = around.max_by_key(|(path, _)| path.len())?;
    Some(Compiled { part: path(&part), from: file.strip_prefix(SENT)?.to_owned() })
}

/// Returns true for the steps of a site or of `defaults`, for which the object above need not
/// exist.
pub fn is_in_sites(steps: &[String]) -> bool {
    matches!(steps, [first, _, ..] if [SITES, DEFAULTS].contains(&first.as_str()))
}

/// Returns the name that the parts of a site have in place of that of a file.
pub fn source_of_site(name: &str) -> PathBuf {
    PathBuf::from(format!("{SENT}{}", path(&[SITES, name])))
}

/// The machine that sites are compiled for, without its files.
struct WithoutFiles<'f>(&'f dyn IncludedFiles);

impl IncludedFiles for WithoutFiles<'_> {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        Err(format!("file \"{}\" {NO_FILES}", Shown(&file.to_string_lossy())))
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        self.read(directory).map(|_| Vec::new())
    }

    fn begins(&self, place: &str) {
        self.0.begins(place);
    }

    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
        self.0.compile(site)
    }

    fn has_ipv6(&self) -> bool {
        self.0.has_ipv6()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Memory;
    use super::*;
    use crate::Config;
    use crate::node::split_path;

    fn compiled(document: &Value) -> Result<Value, String> {
        compile_sent(document, None, &Memory::new(&[]), 0).map(|expanded| expanded.document)
    }

    fn steps(path: &str) -> Vec<String> {
        split_path(path)
    }

    fn document() -> Value {
        json!({
            "settings": {"http": {}},
            "routes": [],
            "defaults": {"listen": "*:80"},
            "sites": {
                "a": {"hosts": ["a.test", "www.a.test"], "root": "/a",
                    "routes": [{"action": {"return": 200}}]},
                "b": {"hosts": "b.test", "root": "/b", "routes": [{"action": {"return": 201}}]},
            },
        })
    }

    #[test]
    fn a_compiled_document_leads_back_to_the_one_that_was_sent() {
        let mut sent_first = document();
        let first = compiled(&sent_first).unwrap();
        Config::from_value(first.clone()).unwrap();
        assert_eq!(first["routes"]["b"], json!([{"action": {"return": 201}}]));
        assert_eq!(first["variables"]["site"]["values"]["www.a.test"], "a");
        assert_eq!(first["listeners"]["*:80"]["pass"], "routes/sites");
        assert_eq!(first["included"]["/routes/a"], "source:/sites/a");
        // An empty array of routes has no meaning.
        sent_first["routes"] = json!({});
        assert_eq!(sent(&first), Some(sent_first.clone()));
        assert_eq!(compiled(&sent(&first).unwrap()).unwrap(), first);
        let mut own = sent_first;
        own["listeners"] =
            json!({"*:80": {"pass": "routes/sites"}, "*:81": {"pass": "routes/own"}});
        own["routes"] =
            json!({"own": [{"action": {"return": 404}}], "sites": [{"action": {"return": 1}}]});
        let second = compiled(&own).unwrap();
        assert_eq!(sent(&second), Some(own));
        assert_eq!(sent(&json!({"routes": []})), None);
    }

    #[test]
    fn a_part_names_the_site_that_it_was_made_from() {
        let expanded = compile_sent(&document(), None, &Memory::new(&[]), 0).unwrap();
        let of_site = expanded.parts_of(&source_of_site("b")).into_iter();
        let paths: Vec<_> = of_site.map(|(steps, _)| path(&steps)).collect();
        assert_eq!(paths, ["/variables/site/values/b.test", "/routes/b"]);
        let document = expanded.document;
        let sent = sent(&document).unwrap();
        let of = |path: &str| {
            let found = compiled_part(&document, &sent, &steps(path))?;
            Some((found.part, found.from))
        };
        let found = |part: &str, from: &str| Some((part.to_owned(), from.to_owned()));
        assert_eq!(of("/routes/a"), found("/routes/a", "/sites/a"));
        assert_eq!(of("/routes/a/0/action"), found("/routes/a", "/sites/a"));
        let host = "/variables/site/values/b.test";
        assert_eq!(of(host), found(host, "/sites/b"));
        assert_eq!(of("/listeners/*:80"), found("/listeners/*:80", "/sites"));
        for path in ["/routes", "/routes/c", "/settings/http", "/sites/a", ""] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_site_that_is_as_it_was_keeps_its_parts() {
        /// The directories of these sites are gone.
        struct Gone(Memory);
        impl IncludedFiles for Gone {
            fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
                self.0.read(file)
            }
            fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
                self.0.names(directory)
            }
            fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
                let root = if site.name == "a" { "/missing".into() } else { site.root.clone() };
                self.0.compile(&Site { root, ..site.clone() })
            }
        }
        let running = compiled(&document()).unwrap();
        let gone = Gone(Memory::new(&[]));
        let mut next = document();
        next["sites"]["b"]["routes"][0]["action"]["return"] = json!(202);
        let kept = compile_sent(&next, Some(&running), &gone, 5).unwrap().document;
        assert_eq!(kept["routes"]["a"], running["routes"]["a"]);
        assert_eq!(kept["variables"]["site"]["values"]["www.a.test"], "a");
        assert_eq!(kept["routes"]["b"][0]["action"]["return"], 202);
        let out = &kept["left_out"]["source:/sites/a"];
        assert_eq!((&out["site"], &out["since"]), (&json!("a"), &json!(5)));
        assert_eq!(out["reason"], "/sites/a/root: does not exist");
        Config::from_value(kept.clone()).unwrap();
        next["routes"] = json!({});
        assert_eq!(sent(&kept), Some(next.clone()));
        let again = compile_sent(&next, Some(&kept), &gone, 9).unwrap().document;
        assert_eq!(again, kept);
        let mended = compile_sent(&next, Some(&kept), &Memory::new(&[]), 9).unwrap().document;
        assert_eq!(mended.get("left_out"), None);
        // Who changes the site is told, and so is who changes what all share.
        for (path, value) in
            [("/sites/a/hosts", json!("a.test")), ("/defaults/cache", json!(false))]
        {
            let mut next = next.clone();
            match path {
                "/sites/a/hosts" => next["sites"]["a"]["hosts"] = value,
                _ => next["defaults"]["cache"] = value,
            }
            let problem = compile_sent(&next, Some(&kept), &gone, 9).map(|_| ()).unwrap_err();
            assert_eq!(problem, "/sites/a/root: does not exist");
        }
    }

    #[test]
    fn a_mistake_has_the_path_of_the_site() {
        for (path, value, expected) in [
            ("a", json!({"hosts": "a", "root": "/a", "rot": 1}), "/sites/a: unknown key \"rot\""),
            ("a", json!({"hosts": "a", "root": "/missing"}), "/sites/a/root: does not exist"),
            ("a", json!(1), "/sites/a: a site must be an object"),
            ("a/b", json!({}), "/sites/a%2Fb: \"a/b\" cannot be the name"),
            (
                "c",
                json!({"hosts": "b.test", "root": "/c"}),
                "/sites/c/hosts/0: \"b.test\" is in /sites/b",
            ),
            (
                "own",
                json!({"hosts": "o", "root": "/o"}),
                "/sites/own/routes: is in the document as well",
            ),
        ] {
            let mut document = document();
            document["routes"] = json!({"own": [{"action": {"return": 404}}]});
            document["sites"][path] = value;
            let problem = compiled(&document).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
            assert!(!problem.contains("line 1") && !problem.contains(SENT), "{problem}");
        }
        let mut document = document();
        document["defaults"]["limit"] = json!(1);
        let problem = compiled(&document).unwrap_err();
        assert!(problem.starts_with("/defaults: unknown key \"limit\""), "{problem}");
        // What only the whole document shows.
        let mut document = self::document();
        document["sites"]["a"]["routes"] = json!([{"action": {"pass": "routes/none"}}]);
        let expanded = compile_sent(&document, None, &Memory::new(&[]), 0).unwrap();
        let error = Config::from_value(expanded.document.clone()).unwrap_err();
        let problem = expanded.explain(&error);
        assert!(problem.starts_with("/sites/a/routes/0/action/pass: "), "{problem}");
    }

    #[test]
    fn no_file_is_read() {
        for (part, value) in [
            ("sites", json!("sites/*.json")),
            ("sites", json!(["/etc/shadow"])),
            ("include", json!("/etc/shadow")),
            ("applications", json!({"include": "/etc/shadow"})),
            ("routes", json!({"x": [{"include": "/etc/shadow"}]})),
            ("variables", json!({"x": {"map": "$host", "values": "/etc/shadow"}})),
            ("settings", json!({"http": {"static": {"mime_types": "/etc/shadow"}}})),
            ("included", json!({"/sites/a": "/etc/shadow"})),
        ] {
            let mut document = document();
            document[part] = value;
            let problem =
                compile_sent(&document, None, &Memory::new(&[("/etc/shadow", "root:")]), 0)
                    .map(|_| ())
                    .unwrap_err();
            assert!(problem.contains("howdah reload"), "{part}: {problem}");
        }
    }
}
