//! Links and directories that are exchanged while a request looks at them.

use super::super::swapping::{exchange, swap_while_asking};
use super::*;

#[test]
fn a_directory_that_becomes_a_link_to_another_users_never_shows_it() {
    let site = Site::plain();
    site.write("d/passwd", "inside");
    link(&site, "/etc", "www/link", ALICE);
    let (directory, link) = (site.path("d"), site.path("link"));
    swap_while_asking(&site, b"", "/d/passwd", |_| exchange(&directory, &link));
}

#[test]
fn a_link_that_changes_its_target_never_shows_a_source() {
    let site = Site::plain();
    site.write("f.txt", "inside");
    site.write("f.php", SECRET);
    site.write(".d/f.txt", SECRET);
    symlink("f.txt", site.path("one")).unwrap();
    symlink("f.php", site.path("two")).unwrap();
    symlink(".d/f.txt", site.path("three")).unwrap();
    let [one, two, three] = ["one", "two", "three"].map(|name| site.path(name));
    let swap = |n| exchange(&one, if n % 4 < 2 { &two } else { &three });
    swap_while_asking(&site, b"", "/one", swap);
}

#[test]
fn a_target_that_becomes_anothers_is_never_shown() {
    if !howdah_requirements::root() {
        return;
    }
    let site = Site::plain();
    for (name, owner, content) in [("mine", ALICE, "inside"), ("other", BOB, SECRET)] {
        file(&site, &format!("{name}/d/f.txt"), owner, 0o644);
        fs::write(at(&site, &format!("{name}/d/f.txt")), content).unwrap();
        directory(&site, &format!("{name}/d"), owner, 0o755);
    }
    link(&site, "../mine/d/f.txt", "www/link", ALICE);
    let (mine, other) = (at(&site, "mine"), at(&site, "other"));
    swap_while_asking(&site, b"", "/link", |_| exchange(&mine, &other));
}

#[test]
fn a_chain_whose_middle_is_swapped_never_leads_to_anothers_file() {
    if !howdah_requirements::root() {
        return;
    }
    let site = Site::plain();
    file(&site, "mine/f.txt", ALICE, 0o644);
    fs::write(at(&site, "mine/f.txt"), "inside").unwrap();
    directory(&site, "mine", ALICE, 0o755);
    file(&site, "other/f.txt", BOB, 0o644);
    fs::write(at(&site, "other/f.txt"), SECRET).unwrap();
    directory(&site, "other", BOB, 0o755);
    link(&site, "../links/one/f.txt", "www/link", ALICE);
    link(&site, "../mine", "links/one", ALICE);
    link(&site, "../other", "links/two", ALICE);
    link(&site, at(&site, "other"), "links/three", ALICE);
    let [one, two, three] = ["one", "two", "three"].map(|name| at(&site, &format!("links/{name}")));
    let swap = |n| exchange(&one, if n % 4 < 2 { &two } else { &three });
    swap_while_asking(&site, b"", "/link", swap);
}

/// Swaps the root itself, and a directory of it that is moved out during the walk.
#[test]
fn a_root_that_is_swapped_never_becomes_anothers_directory() {
    if !howdah_requirements::root() {
        return;
    }
    let mut site = Site::plain();
    file(&site, "release/f.txt", ALICE, 0o644);
    fs::write(at(&site, "release/f.txt"), "inside").unwrap();
    directory(&site, "release", ALICE, 0o755);
    file(&site, "other/f.txt", BOB, 0o644);
    fs::write(at(&site, "other/f.txt"), SECRET).unwrap();
    directory(&site, "other", BOB, 0o755);
    link(&site, "release", "current", ALICE);
    link(&site, "other", "next", ALICE);
    site.share = Share::new(at(&site, "current"), Options::default());
    let (current, next) = (at(&site, "current"), at(&site, "next"));
    swap_while_asking(&site, b"", "/f.txt", |_| exchange(&current, &next));
}
