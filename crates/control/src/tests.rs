//! Requests and replies, as in Unit's own tests.

use howdah_config::{Config, json};
use howdah_questions::{Question, Status, Subject};
use serde_json::{Value, json};

use super::*;

mod properties;
mod sites;

/// Model of the router: executes requests on a store, without I/O.
struct Server {
    store: Store,
    certificates: serde_json::Map<String, Value>,
}

impl Server {
    fn new(document: Value) -> Server {
        Server { store: Store::new(document), certificates: serde_json::Map::new() }
    }

    fn request(&mut self, method: &str, target: &str, body: impl AsRef<[u8]>) -> Reply {
        match translate(method.as_bytes(), target.as_bytes(), body.as_ref()) {
            Ok(command) => self.carry_out(command),
            Err(refusal) => refusal.into(),
        }
    }

    fn carry_out(&mut self, command: Command) -> Reply {
        match command {
            Command::Change(change) => match self.store.prepare(change) {
                Ok(Next::Compile(_)) => panic!("no sites are sent"),
                Ok(Next::Apply(prepared)) => {
                    assert_eq!(json::parse(&prepared.text).as_ref(), Ok(prepared.store.document()));
                    self.store = prepared.store;
                    Done::Reconfigured.into()
                }
                Err(refusal) => refusal.into(),
            },
            Command::DeleteCertificate(name) if self.store.uses_certificate(name.as_str()) => {
                Refusal::CertificateInUse.into()
            }
            Command::DeleteCertificate(name) => {
                match self.certificates.shift_remove(name.as_str()) {
                    Some(_) => Done::CertificateDeleted.into(),
                    None => Refusal::NoSuchCertificate.into(),
                }
            }
            Command::GetCertificates(path) => list_certificates(&self.certificates, &path),
            Command::GetConfig(path) => self.store.get(&path),
            Command::GetCompiled => Reply::value(self.store.document().clone()),
            Command::GetEverything => Reply::value(json!({
                "certificates": self.certificates,
                "config": self.store.document(),
                "status": Status::default(),
            })),
            Command::PutCertificate { name, bundle } => {
                match self
                    .certificates
                    .insert(name.as_str().to_owned(), bundle.description().clone())
                {
                    Some(_) => Refusal::CertificateExists.into(),
                    None => Done::CertificateStored.into(),
                }
            }
            Command::Reload { .. } => Done::Reloaded.into(),
            Command::Upgrade => Done::Upgraded.into(),
            Command::Ask { question, part } => match question.subject() {
                Subject::Application(name) if !self.store.has_application(name) => {
                    Refusal::NoSuchApplication { name: name.to_owned() }.into()
                }
                Subject::Cache(Some(name)) => {
                    Refusal::NoSuchCache { name: Some(name.to_owned()) }.into()
                }
                _ => answered(&question, &part),
            },
        }
    }

    /// Checks a request that must be carried out.
    fn done(&mut self, method: &str, target: &str, body: impl AsRef<[u8]>) {
        let reply = self.request(method, target, body);
        let expected = json!({"success": "Reconfiguration done."});
        assert_eq!((reply.status(), reply.body()), (200, &expected), "{method} {target}");
    }

    /// Checks a request that must be refused without an effect.
    fn refused(&mut self, method: &str, target: &str, body: impl AsRef<[u8]>, with: (u16, &str)) {
        let before = self.store.clone();
        let reply = self.request(method, target, body);
        let error = reply.body()["error"].as_str().unwrap_or("none");
        assert_eq!((reply.status(), error), with, "{method} {target}");
        assert_eq!(reply.allow().is_some(), reply.status() == 405, "{method} {target}");
        assert_eq!(self.store, before);
    }

    /// Checks a value.
    fn shows(&mut self, target: &str, value: Value) {
        let reply = self.request("GET", target, "");
        assert_eq!((reply.status(), reply.body()), (200, &value), "{target}");
    }
}

/// Answers of a router.
fn answered(question: &Question, part: &Path) -> Reply {
    match question {
        Question::Status => {
            let status = serde_json::to_vec(&Status::default()).unwrap();
            let found = Reply::part(&status, part)
                .unwrap()
                .map(|reply| Reply::value(json::parse(reply.into_text().as_bytes()).unwrap()));
            found.unwrap_or_else(|| Refusal::NoSuchPath.into())
        }
        Question::Pools { .. } => match part.find(&json!({"blog": {"idle-processes": 3}})) {
            Some(value) => Reply::value(value.clone()),
            None => Refusal::NoSuchValue.into(),
        },
        Question::Tuning { application } => Reply::value(json!({ "application": application })),
        Question::Restart { .. } => Done::Restarted.into(),
        Question::PurgeCaches { .. } => Done::Purged.into(),
        _ => Reply::value(json!({})),
    }
}

