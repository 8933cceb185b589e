//! Memory that the router uses for files of shares: the file cache and listings.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::Site;
use serde_json::json;

use super::memory::{Growth, MIB};

#[test]
fn the_file_cache_stays_within_its_memory() {
    let site = Site::new();
    let first = site.root().join("0.txt");
    fs::write(&first, vec![b'x'; 250 << 10]).unwrap();
    fs::set_permissions(&first, fs::Permissions::from_mode(0o644)).unwrap();
    // 120 MiB.
    for number in 1..500 {
        fs::hard_link(&first, site.root().join(format!("{number}.txt"))).unwrap();
    }
    let server = site.with(json!({ "settings": { "listen_threads": 1 } })).serve();
    let growth = Growth::of(&server);
    let mut client = server.connect();
    harness::eventually("the files have not just changed, and are kept", || {
        for number in 0..500 {
            assert_eq!(client.get(&format!("/{number}.txt")).body.len(), 250 << 10);
        }
        (growth.bytes() > 20 * MIB).then_some(())
    });
    growth.assert_within(32 * MIB);
}

#[test]
fn listings_of_directories_stay_within_their_memory() {
    let site = Site::new();
    let name = "n".repeat(240);
    for directory in 0..24 {
        let directory = site.root().join(format!("d{directory}"));
        fs::create_dir(&directory).unwrap();
        (0..1500).for_each(|number| {
            fs::File::create(directory.join(format!("{number}{name}"))).unwrap();
        });
    }
    let root = site.root().display().to_string();
    let server = site
        .with(json!({ "routes": null }))
        .with(json!({
            "settings": { "listen_threads": 1 },
            "routes": [{ "action": { "share": format!("{root}$uri"), "listing": true } }],
        }))
        .serve();
    let growth = Growth::of(&server);
    let mut client = server.connect();
    let mut bytes = 0;
    for directory in 0..24 {
        for order in
            ["", "?sort=size", "?sort=time", "?sort=name&order=desc", "?sort=size&order=desc"]
        {
            let response = client.get(&format!("/d{directory}/{order}"));
            assert_eq!(response.status, 200, "{}", server.log());
            bytes += response.body.len() as u64;
        }
    }
    assert!(bytes > 80 * MIB, "{bytes}");
    growth.assert_within(32 * MIB);
}
