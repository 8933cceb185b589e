//! Sites that are sent, and the parts that were made from them.

use howdah_config::json;
use serde_json::{Value, json};

use crate::*;

#[test]
fn sites_are_compiled_and_their_parts_are_changed_there() {
    let site = json!({"hosts": "a.test", "root": "/a"});
    let store = Store::empty();
    let prepare = |store: &Store, method: &str, target: &str, body: &Value| {
        let body = if method == "DELETE" { String::new() } else { body.to_string() };
        match translate(method.as_bytes(), target.as_bytes(), body.as_bytes()).unwrap() {
            Command::Change(change) => store.prepare(change),
            other => panic!("{other:?}"),
        }
    };
    let compiled = |next: Result<Next, Refusal>| match next {
        Ok(Next::Compile(text)) => json::parse(&text).unwrap(),
        other => panic!("{other:?}"),
    };
    let refused = |next: Result<Next, Refusal>| {
        let reply = Reply::from(next.map(|_| ()).unwrap_err());
        (reply.status(), reply.body()["detail"].as_str().unwrap_or_default().to_owned())
    };
    // The object above is added.
    let sent = compiled(prepare(&store, "PUT", "/config/sites/a", &site));
    assert_eq!(sent["sites"], json!({"a": site}));
    let (status, problem) = refused(prepare(&store, "PUT", "/config/sites", &json!("/s/*.json")));
    assert!(status == 400 && problem.starts_with("/sites: must be an object"), "{problem}");
    assert!(problem.contains("howdah reload"), "{problem}");
    let include = json!({"sites": {}, "include": "/etc/shadow"});
    let (status, problem) = refused(prepare(&store, "PUT", "/config", &include));
    assert!(status == 400 && problem.starts_with("/include: "), "{problem}");
    let store = Store::new(json!({
        "routes": {"a": [], "sites": [], "own": []},
        "applications": {"a": {}},
        "included": {
            "/routes/a": "source:/sites/a",
            "/routes/sites": "source:/sites",
            "/applications": "source:/sites",
            "/applications/a": "source:/sites/a",
        },
        "source": {"sites": {"a": site}},
    }));
    let get = |target: &str| {
        let Ok(Command::GetConfig(path)) = translate(b"GET", target.as_bytes(), b"") else {
            panic!()
        };
        store.get(&path)
    };
    let whole = json!({"routes": {"own": []}, "sites": {"a": site}});
    assert_eq!(get("/config").body(), &whole);
    assert_eq!(get("/config/sites/a/root").body(), "/a");
    for missing in ["/config/routes/a", "/config/source", "/config/included"] {
        assert_eq!(get(missing).status(), 404, "{missing}");
    }
    for (method, target, from) in [
        ("DELETE", "/config/routes/a", "/routes/a is made from /sites/a; change /config/sites/a"),
        ("PUT", "/config/routes/a", "/routes/a is made from /sites/a; "),
        ("PUT", "/config/applications/a/user", ""),
        ("POST", "/config/routes/sites", "/routes/sites is made from /sites; change /config/sites"),
        ("DELETE", "/config/applications", "/applications is made from /sites; "),
    ] {
        let (status, problem) = refused(prepare(&store, method, target, &json!({})));
        // Nothing is there.
        let expected = if from.is_empty() { 404 } else { 400 };
        assert!(status == expected && problem.starts_with(from), "{method} {target}: {problem}");
    }
    for made in ["source", "included", "left_out", "places"] {
        let mut document = whole.clone();
        document[made] = json!({});
        assert_eq!(refused(prepare(&store, "PUT", "/config", &document)).0, 400);
        assert_eq!(refused(prepare(&store, "PUT", &format!("/config/{made}"), &site)).0, 400);
    }
    // The document may define what all sites share, and its own parts beside those of sites.
    let sent = compiled(prepare(&store, "PUT", "/config/routes/sites", &json!([])));
    assert_eq!(sent["routes"], json!({"own": [], "sites": []}));
    let sent = compiled(prepare(&store, "PUT", "/config/applications/b", &json!({})));
    assert_eq!(sent["applications"], json!({"b": {}}));
    let sent = compiled(prepare(&store, "DELETE", "/config/sites/a", &json!({})));
    assert_eq!(sent, json!({"routes": {"own": []}, "sites": {}}));
    // Without sites, nothing is compiled.
    let next = prepare(&store, "DELETE", "/config/sites", &json!({}));
    let Ok(Next::Apply(prepared)) = next else { panic!("{next:?}") };
    assert_eq!(prepared.store.document(), &json!({"routes": {"own": []}}));
}
