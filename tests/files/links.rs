//! Symbolic links in a site: which ones are followed, and files that they never show. Over sockets,
//! for `howdah serve DIR` and for a document; the rule itself is tested beside the code.
//!
//! As root the links belong to a user of their own and the server runs as `www-data`. Without root,
//! the links belong to the user that runs the test, and `/etc/passwd` stands for the file of
//! another.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use harness::{Ends, Server, Site, open_to_all, programs, requirements, users};
use serde_json::{Value, json};

/// Text that no response may contain.
const SECRET: &str = "SECRET-CONTENT";

/// User of the site whose links are tested. No user needs to have this number.
const OWNER: u32 = 54_321;

/// User of another site.
const OTHER: u32 = 54_322;

/// A file that holds the secret and belongs to a user, readable for all users.
fn secret(path: &Path, owner: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("<?php /* {SECRET} */ echo 'RAN';")).unwrap();
    open_to_all(path, 0o644);
    give(path, owner);
}

/// Gives a file or a link to a user, if this process may.
fn give(path: &Path, owner: u32) {
    if requirements::is_root() {
        lchown(path, Some(owner), Some(owner)).unwrap();
    }
}

/// Makes a link that belongs to the site's user.
fn link(site: &Site, target: impl AsRef<Path>, name: &str) {
    let path = site.root().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, &path).unwrap();
    give(&path, OWNER);
}

/// A path beside the document root.
fn beside(site: &Site, name: &str) -> PathBuf {
    site.root().with_file_name(name)
}

/// Serves a site by its directory, by a document, and by a document that has all links followed.
fn serve_each(build: impl Fn() -> Site) -> [Server; 3] {
    let all = build();
    let action = share_of(&all, json!({"follow_symlinks": true}));
    let all = all.with(json!({"routes": [{"action": action}]}));
    [build().serve(), build().with(json!({})).serve(), all.serve()]
}

/// The action that serves a site, with changes.
fn share_of(site: &Site, changes: Value) -> Value {
    let mut action = site.document("*:80")["routes"][0]["action"].clone();
    harness::merge(&mut action, changes);
    action
}

/// Fails if the response shows a secret or is a success.
fn assert_refused(server: &Server, target: &str) {
    for fields in ["", "Accept-Encoding: gzip, br, zstd\r\n", "Range: bytes=0-100\r\n"] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        let response = server.send(request);
        let text = response.text();
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {response:?}");
        assert!(matches!(response.status, 403 | 404), "{target}: {response:?}");
    }
}

#[test]
fn a_link_to_a_source_or_a_dot_file_is_not_sent() {
    let build = || {
        let site = Site::new()
            .file("index.html", "home")
            .file("secret.php", format!("<?php /* {SECRET} */ echo 'RAN';"))
            .file("old.php.bak", SECRET)
            .file("upper.PHP", SECRET)
            .file(".env", SECRET)
            .file(".git/config", SECRET)
            .file(".git/objects/index.html", SECRET)
            .file("a/.htpasswd", SECRET)
            .file("plain.css", "plain");
        let root = site.root();
        for (target, name) in [
            ("secret.php", "link.txt"),
            ("secret.php", "link.html"),
            ("old.php.bak", "old.txt"),
            ("upper.PHP", "upper.txt"),
            (".env", "env.txt"),
            ("a/.htpasswd", "users.txt"),
            (".git", "git"),
            (".git/objects", "objects"),
            ("git", "chained"),
            ("link.txt", "chain.txt"),
            ("../www/./a/../secret.php", "roundabout.txt"),
            ("secret.php", "plain.css.gz"),
            (".env", "plain.css.br"),
            ("../secret.php", "directory/index.html"),
        ] {
            link(&site, target, name);
        }
        link(&site, root.join("secret.php"), "absolute.txt");
        link(&site, root.join(".git/config"), "absolute-config");
        site
    };
    for server in serve_each(build) {
        for target in [
            "/link.txt",
            "/link.html",
            "/old.txt",
            "/upper.txt",
            "/env.txt",
            "/users.txt",
            "/git",
            "/git/",
            "/git/config",
            "/objects/",
            "/objects/index.html",
            "/chained/config",
            "/chain.txt",
            "/roundabout.txt",
            "/directory/",
            "/directory/index.html",
            "/absolute.txt",
            "/absolute-config",
        ] {
            assert_refused(&server, target);
        }
        let coded = "GET /plain.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n";
        let response = server.send(coded);
        assert_eq!((response.status, response.text()), (200, "plain".into()), "{response:?}");
    }
}

