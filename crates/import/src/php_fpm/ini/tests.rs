use proptest::prelude::*;

use super::*;

/// The value of a line `a = …`.
fn value(line: &str) -> Result<String, String> {
    match &read_line(line)?[..] {
        [Statement::Entry { value: Some(value), .. }] => Ok(value.text.clone()),
        other => panic!("{other:?}"),
    }
}

fn key(line: &str) -> (String, Option<String>) {
    match &read_line(line).unwrap()[..] {
        [Statement::Entry { name, key, .. }] => (name.clone(), key.clone()),
        other => panic!("{other:?}"),
    }
}

// PHP 8.2's `parse_ini_string` gives the same values.
#[test]
fn values_are_those_of_the_scanner_of_php() {
    for (line, expected) in [
        ("a = ''", ""),
        ("a = 'abc'def", "abcdef"),
        ("a = x'b c'", "xb c"),
        ("a = 'x' 'y'", "x y"),
        (r#"a = "x\"y\\z\n""#, r#"x"y\z\n"#),
        ("a = x  y ; c", "x  y"),
        ("a = $pool/x", "$pool/x"),
        ("a = b;c", "b"),
        (r#"a= "x" "y""#, "xy"),
        (r#"a = "x;y" ; z"#, "x;y"),
        (r#"a = "a"b c"#, "ab c"),
        (r#"a = x"y z" ; w"#, "xy z"),
        ("a = E_ALL & ~E_NOTICE", "32759"),
        ("a = E_ALL", "32767"),
        ("a = E_ALL x", "32767 x"),
        ("a = onx", "onx"),
        ("a = x only", "x only"),
        ("a = yes ; z", "1"),
        ("a = Off", ""),
        ("a = none", ""),
        ("a = null", ""),
        (r#"a = "on""#, "on"),
        ("a = none.x", "none.x"),
        ("a = !x", "1"),
        ("a = {x}", "{x}"),
        ("a = x|y|4", "4"),
        ("a = (1|2)", "3"),
        ("a = ~1", "-2"),
        ("a = x^y", "0"),
        ("a = a&b", "0"),
        ("a = it's", "it"),
        ("a = \"it's\"", "it's"),
        ("a = $;x", "$;x"),
        ("a = x$=z", "x$=z"),
        (r"a = b\;c", r"b\"),
        ("a=\t1\t;x", "1"),
        ("\ta\t=\t1", "1"),
        ("a =", ""),
        ("a = ;x", ""),
        ("a=x@y:z,%/+*?<>.-_`#", "x@y:z,%/+*?<>.-_`#"),
    ] {
        assert_eq!(value(line).as_deref(), Ok(expected), "{line}");
    }
}

#[test]
fn errors_are_those_of_the_scanner_of_php() {
    for line in [
        "a = on x",
        "a = b=c",
        "a = \"open",
        "a = NULL x",
        "a = x yes",
        "a = x no",
        "a=(1",
        "a=1)",
        "a=|1",
        "= b",
        "a[x = 3",
        "a[x] 3",
        "[a",
        " [a]",
        "a{b = 1",
        "a(b) = 1",
        "$a = 1",
        "a!=1",
        "a = $\"x\"",
        "a=${FOO",
        "a= b\"c",
    ] {
        assert!(read_line(line).is_err(), "{line}");
    }
}

#[test]
fn names_have_keys_in_brackets() {
    let expected = |name: &str, key: Option<&str>| (name.to_owned(), key.map(str::to_owned));
    assert_eq!(key("env[PATH] = 1"), expected("env", Some("PATH")));
    assert_eq!(key(" env [ A] = 1"), expected("env", Some("A")));
    assert_eq!(key("a['y']=3"), expected("a", Some("y")));
    assert_eq!(key("a[] = 2"), expected("a", Some("")));
    assert_eq!(key("pm.max_children = 2"), expected("pm.max_children", None));
    assert_eq!(key("# foo = 1"), expected("# foo", None));
}

#[test]
fn a_section_may_have_an_entry_behind_it() {
    let found = read_line("[s] a = 4\r").unwrap();
    assert_eq!(found[0], Statement::Section("s".to_owned()));
    assert_eq!(found.len(), 2);
    assert!(read_line("; all of it").unwrap().is_empty());
    assert!(read_line("").unwrap().is_empty());
}

#[test]
fn a_variable_of_the_environment_is_told() {
    for line in ["a = ${HOME}/x", "a = \"${HOME}/x\""] {
        let [Statement::Entry { value: Some(value), .. }] = &read_line(line).unwrap()[..] else {
            panic!();
        };
        assert_eq!((value.text.as_str(), value.has_variable), ("/x", true));
    }
}

proptest! {
    #[test]
    fn any_line_has_an_end(line in "[a$ =;\"'\\[\\](){}|&~!^\\\\\t\rE_ALLonoff0-9.é-]{0,60}") {
        let _ = read_line(&line);
    }

    #[test]
    fn nothing_of_any_text_panics(line in ".{0,200}") {
        let _ = read_line(&line);
    }
}
