//! `.htaccess` files of a hostile customer: their cost for others, and files that they cannot
//! reach.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use harness::client::Response;
use harness::fastcgi::{Socket, fpm};
use harness::{Server, Site, processes, requirements};
use serde_json::json;

/// A site under its files, and beside it another one at /other/.
fn serve(site: Site) -> Server {
    let root = site.root().display().to_string();
    site.file("other/a.txt", "other")
        .with(json!({
            "routes": [
                { "match": { "uri": "/other/*" }, "action": { "share": format!("{root}$uri") } },
                { "action": { "pass": "applications/site" } },
            ],
            "applications": { "site": { "htaccess": true } },
        }))
        .serve()
}

fn with_rules(rules: impl AsRef<[u8]>) -> Server {
    serve(
        Site::new()
            .file(".htaccess", rules)
            .file("a.txt", "text")
            .file("see.php", "<?php echo 'run';"),
    )
}

/// The other site still answers.
fn is_alive(server: &Server) {
    assert_eq!(server.get("/other/a.txt").text(), "other", "{}", server.log());
}

/// Asks for a path on several connections while the other site is asked too.
fn attack(server: &Server, clients: usize, target: &str) -> Vec<Response> {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|_| scope.spawn(|| server.get(target))).collect();
        (0..20).for_each(|_| is_alive(server));
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn a_listing_of_a_huge_directory_stalls_no_other_site() {
    let site = Site::new().file("a.txt", "text");
    let directory = site.root().join("many");
    fs::create_dir(&directory).unwrap();
    (0..100_000).for_each(|number| {
        fs::File::create(directory.join(format!("a-name-of-some-length-{number}"))).unwrap();
    });
    let server = serve(site);
    for response in attack(&server, 4, "/many/") {
        assert!(matches!(response.status, 200 | 403 | 500 | 503), "{}", response.status);
        assert!(response.body.len() < 64 << 20, "{}", response.body.len());
    }
    is_alive(&server);
}

/// A thread whose tasks always have something to do takes the responses of scripts between them.
#[test]
fn listings_without_an_end_keep_no_script_of_another_site_from_being_answered() {
    let site = Site::new().file("other/run.php", "<?php echo 'run';");
    let directory = site.root().join("many");
    fs::create_dir(&directory).unwrap();
    (0..3_000).for_each(|number| {
        fs::File::create(directory.join(format!("a-name-of-some-length-{number}"))).unwrap();
    });
    let root = site.root().display().to_string();
    let server = site
        .with(json!({
            "routes": [
                { "match": { "uri": "/other/*" }, "action": { "pass": "applications/other" } },
                { "action": { "pass": "applications/site" } },
            ],
            "applications": {
                "site": { "htaccess": true },
                "other": { "type": "php", "root": root, "limits": { "timeout": 20 } },
            },
        }))
        .serve();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for client in 0..24 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Relaxed) {
                        return;
                    }
                    server.get(&format!("/many/?P=*{client}*;x={number}"));
                }
            });
        }
        let texts: Vec<_> = (0..20).map(|_| server.get("/other/run.php")).collect();
        is_over.store(true, Relaxed);
        for response in texts {
            assert_eq!((response.status, response.text()), (200, "run".into()), "{}", server.log());
        }
    });
}

#[test]
fn files_of_directives_are_compiled_on_threads_that_serve_no_requests() {
    let lines: String =
        (0..6000).map(|n| format!("SetEnvIf User-Agent \"b(a|c)*d{n}\" e=1\n")).collect();
    let server = with_rules(format!("<Files none>\n{lines}</Files>\n"));
    let before = processes::thread_times(server.router());
    assert_eq!(server.get("/a.txt").status, 200);
    let after = processes::thread_times(server.router());
    let time = |is_new: bool| {
        let chosen = after.iter().filter(|(thread, _)| before.contains_key(thread) != is_new);
        let used = chosen.map(|(thread, time)| time - before.get(thread).unwrap_or(&0.0));
        used.sum::<f64>()
    };
    assert!(time(true) > 2.0 * time(false), "{before:?} {after:?}");
}

#[test]
fn ten_thousand_variants_of_a_page_stall_no_other_site() {
    let site = Site::new().file(".htaccess", "Options +MultiViews\nAddLanguage en .en\n");
    (0..10_000).for_each(|number| {
        fs::write(site.root().join(format!("page.en.{number}.html")), "page").unwrap();
    });
    let server = serve(site);
    for response in attack(&server, 4, "/page") {
        assert!(response.status < 600, "{}", response.status);
    }
    is_alive(&server);
}

