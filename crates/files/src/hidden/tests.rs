use howdah_config::ScriptExtensions;

use super::*;
use proptest::prelude::*;

/// Attack class 21: no dot file is sent, at any position in the path.
#[test]
fn dot_names_are_hidden_except_well_known() {
    for path in [
        "/.htaccess",
        "/.htpasswd",
        "/.user.ini",
        "/.env",
        "/.ENV",
        "/.git/config",
        "/.GIT/x",
        "/a/.git/config",
        "/a/.svn",
        "/.well-known/.git/x",
        "/a/.well-known/x",
        "/.Well-Known/x",
        "/.well-knownx/y",
        "/\u{ff0e}git/config",
        "/\u{2024}env",
        "/\u{200b}.env",
        "/.",
    ] {
        assert!(has_dot_segment(path.as_bytes()), "{path}");
    }
    for path in ["/", "/a.b", "/.well-known/acme-challenge/x", "/.well-known/", "/ф.txt", "/a./b"]
    {
        assert!(!has_dot_segment(path.as_bytes()), "{path}");
    }
}

/// Attack class 58: copies that editors and users leave next to a script are not sent as text.
#[test]
fn copies_of_scripts_are_hidden() {
    for name in [
        "x.php",
        "x.PHP",
        "x.pHp",
        "x.phtml",
        "x.phps",
        "x.phar",
        "x.php3",
        "x.php8",
        "x.pht",
        "x.php~",
        "x.php.bak",
        "x.php.swp",
        "x.php.old",
        "x.php.orig",
        "x.php.save",
        "x.php.",
        "x.php ",
        "x.php..",
        "#x.php#",
        "x.php.1",
        "x.php.txt",
        "x.php.gz",
        "x.php_old",
        "x.php-bak",
        "x.phpbak",
        "x.php\n",
        "x.php,v",
        "x.php.~1~",
        "x.php::$DATA",
        "~x.php",
    ] {
        assert!(is_php_source(name.as_bytes()), "{name:?}");
    }
    for name in ["x.html", "index.php.html", "x.php.js", "php", "phpinfo.txt", "x.ph", "фото.док"]
    {
        assert!(!is_php_source(name.as_bytes()), "{name:?}");
    }
}

/// Attack class 4: look-alikes of `.php` neither run nor are sent.
#[test]
fn look_alikes_never_run_and_are_hidden() {
    for name in [
        "x.ｐｈｐ",
        "x﹒php",
        "x.ⓟⓗⓟ",
        "x．php",
        "x.\u{200d}php",
        "x.p\u{ad}hp",
        "x.𝐩𝐡𝐩",
        "x.ᵖʰᵖ",
        "x.ℙℍℙ",
        "x․phtml",
    ] {
        assert!(is_php_source(name.as_bytes()), "{name}");
    }
    for name in ["x.ｐｈｐ", "x﹒ph", "x.ⓟⓗⓟ", "x.PHP", "x.php.", "x.php ", "x.php%20", "x.phtml"]
    {
        assert!(!ScriptExtensions::default().is_script(name.as_bytes()), "{name}");
    }
}

/// Files that the configuration makes scripts are hidden with their copies and look-alikes; no
/// other files are.
#[test]
fn sources_with_configured_endings_are_hidden() {
    let endings = [".inc".to_owned(), ".html".to_owned(), ".PHP7".to_owned()];
    for name in [
        "x.inc",
        "x.INC",
        "x.inc~",
        "x.inc.bak",
        "x.inc.",
        "#x.inc#",
        "x.ｉｎｃ",
        "x.html",
        "x.html.gz",
        "x.php7",
        "a.incx.inc",
        ".inc",
    ] {
        assert!(is_source_of(&endings, name.as_bytes()), "{name}");
    }
    for name in ["x.incx", "x.include", "inc", "x.htm", "x.inc.png", "x.css", "фото.док"] {
        assert!(!is_source_of(&endings, name.as_bytes()), "{name}");
    }
    assert!(!is_source_of(&[], b"x.inc"));
}

proptest! {
    #[test]
    fn whatever_contains_php_in_any_case_is_hidden_or_a_page(
        before in prop::collection::vec(any::<u8>(), 0..12),
        upper in prop::array::uniform3(any::<bool>()),
        after in "[^a-zA-Z]{0,6}",
    ) {
        let mut name = before;
        name.push(b'.');
        let letter = |(byte, up): (&u8, bool)| if up { byte.to_ascii_uppercase() } else { *byte };
        name.extend(b"php".iter().zip(upper).map(letter));
        name.extend_from_slice(after.as_bytes());
        prop_assert!(is_php_source(&name));
    }

    #[test]
    fn every_script_name_is_php_source(stem in prop::collection::vec(any::<u8>(), 0..20)) {
        let name = [&stem[..], b".php"].concat();
        prop_assert!(ScriptExtensions::default().is_script(&name) && is_php_source(&name));
    }

    #[test]
    fn whatever_may_run_is_hidden(
        ending in "\\.[a-zA-Z0-9]{1,16}",
        stem in prop::collection::vec(any::<u8>(), 0..20),
        before in "[a-z]{0,4}",
    ) {
        let name = [&stem[..], before.as_bytes(), ending.as_bytes()].concat();
        prop_assert!(is_source_of(&[ending], &name));
    }

    #[test]
    fn no_bytes_make_the_predicates_fail(name in prop::collection::vec(any::<u8>(), 0..60)) {
        is_php_source(&name);
        is_source_of(&[".inc".to_owned()], &name);
        has_dot_segment(&name);
    }
}
