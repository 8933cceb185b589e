use crate::engine::{Action, Base};
use crate::modules::testing::now;
use crate::testing::Site;

#[test]
fn files_scripts_and_what_is_missing() {
    let site = Site::new(&[("a.html", "x"), ("b.php", "x"), ("d/x.txt", "x")]);
    assert_eq!(site.summary("/a.html"), "200 file /a.html");
    assert_eq!(site.summary("/b.php"), "200 script /b.php");
    assert_eq!(site.summary("/b.php/x/y"), "200 script /b.php/x/y");
    assert_eq!(site.summary("/a.html/x"), "404");
    assert_eq!(site.summary("/none"), "404");
    assert_eq!(site.summary("/none.php"), "404");
    assert_eq!(site.summary("/none/x.php"), "404");
    assert_eq!(site.summary("/d"), "301 http://site.example/d/");
    assert_eq!(site.summary("/d?x"), "301 http://site.example/d/?x");
    assert_eq!(site.summary("/a%2fb"), "404");
    assert_eq!(site.summary("/../a.html"), "400");
    assert_eq!(site.get("/a.html").header("Content-Type").unwrap(), "text/html");
}

#[test]
fn scripts_have_their_names() {
    let site = Site::new(&[("d/b.php", "x")]);
    let answer = site.get("/d//b.php/x%20y?q=1");
    let script = answer.script();
    assert_eq!(script.name, b"/d/b.php");
    assert_eq!(script.path_info, b"/x y");
    assert_eq!(script.query, b"q=1");
    assert_eq!(script.request_uri, b"/d//b.php/x%20y?q=1");
}

#[test]
fn files_of_the_server_are_refused() {
    let site = Site::new(&[(".htaccess", ""), (".htpasswd", "x"), ("a.phps", "x"), (".php", "x")]);
    for path in ["/.htaccess", "/.htpasswd", "/.htnone", "/a.phps", "/.php"] {
        assert_eq!(site.summary(path), "403", "{path}");
    }
}

#[test]
fn methods_of_files() {
    let site = Site::new(&[("a.html", "x"), ("b.php", "x")]);
    assert_eq!(site.summary("POST /a.html"), "200 file /a.html");
    assert_eq!(site.summary("HEAD /a.html"), "200 file /a.html");
    assert_eq!(site.summary("PUT /a.html"), "405");
    assert_eq!(site.summary("DELETE /a.html"), "405");
    assert_eq!(site.summary("FOO /a.html"), "501");
    assert_eq!(site.summary("OPTIONS /a.html"), "200 options");
    assert_eq!(site.summary("OPTIONS *"), "200 options");
    assert_eq!(site.summary("PUT /b.php"), "200 script /b.php");
    assert_eq!(site.summary("TRACE /a.html"), "405");
}

#[test]
fn index_files_are_found_in_order() {
    let site = Site::new(&[
        ("a/index.html", "x"),
        ("a/index.php", "x"),
        ("b/index.php", "x"),
        ("c/.htaccess", "DirectoryIndex start.php /b/index.php"),
        ("c/x", "x"),
        ("d/.htaccess", "DirectoryIndex disabled\nOptions -Indexes"),
        ("d/index.html", "x"),
        ("e/.htaccess", "DirectoryIndexRedirect on"),
        ("e/index.html", "x"),
        ("f/.htaccess", "DirectorySlash Off\nOptions -Indexes"),
        ("f/x", "x"),
    ]);
    assert_eq!(site.summary("/a/"), "200 file /a/index.html");
    assert_eq!(site.summary("/b/?x=1"), "200 script /b/index.php");
    assert_eq!(site.get("/b/?x=1").script().name, b"/b/index.php");
    assert_eq!(site.get("/b/?x=1").script().query, b"x=1");
    assert_eq!(site.summary("/c/"), "200 script /b/index.php");
    assert_eq!(site.summary("/d/"), "403");
    assert_eq!(site.summary("/e/?x"), "302 http://site.example/e/index.html");
    assert_eq!(site.summary("/f"), "403");
}