#[test]
fn fields_of_directives_have_the_limit_of_those_of_scripts() {
    let fields = |count: usize| -> String {
        (0..count).map(|n| format!("Header set X-H{n} \"{}\"\n", "v".repeat(8000))).collect()
    };
    assert_eq!(with_rules(fields(4)).get("/a.txt").status, 200);
    let server = with_rules(fields(5));
    assert_eq!(server.get("/a.txt").status, 500);
    let log = server.wait_for_log("a.txt give the response");
    assert!(log.contains("at most 32760 are sent: let \"Header\" set fewer"), "{log}");
}

#[test]
fn sub_requests_that_start_sub_requests_end() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_URI}x -U [OR]\nRewriteCond \
                 %{REQUEST_URI}y -F [OR]\nRewriteCond expr \"-U '%{REQUEST_URI}z' || -F \
                 '%{REQUEST_FILENAME}z'\"\nRewriteRule . - [E=A:b]\n";
    let server = with_rules(rules.repeat(20));
    for response in attack(&server, 4, "/a.txt") {
        assert!(matches!(response.status, 200 | 500), "{}", response.status);
    }
    is_alive(&server);
}

#[test]
fn patterns_that_explode_on_several_connections_stall_no_other_site() {
    let rules = "RewriteEngine On\nRewriteRule ^(a|aa|a?a)+(a|aa)+$ - [F]\n".repeat(50);
    let server = with_rules(rules);
    let target = format!("/{}!", "a".repeat(60));
    for response in attack(&server, 8, &target) {
        assert!(matches!(response.status, 500 | 503), "{}", response.status);
    }
    is_alive(&server);
}

#[test]
fn a_site_whose_directives_use_up_its_time_is_refused_for_a_while_and_no_other_one() {
    let rules = "RewriteEngine On\nRewriteRule ^(a|aa|a?a)+(a|aa)+$ - [F]\n".repeat(50);
    let server = with_rules(rules);
    let target = format!("/{}!", "a".repeat(60));
    // The site may use a quarter of a processor. On a busy machine, the server may not get that
    // much.
    let mut greatest_share: f64 = 0.0;
    let refused = (0..20).find_map(|_| {
        let (begun, before) = (Instant::now(), processes::processor_time(server.router()));
        let responses = attack(&server, 48, &target);
        let used = processes::processor_time(server.router()) - before;
        greatest_share = greatest_share.max(used / begun.elapsed().as_secs_f64());
        responses.into_iter().find(|response| {
            assert!(matches!(response.status, 500 | 503), "{}", response.status);
            response.status == 503
        })
    });
    let Some(refused) = refused else {
        assert!(greatest_share < 0.4, "no request was refused at {greatest_share} of a processor");
        return requirements::skipped(format!("the router got {greatest_share:.2} of a processor"));
    };
    assert!(refused.field("Retry-After").is_some(), "{refused:?}");
    assert!(server.log().contains("have used up the processor time of the site"));
    is_alive(&server);
    harness::eventually("the site is served again", || {
        (server.get("/see.php").status == 200).then_some(())
    });
}

#[test]
fn nothing_but_php_is_run_and_nothing_is_proxied() {
    let cgi = "#!/bin/sh\necho 'Content-Type: text/plain'; echo; echo $((6 * 7))-run\n";
    for rules in [
        "RewriteEngine On\nRewriteRule ^a\\.cgi$ http://127.0.0.1:9/ [P]\n",
        "SetHandler \"proxy:http://127.0.0.1:9/\"\n",
        "SetHandler \"proxy:unix:/run/php/php-fpm.sock|fcgi://localhost\"\n",
        "Options +ExecCGI\nAddHandler cgi-script .cgi\nSetHandler cgi-script\n",
        "Options +Includes\nAddHandler server-parsed .cgi\nAddOutputFilter INCLUDES .cgi\n",
        "RewriteEngine On\nRewriteRule . - [H=proxy:http://127.0.0.1:9/]\n",
        "SetHandler server-status\n",
        "SetHandler server-info\n",
    ] {
        let site = Site::new().file(".htaccess", rules).file("a.cgi", cgi);
        let path = site.root().join("a.cgi");
        harness::open_to_all(&path, 0o755);
        let server = serve(site);
        let response = server.get("/a.cgi");
        assert!(!response.text().contains("42-run"), "{rules}: {response:?}");
        assert!(matches!(response.status, 200 | 403 | 404 | 500), "{rules}: {response:?}");
        if rules.contains("[P]") {
            assert_eq!(response.status, 403);
        }
        is_alive(&server);
    }
    for rules in [
        "php_admin_value open_basedir /\n",
        "php_admin_flag engine on\n",
        "ProxyPass / http://127.0.0.1:9/\n",
    ] {
        assert_eq!(with_rules(rules).get("/see.php").status, 500, "{rules}");
    }
}

