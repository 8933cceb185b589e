//! `Header` and `Expires…`: fields of responses, by the names of files.

/// A `Header` directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Value; `None` removes the field.
    pub value: Option<String>,
    /// Responses with errors have it as well.
    pub is_always: bool,
}

impl Field {
    /// Removes a field.
    pub fn removed(name: &str) -> Field {
        Field { name: name.to_owned(), value: None, is_always: false }
    }
}

/// Translates the words of a `Header` directive.
///
/// # Errors
///
/// The reason why routes cannot have it.
pub fn header(words: &[String]) -> Result<Field, String> {
    let (is_always, words) = match words {
        [first, rest @ ..] if first.eq_ignore_ascii_case("always") => (true, rest),
        [first, rest @ ..] if first.eq_ignore_ascii_case("onsuccess") => (false, rest),
        words => (false, words),
    };
    let [action, name, rest @ ..] = words else {
        return Err("routes have no equivalent".to_owned());
    };
    let name = name.trim_end_matches(':').to_owned();
    if ["content-length", "transfer-encoding", "connection"].contains(&&*name.to_ascii_lowercase())
    {
        return Err("routes cannot set this field".to_owned());
    }
    let condition = |at: usize| match rest.get(at) {
        Some(_) => Err("routes set fields without conditions".to_owned()),
        None => Ok(()),
    };
    match (action.to_ascii_lowercase().as_str(), rest) {
        ("unset", _) => {
            condition(0)?;
            Ok(Field { name, value: None, is_always })
        }
        ("set" | "setifempty", [value, ..]) => {
            condition(1)?;
            let value = value.replace("%%", "\0");
            if value.contains('%') {
                return Err("routes do not know its format string".to_owned());
            }
            if value.chars().any(|c| c.is_control() && c != '\0') {
                return Err("routes have no control characters in fields".to_owned());
            }
            Ok(Field { name, value: Some(value.replace('\0', "%")), is_always })
        }
        _ => Err("routes set and remove fields, and do not add to them or edit them".to_owned()),
    }
}

/// Directives of mod_expires.
#[derive(Debug, Clone, Default)]
pub struct Expires {
    /// `ExpiresActive`.
    pub is_on: Option<bool>,
    /// `ExpiresDefault`, in seconds.
    pub default: Option<u64>,
    /// `ExpiresByType`: types with their seconds.
    pub by_type: Vec<(String, u64)>,
}

impl Expires {
    /// Adds a directive.
    ///
    /// # Errors
    ///
    /// The reason why routes cannot have it.
    pub fn add(&mut self, name: &str, words: &[String]) -> Result<(), String> {
        match (name, words) {
            ("expiresactive", [word]) => self.is_on = Some(word.eq_ignore_ascii_case("on")),
            ("expiresdefault", [time]) => self.default = Some(seconds(time)?),
            ("expiresbytype", [kind, time]) => {
                self.by_type.push((kind.to_ascii_lowercase(), seconds(time)?));
            }
            _ => return Err("routes have no equivalent".to_owned()),
        }
        Ok(())
    }

    /// Returns true if there is no directive.
    pub fn is_empty(&self) -> bool {
        self.is_on.is_none() && self.default.is_none() && self.by_type.is_empty()
    }

    /// Adds the directives of a directory or section below.
    pub fn merge(&mut self, child: &Expires) {
        self.is_on = child.is_on.or(self.is_on);
        self.default = child.default.or(self.default);
        self.by_type.extend(child.by_type.iter().cloned());
    }

    /// Returns the lifetime of a type in seconds.
    pub fn of(&self, kind: &str) -> Option<u64> {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let major = format!("{}/*", kind.split('/').next().unwrap_or_default());
        let find = |wanted: &str| self.by_type.iter().rev().find(|(kind, _)| kind == wanted);
        if self.is_on != Some(true) {
            return None;
        }
        find(&kind).or_else(|| find(&major)).map(|(_, seconds)| *seconds).or(self.default)
    }
}

fn seconds(text: &str) -> Result<u64, String> {
    let bad = || Err("its time is not understood".to_owned());
    let modified = || Err("routes do not know when a file was changed".to_owned());
    if let Some(number) = text.strip_prefix('A').and_then(|number| number.parse().ok()) {
        return Ok(number);
    }
    if text.strip_prefix('M').is_some_and(|number| number.parse::<u64>().is_ok()) {
        return modified();
    }
    let mut words = text.split_ascii_whitespace().peekable();
    match words.next() {
        Some(base) if base.starts_with('m') => return modified(),
        Some(base) if base.starts_with(['a', 'n']) => {}
        _ => return bad(),
    }
    words.next_if_eq(&"plus");
    let mut total: u64 = 0;
    while let Some(number) = words.next() {
        let Ok(number) = number.parse::<u64>() else { return bad() };
        let unit = words.next().unwrap_or_default();
        let unit = match unit {
            _ if unit.starts_with('y') => 365 * 86_400,
            _ if unit.starts_with("mo") => 30 * 86_400,
            _ if unit.starts_with('w') => 7 * 86_400,
            _ if unit.starts_with('d') => 86_400,
            _ if unit.starts_with('h') => 3600,
            _ if unit.starts_with("mi") => 60,
            _ if unit.starts_with('s') => 1,
            _ => return bad(),
        };
        total = total.saturating_add(number.saturating_mul(unit));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn fields_are_set_and_removed() {
        let field = header(&words("always set X-A 50%%")).unwrap();
        assert!(field.is_always && field.value.as_deref() == Some("50%"));
        assert_eq!(header(&words("unset X-A")).unwrap().value, None);
        for line in ["append Vary Cookie", "set X-A %D", "set X-A b env=c", "set Content-Length 1"]
        {
            assert!(header(&words(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn lifetimes_are_seconds() {
        assert_eq!(seconds("access plus 1 year 2 days"), Ok(367 * 86_400));
        assert_eq!(seconds("A60"), Ok(60));
        assert_eq!(seconds("now plus 5 minutes"), Ok(300));
        assert!(seconds("modification plus 1 day").is_err() && seconds("M60").is_err());
        assert!(seconds("soon").is_err());
    }

    #[test]
    fn a_lifetime_is_found_by_type_then_by_its_kind() {
        let mut expires = Expires::default();
        expires.add("expiresactive", &words("On")).unwrap();
        expires.add("expiresbytype", &words("image/* A1")).unwrap();
        expires.add("expiresbytype", &words("image/png A2")).unwrap();
        assert_eq!(expires.of("image/png"), Some(2));
        assert_eq!(expires.of("image/gif"), Some(1));
        assert_eq!(expires.of("text/css"), None);
    }
}