#[test]
fn a_fallback_answers_for_what_is_not_there() {
    let site = Site::new(&[
        (".htaccess", "FallbackResource /index.php"),
        ("index.php", "x"),
        ("page.html", "x"),
        ("off/.htaccess", "FallbackResource disabled"),
        ("off/x", "x"),
    ]);
    assert_eq!(site.summary("/a/b?c"), "200 script /index.php");
    assert_eq!(site.get("/a/b?c").script().name, b"/index.php");
    assert_eq!(site.summary("/none.php"), "404");
    assert_eq!(site.summary("/page.html/x"), "404");
    assert_eq!(site.summary("/off/none"), "404");
}

#[test]
fn requirements_come_before_redirects() {
    let site = Site::new(&[
        (".htaccess", "Require all denied\nRedirect /a http://other.example/"),
        ("a", "x"),
    ]);
    assert_eq!(site.summary("/a"), "403");
}

#[test]
fn redirects_of_the_child_come_first() {
    let site = Site::new(&[
        (".htaccess", "Redirect /d/a http://parent.example/\nRedirect /d http://second.example/"),
        ("d/.htaccess", "Redirect 301 /d/a http://child.example/x"),
    ]);
    assert_eq!(site.summary("/d/a/b?c=1"), "301 http://child.example/x/b?c=1");
    assert_eq!(site.summary("/d/b"), "302 http://second.example//b");
}

#[test]
fn redirects_have_many_forms() {
    let site = Site::new(&[
        (
            ".htaccess",
            "RedirectMatch 301 ^/old/(.*)$ /new/$1\nRedirect gone /gone\nRedirect 404 /hidden\n\
             RedirectPermanent /p http://p.example/?x=1\nRedirectTemp /t /u\nRedirectMatch 403 \
             \\.bak$",
        ),
        ("gone", "x"),
        ("rel/.htaccess", "RedirectRelative On\nRedirect /rel/a /b"),
        ("all/.htaccess", "Redirect 302 https://all.example/"),
    ]);
    assert_eq!(site.summary("/old/a%20b"), "301 http://site.example/new/a%20b");
    assert_eq!(site.summary("/gone"), "410");
    assert_eq!(site.summary("/hidden/x"), "404");
    assert_eq!(site.summary("/p?y=2"), "301 http://p.example/?x=1");
    assert_eq!(site.summary("/t/v"), "302 http://site.example/u/v");
    assert_eq!(site.summary("/a.bak"), "403");
    assert_eq!(site.summary("/rel/a"), "302 /b");
    assert_eq!(site.summary("/all/x"), "302 https://all.example/");
}

#[test]
fn files_sections_test_the_last_segment() {
    let site = Site::new(&[
        (".htaccess", "<FilesMatch \"^\\.\">\nRequire all denied\n</FilesMatch>"),
        (".env", "x"),
        (".git/config", "x"),
    ]);
    assert_eq!(site.summary("/.env"), "403");
    assert_eq!(site.summary("/.git/config"), "200 file /.git/config");
}

#[test]
fn a_handler_in_a_directory_does_not_stop_scripts() {
    let site = Site::new(&[
        ("a/.htaccess", "SetHandler none"),
        ("a/x.php", "x"),
        ("b/.htaccess", "php_flag engine off"),
        ("b/x.php", "x"),
        ("c/.htaccess", "<FilesMatch \\.php$>\nSetHandler default-handler\n</FilesMatch>"),
        ("c/x.php", "x"),
        ("d/.htaccess", "AddType application/x-httpd-php .foo\nAddHandler php-script bar"),
        ("d/x.foo", "x"),
        ("d/x.bar", "x"),
        ("e/.htaccess", "SetHandler application/x-httpd-php"),
        ("e/x.txt", "x"),
        ("f/.htaccess", "AcceptPathInfo Off"),
        ("f/x.php", "x"),
        ("g/.htaccess", "AcceptPathInfo On"),
        ("g/x.html", "x"),
    ]);
    assert_eq!(site.summary("/a/x.php"), "200 script /a/x.php");
    assert_eq!(site.summary("/b/x.php"), "403");
    assert_eq!(site.summary("/c/x.php"), "403");
    assert_eq!(site.summary("/d/x.foo"), "200 script /d/x.foo");
    assert_eq!(site.summary("/d/x.bar"), "200 script /d/x.bar");
    assert_eq!(site.summary("/e/x.txt"), "200 script /e/x.txt");
    assert_eq!(site.summary("/f/x.php/y"), "404");
    assert_eq!(site.summary("/g/x.html/y"), "200 file /g/x.html");
}

