use serde_json::{Value, json};

use super::*;
use crate::Config;

fn read(cache: Value) -> Result<Arc<Cache>, Error> {
    let document = json!({"routes": [{"action": {"proxy": "http://127.0.0.1:1", "cache": cache}}]});
    let config = Config::from_value(document)?;
    let option = config.routes[0].steps[0].action.options.cache.clone().unwrap();
    Ok(Arc::clone(option.settings().unwrap()))
}

fn refusal(cache: Value) -> String {
    read(cache).expect_err("refused").to_string()
}

#[test]
fn an_empty_object_means_the_rfc_and_nothing_else() {
    let cache = read(json!({})).unwrap();
    assert_eq!((&*cache.name, cache.memory, cache.max_object), ("default", None, 1 << 20));
    assert!(cache.get && cache.head && cache.lock && cache.background && cache.heuristic);
    assert!(cache.ttl.is_empty() && cache.bypass.is_empty() && cache.purge.is_none() && !cache.esi);
    assert!(cache.announce);
    assert_eq!(cache.ignore, Ignored::default());
    assert!(!cache.considers_cookies() && !cache.considers_authorization());
}

#[test]
fn every_key_is_read() {
    let cache = read(json!({
        "name": "pages", "memory": 8_388_608, "max_object": 65536,
        "key": "$host$request_uri$cookie_lang$header_authorization", "methods": ["GET"],
        "ttl": {"200": 60, "404": 5}, "bypass": {"cookies": {"sid*": "*"}},
        "store": [{"uri": "/a/*"}, {"uri": "/b/*"}],
        "ignore": ["Cache-Control", "set-cookie"],
        "vary": {
            "Accept-Encoding": ["br", "gzip"], "Cookie": null,
            "User-Agent": {"phone": "*Mobile*"}
        },
        "stale_while_revalidate": 30, "stale_if_error": 90, "lock": false, "lock_timeout": 2,
        "min_uses": 3, "background": false, "heuristic": false, "purge": ["127.0.0.1"],
        "esi": true, "announce": false
    }))
    .unwrap();
    assert_eq!((&*cache.name, cache.memory, cache.max_object), ("pages", Some(8_388_608), 65536));
    assert!(cache.get && !cache.head && !cache.lock && !cache.background && !cache.heuristic);
    assert_eq!(cache.ttl, BTreeMap::from([(200, 60), (404, 5)]));
    assert_eq!((cache.bypass.len(), cache.store.len(), cache.min_uses), (1, 2, 3));
    assert!(cache.ignore.cache_control && cache.ignore.set_cookie && !cache.ignore.vary);
    let names: Vec<_> = cache.vary.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["accept-encoding", "cookie", "user-agent"]);
    assert_eq!((cache.stale_while_revalidate, cache.stale_if_error), (Some(30), Some(90)));
    assert_eq!(cache.lock_timeout, Duration::from_secs(2));
    assert!(cache.esi && cache.purge.is_some() && !cache.announce);
    assert!(cache.considers_cookies() && cache.considers_authorization());
}

#[test]
fn mistakes_are_named_with_their_place() {
    let place = "/routes/0/action/cache";
    for (cache, path, message) in [
        (json!(true), "", "must be an object, or false"),
        (json!({"tll": {}}), "", "did you mean \"ttl\"?"),
        (json!({"name": "a b"}), "/name", "at most 64 letters"),
        (json!({"memory": 1}), "/memory", "must be 1048576 or more"),
        (json!({"max_object": 0}), "/max_object", "must be 1 or more"),
        (json!({"key": "$nothing"}), "/key", "Unknown variable"),
        (json!({"methods": "POST"}), "/methods", "must be \"GET\" or \"HEAD\""),
        (json!({"ttl": {"2xx": 1}}), "/ttl/2xx", "must be a status"),
        (json!({"ttl": {"304": 1}}), "/ttl/304", "must be a status"),
        (json!({"ttl": {"200": "1h"}}), "/ttl/200", "write 3600"),
        (json!({"bypass": "x"}), "/bypass", "must be an object or an array"),
        (json!({"bypass": [{"cookie": {}}]}), "/bypass/0", "did you mean \"cookies\"?"),
        (json!({"ignore": "date"}), "/ignore", "must be one of"),
        (json!({"vary": {"a b": null}}), "/vary/a b", "the name of a header field"),
        (json!({"vary": {"a": 1}}), "/vary/a", "an array of values"),
        (json!({"vary": {"a": [","]}}), "/vary/a/0", "must be a coding"),
        (json!({"lock_timeout": 0}), "/lock_timeout", "between 1 and"),
        (json!({"min_uses": 0}), "/min_uses", "between 1 and"),
        (json!({"purge": "nobody"}), "/purge", ""),
        (json!({"preset": "wordpres"}), "/preset", "did you mean \"wordpress\"?"),
    ] {
        let line = refusal(cache);
        assert!(line.contains(&format!("{place}{path}")), "{path}: {line}");
        assert!(line.contains(message), "{message}: {line}");
    }
}

