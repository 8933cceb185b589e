use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::Config;

/// Files in memory.
pub(super) struct Memory(pub(super) BTreeMap<PathBuf, String>);

impl Memory {
    pub(super) fn new(files: &[(&str, &str)]) -> Memory {
        Memory(files.iter().map(|(name, text)| (PathBuf::from(name), (*text).to_owned())).collect())
    }
}

impl IncludedFiles for Memory {
    fn read(&self, file: &Path) -> Result<Vec<u8>, String> {
        let found =
            self.0.get(file).ok_or_else(|| format!("{}: there is no such file", file.display()))?;
        Ok(found.clone().into_bytes())
    }

    fn names(&self, directory: &Path) -> Result<Vec<String>, String> {
        let files = self.0.keys().filter(|file| file.parent() == Some(directory)).rev();
        Ok(files.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    /// A site has its routes, and a redirect if they are absent.
    fn compile(&self, site: &Site) -> Result<SiteParts, SiteProblem> {
        if site.root == Path::new("/missing") {
            return Err(SiteProblem {
                key: vec!["root".to_owned()],
                problem: "does not exist".to_owned(),
                because_of: Some(site.root.clone()),
            });
        }
        let hosts: Map<_, _> = site.hosts.iter().map(|h| (h.clone(), json!(site.name))).collect();
        let parts = json!({
            "variables": {"site": {"values": hosts}},
            "routes": {&site.name: site.routes},
        });
        let part = |path: &[&str]| path.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
        let hosts = site.hosts.iter().enumerate().map(|(index, host)| {
            (part(&["variables", "site", "values", host]), part(&["hosts", &index.to_string()]))
        });
        let routes = (part(&["routes", &site.name]), part(&["routes"]));
        let document = parts.as_object().unwrap().clone();
        Ok(SiteParts { document, places: hosts.chain([routes]).collect(), ..SiteParts::default() })
    }
}

pub(super) fn expanded(document: &str, files: &[(&str, &str)]) -> Result<Expanded, String> {
    let found = expand(document.as_bytes(), Path::new("/etc/h/site.json"), &Memory::new(files))?;
    Ok(found.expect("it has an include"))
}

/// Two sites and an array of steps.
const FILES: &[(&str, &str)] = &[
    (
        "/etc/h/conf.d/a.json",
        r#"{"routes": {"a": [{"action": {"return": 200}}]},
            "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}}}"#,
    ),
    ("/etc/h/conf.d/b.json", "{\n\"routes\": {\n  \"b\": [\n{\"action\": {\"return\": 201}}]}}"),
    ("/etc/h/conf.d/.hidden.json", "x"),
    ("/etc/h/conf.d/note.txt", "x"),
    ("/etc/h/steps.json", r#"[{"action": {"return": 202}}, {"include": "step.json"}]"#),
    ("/etc/h/step.json", r#"{"action": {"return": 203}}"#),
];

#[test]
fn members_of_files_are_added_in_the_order_of_names() {
    let document = r#"{
        "include": "conf.d/*.json",
        "routes": {"main": [{"action": {"return": 1}}, {"include": ["steps.json"]},
            {"action": {"return": 2}}]}
    }"#;
    let Expanded { document, sources, .. } = expanded(document, FILES).unwrap();
    let mut plain = document.clone();
    plain.as_object_mut().unwrap().remove(INCLUDED);
    let expected = json!({
        "routes": {
            "main": [
                {"action": {"return": 1}},
                {"action": {"return": 202}},
                {"action": {"return": 203}},
                {"action": {"return": 2}},
            ],
            "a": [{"action": {"return": 200}}],
            "b": [{"action": {"return": 201}}],
        },
        "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}},
    });
    assert_eq!(plain, expected);
    assert_eq!(sources.len(), 5);
    let config = Config::from_value(document.clone()).unwrap();
    assert_eq!(config.included.len(), 5, "{:?}", config.included);
    let files = |pointer: &str, value: Value| {
        let mut after = document.clone();
        match after.pointer_mut(pointer) {
            Some(part) => *part = value,
            None => after[pointer.trim_start_matches('/')] = value,
        }
        let files = changed(&document, &mut after);
        files.into_iter().map(|(_, file)| file.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(files("/routes/a/0/action", json!({"return": 404})), ["/etc/h/conf.d/a.json"]);
    let sections = expanded(
        r#"{"include": "*.json"}"#,
        &[
            ("/etc/h/1.json", r#"{"upstreams": {"a": {"servers": {"127.0.0.1:1": {}}}}}"#),
            ("/etc/h/2.json", r#"{"upstreams": {"b": {"servers": {"127.0.0.1:2": {}}}}}"#),
        ],
    );
    let sections = sections.unwrap().document;
    for (names, expected) in
        [("a", &["1.json"][..]), ("b", &["2.json"]), ("ab", &["1.json", "2.json"])]
    {
        let mut after = sections.clone();
        for name in names.chars() {
            after["upstreams"][name.to_string()]["balance"] = json!("least_connections");
        }
        let files = changed(&sections, &mut after);
        let files: Vec<_> =
            files.iter().map(|(_, file)| file.trim_start_matches("/etc/h/")).collect();
        assert_eq!(files, expected, "{names}");
    }
    assert!(files("/upstreams", Value::Null).contains(&"/etc/h/conf.d/a.json".to_owned()));
    assert!(files("/routes/main/0", json!({"action": {"return": 404}})).is_empty());
    assert!(!files("/routes/main/1", Value::Null).is_empty());
    assert!(!files("/routes/main", json!([])).is_empty());
    assert!(files("", json!({})).len() > 1, "all files are named");
    assert!(files("/settings", json!({})).is_empty());
    // A document that a client has read may be sent back, also without the names of the files.
    assert!(files("", document.clone()).is_empty());
    let mut without = document.clone();
    without.as_object_mut().unwrap().remove("included");
    assert!(changed(&document, &mut without).is_empty());
    assert_eq!(without, document);
    assert_eq!(changed(&json!({}), &mut document.clone()).len(), 1, "only the server names files");
}

#[test]
fn an_error_has_its_file_and_line() {
    let files = [
        ("/etc/h/a.json", "{\n  \"a\": [\n    {\"action\": {\"retur\": 200}}\n  ]\n}"),
        ("/etc/h/b.json", "{\n  \"a\": ["),
        ("/etc/h/c.json", "[]"),
        ("/etc/h/d.json", r#"{"include": "d.json"}"#),
        ("/etc/h/e.json", r#"{"main": []}"#),
        (
            "/etc/h/s.json",
            "[\n {\"action\": {\"return\": 200}},\n {\"action\": {\"return\": \"x\"}}]",
        ),
    ];
    let include =
        |name: &str| format!("{{\"routes\": {{\n\"include\": \"{name}\", \"main\": []}}}}");
    let found = expanded(&include("a.json"), &files).unwrap();
    let error = Config::from_value(found.document.clone()).unwrap_err();
    let explained = found.explain(&error);
    assert!(
        explained.starts_with(
            "/etc/h/a.json: line 3, column 16: /routes/a/0/action: unknown key \"retur\""
        ),
        "{explained}"
    );
    let steps = "{\"routes\": [\n{\"action\": {\"return\": 1}}, {\"include\": \"s.json\"}]}";
    let found = expanded(steps, &files).unwrap();
    let explained = found.explain(&Config::from_value(found.document.clone()).unwrap_err());
    assert!(
        explained.starts_with("/etc/h/s.json: line 3, column 24: /routes/2/action/return: "),
        "{explained}"
    );
    for (name, expected) in [
        ("b.json", "/etc/h/b.json: line 2, column 9: the text ends"),
        ("c.json", "/etc/h/c.json: line 1, column 1: /routes: must be an object"),
        (
            "d.json",
            "/etc/h/d.json: line 1, column 13: /routes/include: is a circle: /etc/h/d.json \
             includes /etc/h/d.json; take",
        ),
        (
            "e.json",
            "/etc/h/e.json: line 1, column 10: /routes/main: is in /etc/h/site.json as well",
        ),
        (
            "missing.json",
            "line 2, column 12: /routes/include: /etc/h/missing.json: there is no such file",
        ),
        ("*/x.json", "/routes/include: must have \"*\" and \"?\" only in the name of the file"),
        ("", "/routes/include: must be the name of a file"),
    ] {
        let error = expanded(&include(name), &files).unwrap_err();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let error = expand(b"{\"included\": {}}", Path::new("a"), &Memory::new(&[])).unwrap_err();
    assert!(error.contains("write \"include\""), "{error}");
}

#[test]
fn files_that_include_each_other_are_named_in_their_order() {
    let circle = [
        ("/etc/h/x/a.json", r#"{"include": "b.json"}"#),
        ("/etc/h/x/b.json", r#"{"include": "./a.json"}"#),
        ("/etc/h/s.json", r#"[{"include": "t.json"}]"#),
        ("/etc/h/t.json", r#"[{"include": "s.json"}]"#),
    ];
    for (document, expected) in [
        (
            r#"{"include": "x/a.json"}"#,
            "/etc/h/x/b.json: line 1, column 13: /include: is a circle: /etc/h/x/a.json includes \
             /etc/h/x/b.json, which includes /etc/h/x/a.json; take one of these includes out",
        ),
        (
            r#"{"routes": [{"include": "s.json"}]}"#,
            "/etc/h/t.json: line 1, column 14: /routes: is a circle: /etc/h/s.json includes \
             /etc/h/t.json, which includes /etc/h/s.json; ",
        ),
        (
            r#"{"include": "*.json"}"#,
            "/etc/h/site.json: line 1, column 13: /include: is a circle: /etc/h/site.json includes \
             /etc/h/site.json; ",
        ),
    ] {
        let mut files = circle.to_vec();
        files.push(("/etc/h/site.json", document));
        let files = if document.contains('*') { &files[4..] } else { &files };
        let error = expanded(document, files).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let texts: Vec<_> = (0..10)
        .map(|n| (format!("/etc/h/{n}.json"), format!(r#"{{"include": "{}.json"}}"#, n + 1)))
        .collect();
    let files: Vec<_> = texts.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    let error = expanded(r#"{"include": "0.json"}"#, &files).unwrap_err();
    assert!(
        error.starts_with(
            "/etc/h/7.json: line 1, column 13: /include: is nested in more than 8 files: "
        ) && error
            .contains("/etc/h/site.json includes /etc/h/0.json, which includes /etc/h/1.json, "),
        "{error}"
    );
}

#[test]
fn the_table_of_a_variable_may_be_in_files() {
    let files = [
        ("/etc/h/t/1.json", r#"{"a": "1", "include": "2"}"#),
        ("/etc/h/t/2.json", "{\n \"b\": \"$nothing\"}"),
        ("/etc/h/x.json", "[]"),
    ];
    let document = |values: &str| {
        format!(r#"{{"variables": {{"v": {{"map": "$host", "values": "{values}"}}}}}}"#)
    };
    let found = expanded(&document("t/1.json"), &files).unwrap();
    let table = json!({"a": "1", "include": "2"});
    assert_eq!(found.document["variables"]["v"]["values"], table);
    Config::from_value(found.document.clone()).unwrap();
    assert_eq!(found.document["included"], json!({"/variables/v/values": "/etc/h/t/1.json"}));
    let found = expanded(&document("t/*.json"), &files).unwrap();
    let explained = found.explain(&Config::from_value(found.document.clone()).unwrap_err());
    assert!(
        explained.starts_with("/etc/h/t/2.json: line 2, column 7: /variables/v/values/b: "),
        "{explained}"
    );
    let error = expanded(&document("x.json"), &files).unwrap_err();
    assert!(error.contains("/variables/v/values: must be an object of values"), "{error}");
    let found = expanded(&document("none*"), &files).unwrap();
    assert_eq!(found.document["variables"]["v"]["values"], json!({}));
}

#[test]
fn tables_are_read_again_without_the_rest_of_the_document() {
    let document = br#"{"variables": {
        "v": {"map": "$host", "values": "t/*.json"},
        "w": {"map": "$host", "values": {"x": "y"}}
    }}"#;
    let old = [("/etc/h/t/1.json", r#"{"a": "1"}"#)];
    let old = Memory::new(&old);
    let found = expand(document, Path::new("/etc/h/howdah.json"), &old).unwrap().unwrap();
    let mut running = found.document;
    assert_eq!(
        watched_by_tables(&running, &old),
        [Path::new("/etc/h/t/1.json"), Path::new("/etc/h/t")]
    );
    running["variables"]["w"]["values"]["x"] = json!("z");

    let new = [("/etc/h/t/1.json", r#"{"a": "2"}"#), ("/etc/h/t/2.json", r#"{"b": "3"}"#)];
    let again = expand_tables(running.clone(), &Memory::new(&new)).unwrap();
    assert_eq!(again.document["variables"]["v"]["values"], json!({"a": "2", "b": "3"}));
    assert_eq!(again.document["variables"]["w"], running["variables"]["w"]);
    assert_eq!(again.document["included"], running["included"]);

    let bad = [("/etc/h/t/1.json", "{\n\"a\": \"$nothing\"}")];
    let again = expand_tables(running.clone(), &Memory::new(&bad)).unwrap();
    let error = again.explain(&Config::from_value(again.document.clone()).unwrap_err());
    assert!(
        error.starts_with("/etc/h/t/1.json: line 2, column 6: /variables/v/values/a: "),
        "{error}"
    );
    let cut = [("/etc/h/t/1.json", "{\"a\": ")];
    assert!(
        expand_tables(running, &Memory::new(&cut)).unwrap_err().starts_with("/etc/h/t/1.json: ")
    );
}

#[test]
fn media_types_may_be_those_of_the_system() {
    let document = r#"{"settings": {"http": {"static": {"mime_types": "/etc/mime.types"}}}}"#;
    let files = [("/etc/mime.types", "text/x-a a\ntext/x-b b bb\n")];
    let found = expanded(document, &files).unwrap();
    let config = Config::from_value(found.document.clone()).unwrap();
    assert_eq!(config.settings.http.mime_types.len(), 2);
    let mut after = found.document.clone();
    after["settings"]["http"]["static"]["mime_types"]["text/x-a"] = json!([".b"]);
    let changed = changed(&found.document, &mut after);
    assert!(changed.iter().any(|(_, file)| *file == "/etc/mime.types"), "{changed:?}");
    let error = expanded(document, &[]).unwrap_err();
    assert!(
        error.contains("/settings/http/static/mime_types: /etc/mime.types: there is no"),
        "{error}"
    );
}

#[test]
fn names_of_the_user_are_no_includes() {
    for document in [
        r#"{"routes": [{"match": {"arguments": {"include": "a.json"}},
            "action": {"return": 200}}]}"#,
        r#"{"applications": {"include": {"type": "php", "root": "/www"}}}"#,
    ] {
        let found = expand(document.as_bytes(), Path::new("a"), &Memory::new(&[])).unwrap();
        let document =
            found.map_or_else(|| json::parse(document.as_bytes()).unwrap(), |e| e.document);
        Config::from_value(document).unwrap();
    }
    assert!(expand(b"{}", Path::new("a"), &Memory::new(&[])).unwrap().is_none());
    assert!(expand(b"x", Path::new("a"), &Memory::new(&[])).unwrap().is_none());
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in "[\\[\\]{}\":,a-c *./]{0,60}", file in "[\\[\\]{}\":,a \
        ]{0,20}") {
        let include = format!("{{\"include\": \"*\", \"a\": {text}");
        for text in [text.as_str(), include.as_str()] {
            let files = Memory::new(&[("/a", file.as_str()), ("/b", "{\"routes\": []}")]);
            let _ = expand(text.as_bytes(), Path::new("/c"), &files);
        }
    }

    #[test]
    fn each_part_of_a_document_is_found_in_its_text(
        names in prop::collection::btree_set("[a-z/%é\"]{0,5}", 1..5),
    ) {
        let part = |name: &String| (name.clone(), json!([1, {"x": name}]));
        let value = Value::Object(names.iter().map(part).collect());
        for text in [value.to_string(), format!("{value:#}")] {
            for name in &names {
                let steps = [name.clone(), "1".to_owned(), "x".to_owned()];
                let position = json::find(text.as_bytes(), &steps).unwrap();
                let found = serde_json::to_string(name).unwrap();
                prop_assert!(text[position.offset..].starts_with(&found));
            }
            prop_assert!(json::find(text.as_bytes(), &["no such".to_owned()]).is_none());
        }
    }
}

#[test]
fn each_file_tells_its_own_problem() {
    let copy = r#"{"routes": {"a": []}, "upstreams": {"u": {"servers": {"127.0.0.1:1": {}}}}}"#;
    let files = [
        ("/etc/h/c/1.json", "{\"routes\": {\n"),
        ("/etc/h/c/2.json", copy),
        ("/etc/h/c/3.json", copy),
        ("/etc/h/c/4.json", "[]"),
        ("/etc/h/c/5.json", r#"{"include": ["none.json", "a*/b", "no/such/*"]}"#),
        ("/etc/h/c/6.json", r#"{"routes": {"d": [{"include": "none.json"}, {}]}}"#),
    ];
    let error = expanded(
        r#"{"include": "c/*.json", "listeners": {"*:80": {"pass": "routes/none"}}}"#,
        &files,
    )
    .unwrap_err();
    let beginnings = [
        "/etc/h/c/1.json: line ",
        "/etc/h/c/3.json: line 1, column 18: /routes/a: is in /etc/h/c/2.json as well",
        "/etc/h/c/4.json: line 1, column 1: must be an object",
        "/etc/h/c/5.json: line 1, column 13: /include: must have \"*\" and \"?\" only in",
        "/etc/h/c/5.json: line 1, column 13: /include: /etc/h/c/none.json: there is no such file",
        "/etc/h/c/6.json: line 1, column 31: /routes/d: /etc/h/c/none.json: there is no such file",
    ];
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), beginnings.len(), "{error}");
    for (line, beginning) in lines.iter().zip(beginnings) {
        assert!(line.starts_with(beginning), "{line}\n{beginning}");
    }
    // The files of a circle are not read again and again.
    let around = [
        ("/etc/h/c/1.json", "x"),
        ("/etc/h/c/2.json", r#"{"include": "*.json"}"#),
        ("/etc/h/c/3.json", r#"{"include": "*.json"}"#),
    ];
    let error = expanded(r#"{"include": "c/*.json"}"#, &around).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    let circles = lines.iter().filter(|line| line.contains("is a circle"));
    assert_eq!((lines.len(), circles.count()), (3, 2), "{error}");
    let all: Vec<_> = (0..50).map(|number| format!("/etc/h/c/{number}.json")).collect();
    let all: Vec<_> = all.iter().map(|name| (name.as_str(), r#"{"include": "*.json"}"#)).collect();
    let error = expanded(r#"{"include": "c/*.json"}"#, &all).unwrap_err();
    assert_eq!(error.lines().count(), 21, "{error}");
    let names: Vec<_> = (0..200).map(|number| format!("{number}.json")).collect();
    let error = expanded(&json!({ "include": names }).to_string(), &[]).unwrap_err();
    assert!(error.ends_with("\nand at least 80 more"), "{error}");
}

#[test]
fn each_mistake_has_its_file_and_line() {
    let files = [
        ("/etc/h/a.json", "{\n\"routes\": {\"a\": [\n{\"action\": {}}]}}"),
        ("/etc/h/b.json", "{\"upstreams\": {\n\"b\": {}}}"),
    ];
    let document = "{\"include\": [\"a.json\", \"b.json\"],\n\"listeners\": {\"x\": {}}}";
    let found = expanded(document, &files).unwrap();
    let explained = found.explain(&Config::from_value(found.document.clone()).unwrap_err());
    let places: Vec<_> = explained.lines().map(|line| line.split(": ").nth(2).unwrap()).collect();
    assert_eq!(places, ["/listeners/x", "/routes/a/0/action", "/upstreams/b"], "{explained}");
    let lines: Vec<_> = explained.lines().map(|line| line.split(", ").next().unwrap()).collect();
    assert_eq!(
        lines,
        ["/etc/h/site.json: line 2", "/etc/h/a.json: line 3", "/etc/h/b.json: line 2"],
        "{explained}"
    );
}

#[test]
fn a_pattern_that_names_no_file_is_told() {
    let document = "{\n\"include\": [\"conf.d/*.json\", \"sites/*.json\"], \"variables\": {\"$a\": {\n\
        \"source\": \"$host\", \"values\": \"tables/*\"}}}";
    let expanded = expanded(document, FILES).unwrap();
    let line = |line, column, rest: &str| {
        format!("/etc/h/site.json: line {line}, column {column}: {rest} names no file")
    };
    let tables = line(3, 30, "/variables/$a/values: /etc/h/tables/*");
    let sites = line(2, 12, "/include: /etc/h/sites/*.json");
    assert_eq!(expanded.notes, [tables, sites]);
}

#[test]
fn a_mistake_of_a_document_alone_has_its_line() {
    let explained = |text: &str| {
        let error = match crate::parse(text.as_bytes()) {
            Ok(_) => panic!("{text} is valid"),
            Err(error) => error,
        };
        explain("site.json", text.as_bytes(), &error)
    };
    let text =
        "{\"routes\": [\n  {\"action\": {\"retrn\": 1}},\n  {\"action\": {\"return\": -1}}]}";
    let lines = explained(text);
    let lines: Vec<_> = lines.lines().collect();
    assert!(lines[0].starts_with("site.json: line 2, column 14: /routes/0/action: "), "{lines:?}");
    assert!(lines[1].starts_with("site.json: line 3, column 25: /routes/1/action"), "{lines:?}");
    assert_eq!(lines.len(), 2);
    assert!(explained("{\n1}").starts_with("site.json: line 2, column 1: "));
    // The text has parts of other files: its lines are those of none.
    let expanded = r#"{"listener": 1, "included": {"/a": "b.json"}}"#;
    assert!(
        explained(expanded).starts_with("site.json: the document: "),
        "{}",
        explained(expanded)
    );
}
