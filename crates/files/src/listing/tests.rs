use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use howdah_config::{Patterns, Symlinks};
use tempfile::TempDir;

use super::super::share::Options;
use super::*;

const ORDER: Order = Order { by: SortBy::Name, is_descending: false };

fn site(names: &[&str]) -> (TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(directory.path()).unwrap().join("www");
    fs::create_dir(&root).unwrap();
    for name in names {
        match name.strip_suffix('/') {
            Some(name) => fs::create_dir(root.join(name)).unwrap(),
            None => fs::write(root.join(name), name).unwrap(),
        }
    }
    (directory, root)
}

fn listed(root: &Path, options: Options) -> Vec<String> {
    let share = Share::new(root, options);
    let listing = Listing::new(&share, &share.place(b"/"), ListingFormat::Json);
    let body = listing.render(b"/", ORDER).unwrap().body;
    let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let names = value.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[test]
fn what_the_share_refuses_is_not_listed() {
    let (_directory, root) = site(&[
        "b.txt",
        ".git/",
        ".env",
        "a/",
        "x.php",
        "x.php~",
        "x.php.html",
        "p.png",
        ".well-known/",
    ]);
    let path = root.join("socket");
    let _socket = std::os::unix::net::UnixListener::bind(path).unwrap();
    assert_eq!(listed(&root, Options::default()), ["a", "b.txt", "p.png", "x.php.html"]);
    let scripts = Options { scripts: true, ..Options::default() };
    assert_eq!(listed(&root, scripts), ["a", "b.txt", "p.png", "x.php", "x.php.html"]);
    let types = howdah_config::Config::from_value(serde_json::json!({
        "routes": [{"action": {"share": "/www$uri", "types": "image/*"}}],
    }));
    let types: Option<Patterns> = match &types.unwrap().routes[0].steps[0].action.kind {
        howdah_config::ActionKind::Share(share) => share.types.clone(),
        _ => None,
    };
    assert_eq!(listed(&root, Options { types, ..Options::default() }), ["a", "p.png"]);
}

#[test]
fn links_are_listed_that_the_share_follows() {
    let (_directory, root) = site(&["a.txt", "x.php", ".hidden", "b/"]);
    let outside = root.with_file_name("outside");
    fs::write(&outside, "outside").unwrap();
    for (link, target) in [
        ("inside", "a.txt"),
        ("to-directory", "b"),
        ("source", "x.php"),
        ("dot", ".hidden"),
        ("broken", "missing"),
        ("out", "../outside"),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    let with = |symlinks| listed(&root, Options { symlinks, ..Options::default() });
    assert_eq!(with(Symlinks::None), ["b", "a.txt"]);
    // The owner of the link is that of its target.
    let followed = ["b", "to-directory", "a.txt", "inside", "out"];
    assert_eq!(with(Symlinks::OwnerMatch), followed);
    assert_eq!(with(Symlinks::All), followed);
}

#[test]
fn a_directory_that_is_gone_is_not_found() {
    let (directory, root) = site(&["a/"]);
    let share = Share::new(&root, Options::default());
    let listing = Listing::new(&share, &share.place(b"/a/"), ListingFormat::Html);
    assert!(listing.render(b"/a/", ORDER).is_ok());
    drop(directory);
    assert_eq!(listing.render(b"/a/", ORDER).unwrap_err(), NotServedReason::NotFound);
}

#[test]
fn listings_are_equal_by_share_and_place() {
    let (a, b) = (Share::new("/www", Options::default()), Share::new("/www", Options::default()));
    let of = |share: &Share, path: &str| {
        Listing::new(share, &share.place(path.as_bytes()), ListingFormat::Html)
    };
    assert_eq!(of(&a, "/"), of(&a, "/"));
    assert_ne!(of(&a, "/"), of(&a, "/a/"));
    assert_ne!(of(&a, "/"), of(&b, "/"));
}
