//! Tests named after the attack classes of the release checklist.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use howdah_config::Symlinks;
use howdah_http::body::{Body, Piece};
use howdah_http::error_status::RequestError;

use super::swapping::{exchange, swap_while_asking};
use super::*;

/// Content that must never appear in a response.
const SECRET: &str = "<?php $password = 'hunter2';";

/// Class 1: a path below a file that is not a script runs no script.
#[test]
fn a_file_in_front_of_php_never_runs() {
    let site = Site::scripts();
    site.write("upload/a.jpg", SECRET);
    for path in [
        "/upload/a.jpg/x.php",
        "/upload/a.jpg/.php",
        "/upload/a.jpg/x.php/y",
        "/upload/a.jpg\0.php",
    ] {
        assert_eq!(site.missing(path), NotServedReason::NotFound, "{path:?}");
    }
}

/// Class 3: PATH_INFO is exactly the rest after the script's name, line feeds included.
#[test]
fn path_info_is_exact() {
    let site = Site::scripts();
    site.write("i.php", SECRET);
    for info in ["/\n", "/\n/x.php\n", "/%0a", "//", "/i.php/i.php"] {
        assert_eq!(
            site.script("GET", format!("/i.php{info}")),
            ("/i.php".to_owned(), info.to_owned())
        );
    }
    assert_eq!(site.missing("/i.php\n"), NotServedReason::NotFound);
}

/// Classes 4, 5 and 58: files with look-alike names and copies of scripts exist; they neither run
/// nor are sent, by any method, range or coding.
#[test]
fn php_source_is_never_sent() {
    let names = [
        "x.PHP",
        "x.php.",
        "x.php ",
        "x.php%20",
        "x.php~",
        "x.phps",
        "x.phtml",
        "x.phar",
        "x.php5",
        "x.php.bak",
        "x.php.swp",
        "x.php.old",
        "x.php.orig",
        "x.php.save",
        "#x.php#",
        "x.ｐｈｐ",
        "x﹒php",
        "x.ⓟⓗⓟ",
        "ȺȺȺx.txt.pHp",
        "x.php.gz",
        "x.php\u{200b}",
        "x.php,v",
        "x.php.txt",
    ];
    let all = [("Range", "bytes=0-3"), ("Accept-Encoding", "gzip, br"), ("If-Range", "\"x\"")];
    for site in [Site::plain(), Site::scripts()] {
        site.write("x.html", "");
        for name in names {
            site.write(name, SECRET);
            site.write(&format!("{name}.br"), SECRET);
            for path in [
                format!("/{name}"),
                format!("/{name}/"),
                format!("/{name}/y"),
                format!("/{name}.br"),
            ] {
                for method in ["GET", "HEAD"] {
                    for fields in [&all[..], &[]] {
                        let outcome = site.outcome(&request(method, path.as_bytes(), b"", fields));
                        assert!(
                            matches!(
                                outcome,
                                Err(ServeOutcome::NotServed(NotServedReason::NotFound))
                            ),
                            "{path:?}: {outcome:?}"
                        );
                    }
                }
            }
        }
    }
    let plain = Site::plain();
    plain.write("x.php", SECRET);
    plain.write("d/index.php", SECRET);
    for path in ["/x.php", "/x.php/", "/x.php/y", "/d/index.php"] {
        assert_eq!(plain.missing(path), NotServedReason::NotFound);
    }
}

/// Class 5: a share without scripts whose index is a script does not send it either.
#[test]
fn an_index_is_no_way_around_the_name() {
    let site = Site::new(Options { index: vec!["index.php".to_owned()], ..Options::default() });
    site.write("index.php", SECRET);
    assert_eq!(site.missing("/"), NotServedReason::NotFound);
}