#[test]
fn an_error_document_is_a_request_of_its_own() {
    let site = Site::new(&[
        (".htaccess", "ErrorDocument 404 /error.php?e=1\nSetEnv X y"),
        ("error.php", "x"),
    ]);
    let answer = site.send("POST /none?q=1", &[]);
    assert_eq!(answer.summary(&site), "404 script /error.php");
    let script = answer.script();
    assert_eq!(script.method, b"GET");
    assert_eq!(script.query, b"e=1");
    assert_eq!(script.request_uri, b"/none?q=1");
    let variable = |name: &str| answer.variable(name);
    assert_eq!(variable("REDIRECT_STATUS").unwrap(), "404");
    assert_eq!(variable("REDIRECT_URL").unwrap(), "/none");
    assert_eq!(variable("REDIRECT_QUERY_STRING").unwrap(), "q=1");
    assert_eq!(variable("REDIRECT_REQUEST_METHOD").unwrap(), "POST");
    assert_eq!(variable("REDIRECT_X").unwrap(), "y");
    assert_eq!(variable("X").unwrap(), "y");
}

#[test]
fn error_documents_have_many_forms() {
    let site = Site::new(&[
        (".htaccess", "ErrorDocument 404 \"not here\"\nErrorDocument 403 http://other.example/403"),
        ("d/.htaccess", "ErrorDocument 404 default\nRequire all denied"),
        ("e/.htaccess", "ErrorDocument 404 /none"),
        ("e/x", ""),
        ("f/.htaccess", "Require all denied\nErrorDocument 403 /f/403.html"),
        ("f/403.html", ""),
        ("g/.htaccess", "ErrorDocument 404 /error.html"),
        ("g/x", ""),
        ("error.html", "x"),
    ]);
    assert_eq!(site.get("/none").text().unwrap(), "not here");
    assert_eq!(site.summary("/d/x"), "302 http://other.example/403");
    let answer = site.get("/e/none");
    assert_eq!((answer.status(), answer.text()), (404, None));
    match answer.0.action {
        Action::Error(page) => assert_eq!(page.also, Some(404)),
        _ => panic!(),
    }
    // The directives are those of the first request, which was asked already.
    assert_eq!(site.summary("/f/x"), "403 file /f/403.html");
    assert_eq!(site.summary("/g/none"), "404 file /error.html");
}

#[test]
fn errors_of_the_server_have_error_documents() {
    let site = Site::new(&[(".htaccess", "ErrorDocument 503 busy"), ("a.php", "x")]);
    let outcome = site.get("/a.php").0;
    let outcome = now(site.engine.fail(*outcome.record, 503, &site));
    assert_eq!(outcome.record.status, 503);
    assert!(matches!(outcome.action, Action::Error(page) if page.text.as_deref() == Some(b"busy")));
}

#[test]
fn a_broken_file_is_an_error_with_its_reason_in_the_log() {
    let site = Site::new(&[
        (".htaccess", "ErrorDocument 500 parent"),
        ("d/.htaccess", "\nFoo"),
        ("d/x", ""),
    ]);
    let answer = site.get("/d/x");
    assert_eq!((answer.status(), answer.text()), (500, None));
    let log = site.messages.borrow().join("\n");
    assert!(log.contains("/d/.htaccess: line 2: Invalid command 'Foo'"), "{log}");
}

