use proptest::prelude::*;

use super::*;
use crate::allow::Allow;
use crate::modules::core;
use crate::options::Options;

fn parse(text: &[u8], base: &Base) -> Result<DirConfig, String> {
    compile(text, b"/site/.htaccess", b"/site/", base, &|path| path == b"/there")
        .map_err(|broken| broken.message.trim_start_matches("/site/.htaccess: ").to_owned())
}

fn error(text: &str) -> String {
    parse(text.as_bytes(), &Base::default()).err().unwrap_or_default()
}

fn options(text: &str) -> Options {
    parse(text.as_bytes(), &Base::default()).unwrap().of::<core::Config>().options.get()
}

const OFF: Options = Options::NONE;
const DEFAULT: Options = Options::FOLLOW_SYM_LINKS;

#[test]
fn an_error_names_file_line_and_directive() {
    let broken =
        compile(b"\n# x\nFoo bar", b"/site/.htaccess", b"/site/", &Base::default(), &|_| false)
            .unwrap_err();
    assert_eq!(
        broken.message,
        "/site/.htaccess: line 3: Invalid command 'Foo', perhaps misspelled or defined by a module \
         not included in the server configuration"
    );
}

#[test]
fn a_byte_order_mark_is_an_unknown_directive() {
    assert!(error("\u{feff}Options None").contains("Invalid command '\u{feff}Options'"));
    assert!(error("\u{feff}# note").contains("Invalid command"));
}

#[test]
fn a_comment_behind_arguments_is_an_argument() {
    assert!(error("DirectorySlash Off # note").is_empty());
    assert_eq!(
        error("AcceptPathInfo On # note"),
        "line 1: AcceptPathInfo takes one argument, Set to on or off for PATH_INFO to be accepted \
         by handlers, or default for the per-handler preference"
    );
}

#[test]
fn line_ends_of_windows_are_fine() {
    assert_eq!(options("Options None\r\n\r\n<IfModule mod_dir.c>\r\n</IfModule>\r\n"), OFF);
}

#[test]
fn a_nul_cuts_the_line() {
    assert_eq!(options("Options None\0 Foo\n"), OFF);
}

#[test]
fn an_unclosed_condition_counts_if_it_is_true() {
    assert_eq!(options("<IfModule mod_dir.c>\nOptions None\n"), OFF);
    assert_eq!(
        error("<IfModule mod_none.c>\nOptions None\n"),
        "line 3: Expected </IfModule> before end of configuration"
    );
    assert_eq!(
        error("<Files x>\nOptions None\n"),
        "line 1: /site/.htaccess:1: <Files> was not closed."
    );
}

#[test]
fn conditions_choose_their_content() {
    assert_eq!(options("<IfModule dir_module>\nOptions None\n</IfModule>"), OFF);
    assert_eq!(options("<ifmodule !mod_dir.c>\nFoo\n</IfModule>"), DEFAULT);
    assert_eq!(options("<IfModule mod_x.c>\n<Foo>\n<Bar x>\n</Bar>\n</Foo>\n</IfModule>"), DEFAULT);
    assert_eq!(options("<IfFile /there>\nOptions None\n</IfFile>"), OFF);
    assert_eq!(options("<IfFile \"/none\">\nOptions None\n</IfFile>"), DEFAULT);
    assert_eq!(options("<IfDefine X>\nOptions None\n</IfDefine>"), DEFAULT);
    assert_eq!(options("<IfVersion >= 2.4>\nOptions None\n</IfVersion>"), OFF);
    assert_eq!(options("<IfVersion < 2.4>\nOptions None\n</IfVersion>"), DEFAULT);
    assert_eq!(options("<IfVersion = /^2\\.4/>\nOptions None\n</IfVersion>"), OFF);
    assert_eq!(options("<IfDirective Options>\nOptions None\n</IfDirective>"), OFF);
}

#[test]
fn a_file_that_was_asked_for_is_remembered() {
    let base = Base::default();
    let config = parse(b"<IfFile /none>\n</IfFile>", &base).unwrap();
    assert!(!config.is_outdated(&|_| false));
    assert!(config.is_outdated(&|_| true));
}

