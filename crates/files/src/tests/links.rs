//! Attacks with symbolic links, and legitimate uses of links.
//!
//! Most tests need files of several users and run as root only; the others always run.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use howdah_config::Symlinks;
use howdah_http::error_status::RequestError;
use howdah_requirements::is_root;
use howdah_sys::credentials::Credentials;
use howdah_sys::log::Log;

use super::*;

mod roots;
mod swaps;

const ROOT: u32 = 0;

const ALICE: u32 = 54_321;

const BOB: u32 = 54_322;

/// Content that must never appear in a response.
const SECRET: &str = "SECRET-CONTENT";

/// Returns a path in the temporary directory that contains the document root `www`.
fn at(site: &Site, name: &str) -> PathBuf {
    site.root.path().join(name)
}

fn give(path: &Path, owner: u32) {
    if is_root() {
        lchown(path, Some(owner), Some(owner)).unwrap();
    }
}

fn directory(site: &Site, name: &str, owner: u32, mode: u32) {
    fs::create_dir_all(at(site, name)).unwrap();
    fs::set_permissions(at(site, name), fs::Permissions::from_mode(mode)).unwrap();
    give(&at(site, name), owner);
}

/// Creates a file whose content is its name.
fn file(site: &Site, name: &str, owner: u32, mode: u32) {
    let path = at(site, name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, name).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    give(&path, owner);
}

