//! Listeners for web servers that speak FastCGI.

use super::*;

fn read_listener(address: &str, listener: Value) -> Result<Config, String> {
    let document = json!({
        "listeners": {address: listener},
        "applications": {
            "shop": {"type": "php", "root": "/srv", "targets": null},
            "resident": {"type": "php", "root": "/srv", "worker": {"script": "worker.php"}},
            "far": {"type": "fastcgi", "server": "unix:/run/php.sock", "root": "/srv"},
        },
    });
    let mut document = document;
    document["applications"]["shop"].as_object_mut().unwrap().remove("targets");
    Config::from_value(document).map_err(|error| error.to_string())
}

#[test]
fn a_listener_for_fastcgi_passes_to_an_application() {
    let config = read_listener(
        "10.0.0.1:9000",
        json!({"protocol": "fastcgi", "pass": "applications/shop", "allow": ["10.0.0.0/8"],
            "status_path": "/status", "ping_path": "/ping", "ping_response": "here"}),
    )
    .unwrap();
    let fastcgi = config.listeners[0].fastcgi.as_ref().unwrap();
    let address = |text: &str| Some(text.parse().unwrap());
    let allow = fastcgi.allow.as_ref().unwrap();
    assert!(allow.matches(address("10.2.0.1:1")) && !allow.matches(address("192.0.2.1:1")));
    assert_eq!((fastcgi.application.as_str(), fastcgi.target.as_deref()), ("shop", None));
    assert_eq!(fastcgi.status_path.as_deref(), Some("/status"));
    assert_eq!(fastcgi.ping_path.as_deref(), Some("/ping"));
    assert_eq!(fastcgi.ping_response, "here");
    assert!(!fastcgi.is_status_apart);
    assert!(config.application("shop").unwrap().takes_fastcgi);
    assert!(!config.application("resident").unwrap().takes_fastcgi);
    let config = read_listener("unix:/run/a", json!({"pass": "applications/shop"})).unwrap();
    assert!(config.listeners[0].fastcgi.is_none());
    assert!(!config.application("shop").unwrap().takes_fastcgi);
}

#[test]
fn a_status_beside_the_listener_of_the_scripts_is_apart() {
    let listener = json!({"protocol": "fastcgi", "pass": "applications/shop"});
    let mut status = listener.clone();
    status["status_path"] = "/status".into();
    let document = json!({
        "listeners": {"unix:/run/a": listener, "unix:/run/b": status},
        "applications": {"shop": {"type": "php", "root": "/srv"}},
    });
    let config = Config::from_value(document).unwrap();
    let apart = |at: usize| config.listeners[at].fastcgi.as_ref().unwrap().is_status_apart;
    assert_eq!((apart(0), apart(1)), (false, true));
}

#[test]
fn a_client_of_fastcgi_must_be_one_of_the_machine_or_allowed() {
    let listener = json!({"protocol": "fastcgi", "pass": "applications/shop"});
    for address in ["unix:/run/a", "127.0.0.1:9000", "[::1]:9000", "127.1.2.3:9000"] {
        assert!(read_listener(address, listener.clone()).is_ok(), "{address}");
    }
    for address in ["*:9000", "10.0.0.1:9000", "[::]:9000"] {
        let error = read_listener(address, listener.clone()).unwrap_err();
        assert!(
            error.contains("needs \"allow\" at an address that other machines reach"),
            "{error}"
        );
    }
}