#[test]
fn a_link_to_what_belongs_to_another_user_is_not_followed() {
    let build = || {
        let site = Site::new().file("index.html", "home").file("plain.css", "plain");
        if requirements::is_root() {
            let other = beside(&site, "other");
            secret(&other.join("data.txt"), OTHER);
            secret(&other.join("config.php"), OTHER);
            give(&other, OTHER);
            // Only the server, of the group of the file, may read this.
            secret(&other.join("private.txt"), OTHER);
            open_to_all(&other.join("private.txt"), 0o640);
            lchown(other.join("private.txt"), Some(OTHER), users::www_data().1).unwrap();
            for name in ["data.txt", "config.php", "private.txt"] {
                link(&site, other.join(name), &format!("absolute-{name}"));
                link(&site, Path::new("../other").join(name), &format!("relative-{name}"));
            }
            link(&site, &other, "other");
            link(&site, "../other/data.txt", "plain.css.gz");
        }
        link(&site, "/etc/passwd", "passwd");
        link(&site, "/etc/passwd", "passwd.txt");
        link(&site, "/etc", "etc");
        link(&site, "/", "system");
        link(&site, "passwd.txt", "chain.txt");
        link(&site, "/etc/passwd", "plain.css.br");
        link(&site, "/etc/passwd", "directory/index.html");
        link(&site, "/proc/self/environ", "environ");
        link(&site, "/proc/self/cwd", "cwd");
        link(&site, "/proc/self/root", "again");
        link(&site, "/proc/thread-self/fd/0", "descriptor");
        link(&site, "/dev/zero", "zero");
        site
    };
    let [directory, document, _] = serve_each(build);
    for server in [directory, document] {
        for target in [
            "/passwd",
            "/passwd.txt",
            "/etc/passwd",
            "/etc/",
            "/etc",
            "/system/etc/passwd",
            "/chain.txt",
            "/directory/",
            "/environ",
            "/cwd/etc/passwd",
            "/again/etc/passwd",
            "/descriptor",
            "/zero",
        ] {
            assert_refused(&server, target);
        }
        if requirements::is_root() {
            for target in [
                "/absolute-data.txt",
                "/relative-data.txt",
                "/absolute-config.php",
                "/relative-config.php",
                "/absolute-private.txt",
                "/relative-private.txt",
                "/other/data.txt",
                "/other/config.php",
                "/other/private.txt",
                "/other/config.php/x",
                "/other",
                "/other/",
            ] {
                assert_refused(&server, target);
            }
        }
        let coded = "GET /plain.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip, br\r\n\r\n";
        assert_eq!(server.send(coded).text(), "plain");
        let log = server.wait_for_log("symbolic link");
        assert!(log.contains("follow_symlinks"), "{log}");
    }
}

#[test]
fn what_a_script_links_to_is_not_sent() {
    let code = "@unlink(\"files/$_GET[n]\"); var_dump(symlink($_GET['t'], \"files/$_GET[n]\"));";
    let site = Site::script("make.php", code).file("files/a.txt", "a").file(".env", SECRET);
    open_to_all(&site.root().join("files"), 0o777);
    let server = site.serve();
    for (n, target) in ["/etc/passwd", "../.env", "../make.php", "/etc/hostname", "/proc/self/maps"]
        .into_iter()
        .enumerate()
    {
        let made = server.get(&format!("/make.php?n=link{n}.txt&t={target}"));
        assert_eq!(made.text(), "bool(true)\n");
        let response = server.get(&format!("/files/link{n}.txt"));
        assert!(matches!(response.status, 403 | 404), "{target}: {response:?}");
    }
    server.get("/make.php?n=good.txt&t=a.txt");
    assert_eq!(server.get("/files/good.txt").text(), "a", "a link inside the root is followed");
}