fn link(site: &Site, target: impl AsRef<Path>, name: &str, owner: u32) {
    let path = at(site, name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(target, &path).unwrap();
    give(&path, owner);
}

fn status(site: &Site, share: &Share, place: FileLocation<'_>) -> u16 {
    let request = request("GET", b"/", b"", &[]);
    match site.files.answer(share, place, &request, site.now) {
        Ok(response) => response.status,
        Err(ServeOutcome::NotServed(reason)) => RequestError::from(reason).status(),
        Err(_) => 299,
    }
}

fn get(site: &Site, path: &str) -> u16 {
    status(site, &site.share, site.share.place(path.as_bytes()))
}

/// Returns the status under each rule: by default, with all links followed, within a chroot, and by
/// default on a kernel without `openat2`.
fn each(site: &Site, path: &str) -> [u16; 4] {
    let share =
        |symlinks| Share::new(site.path(""), Options { symlinks, ..site.share.options().clone() });
    let (default, all) = (share(Symlinks::OwnerMatch), share(Symlinks::All));
    let chroot =
        FileLocation { chroot: site.root.path().as_os_str().as_bytes(), ..default.place(b"") };
    let old = Files { opener: Opener::without_openat2(), ..Files::new(Limits::default()) };
    let place = FileLocation { path: path.as_bytes(), ..default.place(b"") };
    let asked = request("GET", b"/", b"", &[]);
    let without = match old.answer(&default, place, &asked, site.now) {
        Ok(response) => response.status,
        Err(ServeOutcome::NotServed(reason)) => RequestError::from(reason).status(),
        Err(_) => 299,
    };
    [
        status(site, &default, place),
        status(site, &all, FileLocation { path: path.as_bytes(), ..all.place(b"") }),
        status(site, &default, FileLocation { path: path.as_bytes(), ..chroot }),
        without,
    ]
}

#[test]
fn a_link_never_gives_a_hidden_name_another_one() {
    for site in [Site::plain(), Site::scripts()] {
        for name in
            ["a.php", "a.php.bak", "a.PHP", "a.phtml", ".env", ".git/x", "d/.svn/x.html", "d/ok"]
        {
            site.write(name, SECRET);
        }
        for (target, name) in [
            ("a.php", "source.txt"),
            ("a.php", "source.jpg"),
            ("a.php.bak", "copy.txt"),
            ("a.PHP", "upper.txt"),
            ("a.phtml", "phtml.txt"),
            (".env", "env.txt"),
            (".git/x", "git.txt"),
            (".git", "git"),
            ("d/.svn", "svn"),
            ("source.txt", "chain.txt"),
            ("git/../.env", "mixed.txt"),
            ("../www/d/../.env", "outside.txt"),
            (".git", "ok.d"),
        ] {
            symlink(target, site.path(name)).unwrap();
        }
        symlink(site.path("a.php"), site.path("absolute.txt")).unwrap();
        symlink(site.path(".git"), site.path("absolute")).unwrap();
        for path in [
            "/source.txt",
            "/source.jpg",
            "/copy.txt",
            "/upper.txt",
            "/phtml.txt",
            "/env.txt",
            "/git.txt",
            "/git/x",
            "/git",
            "/git/",
            "/svn/x.html",
            "/chain.txt",
            "/mixed.txt",
            "/outside.txt",
            "/ok.d/x",
        ] {
            assert_eq!(each(&site, path), [404; 4], "{path}");
        }
        for path in ["/absolute.txt", "/absolute/x", "/absolute"] {
            assert_eq!(each(&site, path), [404; 4], "{path}");
        }
    }
}

#[test]
fn an_index_and_a_sibling_are_judged_by_where_they_lead() {
    let site = Site::plain();
    site.write("a.php", SECRET);
    site.write(".env", SECRET);
    site.write("a.css", "plain");
    fs::create_dir(site.path("d")).unwrap();
    for (target, name) in [
        ("../a.php", "d/index.html"),
        ("a.php", "a.css.br"),
        (".env", "a.css.zst"),
        ("/etc/passwd", "a.css.gz"),
    ] {
        symlink(target, site.path(name)).unwrap();
        give(&site.path(name), ALICE);
    }
    assert_eq!(each(&site, "/d/"), [404; 4]);
    let answer = site.get("/a.css", &[("Accept-Encoding", "br, zstd, gzip")]);
    assert_eq!(
        (answer.body, answer.response.fields.get("content-encoding")),
        (b"plain".to_vec(), None)
    );
}

#[test]
fn links_inside_the_root_are_followed_whoever_owns_them() {
    let site = Site::plain();
    file(&site, "www/d/f.html", BOB, 0o644);
    file(&site, "www/d/index.html", BOB, 0o644);
    file(&site, "www/.well-known/token", BOB, 0o644);
    let root = site.path("");
    for (target, name) in [
        ("d/f.html", "www/relative"),
        ("d", "www/directory"),
        ("../www/d/../d/f.html", "www/roundabout"),
        ("directory/f.html", "www/chain"),
        ("./././d//f.html", "www/dots"),
        (".well-known", "www/known"),
        ("../../../../../../../../../../../../../..", "www/top"),
    ] {
        link(&site, target, name, ALICE);
    }
    link(&site, root.join("d"), "www/absolute", ALICE);
    link(&site, root.join("absolute/f.html"), "www/absolute-chain", ALICE);
    for path in [
        "/relative",
        "/directory/f.html",
        "/directory/",
        "/roundabout",
        "/chain",
        "/dots",
        "/known/token",
    ] {
        assert_eq!(each(&site, path), [200; 4], "{path}");
    }
    for path in ["/absolute/f.html", "/absolute-chain"] {
        // In the chroot the same text leads elsewhere.
        assert_eq!(each(&site, path), [200, 200, 404, 200], "{path}");
    }
    assert_eq!(each(&site, "/directory"), [301; 4]);
    assert_eq!(each(&site, "/top/etc/passwd")[..2], [403, 200]);
}

#[test]
fn a_link_out_of_the_root_needs_the_owner_of_its_target() {
    if !howdah_requirements::root() {
        return;
    }
    for (owner, target, expected) in [
        (ALICE, ALICE, 200),
        (ALICE, BOB, 403),
        (ALICE, ROOT, 403),
        (ROOT, ALICE, 200),
        (ROOT, BOB, 200),
        (ROOT, ROOT, 200),
        // Owners without a mapped id.
        (65_534, 65_534, 403),
    ] {
        let site = Site::plain();
        file(&site, "other/f.txt", target, 0o644);
        directory(&site, "other", target, 0o755);
        link(&site, "../other/f.txt", "www/relative", owner);
        link(&site, at(&site, "other/f.txt"), "www/absolute", owner);
        link(&site, "../other", "www/directory", owner);
        link(&site, "relative", "www/chain", owner);
        link(&site, "../other", "www/.hidden", owner);
        for path in ["/relative", "/absolute", "/directory/f.txt", "/chain"] {
            let absolute = path == "/absolute";
            let expected = [expected, 200, if absolute { 404 } else { 200 }, expected];
            assert_eq!(each(&site, path), expected, "{path}: {owner} to {target}");
        }
        let redirect = if expected == 200 { 301 } else { 403 };
        assert_eq!(get(&site, "/directory"), redirect, "{owner} to {target}");
        assert_eq!(get(&site, "/directory/none"), if expected == 200 { 404 } else { 403 });
    }
}

#[test]
fn every_link_of_a_chain_is_judged() {
    if !howdah_requirements::root() {
        return;
    }
    for (first, second, target, expected) in [
        (ALICE, ALICE, ALICE, 200),
        (ALICE, BOB, ALICE, 403),
        (ALICE, BOB, BOB, 403),
        (ALICE, ALICE, BOB, 403),
        (ALICE, ROOT, ALICE, 200),
        (ALICE, ROOT, BOB, 403),
        (ROOT, ALICE, ALICE, 200),
        (ROOT, ALICE, BOB, 403),
        (ROOT, ROOT, BOB, 200),
    ] {
        let site = Site::plain();
        file(&site, "target/f.txt", target, 0o644);
        directory(&site, "target", target, 0o755);
        // The second link as the whole target of the first one, and in the middle of its text.
        link(&site, "../target/f.txt", "links/file", second);
        link(&site, "../target", "links/directory", second);
        link(&site, "../links/file", "www/file", first);
        link(&site, "../links/directory/f.txt", "www/middle", first);
        link(&site, "../links/directory", "www/directory", first);
        link(&site, "../target/f.txt", "www/second", second);
        link(&site, "second", "www/inside", first);
        for path in ["/file", "/middle", "/directory/f.txt", "/inside"] {
            let context = format!("{path}: {first}, {second}, {target}");
            assert_eq!(each(&site, path), [expected, 200, 200, expected], "{context}");
        }
    }
}

/// A file that only its owner and the server may read cannot be published by the owner of the link.
#[test]
fn below_a_linked_directory_others_files_must_be_open_to_all() {
    if !howdah_requirements::root() {
        return;
    }
    for (owner, mode, directory_owner, directory_mode, expected) in [
        (ALICE, 0o600, ALICE, 0o700, 200),
        (BOB, 0o644, ALICE, 0o700, 200),
        (BOB, 0o640, ALICE, 0o755, 403),
        (BOB, 0o604, ALICE, 0o755, 403),
        (BOB, 0o644, BOB, 0o755, 200),
        (BOB, 0o644, BOB, 0o750, 403),
        (ALICE, 0o600, BOB, 0o750, 403),
        (ROOT, 0o640, ALICE, 0o755, 403),
    ] {
        let site = Site::plain();
        file(&site, "home/d/f.txt", owner, mode);
        directory(&site, "home/d", directory_owner, directory_mode);
        directory(&site, "home", ALICE, 0o755);
        link(&site, "../home", "www/home", ALICE);
        link(&site, "../home", "www/by-root", ROOT);
        // One link below the target leads back to the same place, the other one to a link of root.
        link(&site, "d/../d", "home/d2", ALICE);
        link(&site, "d", "home/d3", ROOT);
        link(&site, at(&site, "home/d"), "home/d4", ROOT);
        let context = format!("{owner} {mode:o} in {directory_owner} {directory_mode:o}");
        link(&site, "../home/d/f.txt", "www/file", ALICE);
        link(&site, at(&site, "home/d"), "www/directory", ALICE);
        for path in [
            "/home/d/f.txt",
            "/home/d2/f.txt",
            "/home/d3/f.txt",
            "/home/d4/f.txt",
            "/directory/f.txt",
        ] {
            assert_eq!(get(&site, path), expected, "{path}: {context}");
        }
        let of_file = if owner == ALICE { 200 } else { expected };
        assert_eq!(get(&site, "/file"), of_file, "{context}");
        assert_eq!(get(&site, "/by-root/d/f.txt"), 200, "{context}");
    }
}

/// A project that belongs to its deploying user, with a directory that the application writes.
#[test]
fn a_project_may_link_to_what_its_application_writes() {
    if !howdah_requirements::root() {
        return;
    }
    const APPLICATION: u32 = BOB;
    for (mode, expected) in [(0o755, 200), (0o775, 200), (0o750, 403)] {
        let mut site = Site::plain();
        file(&site, "project/public/index.html", ALICE, 0o644);
        file(&site, "project/storage/public/2026/a.jpg", APPLICATION, 0o644);
        directory(&site, "project", ALICE, 0o755);
        for name in ["project/storage/public/2026", "project/storage/public", "project/storage"] {
            directory(&site, name, APPLICATION, mode);
        }
        link(&site, at(&site, "project/storage/public"), "project/public/storage", ALICE);
        link(&site, "../storage/public", "project/public/relative", ALICE);
        // A link of the application does not count as one of the project.
        link(&site, "../index.html", "project/storage/public/page", APPLICATION);
        link(&site, "/etc/passwd", "project/storage/public/passwd", APPLICATION);
        site.share = Share::new(at(&site, "project/public"), Options::default());
        assert_eq!(get(&site, "/storage/2026/a.jpg"), expected, "{mode:o}");
        assert_eq!(get(&site, "/relative/2026/a.jpg"), expected, "{mode:o}");
        assert_eq!(get(&site, "/storage/page"), 403);
        assert_eq!(get(&site, "/storage/passwd"), 403);
    }
}

#[test]
fn scripts_are_judged_by_where_links_lead_to_them() {
    let site = Site::scripts();
    for name in ["www/a.php", "www/d/index.php", "www/.hidden/a.php", "www/a.txt"] {
        file(&site, name, ALICE, 0o644);
    }
    file(&site, "other/config.php", BOB, 0o640);
    file(&site, "lib/lib.php", ALICE, 0o600);
    for (target, name, expected) in [
        ("a.php", "in.php", 299),
        ("a.txt", "text.php", 299),
        ("d", "directory", 299),
        ("../lib/lib.php", "own.php", 299),
        (".hidden/a.php", "hidden.php", 404),
        ("a.php", "a.html", 404),
        ("../other/config.php", "foreign.php", if is_root() { 403 } else { 299 }),
        ("/etc/passwd", "passwd.php", 403),
        ("missing.php", "none.php", 404),
    ] {
        link(&site, target, &format!("www/{name}"), ALICE);
        let path = format!("/{name}{}", if name == "directory" { "/" } else { "" });
        assert_eq!(get(&site, &path), expected, "{name}");
        if name.ends_with(".php") {
            assert_eq!(get(&site, &format!("{path}/info.php")), expected, "{name}");
        }
    }
}

#[test]
fn what_is_no_path_is_never_followed() {
    let site = Site::plain();
    file(&site, "www/d/f.txt", ALICE, 0o644);
    let inside = format!("/proc/{}/cwd", std::process::id());
    link(&site, "a", "www/b", ALICE);
    for (target, name) in [
        ("loop", "loop"),
        ("b", "a"),
        ("a", "b"),
        ("/proc/self/fd/1", "descriptor"),
        ("/proc/self/exe", "program"),
        ("/proc/self/root/etc/passwd", "door"),
        (&inside, "directory"),
        ("/proc/self/environ", "environ"),
        ("/dev/stdin", "input"),
    ] {
        if name != "b" {
            link(&site, target, &format!("www/{name}"), ALICE);
        }
        let path = if name == "directory" { "/directory/Cargo.toml" } else { &format!("/{name}") };
        let [default, all, chroot, old] = each(&site, path);
        assert_eq!([default, old], [403; 2], "{name}");
        assert!(all == 403 || name == "environ", "{name}: {all}");
        assert!(chroot == 403 || chroot == 404, "{name}: {chroot}");
    }
    // The process belongs to the owner of the link here.
    let owner = rustix::process::geteuid().as_raw();
    if owner != ROOT {
        symlink("/proc/self/maps", site.path("maps")).unwrap();
        symlink("/proc/self", site.path("self")).unwrap();
        assert_eq!([get(&site, "/maps"), get(&site, "/self/maps")], [403; 2]);
    }
    // The maximum number of links in a row, and one more.
    for n in 0..45 {
        link(&site, format!("{}", n + 1), &format!("www/chain/{n}"), ALICE);
    }
    fs::write(site.path("chain/45"), "end").unwrap();
    assert_eq!(each(&site, "/chain/5"), [200; 4]);
    assert_eq!(each(&site, "/chain/4"), [403; 4]);
    for n in 0..38 {
        let text = format!("{}{}", "d/../".repeat(800), n + 1);
        link(&site, text, &format!("www/long/{n}"), ALICE);
    }
    fs::create_dir(site.path("long/d")).unwrap();
    fs::write(site.path("long/38"), "end").unwrap();
    assert_eq!(get(&site, "/long/0"), 403);
    let deep = vec!["d"; 300].join("/");
    fs::create_dir_all(at(&site, &deep)).unwrap();
    link(&site, format!("../{deep}"), "www/deep", ALICE);
    assert_eq!(get(&site, "/deep/"), 403, "no more descriptors than this are taken");
}

/// A link does not reveal whether a file of another user exists.
#[test]
fn a_link_out_of_the_root_does_not_tell_what_is_there() {
    let site = Site::plain();
    file(&site, "www/f.txt", ALICE, 0o644);
    link(&site, "/etc/passwd", "www/there", ALICE);
    link(&site, "/etc/none", "www/not-there", ALICE);
    link(&site, "/etc/passwd/none", "www/no-directory", ALICE);
    link(&site, "/etc", "www/etc", ALICE);
    for path in ["/there", "/not-there", "/no-directory", "/etc/passwd", "/etc/none", "/etc/"] {
        let [default, _, _, old] = each(&site, path);
        assert_eq!([default, old], [403; 2], "{path}");
    }
    link(&site, "none", "www/dangling", ALICE);
    link(&site, site.path("none"), "www/absolute", ALICE);
    link(&site, "f.txt/none", "www/no-file", ALICE);
    for path in ["/dangling", "/absolute", "/no-file", "/dangling/x"] {
        assert_eq!(get(&site, path), 404, "{path}");
    }
}

#[test]
fn a_root_may_be_relative_to_the_working_directory() {
    let site = Site::plain();
    site.write("d/f.txt", "f");
    site.write(".env", SECRET);
    link(&site, "d/f.txt", "www/in", ALICE);
    link(&site, site.path("d"), "www/absolute", ALICE);
    link(&site, ".env", "www/env", ALICE);
    link(&site, "/etc/passwd", "www/passwd", ALICE);
    link(&site, "../www/d", "www/again", ALICE);
    // From the working directory up to `/` and down again.
    let here = std::env::current_dir().unwrap();
    let ups = here.components().skip(1).map(|_| "../").collect::<String>();
    let root = format!("./{ups}{}", &site.path("").display().to_string()[1..]);
    let share = Share::new(root.trim_end_matches('/'), Options::default());
    let get = |path: &str| status(&site, &share, share.place(path.as_bytes()));
    for (path, expected) in [
        ("/d/f.txt", 200),
        ("/in", 200),
        ("/absolute/f.txt", 200),
        ("/again/f.txt", 200),
        ("/env", 404),
        ("/passwd", 403),
    ] {
        assert_eq!(get(path), expected, "{path}");
    }
}

#[test]
fn the_log_is_told_of_a_link_that_is_not_followed() {
    let mut site = Site::plain();
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    let log = DenialLog::new(Arc::new(Log::new(writer)), Credentials::current());
    let log = Arc::new(log);
    site.files = Files::new(Limits::default()).with_log(log);
    let read = || {
        let mut buffer = [0; 4096];
        let length = rustix::io::read(&reader, &mut buffer).unwrap_or(0);
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    link(&site, "/etc/passwd", "www/passwd", ALICE);
    assert_eq!(get(&site, "/passwd"), 403);
    let owner = if is_root() { ALICE } else { rustix::process::geteuid().as_raw() };
    let line = read();
    let path = site.path("passwd");
    let path = path.display();
    let expected = format!(
        "the symbolic link {path} of user {owner} leads out of the share to a target of user 0"
    );
    assert!(line.contains("[warn]") && line.contains(&expected), "{line}");
    site.pass(1000);
    assert_eq!((get(&site, "/passwd"), read()), (403, String::new()), "not again and again");
    site.pass(10_000);
    assert_eq!(get(&site, "/passwd"), 403);
    assert!(!read().is_empty());
}
