use std::fs;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Error, Import, Options, Source, Status};

/// Imports the first of some files of a directory.
fn import(files: &[(&str, &str)]) -> Result<Import, Error> {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let main = directory.path().join(files[0].0);
    super::import(&main, &Options::default(), &mut Source::default())
}

fn main_file(text: &str) -> Result<Import, Error> {
    import(&[("nginx.conf", &format!("events {{ }}\nhttp {{ {text} }}\n"))])
}

fn message(text: &str) -> (Option<u32>, String) {
    let error = import(&[("nginx.conf", text)]).unwrap_err();
    (error.line, error.message)
}

fn statuses(import: &Import) -> Vec<(String, Status)> {
    let entries = import.report.entries().iter();
    entries.map(|entry| (entry.directive.clone(), entry.status())).collect()
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_line() {
    for (text, line, part) in [
        ("http {\n server {\n listen 80;\n", 2, "\"server\" has no"),
        ("http { }\n}\n", 2, "no block is open"),
        ("http {\n server { root \"/srv; }\n}", 2, "quotation mark"),
        ("http {\n include missing.conf;\n}", 2, "missing.conf"),
        ("http {\n location / { }\n}", 2, "not allowed here"),
        ("http {\n server { root; }\n}", 2, "number of arguments"),
        ("http {\n gzip maybe;\n}", 2, "no value"),
        ("http {\n server { client_max_body_size many; }\n}", 2, "no value"),
        ("http {\n server { root /a; root /b; }\n}", 2, "twice"),
        ("http {\n server { listen 80 }\n}", 2, "unexpected"),
        ("http {\n server { location /a { } location /a { } }\n}", 2, "another location"),
        ("http {\n server { satisfy some; }\n}", 2, "no value"),
        ("http {\n server { ssl_protocols TLSv9; }\n}", 2, "no value"),
        ("http {\n server { rewrite ^ /x often; }\n}", 2, "no value"),
        ("http { ;\n}", 1, "unexpected"),
    ] {
        let (found, message) = message(text);
        assert_eq!(found, Some(line), "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn comments_may_have_another_encoding_but_values_may_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nginx.conf");
    let read = |text: &[u8]| {
        fs::write(&file, text).unwrap();
        super::import(&file, &Options::default(), &mut Source::default())
    };
    let found = read(b"# caf\xe9 \xff\nevents { } # caf\xe9 \"\nhttp { server { root /srv; } }\n");
    assert_eq!(found.unwrap().report.entries().len(), 4);
    for text in [
        &b"events { }\nhttp { server { root /srv/caf\xe9; } }"[..],
        b"events { }\nhttp { add_header A \" # \xe9\"; }",
        b"events { }\nhttp { root /a#\xe9; }",
    ] {
        let error = read(text).unwrap_err();
        assert_eq!((error.line, error.message.contains("UTF-8")), (Some(2), true));
    }
}

#[test]
fn includes_are_relative_to_the_main_file_and_reported_once() {
    let found = import(&[
        ("etc/nginx.conf", "events { } http { include sites/*.conf; include common; server { include snippets/a; } }"),
        ("etc/sites/a.conf", "server { include snippets/a; }"),
        ("etc/sites/b.txt", "}"),
        ("etc/snippets/a", "index a.html;"),
        ("etc/common", "sendfile on;"),
    ])
    .unwrap();
    let index = statuses(&found).into_iter().filter(|(name, _)| name == "index a.html").count();
    assert_eq!(index, 1);
    let looped =
        import(&[("a", "events { } http { include b; }"), ("b", "include b;")]).unwrap_err();
    assert!(looped.message.contains("includes itself"), "{looped}");
    assert!(import(&[("a", "http { include none/*; }")]).is_ok());
}

#[test]
fn a_site_stands_within_http_and_includes_from_the_directory_above() {
    let found = import(&[
        ("etc/sites-available/site", "server { listen 80; include snippets/x; }"),
        ("etc/snippets/x", "return 204;"),
    ])
    .unwrap();
    assert_eq!(found.document["listeners"], json!({ "*:80": { "pass": "routes/site" } }));
    assert_eq!(found.document["routes"]["site"], json!([{ "action": { "return": 204 } }]));
}

#[test]
fn the_output_of_nginx_t_has_its_own_lines() {
    let text = "nginx: the configuration file is ok\n# configuration file /etc/nginx/nginx.conf:\nevents { }\n\
                http {\n  include sites/*;\n}\n\n# configuration file /etc/nginx/sites/a:\nserver {\n  return 204;\n}\n";
    let found = import(&[("dump", text)]).unwrap();
    let entry =
        found.report.entries().iter().find(|entry| entry.directive == "return 204").unwrap();
    assert_eq!((entry.line, entry.file.ends_with("dump")), (10, true));
    assert!(found.document["routes"].as_object().unwrap().len() == 1);
}

#[test]
fn entries_of_tables_are_no_directives() {
    let found = import(&[
        ("nginx.conf", "events { } http { map $uri $x { default a; /b c; include more; } server { return 200 $x; } }"),
        ("more", "/d e;\n"),
    ])
    .unwrap();
    let names: Vec<_> = statuses(&found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["events", "http", "map $uri $x", "include more", "server", "return 200 $x"]);
    assert_eq!(found.document["variables"]["x"]["values"], json!({ "/b": "c", "/d": "e" }));
}

#[test]
fn two_directives_in_a_line_are_two() {
    let found = main_file("server { listen 80; tcp_nodelay on; sendfile on; brotli on; }").unwrap();
    let not_needed =
        statuses(&found).into_iter().filter(|(_, status)| *status == Status::NotNeeded).count();
    assert_eq!(not_needed, 2);
    let lost: Vec<_> = found.report.with_status(Status::NotConverted).collect();
    assert_eq!((lost.len(), lost[0].directive.as_str(), lost[0].line), (1, "brotli on", 2));
}

fn steps(import: &Import, route: &str) -> Value {
    import.document["routes"][route].clone()
}

#[test]
fn locations_are_in_the_order_of_nginx() {
    let found = main_file(
        "server { location / { return 200; } location ~ x$ { return 201; } location ^~ /a/ { return 202; } \
         location = /b { return 203; } location /a/b { return 204; } }",
    )
    .unwrap();
    let order: Vec<_> = steps(&found, "site")
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["match"]["uri"].clone(), step["action"]["return"].clone()))
        .collect();
    assert_eq!(
        json!(order),
        json!([["/b", 203], [["/a/*", "!/a/b*"], 202], ["~x$", 201], ["/a/b*", 204], [null, 200]])
    );
}

