//! `--cache`: the responses of PHP of `howdah serve DIR` are stored.

use howdah_advice::detect::Site;
use serde_json::{Value, json};

use crate::cli::Serve;

/// Returns `cache` of an action for a site: the rules of its application, if they are known. `None`
/// without the option, and without PHP.
pub fn of(site: &Site, arguments: &Serve) -> Option<Value> {
    let memory = arguments.cache.filter(|memory| *memory > 0 && site.has_php())?;
    let mut cache = json!({"memory": memory});
    if let Some(preset) = site.cache_preset() {
        cache["preset"] = json!(preset);
    }
    Some(cache)
}

/// Adds the cache to the document of a site. Returns the line that tells it.
pub fn add(document: &mut Value, site: &Site, arguments: &Serve) -> Option<String> {
    let cache = of(site, arguments)?;
    // The share, which passes it on to the scripts and to the front controller.
    let steps = document.get_mut("routes").and_then(Value::as_array_mut);
    let action = steps.and_then(|steps| steps.last_mut()?.get_mut("action"))?;
    action["cache"] = cache;
    Some(match site.cache_preset() {
        Some(preset) => format!("cache: of responses, by the rules for {preset}"),
        None => "cache: of responses that state their lifetime".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use howdah_advice::detect;

    use super::*;

    #[test]
    fn the_cache_has_the_rules_of_the_application() {
        let place = tempfile::tempdir().unwrap();
        let arguments = |cache| Serve { cache, ..Serve::default() };
        let added = |cache| {
            let site = detect::detect(place.path()).unwrap();
            let mut document = site.document(&["*:80".to_owned()], None);
            let line = add(&mut document, &site, &arguments(cache));
            howdah_config::parse(document.to_string().as_bytes()).unwrap();
            let steps = document["routes"].as_array().unwrap();
            (steps.last().unwrap()["action"]["cache"].clone(), line.unwrap_or_default())
        };
        std::fs::write(place.path().join("index.html"), "").unwrap();
        assert_eq!(added(Some(1 << 20)).0, Value::Null, "files are not stored");
        std::fs::write(place.path().join("index.php"), "").unwrap();
        let (cache, line) = added(Some(1 << 20));
        assert_eq!(cache, json!({"memory": 1 << 20}));
        assert!(line.contains("lifetime"), "{line}");
        assert_eq!(added(Some(0)).0, Value::Null);
        assert_eq!(added(None).0, Value::Null);
        std::fs::write(place.path().join("wp-load.php"), "").unwrap();
        let (cache, line) = added(Some(1 << 20));
        assert_eq!(cache, json!({"memory": 1 << 20, "preset": "wordpress"}));
        assert!(line.contains("wordpress"), "{line}");
    }
}
