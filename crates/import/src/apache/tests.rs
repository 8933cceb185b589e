use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::Value;

use super::import;
use crate::{Error, Import, Options, Source, Status};

/// A machine with these files below its root.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Machine {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Machine(root)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name.trim_start_matches('/'))
    }

    fn import(&self, name: &str) -> Result<Import, Error> {
        let options = Options { root: Some(self.0.path().to_owned()), ..Options::default() };
        import(&[self.path(name)], &options, &mut Source::new(options.root.clone()))
    }
}

const SITE: &str = "/etc/apache2/sites-available/site.conf";

fn host(text: &str) -> String {
    format!("<VirtualHost *:80>\nServerName a.test\nDocumentRoot /srv/a\n{text}\n</VirtualHost>\n")
}

fn of(text: &str) -> Import {
    Machine::new(&[(SITE, text)]).import(SITE).unwrap()
}

fn error(text: &str) -> (Option<u32>, String) {
    let error = Machine::new(&[(SITE, text)]).import(SITE).unwrap_err();
    assert!(error.file.ends_with("site.conf"), "{error}");
    (error.line, error.message)
}

/// The statuses of directives by their lines.
fn statuses(import: &Import) -> Vec<(u32, String, Status)> {
    let entries = import.report.entries().iter();
    entries.map(|entry| (entry.line, entry.directive.clone(), entry.status())).collect()
}

#[test]
fn configurations_that_apache_does_not_read_are_errors_with_their_line() {
    let open = error("<VirtualHost *:80>\n<Directory /srv>\n</Directory>\n");
    assert_eq!((open.0, open.1.as_str()), (Some(1), "<VirtualHost> has no </VirtualHost>"));
    assert_eq!(error("<Directory /a>\n</Location>\n").0, Some(2));
    assert_eq!(error("a b\n\n</VirtualHost>\n").0, Some(3));
    assert_eq!(error("<IfModule mod_none.c>\n<If x>\n</IfModule>\n").0, Some(3));
    assert_eq!(error("<IfModule mod_none.c>\n<If x>\n").0, Some(2));
    assert_eq!(error("<Directory /a\n</Directory>\n").0, Some(1));
    assert_eq!(error("\nInclude none.conf\n").0, Some(2));
    assert_eq!(error("Include none/*.conf\n").0, Some(1));
    assert_eq!(error("Use Nothing\n").0, Some(1));
    assert_eq!(error("<Macro A $x>\n</Macro>\nUse A\n").0, Some(3));
    assert_eq!(error("<Macro A>\nUse A\n</Macro>\nUse A\n").0, Some(2));
    assert_eq!(error("Error \"no\"\n").0, Some(1));
    assert_eq!(error("a\n\0").0, Some(2));
    of("IncludeOptional none/*.conf\nIncludeOptional none.conf\n");
}

#[test]
fn files_that_include_each_other_are_an_error() {
    let machine = Machine::new(&[
        (SITE, "Include conf/a.conf\n"),
        ("/etc/apache2/conf/a.conf", "# a\nInclude conf/b.conf\n"),
        ("/etc/apache2/conf/b.conf", "Include conf\n"),
    ]);
    let error = machine.import(SITE).unwrap_err();
    assert!(error.file.ends_with("conf/b.conf") && error.line == Some(1), "{error}");
}

#[test]
fn each_directive_is_in_the_report_once_with_the_line_on_which_it_begins() {
    let text = "<IfModule mod_headers.c>\n    Header set \\\n        X y\n</IfModule>\n\
                <IfModule mod_none.c>\n    Header set A b\n    <Files a>\n    Deny from all\n    </Files>\n</IfModule>\n";
    let found = of(&host(text));
    let expected = [
        (1, "<VirtualHost *:80>", Status::Converted),
        (2, "ServerName a.test", Status::Converted),
        (3, "DocumentRoot /srv/a", Status::Changed),
        (4, "<IfModule mod_headers.c>", Status::NotNeeded),
        (5, "Header set         X y", Status::Converted),
        (8, "<IfModule mod_none.c>", Status::NotNeeded),
        (9, "Header set A b", Status::NotNeeded),
        (10, "<Files a>", Status::NotNeeded),
        (11, "Deny from all", Status::NotNeeded),
    ];
    let expected = expected.map(|(line, text, status)| (line, text.to_owned(), status));
    assert_eq!(statuses(&found), expected);
}

#[test]
fn a_file_that_is_included_twice_is_in_the_report_once() {
    let machine = Machine::new(&[
        (
            SITE,
            "<VirtualHost *:80>\nServerName a\nInclude conf/x.conf\n</VirtualHost>\n<VirtualHost *:80>\nServerName b\nInclude conf/x.conf\n</VirtualHost>\n",
        ),
        ("/etc/apache2/conf/x.conf", "DocumentRoot /srv/x\n"),
    ]);
    let found = machine.import(SITE).unwrap();
    let lines: Vec<&str> = found.report.entries().iter().map(|entry| &*entry.directive).collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("DocumentRoot")).count(), 1);
    assert_eq!(lines.iter().filter(|line| line.starts_with("Include")).count(), 2);
    assert_eq!(found.document["routes"]["b"][0]["action"]["share"], "/srv/x$uri");
}