#[test]
fn header_fields_of_own_errors_are_those_for_all() {
    let site = Site::new(&[
        (".htaccess", "Header set A 1\nHeader always set B 2"),
        ("a.html", "x"),
        ("d/x", ""),
    ]);
    let answer = site.get("/a.html");
    assert_eq!(answer.header("A").unwrap() + &answer.header("B").unwrap(), "12");
    for path in ["/none", "/d"] {
        let answer = site.get(path);
        assert_eq!((answer.header("A"), answer.header("B").unwrap().as_str()), (None, "2"));
    }
}

#[test]
fn later_sections_win() {
    let site = Site::new(&[
        (
            ".htaccess",
            "<Files a.html>\nHeader set X files\n</Files>\nHeader set X plain\n\
             <FilesMatch html>\nHeader set Y 1\n</FilesMatch>",
        ),
        ("a.html", "x"),
        ("b.html", "x"),
    ]);
    assert_eq!(site.get("/a.html").header("X").unwrap(), "files");
    assert_eq!(site.get("/a.html").header("Y").unwrap(), "1");
    assert_eq!(site.get("/b.html").header("X").unwrap(), "plain");
}

#[test]
fn links_need_an_option() {
    let site = Site::new(&[
        ("a.html", "x"),
        ("no/.htaccess", "Options -FollowSymLinks"),
        ("owner/.htaccess", "Options -FollowSymLinks +SymLinksIfOwnerMatch"),
        ("dir/x.html", "x"),
    ]);
    site.link("../a.html", "no/link.html");
    site.link("../a.html", "owner/link.html");
    site.link("none.html", "dangling.html");
    site.link("dir", "linked");
    site.link("../dir", "no/linked");
    assert_eq!(site.summary("/no/link.html"), "403");
    assert_eq!(site.summary("/no/linked/x.html"), "403");
    assert_eq!(site.summary("/owner/link.html"), "200 file /owner/link.html");
    assert_eq!(site.summary("/linked/x.html"), "200 file /linked/x.html");
    assert_eq!(site.summary("/no/none.html"), "404");
}

#[test]
fn a_changed_file_holds_for_the_next_request() {
    let site = Site::new(&[("d/.htaccess", "Require all denied"), ("d/x", "x")]);
    assert_eq!(site.summary("/d/x"), "403");
    site.write("d/.htaccess", "Require all granted");
    assert_eq!(site.summary("/d/x"), "200 file /d/x");
    site.write("d/.htaccess", "Foo");
    assert_eq!(site.summary("/d/x"), "500");
}

#[test]
fn directives_of_a_directory_hold_without_its_slash() {
    let site = Site::new(&[("d/.htaccess", "Require all denied"), ("d/x", "x")]);
    assert_eq!(site.summary("/d"), "403");
}

#[test]
fn requirements_are_combined() {
    let site = Site::new(&[
        ("any/.htaccess", "Require all denied\nRequire ip 127.0.0.1"),
        ("any/x", ""),
        ("all/.htaccess", "<RequireAll>\nRequire ip 127.0.0.1\nRequire method GET\n</RequireAll>"),
        ("all/x", ""),
        ("not/.htaccess", "Require not ip 127.0.0.1"),
        ("not/x", ""),
        ("old/.htaccess", "Order Deny,Allow\nDeny from all"),
        ("old/x", ""),
        ("limit/.htaccess", "<Limit POST>\nRequire all denied\n</Limit>"),
        ("limit/x", ""),
    ]);
    assert_eq!(site.summary("/any/x"), "200 file /any/x");
    assert_eq!(site.summary("/all/x"), "200 file /all/x");
    assert_eq!(site.summary("POST /all/x"), "403");
    assert_eq!(site.summary("/not/x"), "500");
    assert_eq!(site.summary("/old/x"), "403");
    assert_eq!(site.summary("/limit/x"), "200 file /limit/x");
    assert_eq!(site.summary("POST /limit/x"), "403");
}