#[test]
fn a_socket_has_an_owner_a_group_and_a_mode() {
    let read = |address: &str, listener: Value| {
        read_listener(address, listener).map(|config| config.listeners[0].socket.clone())
    };
    let http = json!({"pass": "applications/shop"});
    let fastcgi = json!({"protocol": "fastcgi", "pass": "applications/shop"});
    let with = |base: &Value, socket: Value| {
        let mut listener = base.clone();
        listener["socket"] = socket;
        listener
    };
    let default =
        |mode, is_for_fastcgi| ListenerSocket { user: None, group: None, mode, is_for_fastcgi };
    assert_eq!(read("unix:/run/a", http.clone()).unwrap(), default(0o666, false));
    assert_eq!(read("unix:/run/a", fastcgi.clone()).unwrap(), default(0o660, true));
    let socket = json!({"user": "shop", "group": "web", "mode": "0640"});
    let named = |is_for_fastcgi| ListenerSocket {
        user: Some("shop".to_owned()),
        group: Some("web".to_owned()),
        mode: 0o640,
        is_for_fastcgi,
    };
    assert_eq!(read("unix:/run/a", with(&http, socket.clone())).unwrap(), named(false));
    assert_eq!(read("unix:/run/a", with(&fastcgi, socket)).unwrap(), named(true));
    let mode = json!({"mode": "600"});
    assert_eq!(read("unix:/run/a", with(&fastcgi, mode)).unwrap(), default(0o600, true));
    let mode = |mode: Value| json!({ "mode": mode });
    for (address, socket, message) in [
        ("unix:/run/a", mode(json!("660 ")), "/socket/mode: \"mode\" must be the permissions"),
        ("unix:/run/a", mode(json!("rw-rw----")), "/socket/mode: \"mode\" must be the permissions"),
        ("unix:/run/a", mode(json!("0668")), "/socket/mode: \"mode\" must be the permissions"),
        ("unix:/run/a", mode(json!("4755")), "/socket/mode: \"mode\" must be the permissions"),
        ("unix:/run/a", mode(json!(660)), "/socket/mode: \"mode\" must be a string"),
        ("unix:/run/a", json!({"owner": "shop"}), "owner"),
        (
            "unix:@a",
            mode(json!("0660")),
            "/socket: \"socket\" has no meaning at an abstract address",
        ),
        ("127.0.0.1:9000", mode(json!("0660")), "/socket: \"socket\" is for unix sockets"),
    ] {
        let error = read(address, with(&http, socket)).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

/// An abstract address has no permissions.
#[test]
fn fastcgi_needs_an_address_that_not_every_user_can_connect_to() {
    let listener = json!({"protocol": "fastcgi", "pass": "applications/shop"});
    let error = read_listener("unix:@a", listener).unwrap_err();
    assert!(error.contains("/protocol: \"protocol\" needs a unix socket with a file"), "{error}");
}

#[test]
fn keys_without_a_meaning_are_refused_with_their_paths() {
    let base = json!({"protocol": "fastcgi", "pass": "applications/shop"});
    for (changes, key, message) in [
        (json!({"http2": true}), "http2", "has no meaning with \"protocol\": \"fastcgi\""),
        (json!({"forwarded": {"source": "unix", "client_ip": "A"}}), "forwarded", "no meaning"),
        (json!({"redirect_to_https": true}), "redirect_to_https", "no meaning"),
        (json!({"proxy_protocol": {"source": "*:1"}}), "proxy_protocol", "no meaning"),
        (json!({"protocol": "scgi"}), "protocol", "\"tcp\" or \"udp\""),
        (json!({"pass": "applications/far"}), "pass", "must be an application of type \"php\""),
        (json!({"pass": "applications/resident"}), "pass", "\"resident\" in worker mode"),
        (json!({"pass": "applications/$host"}), "pass", "must be an application of type \"php\""),
        (json!({"status_path": "status"}), "status_path", "must begin with a slash"),
        (json!({"ping_path": 1}), "ping_path", "must be a string"),
        (json!({"allow": "everybody"}), "allow", "is not an address pattern"),
        (json!({"protocol": null, "allow": ["unix"]}), "allow", "needs \"protocol\": \"fastcgi\""),
        (json!({"protocol": null, "ping_path": "/a"}), "ping_path", "needs \"protocol\""),
    ] {
        let mut listener = base.clone();
        for (key, value) in changes.as_object().unwrap() {
            listener[key] = value.clone();
            if value.is_null() {
                listener.as_object_mut().unwrap().remove(key);
            }
        }
        let error = read_listener("unix:/run/a", listener).unwrap_err();
        let path = format!("/listeners/unix:%2Frun%2Fa/{key}: ");
        assert!(error.contains(&path) && error.contains(message), "{error}");
    }
}