#[test]
fn sections_must_match() {
    assert_eq!(error("</Files>"), "line 1: </Files> without matching <Files> section");
    assert_eq!(
        error("<Files x>\n</FilesMatch>"),
        "line 2: Expected </Files> but saw </FilesMatch>"
    );
    assert_eq!(error("<Files x>\n</Files"), "line 2: </Files> directive missing closing '>'");
    assert_eq!(error("<Files x\n</Files>"), "line 1: <Files> directive missing closing '>'");
    assert_eq!(
        error("<IfModule mod_dir.c>\n</IfModule >"),
        "line 2: </IfModule without matching <IfModule section"
    );
    assert_eq!(
        error("<Files>\n</Files>"),
        "line 1: <Files> directive requires additional arguments"
    );
    assert_eq!(error("<FilesMatch \"(\">\n</FilesMatch>"), "line 1: Regex could not be compiled");
    assert!(error("<Else>\n</Else>").contains("without previous <If>"));
}

#[test]
fn sections_of_methods_are_checked() {
    assert_eq!(error("<Limit GET POST>\nOptions None\n</Limit>"), "");
    assert_eq!(
        error("<Limit TRACE>\n</Limit>"),
        "line 1: TRACE cannot be controlled by <Limit>, see TraceEnable"
    );
    assert_eq!(
        error("<Limit FOO>\n</Limit>"),
        "line 1: Could not register method 'FOO' for <Limit from .htaccess configuration"
    );
    assert_eq!(
        error("<Limit GET>\n<Files x>\n</Files>\n</Limit>"),
        "line 2: <Files> cannot occur within <Limit> or <LimitExcept> section"
    );
    assert_eq!(
        error("<Limit GET>\n<LimitExcept GET>\n</LimitExcept>\n</Limit>"),
        "line 2: <LimitExcept> directive excludes all methods"
    );
}

#[test]
fn directives_of_the_server_are_refused() {
    assert_eq!(error("ServerName x"), "line 1: ServerName not allowed here");
    assert_eq!(error("php_admin_value a b"), "line 1: php_admin_value not allowed here");
    assert_eq!(
        error("<Files x>\nServerName x\n</Files>"),
        "line 2: ServerName not allowed in <Files> context"
    );
    assert_eq!(error("<Directory />\n</Directory>"), "line 1: <Directory not allowed here");
}

#[test]
fn classes_decide_what_is_allowed() {
    let base = Base { allow: Allow::parse(&["FileInfo"]).unwrap(), ..Base::default() };
    assert_eq!(parse(b"Options None", &base).unwrap_err(), "line 1: Options not allowed here");
    assert!(parse(b"ErrorDocument 404 x", &base).is_ok());
    let base =
        Base { allow: Allow::parse(&["FileInfo", "Nonfatal=All"]).unwrap(), ..Base::default() };
    let config = parse(b"Options None\nFoo\n", &base).unwrap();
    assert_eq!(config.of::<core::Config>().options.get(), DEFAULT);
    assert_eq!(config.warnings.len(), 2);
    let base = Base { allow: Allow::parse(&["Options=Indexes"]).unwrap(), ..Base::default() };
    assert_eq!(
        parse(b"Options +FollowSymLinks", &base).unwrap_err(),
        "line 1: Option FollowSymLinks not allowed here"
    );
}

#[test]
fn an_error_directive_is_an_error() {
    assert_eq!(error("Error \"no way\""), "line 1: no way");
    assert_eq!(error("Error"), "line 1: The Error directive was used with no message.");
}

#[test]
fn deep_nesting_ends_in_an_error() {
    assert!(error(&"<IfModule mod_dir.c>\n".repeat(1000)).contains("Too many"));
    assert!(error(&"<Files x>\n".repeat(1000)).contains("Too many"));
    assert!(error(&"<IfModule x>\n".repeat(1000)).contains("Too many"));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes, &Base::default());
    }

    #[test]
    fn any_lines_are_read(text in "((</?(Files|IfModule|If|Limit|Else|IfVersion|FilesMatch)( \
        |\"|x|>|~|mod_dir.c|GET)*)?(Options|Redirect|ErrorDocument|DirectoryIndex|SetHandler|php_value)?( [-+/a-z0-9\"\\\\<>]*)?\n){0,12}") {
        let _ = parse(text.as_bytes(), &Base::default());
    }
}
