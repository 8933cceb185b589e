use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tests::{Memory, expanded};
use super::*;
use crate::Config;

/// Reads a document without files that cannot be used, at the time 100.
fn tolerant(
    document: &str,
    files: &[(&str, &str)],
    former: Option<&Value>,
) -> Result<Expanded, String> {
    let (file, files) = (Path::new("/etc/h/site.json"), Memory::new(files));
    let read = expand_leaving_out(
        document.as_bytes(),
        file,
        &files,
        &former.cloned().map(Former::of_document).unwrap_or_default(),
        100,
        &check,
        &BTreeSet::new(),
    );
    Ok(read?.expect("it has an include"))
}

fn check(document: &Value) -> Result<(), Error> {
    Config::from_value(document.clone()).map(drop)
}

/// The files that are left out, with true for those whose former content is used.
fn left_out(expanded: &Expanded) -> Vec<(&str, bool)> {
    let files = expanded.left_out.iter();
    files.map(|left_out| (left_out.file.to_str().unwrap(), left_out.is_former)).collect()
}

/// A document with two sites of other files, and one in a file that need not match a pattern.
const SITES: &str = r#"{
    "include": ["conf.d/*.json", "c.json"],
    "listeners": {"*:80": {"pass": "routes/main"}, "*:81": {"pass": "routes/c"}},
    "routes": {"main": [
        {"match": {"host": "a"}, "action": {"pass": "routes/a"}},
        {"match": {"host": "b"}, "action": {"pass": "routes/b"}},
        {"include": "steps.json"},
        {"action": {"pass": "upstreams/c"}}
    ]}
}"#;

const A: &str = r#"{"routes": {"a": [{"action": {"return": 201}}]}}"#;
const B: &str = r#"{"routes": {"b": [{"action": {"return": 202}}]}}"#;
const C: &str = r#"{"routes": {"c": [{"action": {"return": 203}}]},
    "upstreams": {"c": {"servers": {"127.0.0.1:1": {}}}}}"#;
const STEPS: &str = r#"[{"match": {"host": "s"}, "action": {"return": 204}},
    {"match": {"host": "t"}, "action": {"return": 205}}]"#;

fn good() -> [(&'static str, &'static str); 4] {
    [
        ("/etc/h/conf.d/a.json", A),
        ("/etc/h/conf.d/b.json", B),
        ("/etc/h/c.json", C),
        ("/etc/h/steps.json", STEPS),
    ]
}

#[test]
fn a_file_that_cannot_be_used_is_left_out_and_the_others_are_not() {
    let whole = tolerant(SITES, &good(), None).unwrap();
    assert_eq!(left_out(&whole), []);
    let strict = expanded(SITES, &good()).unwrap().document;
    assert_eq!(whole.document, strict);
    for (index, (name, _)) in good().into_iter().enumerate() {
        for broken in [
            "{",
            "1",
            "\"x\"",
            r#"{"unknown": 1}"#,
            r#"{"routes": {"main": []}}"#,
            r#"{"listeners": {"*:80": {"pass": "routes/main"}}}"#,
            r#"{"routes": {"d": [{"action": {"pass": "routes/none"}}]}, "settings": 1}"#,
            r#"{"include": "x/*.json", "applications": {"a": {"type": "php"}}}"#,
            r#"{"include": "/etc/h/site.json"}"#,
            r#"[{"action": {"return": "x"}}]"#,
            r#"[{"include": "steps.json"}]"#,
        ] {
            let mut files = good();
            files[index].1 = broken;
            let Expanded { document, .. } = &tolerant(SITES, &files, None)
                .unwrap_or_else(|problem| panic!("{name} {broken}: {problem}"));
            let config = Config::from_value(document.clone()).unwrap();
            let found: Vec<_> = config.left_out.iter().map(|out| out.file.to_str()).collect();
            assert_eq!(found, [Some(name)], "{broken}");
            let out = &config.left_out[0];
            assert!(!out.is_former && out.since == 100 && !out.reason.is_empty(), "{out:?}");
            // Its former content takes its place, where it stood.
            let kept = tolerant(SITES, &files, Some(&strict)).unwrap();
            assert_eq!(left_out(&kept), [(name, true)], "{broken}");
            let mut plain = kept.document.clone();
            plain.as_object_mut().unwrap().shift_remove("left_out");
            assert_eq!(plain, strict, "{name} {broken}");
            // The time stays.
            let later = tolerant(SITES, &files, Some(document)).unwrap();
            assert_eq!(later.document, *document);
        }
    }
}