#[test]
fn macros_are_expanded_and_their_lines_are_in_the_report_once() {
    let found = of(
        "<Macro Host $n $name>\n<VirtualHost *:80>\nServerName $name\nDocumentRoot /srv/$n\n</VirtualHost>\n</Macro>\n\
                    Use Host 1 one.test\nUse Host 2 two.test\n<Macro Unused>\nFoo bar\n</Macro>\n",
    );
    assert_eq!(found.document["routes"]["two.test"][0]["action"]["share"], "/srv/2$uri");
    let all = statuses(&found);
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all.iter().all(|(line, _, status)| (*status == Status::NotNeeded) == (*line >= 9)));
}

#[test]
fn what_refuses_and_is_not_known_closes_its_place() {
    let found = of(&host(
        "<Directory /srv/a>\nRequire ldap-user bob\n</Directory>\n<Location /x>\nRequire all granted\nSSLVerifyClient require\n</Location>",
    ));
    let sections = found.document["routes"]["a.test"][0]["action"]["htaccess"]["sections"]
        .as_array()
        .unwrap()
        .clone();
    for key in ["directory", "location"] {
        let section =
            sections.iter().rev().find(|section| section[key] == "/srv/a" || section[key] == "/x");
        let lines = &section.unwrap()["directives"];
        assert_eq!(*lines, serde_json::json!(["Require all denied"]));
    }
    let statuses = statuses(&found);
    assert!(statuses.iter().any(
        |(_, text, status)| text.starts_with("Require ldap") && *status == Status::NotConverted
    ));
}

#[test]
fn unknown_directives_are_not_converted() {
    let found = of(&host("SecRuleEngine On\nFooBar 1\nOptions Wrong"));
    let not: Vec<u32> =
        found.report.with_status(Status::NotConverted).map(|entry| entry.line).collect();
    assert_eq!(not, [4, 5, 6]);
}

#[test]
fn hosts_that_no_socket_has_are_not_needed() {
    let text = "ServerRoot /etc/apache2\nListen 80\n<VirtualHost *:81>\nServerName b.test\nFoo bar\n</VirtualHost>\n";
    let main = "/etc/apache2/apache2.conf";
    let found = Machine::new(&[(main, text)]).import(main).unwrap();
    let hosts: Vec<Status> =
        statuses(&found).into_iter().skip(2).map(|(_, _, status)| status).collect();
    assert_eq!(hosts, [Status::NotNeeded; 3]);
}

