//! `.htaccess` files that change while clients are served, and heads of responses that are known
//! from other requests.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Duration;

use harness::Site;
use harness::client::Response;
use serde_json::json;

use super::htaccess::FRONT;

/// Rules of one generation: a rewrite, which takes the request through the rules twice, and a
/// field.
fn rules(generation: u32) -> String {
    let padding = "# a line that makes the file longer than a block\n".repeat(200);
    format!(
        "Header always set X-First {generation}\n{padding}RewriteEngine On\n\
         RewriteRule ^page$ target.txt [E=GENERATION:{generation},L]\n{padding}\
         Header always set X-Last {generation}\n\
         Header always set X-Rule %{{REDIRECT_GENERATION}}e\n"
    )
}

fn generation(response: &Response) -> u32 {
    assert_eq!(response.status, 200, "{}", response.text());
    let field = |name| response.field(name).unwrap_or_default().parse::<u32>().unwrap();
    let (first, last, rule) = (field("X-First"), field("X-Last"), field("X-Rule"));
    assert_eq!((first, first), (last, rule), "a mixture of rules");
    first
}

fn write(path: &Path, generation: u32) {
    if generation.is_multiple_of(2) {
        // In place, as an editor may. It is not emptied before: on a busy machine it could be empty
        // for long.
        let (text, mut file) = (rules(generation), File::options().write(true).open(path).unwrap());
        file.write_all(text.as_bytes()).unwrap();
        file.set_len(text.len() as u64).unwrap();
    } else {
        let other = path.with_extension("new");
        fs::write(&other, rules(generation)).unwrap();
        fs::rename(&other, path).unwrap();
    }
}

#[test]
fn changes_hold_for_the_next_request_and_no_request_has_a_mixture_of_rules() {
    const CHANGES: u32 = 200;
    let site = Site::new().file("target.txt", "target").file(".htaccess", rules(0));
    let path = site.root().join(".htaccess");
    let server = site.serve();
    let is_over = AtomicBool::new(false);
    let answers = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = server.connect();
                let mut last = 0;
                while !is_over.load(Relaxed) {
                    let now = generation(&client.get("/page"));
                    assert!(now >= last, "rules of generation {now} after those of {last}");
                    last = now;
                    answers.fetch_add(1, Relaxed);
                }
            });
        }
        let mut client = server.connect();
        for number in 1..=CHANGES {
            write(&path, number);
            let seen = generation(&client.get("/page"));
            assert_eq!(seen, number, "the next request has the rules of generation {seen}");
        }
        is_over.store(true, Relaxed);
    });
    assert!(answers.load(Relaxed) > CHANGES, "{answers:?}");
}