#[test]
fn a_file_that_includes_itself_is_left_out_and_its_members_are_nobody_elses() {
    let strict = expanded(SITES, &good()).unwrap().document;
    let mut files = good();
    files[1].1 = r#"{"include": "b.json", "routes": {"b": [{"action": {"return": 299}}]}}"#;
    let kept = tolerant(SITES, &files, Some(&strict)).unwrap();
    assert_eq!(left_out(&kept), [("/etc/h/conf.d/b.json", true)]);
    let mut plain = kept.document;
    plain.as_object_mut().unwrap().shift_remove("left_out");
    assert_eq!(plain, strict);
}

#[test]
fn a_file_that_is_not_there_is_left_out() {
    let files: Vec<_> = good().into_iter().filter(|(name, _)| !name.ends_with("c.json")).collect();
    let expanded = tolerant(SITES, &files, None).unwrap();
    assert_eq!(left_out(&expanded), [("/etc/h/c.json", false)]);
    assert!(expanded.left_out[0].reason.contains("there is no such file"));
    // A file that no pattern names is left out, with its former content.
    let whole = tolerant(SITES, &good(), None).unwrap().document;
    let files: Vec<_> = good().into_iter().filter(|(name, _)| !name.ends_with("b.json")).collect();
    let problem = tolerant(SITES, &files, Some(&whole)).unwrap_err();
    assert!(problem.contains("there is no route \"b\""), "{problem}");
}

#[test]
fn a_mistake_of_the_document_itself_and_what_a_file_must_define_for_it_are_refused() {
    let main =
        r#"{"include": "a.json", "listeners": {"*:80": {"pass": "routes/none"}}, "routes": {}}"#;
    let problem = tolerant(main, &[("/etc/h/a.json", "{}")], None).unwrap_err();
    assert!(problem.contains("there is no route \"none\""), "{problem}");
    // A limit that is not there must not let everything pass.
    let main = r#"{"include": "a.json", "listeners": {"*:80": {"pass": "routes/a"}},
        "routes": {"a": [{"match": {"if": "$mine"}, "action": {"return": 403}}]}}"#;
    let variables = r#"{"variables": {"mine": {"map": "$host", "values": {"a": "1"}}}}"#;
    let former = tolerant(main, &[("/etc/h/a.json", variables)], None).unwrap().document;
    let problem = tolerant(main, &[("/etc/h/a.json", "{")], None).unwrap_err();
    assert!(problem.contains("mine"), "{problem}");
    let kept = tolerant(main, &[("/etc/h/a.json", "{")], Some(&former)).unwrap();
    assert_eq!(left_out(&kept), [("/etc/h/a.json", true)]);
}

