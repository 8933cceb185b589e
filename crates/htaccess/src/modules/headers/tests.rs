use super::*;
use crate::modules::testing::{Stub, apply, record};

fn sent(lines: &[&str], before: &[(&str, &str)]) -> String {
    let mut record = record(apply(DIRECTIVES, lines).unwrap());
    record.env.set("E", "e\nv");
    record.headers_in.set("X-In", "in");
    for (name, value) in before {
        record.headers_out.add(*name, *value);
    }
    response(&mut record, &Stub::default(), &Stub::default());
    let all = record.headers_out.iter().chain(record.err_headers_out.iter());
    all.map(|(name, value)| format!("{}: {}|", lossy(name), lossy(value))).collect()
}

#[test]
fn actions_change_the_table() {
    for (lines, before, expected) in [
        (vec!["Header set A b"], vec![("a", "1"), ("a", "2")], "a: b|"),
        (vec!["Header add A b"], vec![("A", "1")], "A: 1|A: b|"),
        (vec!["Header append A b"], vec![("A", "1")], "A: 1, b|"),
        (vec!["Header merge A b"], vec![("A", "a, b")], "A: a, b|"),
        (vec!["Header merge A b"], vec![("A", "ab")], "A: ab, b|"),
        (vec!["Header unset a"], vec![("A", "1")], ""),
        (vec!["Header setifempty A b"], vec![("A", "1")], "A: 1|"),
        (vec!["Header setifempty A b"], vec![], "A: b|"),
        (
            vec!["Header edit A a b"],
            vec![("A", "aa"), ("B", "x"), ("A", "ca")],
            "B: x|A: ba|A: cb|",
        ),
        (vec!["Header edit* A a(.) $1b"], vec![("A", "axay")], "A: xbyb|"),
        (vec!["Header edit* A x* -"], vec![("A", "ab")], "A: -a-b|"),
        (vec!["Header always set A b", "Header set A c"], vec![], "A: c|A: b|"),
        (vec!["Header echo ^X-"], vec![], "X-In: in|"),
        (vec!["Header set A \"%{E}e %{F}e 100%%\""], vec![], "A: e v (null) 100%|"),
        (vec!["Header set A %t"], vec![], "A: t=1700000100250000|"),
        (vec!["Header set A b env=E", "Header set C d env=!E"], vec![], "A: b|"),
        (vec!["Header set A b expr=true", "Header set C d expr=false"], vec![], "A: b|"),
        (vec!["Header set A: b"], vec![], "A: b|"),
        (vec!["Header set A b early"], vec![], ""),
    ] {
        assert_eq!(sent(&lines, &before), expected, "{lines:?}");
    }
}

#[test]
fn errors_are_those_of_apache() {
    for (line, expected) in [
        ("Header set A", "Header requires three arguments"),
        ("Header set A b c", "Unknown parameter: c"),
        ("Header set A b env=E x", "Too many arguments to directive"),
        ("Header edit A b", "Header edit requires a match and a substitution"),
        ("Header edit A ( b", "Header edit regex could not be compiled"),
        ("RequestHeader echo A", "Header echo only valid on Header directives"),
        (
            "Header set A b env=!",
            "error: missing environment variable name. envclause should be in the form env=envar ",
        ),
        ("Header set A %q", "Unrecognized header format %q"),
        ("Header unset A b c", "header unset takes two arguments"),
        ("Header a b c d e f", "Header has too many arguments"),
    ] {
        assert_eq!(apply(DIRECTIVES, &[line]).unwrap_err(), expected, "{line}");
    }
    let error = apply(DIRECTIVES, &["Header put A b"]).unwrap_err();
    assert!(error.starts_with("first argument must be 'add'"), "{error}");
}

#[test]
fn content_type_is_changed_with_the_table() {
    let mut record = record(apply(DIRECTIVES, &["Header set Content-Type text/x"]).unwrap());
    response(&mut record, &Stub::default(), &Stub::default());
    assert_eq!(record.content_type.as_deref(), Some(&b"text/x"[..]));
}