fn application() -> Value {
    json!({"type": "php", "processes": {"spare": 0}, "root": "/app", "index": "index.php"})
}

fn basic() -> Value {
    json!({
        "listeners": {"*:8080": {"pass": "applications/app"}},
        "applications": {"app": application()}
    })
}

fn routes() -> Value {
    json!({
        "listeners": {"*:8080": {"pass": "routes/main"}},
        "routes": {"main": [
            {"match": {"uri": ["/a"]}, "action": {"return": 200}},
            {"action": {"return": 404}}
        ]}
    })
}

const NOT_FOUND: (u16, &str) = (404, "Value doesn't exist.");
const NOT_ALLOWED: (u16, &str) = (405, "Method isn't allowed.");
const BAD_METHOD: (u16, &str) = (405, "Invalid method.");
const BAD_PATH: (u16, &str) = (404, "Invalid path.");
const BAD_CONFIG: (u16, &str) = (400, "Invalid configuration.");
const BAD_JSON: (u16, &str) = (400, "Invalid JSON.");
const BAD_NAME: (u16, &str) = (400, "Invalid certificate name.");

#[test]
fn every_part_of_the_configuration_can_be_read() {
    let mut server = Server::new(basic());
    for whole in ["/config", "/config/", "/config/?x", "//config//"] {
        server.shows(whole, basic());
    }
    server.shows("/config/listeners", json!({"*:8080": {"pass": "applications/app"}}));
    server.shows("/config/listeners/*:8080/pass", json!("applications/app"));
    server.shows("/config/listeners/%2A%3A8080/pass/", json!("applications/app"));
    server.shows("/config/applications/app/processes/spare", json!(0));
    for missing in ["routes", "applications/app/processes/max", "applications/app/type/x", "x/y"] {
        server.refused("GET", &format!("/config/{missing}"), "", NOT_FOUND);
    }
    let mut server = Server { store: Store::empty(), ..Server::new(Value::Null) };
    server.shows("/config", json!({"listeners": {}, "routes": [], "applications": {}}));
}

#[test]
fn the_root_shows_everything_in_one_tree() {
    let mut server = Server::new(basic());
    let reply = server.request("GET", "/", "");
    let members: Vec<_> = reply.body().as_object().unwrap().keys().collect();
    assert_eq!(members, ["certificates", "config", "status"]);
    assert_eq!(reply.body()["config"], basic());
    for method in ["PUT", "POST", "DELETE", "HEAD"] {
        server.refused(method, "/", "{}", BAD_METHOD);
    }
}

#[test]
fn the_whole_configuration_can_be_put_and_deleted() {
    let mut server = Server { store: Store::empty(), ..Server::new(Value::Null) };
    server.done("PUT", "/config", basic().to_string());
    server.shows("/config", basic());
    server.refused("POST", "/config", basic().to_string(), NOT_ALLOWED);
    server.refused("PATCH", "/config", "{}", NOT_ALLOWED);
    server.done("DELETE", "/config", "");
    server.shows("/config", json!({}));
}

