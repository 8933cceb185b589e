//! Whole sites: documents are valid, and what is closed stays closed.

use howdah_config::parse;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn converted(files: &[(&str, &str)]) -> Conversion {
    let files: Vec<File> = { files.iter() }
        .map(|(directory, content)| File {
            directory: directory.as_bytes().to_vec(),
            path: format!("/www/{directory}/.htaccess"),
            content: Ok(content.as_bytes().to_vec()),
        })
        .collect();
    let exists = |path: &[u8]| path.starts_with(b"/www");
    convert(&Site { root: "/www", listener: "*:80", files: &files, has_php: true, exists: &exists })
}

fn steps(conversion: &Conversion, route: &str) -> Vec<Value> {
    conversion.document["routes"][route].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_site_without_rules_is_a_share() {
    let conversion = converted(&[]);
    assert!(conversion.is_complete());
    let last = steps(&conversion, "main").pop().unwrap();
    assert_eq!(last["action"]["share"], "/www$uri");
    parse(conversion.document.to_string().as_bytes()).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_closes_its_directory() {
    let file = File {
        directory: b"a".to_vec(),
        path: "/www/a/.htaccess".to_owned(),
        content: Err("Permission denied".to_owned()),
    };
    let exists = |_: &[u8]| true;
    let site =
        Site { root: "/www", listener: "*:80", files: &[file], has_php: false, exists: &exists };
    let conversion = convert(&site);
    let step = &steps(&conversion, "main")[1];
    assert_eq!(step["match"]["uri"], serde_json::json!(["/a", "/a/*"]));
    assert_eq!(step["action"]["return"], 403);
    assert!(!conversion.is_complete());
}

#[test]
fn a_section_that_opens_something_opens_no_more_than_its_names() {
    let rules = "Require all denied\n<FilesMatch \"^pub\">\nRequire all granted\n</FilesMatch>\n";
    let conversion = converted(&[("", rules)]);
    let all: Vec<_> = steps(&conversion, "main");
    // The ones behind are not reached.
    assert_eq!(all[1], serde_json::json!({ "action": { "return": 403 } }));
    assert!(!conversion.is_complete());
}

#[test]
fn a_rule_behind_the_front_controller_is_named_and_a_refusal_there_still_refuses() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /index.php [L]\n\
                 RewriteRule ^secret/ - [F]\nRewriteRule ^a$ /b [R,L]\n";
    let conversion = converted(&[("", rules)]);
    let lines: Vec<u32> = conversion.notes.iter().map(|note| note.line).collect();
    assert_eq!(lines, [4, 5]);
    let refusal = &steps(&conversion, "main")[1];
    assert_eq!(refusal["match"]["uri"], "~^/secret/");
    assert_eq!(refusal["action"]["return"], 403);
}

/// Directives with arguments from a list.
fn directive() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "^",
        "^a$",
        "^(.*)$",
        "(^|/)x",
        "!^b/",
        "\\.(css|js)$",
        "/a",
        "/a/b?c=$1",
        "http://h.example/$1",
        "%{REQUEST_URI}",
        "%{HTTP_HOST}",
        "%{HTTPS}",
        "off",
        "on",
        "[L]",
        "[R=301,L]",
        "[F]",
        "[OR]",
        "[NC]",
        "-",
        "!-f",
        "-d",
        "all",
        "granted",
        "denied",
        "from",
        "env=x",
        "not",
        "ip",
        "10.0.0.0/8",
        "valid-user",
        "404",
        "X-A",
        "set",
        "always",
        "$1",
        "${x}",
        "%1",
        "text/css",
        "A60",
        "\"a b\"",
        "index.php",
        "gone",
        "é",
        "%{HTTP_COOKIE}",
        "a{2}",
        "[a-z]+",
        "(?!x)",
        "*",
        "*.php",
        "x.*",
    ]);
    let names = prop::sample::select(vec![
        "RewriteRule",
        "RewriteCond",
        "RewriteEngine",
        "RewriteBase",
        "Redirect",
        "RedirectMatch",
        "Require",
        "Order",
        "Allow",
        "Deny",
        "Satisfy",
        "Header",
        "ExpiresActive",
        "ExpiresByType",
        "ExpiresDefault",
        "ErrorDocument",
        "DirectoryIndex",
        "FallbackResource",
        "AddType",
        "SetHandler",
        "php_flag",
        "php_value",
        "SetEnvIf",
        "SetEnv",
        "AuthType",
        "AuthName",
        "AuthUserFile",
        "Options",
    ]);
    (names, prop::collection::vec(words, 0..4))
        .prop_map(|(name, words)| format!("{name} {}\n", words.join(" ")))
}

fn rules() -> impl Strategy<Value = String> {
    let section = prop::sample::select(vec![
        ("", ""),
        ("<Files \"x.*\">\n", "</Files>\n"),
        ("<FilesMatch \"^(a|b)\\.php$\">\n", "</FilesMatch>\n"),
        ("<Limit POST>\n", "</Limit>\n"),
        ("<If \"true\">\n", "</If>\n"),
        ("<RequireAll>\n", "</RequireAll>\n"),
    ]);
    let part = (section, prop::collection::vec(directive(), 1..4))
        .prop_map(|((start, end), lines)| format!("{start}{}{end}", lines.concat()));
    prop::collection::vec(part, 0..6)
        .prop_map(|parts| format!("RewriteEngine On\n{}", parts.concat()))
}

/// Keeps the parts of a text that Apache accepts.
fn accepted(text: &str) -> String {
    let base = howdah_htaccess::base::Base::default();
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let next = format!("{kept}{line}");
        let is_section = line.starts_with('<');
        let check =
            howdah_htaccess::parse::directives(next.as_bytes(), b"", b"/www/", &base, &|_| true);
        if is_section || check.is_ok() || next.matches("\n<").count() % 2 == 1 {
            kept = next;
        }
    }
    kept
}

proptest! {
    #[test]
    fn any_file_becomes_a_valid_document(root in rules(), below in rules(), other in ".{0,80}") {
        let conversion = converted(&[("", &accepted(&root)), ("a", &accepted(&below)), ("b", &other)]);
        let text = conversion.document.to_string();
        prop_assert!(parse(text.as_bytes()).is_ok(), "{:?}\n{root}{below}{text}", parse(text.as_bytes()).err());
    }
}