#[test]
fn a_former_content_that_contradicts_the_document_is_left_out_as_well() {
    let former = tolerant(SITES, &good(), None).unwrap().document;
    let mut files = good();
    files[1].1 = "{";
    let main = SITES.replace(r#""main": ["#, r#""b": [{"action": {"return": 206}}], "main": ["#);
    let expanded = tolerant(&main, &files, Some(&former)).unwrap();
    assert_eq!(left_out(&expanded), [("/etc/h/conf.d/b.json", false)]);
    assert_eq!(expanded.document["routes"]["b"][0]["action"]["return"], 206);
}

#[test]
fn a_table_that_cannot_be_used_keeps_its_content_or_leaves_out_the_file_that_names_it() {
    let main = r#"{"include": "a.json", "listeners": {"*:80": {"pass": "routes/a"}}}"#;
    let a = r#"{"variables": {"v": {"map": "$host", "values": "t.json"}},
        "routes": {"a": [{"match": {"if": "$v"}, "action": {"return": 200}}]}}"#;
    let with = |table: &'static str| [("/etc/h/a.json", a), ("/etc/h/t.json", table)];
    let former = tolerant(main, &with(r#"{"x": "1"}"#), None).unwrap().document;
    let kept = tolerant(main, &with("{"), Some(&former)).unwrap();
    assert_eq!(left_out(&kept), [("/etc/h/t.json", true)], "{:?}", kept.left_out);
    assert_eq!(kept.document["variables"], former["variables"]);
    let out = tolerant(main, &with("{"), None).unwrap();
    let names: Vec<_> = left_out(&out).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["/etc/h/a.json"], "{:?}", out.left_out);
    let main = r#"{"include": "b.json", "variables": {"v": {"map": "$host", "values": "t.json"}}}"#;
    let files = [("/etc/h/b.json", "{}"), ("/etc/h/t.json", "{")];
    let problem = tolerant(main, &files, None).unwrap_err();
    assert!(problem.contains("t.json"), "{problem}");
}

proptest! {
    /// For any files: no panic, and an accepted document is valid.
    #[test]
    fn any_files_make_a_valid_document_or_none(
        texts in proptest::collection::vec(
            prop_oneof![
                Just("{".to_owned()), Just(A.to_owned()), Just(B.to_owned()), Just(C.to_owned()),
                Just(STEPS.to_owned()), Just("{}".to_owned()), Just("[]".to_owned()),
                Just(r#"{"include": "../c.json"}"#.to_owned()),
                Just(r#"{"routes": {"a": {"include": "b.json"}}}"#.to_owned()),
                Just(r#"{"include": "a.json", "routes": {"z": []}}"#.to_owned()),
            ], 8),
    ) {
        let names = ["/etc/h/conf.d/a.json", "/etc/h/conf.d/b.json", "/etc/h/c.json",
            "/etc/h/steps.json"];
        let files = |texts: &[String]| {
            Memory(names.iter().map(PathBuf::from).zip(texts.to_owned()).collect())
        };
        let read = |texts: &[String], former: Option<&Value>| {
            let path = Path::new("/etc/h/site.json");
            let former = former.cloned().map(Former::of_document).unwrap_or_default();
            expand_leaving_out(SITES.as_bytes(), path, &files(texts), &former, 1, &check, &BTreeSet::new())
        };
        if let Ok(Some(first)) = read(&texts[..4], None) {
            Config::from_value(first.document.clone()).unwrap();
            if let Ok(Some(second)) = read(&texts[4..], Some(&first.document)) {
                Config::from_value(second.document).unwrap();
            }
        }
    }
}

#[test]
fn a_mended_file_is_the_only_difference() {
    use super::super::differs_only_in_left_out;
    let whole = tolerant(SITES, &good(), None).unwrap().document;
    for index in 0..4 {
        let mut files = good();
        files[index].1 = "{";
        let without = tolerant(SITES, &files, None).unwrap().document;
        assert!(differs_only_in_left_out(&without, &whole), "{index}");
        let former = tolerant(SITES, &files, Some(&whole)).unwrap().document;
        assert!(differs_only_in_left_out(&former, &whole), "{index}");
        // Another file or the document has changed as well.
        let mut changed = whole.clone();
        let own = ["b", "a", "a", "a"][index];
        changed["routes"][own][0]["action"]["return"] = json!(299);
        assert!(!differs_only_in_left_out(&without, &changed), "{index}");
        let mut changed = whole.clone();
        changed["routes"]["main"][0]["match"]["host"] = json!("other");
        assert!(!differs_only_in_left_out(&former, &changed), "{index}");
    }
}

#[test]
fn a_mended_file_is_used_while_another_one_keeps_what_runs() {
    use super::super::{changed_files, differs_only_in_left_out};
    let mut files = good();
    files[1].1 = "{";
    let running = tolerant(SITES, &files, None).unwrap().document;
    files = good();
    let edited = files[0].1.replace("20", "29");
    files[0].1 = &edited;
    let after = tolerant(SITES, &files, Some(&running)).unwrap().document;
    assert!(!differs_only_in_left_out(&running, &after), "{after}");
    let changed = changed_files(&running, &after);
    assert_eq!(changed.len(), 1, "{changed:?}");
    let (path, memory) = (Path::new("/etc/h/site.json"), Memory::new(&files));
    let former = Former::of_document(running.clone());
    let held = expand_leaving_out(SITES.as_bytes(), path, &memory, &former, 1, &check, &changed);
    let held = held.unwrap().unwrap();
    assert!(held.left_out.is_empty() && held.document.get(LEFT_OUT).is_none());
    assert!(differs_only_in_left_out(&running, &held.document), "{}", held.document);
    assert_ne!(held.document, running, "the mended file is used");
}

#[test]
fn a_file_cannot_take_the_name_of_another_one() {
    let former = tolerant(SITES, &good(), None).unwrap().document;
    let thief =
        r#"{"routes": {"a": [{"action": {"return": 201}}], "b": [{"action": {"return": 299}}]}}"#;
    for broken in [B, "{"] {
        let mut files = good();
        (files[0].1, files[1].1) = (thief, broken);
        let expanded = tolerant(SITES, &files, Some(&former)).unwrap();
        assert!(left_out(&expanded).contains(&("/etc/h/conf.d/a.json", true)), "{broken}");
        assert_eq!(expanded.document["routes"]["b"][0]["action"]["return"], 202);
        assert_eq!(expanded.document["routes"]["a"][0]["action"]["return"], 201);
    }
}

#[test]
fn many_files_of_one_customer_that_break_one_after_the_other_keep_nobody_out() {
    // Each file needs a variable of the next one.
    let mut files: Vec<(String, String)> = (0..60)
        .map(|at| {
            let variable = json!({"map": format!("$v{}", at + 1), "values": {"x": "y"}});
            let text = json!({"variables": {format!("v{at}"): variable}}).to_string();
            (format!("/etc/h/conf.d/x/{at}.json"), text)
        })
        .collect();
    files.push(("/etc/h/conf.d/a.json".to_owned(), r#"{"include": "x/*.json"}"#.to_owned()));
    let others = good().into_iter().filter(|(name, _)| !name.ends_with("a.json"));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let files: Vec<_> = files.into_iter().chain(others).collect();
    let expanded = tolerant(SITES, &files, None).unwrap();
    assert_eq!(expanded.document["routes"]["b"][0]["action"]["return"], 202);
}

#[test]
fn a_broken_file_keeps_its_certificates_and_those_of_others() {
    let main = r#"{"include": "conf.d/*.json", "listeners": {"*:443": {"pass": "routes/a", "tls": {
        "certificate": "own"}}}}"#;
    let of = |name: &str, entries: Value| {
        let listeners = json!({"*:443": {"tls": {"certificate": entries}}});
        let route = json!([{"action": {"return": 200}}]);
        json!({"listeners": listeners, "routes": {name: route}}).to_string()
    };
    let texts = [of("a", json!("a")), of("b", json!(["b", "b2"])), of("c", json!("c"))];
    let certificates = |document: &Value| {
        document["listeners"]["*:443"]["tls"]["certificate"].as_array().unwrap().clone()
    };
    let names = ["/etc/h/conf.d/a.json", "/etc/h/conf.d/b.json", "/etc/h/conf.d/c.json"];
    let with = |broken: Option<usize>, text: &'static str| -> Vec<(&str, String)> {
        let all = names.into_iter().zip(texts.clone()).enumerate();
        all.map(|(at, (name, own))| (name, if Some(at) == broken { text.to_owned() } else { own }))
            .collect()
    };
    let read = |files: &[(&str, String)], former: Option<&Value>| {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        tolerant(main, &files, former).unwrap()
    };
    let whole = read(&with(None, ""), None).document;
    assert_eq!(certificates(&whole), ["own", "a", "b", "b2", "c"]);
    for broken in ["{", r#"{"listeners": {"*:443": {"tls": {"certificate": [{"chain": "/x"}]}}}}"#]
    {
        let files = with(Some(1), broken);
        let kept = read(&files, Some(&whole));
        assert_eq!(left_out(&kept), [(names[1], true)]);
        assert_eq!(certificates(&kept.document), ["own", "a", "b", "b2", "c"]);
        let without = read(&files, None);
        assert_eq!(left_out(&without), [(names[1], false)]);
        assert_eq!(certificates(&without.document), ["own", "a", "c"]);
        assert!(super::super::differs_only_in_left_out(&without.document, &whole));
    }
    // The list begins with the file that defines the listener.
    let main = main.replace(
        r#", "tls": {
        "certificate": "own"}"#,
        "",
    );
    let files = with(None, "");
    let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let whole = tolerant(&main, &files, None).unwrap().document;
    assert_eq!(certificates(&whole), ["a", "b", "b2", "c"]);
    let mut files = files.clone();
    files[0].1 = "{";
    let kept = tolerant(&main, &files, Some(&whole)).unwrap();
    assert_eq!(left_out(&kept), [(names[0], true)]);
    assert_eq!(kept.document["listeners"], whole["listeners"]);
}
