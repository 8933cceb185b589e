//! Conditions, actions and other settings that affect routing.

use super::*;

fn conditions(value: Value) -> Match {
    let mut config = read(json!({"routes": [{"match": value, "action": {"return": 200}}]}));
    Arc::unwrap_or_clone(config.routes.remove(0).steps.remove(0).conditions)
}

fn refused_conditions(value: Value) -> String {
    refusal(json!({"routes": [{"match": value, "action": {"return": 200}}]}))
}

fn listener(value: Value) -> Value {
    let mut listener = json!({"pass": "routes"});
    listener
        .as_object_mut()
        .expect("an object")
        .extend(value.as_object().cloned().expect("an object"));
    json!({"listeners": {"*:80": listener}, "routes": []})
}

type Field<'a> = (&'a [u8], &'a [u8]);

#[test]
fn every_condition_is_read() {
    let all = conditions(json!({
        "method": ["get", "HEAD"], "scheme": "HTTPS", "host": "*.example.com",
        "source": "10.0.0.0/8",
        "destination": ["*:443", "!unix"], "uri": "/a", "query": "a=b+c", "arguments": {"a": "b"},
        "headers": [{"X-A": "1"}], "cookies": {"sid": "*"}, "if": "!$arg_x",
    }));
    assert!(all.method.expect("method").matches(b"GET"));
    assert_eq!(all.scheme, Some(Scheme::Https));
    assert!(all.host.expect("host").matches(b"www.example.com"));
    assert!(all.query.expect("query").matches(b"a=b c"));
    assert!(all.source.expect("source").matches("10.1.1.1:1".parse().ok()));
    assert!(all.arguments.is_some() && all.headers.is_some() && all.cookies.is_some());
    assert!(all.condition.expect("if").holds(&mut Vec::new(), |_, _| {}));
}

