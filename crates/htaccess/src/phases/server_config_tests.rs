//! Directives of the server's configuration: sections, aliases, rules and redirects.

use std::collections::BTreeMap;

use crate::allow::Allow;
use crate::base::{Alias, Section, SectionKind};
use crate::engine::Base;
use crate::rewrite_map::{Function, RewriteMap};
use crate::testing::Site;

/// A section; a directory is below the root of the tests, whose path is not known before.
fn section(kind: SectionKind, pattern: &str, directives: &str) -> Section {
    let (pattern, directives) = (pattern.to_owned(), directives.to_owned());
    Section { kind, pattern, directives, reads_files: None, allow: None }
}

#[test]
fn sections_hold_from_the_shortest_directory_to_the_location() {
    use SectionKind::{Directory, DirectoryMatch, Location, LocationMatch};
    let base = Base {
        extra: "Header set X-Server yes\n<Files b.txt>\nHeader set X-Files b\n</Files>\n"
            .to_owned(),
        sections: vec![
            section(Directory, "/*/*/private", "Require all denied"),
            section(Directory, "/", "Header set X-Root yes"),
            section(DirectoryMatch, "/uploads/$", "Header set X-Match yes"),
            section(Location, "/sub", "Header set X-Files location"),
            section(LocationMatch, "^/closed/", "Require all denied"),
        ],
        ..Base::default()
    };
    let site = Site::with_base(
        base,
        &[
            ("a.txt", ""),
            ("b.txt", ""),
            ("sub/b.txt", ""),
            ("private/a.txt", ""),
            ("private/x/a.txt", ""),
            ("uploads/a.txt", ""),
            ("uploads/x/a.txt", ""),
            ("closed/a.txt", ""),
            ("closed.txt", ""),
        ],
    );
    let field = |path: &str, name: &str| site.get(path).header(name).unwrap_or_default();
    assert_eq!(field("/a.txt", "X-Server") + &field("/a.txt", "X-Root"), "yesyes");
    assert_eq!(field("/b.txt", "X-Files"), "b");
    assert_eq!(field("/sub/b.txt", "X-Files"), "location");
    assert_eq!(field("/uploads/a.txt", "X-Match"), "yes");
    assert_eq!(field("/uploads/x/a.txt", "X-Match"), "");
    for path in ["/private/a.txt", "/private/x/a.txt", "/private", "/private/none", "/closed/a.txt"]
    {
        assert_eq!(site.summary(path), "403", "{path}");
    }
    assert_eq!(site.summary("/closed.txt"), "200 file /closed.txt");
}

#[test]
fn a_section_tells_whether_files_are_read() {
    let reads = |pattern: &str, reads_files| Section {
        reads_files: Some(reads_files),
        ..section(SectionKind::Directory, pattern, "")
    };
    let sections = vec![reads("/", false), reads("/*/*/on", true), reads("/*/*/on/off", false)];
    let rule = "Redirect 302 / http://b.example/";
    let site = Site::with_base(
        Base { sections, ..Base::default() },
        &[
            (".htaccess", rule),
            ("a.txt", ""),
            ("on/a.txt", ""),
            ("on/.htaccess", "Require all denied"),
            ("on/off/.htaccess", rule),
            ("on/off/a.txt", ""),
        ],
    );
    assert_eq!(site.summary("/a.txt"), "200 file /a.txt");
    assert_eq!(site.summary("/on/a.txt"), "403");
    assert_eq!(site.summary("/on/off/a.txt"), "403");
}

#[test]
fn the_deepest_section_says_what_files_may_have() {
    let allows = |pattern: &str, words: &[&str]| Section {
        allow: Some(Allow::parse(words).unwrap()),
        ..section(SectionKind::Directory, pattern, "")
    };
    let sections = vec![
        allows("/*/*/open/deep", &["Limit"]),
        allows("/", &["FileInfo"]),
        allows("/*/*/open/", &["All"]),
        section(SectionKind::Directory, "/*/*/open/deep/more", "Header set X-More yes"),
        allows("/*/*/same", &["Limit"]),
        allows("/*/*/s?me", &["FileInfo"]),
    ];
    let (denies, redirects) = ("Require all denied", "Redirect 302 / http://b.example/");
    let site = Site::with_base(
        Base { sections, ..Base::default() },
        &[
            ("a.txt", ""),
            (".htaccess", "Header set X-Top yes"),
            ("shut/.htaccess", denies),
            ("shut/a.txt", ""),
            ("open/.htaccess", "Require all granted"),
            ("open/a.txt", ""),
            ("open/deep/more/.htaccess", redirects),
            ("open/deep/more/a.txt", ""),
            ("same/.htaccess", redirects),
            ("same/a.txt", ""),
            ("openother/.htaccess", denies),
            ("openother/a.txt", ""),
        ],
    );
    // An error in a file is 500, as a class that the directory does not allow.
    for (path, summary) in [
        ("/a.txt", "200 file /a.txt"),
        ("/shut/a.txt", "500"),
        ("/open/a.txt", "200 file /open/a.txt"),
        ("/open/deep/more/a.txt", "500"),
        ("/same/a.txt", "302 http://b.example/same/a.txt"),
        ("/openother/a.txt", "500"),
    ] {
        assert_eq!(site.summary(path), summary, "{path}");
    }
    assert_eq!(site.get("/a.txt").header("X-Top").unwrap_or_default(), "yes");
}

