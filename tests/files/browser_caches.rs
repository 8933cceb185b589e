//! `expires`, `cache_control`, `fingerprinted`, `charset` and `default_type`, compared with nginx.

use harness::backends::Backend;
use harness::client::{Client, Response};
use harness::{Server, Site};
use serde_json::{Value, json};

fn seconds(response: &Response, name: &str) -> Option<i64> {
    let seconds = howdah_text::date::parse_http(response.field(name)?.as_bytes())?;
    i64::try_from(seconds).ok()
}

/// Serves a directory with more keys of its action.
fn serve(site: Site, keys: Value, changes: Value) -> Server {
    let mut action = json!({"share": format!("{}$uri", site.root().display())});
    harness::merge(&mut action, keys);
    site.with(json!({"routes": null}))
        .with(json!({"routes": [{"action": action}]}))
        .with(changes)
        .serve()
}

#[test]
fn times_of_expiry_are_those_of_nginx() {
    let times = [
        "30d",
        "0",
        "-1",
        "epoch",
        "max",
        "off",
        "@15h30m",
        "modified +1h",
        "modified -1h",
        "1y2M",
        "1h30m",
    ];
    let directives: String = times
        .iter()
        .enumerate()
        .map(|(index, time)| format!("location /{index}/ {{ expires {time}; }}\n"))
        .collect();
    let nginx = Backend::nginx_with(&[], "", &directives);
    let mut site = Site::new();
    for index in 0..times.len() {
        std::fs::create_dir(nginx.root().join(index.to_string())).unwrap();
        std::fs::write(nginx.root().join(format!("{index}/a.css")), "a {}").unwrap();
        site = site.file(&format!("{index}/a.css"), "a {}");
    }
    let root = site.root();
    let steps = times.iter().enumerate().map(|(index, time)| {
        let action = json!({"share": format!("{}$uri", root.display()), "expires": time});
        json!({"match": {"uri": format!("/{index}/*")}, "action": action})
    });
    let steps: Vec<_> = steps.collect();
    let server = site.with(json!({"routes": null})).with(json!({"routes": steps})).serve();
    for (index, time) in times.iter().enumerate() {
        let target = format!("/{index}/a.css");
        let ours = server.get(&target);
        let theirs = Client::connect(nginx.address).get(&target);
        assert_eq!((ours.status, theirs.status), (200, 200), "{time}");
        let age = |response: &Response| {
            let control = response.field("cache-control").unwrap_or_default().to_owned();
            control
                .strip_prefix("max-age=")
                .map_or(Err(control.clone()), |age| Ok(age.parse::<i64>().unwrap()))
        };
        match (age(&ours), age(&theirs)) {
            (Ok(ours), Ok(theirs)) => {
                assert!((ours - theirs).abs() < 60, "{time}: {ours} {theirs}")
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{time}"),
        }
        match (seconds(&ours, "expires"), seconds(&theirs, "expires")) {
            (Some(ours), Some(theirs)) => {
                assert!((ours - theirs).abs() < 60, "{time}: {ours} {theirs}")
            }
            (ours, theirs) => assert_eq!(ours, theirs, "{time}"),
        }
    }
}

#[test]
fn fields_are_by_type_and_a_304_has_them_too() {
    let site = Site::new()
        .file("a.html", "a")
        .file("a.css", "a")
        .file("a.png", "a")
        .file("app.3f9a1c2b.js", "a")
        .file("unknown", "a");
    let keys = json!({
        "expires": {"text/html": "off", "text/css": "1h", "*": "1d"},
        "cache_control": {"image/*": "public"},
        "fingerprinted": true,
        "charset": "utf-8",
    });
    let types =
        json!({"settings": {"http": {"static": {"default_type": "application/x-unknown"}}}});
    let server = serve(site, keys, types);
    let immutable = "max-age=31536000, immutable";
    for (path, control, content_type) in [
        ("/a.html", None, "text/html; charset=utf-8"),
        ("/a.css", Some("max-age=3600"), "text/css; charset=utf-8"),
        ("/a.png", Some("max-age=86400, public"), "image/png"),
        ("/app.3f9a1c2b.js", Some(immutable), "text/javascript; charset=utf-8"),
        ("/unknown", Some("max-age=86400"), "application/x-unknown"),
        ("/missing", None, "text/html; charset=utf-8"),
    ] {
        let response = server.get(path);
        assert_eq!(response.field("cache-control"), control, "{path}");
        assert_eq!(response.field("content-type"), Some(content_type), "{path}");
        assert_eq!(response.field("expires").is_some(), control.is_some_and(|c| c != immutable));
        let Some(tag) = response.field("etag") else { continue };
        let again = format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n"
        );
        let again = server.send(again);
        assert_eq!((again.status, again.field("cache-control")), (304, control), "{path}");
    }
}

#[test]
fn a_script_keeps_its_own_fields() {
    let code = "if (isset($_GET['own'])) header('Cache-Control: private'); echo 'a';";
    let site = Site::script("a.php", code).file("b.3f9a1c2b.php", "<?php echo 'b';");
    let keys = json!({
        "scripts": "applications/site", "expires": "1h", "fingerprinted": true, "charset": "koi8-r",
    });
    let server = serve(site, keys, json!({}));
    let control = |target: &str| server.get(target).field("cache-control").map(str::to_owned);
    assert_eq!(control("/a.php?own").as_deref(), Some("private"));
    assert_eq!(control("/a.php").as_deref(), Some("max-age=3600"));
    assert_eq!(control("/b.3f9a1c2b.php").as_deref(), Some("max-age=3600"), "it is no file");
    // PHP names an encoding itself.
    assert_eq!(server.get("/a.php").field("content-type"), Some("text/html; charset=UTF-8"));
}