#[test]
fn broken_conditions_are_refused() {
    for (value, message) in [
        (json!({"method": "**"}), "two \"*\" in a row"),
        (
            json!({"scheme": "ftp"}),
            "\"scheme\" must be \"http\" or \"https\", but is the string \"ftp\"",
        ),
        (json!({"scheme": ["http"]}), "\"scheme\" must be a string"),
        (json!({"source": "127"}), "\"source\" is not an address pattern"),
        (json!({"source": "all"}), "leave \"all\" out"),
        (json!({"source": [1]}), "/routes/0/match/source/0: element 0 must be a string"),
        (json!({"query": [1]}), "must be a string"),
        (json!({"query": ["foo", "%3D", "%%1F"]}), "/routes/0/match/query/2: "),
        (json!({"headers": ["blah"]}), "must be an object"),
        (
            json!({"headers": {"foo": ["bar", {}]}}),
            "/routes/0/match/headers/foo/1: element 1 must be a string",
        ),
        (json!({"headers": {"": "blah"}}), "must have a name"),
        (json!({"arguments": {"%": "bar"}}), "of its name"),
        (json!({"arguments": {"foo": "%1G"}}), "hexadecimal digits"),
        (json!({"arguments": "a"}), "must be an object or an array of objects"),
        (json!({"cookies": [{"foo": {}}]}), "/routes/0/match/cookies/0/foo: "),
        (json!({"if": "$arg_"}), "Unknown variable \"$arg_\""),
        (json!({"if": 1}), "\"if\" must be a string"),
        (json!({"hsot": "x"}), "did you mean \"host\"?"),
    ] {
        let line = refused_conditions(value);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_field_must_occur_and_each_occurrence_must_be_accepted() {
    let headers =
        conditions(json!({"headers": {"X-Blah": ["test", "blah"]}})).headers.expect("headers");
    let holds = |fields: &[Field<'_>]| headers.matches(fields.iter().copied());
    assert!(holds(&[(b"Host", b"x"), (b"x-blah", b"TEST")]));
    assert!(holds(&[(b"X-Blah", b"test"), (b"X-Blah", b"blah")]));
    assert!(!holds(&[(b"X-Blah", b"blah"), (b"X-Blah", b"")]));
    assert!(!holds(&[(b"Host", b"x")]) && !holds(&[]));
}

#[test]
fn all_names_of_one_alternative_must_hold() {
    let arguments = conditions(json!({"arguments": [{"a": "1", "b+c": "!2"}, {"d": "*"}]}))
        .arguments
        .expect("arguments");
    let holds = |fields: &[Field<'_>]| arguments.matches(fields.iter().copied());
    assert!(holds(&[(b"a", b"1"), (b"b c", b"3")]));
    assert!(!holds(&[(b"a", b"1"), (b"b c", b"2")]) && !holds(&[(b"a", b"1")]));
    assert!(holds(&[(b"d", b"")]));
    assert!(!holds(&[(b"A", b"1"), (b"b c", b"3")]), "case counts");
}

#[test]
fn no_alternatives_and_an_empty_one_always_hold() {
    for value in [json!([]), json!({}), json!([{}, {"a": "b"}])] {
        let cookies = conditions(json!({"cookies": value})).cookies.expect("cookies");
        assert!(cookies.matches([].iter().copied()));
    }
}

#[test]
fn an_action_may_rewrite_and_set_fields() {
    let action = read_action(json!({
        "return": 200, "rewrite": "/new$uri",
        "response_headers": {"X-Foo": "$uri", "ETag": null, "X-Empty": ""},
    }));
    assert_eq!(action.rewrite.expect("a rewrite").path.parts().len(), 2);
    let [foo, etag, empty] = action.options.response_headers.as_slice() else {
        panic!("three fields")
    };
    assert!(matches!(&foo.change, HeaderChange::Set(values) if values.len() == 1));
    assert_eq!((foo.constant(), empty.constant()), (None, Some("")));
    assert_eq!((etag.name.as_str(), &etag.change), ("ETag", &HeaderChange::Remove));
}

#[test]
fn a_field_may_be_set_several_times_added_appended_and_edited() {
    let read = read_action(json!({"return": 200, "response_headers": {
        "Link": ["<a>", "$uri"],
        "A": {"value": ["1", "2"], "mode": "add", "always": true},
        "B": {"value": "1", "mode": "append"},
        "C": [
            {"value": "1", "mode": "default"}, {"edit": "~(a)", "value": "$1$host", "all": true},
            {"value": null, "always": true},
        ],
    }}));
    let shown: Vec<_> = read
        .options
        .response_headers
        .iter()
        .map(|header| {
            let change = match &header.change {
                HeaderChange::Add(values) => format!("add {}", values.len()),
                HeaderChange::Append(values) => format!("append {}", values.len()),
                HeaderChange::Default(values) => format!("default {}", values.len()),
                HeaderChange::Edit { all, .. } => format!("edit {all}"),
                HeaderChange::Remove => "remove".to_owned(),
                HeaderChange::Set(values) => format!("set {}", values.len()),
            };
            format!("{} {change} {}", header.name, header.always)
        })
        .collect();
    let expected = [
        "Link set 2 false",
        "A add 2 true",
        "B append 1 false",
        "C default 1 false",
        "C edit true false",
        "C remove true",
    ];
    assert_eq!(shown, expected);
    for (value, message) in [
        (json!([]), "must have a value; null takes the field out"),
        (json!(["a", 1]), "X/1: element 1 must be a string"),
        (json!(["a\n"]), "must not contain control characters"),
        (json!([{"value": "a"}, "b"]), "element 1 must be an object"),
        (json!({"value": "a", "mode": "merge"}), "must be \"add\", \"append\", \"default\" or"),
        (json!({"value": null, "mode": "add"}), "removes the field; it has no \"mode\""),
        (json!({"value": "a", "edit": "~a", "mode": "add"}), "it has no \"mode\""),
        (json!({"value": "a", "edit": "a"}), "must be a regular expression after \"~\""),
        (json!({"value": "$2", "edit": "~(a)"}), "numbered from 1 to 1"),
        (json!({"value": "$hst", "edit": "~(a)"}), "did you mean \"$host\"?"),
        (json!({"value": "a\r\nB: c", "edit": "~(a)"}), "must not contain control characters"),
        (json!({"value": ["a"], "edit": "~(a)"}), "must be a string"),
        (json!({"value": "a", "all": true}), "unknown key \"all\""),
    ] {
        let line = refusal(action(json!({"return": 200, "response_headers": {"X": value}})));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_status_page_and_a_ping_name_an_application_as_a_whole() {
    let read = |action: Value| {
        let applications = json!({"a b": {"type": "php", "targets": {"t": {"root": "/"}}}});
        let document = json!({"routes": [{"action": action}], "applications": applications});
        Config::from_value(document).map(|config| config.routes[0].steps[0].action.kind.clone())
    };
    let kind = read(json!({"status": "applications/a%20b"}));
    assert!(matches!(kind, Ok(ActionKind::Status(name)) if name == "a b"));
    let pong = |action| match read(action) {
        Ok(ActionKind::Ping(ping)) => ping.response,
        other => panic!("{other:?}"),
    };
    assert_eq!(pong(json!({"ping": "applications/a b"})), "pong");
    assert_eq!(pong(json!({"ping": "applications/a b", "response": "here"})), "here");
    for (action, message) in [
        (json!({"status": "applications/c"}), "there is no application \"c\""),
        (json!({"status": "applications/a b/t"}), "must name an application as a whole"),
        (json!({"ping": "routes"}), "must name an application as a whole"),
        (json!({"status": "applications/a b", "response": "x"}), "response"),
        (json!({"status": "applications/a b", "return": 200}), "it must have just one of"),
    ] {
        let line = read(action).unwrap_err().to_string();
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn response_fields_cannot_break_the_response() {
    for (fields, message) in [
        (json!({"": "x"}), "must be the name of a header field"),
        (json!({"X Y": "x"}), "must be the name of a header field"),
        (json!({"X:\r\nY": "x"}), "must be the name of a header field"),
        (json!({"content-length": "1"}), "as only the server knows it"),
        (json!({"Transfer-Encoding": null}), "as only the server knows it"),
        (json!({"X": "a\r\nSet-Cookie: b"}), "must not contain control characters"),
        (json!({"X": 1}), "an array of strings, or null to take the field out"),
        (
            json!({"X-Foo": "$u"}),
            "/routes/0/action/response_headers/X-Foo: Unknown variable \"$u\"",
        ),
    ] {
        let line = refusal(action(json!({"return": 200, "response_headers": fields})));
        assert!(line.contains(message), "{line}");
    }
    assert!(
        refusal(action(json!({"pass": "routes", "rewrite": ["/"]}))).contains("must be a string")
    );
    assert!(
        refusal(action(json!({"pass": "routes", "rewrite": "/$blah"})))
            .contains("Unknown variable")
    );
}

#[test]
fn a_proxy_has_an_address() {
    for (text, address) in [
        ("http://127.0.0.1:8080", Address::Inet(([127, 0, 0, 1], 8080).into())),
        ("http://unix:/run/x", Address::Unix("/run/x".into())),
        ("http://Backend.example:80", Address::Name("backend.example".to_owned(), 80)),
        ("https://127.0.0.1:443", Address::Inet(([127, 0, 0, 1], 443).into())),
    ] {
        let ActionKind::Proxy(proxy) = read_action(json!({"proxy": text})).kind else {
            panic!("a proxy")
        };
        let tls = text.starts_with("https").then(UpstreamTls::default);
        assert_eq!(proxy, Proxy { address, tls, keepalive: 32 });
    }
    for (proxy, message) in [
        (json!("127.0.0.1:80"), "must start with \"http://\""),
        (json!("ftp://127.0.0.1:80"), "must start with \"http://\" or \"https://\""),
        (json!("https://unix:/run/x"), "no certificate is for"),
        (json!("http://127.0.0.1"), "has no port; write \"http://127.0.0.1:80\""),
        (json!("https://b.example"), "has no port; write \"https://b.example:443\""),
        (json!("http://127.0.0.1:80/"), "must not have a path; write \"http://127.0.0.1:80\""),
        (
            json!("http://127.0.0.1:80/app/"),
            "must not have a path, as the server gets the path of the request; write \
             \"http://127.0.0.1:80\", and \"rewrite\": \"/app$uri\" beside it",
        ),
        (json!("http://$host:80"), "is not an address"),
        (json!("http://${arg_to}.example:80"), "is not an address"),
        (json!("http://user@localhost:80"), "is not an address"),
        (json!([]), "must be a string"),
    ] {
        let line = refusal(action(json!({"proxy": proxy})));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn an_upstream_has_servers_with_weights() {
    let config = read(json!({
        "upstreams": {"u": {"servers": {"127.0.0.1:1": {}, "127.0.0.1:2": {"weight": 0.5}}}},
        "listeners": {"*:80": {"pass": "upstreams/u"}},
    }));
    let weights: Vec<f64> =
        config.upstreams[0].servers.iter().map(|server| server.weight).collect();
    assert_eq!(weights, [1.0, 0.5]);
    assert_eq!((config.upstreams[0].tries, config.upstreams[0].keepalive), (Some(1), 32));
    let config = read(json!({"upstreams": {"u": {"servers": {}, "tries": 3, "keepalive": 16}}}));
    assert_eq!((config.upstreams[0].tries, config.upstreams[0].keepalive), (Some(3), 16));
    for (upstream, message) in [
        (json!({}), "/upstreams/u: \"servers\" is missing"),
        (json!({"servers": {"x": {}}}), "/upstreams/u/servers/x: \"x\" must end with a port"),
        (
            json!({"servers": {"a b:1": {}}}),
            "/upstreams/u/servers/a b:1: \"a b:1\" is not an address",
        ),
        (json!({"servers": {"_a._tcp.b:1": {}}}), "\"_a._tcp.b:1\" must have no port"),
        (json!({"servers": {"*:1": {"weight": -1}}}), "must be between 0 and 1000000, but is -1"),
        (json!({"servers": {"*:1": {"weight": 1_000_001}}}), "must be between 0 and 1000000"),
        (json!({"servers": {"*:1": {"weight": "1"}}}), "must be a number"),
        (json!({"servers": {}, "tries": 0}), "must be between 1 and 100, but is 0"),
        (json!({"servers": {}, "keepalive": -1}), "must be between 0 and 10000, but is -1"),
    ] {
        let line = refusal(json!({"upstreams": {"u": upstream}}));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn trusted_proxies_have_a_source_and_a_field() {
    let config = read(listener(json!({
        "forwarded": {"client_ip": "X-Forwarded-For", "protocol": "X-Forwarded-Proto",
            "source": ["10.0.0.1"], "recursive": true},
        "client_ip": {"header": "X-Real-IP", "source": []},
    })));
    let [listener_read] = config.listeners.as_slice() else { panic!("one listener") };
    let forwarded = listener_read.forwarded.as_ref().expect("forwarded");
    assert!(forwarded.recursive && forwarded.source.matches("10.0.0.1:5".parse().ok()));
    let client_ip = listener_read.client_ip.as_ref().expect("client_ip");
    assert!(!client_ip.recursive && !client_ip.source.matches(None));
    for (value, message) in [
        (
            json!({"forwarded": {"source": "127.0.0.1"}}),
            "one of \"client_ip\", \"protocol\", \"host\" or \"port\" is missing",
        ),
        (json!({"forwarded": {"client_ip": "X"}}), "\"source\" is missing"),
        (json!({"client_ip": {"source": "127.0.0.1"}}), "\"header\" is missing"),
        (
            json!({"client_ip": {"header": "X", "source": null}}),
            "must be a string or an array of strings, but is null",
        ),
        (json!({"client_ip": {"header": "X", "source": ["a"]}}), "is not an address pattern"),
        (
            json!({"client_ip": {"header": "X Y", "source": []}}),
            "must be the name of a header field",
        ),
    ] {
        let line = refusal(listener(value));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn actions_say_who_may_come() {
    let mut config = read(json!({"routes": [{"action": {
        "return": 200, "allow": "10.0.0.0/8", "deny": ["10.0.0.1"],
        "basic_auth": {"users_file": "/etc/users"},
    }}]}));
    let access = config.routes.remove(0).steps.remove(0).action.access.clone();
    assert!(access.allow.expect("allow").matches("10.1.1.1:1".parse().ok()));
    assert!(access.deny.expect("deny").matches("10.0.0.1:1".parse().ok()));
    let expected = BasicAuth {
        realm: Template::literal("Restricted"),
        users_file: Template::literal("/etc/users"),
        condition: None,
        members: None,
    };
    assert_eq!(access.basic_auth, Some(expected));
    for (key, value, message) in [
        ("allow", json!("10.0.0.0/33"), "\"allow\" must have a prefix length"),
        ("deny", json!([1]), "element 0 must be a string, but is the number 1"),
        ("basic_auth", json!({}), "\"users_file\" is missing"),
        ("basic_auth", json!({"users_file": "/a", "realm": "a\nb"}), "control characters"),
        ("basic_auth", json!({"users_file": "/a", "realm": "$nothing"}), "Unknown variable"),
        ("basic_auth", json!({"users_file": "$host"}), "only below a directory"),
        ("basic_auth", json!({"users_file": "a/$host"}), "only below a directory"),
        ("basic_auth", json!({"users_file": "/a", "groups": "b"}), "unknown key \"groups\""),
        ("basic_auth", json!({"users_file": "/a", "groups_file": "/b"}), "\"groups\" is missing"),
        ("basic_auth", json!({"users_file": "/a", "users": [1]}), "must be a string"),
        ("basic_auth", json!({"users_file": "/a", "relm": "a"}), "did you mean \"realm\"?"),
    ] {
        let line = refusal(action(json!({"return": 200, key: value})));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn error_pages_are_files_or_actions_by_status() {
    let mut config = read(action(json!({"return": 404, "error_pages": {"404": "/e/404.html"}})));
    let pages = config.routes.remove(0).steps.remove(0).action.error_pages.clone();
    let [ErrorPage { status: 404, source: PageSource::File(file) }] = pages.as_slice() else {
        panic!("{pages:?}")
    };
    assert_eq!(file.to_str(), Some("/e/404.html"));
    let page = json!({"action": {"rewrite": "/404.php", "return": 200}, "keep_status": false});
    let pages = read_action(json!({"return": 404, "error_pages": {"503": page}})).error_pages;
    let [ErrorPage { status: 503, source: PageSource::Action { action: by, status } }] =
        pages.as_slice()
    else {
        panic!("{pages:?}")
    };
    assert!(by.rewrite.is_some() && *status == PageStatus::OfAction);
    let page = json!({"action": {"return": 200}, "status": 410});
    let pages = read_action(json!({"return": 404, "error_pages": {"503": page}})).error_pages;
    assert!(matches!(
        pages.as_slice(),
        [ErrorPage { source: PageSource::Action { status: PageStatus::Fixed(410), .. }, .. }]
    ));
    for (pages, message) in [
        (json!({"200": "/a"}), "\"200\" must be a status code from 400 to 599"),
        (json!({"+404": "/a"}), "must be a status code"),
        (json!({"404": "a.html"}), "must be the name of a file that starts with \"/\""),
        (json!({"404": "/"}), "must be the name of a file"),
        (json!({"404": 1}), "must be the name of a file, or an object with \"action\", but"),
        (json!({"404": {}}), "\"action\" is missing"),
        (json!({"404": {"action": {}}}), "/routes/0/action/error_pages/404/action: one of"),
        (json!({"404": {"action": {"return": 1, "error_pages": {"404": "/"}}}}), "name of a file"),
        (
            json!({"404": {"action": {"return": 1, "error_pages": {"404": "/a"}}}}),
            "must not have \"error_pages\", as it is for an error itself",
        ),
        (
            json!({"404": {"action": {"return": 1}, "keep_statu": 1}}),
            "did you mean \"keep_status\"?",
        ),
        (
            json!({"404": {"action": {"return": 1}, "keep_status": true, "status": 410}}),
            "must have only one of \"keep_status\" and \"status\"",
        ),
        (json!({"404": {"action": {"return": 1}, "status": 101}}), "must be between 200 and 599"),
    ] {
        let line = refusal(action(json!({"return": 404, "error_pages": pages})));
        assert!(line.contains(message), "{line}");
    }
    let alone = refusal(action(json!({"return": 301, "keep_query": true})));
    assert!(alone.contains("has no effect without \"location\""), "{alone}");
}

#[test]
fn a_text_is_for_statuses_with_a_body() {
    for status in [200, 301, 404, 503, 299, 0] {
        read(action(json!({"return": status, "body": "for $host"})));
    }
    for status in [100, 199, 204, 205, 304] {
        let line = refusal(action(json!({"return": status, "body": ""})));
        let message = format!("action/body: \"body\" must not stand beside status {status}");
        assert!(line.contains(&message), "{line}");
    }
    for (value, message) in [
        (json!({"return": 200, "body": "$nothing"}), "nothing"),
        (json!({"return": 200, "body": 1}), "must be a string"),
        (json!({"share": "/a$uri", "body": "a"}), "unknown key \"body\""),
    ] {
        let line = refusal(action(value));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn cors_names_its_origins() {
    let cors = |value: Value| action(json!({"return": 200, "cors": value}));
    let mut config = read(cors(json!({"origins": "https://A.example:8443", "credentials": true})));
    let read = config.routes.remove(0).steps.remove(0).action.options.cors.clone().expect("cors");
    assert_eq!(read.origins, Some(vec!["https://a.example:8443".to_owned()]));
    assert_eq!(read.methods, ["GET", "HEAD", "POST"]);
    for (value, message) in [
        (json!({}), "\"origins\" is missing"),
        (json!({"origins": "*", "credentials": true}), "for all origins"),
        (json!({"origins": ["*"]}), "is no origin"),
        (json!({"origins": "https://a.example/"}), "is no origin"),
        (json!({"origins": "null"}), "is no origin"),
        (json!({"origins": "*", "methods": "A B"}), "must be a name of letters"),
    ] {
        let line = refusal(cors(value));
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn captures_can_be_named_in_the_action_of_their_step() {
    let step = |conditions: Value, action: Value| json!({"routes": [{"match": conditions, "action": action}]});
    let captures = |value: Value| read(value).routes.remove(0).steps.remove(0).captures;
    let uri = json!({"uri": "~^/(?P<section>[a-z]+)/(.*)$"});
    for action in [
        json!({"rewrite": "/$2", "pass": "routes"}),
        json!({"return": 301, "location": "/$section"}),
        json!({"share": "/www/$1/$2"}),
        json!({"share": "/www$uri", "chroot": "/www/$1"}),
        json!({"return": 200, "response_headers": {"X-Section": "$section"}}),
        json!({"pass": "applications/$1"}),
        json!({"share": "/www$uri", "fallback": {"return": 301, "location": "/$1"}}),
    ] {
        assert!(captures(step(uri.clone(), action.clone())), "{action}");
    }
    assert!(!captures(step(uri.clone(), json!({"share": "/www$uri"}))));
    assert!(captures(step(json!({"host": r"~^(\w+)\."}), json!({"share": "/www/$1"}))));
}

#[test]
fn captures_that_no_expression_of_the_step_has_are_refused() {
    let step = |conditions: Value, template: &str| {
        refusal(json!({"routes": [
            {"match": {"uri": "~(a)(b)"}, "action": {"pass": "routes"}},
            {"match": conditions, "action": {"return": 301, "location": template}},
        ]}))
    };
    for (conditions, template, message) in [
        (json!({}), "/$1", "/routes/1/action/location: \"location\" has \"$1\", and no regular"),
        (json!({"uri": "/a*"}), "/$1", "captured by a regular expression of \"uri\" or \"host\""),
        (json!({"uri": "!~(a)"}), "/$1", "no regular expression here has a group"),
        (json!({"query": "~(a)"}), "/$1", "no regular expression here has a group"),
        (json!({"uri": "~(a)"}), "/$2", "are numbered from 1 to 1"),
        (json!({"uri": "~(?P<host>a)"}), "/$host", "a variable and also a group's name"),
        (json!({"uri": "~(?P<section>a)"}), "/$sektion", "did you mean \"$section\"?"),
    ] {
        let line = step(conditions, template);
        assert!(line.contains(message), "{line}");
    }
    let line = refusal(json!({"access_log": {"path": "/a", "format": "$1"}}));
    assert!(line.contains("/access_log/format: "), "{line}");
}

#[test]
fn candidates_of_a_share_are_paths() {
    let read = |list: Value| match read_action(json!({"share": "/www$uri", "try": list})).kind {
        ActionKind::Share(share) => share.candidates,
        other => panic!("{other:?}"),
    };
    let list = read(json!(["$uri", "$uri/", "/index.php"]));
    assert_eq!(list.iter().map(|c| c.directory).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(read(json!("$uri")).len(), 1);
    let refused = |share: &str, list: Value| refusal(action(json!({"share": share, "try": list})));
    for (list, message) in [
        (json!([]), "/routes/0/action/try: \"try\" must have at least one element"),
        (json!(["$uri", "=404"]), "/routes/0/action/try/1: element 1 must be a path that starts"),
        (json!(["@app"]), "{\"pass\": \"routes/name\"}"),
        (json!(["$uri", "/index.php?$nothing"]), "Unknown variable"),
        (json!(["/$nothing"]), "Unknown variable"),
        (json!([1]), "must be a string"),
    ] {
        let line = refused("/www$uri", list);
        assert!(line.contains(message), "{line}");
    }
    let line = refused("/www/index.html", json!(["$uri"]));
    assert!(line.contains("the place of \"$uri\" in \"share\", which has none"), "{line}");
    assert!(refusal(action(json!({"return": 200, "try": ["$uri"]}))).contains("unknown key"));
}