#[test]
fn variables_give_a_real_fpm_no_settings_and_no_program() {
    let fastcgi = fpm(&Socket::Unix(128), 1, "php_admin_value[open_basedir] = /\n");
    let rules = "SetEnv PHP_VALUE \"memory_limit=77M\\nauto_prepend_file=/etc/passwd\"\n\
                 SetEnv PHP_ADMIN_VALUE \"open_basedir=/etc\\nextension=/tmp/evil.so\"\n\
                 SetEnv SCRIPT_FILENAME /etc/passwd\nSetEnv LD_PRELOAD /tmp/evil.so\nSetEnv \
                 DOCUMENT_ROOT /etc\nSetEnvIf Request_URI . PHP_VALUE=memory_limit=78M \
                 SCRIPT_FILENAME=/etc/passwd\nRewriteEngine On\nRewriteRule . - \
                 [E=PHP_ADMIN_VALUE:memory_limit=79M,E=PHP_VALUE:memory_limit=80M]\nRequestHeader \
                 set PHP_VALUE memory_limit=81M\nphp_value open_basedir /etc\nphp_value precision \
                 9\n";
    let code = "<?php echo ini_get('memory_limit'), ' ', ini_get('open_basedir'), ' ', __FILE__, \
                ' ', $_SERVER['DOCUMENT_ROOT'], ' ', ini_get('precision');";
    let site = Site::new().file(".htaccess", rules).file("see.php", code);
    let root = site.root().display().to_string();
    let server = site
        .with(json!({
            "applications": { "site": null },
        }))
        .with(json!({
            "routes": [{ "action": {
                "share": format!("{root}$uri"), "scripts": "applications/site", "htaccess": true,
            } }],
            "applications": { "site": {
                "type": "fastcgi", "root": root, "server": fastcgi.address,
            } },
        }))
        .serve();
    let text = server.get("/see.php").text();
    let expected = format!(" / {root}/see.php {root} 9");
    assert!(text.ends_with(&expected), "{text}");
    assert!(
        !["77M", "78M", "79M", "80M", "81M"].iter().any(|limit| text.contains(limit)),
        "{text}"
    );
}

#[test]
fn error_documents_and_rewrites_that_lead_in_circles_end() {
    for (rules, path, status) in [
        ("ErrorDocument 404 /none\n", "/nothing", 404),
        ("ErrorDocument 404 /nothing\nErrorDocument 403 /nothing\nRedirect 403 /b\n", "/b", 403),
        ("ErrorDocument 500 /a\nRewriteEngine On\nRewriteRule ^(.*)$ /x/$1\n", "/a", 500),
        (
            "RewriteEngine On\nRewriteRule ^a/?(.*)$ /b/$1 [L]\nRewriteRule ^b/?(.*)$ /a/$1 [L]\n",
            "/a",
            500,
        ),
        ("RewriteEngine On\nRewriteRule ^(.*)$ $1a [N]\n", "/a", 500),
        ("DirectoryIndex /d/ /\nRewriteEngine Off\n", "/", 403),
    ] {
        let server = with_rules(rules);
        let statuses: Vec<u16> = attack(&server, 2, path).iter().map(|r| r.status).collect();
        if path == "/" {
            assert!(statuses.iter().all(|status| *status >= 200), "{statuses:?}");
        } else {
            assert_eq!(statuses, [status, status], "{rules}");
        }
    }
}

#[test]
fn enormous_files_nests_and_lines_cost_their_own_directory_only() {
    let files = "<Files a>\n".repeat(5000) + &"</Files>\n".repeat(5000);
    let modules = "<IfModule mod_dir.c>\n".repeat(20_000);
    let depth = format!("<If \"{}true{}\">\n</If>\n", "(".repeat(3000), ")".repeat(3000));
    let nots = format!("<If \"{}true\">\n</If>\n", "! ".repeat(3500));
    let line = format!("Header set X-A {}\n", "a".repeat(2 << 20));
    let bomb = format!("Header set X-A {}\n", "a".repeat(7000)).repeat(1)
        + &"Header edit X-A a bb\nHeader edit* X-A a aaaaaaaaaaaaaaaa\n".repeat(200);
    let fields = (0..3000)
        .map(|number| format!("Header always add X-{number} {}\n", "a".repeat(4000)))
        .collect::<String>();
    let directives = "SetEnvIf X-A b c=d\nHeader unset X-B\n".repeat(60_000);
    let continued = "a\\\n".repeat(1 << 20);
    let large = "# a comment\n".repeat(5 << 20);
    let cases: [(&str, &str); 10] = [
        ("files", &files),
        ("modules", &modules),
        ("depth", &depth),
        ("nots", &nots),
        ("line", &line),
        ("bomb", &bomb),
        ("fields", &fields),
        ("directives", &directives),
        ("continued", &continued),
        ("large", &large),
    ];
    let mut site = Site::new().file("a.txt", "text");
    for (name, rules) in cases {
        site =
            site.file(&format!("{name}/.htaccess"), rules).file(&format!("{name}/a.txt"), "text");
    }
    let server = serve(site);
    for (name, _) in cases {
        for response in attack(&server, 2, &format!("/{name}/a.txt")) {
            assert!(matches!(response.status, 200 | 403 | 500), "{name}: {}", response.status);
            let head: usize =
                response.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
            assert!(head < 16 << 20, "{name}: {head}");
        }
        assert_eq!(server.get("/a.txt").text(), "text", "{name}");
    }
}