#[test]
fn links_inside_the_root_and_to_the_owners_files_are_followed() {
    let build = || {
        let site = Site::new()
            .file("index.html", "home")
            .file("docs/index.html", "docs")
            .file("docs/run.php", "<?php echo 'ran ', basename(__FILE__);");
        let shared = beside(&site, "shared");
        fs::create_dir_all(shared.join("deep")).unwrap();
        for name in ["a.txt", "deep/b.txt", "c.php"] {
            fs::write(shared.join(name), "<?php echo 'shared';").unwrap();
        }
        for name in ["", "a.txt", "deep", "deep/b.txt", "c.php"] {
            give(&shared.join(name), OWNER);
        }
        link(&site, "docs", "relative");
        link(&site, site.root().join("docs"), "absolute");
        link(&site, "relative/../absolute", "chain");
        link(&site, "../shared", "shared");
        link(&site, beside(&site, "shared/a.txt"), "a.txt");
        link(&site, "docs/run.php", "again.php");
        site
    };
    for server in serve_each(build) {
        for directory in ["relative", "absolute", "chain"] {
            assert_eq!(server.get(&format!("/{directory}/")).text(), "docs");
            let redirect = server.get(&format!("/{directory}"));
            assert_eq!(redirect.field("location"), Some(&*format!("/{directory}/")));
            assert_eq!(server.get(&format!("/{directory}/run.php")).text(), "ran run.php");
        }
        assert!(server.get("/a.txt").text().contains("shared"));
        assert!(server.get("/shared/deep/b.txt").text().contains("shared"));
        assert_eq!(server.get("/shared/c.php").text(), "shared");
        assert_eq!(server.get("/again.php").text(), "ran run.php");
    }
}

/// As Debian's WordPress has it: the package's links belong to root, and their targets partly to
/// www-data.
#[test]
fn links_of_root_lead_where_the_administrator_means_them_to() {
    if !requirements::root() {
        return;
    }
    let build = || {
        let site = Site::new().file("blog.php", "<?php echo 'blog';");
        let content = beside(&site, "content");
        fs::create_dir_all(content.join("uploads/2026")).unwrap();
        fs::create_dir_all(content.join("themes/x")).unwrap();
        fs::write(content.join("uploads/2026/a.jpg"), "picture").unwrap();
        fs::write(content.join("themes/x/style.css"), "style").unwrap();
        fs::write(content.join("themes/x/x.php"), "<?php echo 'theme';").unwrap();
        secret(&beside(&site, "wp-config"), OTHER);
        let (user, group) = users::www_data();
        for name in ["", "uploads", "uploads/2026", "uploads/2026/a.jpg", "themes", "themes/x"] {
            lchown(content.join(name), user, group).unwrap();
        }
        symlink(beside(&site, "wp-config"), content.join("uploads/config.txt")).unwrap();
        lchown(content.join("uploads/config.txt"), user, group).unwrap();
        symlink(&content, site.root().join("wp-content")).unwrap();
        symlink("../content/themes/x/style.css", site.root().join("style.css")).unwrap();
        site
    };
    for server in [build().serve(), build().with(json!({})).serve()] {
        assert_eq!(server.get("/wp-content/uploads/2026/a.jpg").text(), "picture");
        assert_eq!(server.get("/wp-content/themes/x/style.css").text(), "style");
        assert_eq!(server.get("/wp-content/themes/x/x.php").text(), "theme");
        assert_eq!(server.get("/style.css").text(), "style");
        assert_refused(&server, "/wp-content/uploads/config.txt");
    }
}

