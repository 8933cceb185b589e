//! `php_value`, `php_flag` and those of the administrator → `options`.

use serde_json::{Map, Value};

use super::super::settings::{Element, Settings};
use super::paths;
use crate::{Report, Status};

/// Settings of PHP with paths that begin at the prefix if they are relative.
const PATHS: [&str; 8] = [
    "error_log",
    "extension_dir",
    "mime_magic.magicfile",
    "sendmail_path",
    "session.cookie_path",
    "session_pgsql.sem_file_name",
    "soap.wsdl_cache_dir",
    "uploadprogress.file.filename_template",
];

/// Returns `options` of the application.
pub(super) fn options(settings: &Settings, report: &mut Report) -> Map<String, Value> {
    let mut extensions: Vec<Value> = Vec::new();
    let mut admin = Map::new();
    let mut user = Map::new();
    // PHP-FPM applies the settings of the administrator last, and of two lines the first one last.
    let is_admin = |element: &&Element| element.name.starts_with("php_admin_");
    for element in settings.elements.iter().filter(is_admin) {
        if element.key == "extension" {
            extension(element, &mut extensions, report);
        } else {
            add(element, &mut admin, settings, report);
        }
    }
    let is_user = |element: &&Element| matches!(element.name, "php_value" | "php_flag");
    for element in settings.elements.iter().filter(is_user) {
        if element.key == "extension" {
            extension(element, &mut extensions, report);
        } else if admin.contains_key(&element.key) {
            let reason = "a line with \"php_admin_\" sets it, which counts";
            report.mark(element.id, Status::NotNeeded, reason);
        } else {
            add(element, &mut user, settings, report);
        }
    }
    let mut options = Map::new();
    for (name, values) in [("admin", admin), ("user", user)] {
        if !values.is_empty() {
            options.insert(name.into(), values.into());
        }
    }
    if !extensions.is_empty() {
        options.insert("extensions".into(), extensions.into());
    }
    options
}

fn add(
    element: &Element,
    values: &mut Map<String, Value>,
    settings: &Settings,
    report: &mut Report,
) {
    if values.contains_key(&element.key) {
        let reason = "an earlier line sets it, and PHP-FPM uses the first";
        return report.mark(element.id, Status::NotNeeded, reason);
    }
    let is_path = PATHS.contains(&element.key.as_str()) && settings.text("chroot").is_none();
    let value = match element.text.as_str() {
        text if is_path && !text.is_empty() => paths::whole(text, settings).into_owned(),
        text => text.to_owned(),
    };
    match element.key.as_str() {
        "disable_functions" | "disable_classes" if !value.is_empty() => {
            let reason = format!("they are disabled, and ini_get(\"{}\") is empty", element.key);
            report.mark(element.id, Status::Changed, reason);
        }
        "zend_extension" => {
            let reason = "PHP-FPM loads no such extension for a pool: it belongs into php.ini";
            return report.mark(element.id, Status::NotNeeded, reason);
        }
        _ if value != element.text && paths::is_uncertain(&element.text, settings) => {
            let reason = format!(
                "a relative path begins at the directory for which PHP was built; the document \
                 has {value}"
            );
            report.mark(element.id, Status::Changed, reason);
        }
        _ => report.converted(element.id),
    }
    values.insert(element.key.clone(), value.into());
}

fn extension(element: &Element, extensions: &mut Vec<Value>, report: &mut Report) {
    let name = element.text.strip_suffix(".so").unwrap_or(&element.text);
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        let reason = "Howdah loads extensions by their names, not by a path";
        return report.mark(element.id, Status::NotConverted, reason);
    }
    if !extensions.iter().any(|known| known == name) {
        extensions.push(name.into());
    }
    report.converted(element.id);
}