#[test]
fn no_rule_writes_a_line_into_the_head_of_a_response() {
    let rules = "RewriteEngine On\n\
                 RewriteRule ^r/(.*)$ https://b.example/$1 [R,L]\nRewriteRule ^ne/(.*)$ \
                 https://b.example/$1 [R,NE,L]\nRewriteRule ^co/(.*)$ - \
                 [CO=a:$1:.example,L]\nRewriteRule ^e/(.*)$ - [E=V:$1]\nRewriteRule ^q$ \
                 https://b.example/?%{QUERY_STRING} [R,NE,L]\nRedirectMatch ^/rm/(.*)$ \
                 https://b.example/$1\nRedirect /rd https://b.example/rd\nHeader always set X-V \
                 \"%{V}e\"\nHeader always set X-U \"expr=%{REQUEST_URI}\"\nHeader always set X-N \
                 \"a\\nX-Evil: 1\"\n";
    let server = with_rules(rules);
    for path in [
        "/r/a%0d%0aX-Evil:%201",
        "/ne/a%0d%0aX-Evil:%201",
        "/co/a%0d%0aX-Evil:%201",
        "/e/a%0d%0aX-Evil:%201",
        "/rm/a%0d%0aX-Evil:%201",
        "/rd/a%0d%0aX-Evil:%201",
        "/q?a%0d%0aX-Evil:%201",
        "/e/a%0aX-Evil:%201",
        "/a.txt",
        "/e/a%00b",
        "/%00",
    ] {
        let mut client = server.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let text = String::from_utf8_lossy(&client.everything()).to_ascii_lowercase();
        let head = text.split("\r\n\r\n").next().unwrap_or_default();
        assert!(!head.contains("\nx-evil") && !head.contains('\0'), "{path}: {head}");
        is_alive(&server);
    }
}

#[test]
fn a_nul_in_a_file_ends_its_line_and_in_a_path_is_refused() {
    let server = with_rules(b"Header set X-A b\0 c\nHeader set X-B d\n\0\n".as_slice());
    let response = server.get("/a.txt");
    assert_eq!((response.field("X-A"), response.field("X-B")), (Some("b"), Some("d")));
    assert_eq!(server.get("/a.txt%00.php").status, 400);
}

#[test]
fn a_link_that_is_exchanged_all_the_time_leads_nowhere_else() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("secret.txt"), "secret").unwrap();
    harness::open_to_all(secret.path(), 0o755);
    let site =
        Site::new().file(".htaccess", "Options FollowSymLinks\n").file("own/secret.txt", "own");
    let link = site.root().join("link");
    let (inside, outside) = (site.root().join("own"), secret.path().to_owned());
    symlink(&inside, &link).unwrap();
    let server = serve(site);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let next = link.with_extension("next");
            while !is_over.load(Relaxed) {
                for target in [&outside, &inside] {
                    let _ = fs::remove_file(&next);
                    symlink(target, &next).unwrap();
                    fs::rename(&next, &link).unwrap();
                }
            }
        });
        let mut client = server.connect();
        for _ in 0..2000 {
            let response = client.get("/link/secret.txt");
            assert!(!response.text().contains("secret"), "{response:?}");
            if response.field("Connection") == Some("close") {
                client = server.connect();
            }
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn a_link_in_place_of_the_rules_does_not_tell_what_exists_elsewhere() {
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("there"), "Header set X-A b\n").unwrap();
    let site = Site::new().file("a/a.txt", "a").file("b/a.txt", "b").file("c/a.txt", "c");
    let link = |target: &Path, name: &str| symlink(target, site.root().join(name)).unwrap();
    link(&other.path().join("there"), "a/.htaccess");
    link(&other.path().join("missing"), "b/.htaccess");
    link(Path::new("missing"), "c/.htaccess");
    let lchown = |name: &str| {
        let path = site.root().join(name);
        std::os::unix::fs::lchown(path, Some(12_345), Some(12_345)).is_ok()
    };
    let is_root = ["a/.htaccess", "b/.htaccess"].into_iter().all(lchown);
    let server = serve(site);
    if is_root {
        assert_eq!(server.get("/a/a.txt").status, 403);
        assert_eq!(server.get("/b/a.txt").status, 403);
    }
    assert_eq!(server.get("/c/a.txt").status, 200, "as under Apache");
}
