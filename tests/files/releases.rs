//! Deployments that replace a symbolic link, while visitors come.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use harness::{Ends, Server, Site, eventually};
use serde_json::json;

/// Says which release each part of a request is of: the script itself, what it includes by its own
/// directory and by the document root before and after a pause, and where the server says it is.
const SCRIPT: &str = "<?php
    $parts = [basename(dirname(__DIR__))];
    $parts[] = include __DIR__ . '/part.php';
    $parts[] = include $_SERVER['DOCUMENT_ROOT'] . '/part.php';
    usleep(2000);
    $parts[] = include $_SERVER['DOCUMENT_ROOT'] . '/late.php';
    $parts[] = basename(dirname($_SERVER['SCRIPT_FILENAME'], 2));
    $parts[] = basename(dirname(realpath('part.php'), 2));
    echo implode(' ', array_unique($parts));";

fn release(site: &Path, name: &str) {
    let public = site.join("releases").join(name).join("public");
    fs::create_dir_all(&public).unwrap();
    for (file, text) in [
        ("index.php", SCRIPT.to_owned()),
        ("part.php", format!("<?php return '{name}';")),
        ("late.php", format!("<?php return '{name}';")),
        ("version.txt", name.to_owned()),
    ] {
        fs::write(public.join(file), text).unwrap();
        harness::open_to_all(&public.join(file), 0o644);
    }
}

/// Points the link at a release, as deployments do: at once.
fn switch(site: &Path, name: &str) {
    let new = site.join("current.new");
    symlink(Path::new("releases").join(name), &new).unwrap();
    fs::rename(new, site.join("current")).unwrap();
}

fn serve() -> Server {
    let site = Site::new();
    let root = site.root();
    release(&root, "1");
    switch(&root, "1");
    let public = root.join("current/public");
    let share = format!("{}$uri", public.display());
    site.with(json!({
        "routes": [{"action": {
            "share": share, "try": ["$uri", "$uri/", "/index.php"], "index": "index.php",
            "scripts": "applications/site",
        }}],
        "applications": {"site": {"root": public}},
    }))
    .serve()
}

#[test]
fn a_swapped_link_loses_no_request_and_none_sees_two_releases() {
    let server = serve();
    let root = server.site.root();
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let ended = Ends(&over);
        for target in ["/", "/blog/post", "/version.txt"] {
            let (server, over, answers) = (&server, &over, &answers);
            scope.spawn(move || {
                let mut client = server.connect();
                while !over.load(Ordering::Relaxed) {
                    let response = client.get(target);
                    let text = response.text();
                    assert!(response.status == 200 && text.parse::<u32>().is_ok(), "{response:?}");
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 2..=20 {
            let name = number.to_string();
            release(&root, &name);
            let before = answers.load(Ordering::Relaxed);
            switch(&root, &name);
            eventually("visitors come", || {
                let come = answers.load(Ordering::Relaxed) - before;
                (come > 10 || over.load(Ordering::Relaxed)).then_some(())
            });
        }
        drop(ended);
    });
    for target in ["/", "/version.txt"] {
        eventually("the last release is served", || {
            (server.get(target).text() == "20").then_some(())
        });
    }
    // A release that is gone is not kept: a new request finds the present one at once.
    release(&root, "21");
    switch(&root, "21");
    for old in 1..=20 {
        fs::remove_dir_all(root.join("releases").join(old.to_string())).unwrap();
    }
    assert_eq!(server.get("/index.php").text(), "21");
}

#[test]
fn scripts_see_where_the_document_root_really_is() {
    let server = serve();
    let root = server.site.root();
    let code = "<?php echo json_encode([$_SERVER['SCRIPT_FILENAME'], $_SERVER['DOCUMENT_ROOT'],
        $_SERVER['PATH_TRANSLATED'] ?? null, $_SERVER['SCRIPT_NAME'], getcwd()]);";
    let public = root.join("releases/1/public");
    fs::write(public.join("tell.php"), code).unwrap();
    harness::open_to_all(&public.join("tell.php"), 0o644);
    let real = public.canonicalize().unwrap().display().to_string();
    let told: serde_json::Value = serde_json::from_slice(&server.get("/tell.php/x").body).unwrap();
    let expected =
        json!([format!("{real}/tell.php"), real, format!("{real}/x"), "/tell.php", real]);
    assert_eq!(told, expected);
}

#[test]
fn the_rules_of_a_release_hold_behind_the_link_and_from_the_next_request_after_the_switch() {
    let site = Site::new();
    let root = site.root();
    for name in ["1", "2"] {
        release(&root, name);
        let public = root.join("releases").join(name).join("public");
        fs::create_dir(public.join(".well-known")).unwrap();
        for (file, text) in [
            (".htaccess", format!("Header set X-Release {name}\n")),
            ("sub/.htaccess", "Header set X-Below yes\n".to_owned()),
            ("sub/a.txt", "below".to_owned()),
            ("secret/.htaccess", "Require all denied\n".to_owned()),
            ("secret/a.txt", "secret".to_owned()),
            (".well-known/a.txt", "known".to_owned()),
        ] {
            fs::create_dir_all(public.join(file).parent().unwrap()).unwrap();
            fs::write(public.join(file), text).unwrap();
            harness::open_to_all(&public.join(file), 0o644);
        }
        symlink("sub", public.join("link")).unwrap();
        symlink("secret", public.join("closed")).unwrap();
    }
    switch(&root, "1");
    let public = root.join("current/public");
    let server = site
        .with(json!({
            "routes": [{"action": {"pass": "applications/site"}}],
            "applications": {"site": {"root": public, "htaccess": true}},
        }))
        .serve();
    for release in ["1", "2", "1"] {
        switch(&root, release);
        for (target, status, below) in [
            ("/version.txt", 200, None),
            ("/index.php", 200, None),
            ("/sub/a.txt", 200, Some("yes")),
            ("/link/a.txt", 200, Some("yes")),
            ("/.well-known/a.txt", 200, None),
            ("/secret/a.txt", 403, None),
            ("/closed/a.txt", 403, None),
        ] {
            let response = server.get(target);
            assert_eq!(response.status, status, "{target}: {response:?}\n{}", server.log());
            assert_eq!(response.field("X-Below"), below, "{target}");
            if status == 200 {
                assert_eq!(response.field("X-Release"), Some(release), "{target}");
            }
        }
    }
}
