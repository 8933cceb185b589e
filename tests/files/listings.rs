//! Listings of directories, compared with nginx.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use harness::backends::Backend;
use harness::client::Client;
use harness::{Server, Site};
use serde_json::{Value, json};

/// Serves the directory with these keys of the action.
fn serve(site: Site, keys: Value) -> Server {
    let mut action = json!({"share": format!("{}$uri", site.root().display())});
    harness::merge(&mut action, keys);
    site.with(json!({"routes": null})).with(json!({"routes": [{"action": action}]})).serve()
}

#[test]
fn json_is_that_of_nginx() {
    let nginx = Backend::nginx_with(&[], "", "autoindex on; autoindex_format json;");
    let site = Site::new();
    for root in [nginx.root(), site.root()] {
        for directory in ["b", "A b", "empty"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        for (name, content) in
            [("x.txt", "12345"), ("a&\"<b>.txt", ""), ("ü", "1"), (".hidden", "")]
        {
            fs::write(root.join(name), content).unwrap();
        }
        symlink("x.txt", root.join("link")).unwrap();
        symlink("missing", root.join("broken")).unwrap();
    }
    let server = serve(site, json!({"listing": "json"}));
    for target in ["/", "/empty/"] {
        let (ours, theirs) = (server.get(target), Client::connect(nginx.address).get(target));
        assert_eq!(ours.field("content-type"), theirs.field("content-type"));
        let entries = |text: &str| {
            let value: Value = serde_json::from_str(text).unwrap();
            let mut entries = value.as_array().unwrap().clone();
            // The files were not made at the same time.
            entries
                .iter_mut()
                .for_each(|entry| entry["mtime"] = json!(entry["mtime"].as_str().unwrap().len()));
            entries.retain(|entry| entry["name"] != "broken");
            entries.sort_by_key(|entry| entry["name"].to_string());
            entries
        };
        assert_eq!(entries(&ours.text()), entries(&theirs.text()), "{target}");
    }
    let redirect = server.get("/empty");
    assert_eq!((redirect.status, redirect.field("location")), (301, Some("/empty/")));
    assert_eq!(server.get("/missing/").status, 404);
}

#[test]
fn a_page_has_links_that_lead_to_the_files() {
    let site =
        Site::new().file("d/a b%.txt", "found").file("d/index", "x").file("e/index.html", "index");
    let keys = json!({"listing": true, "fallback": {"return": 418}, "prefix": "/pub"});
    let server = serve(site, keys);
    let page = server.get("/pub/d/?sort=size&order=desc");
    assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.field("content-security-policy").is_some());
    let text = page.text();
    assert!(text.contains("<title>Index of /pub/d/</title>"), "{text}");
    assert!(text.contains("aria-sort=\"descending\""), "{text}");
    let name = text.split("href=\"").find(|part| part.starts_with("a%20")).unwrap();
    let name = name.split('"').next().unwrap();
    assert_eq!(server.get(&format!("/pub/d/{name}")).text(), "found");
    assert_eq!(server.get("/pub/e/").text(), "index");
    assert_eq!(server.get("/pub/missing").status, 418);
    assert_eq!(server.get("/pub/missing/").status, 418);
    assert_eq!(server.post("/pub/d/", "text/plain", "").status, 418, "it has no file");
    let head = server.send("HEAD /pub/d/ HTTP/1.0\r\n\r\n");
    assert_eq!(head.status, 200);
    assert!(head.field("content-length").unwrap().parse::<usize>().unwrap() > 1000);
}

#[test]
fn a_large_directory_does_not_hold_up_other_requests() {
    let site = Site::new().file("a.txt", "a");
    let large = site.root().join("large");
    fs::create_dir(&large).unwrap();
    for number in 0..100_000 {
        fs::File::create(large.join(format!("picture-{number}.jpg"))).unwrap();
    }
    let threads = json!({"settings": {"listen_threads": 1}});
    let server = serve(site.with(threads), json!({"listing": true}));
    let address = server.address;
    let started_at = Instant::now();
    let lister = std::thread::spawn(move || {
        let mut clients: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
        for client in &mut clients {
            client.send("GET /large/ HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        let pages = clients.iter_mut().map(|client| client.response());
        pages.map(|page| (page.status, page.text().matches("<tr>").count())).collect::<Vec<_>>()
    });
    let (mut longest, mut requests) = (Duration::ZERO, 0);
    while !lister.is_finished() {
        let request = Instant::now();
        assert_eq!(server.get("/a.txt").text(), "a");
        longest = longest.max(request.elapsed());
        requests += 1;
    }
    let pages = lister.join().unwrap();
    let all = started_at.elapsed();
    println!("{requests} requests within {all:?}, the longest took {longest:?}");
    // The row of the headings is another one.
    assert!(pages.iter().all(|page| *page == (200, 100_001)), "{pages:?}");
    // If each request waited for a whole listing, there would be about four.
    assert!(requests > 100, "{requests} requests, the longest took {longest:?} of {all:?}");
}