/// Class 19: the lookup stays under its root even if the layers above pass a traversal.
#[test]
fn traversal_is_refused_by_the_lookup_itself() {
    let site = Site::scripts();
    fs::write(site.root.path().join("secret.txt"), SECRET).unwrap();
    fs::write(site.root.path().join("secret.php"), SECRET).unwrap();
    fs::create_dir(site.root.path().join("www-private")).unwrap();
    fs::write(site.root.path().join("www-private/x.txt"), SECRET).unwrap();
    site.write("img/x.txt", "x");
    site.write("i.php", "");
    for path in [
        "/../secret.txt",
        "/img/../../secret.txt",
        "/./../secret.txt",
        "/..",
        "/.",
        "/img/..",
        "/img/../",
        "../secret.txt",
        "-private/x.txt",
        "..",
        "",
        "secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/..\\secret.txt",
        "/\\../secret.txt",
        "/.%00./secret.txt",
        "/\0",
        "/img/x.txt\0.html",
        "/img../secret.txt",
        "/../secret.php",
        "/../secret.php/x",
        "/img/../../secret.php/x",
    ] {
        assert_eq!(site.missing(path), NotServedReason::NotFound, "{path:?}");
    }
    for path in [
        &b"/\xc0\xae\xc0\xae/secret.txt"[..],
        b"/\xe0\x80\xae\xe0\x80\xae/secret.txt",
        b"/\xc0\xaf",
    ] {
        assert_eq!(site.missing(path), NotServedReason::NotFound);
    }
    let long = format!("/{}", "a/".repeat(5000));
    assert_eq!(site.missing(long), NotServedReason::NotFound);
}

/// Class 20: while a directory and a link to the outside are swapped continuously, no lookup of a
/// share without links follows the link.
#[test]
fn symlink_swap_never_escapes() {
    let site = Site::new(Options { symlinks: Symlinks::None, ..Options::default() });
    swap_directory_and_link(&site, b"");
}

/// Class 20: the same within a chroot, where links are followed but cannot leave it.
#[test]
fn symlink_swap_never_leaves_a_chroot() {
    let site = Site::plain();
    let chroot = site.path("");
    swap_directory_and_link(&site, chroot.as_os_str().as_bytes());
}

fn swap_directory_and_link(site: &Site, chroot: &[u8]) {
    let outside = site.root.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("f.txt"), SECRET).unwrap();
    site.write("d/f.txt", "inside");
    symlink("../outside", site.path("link")).unwrap();
    let (directory, link) = (site.path("d"), site.path("link"));
    swap_while_asking(site, chroot, "/d/f.txt", |_| exchange(&directory, &link));
}

/// Class 20: the result of each policy for each kind of link.
#[test]
fn links_follow_the_policy_of_the_share() {
    let site = Site::plain();
    let outside = site.root.path().join("outside.txt");
    fs::write(&outside, "outside").unwrap();
    site.write("d/f.txt", "inside");
    symlink("f.txt", site.path("d/in")).unwrap();
    symlink(&outside, site.path("d/out")).unwrap();
    symlink("loop", site.path("d/loop")).unwrap();
    symlink("/proc/self/fd/1", site.path("d/fd")).unwrap();
    symlink("/proc/self/exe", site.path("d/exe")).unwrap();
    let strict =
        Share::new(site.path(""), Options { symlinks: Symlinks::None, ..Options::default() });
    let moved = site.root.path().join("moved");
    symlink(site.path(""), &moved).unwrap();
    let moved = Share::new(&moved, Options { symlinks: Symlinks::None, ..Options::default() });
    let jail = site.path("d");
    let serve = |share: &Share, chroot: &[u8], path: &'static str| {
        let request = request("GET", path.as_bytes(), b"", &[]);
        let place = FileLocation { chroot, ..share.place(&request.path) };
        match site.files.answer(share, place, &request, site.now) {
            Ok(response) => response.status,
            Err(ServeOutcome::NotServed(reason)) => RequestError::from(reason).status(),
            Err(_) => panic!(),
        }
    };
    let jail = jail.as_os_str().as_bytes();
    for (path, follow, no_links, jailed) in [
        ("/d/f.txt", 200, 200, 200),
        ("/d/in", 200, 403, 200),
        ("/d/out", 200, 403, 404),
        ("/d/loop", 403, 403, 403),
        ("/d/fd", 403, 403, 404),
        ("/d/exe", 403, 403, 404),
        ("/x.txt", 404, 404, 403),
    ] {
        assert_eq!(serve(&site.share, b"", path), follow, "{path} with links");
        assert_eq!(serve(&strict, b"", path), no_links, "{path} without links");
        assert_eq!(serve(&site.share, jail, path), jailed, "{path} in a chroot");
    }
    assert_eq!(serve(&moved, b"", "/d/f.txt"), 403, "the root itself is reached through a link");
}

