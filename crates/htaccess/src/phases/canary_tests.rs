//! The source of scripts that the base runs is never sent, with any `.htaccess` files.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::engine::{Action, Base, compile};
use crate::registry::MODULES;
use crate::testing::Site;

/// In each script of the tree, at each place that something may be read from: a title, a type map
/// with a text, lines.
const SCRIPT: &str = "URI: a\nContent-Type: text/html\nBody:----x----\nCANARY\n----x----\n\n\
                      <title>CANARY</title>\n<?php $password = 'CANARY'; ?>";

const FILES: [&str; 6] =
    ["config.php", "sub/a.php", "sub/b.phtml", "sub/x.phar", "HEADER.php", "sub/page.php"];

const TARGETS: [&str; 14] = [
    "/",
    "/config.php",
    "/config.php/x",
    "/config",
    "/sub/",
    "/sub/a.php",
    "/sub/b.phtml",
    "/sub/page",
    "/sub",
    "/sub/x.phar?C=D;O=A",
    "/none",
    "/sub/none.php",
    "/page.html",
    "/config%2ephp",
];

/// Arguments that lead somewhere, for any directive.
const WORDS: [&str; 52] = [
    "none",
    "default-handler",
    "text/plain",
    "text/html",
    "cgi-script",
    "server-parsed",
    "type-map",
    "send-as-is",
    "application/x-httpd-php-source",
    "application/x-lsphp84",
    "application/x-type-map",
    "httpd/unix-directory",
    "redirect-handler",
    ".php",
    ".phtml",
    "php",
    "phar",
    "/config.php",
    "config.php",
    "sub/a.php",
    "HEADER.php",
    "a",
    "On",
    "Off",
    "engine",
    "0",
    "404",
    "403",
    "/sub/",
    "^",
    ".*",
    "^(.*)$",
    "-",
    "$0",
    "/config.php?x",
    "[H=none]",
    "[T=text/plain]",
    "[H=type-map,L]",
    "[L,PT]",
    "[END]",
    "[R=200]",
    "all",
    "granted",
    "All",
    "MultiViews",
    "+MultiViews",
    "+Indexes",
    "FancyIndexing",
    "ScanHTMLTitles",
    "X-A",
    "set",
    "\"expr=%{REQUEST_FILENAME}\"",
];

/// Lines that take effect, which words at random seldom give.
const LINES: [&str; 24] = [
    "SetHandler none",
    "SetHandler default-handler",
    "SetHandler application/x-httpd-php-source",
    "SetHandler type-map",
    "SetHandler \"proxy:fcgi://127.0.0.1:9000\"",
    "ForceType text/html",
    "php_flag engine off",
    "php_value engine 0",
    "AddType text/html .php .phtml .phar",
    "AddHandler type-map .php",
    "RemoveHandler .php",
    "Options +MultiViews +Indexes",
    "IndexOptions +FancyIndexing +ScanHTMLTitles",
    "HeaderName /config.php",
    "ReadmeName HEADER.php",
    "DirectoryIndex config.php a.php",
    "ErrorDocument 404 /config.php",
    "ErrorDocument 403 /sub/a.php",
    "FallbackResource /config.php",
    "RewriteEngine On",
    "RewriteRule ^ /config.php [H=none,L]",
    "RewriteRule \\.php$ - [H=text/plain]",
    "RewriteRule ^sub/(.*) /config.php [T=text/plain,PT]",
    "ContentDigest On",
];

const SECTIONS: [&str; 7] = [
    "<Files config.php>",
    "<Files *>",
    "<FilesMatch \\.ph>",
    "<FilesMatch php$>",
    "<If true>",
    "<If \"%{REQUEST_STATUS} == 403\">",
    "<IfModule mod_mime.c>",
];

fn line() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(select(&WORDS[..]), 0..4);
    let any = (any::<Index>(), words).prop_map(|(index, words)| {
        let all: Vec<_> = MODULES.iter().flat_map(|module| module.directives).collect();
        format!("{} {}", index.get(&all).name, words.join(" "))
    });
    let known = select(&LINES[..]).prop_map(str::to_owned);
    prop_oneof![any.boxed(), known.clone().boxed(), known.boxed()]
}

/// A `.htaccess` of lines that are valid by themselves.
fn rules() -> impl Strategy<Value = String> {
    let section =
        (select(&SECTIONS[..]), prop::collection::vec(line(), 0..4)).prop_map(|(open, lines)| {
            let name = open[1..].split([' ', '>']).next().unwrap_or_default();
            let lines: Vec<_> = lines.into_iter().filter(|line| is_valid(line)).collect();
            format!("{open}\n{}\n</{name}>", lines.join("\n"))
        });
    let part = prop_oneof![line(), section];
    prop::collection::vec(part, 0..8).prop_map(|parts| {
        let valid: Vec<_> = parts.into_iter().filter(|part| is_valid(part)).collect();
        valid.join("\n")
    })
}

fn is_valid(text: &str) -> bool {
    compile(text.as_bytes(), b"/s/.htaccess", b"/s/", &Base::default(), &|_| true).is_ok()
}