#[test]
fn a_request_waits_a_moment_for_the_rules_of_a_file_that_is_emptied_and_written_again() {
    let site = Site::new().file("target.txt", "target").file(".htaccess", rules(0));
    let path = site.root().join(".htaccess");
    let server = site.serve();
    let mut client = server.connect();
    assert_eq!(generation(&client.get("/page")), 0);
    let mut file = File::create(&path).unwrap();
    client.send("GET /page HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(50)); // it is read while it is empty
    file.write_all(rules(1).as_bytes()).unwrap();
    assert_eq!(generation(&client.response()), 1);
}

#[test]
fn directories_that_are_replaced_or_renamed_have_their_own_rules_for_the_next_request() {
    let site = Site::new()
        .file("1/a/b/page.txt", "page")
        .file("2/a/b/page.txt", "page")
        .file("2/a/.htaccess", "Require all denied\n")
        .file("other/b/page.txt", "page");
    let root = site.root();
    let at = |name: &str| root.join(name);
    std::os::unix::fs::symlink("1", at("current")).unwrap();
    let share = format!("{}/current$uri", root.display());
    let routes = json!([{"action": {"share": share, "htaccess": true}}]);
    let server = site.with(json!({"routes": routes})).serve();
    let mut client = server.connect();
    let mut status = || client.get("/a/b/page.txt").status;
    let release = |name: &str| {
        std::os::unix::fs::symlink(name, at("new")).unwrap();
        fs::rename(at("new"), at("current")).unwrap();
    };
    for _ in 0..20 {
        assert_eq!(status(), 200);
        release("2");
        assert_eq!(status(), 403);
        fs::rename(at("2/a"), at("2/away")).unwrap();
        fs::rename(at("other"), at("2/a")).unwrap();
        assert_eq!(status(), 200);
        fs::rename(at("2/a"), at("other")).unwrap();
        fs::rename(at("2/away"), at("2/a")).unwrap();
        assert_eq!(status(), 403);
        release("1");
    }
}

/// Files and directives of many kinds: answers that depend on the file alone, and on the request.
fn site_of_all_kinds() -> Site {
    let long = "a line of text that is long enough to be compressed\n".repeat(40);
    let mut site = Site::new()
        .file("index.php", FRONT)
        .file(
            "constant/.htaccess",
            "Header set X-A 1\nHeader append X-A 2\nAddType text/x-own \
                                     .own\n",
        )
        .file("constant/below/.htaccess", "Header always set X-B \"b c\"\nSetEnv no-gzip 1\n")
        .file("client/.htaccess", "Header set X-C %{agent}e\nSetEnvIf User-Agent (.*) agent=$1\n")
        .file(
            "sections/.htaccess",
            "<If \"%{HTTP_USER_AGENT} =~ /two/\">\nHeader set X-D \
                                     1\n</If>\n<Files *.own>\nForceType text/y-own\nHeader unset \
                                     Last-Modified\n</Files>\n",
        )
        .file(
            "rules/.htaccess",
            "RewriteEngine On\nRewriteCond %{HTTP_USER_AGENT} \
                                  two\nRewriteRule ^one\\.own$ two.own\n",
        )
        .file(
            "blog/.htaccess",
            "RewriteEngine On\nRewriteRule .* - \
                                 [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteCond \
                                 %{REQUEST_FILENAME} !-f\nRewriteRule . one.own\nRewriteRule ^two \
                                 - [E=no-gzip:%{HTTP:Accept}]\n",
        )
        .file(
            "access/.htaccess",
            "SetEnvIf User-Agent two denied\nOrder allow,deny\nAllow from \
                                   all\nDeny from env=denied\n",
        )
        .file("zip/.htaccess", "SetEnvIf User-Agent two no-gzip\n");
    for directory in [
        "",
        "constant/",
        "constant/below/",
        "client/",
        "sections/",
        "rules/",
        "blog/",
        "access/",
        "zip/",
    ] {
        for (name, text) in [
            ("one.own", "one"),
            ("two.own", "two"),
            ("long.txt", &*long),
            ("page.html.en", "en"),
            ("a.tar.gz", "gz"),
        ] {
            site = site.file(&format!("{directory}{name}"), text);
        }
    }
    site
}

#[test]
fn an_answer_is_the_same_whether_or_not_its_head_is_known_from_another_request() {
    let fields = [
        "User-Agent: one\r\n",
        "User-Agent: two\r\nAccept-Encoding: gzip\r\n",
        "User-Agent: two\r\nRange: bytes=1-\r\n",
        "User-Agent: one\r\nIf-None-Match: *\r\n",
        "Accept-Encoding: x-gzip\r\nAccept-Language: de\r\n",
        "Accept: image/png\r\nAuthorization: Basic eDp5\r\n",
    ];
    let mut requests = Vec::new();
    for directory in [
        "",
        "constant/",
        "constant/below/",
        "client/",
        "sections/",
        "rules/",
        "blog/",
        "access/",
        "zip/",
    ] {
        for name in ["one.own", "two.own?a=b", "long.txt", "page.html.en", "a.tar.gz", "none"] {
            for method in ["GET", "HEAD"] {
                for fields in fields {
                    let host = "Host: localhost\r\nConnection: close\r\n";
                    requests.push(format!(
                        "{method} /{directory}{name} HTTP/1.1\r\n{host}{fields}\r\n"
                    ));
                }
            }
        }
    }
    let site = site_of_all_kinds();
    let server = site.serve();
    let answer = |request: &String| {
        let mut answer = server.send(request);
        answer.fields.retain(|(name, _)| name != "Date");
        (answer.status, answer.fields, answer.body)
    };
    // A file that was written a moment ago is not kept, so its content is unknown at first.
    let first: Vec<_> = requests.iter().map(answer).collect();
    std::thread::sleep(std::time::Duration::from_secs(3));
    for round in 0..3 {
        for (request, first) in requests.iter().zip(&first) {
            assert_eq!(answer(request), *first, "round {round}: {request}");
        }
    }
}