#[test]
fn rules_and_redirects_of_the_server_come_before_files_and_access() {
    let base = Base {
        extra: "RewriteEngine On\nRewriteRule ^/old/(.*)$ /new/$1 [R=301]\nRewriteRule ^/item/(\\d+)$ /b.php?item=$1 [QSA]\n\
                RewriteRule ^/no - [F]\nRewriteRule ^/through$ /moved/x [PT]\nRewriteRule ^/bare$ a.txt\n\
                Redirect /moved http://b.example/to\n"
            .to_owned(),
        sections: vec![section(SectionKind::Location, "/old", "Require all denied")],
        ..Base::default()
    };
    let site = Site::with_base(base, &[("b.php", ""), ("a.txt", ""), ("no.txt", "")]);
    assert_eq!(site.summary("/old/x?y"), "301 http://site.example/new/x?y");
    assert_eq!(site.summary("/moved/a?b"), "302 http://b.example/to/a?b");
    assert_eq!(site.summary("/through"), "302 http://b.example/to/x");
    assert_eq!(site.summary("/no.txt"), "403");
    assert_eq!(site.summary("/bare"), "200 file /a.txt");
    let answer = site.get("/item/7?x=1");
    assert_eq!(answer.script().query, b"item=7&x=1");
    // As in Apache, the name is that of the URL unless the rule passes it through.
    assert_eq!(answer.script().name, b"/item/7");
}

#[test]
fn rules_and_conditions_see_the_variables_of_the_server() {
    let base = Base {
        extra:
            "SetEnvIf X-Kind bad kind=bad\nSetEnvIf Request_URI ^/one/ in=one\nRewriteEngine On\n\
                RewriteCond %{ENV:kind} =bad\nRewriteRule ^/sub/ - [F]\n\
                <If \"-n env('in')\">\nRequire all denied\n</If>\n"
                .to_owned(),
        ..Base::default()
    };
    let site = Site::with_base(base, &[("sub/a.txt", ""), ("one/a.txt", ""), ("b.txt", "")]);
    let bad = |path: &str| site.send(path, &[("X-Kind", "bad")]).summary(&site);
    assert_eq!(site.summary("/sub/a.txt"), "200 file /sub/a.txt");
    assert_eq!(bad("/sub/a.txt"), "403");
    assert_eq!(bad("/b.txt"), "200 file /b.txt");
    assert_eq!(site.summary("/one/a.txt"), "403");
}

#[test]
fn sections_of_the_server_take_the_handler_of_scripts_away() {
    let extra = "<Files \"*.phtml\">\nSetHandler None\n</Files>".to_owned();
    let site =
        Site::with_base(Base { extra, ..Base::default() }, &[("a.php", ""), ("a.phtml", "")]);
    assert_eq!(site.get("/a.php").script().name, b"/a.php");
    assert!(!site.summary("/a.phtml").contains("script"), "{}", site.summary("/a.phtml"));
}

#[test]
fn rules_look_values_up_in_maps() {
    let values = |all: &[(&str, &str)]| {
        let all = all
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), vec![value.as_bytes().to_vec()]));
        RewriteMap::Values(all.collect())
    };
    let base = Base {
        extra:
            "RewriteEngine On\nRewriteCond ${closed:%{REQUEST_URI}|no} =yes\nRewriteRule ^ - [F]\n\
                RewriteRule ^/page/(.*)$ ${pages:${lower:$1}|/none.txt} [PT]\n\
                RewriteRule ^/other/(.*)$ /x/${unknown:$1|default} [R]\n"
                .to_owned(),
        maps: BTreeMap::from([
            ("lower".to_owned(), RewriteMap::Function(Function::ToLower)),
            ("pages".to_owned(), values(&[("one", "/a.txt")])),
            ("closed".to_owned(), values(&[("/b.txt", "yes")])),
        ]),
        ..Base::default()
    };
    let rule = "RewriteEngine On\nRewriteRule ^up/(.*)$ /${lower:$1} [R]\n";
    let site = Site::with_base(
        base,
        &[("a.txt", ""), ("b.txt", ""), ("none.txt", ""), ("sub/.htaccess", rule)],
    );
    assert_eq!(site.summary("/page/ONE"), "200 file /a.txt");
    assert_eq!(site.summary("/page/two"), "200 file /none.txt");
    assert_eq!(site.summary("/b.txt"), "403");
    assert_eq!(site.summary("/other/a"), "302 http://site.example/x/default");
    assert_eq!(
        site.summary("/sub/up/AbC"),
        "302 http://site.example/abc",
        "rules of files have the maps, too"
    );
}

#[test]
fn aliases_lead_to_files_elsewhere_with_the_sections_there() {
    let other = std::env::temp_dir().join(format!("htaccess-alias-{}", std::process::id()));
    std::fs::create_dir_all(other.join("private")).unwrap();
    let path = other.canonicalize().unwrap().to_str().unwrap().to_owned();
    for name in ["a.txt", "private/a.txt"] {
        std::fs::write(format!("{path}/{name}"), "").unwrap();
    }
    let alias = |from: &str, is_expression, target: &str| Alias {
        path: from.to_owned(),
        is_expression,
        target: format!("{path}{target}"),
        root: path.clone(),
    };
    let base = Base {
        aliases: vec![alias("/other", false, ""), alias("^/p/(.*)\\.x$", true, "/$1.txt")],
        sections: vec![section(
            SectionKind::Directory,
            &format!("{path}/private"),
            "Require all denied",
        )],
        ..Base::default()
    };
    let site = Site::with_base(base, &[("a.txt", "")]);
    let file = format!("200 file {path}/a.txt");
    assert_eq!(site.summary("/other/a.txt"), file);
    assert_eq!(site.summary("/p/a.x"), file);
    assert_eq!(site.summary("/other"), "301 http://site.example/other/");
    assert_eq!(site.summary("/other/private/a.txt"), "403");
    assert_eq!(site.summary("/otherx"), "404");
    assert_eq!(site.summary("/a.txt"), "200 file /a.txt");
    std::fs::remove_dir_all(path).unwrap();
}