/// Fails if an answer has source of a script.
fn check(site: &Site, request: &str, fields: &[(&str, &str)]) {
    let answer = site.send(request, fields);
    let record = &answer.0.record;
    if let Action::File = answer.0.action {
        let name = String::from_utf8_lossy(&record.filename);
        assert!(!FILES.iter().any(|file| name.ends_with(file)), "{request}: {name} is sent");
    }
    let text = answer.text().unwrap_or_default();
    assert!(!text.contains("CANARY"), "{request}: {text}");
    for (name, value) in record.headers_out.iter().chain(record.err_headers_out.iter()) {
        let value = String::from_utf8_lossy(value);
        assert!(!value.contains("CANARY"), "{request}: {value}");
        assert!(!name.eq_ignore_ascii_case(b"content-md5"), "{request}: a digest of {value}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn no_rules_send_the_source_of_scripts(root in rules(), sub in rules(), method in select(&["GET", "HEAD", "POST"][..])) {
        let mut files = vec![(".htaccess", &*root), ("sub/.htaccess", &*sub)];
        files.extend(FILES.map(|file| (file, SCRIPT)));
        let site = Site::new(&files);
        for target in TARGETS {
            check(&site, &format!("{method} {target}"), &[("Range", "bytes=0-9"), ("Accept", "text/html")]);
        }
    }
}

#[test]
fn what_switches_php_off_refuses_scripts() {
    for rules in [
        "<FilesMatch php$>\nSetHandler none\n</FilesMatch>",
        "<Files *>\nSetHandler default-handler\n</Files>",
        "<Files *>\nSetHandler text/plain\n</Files>",
        "<Files *>\nSetHandler cgi-script\n</Files>",
        "<Files *>\nSetHandler type-map\n</Files>",
        "<Files *>\nSetHandler unknown\n</Files>",
        "<Files *>\nSetHandler \"proxy:http://127.0.0.1/\"\n</Files>",
        "php_flag engine off",
        "php_value engine off",
        "<Files *>\nSetHandler application/x-lsphp84\n</Files>\nphp_flag engine off",
        "RewriteEngine On\nRewriteRule php$ - [H=none]",
        "RewriteEngine On\nRewriteRule php$ - [H=text/plain]",
    ] {
        let site = Site::new(&[(".htaccess", rules), ("config.php", SCRIPT), ("a.txt", "text")]);
        for method in ["GET", "HEAD", "POST"] {
            assert_eq!(site.summary(&format!("{method} /config.php")), "403", "{rules}");
        }
        assert!(site.messages.borrow().iter().any(|text| text.contains("is a script")), "{rules}");
    }
    // Rules with which Apache runs scripts all the same.
    for rules in
        ["SetHandler none", "RemoveHandler .php", "ForceType text/plain", "AddType text/plain .php"]
    {
        let site = Site::new(&[(".htaccess", rules), ("config.php", SCRIPT)]);
        assert_eq!(site.summary("/config.php"), "200 script /config.php", "{rules}");
    }
}

#[test]
fn the_source_of_programs_that_are_not_run_is_not_sent() {
    for rules in [
        "AddHandler cgi-script .cgi .pl",
        "SetHandler CGI-Script\nOptions +ExecCGI",
        "<Files *>\nSetHandler fcgid-script\n</Files>",
        "AddType application/x-httpd-cgi .cgi .pl",
        "RewriteEngine On\nRewriteRule ^ - [H=cgi-script]",
    ] {
        let site = Site::new(&[(".htaccess", rules), ("a.cgi", "secret"), ("b.pl", "secret")]);
        for method in ["GET", "HEAD", "POST"] {
            assert_eq!(site.summary(&format!("{method} /a.cgi")), "403", "{rules}");
        }
        assert_eq!(site.summary("/b.pl"), "403", "{rules}");
        assert_eq!(site.summary("/none.cgi"), "404", "{rules}");
        assert!(site.messages.borrow().iter().any(|text| text.contains("is a program")), "{rules}");
    }
    let site = Site::new(&[(".htaccess", "AddHandler cgi-script .cgi"), ("a.txt", "text")]);
    assert_eq!(site.summary("/a.txt"), "200 file /a.txt");
}

#[test]
fn handlers_of_other_servers_that_name_php_run_scripts() {
    for handler in [
        "application/x-lsphp84",
        "application/x-httpd-ea-php82",
        "application/x-httpd-alt-php83___lsphp",
        "x-httpd-php82",
        "php5-script",
        "PHP7-FCGI",
        "fcgid-script",
        "application/x-httpd-suphp",
        "\"proxy:unix:/run/php.sock|fcgi://localhost\"",
        "\"proxy:fcgi://127.0.0.1:9000\"",
    ] {
        let rules = format!(
            "<FilesMatch \\.php$>\nSetHandler {handler}\n</FilesMatch>\nAddHandler {handler} .php \
             .php7"
        );
        let site = Site::new(&[
            (".htaccess", &rules),
            ("a.php", SCRIPT),
            ("b.php7", SCRIPT),
            ("c.txt", "c"),
        ]);
        let answer = site.get("/a.php");
        assert_eq!(answer.summary(&site), "200 script /a.php", "{handler}");
        assert!(answer.script().foreign_handler.is_some());
        assert_eq!(site.summary("/b.php7"), "200 script /b.php7", "{handler}");
        assert_eq!(site.summary("/c.txt"), "200 file /c.txt", "{handler}");
    }
    let site =
        Site::new(&[("a.php", SCRIPT), ("b.php7", SCRIPT), ("c.php_", SCRIPT), ("d.pht", SCRIPT)]);
    assert_eq!(site.get("/a.php").script().foreign_handler, None);
    for path in ["/b.php7", "/c.php_", "/d.pht"] {
        assert_eq!(site.summary(path), "403");
    }
}
