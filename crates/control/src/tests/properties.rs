//! Properties of all requests.

use proptest::prelude::*;

use super::*;

fn step() -> impl Strategy<Value = String> {
    let names = [
        "listeners",
        "routes",
        "applications",
        "settings",
        "http",
        "main",
        "app",
        "*:80",
        "pass",
        "action",
        "return",
        "match",
        "method",
        "environment",
        "0",
        "1",
        "2",
        "..",
        "%zz",
        "",
        "a%2Fb",
        "root",
        "processes",
        "type",
    ];
    prop::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn body() -> impl Strategy<Value = String> {
    let bodies = [
        basic().to_string(),
        routes().to_string(),
        application().to_string(),
        json!({"app": application()}).to_string(),
        json!({"*:80": {"pass": "routes/main"}}).to_string(),
        json!([{"action": {"return": 200}}]).to_string(),
        json!({"action": {"return": 404}}).to_string(),
        json!({"main": [{"action": {"return": 404}}]}).to_string(),
    ];
    let short = ["{}", "[]", "null", "\"php\"", "\"GET\"", "200", "-1", "2.5", "{", ""];
    let short = short.map(str::to_owned);
    prop::sample::select(bodies.into_iter().chain(short).collect::<Vec<_>>())
}

type Request = (String, String, String);

fn request() -> impl Strategy<Value = Request> {
    let method = prop::sample::select(vec!["PUT", "PUT", "POST", "DELETE", "GET", "PATCH"]);
    let path = prop::collection::vec(step(), 0..5)
        .prop_map(|steps| steps.iter().fold("/config".to_owned(), |path, step| path + "/" + step));
    (method.prop_map(str::to_owned), path, body())
}

proptest! {
    #[test]
    fn any_sequence_of_changes_leaves_a_valid_document(
        requests in prop::collection::vec(request(), 1..40)
    ) {
        let mut server = Server::new(basic());
        for (method, target, body) in requests {
            let before = server.store.clone();
            let reply = server.request(&method, &target, body);
            prop_assert!(Config::from_value(server.store.document().clone()).is_ok());
            let changes = ["PUT", "POST", "DELETE"].contains(&method.as_str());
            if !changes || reply.status() != 200 {
                prop_assert_eq!(&server.store, &before);
            }
            prop_assert!(json::parse(reply.into_text().as_bytes()).is_ok());
        }
    }

    #[test]
    fn any_bytes_are_answered(
        method in "[A-Z]{0,7}",
        target in prop::collection::vec(any::<u8>(), 0..60),
        body in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut server = Server::new(basic());
        for prefix in [&b""[..], b"/", b"/config/", b"/control/", b"/certificates/"] {
            let target = [prefix, &target].concat();
            let reply = match translate(method.as_bytes(), &target, &body) {
                Ok(command) => server.carry_out(command),
                Err(refusal) => refusal.into(),
            };
            prop_assert!(json::parse(reply.into_text().as_bytes()).is_ok());
        }
    }
}