#[test]
fn passwords_are_asked_for() {
    let site = Site::new(&[("d/x", ""), ("users", "me:secret\n")]);
    let file = site.root().to_owned() + "/users";
    let lines =
        format!("AuthType Basic\nAuthName \"A B\"\nAuthUserFile {file}\nRequire valid-user");
    site.write("d/.htaccess", &lines);
    let answer = site.get("/d/x");
    assert_eq!(answer.summary(&site), "401");
    assert_eq!(answer.header("WWW-Authenticate").unwrap(), "Basic realm=\"A B\"");
    let answer = site.send("GET /d/x", &[("Authorization", "Basic bWU6c2VjcmV0")]);
    assert_eq!(answer.summary(&site), "200 file /d/x");
    assert_eq!(answer.0.record.user.as_deref(), Some(b"me".as_slice()));
    let answer = site.send("GET /d/x", &[("Authorization", "Basic bWU6d3Jvbmc=")]);
    assert_eq!(answer.summary(&site), "401");
}

#[test]
fn variants_are_chosen_by_language() {
    let site = Site::new(&[
        ("d/.htaccess", "Options +MultiViews"),
        ("d/page.html.en", "x"),
        ("d/page.html.de", "x"),
        ("d/one.php", "x"),
    ]);
    let answer = site.send("GET /d/page", &[("Accept-Language", "de")]);
    assert_eq!(answer.summary(&site), "200 file /d/page.html.de");
    assert_eq!(answer.header("Content-Language").unwrap(), "de");
    // The suffix of scripts has no type in Apache's list.
    assert_eq!(site.summary("/d/one"), "404");
}

#[test]
fn settings_of_php_are_handed_over() {
    let site = Site::new(&[
        (".htaccess", "php_value memory_limit 1G\nphp_flag display_errors on"),
        ("d/.htaccess", "php_value memory_limit 2G"),
        ("d/x.php", "x"),
    ]);
    let settings = &site.get("/d/x.php").script().settings.clone();
    let expected = [("memory_limit", "2G"), ("display_errors", "1")];
    let expected: Vec<_> =
        expected.map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec())).to_vec();
    assert_eq!(*settings, expected);
}

#[test]
fn error_documents_that_need_themselves_end() {
    let site = Site::new(&[("d/.htaccess", "ErrorDocument 404 /d/none\nFallbackResource /d/none")]);
    assert_eq!(site.summary("/d/x"), "500");
}

#[test]
fn without_overrides_no_file_is_read() {
    let base = Base { allow: crate::allow::Allow::none(), ..Base::default() };
    let site = Site::with_base(base, &[(".htaccess", "Foo"), ("a.html", "x")]);
    assert_eq!(site.summary("/a.html"), "200 file /a.html");
}

#[test]
fn files_that_the_server_closes_are_reached_on_no_way() {
    let rules = "RewriteEngine On\nRewriteRule ^to/(.*) /$1 [L]\nRewriteRule ^end/(.*) /$1 [END]\n\
                 ErrorDocument 404 /closed/a.txt\nDirectoryIndex closed/index.html uploads/a.php\n\
                 Options +MultiViews\nFallbackResource /closed/a.txt\n";
    let site = Site::new(&[
        (".htaccess", rules),
        ("closed/a.txt", "x"),
        ("closed/index.html", "x"),
        ("closed/page.html", "x"),
        ("hidden/a.txt", "x"),
        (
            "uploads/.htaccess",
            "AddType application/x-httpd-php .jpg\nAddHandler x-httpd-php82 .gif\n",
        ),
        ("uploads/a.php", "x"),
        ("uploads/a.jpg", "x"),
        ("uploads/a.gif", "x"),
        ("uploads/a.png", "x"),
    ]);
    for path in [
        "closed/a.txt",
        "closed/",
        "closed/page",
        "uploads/a.php",
        "uploads/a.php/x",
        "uploads/a.jpg",
        "uploads/a.gif",
    ] {
        for way in ["", "to/", "end/", "to/to/"] {
            assert_eq!(site.summary(&format!("/{way}{path}")), "403", "{way}{path}");
        }
    }
    assert_eq!(site.summary("/"), "403");
    assert_eq!(site.summary("/none"), "403");
    assert_eq!(site.summary("/to/hidden/a.txt"), "404");
    assert_eq!(site.summary("/to/uploads/a.png"), "200 file /uploads/a.png");
}