#[test]
fn what_closes_and_cannot_be_said_is_closed() {
    for text in [
        "location ~ (?<!a)b { deny all; }",
        "location / { if ($geoip_country_code = XX) { return 403; } }",
        "location / { auth_ldap \"x\"; }",
        "location / { allow some.host; deny all; }",
        "location / { auth_basic x; auth_basic_user_file $host/users; }",
        "location / { proxy_pass http://$http_x; }",
        "location / { uwsgi_pass 127.0.0.1:1; }",
        "location / { access_by_lua_block { if x then return \"}\" end } }",
    ] {
        let found = main_file(&format!("server {{ {text} }}")).unwrap();
        let first = steps(&found, "site")[0].clone();
        let status = first["action"]["return"].as_u64();
        assert!(matches!(status, Some(403 | 404)), "{text}: {first}");
        assert!(found.report.with_status(Status::NotConverted).next().is_some(), "{text}");
    }
}

#[test]
fn an_error_page_leads_to_a_named_location_that_no_request_comes_to() {
    let found = main_file(
        "server { error_page 403 @n; deny all; return 403; location @n { return 200; } }",
    )
    .unwrap();
    assert_eq!(steps(&found, "site@n"), json!([{ "action": { "return": 200 } }]));
}

#[test]
fn what_stands_behind_a_refusal_is_not_converted() {
    let found = main_file(
        "server { if ($geoip_country_code = XX) { return 403; } root /srv; location / { expires 1h; } }",
    )
    .unwrap();
    for name in ["root /srv", "location /", "expires 1h", "return 403"] {
        let entry = found.report.entries().iter().find(|entry| entry.directive == name).unwrap();
        assert_eq!(entry.status(), Status::NotConverted, "{name}");
    }
}