/// Class 20: mounts are crossed only where the share allows it. /proc is a mount in every process.
#[test]
fn mounts_follow_the_policy_of_the_share() {
    let site = Site::plain();
    let status = |options: Options| {
        let share = Share::new("", options);
        let asked = request("GET", b"/proc/version", b"", &[]);
        match site.files.answer(&share, share.place(b"/proc/version"), &asked, site.now) {
            Ok(response) => response.status,
            Err(ServeOutcome::NotServed(reason)) => RequestError::from(reason).status(),
            Err(_) => panic!(),
        }
    };
    assert_eq!(status(Options::default()), 200);
    assert_eq!(status(Options { traverse_mounts: false, ..Options::default() }), 403);
}

/// Class 21: dot files exist and are not sent.
#[test]
fn dot_files_are_not_sent() {
    for site in [Site::plain(), Site::scripts()] {
        for name in [
            ".htaccess",
            ".htpasswd",
            ".user.ini",
            ".env",
            ".git/config",
            ".git/index.html",
            "a/.svn/x",
            ".x.php",
            ".git/x.php",
            ".php",
            ".ENV",
        ] {
            site.write(name, SECRET);
            assert_eq!(site.missing(format!("/{name}")), NotServedReason::NotFound, "{name}");
            assert_eq!(site.missing(format!("/{name}/x")), NotServedReason::NotFound, "{name}");
        }
        assert_eq!(site.missing("/.git/"), NotServedReason::NotFound);
        assert_eq!(site.missing("/.git"), NotServedReason::NotFound);
        site.write(".well-known/acme-challenge/token", "answer");
        assert_eq!(site.get("/.well-known/acme-challenge/token", &[]).body, b"answer");
    }
}

/// Class 28: a thousand overlapping ranges get the whole file, and the response to the maximum
/// number of ranges stays in proportion to the file.
#[test]
fn many_ranges_do_not_multiply_a_file() {
    let site = Site::plain();
    site.write("a.txt", vec![b'x'; 100_000]);
    let many = format!("bytes={}", vec!["0-"; 1000].join(","));
    assert_eq!(site.get("/a.txt", &[("Range", &many)]).status(), 200);
    let overlapping: Vec<String> = (0..64).map(|n| format!("{n}-")).collect();
    let answer = site.get("/a.txt", &[("Range", &format!("bytes={}", overlapping.join(",")))]);
    assert_eq!((answer.status(), answer.body.len()), (206, 100_000));
    let apart: Vec<String> = (0..64).map(|n| format!("{}-{}", n * 2, n * 2)).collect();
    let answer = site.get("/a.txt", &[("Range", &format!("bytes={}", apart.join(",")))]);
    assert_eq!(answer.status(), 206);
    assert!(answer.body.len() < 64 * 200);
    for value in [
        "bytes=-18446744073709551616",
        "bytes=18446744073709551615-",
        "bytes=0-18446744073709551616",
    ] {
        assert!([206, 416].contains(&site.get("/a.txt", &[("Range", value)]).status()), "{value}");
    }
}

/// Class 53: a response never promises more bytes than the open file had, and the next inspection
/// finds the new length.
#[test]
fn a_file_that_shrinks_is_seen_at_the_next_look() {
    let mut site = Site::plain();
    site.write("large", vec![b'x'; 1 << 20]);
    let file = fs::File::options().write(true).open(site.path("large")).unwrap();
    let length = |site: &Site| match site.get_unread("/large").body {
        Body::Pieces(pieces) => pieces.iter().map(Piece::len).sum(),
        body => body.len().unwrap(),
    };
    assert_eq!(length(&site), 1 << 20);
    file.set_len(10).unwrap();
    site.pass(1000);
    assert_eq!(length(&site), 10);
    file.set_len(0).unwrap();
    site.pass(1000);
    assert_eq!(length(&site), 0);
}

/// Class 53: while a writer rewrites a small file repeatedly, every cached body is one that was
/// written completely, and its tag never stands for another.
#[test]
fn a_file_that_is_being_written_is_never_kept_torn() {
    let mut site = Site::plain();
    site.now.wall = SystemTime::now();
    site.write("a.txt", "0".repeat(10_000));
    let done = AtomicBool::new(false);
    let path = site.path("a.txt");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..2000 {
                fs::write(&path, format!("{}", n % 10).repeat(10_000)).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            site.now.wall = SystemTime::now();
            site.get_unread("/a.txt");
            assert_eq!(site.files.resources.borrow().len(), 0, "a file in motion was kept");
        }
    });
    site.pass(10_000);
    assert_eq!(site.get("/a.txt", &[]).body, "9".repeat(10_000).as_bytes());
}