#[test]
fn a_response_of_the_server_itself_is_not_cached() {
    let document = json!({"routes": [{"action": {"return": 200, "cache": {}}}]});
    let line = Config::from_value(document).unwrap_err().to_string();
    assert!(line.contains("/routes/0/action/cache") && line.contains("has no effect"), "{line}");
    let off = json!({"routes": [{"action": {"return": 200, "cache": false}}]});
    assert!(Config::from_value(off).is_ok());
}

#[test]
fn a_store_has_one_size() {
    let actions = |first: Value, second: Value| {
        let action = |cache| json!({"action": {"proxy": "http://127.0.0.1:1", "cache": cache}});
        Config::from_value(json!({"routes": [action(first), action(second)]}))
    };
    let mib = 1 << 20;
    let config = actions(json!({}), json!({"memory": mib, "max_object": 2 * mib})).unwrap();
    let store =
        CacheStore { name: "default".to_owned(), memory: mib, max_object: 2 * mib, disk: None };
    assert_eq!(config.cache_stores(), [store]);
    let two = actions(json!({"memory": mib}), json!({"memory": 2 * mib, "name": "b"})).unwrap();
    assert_eq!(two.cache_stores().len(), 2);
    let line = actions(json!({"memory": mib}), json!({"memory": 2 * mib})).unwrap_err().to_string();
    assert!(line.contains("/routes/1/action/cache/memory"), "{line}");
    let none = Config::from_value(json!({})).unwrap();
    assert!(none.cache_stores().is_empty());
}

#[test]
fn a_store_has_one_file() {
    let actions = |first: Value, second: Value| {
        let action = |cache| json!({"action": {"proxy": "http://127.0.0.1:1", "cache": cache}});
        Config::from_value(json!({"routes": [action(first), action(second)]}))
    };
    let file = json!({"path": "/var/cache/howdah/", "size": 1 << 30});
    let config = actions(json!({}), file.clone()).unwrap();
    let [(place, store)] = &config.cache_files()[..] else { panic!() };
    assert_eq!(place, "/routes/1/action/cache/path");
    assert_eq!(store.file().unwrap(), PathBuf::from("/var/cache/howdah/default.cache"));
    assert_eq!(store.disk.as_ref().unwrap().size, 1 << 30);
    for (cache, key) in [
        (json!({"path": "/var/cache/other"}), "path"),
        (json!({"path": "/var/cache/howdah", "size": 1 << 29}), "size"),
    ] {
        let line = actions(file.clone(), cache).unwrap_err().to_string();
        assert!(line.contains(&format!("/routes/1/action/cache/{key}")), "{line}");
    }
    for (cache, key) in [
        (json!({"path": "cache"}), "path"),
        (json!({"path": "/var/../cache"}), "path"),
        (json!({"size": 1 << 30}), "size"),
        (json!({"path": "/var/cache", "size": 1 << 20}), "size"),
    ] {
        let line = actions(cache.clone(), json!({})).unwrap_err().to_string();
        assert!(line.contains(&format!("/routes/0/action/cache/{key}")), "{cache} {line}");
    }
}

#[test]
fn keys_beside_a_preset_replace_its_own_and_conditions_are_added() {
    for name in ["wordpress", "mediawiki", "drupal", "symfony", "laravel"] {
        let cache = read(json!({"preset": name})).unwrap();
        assert!(cache.considers_cookies() && cache.ignore.request, "{name}");
    }
    let preset = read(json!({"preset": "wordpress"})).unwrap();
    let cache = read(json!({
        "preset": "wordpress", "ttl": {"200": 5}, "bypass": {"uri": "/shop/*"}, "ignore": []
    }))
    .unwrap();
    assert_eq!(cache.ttl, BTreeMap::from([(200, 5)]));
    assert_eq!(cache.bypass.len(), preset.bypass.len() + 1);
    assert!(!cache.ignore.request && cache.stale_if_error == Some(86400));
}

/// Scenario: nginx's `fastcgi_cache_bypass $skip`, with a `map $http_cookie $skip`.
#[test]
fn a_variable_that_is_made_of_cookies_tells_requests_apart() {
    let considers = |source: &str, cache: Value| {
        let config = Config::from_value(json!({
            "variables": {
                "user": {"map": source, "values": {"~wordpress_logged_in": "1"}},
                "skip": {"map": "$method", "values": {"POST": "1"}, "default": "$user"}
            },
            "routes": [{"action": {"proxy": "http://127.0.0.1:1", "cache": cache}}]
        }));
        let options = &config.unwrap().routes[0].steps[0].action.options;
        let option = options.cache.clone().unwrap();
        let cache = option.settings().unwrap();
        (cache.considers_cookies(), cache.considers_authorization())
    };
    for source in ["$header_cookie", "$cookie_session"] {
        for cache in [
            json!({"bypass": {"if": "$skip"}}),
            json!({"bypass": [{"uri": "/a"}, {"if": "!$skip"}]}),
            json!({"store": {"if": "$user"}}),
            json!({"key": "$uri$skip"}),
        ] {
            assert_eq!(considers(source, cache.clone()), (true, false), "{source} {cache}");
        }
    }
    assert_eq!(considers("$uri", json!({"bypass": {"if": "$skip"}})), (false, false));
    // Users without a value for it share one key.
    assert_eq!(considers("$header_authorization", json!({"key": "$user"})), (false, false));
}