/// Directives, of which any may stand in a server and in a location.
const PARTS: [&str; 72] = [
    "add_header X-Two a; add_header x-two $arg_a always",
    "fastcgi_hide_header X-A; proxy_hide_header x-a; add_header X-A b",
    "expires 1h; add_header Cache-Control public; add_header Cache-Control $arg_a",
    "error_page 401 403 404 =410 /b.txt",
    "error_page 404 =200 @n",
    "proxy_redirect ~*^http://(?<h>[^/]+)(/.*)$ https://$h$2",
    "proxy_cookie_flags ~a secure samesite=lax; proxy_cookie_flags a*b$ nosecure",
    "proxy_cookie_path ~^/a /b; proxy_cookie_domain ~. $host",
    "proxy_pass_request_headers off; fastcgi_pass_request_body off",
    "secure_link $arg_md5,$arg_e; secure_link_md5 $secure_link_expires$uri; if ($secure_link = 0) { return 410; }",
    "secure_link_secret a$b; set $x $secure_link; return 200 $x",
    "auth_basic \"a \\\"$arg_r\\\"\"; auth_basic_user_file /etc/$host",
    "root /srv/www",
    "root /srv/$host",
    "index a.html index.php",
    "autoindex on",
    "expires 30d",
    "expires -1",
    "expires modified 1h",
    "add_header X-A b always",
    "add_header Cache-Control public",
    "add_header Content-Type a/b",
    "charset utf-8",
    "error_page 404 /404.html",
    "error_page 403 =404 @n",
    "error_page 500 502 = /x?y",
    "deny all",
    "allow 10.0.0.0/8",
    "deny 10.0.0.1",
    "satisfy any",
    "auth_basic \"a b\"",
    "auth_basic_user_file users",
    "auth_basic $host",
    "limit_rate 10k",
    "limit_rate_after 1m",
    "client_max_body_size 0",
    "access_log off",
    "access_log /var/log/a.log",
    "return 301 https://$host$request_uri",
    "return 200 \"a$uri\"",
    "return 444",
    "return 204",
    "rewrite ^/a/(.*)$ /b/$1 last",
    "rewrite ^/(?!x)(.*) /c?d=$1",
    "rewrite ^ /e permanent",
    "rewrite ^/f /g break",
    "set $v $uri",
    "set $w a",
    "if ($v) { return 403; }",
    "if ($w = a) { set $v b; }",
    "if ($request_method ~ ^(PUT|DELETE)$) { return 405; }",
    "if (!-e $request_filename) { rewrite ^(.*)$ /i.php?q=$1 last; }",
    "if ($http_user_agent ~* (bad)) { set $v $1; }",
    "try_files $uri $uri/ =404",
    "try_files $uri @n",
    "try_files $uri $uri/ /index.php?$args",
    "proxy_pass http://up",
    "proxy_pass http://127.0.0.1:8080/x/",
    "proxy_set_header X-B $remote_addr",
    "proxy_set_header Host $http_host",
    "proxy_cache zone",
    "proxy_read_timeout 5s",
    "fastcgi_pass unix:/run/php.sock",
    "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name",
    "fastcgi_param SCRIPT_FILENAME $request_filename",
    "fastcgi_param PHP_VALUE \"a=b\"",
    "fastcgi_split_path_info ^(.+\\.php)(/.*)$",
    "limit_req zone=one burst=5",
    "limit_conn two 3",
    "auth_request /auth",
    "mirror /mirror",
    "default_type text/plain",
];

/// Locations with a place for directives.
const LOCATIONS: [&str; 9] = [
    "location / { @ }",
    "location /a/ { @ }",
    "location ^~ /b { @ }",
    "location = /c { @ }",
    "location ~ \\.php$ { @ }",
    "location ~* ^/d/(?<x>.*)$ { @ }",
    "location @n { @ }",
    "location /al/ { alias /srv/al/; @ }",
    "location /e/ { internal; location ~ x { @ } @ }",
];

fn parts() -> impl Strategy<Value = String> {
    let part = proptest::sample::select(&PARTS[..]);
    proptest::collection::vec(part, 0..6).prop_map(|parts| {
        let mut parts = parts;
        parts.sort_unstable();
        parts.dedup();
        parts
            .iter()
            .map(|part| if part.ends_with('}') { format!("{part} ") } else { format!("{part}; ") })
            .collect()
    })
}

proptest! {
    #[test]
    fn whatever_is_imported_is_a_document(
        server in parts(),
        locations in proptest::collection::vec((proptest::sample::select(&LOCATIONS[..]), parts(), parts()), 0..5),
    ) {
        let locations: String = locations
            .iter()
            .map(|(location, one, other)| location.replacen('@', one, usize::from(!location.contains("@n"))).replace("{ @ }", &format!("{{ {one} }}")).replace('@', if location.contains("@n") { "@" } else { other }))
            .collect();
        let text = format!(
            "events {{ }} http {{ upstream up {{ server 127.0.0.1:81; }} limit_req_zone $remote_addr zone=one:1m rate=1r/s; \
             limit_conn_zone $host zone=two:1m; proxy_cache_path /c keys_zone=zone:1m; server {{ {server} {locations} }} }}"
        );
        let file = std::path::PathBuf::from("/etc/nginx/nginx.conf");
        let mut source = Source::new(Some("/nonexistent".into())).with_file(file.clone(), text.clone().into_bytes());
        if let Ok(import) = super::import(&file, &Options::default(), &mut source) {
            let checked = howdah_config::Config::from_value(import.document.clone());
            prop_assert!(checked.is_ok(), "{}\n{text}\n{:#}", checked.unwrap_err(), import.document);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(http|server|location|if|rewrite|set|map|return|\\{|\\}|;| |\\$a|/|~|\\(|\\)|=|\n){0,40}") {
        let file = std::path::PathBuf::from("/nginx.conf");
        let mut source = Source::new(Some("/nonexistent".into())).with_file(file.clone(), text.into_bytes());
        let _ = super::import(&file, &Options::default(), &mut source);
    }

    #[test]
    fn any_expression_is_converted_or_refused(regex in "[a-c\\\\\\[\\](){}?*+.|^$!<>=:-]{0,20}") {
        let found = super::pcre::convert(&regex, false);
        let _ = super::pcre::superset(&regex, true);
        if let Some(found) = found {
            prop_assert!(found.text.len() <= regex.len() * 400 + 100);
        }
    }
}

#[test]
fn a_missing_file_is_an_error() {
    let error = super::import(
        Path::new("/nonexistent/nginx.conf"),
        &Options::default(),
        &mut Source::default(),
    );
    assert_eq!(error.unwrap_err().line, None);
}