#[test]
fn directories_whose_directives_are_not_known_are_asked_for_together() {
    let site = Site::new(&[("a/b/c.txt", "x"), ("a/b/.htaccess", "Deny from all\n")]);
    site.is_pending.set(true);
    assert_eq!(site.get("/a/b/c.txt").status(), 500);
    let mut asked = site.asked.take();
    asked.dedup();
    assert_eq!(asked[..3], ["/", "/a/", "/a/b/"]);
    assert!(site.messages.borrow().is_empty(), "the request is run again");
    site.is_pending.set(false);
    assert_eq!(site.get("/a/b/c.txt").status(), 403);
}

/// Scenario: `Alias /blog /srv/blog`, with the answers of Apache, but for paths of the host outside
/// of the alias, which are not of this site.
#[test]
fn a_site_below_a_prefix_has_its_paths() {
    let rules = "RewriteEngine On\nRewriteRule ^a$ b.txt [L]\nRewriteRule ^s$ /b.txt [L]\n\
                 RewriteRule ^t$ /blog/b.txt [L]\nRewriteRule ^p$ c.php [L]\n\
                 RewriteRule ^env$ b.txt [E=X:%{CONTEXT_PREFIX}|%{REQUEST_URI},L]\n\
                 Header set Y %{REDIRECT_X}e\nErrorDocument 410 /blog/b.txt\n\
                 ErrorDocument 404 /b.txt\nRedirect 301 /blog/old /blog/b.txt\n\
                 Redirect gone /blog/gone\n";
    let with_base = "RewriteEngine On\nRewriteBase /blog/based/\nRewriteRule ^a$ b.txt [L]\n\
                     RewriteRule ^r$ b.txt [R,L]\n";
    let site = Site::new(&[
        (".htaccess", rules),
        ("b.txt", "x"),
        ("c.php", "x"),
        ("d/index.html", "x"),
        ("based/.htaccess", with_base),
        ("based/b.txt", "x"),
        ("closed/.htaccess", "Require all denied"),
        ("closed/x.txt", "x"),
        ("blog/x.txt", "x"),
    ]);
    site.prefix.set("/blog");
    for (path, expected) in [
        ("/blog/b.txt", "200 file /b.txt"),
        ("/blog/a", "200 file /b.txt"),
        ("/blog/t", "200 file /b.txt"),
        ("/blog/s", "404"),
        ("/blog/none", "404"),
        ("/blog/gone", "410 file /b.txt"),
        ("/blog/p", "200 script /c.php"),
        ("/blog/d", "301 http://site.example/blog/d/"),
        ("/blog/d/", "200 file /d/index.html"),
        ("/blog/old", "301 http://site.example/blog/b.txt"),
        ("/blog/based/a", "200 file /based/b.txt"),
        ("/blog/based/r", "302 http://site.example/blog/based/b.txt"),
        ("/blog/closed/x.txt", "403"),
        ("/blog/closed/../b.txt", "200 file /b.txt"),
        ("/blog/%2e%2e/b.txt", "404"),
        ("/blog/blog/x.txt", "200 file /blog/x.txt"),
        ("/b.txt", "404"),
        ("/blog", "404"),
        ("/blogb.txt", "404"),
        ("/", "404"),
    ] {
        assert_eq!(site.summary(path), expected, "{path}");
    }
    assert_eq!(site.get("/blog/env").header("Y").unwrap(), "/blog|/blog/env");
    let answer = site.get("/blog/p");
    assert_eq!(answer.script().name, b"/blog/c.php");
    let answer = site.get("/blog/c.php/x");
    assert_eq!(
        (&*answer.script().name, &*answer.script().path_info),
        (&b"/blog/c.php"[..], &b"/x"[..])
    );
}