#[test]
fn members_are_replaced_in_place_and_added_at_the_end() {
    let mut server = Server::new(basic());
    server.done("PUT", "/config/listeners/*:8082", r#"{"pass": "applications/app"}"#);
    server.done("PUT", "/config/applications/app/processes/max", "30");
    server.done("PUT", "/config/applications/app/root", "\"/www\"");
    server.shows("/config/applications/app/processes", json!({"spare": 0, "max": 30}));
    let text = server.store.document().to_string();
    let expected = concat!(
        r#"{"listeners":{"*:8080":{"pass":"applications/app"},"#,
        r#""*:8082":{"pass":"applications/app"}},"applications":{"app":{"type":"php","#,
        r#""processes":{"spare":0,"max":30},"root":"/www","index":"index.php"}}}"#
    );
    assert_eq!(text, expected);
    server.done("DELETE", "/config/listeners/*:8080", "");
    server.done("PUT", "/config/listeners/*:8080", r#"{"pass": "applications/app"}"#);
    let listeners = server.request("GET", "/config/listeners", "");
    let order: Vec<_> = listeners.body().as_object().unwrap().keys().collect();
    assert_eq!(order, ["*:8082", "*:8080"]);
}

#[test]
fn what_would_leave_an_invalid_document_is_refused_with_its_place() {
    let mut server = Server::new(basic());
    server.refused("DELETE", "/config/applications/app", "", BAD_CONFIG);
    server.done("DELETE", "/config/listeners/*:8080", "");
    server.done("DELETE", "/config/applications/app", "");
    server.refused("DELETE", "/config/applications/app", "", NOT_FOUND);

    let reply = server.request("PUT", "/config/listeners", r#"{"*:80": {"pass": "routes"}}"#);
    assert_eq!(reply.status(), 400);
    assert_eq!(reply.body()["error"], "Invalid configuration.");
    assert_eq!(reply.body()["location"], json!({"path": "/listeners/*:80/pass"}));
    let detail = reply.body()["detail"].as_str().unwrap();
    assert!(detail.starts_with("/listeners/*:80/pass: "), "{detail}");
}

#[test]
fn a_mistake_has_a_json_pointer_and_the_key_that_was_meant() {
    let mut server = Server::new(basic());
    let steps = r#"[{"action": {"return": 200}, "unknownkey": 1}]"#;
    let documents = [
        (r#"{"foo": 1}"#, "", None),
        (r#"{"listners": {}}"#, "", Some("listeners")),
        (r#"{"aplications": {}}"#, "", Some("applications")),
        (r#"{"zzzzzzz": 1}"#, "", None),
        (
            r#"{"listeners": {"*:8080": {"pass": "routes", "backlo": 1}}, "routes": []}"#,
            "/listeners/*:8080",
            Some("backlog"),
        ),
        (&format!(r#"{{"routes": {{"a~b": {steps}}}}}"#), "/routes/a~0b/0", None),
        (&format!(r#"{{"routes": {{"a/b": {steps}}}}}"#), "/routes/a~1b/0", None),
        (
            &format!(r#"{{"routes": {{"a%~1/\n": {steps}}}}}"#),
            "/routes/a%~01~1
/0",
            None,
        ),
        // A wrong value, and a missing one, are named themselves.
        (r#"{"applications": {"demo": {"type": 1}}}"#, "/applications/demo/type", None),
        (r#"{"applications": {"demo": {}}}"#, "/applications/demo/type", None),
        (r#"{"upstreams": {"u": {}}}"#, "/upstreams/u/servers", None),
        (r#"{"access_log": {"path": ""}}"#, "/access_log/path", None),
    ];
    for (document, pointer, suggestion) in documents {
        let reply = server.request("PUT", "/config", document);
        assert_eq!(reply.status(), 400, "{document}");
        assert_eq!(reply.body()["location"], json!({"path": pointer}), "{document}");
        let found = reply.body().get("suggestion").and_then(Value::as_str);
        assert_eq!(found, suggestion, "{document}");
    }
    let reply = server.request("PUT", "/config", r#"{"listeners""#);
    assert!(reply.body()["location"].get("path").is_none(), "{:?}", reply.body());
}

#[test]
fn a_missing_parent_is_not_made() {
    let mut server = Server::new(basic());
    server.refused("PUT", "/config/settings/http/body_read_timeout", "10", NOT_FOUND);
    server.refused("PUT", "/config/applications/app/root/x", "10", NOT_FOUND);
    server.refused("POST", "/config/routes", "{}", NOT_FOUND);
    server.refused("DELETE", "/config/routes", "", NOT_FOUND);
    server.refused("DELETE", "/config/applications/app/root/x", "", NOT_FOUND);
}

#[test]
fn steps_of_a_route_are_changed_by_their_index() {
    let mut server = Server::new(routes());
    let step = |status: u16| json!({"action": {"return": status}});
    server.done("POST", "/config/routes/main", step(500).to_string());
    server.shows("/config/routes/main/2", step(500));
    server.done("PUT", "/config/routes/main/3", step(501).to_string());
    server.refused("PUT", "/config/routes/main/5", step(502).to_string(), NOT_FOUND);
    server.refused("PUT", "/config/routes/main/-1", step(502).to_string(), NOT_FOUND);
    server.refused("PUT", "/config/routes/main/x", step(502).to_string(), NOT_FOUND);
    server.done("DELETE", "/config/routes/main/0", "");
    server.refused("DELETE", "/config/routes/main/3", "", NOT_FOUND);
    server.refused("DELETE", "/config/routes/main/-1", "", NOT_FOUND);
    server.refused("DELETE", "/config/routes/main/blah", "", NOT_FOUND);
    server.refused("DELETE", "/config/routes/main/0/blah", "", NOT_FOUND);
    server.refused("DELETE", "/config/routes/main", "", BAD_CONFIG);
    server.shows("/config/routes/main", json!([step(404), step(500), step(501)]));
    server.done("DELETE", "/config/routes/main/1", "");
    server.shows("/config/routes/main", json!([step(404), step(501)]));
}

#[test]
fn only_arrays_can_be_appended_to() {
    let mut server = Server::new(routes());
    server.done("POST", "/config/routes/main/0/match/uri", "\"/b\"");
    server.done("POST", "/config/routes/main/0/match/uri", "\"/c\"");
    server.shows("/config/routes/main/0/match/uri", json!(["/a", "/b", "/c"]));
    server.refused("POST", "/config/routes", "[]", NOT_ALLOWED);
    server.refused("POST", "/config/routes/main/0/action/return", "200", NOT_ALLOWED);
    server.refused("POST", "/config/routes/main/9", "200", NOT_FOUND);
}

#[test]
fn a_name_with_a_slash_is_reached_by_encoding_it() {
    let named = |routes: Value| json!({"routes": routes});
    let step = |status: u16| json!([{"action": {"return": status}}]);
    let mut server = Server::new(named(json!({"a/b": step(200)})));
    server.shows("/config/routes/a%2Fb/0/action/return", json!(200));
    server.done("PUT", "/config/routes/c%2fd%25", step(201).to_string());
    server.shows("/config", named(json!({"a/b": step(200), "c/d%": step(201)})));
    server.done("POST", "/config/routes/a%2Fb", r#"{"action": {"return": 202}}"#);
    server.done("DELETE", "/config/routes/a%2Fb", "");
    server.refused("GET", "/config/routes/c/d%25", "", NOT_FOUND);
}

#[test]
fn bodies_are_read_with_units_liberties() {
    let mut server = Server::new(json!({}));
    let named = |name: &str| format!("{{{name:?}: {}}}", application());
    server.done("PUT", "/config/applications", "{ \n\r\t}");
    server.done("PUT", "/config/applications", format!("\u{feff}{}", named("app")));
    server.done("PUT", "/config/applications", b"// bridge\n{} // end \xef\t\n");
    server.done("PUT", "/config/applications", b"/* bridge */ {} /* end \xef\t\x08 */");
    server.done("PUT", "/config/applications", named("приложение"));
    server.shows(
        "/config/applications/%D0%BF%D1%80%D0%B8%D0%BB%D0%BE%D0%B6%D0%B5%D0%BD%D0%B8%D0%B5/root",
        json!("/app"),
    );
    server.done(
        "PUT",
        "/config/applications",
        r#"{"a": {"\u0074ype": "\u0070hp", "root": "\u002Fa"}}"#,
    );
    server.shows("/config/applications", json!({"a": {"type": "php", "root": "/a"}}));
    server.done("PUT", "/config/applications", named(&"X".repeat(1 << 20)));
}

#[test]
fn a_body_that_is_not_json_is_refused_with_its_place() {
    let mut server = Server::new(json!({}));
    for body in [
        "",
        "00",
        "/{}",
        "//{}",
        "{} /",
        "/*{}",
        "{} /*",
        "{",
        "{} {}",
        "{app\": {}}",
        r#"{"app" {}}"#,
        r#"{"a": {} "b": {}}"#,
        r#"{"a": 1, "a": 2}"#,
    ] {
        server.refused("PUT", "/config/applications", body, BAD_JSON);
    }
    server.refused("PUT", "/config", b"\"\xff\"", BAD_JSON);
    let reply = server.request("PUT", "/config", "\u{feff}{\n  \"п\": ]\n}");
    assert_eq!(reply.body()["location"], json!({"offset": 10, "line": 2, "column": 8}));
    assert!(reply.body()["detail"].as_str().unwrap().starts_with("a value is expected here"));
    let text = reply.into_text();
    assert!(text.starts_with("{\r\n\t\"error\": \"Invalid JSON.\",\r\n\t\"detail\": \"a "));
    assert!(text.ends_with(
        "\t\"location\": {\r\n\t\t\"offset\": 10,\r\n\t\t\"line\": 2,\r\n\t\t\"column\": 8\r\n\t}\r\n}\r\n"
    ));
}

#[test]
fn json_is_read_before_the_path_is_followed() {
    let mut server = Server::new(json!({}));
    server.refused("PUT", "/config/a/b/c", "{", BAD_JSON);
    server.refused("POST", "/config/a", "{", BAD_JSON);
    server.refused("POST", "/config", "{", NOT_ALLOWED);
    server.refused("PATCH", "/config/a", "{", NOT_ALLOWED);
}

#[test]
fn the_status_can_only_be_read() {
    let mut server = Server::new(json!({}));
    server.shows("/status/requests", json!({"total": 0}));
    server
        .shows("/status/connections/", json!({"accepted": 0, "active": 0, "idle": 0, "closed": 0}));
    server.refused("GET", "/status/blah", "", BAD_PATH);
    server.refused("DELETE", "/status", "", BAD_METHOD);
    server.refused("PUT", "/status/blah", "", BAD_METHOD);
}

#[test]
fn an_application_says_how_many_processes_it_gets_and_why() {
    let mut server = Server::new(json!({"applications": {"a": {"type": "php", "root": "/"}}}));
    let reply = server.request("GET", "/control/applications/a/tune", "");
    assert_eq!((reply.status(), reply.body()), (200, &json!({"application": "a"})));
    server.refused("GET", "/control/applications/b/tune", "", NOT_FOUND);
    server.refused("POST", "/control/applications/a/tune", "", NOT_ALLOWED);
}

#[test]
fn an_application_is_restarted_by_its_name() {
    let mut server = Server::new(json!({"applications": {"a b/c": application()}}));
    for method in ["GET", "POST"] {
        let reply = server.request(method, "/control/applications/a%20b%2Fc/restart", "");
        assert_eq!((reply.status(), reply.body()), (200, &json!({"success": "Ok"})));
        server.refused(method, "/control/applications/blah/restart", "", NOT_FOUND);
        server.refused(method, "/control/applications/restart", "", NOT_FOUND);
        server.refused(method, "/control/applications/a/b/restart", "", NOT_FOUND);
        server.refused(method, "/control/nothing", "", NOT_FOUND);
    }
    server.refused("DELETE", "/control/applications/a%20b%2Fc/restart", "", NOT_ALLOWED);
    assert_eq!(server.request("POST", "/control/reload", "").status(), 200);
    for path in ["/control/reload", "/control/upgrade"] {
        server.refused("GET", path, "", NOT_ALLOWED);
    }
    assert_eq!(translate(b"POST", b"/control/upgrade", b""), Ok(Command::Upgrade));
    let reply = Reply::from(Refusal::Upgrading);
    assert_eq!((reply.status(), reply.retry_after()), (503, Some("5")));
    let reply = Reply::from(Refusal::NoAnswer { detail: "for 5 s".to_owned() });
    assert_eq!((reply.status(), reply.retry_after()), (503, Some("5")));
}

#[test]
fn certificates_are_stored_and_deleted_by_their_name() {
    let mut server = Server::new(json!({}));
    let pem = include_str!("../testdata/rsa.pem");
    let reply = server.request("PUT", "/certificates/a", pem);
    assert_eq!(reply.body(), &json!({"success": "Certificate chain uploaded."}));
    assert_eq!(
        server.request("PUT", "/certificates/a", pem).body()["error"],
        "Certificate already exists."
    );
    server.refused("PUT", "/certificates/b", "pem", (400, "Invalid certificate."));
    server.shows("/certificates/a/key", json!("RSA (2048 bits)"));
    server.shows("/certificates/a/chain/0/subject/common_name", json!("root"));
    server.refused("GET", "/certificates/b", "", (404, "Certificate doesn't exist."));
    server.refused("GET", "/certificates/a/chain/1", "", BAD_PATH);
    server.refused("PUT", "/certificates", "pem", BAD_NAME);
    server.refused("PUT", "/certificates/a/chain", "pem", BAD_NAME);
    server.refused("POST", "/certificates/a", "pem", BAD_METHOD);

    let tls = json!({"listeners": {"*:443": {"tls": {"certificate": ["b", "a"]}}}});
    server.store = Store::new(tls);
    server.refused(
        "DELETE",
        "/certificates/a",
        "",
        (400, "Certificate is used in the configuration."),
    );
    server.store = Store::new(json!({"listeners": {"*:443": {"tls": {"certificate": "b"}}}}));
    let reply = server.request("DELETE", "/certificates/a", "");
    assert_eq!(reply.body(), &json!({"success": "Certificate deleted."}));
    server.refused("DELETE", "/certificates/a", "", (404, "Certificate doesn't exist."));
}

#[test]
fn a_certificate_path_cannot_leave_its_directory() {
    let mut server = Server::new(json!({}));
    for name in ["..%2Fx", "%2Fetc%2Fpasswd", ".x", "a%0A", "..%5Cx"] {
        server.refused("PUT", &format!("/certificates/{name}"), "pem", BAD_NAME);
        server.refused("DELETE", &format!("/certificates/{name}"), "", BAD_NAME);
    }
    server.refused("PUT", "/certificates/../../x", "", (400, "Invalid path."));
    server.refused("PUT", "/certificates/..", "", BAD_METHOD);
}

#[test]
fn json_nested_100_000_deep_is_refused() {
    let mut server = Server::new(json!({}));
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    server.refused("PUT", "/config", &deep, BAD_JSON);
    server.refused("PUT", "/config/routes", "{\"a\":".repeat(100_000), BAD_JSON);
    // Each step is within the limits, the sum is not.
    let format = |depth| "{\"a\":".repeat(depth) + "\"b\"" + &"}".repeat(depth);
    server.store = Store::new(json!({"x": json::parse(format(120).as_bytes()).unwrap()}));
    let path = format!("/config/x{}", "/a".repeat(120));
    server.refused("PUT", &path, format(120), BAD_CONFIG);
}

#[test]
fn a_body_of_100_mb_is_refused() {
    let mut server = Server::new(basic());
    let body = vec![b' '; 100_000_000];
    server.refused("PUT", "/config", &body, (413, "Request body is too large."));
    server.refused("DELETE", "/config", &body, (413, "Request body is too large."));
}

#[test]
fn a_document_does_not_grow_past_its_limit_change_by_change() {
    let mut server = Server::new(json!({}));
    let environment =
        |n: usize| json!({"type": "php", "root": "/", "environment": {"A": "x".repeat(n)}});
    server.done("PUT", "/config/applications", "{}");
    server.done("PUT", "/config/applications/a", environment(9 << 20).to_string());
    server.refused("PUT", "/config/applications/b", environment(9 << 20).to_string(), BAD_CONFIG);
    server.done("PUT", "/config/applications/b", environment(6 << 20).to_string());
}

#[test]
fn what_leads_nowhere_is_not_found() {
    let mut server = Server::new(basic());
    for target in ["/x", "/configx", "/config%2Froutes", "/js_modules", "/control", "/statuses"] {
        server.refused("GET", target, "", NOT_FOUND);
    }
    for target in ["*", "config", "/config/%zz", "/.."] {
        server.refused("GET", target, "", (400, "Invalid path."));
    }
}

#[test]
fn what_could_not_be_read_is_answered_in_json_too() {
    for status in [400, 408, 413, 414, 431, 501, 505] {
        let reply = Reply::from(Refusal::Unreadable { status });
        assert_eq!(reply.status(), status);
        assert!(reply.body()["error"].is_string());
    }
    let too_large = Reply::from(Refusal::Unreadable { status: 413 });
    assert_eq!(too_large, Refusal::BodyTooLarge.into());
}

#[test]
fn failures_of_the_server_say_why() {
    let reply = Reply::from(Refusal::NotApplied { detail: "*:80: in use".into() });
    let text = "{\r\n\t\"error\": \"Failed to apply new configuration.\",\r\n\
                \t\"detail\": \"*:80: in use\"\r\n}\r\n";
    assert_eq!((reply.status(), reply.into_text().as_str()), (500, text));
}

#[test]
fn every_answer_is_in_the_documentation() {
    let documented = include_str!("../../../docs/control-api.md");
    let source = include_str!("reply.rs");
    let mut errors = 0;
    // `error(400, "Invalid path.")`, and the texts for refusals by HTTP.
    for (_, rest) in source.match_indices("error(").map(|(at, _)| source.split_at(at + 6)) {
        let Some((status, text)) = rest.split_once(", \"") else { continue };
        let Ok(status) = status.parse::<u16>() else { continue };
        let text = text.split('"').next().unwrap();
        let quoted = format!("`{text}`");
        let is_row = |row: &&str| row.starts_with("| ") && row.contains(&quoted);
        let mut rows = documented.lines().filter(is_row);
        assert!(rows.any(|row| row.contains(&status.to_string())), "{status} {text}");
        errors += 1;
    }
    assert!(errors > 20, "{errors}");
    for text in source.split('"').filter(|text| text.starts_with("Request ") && text.ends_with('.'))
    {
        assert!(documented.contains(&format!("`{text}`")), "{text}");
    }
}