#[test]
fn a_host_with_an_address_and_a_port_of_its_own_opens_no_others() {
    let listeners = |text: &str| {
        let document = of(text).document;
        document["listeners"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(listeners("<VirtualHost 127.0.0.1:8080>\n</VirtualHost>\n"), ["127.0.0.1:8080"]);
    assert_eq!(listeners("<VirtualHost 127.0.0.1:80>\n</VirtualHost>\n"), ["*:80"]);
    let both = "<VirtualHost 127.0.0.1:81>\n</VirtualHost>\n<VirtualHost *:81>\n</VirtualHost>\n";
    assert_eq!(listeners(both), ["*:81"]);
}

#[test]
fn scripts_that_mod_php_would_run_beside_php_fpm_are_reported() {
    let handler = "SetHandler \"proxy:unix:/run/a.sock|fcgi://localhost\"";
    let found = of(&host(&format!("<FilesMatch \"\\.php$\">\n{handler}\n</FilesMatch>")));
    let entry = found.report.entries().iter().find(|entry| entry.directive == handler).unwrap();
    let reason = entry.reason().unwrap();
    assert!(reason.contains("does not exist") && reason.contains(".phtml"), "{reason}");
}

#[test]
fn documents_are_accepted() {
    for text in [
        host(""),
        host(
            "ProxyPass / http://127.0.0.1:3000/\nHeader always set X y\n<Location /a>\nRequire ip 10\n</Location>",
        ),
        host(
            "Alias /x /srv/x\nAliasMatch ^/y/(.*) /srv/y/$1\nScriptAlias /cgi-bin/ /usr/lib/cgi-bin/",
        ),
        host(
            "CustomLog logs/a \"%h $ %{X}i\" env=!x\nSetEnvIf Request_URI a x\nErrorLog /var/log/a",
        ),
        "<VirtualHost 10.0.0.1:80 [::1]:80>\nServerAlias *.a.test b?.test\n</VirtualHost>\n"
            .to_owned(),
    ] {
        let document = of(&text).document;
        howdah_config::Config::from_value(document.clone())
            .unwrap_or_else(|error| panic!("{error}\n{document:#}"));
    }
}

#[test]
fn a_main_file_has_its_own_modules_and_variables() {
    let main = "/etc/apache2/apache2.conf";
    let found = Machine::new(&[
        (main, "DefaultRuntimeDir ${APACHE_RUN_DIR}\nIncludeOptional mods-enabled/*.load\nInclude ports.conf\nErrorLog ${APACHE_LOG_DIR}/error.log\n"),
        ("/etc/apache2/mods-enabled/dir.load", "LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\n"),
        ("/etc/apache2/ports.conf", "Listen 8080\n<IfModule ssl_module>\nListen 443\n</IfModule>\n"),
        ("/etc/apache2/envvars", "export APACHE_LOG_DIR=/logs$SUFFIX\n"),
    ])
    .import(main)
    .unwrap();
    assert_eq!(
        found.document["listeners"].as_object().unwrap().keys().collect::<Vec<_>>(),
        ["*:8080"]
    );
    assert_eq!(found.document["applications"], Value::Null);
    let logs = found.document["error_logs"].as_object().unwrap();
    assert!(logs.values().all(|path| path == "/logs/error.log") && !logs.is_empty());
    let files: Vec<&Path> =
        found.report.entries().iter().map(|entry| entry.file.as_path()).collect();
    assert!(files.iter().any(|file| file.ends_with("ports.conf")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_is_read_or_is_an_error(text in "((<|</)?(VirtualHost|Directory|Files|If|IfModule|Macro|Proxy|Location|RequireAll|Require|Options|Header|RewriteRule|RewriteCond|RewriteEngine|ProxyPass|Alias|CustomLog|SetHandler|Use|Define|AllowOverride|ErrorDocument|AddHandler|SSLProtocol)( [-+/a-z0-9\"\\\\*:$%{}()~!.|>]{0,12}){0,4}>?\n){0,14}") {
        let machine = Machine::new(&[(SITE, &text)]);
        if let Ok(found) = machine.import(SITE) {
            // A document that is not accepted would be a document that nobody can use.
            let document = found.document.clone();
            prop_assert!(howdah_config::Config::from_value(document).is_ok(), "{:#}", found.document);
        }
    }
}

#[test]
fn macros_that_grow_with_each_use_are_refused() {
    let nested = |arguments: &str, body: &str| {
        let mut text = String::new();
        for number in 0..24 {
            let next = number + 1;
            let uses = format!("Use M{next} {arguments}\n").repeat(2);
            text += &format!("<Macro M{number} $a>\n{uses}</Macro>\n");
        }
        text + &format!("<Macro M24 $a>\n{body}\n</Macro>\nUse M0 0123456789\n")
    };
    let error = |text: &str| Machine::new(&[(SITE, text)]).import(SITE).unwrap_err().to_string();
    let line = error(&nested("$a$a$a", "Define A $a"));
    assert!(line.contains("has more than 65536 bytes"), "{line}");
    let all = error(&nested("$a", &format!("Define A {}", "x".repeat(60_000))));
    assert!(all.contains("more than 32 MiB"), "{all}");
}

#[test]
fn a_rule_with_more_conditions_than_the_engine_has_refuses_all_that_it_matches() {
    let conditions = |number: usize| {
        "RewriteCond %{REQUEST_URI} !^/x\n".repeat(number) + "RewriteRule ^/a - [F]"
    };
    let rules = |number| {
        let found = of(&host(&format!("RewriteEngine On\n{}", conditions(number))));
        let directives = &found.document["routes"]["a.test"][0]["action"]["htaccess"]["directives"];
        let is_rule = |line: &&Value| line.as_str().unwrap().starts_with("Rewrite");
        let number = directives.as_array().unwrap().iter().filter(is_rule).count();
        let all = statuses(&found);
        let of_rules = all.iter().filter(|(_, name, _)| name.starts_with("Rewrite"));
        (number, of_rules.map(|(.., status)| *status).max().unwrap())
    };
    assert_eq!(rules(1000), (1002, Status::Converted));
    // The directive that turns rules on, and the rule without conditions.
    assert_eq!(rules(20_000), (2, Status::NotConverted));
}

#[test]
fn sections_that_open_hidden_files_are_reported() {
    let of_section = |open: &str, close: &str| {
        let found = of(&host(&format!("<{open}>\nRequire all granted\n</{close}>")));
        statuses(&found).into_iter().find(|(line, ..)| *line == 4).unwrap().2
    };
    assert_eq!(of_section("FilesMatch \"^\\.ht\"", "FilesMatch"), Status::Changed);
    assert_eq!(of_section("Files ~ \"^\\.ht\"", "Files"), Status::Changed);
    assert_eq!(of_section("Files .env", "Files"), Status::Changed);
    assert_eq!(of_section("FilesMatch \"\\.txt$\"", "FilesMatch"), Status::Converted);
}