#[test]
fn a_document_decides_about_links_as_one_for_unit_does() {
    let site = Site::new().file("index.html", "home").file("secret.php", SECRET);
    let outside = beside(&site, "outside.txt");
    fs::write(&outside, "outside").unwrap();
    give(&outside, OTHER);
    link(&site, "../outside.txt", "out.txt");
    link(&site, "/etc/passwd", "passwd");
    link(&site, "index.html", "in.html");
    link(&site, "secret.php", "source.txt");
    let all = share_of(&site, json!({"follow_symlinks": true}));
    let none = share_of(&site, json!({"follow_symlinks": false}));
    let chroot = share_of(&site, json!({"chroot": site.root().join("")}));
    let step = |host: &str, action: Value| json!({"match": {"host": host}, "action": action});
    let server = site
        .with(json!({"routes": [step("all", all), step("none", none), step("chroot", chroot)]}))
        .serve();
    let get = |host: &str, target: &str| {
        server.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    assert_eq!(get("all", "/out.txt").text(), "outside");
    assert_eq!(get("all", "/in.html").text(), "home");
    assert_eq!(get("chroot", "/in.html").text(), "home");
    for (host, target, status) in [
        ("all", "/source.txt", 404),
        ("none", "/out.txt", 403),
        ("none", "/in.html", 403),
        ("none", "/source.txt", 403),
        ("chroot", "/out.txt", 404),
        ("chroot", "/passwd", 404),
        ("chroot", "/source.txt", 404),
    ] {
        let response = get(host, target);
        assert_eq!(response.status, status, "{host}{target}: {response:?}");
    }
}

#[test]
fn a_document_root_behind_a_link_that_is_not_followed_is_told_beforehand() {
    let site = Site::new();
    link(&site, "/etc", "etc");
    let root = site.root().join("etc");
    let document = |action: Value| json!({"routes": [{"action": action}]}).to_string();
    let share = format!("{}/apt$uri", root.display());
    let pages = json!({"404": root.join("passwd")});
    let path = site.data().join("document.json");
    let check = |action: Value| {
        fs::write(&path, document(action)).unwrap();
        let mut command = Command::new(programs::howdah());
        let output = programs::run(command.arg("check").arg(&path));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let name = root.display();
    for (action, key) in [
        (json!({"share": share}), "share"),
        (json!({"share": "/none$uri", "chroot": root.join("apt")}), "chroot"),
        (json!({"return": 404, "error_pages": pages}), "error_pages/404"),
    ] {
        let warnings = check(action);
        let expected = format!("/routes/0/action/{key}: the symbolic link {name} of user ");
        assert!(warnings.contains(&expected) && warnings.contains("follow_symlinks"), "{warnings}");
    }
    let all = check(json!({"share": share, "follow_symlinks": true}));
    assert!(!all.contains("symbolic"), "{all}");
    let mut command = Command::new(programs::howdah());
    let output = programs::run(
        command
            .args(["serve", "--listen", &harness::free_address().to_string()])
            .arg(root.join("apt")),
    );
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let expected = format!("howdah: cannot serve {name}/apt: the symbolic link {name} of user ");
    assert!(problem.starts_with(&expected) && problem.contains("name the directory"), "{problem}");
}

#[test]
fn candidates_fallbacks_pages_and_delegated_files_follow_no_foreign_link() {
    let code = "header(\"$_GET[h]: $_GET[v]\");";
    let site = Site::script("send.php", code).file("index.html", "home");
    link(&site, "/etc/passwd", "passwd");
    link(&site, "/etc/passwd", "pages/404.html");
    link(&site, "send.php", "source.txt");
    let root = site.root();
    let files = share_of(&site, json!({"try": ["$uri", "/passwd", "/source.txt"]}));
    let fallback = json!({"share": format!("{}/passwd", root.display())});
    let missing = json!({"share": "/nowhere$uri", "fallback": fallback});
    let pages = json!({"return": 404, "error_pages": {"404": root.join("pages/404.html")}});
    let step = |host: &str, action: &Value| json!({"match": {"host": host}, "action": action});
    let share = share_of(&site, json!({}));
    let server = site
        .with(json!({
            "routes": [step("try", &files), step("missing", &missing), step("pages", &pages),
                       {"action": share}],
            "applications": {"site": {"internal_redirect": "routes", "sendfile": [&root]}},
        }))
        .serve();
    let get = |host: &str, target: &str| {
        server.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    };
    let sent = |header: &str, value: &str| get("a", &format!("/send.php?h={header}&v={value}"));
    let passwd = root.join("passwd").display().to_string();
    let source = root.join("source.txt").display().to_string();
    for response in [
        get("try", "/none"),
        get("try", "/passwd"),
        get("missing", "/x"),
        get("pages", "/x"),
        sent("X-Accel-Redirect", "/passwd"),
        sent("X-Accel-Redirect", "/source.txt"),
        sent("X-Sendfile", &passwd),
        sent("X-Sendfile", &source),
    ] {
        assert!(matches!(response.status, 403 | 404), "{response:?}");
        let text = response.text();
        assert!(!text.contains("root:") && !text.contains("header("), "{response:?}");
    }
    assert_eq!(sent("X-Accel-Redirect", "/index.html").text(), "home");
}

/// While a link is swapped between a directory of the root, one whose name hides it and one of
/// another user, no request gets a file of the latter two.
#[test]
fn a_link_that_is_swapped_all_the_time_never_shows_a_secret() {
    const SWAPS: u32 = 100_000;
    // Each file is asked for once, so that no answer comes out of the cache.
    const FILES: usize = 5000;
    let site = Site::new().file("index.html", "home");
    let root = site.root();
    for (directory, contents) in [("real", "inside"), (".git", SECRET), ("../other", SECRET)] {
        let directory = root.join(directory);
        fs::create_dir(&directory).unwrap();
        give(&directory, OTHER);
        (0..FILES).for_each(|n| fs::write(directory.join(n.to_string()), contents).unwrap());
    }
    // Without root, the other directory would be the link's owner's.
    let targets = ["real", ".git", if requirements::is_root() { "../other" } else { "/root" }];
    let server = site.serve();
    let (ending, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let ended = Ends(&ending);
        scope.spawn(|| {
            let (link, new) = (root.join("link"), root.join("new"));
            while !ending.load(Ordering::Relaxed) {
                for target in targets {
                    symlink(target, &new).unwrap();
                    give(&new, OWNER);
                    fs::rename(&new, &link).unwrap();
                    swaps.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let mut client = server.connect();
        let mut sent = 0;
        for n in (0..FILES).cycle() {
            let response = client.get(&format!("/link/{n}"));
            assert!(!response.text().contains(SECRET), "{response:?}");
            sent += u32::from(response.status == 200);
            if n + 1 == FILES && swaps.load(Ordering::Relaxed) >= SWAPS {
                break;
            }
        }
        drop(ended);
        assert!(sent > 0, "links are followed where they may be");
    });
}

/// Answers every request on a unix socket that belongs to a user, and is open to all.
fn answering_socket(path: &Path, owner: u32, body: &'static str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let listener = UnixListener::bind(path).unwrap();
    open_to_all(path, 0o666);
    [path, path.parent().unwrap()].into_iter().for_each(|path| give(path, owner));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n");
            let _ = write!(stream, "{head}Connection: close\r\n\r\n{body}");
        }
    });
}

/// A site that passes requests to the socket of this name beside its root.
fn passes_to(site: Site, name: &str) -> Site {
    let socket = format!("unix:{}", beside(&site, name).display());
    let health = json!({"uri": "/", "interval": 1, "fall": 1});
    site.with(json!({
        "routes": [
            {"match": {"uri": "/proxy"}, "action": {"proxy": format!("http://{socket}")}},
            {"match": {"uri": "/upstream"}, "action": {"pass": "upstreams/checked"}},
            {"match": {"uri": "/fpm"}, "action": {"pass": "applications/fpm"}},
        ],
        "upstreams": {"checked": {"servers": {socket.clone(): {}}, "health": health}},
        "applications": {"fpm": {
            "type": "fastcgi", "server": socket, "root": "/nowhere", "script": "index.php",
        }},
    }))
}

#[test]
fn an_upstreams_socket_is_reached_by_its_name_and_by_links_that_are_followed() {
    for (target, name, owner) in
        [("", "a/app.sock", OWNER), ("app.sock", "a/own.sock", OWNER), ("a", "roots", 0)]
    {
        let site = Site::new();
        answering_socket(&beside(&site, "a/app.sock"), OWNER, "from the application");
        if !target.is_empty() {
            symlink(target, beside(&site, name)).unwrap();
            give(&beside(&site, name), owner);
        }
        let name = if name == "roots" { "roots/app.sock" } else { name };
        let server = passes_to(site, name).serve();
        for target in ["/proxy", "/upstream"] {
            let response = server.get(target);
            assert_eq!(
                (response.status, &*response.text()),
                (200, "from the application"),
                "{name}"
            );
        }
    }
}

#[test]
fn a_link_in_the_place_of_an_upstreams_socket_does_not_lead_to_that_of_another_user() {
    if !requirements::root() {
        return;
    }
    for (target, name, socket) in
        [("../b/private.sock", "a/app.sock", "a/app.sock"), ("../b", "a/run", "a/run/private.sock")]
    {
        let site = Site::new();
        answering_socket(&beside(&site, "b/private.sock"), OTHER, SECRET);
        let link = beside(&site, name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        give(&link, OWNER);
        let server = passes_to(site, socket).serve();
        let refused = format!(
            "the symbolic link {} of user {OWNER} leads to a target of user {OTHER}, and is not \
             followed",
            fs::canonicalize(link.parent().unwrap())
                .unwrap()
                .join(link.file_name().unwrap())
                .display()
        );
        server.wait_for_log(&format!("is unhealthy: cannot connect: {refused}"));
        for target in ["/proxy", "/upstream", "/fpm"] {
            let response = server.get(target);
            assert!(matches!(response.status, 502 | 503), "{target}: {response:?}");
            assert!(!response.text().contains(SECRET), "{target}: {response:?}");
        }
        let times = server.log().matches(&refused).count();
        assert!(times >= 3, "a check and two requests tell it: {}", server.log());
    }
}
