//! `try` of a share, as nginx's `try_files`.

use super::*;

/// A site with these files and a `try`; requests for missing files go to an upstream.
struct Site {
    routes: Routes,
    _root: tempfile::TempDir,
}

impl Site {
    fn new(names: &[&str], list: &str, others: &str) -> Self {
        let (root, path) = with_files(names);
        let routes = Routes::new(&format!(
            r#"[{{"match": {{"uri": "~^/(.*)$"}},
                  "action": {{"share": "{path}$uri", "try": {list} {others}}}}}]"#
        ));
        Site { routes, _root: root }
    }

    /// Returns the result of a request (name of a file or script, redirect, upstream or status) and
    /// the path of the request afterwards.
    fn get(&self, target: &str) -> (String, String) {
        self.ask("GET", target)
    }

    fn ask(&self, method: &'static str, target: &str) -> (String, String) {
        let mut request = request(target, &[]);
        request.method = Bytes::from_static(method.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let what = match self.routes.decide(&mut request).0 {
            Decision::Respond(response) => match (response.fields.get("location"), response.body) {
                (Some(location), _) => format!("{} {}", response.status, text(location)),
                (None, Body::Bytes(body)) => text(&body),
                other => panic!("{other:?}"),
            },
            Decision::Ask(Origin::Php(_, script)) => format!("{} run", text(&script.name)),
            Decision::Ask(Origin::Proxy(upstream)) => format!("{upstream}"),
            Decision::Refuse(error) => error.status().to_string(),
            other => panic!("{other:?}"),
        };
        (what, text(&request.path))
    }
}

fn pair(what: &str, path: &str) -> (String, String) {
    (what.to_owned(), path.to_owned())
}

#[test]
fn a_site_with_a_front_controller_is_one_list() {
    let names = ["index.php", "a.txt", "dir/index.html", "empty/x", "direct.php", "sub/index.php"];
    let list = r#"["$uri", "$uri/", "/index.php"]"#;
    let others = r#", "index": ["index.php", "index.html"], "scripts": "applications/direct""#;
    let site = Site::new(&names, list, others);
    for (target, what, path) in [
        ("/a.txt", "a.txt", "/a.txt"),
        ("/dir/", "dir/index.html", "/dir/"),
        ("/dir?q=%20", "301 /dir/?q=%20", "/dir"),
        ("/sub/", "/sub/index.php run", "/sub/"),
        ("/sub", "301 /sub/", "/sub"),
        ("/direct.php/info", "/direct.php run", "/direct.php/info"),
        ("/", "/index.php run", "/"),
        ("/no/such", "/index.php run", "/index.php"),
        ("/empty", "/index.php run", "/index.php"),
        ("/empty/", "/index.php run", "/index.php"),
        ("/.git/config", "/index.php run", "/index.php"),
        ("/a.txt/", "/index.php run", "/index.php"),
    ] {
        assert_eq!(site.get(target), pair(what, path), "{target}");
    }
    // Requests that only a script can answer go to a script.
    for target in ["/a.txt", "/dir", "/dir/", "/no/such"] {
        assert_eq!(site.ask("POST", target).0, "/index.php run", "{target}");
    }
    assert_eq!(site.ask("POST", "/sub/").0, "/sub/index.php run");
}

#[test]
fn without_a_slash_a_directory_does_not_count() {
    let site = Site::new(&["dir/index.html", "index.html"], r#"["$uri", "/index.html"]"#, "");
    assert_eq!(site.get("/dir"), pair("index.html", "/index.html"));
    assert_eq!(site.get("/dir/"), pair("index.html", "/index.html"));
}

#[test]
fn cached_pages_come_first_and_then_the_server_behind() {
    let names = ["blog.html", "shop/index.html", "a.css"];
    let list = r#"["$uri/index.html", "$uri.html", "$uri"]"#;
    let site = Site::new(&names, list, r#", "fallback": {"proxy": "http://127.0.0.1:1"}"#);
    for (target, what, path) in [
        ("/blog", "blog.html", "/blog.html"),
        ("/shop", "shop/index.html", "/shop/index.html"),
        ("/shop/", "shop/index.html", "/shop/index.html"),
        ("/a.css", "a.css", "/a.css"),
        ("/other/", "http://127.0.0.1:1", "/other/"),
    ] {
        assert_eq!(site.get(target), pair(what, path), "{target}");
    }
}

/// Scenario: pages that a site has stored as files come first, in front of the script that a client
/// names.
#[test]
fn text_behind_a_variable_is_no_path_info_of_the_script_in_front_of_it() {
    let names = ["index.php", "a.php", "blog.html", "shop/index.html", "sub/index.php"];
    let others = r#", "index": "index.php", "scripts": "applications/direct""#;
    let cases = [
        ("/index.php", "/index.php run", "/index.php"),
        ("/index.php/x", "/index.php run", "/index.php/x"),
        ("/a.php", "/a.php run", "/a.php"),
        ("/a.php/x/", "/a.php run", "/a.php/x/"),
        ("/blog", "blog.html", "/blog.html"),
        ("/shop", "shop/index.html", "/shop/index.html"),
        ("/sub/", "/sub/index.php run", "/sub/"),
        ("/sub", "301 /sub/", "/sub"),
    ];
    for list in [
        r#"["$uri/index.html", "$uri.html", "$uri", "$uri/", "/index.php"]"#,
        r#"["$uri/", "$uri.html", "$uri/index.html", "$uri"]"#,
    ] {
        let site = Site::new(&names, list, others);
        for (target, what, path) in cases {
            assert_eq!(site.get(target), pair(what, path), "{target} {list}");
        }
    }
    let site = Site::new(&names, r#"["$uri.php", "$uri/index.php", "/index.php$uri"]"#, others);
    for (target, what, path) in [
        ("/a", "/a.php run", "/a.php"),
        ("/sub", "/sub/index.php run", "/sub/index.php"),
        ("/a.php", "/index.php run", "/index.php/a.php"),
        ("/x/y", "/index.php run", "/index.php/x/y"),
    ] {
        assert_eq!(site.get(target), pair(what, path), "{target}");
    }
}

#[test]
fn nothing_found_is_404_or_the_fallback() {
    let site = Site::new(&["a"], r#""$uri""#, "");
    assert_eq!((site.get("/a").0, site.get("/b").0), ("a".to_owned(), "404".to_owned()));
    let gone = r#", "fallback": {"return": 410}"#;
    assert_eq!(Site::new(&["a"], r#"["$uri"]"#, gone).get("/b"), pair("410", "/b"));
}

#[test]
fn a_candidate_never_leads_out_of_the_share() {
    let names = ["secret", "public/a", "public/dir/b"];
    let list = r#"["/public/$arg_f", "/public/dir/$1", "/public$uri/../$arg_g"]"#;
    let site = Site::new(&names, list, "");
    for (target, what) in [
        ("/?f=a", "public/a"),
        ("/b", "public/dir/b"),
        ("/?f=../secret", "secret"), // within the share, as in a rewrite
        ("/?f=../../etc/passwd", "404"),
        ("/?f=%2e%2e%2f%2e%2e%2fetc/passwd", "404"),
        ("/?f=%00", "404"),
        ("/x?g=../../../../etc/passwd", "404"),
    ] {
        assert_eq!(site.get(target).0, what, "{target}");
    }
}
