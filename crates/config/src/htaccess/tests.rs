use serde_json::{Value, json};

use super::*;
use crate::Config;

fn application(htaccess: Value) -> Result<Config, crate::Error> {
    Config::from_value(json!({"applications": {"a": {
        "type": "php", "root": "/www", "htaccess": htaccess,
    }}}))
}

fn share(action: Value) -> Result<Config, crate::Error> {
    Config::from_value(json!({
        "routes": [{"action": action}],
        "applications": {"a": {"type": "php", "root": "/www"}},
    }))
}

#[test]
fn true_has_the_defaults_of_apache_and_false_is_off() {
    let of = |value| {
        let mut config = application(value).unwrap();
        std::sync::Arc::unwrap_or_clone(config.applications.remove(0))
    };
    assert_eq!(of(json!(true)).htaccess, Some(Htaccess::default()));
    assert_eq!(of(json!({})).htaccess, Some(Htaccess::default()));
    assert_eq!((of(json!(false)).htaccess, of(json!(false)).obeys_htaccess), (None, false));
    let own = json!({"allow": ["FileInfo", "Options=Indexes,MultiViews"], "file": ".rules",
        "closed": "/data/*", "without_scripts": ["/uploads/*", "~(?i)^/files/"],
        "index": "home.php", "options": ["Indexes"], "scripts": "\\.php$"});
    let own = of(own).htaccess.unwrap();
    assert_eq!(own.allow, ["FileInfo", "Options=Indexes,MultiViews"]);
    assert_eq!((&*own.file, &*own.scripts), (".rules", "\\.php$"));
    assert_eq!(own.closed, ["/data/*"]);
    assert_eq!(own.without_scripts, ["/uploads/*", "~(?i)^/files/"]);
    assert_eq!((own.index, own.options), (vec!["home.php".into()], vec!["Indexes".into()]));
}

#[test]
fn wrong_values_are_named_with_their_path() {
    for (value, path) in [
        (json!("on"), "/applications/a/htaccess"),
        (json!({"allow": "None"}), "/applications/a/htaccess/allow"),
        (json!({"options": ["Indexes", "Speed"]}), "/applications/a/htaccess/options/1"),
        (json!({"file": "../x"}), "/applications/a/htaccess/file"),
        (json!({"scripts": "("}), "/applications/a/htaccess/scripts"),
        (json!({"closed": ["/a/*", "~("]}), "/applications/a/htaccess/closed/1"),
        (json!({"without_scripts": "/a/**"}), "/applications/a/htaccess/without_scripts"),
        (json!({"other": 1}), "/applications/a/htaccess"),
        (
            json!({"sections": [{"directory": "/a", "allow": "None"}]}),
            "/applications/a/htaccess/sections/0/allow",
        ),
        (
            json!({"sections": [{"location": "/a", "allow": "All"}]}),
            "/applications/a/htaccess/sections/0",
        ),
    ] {
        let error = application(value.clone()).unwrap_err();
        assert_eq!(error.path(), path, "{value}: {error}");
    }
}

#[test]
fn scripts_for_all_requests_and_keys_that_directives_replace_are_refused() {
    let document = json!({"applications": {"a": {
        "type": "php", "root": "/w", "script": "index.php", "htaccess": true,
    }}});
    let error = Config::from_value(document).unwrap_err();
    assert_eq!(error.path(), "/applications/a/htaccess");
    for (key, value) in [("try", json!(["$uri"])), ("index", json!("a")), ("chroot", json!("/"))] {
        let mut action = json!({"share": "/www$uri", "htaccess": true});
        action[key] = value;
        assert_eq!(share(action).unwrap_err().path(), format!("/routes/0/action/{key}"));
    }
    for path in [json!(["/a$uri", "/b$uri"]), json!("/a/b.html")] {
        let error = share(json!({"share": path, "htaccess": true})).unwrap_err();
        assert_eq!(error.path(), "/routes/0/action/htaccess");
    }
}

#[test]
fn the_application_of_a_share_obeys_its_files() {
    let action = |htaccess| {
        json!({"share": "/www$uri", "scripts": "applications/a",
        "htaccess": htaccess})
    };
    assert!(share(action(true)).unwrap().applications[0].obeys_htaccess);
    assert!(!share(action(false)).unwrap().applications[0].obeys_htaccess);
}

#[test]
fn maps_have_values_or_are_a_function() {
    let maps = json!({"lower": "tolower", "pages": {"a": "b", "c": ["d", "e"]}});
    let config = application(json!({ "maps": maps })).unwrap();
    let htaccess = config.applications[0].htaccess.clone().unwrap();
    assert_eq!(htaccess.maps["lower"], HtaccessMap::Function("tolower".into()));
    let HtaccessMap::Values(pages) = &htaccess.maps["pages"] else { panic!("no values") };
    assert_eq!(pages["c"], ["d", "e"]);
    for (maps, problem) in [
        (json!({"a": "rot13"}), "must be an object or one of tolower"),
        (json!({"a|b": {}}), "has a name with a character of"),
        (json!({"a": {"b": 1}}), ""),
        (json!([]), ""),
    ] {
        let error = application(json!({ "maps": maps })).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}
