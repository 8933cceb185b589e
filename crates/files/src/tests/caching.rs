//! The cache entries of files, and how long they are used.

use super::*;

#[test]
fn what_is_known_is_used_for_a_second_and_then_looked_at_again() {
    let mut site = Site::plain();
    site.write("a.txt", "old");
    let first = site.get("/a.txt", &[]);
    assert_eq!(site.missing("/b.txt"), NotServedReason::NotFound);
    site.write("new", "newer");
    fs::rename(site.path("new"), site.path("a.txt")).unwrap();
    site.write("b.txt", "b");
    site.pass(999);
    assert_eq!(site.get("/a.txt", &[]).body, b"old");
    assert_eq!(site.missing("/b.txt"), NotServedReason::NotFound);
    site.pass(1);
    let second = site.get("/a.txt", &[]);
    assert_eq!(second.body, b"newer");
    assert_ne!(first.field("etag"), second.field("etag"));
    assert_eq!(site.get("/b.txt", &[]).body, b"b");
    fs::remove_file(site.path("a.txt")).unwrap();
    assert_eq!(site.get("/a.txt", &[]).body, b"newer");
    site.pass(1000);
    assert_eq!(site.missing("/a.txt"), NotServedReason::NotFound);
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let mut site = Site::plain();
    site.write("a.txt", "content");
    let address = |site: &Site| match site.get("/a.txt", &[]).response.body {
        Body::Bytes(bytes) => bytes.as_ptr(),
        other => panic!("{other:?}"),
    };
    let first = address(&site);
    site.pass(5000);
    assert_eq!(address(&site), first);
}

#[test]
fn a_file_that_was_just_written_is_not_kept() {
    let mut site = Site::plain();
    site.now.wall = SystemTime::now();
    site.write("a.txt", "one");
    assert_eq!(site.get("/a.txt", &[]).body, b"one");
    site.write("a.txt", "two");
    assert_eq!(site.get("/a.txt", &[]).body, b"two");
}

#[test]
fn a_reconfigured_share_meets_no_old_findings() {
    let mut site = Site::plain();
    fs::create_dir(site.path("dir")).unwrap();
    site.write("dir/f", "x");
    symlink("dir", site.path("link")).unwrap();
    assert_eq!(site.get("/link/f", &[]).status(), 200);
    let options = Options { symlinks: Symlinks::None, ..site.share.options().clone() };
    site.share = Share::new(site.path(""), options);
    assert_eq!(site.missing("/link/f"), NotServedReason::Forbidden);
}

#[test]
fn a_cache_stays_within_its_limits() {
    let mut site = Site::plain();
    site.files = Files::new(Limits { bytes: 100_000, entries: 50, body: 20_000, open: 1 });
    for n in 0..100 {
        site.write(&format!("{n}"), vec![b'x'; n * 300]);
        site.get(format!("/{n}"), &[]);
        site.missing(format!("/none{n}"));
    }
    assert!(site.files.resources.borrow().weight() <= 100_000);
    assert!(site.files.resources.borrow().len() <= 50);
    assert!(site.files.findings.borrow().len() <= 50);
    for n in 0..100 {
        assert_eq!(site.get(format!("/{n}"), &[]).body.len(), n * 300);
    }
}
