//! `-d`, `--dev` and `--php`: PHP's settings and version for the applications of a directory.

use serde_json::{Value, json};

use crate::cli::Serve;

/// Settings of `--dev` that scripts may change: errors are shown, and a saved file counts at once.
const SHOWN: [(&str, &str); 5] = [
    ("display_errors", "1"),
    ("display_startup_errors", "1"),
    ("error_reporting", "32767"),
    ("opcache.validate_timestamps", "1"),
    ("opcache.revalidate_freq", "0"),
];

/// Settings of `--dev` that count from the start of PHP.
const FROM_START: [(&str, &str); 2] = [("zend.assertions", "1"), ("user_ini.cache_ttl", "0")];

/// Adds the options to the applications of a document. Error: what is wrong with one of them.
pub fn add(document: &mut Value, arguments: &Serve) -> Result<(), String> {
    let own = arguments.setting.iter().map(|setting| read(setting));
    let own: Vec<_> = own.collect::<Result<_, _>>()?;
    let shown = SHOWN.iter().filter(|_| arguments.dev);
    let from_start = FROM_START.iter().filter(|_| arguments.dev);
    let applications = document.get_mut("applications").and_then(Value::as_object_mut);
    for application in applications.into_iter().flat_map(|all| all.values_mut()) {
        if let Some(version) = &arguments.php {
            application["type"] = json!(format!("php {version}"));
        }
        let mut set = |part: &str, name: &str, value: &str| {
            application["options"][part][name] = json!(value);
        };
        shown.clone().for_each(|(name, value)| set("user", name, value));
        from_start.clone().for_each(|(name, value)| set("admin", name, value));
        // A setting counts from the start of PHP, and no .user.ini changes it, as with the command
        // line of PHP.
        own.iter().for_each(|(name, value)| set("admin", name, value));
    }
    Ok(())
}

/// Reads `NAME=VALUE`, or `NAME` for a setting that is switched on.
fn read(setting: &str) -> Result<(&str, &str), String> {
    let (name, value) = setting.split_once('=').unwrap_or((setting, "1"));
    let (name, value) = (name.trim(), value.trim());
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(format!("-d {setting}: must be NAME=VALUE, such as memory_limit=256M"));
    }
    // A quoted value, as the command line of PHP takes it.
    let plain = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    Ok((name, plain.unwrap_or(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(arguments: &Serve) -> Result<Value, String> {
        let mut document = json!({"applications": {"site": {"type": "php"}}});
        add(&mut document, arguments)?;
        Ok(document["applications"]["site"].take())
    }

    #[test]
    fn the_options_become_settings_of_each_application() {
        let setting =
            ["memory_limit=99M", "opcache.revalidate_freq = 5", "html_errors", "a.b=\"c d\""];
        let arguments = Serve {
            setting: setting.map(str::to_owned).to_vec(),
            php: Some("8.2".to_owned()),
            dev: true,
            ..Serve::default()
        };
        let application = added(&arguments).unwrap();
        assert_eq!(application["type"], "php 8.2");
        assert_eq!(application["options"]["user"]["display_errors"], "1");
        let admin = &application["options"]["admin"];
        assert_eq!((&admin["memory_limit"], &admin["html_errors"]), (&json!("99M"), &json!("1")));
        assert_eq!((&admin["a.b"], &admin["zend.assertions"]), (&json!("c d"), &json!("1")));
        assert_eq!(admin["opcache.revalidate_freq"], "5", "it wins over that of --dev");
        assert_eq!(added(&Serve::default()).unwrap(), json!({"type": "php"}));
        for wrong in ["", "=1", "a b=1", "\u{e4}=1"] {
            let setting = vec![wrong.to_owned()];
            let problem = added(&Serve { setting, ..Serve::default() }).unwrap_err();
            assert!(problem.contains("memory_limit=256M"), "{wrong}: {problem}");
        }
    }
}
