//! Tables of keys in the pages of the documentation, between two comments.

use howdah_config::{DOCUMENT, Inheritance, Key, Kind, Presence, Shape};
use serde_json::Value;

use crate::{is_published, project};

/// Comment in front of a table: `<!-- keys: cors -->` for all keys of an object, `action/share` for
/// a key and those beside it, `action/kinds` for those that name the kind, `action/options` for
/// those that all kinds have.
const START: &str = "<!-- keys: ";

/// Comment behind a table.
const END: &str = "<!-- end of keys -->\n";

/// Returns the pages that may have tables.
pub fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    for folder in ["docs", "docs/configuration"] {
        for entry in project(folder).read_dir().expect(folder) {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}

/// Returns a page with current tables. `described` gets the keys in them.
pub fn with_tables(
    page: &str,
    content: &str,
    described: &mut Vec<(&'static str, &'static str)>,
) -> String {
    let mut parts = content.split(START);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (names, rest) = part.split_once(" -->\n").unwrap_or_else(|| panic!("{page}: {part}"));
        let (_, rest) = rest.split_once(END).unwrap_or_else(|| panic!("{page}: {names}: no end"));
        let rows: Vec<_> = names.split(' ').flat_map(|name| rows(page, name)).collect();
        described.extend(rows.iter().map(|(shape, key)| (shape.name, key.name)));
        let keys: Vec<_> = rows.iter().map(|(_, key)| *key).collect();
        result += &format!("{START}{names} -->\n{}{END}{rest}", table(&keys));
    }
    result
}

fn rows(page: &str, name: &str) -> Vec<(&'static Shape, &'static Key)> {
    let (shape, part) = name.split_once('/').unwrap_or((name, ""));
    let shapes = DOCUMENT.all();
    let shape = shapes.into_iter().find(|found| found.name == shape);
    let shape = shape.unwrap_or_else(|| panic!("{page}: there is no object \"{name}\""));
    let is_meant = |key: &&Key| match part {
        "" => key.presence != Presence::Internal,
        "kinds" => key.presence == Presence::Kind,
        "options" => key.presence == Presence::Optional && key.beside.is_none(),
        part => key.name == part || key.beside == Some(part),
    };
    shape.keys().filter(is_meant).map(|key| (shape, key)).collect()
}

fn table(keys: &[&Key]) -> String {
    let inherits = keys.iter().any(|key| key.inheritance != Inheritance::Own);
    let (head, line) = if inherits { ("inherited | ", " --- |") } else { ("", "") };
    let mut text = format!("| key | type | default | {head}Unit | meaning |\n");
    text += &format!("| --- | --- | --- |{line} --- | --- |\n");
    for key in keys {
        let mark = if is_published(key) { "" } else { " ⁺" };
        let inherited = match key.inheritance {
            _ if !inherits => "",
            Inheritance::Own => " |",
            Inheritance::Inherited => " yes |",
            Inheritance::AddsUp => " adds up |",
        };
        let unit = if key.is_of_unit { "yes" } else { "no" };
        let default = match key.presence {
            Presence::Required => "required".to_owned(),
            _ if serde_json::from_str::<Value>(key.default).is_ok() => format!("`{}`", key.default),
            _ => key.default.to_owned(),
        };
        let meaning = meaning(key);
        let cells = [type_of(&key.kind), default].map(|cell| cell.replace('|', "\\|"));
        let [kind, default] =
            cells.map(|cell| if cell.is_empty() { cell } else { format!(" {cell}") });
        let meaning = meaning.replace('|', "\\|");
        text += &format!(
            "| `{}`{mark} |{kind} |{default} |{inherited} {unit} | {meaning} |\n",
            key.name
        );
    }
    text
}

/// Returns the meaning of a key; a short remark on a name of another server stands in parentheses.
fn meaning(key: &Key) -> String {
    let (about, details) = (key.about, key.details);
    let is_remark = details.starts_with(|c: char| c.is_lowercase() || c == '`')
        || ["Apache", "PHP-FPM"].iter().any(|name| details.starts_with(name));
    match details {
        "" => about.to_owned(),
        _ if is_remark && !details.contains(". ") => format!("{about} ({details})"),
        _ => format!("{about}. {details}"),
    }
}

/// Returns the words for a type.
fn type_of(kind: &Kind) -> String {
    let range = |unit: &str, low: i64, high: i64| match (low, high) {
        (0, high) if high >= i64::from(i32::MAX) / 1000 => unit.to_owned(),
        (low, high) if high >= i64::from(i32::MAX) / 1000 => format!("{unit}, {low} or more"),
        (low, high) => format!("{unit} from {low} to {high}"),
    };
    match kind {
        Kind::Text | Kind::Matching(_) => "string".to_owned(),
        Kind::Switch => "boolean".to_owned(),
        Kind::Off => "`false`".to_owned(),
        Kind::Integer(low, high) => range("integer", *low, *high),
        Kind::Seconds(low) => range("seconds", *low, i64::MAX),
        Kind::Bytes(low) => range("bytes", *low, i64::MAX),
        Kind::Number => "number".to_owned(),
        Kind::Texts => "string or array of strings".to_owned(),
        Kind::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            alternatives(&words)
        }
        Kind::Object(_) | Kind::Recursive(_) => "object".to_owned(),
        Kind::Named(kind) => format!("object of {}", plural(kind)),
        Kind::Array(kind) => format!("array of {}", plural(kind)),
        Kind::OneOrMany(kind) => format!("{} or array of them", type_of(kind)),
        Kind::Either(kinds) => alternatives(&kinds.iter().map(type_of).collect::<Vec<_>>()),
        Kind::Null => "`null`".to_owned(),
    }
}

fn plural(kind: &Kind) -> String {
    match kind {
        Kind::Text => "strings".to_owned(),
        Kind::Switch => "booleans".to_owned(),
        Kind::Number => "numbers".to_owned(),
        Kind::Integer(..) => "integers".to_owned(),
        Kind::Texts => "strings or arrays of strings".to_owned(),
        Kind::Object(_) | Kind::Recursive(_) => "objects".to_owned(),
        Kind::Named(_) => "objects".to_owned(),
        Kind::Array(_) => "arrays".to_owned(),
        Kind::Either(kinds) => {
            let mut words: Vec<_> = kinds.iter().map(plural).collect();
            words.dedup();
            alternatives(&words)
        }
        kind => type_of(kind),
    }
}

fn alternatives(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
