//! Links in the path of a root.

use super::*;

#[test]
fn links_in_the_path_of_the_root_are_judged_too() {
    if !howdah_requirements::root() {
        return;
    }
    for (owner, target, expected) in
        [(ALICE, ALICE, 200), (ALICE, BOB, 403), (ALICE, ROOT, 403), (ROOT, BOB, 200)]
    {
        let site = Site::plain();
        file(&site, "release/public/f.txt", target, 0o644);
        file(&site, "release/public/d/f.txt", target, 0o644);
        file(&site, "release/public/a.php", target, 0o644);
        directory(&site, "release/public", target, 0o755);
        directory(&site, "release", target, 0o755);
        link(&site, "release", "current", owner);
        link(&site, "d/f.txt", "release/public/in", BOB);
        link(&site, "a.php", "release/public/source.txt", ROOT);
        let served = |symlinks, path: &str| {
            let root = at(&site, "current/public");
            let share = Share::new(root, Options { symlinks, ..Options::default() });
            status(&site, &share, share.place(path.as_bytes()))
        };
        for path in ["/f.txt", "/d/f.txt", "/in"] {
            let context = format!("{path}: {owner} to {target}");
            assert_eq!(served(Symlinks::OwnerMatch, path), expected, "{context}");
            assert_eq!(served(Symlinks::All, path), 200, "{context}");
            assert_eq!(served(Symlinks::None, path), 403, "{context}");
        }
        assert_ne!(served(Symlinks::OwnerMatch, "/source.txt"), 200);
        assert_eq!(served(Symlinks::All, "/source.txt"), 404);
        // The chroot of this path is the directory of the owner of the link.
        let chroot = at(&site, "current");
        let share = Share::new(at(&site, "current/public"), Options::default());
        let chroot =
            FileLocation { chroot: chroot.as_os_str().as_bytes(), ..share.place(b"/f.txt") };
        assert_eq!(status(&site, &share, chroot), expected);
    }
}

/// If a variable of the share's name selects the site, that site's directory is the root.
#[test]
fn a_site_is_no_part_of_its_neighbour_below_one_directory() {
    let site = Site::plain();
    file(&site, "www/a.test/f.txt", ALICE, 0o644);
    file(&site, "www/b.test/f.txt", BOB, 0o644);
    directory(&site, "www/b.test", BOB, 0o755);
    link(&site, "../b.test/f.txt", "www/a.test/link", ALICE);
    link(&site, "../b.test", "www/a.test/site", ALICE);
    link(&site, "f.txt", "www/a.test/in", ALICE);
    link(&site, "a.test", "www/alias.test", ROOT);
    link(&site, "b.test", "www/stolen.test", ALICE);
    let host = |host: &str, path: &str| {
        let (base, path) = (host.len() + 1, format!("/{host}{path}"));
        let place = FileLocation { url_offset: base, ..site.share.place(path.as_bytes()) };
        status(&site, &site.share, place)
    };
    assert_eq!(host("a.test", "/in"), 200);
    assert_eq!(host("alias.test", "/in"), 200);
    assert_eq!(host("b.test", "/f.txt"), 200);
    if is_root() {
        assert_eq!([host("a.test", "/link"), host("a.test", "/site/f.txt")], [403; 2]);
        assert_eq!(host("stolen.test", "/f.txt"), 403);
    }
}

#[test]
fn the_path_of_the_root_may_have_dots_that_a_link_may_not_add() {
    let site = Site::plain();
    for name in [".sites/www/f.txt", ".sites/shared/f.txt", ".sites/.key/f.txt", ".other/f.txt"] {
        file(&site, name, ALICE, 0o644);
    }
    for name in [".sites", ".sites/www", ".sites/shared", ".sites/.key", ".other"] {
        directory(&site, name, ALICE, 0o755);
    }
    link(&site, "f.txt", ".sites/www/in", ALICE);
    link(&site, "../shared", ".sites/www/shared", ALICE);
    link(&site, "../.key", ".sites/www/key", ALICE);
    link(&site, "../../.other", ".sites/www/other", ALICE);
    link(&site, at(&site, ".sites/shared/f.txt"), ".sites/www/absolute", ALICE);
    for symlinks in [Symlinks::OwnerMatch, Symlinks::All] {
        let share = Share::new(at(&site, ".sites/www"), Options { symlinks, ..Options::default() });
        let get = |path: &str| status(&site, &share, share.place(path.as_bytes()));
        for path in ["/f.txt", "/in", "/shared/f.txt", "/absolute"] {
            assert_eq!(get(path), 200, "{path}");
        }
        for path in ["/key/f.txt", "/other/f.txt"] {
            assert_eq!(get(path), 404, "{path}");
        }
    }
}
