//! `expires`, `cache_control` and `fingerprinted` of an action: how long browsers keep responses.

use howdah_template::{Patterns, Subject};

use crate::by_type::ByType;
use crate::error::Error;
use crate::key::{Key, Kind};
use crate::node::{Node, Object};
use crate::patterns;

/// A time of expiry.
const EXPIRY: Kind = Kind::Either(&[Kind::Text, Kind::Number]);

/// The row of `expires`.
pub(crate) const EXPIRES: Key = Key::new(
    "expires",
    Kind::Either(&[Kind::Text, Kind::Number, Kind::Named(&EXPIRY)]),
    "Time for which browsers may keep responses, for all or by media type: `\"30d\"`, `\"modified \
     +1h\"`, `\"@15h30m\"`, `\"epoch\"`, `\"max\"`, `\"off\"`",
)
.default("none")
.details("See [below](#browser-caches) (nginx's `expires`, Apache's `ExpiresByType`)")
.inherited();

/// The row of `cache_control`.
pub(crate) const CACHE_CONTROL: Key = Key::new(
    "cache_control",
    Kind::Either(&[Kind::Text, Kind::Named(&Kind::Text)]),
    "Directives of `Cache-Control`, such as `\"public\"`, for all responses or by media type",
)
.default("none")
.inherited();

/// The row of `fingerprinted`.
pub(crate) const FINGERPRINTED: Key = Key::new(
    "fingerprinted",
    Kind::Either(&[Kind::Switch, Kind::Texts]),
    "Lets browsers keep files with a hash in their names for a year without asking; or patterns \
     of their paths",
)
.default("false")
.inherited();

/// The cache fields that responses get.
#[derive(Debug, Clone, Default)]
pub struct BrowserCaching {
    /// Times of expiry by type.
    pub expires: Option<ByType<Expiry>>,
    /// Directives of `Cache-Control` by type.
    pub directives: Option<ByType<String>>,
    /// Files whose content never changes, as their names have a fingerprint of it.
    pub fingerprinted: Option<Fingerprinted>,
}

/// The time at which a response expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// No fields are added.
    Off,
    /// The response is out of date at once.
    Epoch,
    /// The file never expires.
    Max,
    /// Seconds after the request.
    Accessed(i64),
    /// Seconds after the modification of the file; after the request if there is none.
    Modified(i64),
    /// The next time with this many seconds since midnight, in local time.
    Daily(u32),
}

/// Files with names that have a fingerprint of their content.
#[derive(Debug, Clone)]
pub enum Fingerprinted {
    /// Recognised by [`is_fingerprinted`].
    Hexadecimal,
    /// Files whose path matches.
    Patterns(Patterns),
}

impl BrowserCaching {
    pub(crate) fn read(object: &Object<'_>) -> Result<BrowserCaching, Error> {
        Ok(BrowserCaching {
            expires: object.read("expires", |node| ByType::read(node, Expiry::read))?,
            directives: object.read("cache_control", |node| ByType::read(node, read_directives))?,
            fingerprinted: object.read("fingerprinted", Fingerprinted::read)?.flatten(),
        })
    }
}

impl Fingerprinted {
    fn read(node: &Node<'_>) -> Result<Option<Fingerprinted>, Error> {
        match node.value {
            serde_json::Value::Bool(false) => Ok(None),
            serde_json::Value::Bool(true) => Ok(Some(Fingerprinted::Hexadecimal)),
            serde_json::Value::String(_) | serde_json::Value::Array(_) => {
                patterns::read(node, Subject::Uri).map(|p| Some(Fingerprinted::Patterns(p)))
            }
            _ => Err(node.wrong_type("true, false, a pattern or an array of patterns")),
        }
    }

    /// Returns true if the decoded path is the path of one of these files.
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Fingerprinted::Hexadecimal => is_fingerprinted(path),
            Fingerprinted::Patterns(patterns) => patterns.matches(path),
        }
    }
}

/// Returns true if the name of a file has a fingerprint in front of an extension: at least 8
/// hexadecimal digits between `.`, `-` or `_`, with both letters and digits. Digits alone may be a
/// date, and letters alone a word.
pub fn is_fingerprinted(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let Some(dot) = memchr::memrchr(b'.', name) else { return false };
    let stem = name.get(..dot).unwrap_or_default();
    stem.split(|byte| matches!(byte, b'.' | b'-' | b'_')).skip(1).any(|part| {
        part.len() >= 8
            && part.iter().all(u8::is_ascii_hexdigit)
            && part.iter().any(u8::is_ascii_digit)
            && part.iter().any(u8::is_ascii_alphabetic)
    })
}

fn read_directives(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && !text.trim().is_empty() {
        Ok(text.trim().to_owned())
    } else {
        Err(node.invalid("must be directives such as \"public, immutable\""))
    }
}

/// Longest time in seconds: a hundred years.
const MAX_SECONDS: i64 = 100 * 31_536_000;

impl Expiry {
    fn read(node: &Node<'_>) -> Result<Expiry, Error> {
        if node.value.is_number() {
            return node.integer(-MAX_SECONDS..=MAX_SECONDS).map(Expiry::Accessed);
        }
        let Some(text) = node.value.as_str() else {
            return Err(node.wrong_type("a time such as \"30d\", or a number of seconds"));
        };
        Expiry::parse(text).ok_or_else(|| {
            node.invalid("is no time of expiry").with_hint(
                "write \"30d\", \"modified +1h\", \"@15h30m\", \"access plus 1 month\", \"epoch\", \
                 \"max\" or \"off\"",
            )
        })
    }

    /// Parses nginx's forms, and the ones of Apache's `ExpiresByType`.
    pub(crate) fn parse(text: &str) -> Option<Expiry> {
        let text = text.trim();
        match text {
            "off" => return Some(Expiry::Off),
            "epoch" => return Some(Expiry::Epoch),
            "max" => return Some(Expiry::Max),
            _ => {}
        }
        if let Some(time) = text.strip_prefix('@') {
            let seconds = u32::try_from(duration(time)?).ok()?;
            return (seconds < 86_400).then_some(Expiry::Daily(seconds));
        }
        let word_end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (word, rest) = text.split_at(word_end);
        let base: fn(i64) -> Expiry = match word {
            "" | "access" | "now" => Expiry::Accessed,
            "modified" | "modification" => Expiry::Modified,
            "A" => Expiry::Accessed,
            "M" => Expiry::Modified,
            _ => return None,
        };
        let rest = rest.trim_start();
        let (sign, rest) = match (rest.strip_prefix('-'), rest.strip_prefix('+')) {
            (Some(rest), _) => (-1, rest),
            (_, Some(rest)) => (1, rest),
            _ => (1, rest.strip_prefix("plus").unwrap_or(rest)),
        };
        duration(rest).map(|seconds| base(sign * seconds))
    }
}

/// Parses times such as `1h 30m` and `1 month 3 days`; a number without a unit is of seconds.
/// `M` is a month of 30 days and `m` a minute, as in nginx. Returns at most [`MAX_SECONDS`].
fn duration(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum = 0_i64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let behind = behind.trim_start();
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, next) = behind.split_at(letters);
        let number: i64 = number.parse().ok()?;
        sum = sum.checked_add(number.checked_mul(unit_seconds(unit)?)?)?;
        rest = next.trim_start();
    }
    (sum <= MAX_SECONDS).then_some(sum)
}

fn unit_seconds(unit: &str) -> Option<i64> {
    Some(match unit {
        "" | "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 7 * 86_400,
        "M" | "month" | "months" => 30 * 86_400,
        "y" | "year" | "years" => 365 * 86_400,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::Config;

    fn read(action: Value) -> Result<BrowserCaching, String> {
        let mut document = json!({"routes": [{"action": {"share": "/www$uri"}}]});
        let members = action.as_object().cloned().unwrap_or_default();
        document["routes"][0]["action"].as_object_mut().unwrap().extend(members);
        let config = Config::from_value(document).map_err(|error| error.to_string())?;
        Ok(config.routes[0].steps[0].action.options.caching.clone())
    }

    #[test]
    fn times_are_those_of_nginx_and_apache() {
        let year = 365 * 86_400;
        for (text, expected) in [
            ("off", Expiry::Off),
            ("epoch", Expiry::Epoch),
            ("max", Expiry::Max),
            ("0", Expiry::Accessed(0)),
            ("30d", Expiry::Accessed(30 * 86_400)),
            ("1y 2M 3w 4d 5h 6m 7s", Expiry::Accessed(year + 60 * 86_400 + 25 * 86_400 + 18_367)),
            ("-1", Expiry::Accessed(-1)),
            ("+1h", Expiry::Accessed(3600)),
            ("modified +24h", Expiry::Modified(86_400)),
            ("modified -1h", Expiry::Modified(-3600)),
            ("modified 1h", Expiry::Modified(3600)),
            ("@15h30m", Expiry::Daily(55_800)),
            ("@0", Expiry::Daily(0)),
            ("access plus 1 month", Expiry::Accessed(30 * 86_400)),
            ("modification plus 2 hours 3 minutes", Expiry::Modified(7380)),
            ("now plus 1 year", Expiry::Accessed(year)),
            ("A3600", Expiry::Accessed(3600)),
            ("M86400", Expiry::Modified(86_400)),
        ] {
            assert_eq!(Expiry::parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "x",
            "1x",
            "modified",
            "@24h",
            "@-1",
            "@",
            "access plus",
            "1h off",
            "d",
            "--1",
            "99999999999999999999",
            "101y",
            "9223372036854775807y",
            "1 month ago",
            "plus",
            "1é",
        ] {
            assert_eq!(Expiry::parse(text), None, "{text}");
        }
    }

    #[test]
    fn values_are_by_type() {
        let caching = read(json!({
            "expires": {"text/HTML": "off", "image/*": "30d", "*": 60},
            "cache_control": "public",
        }));
        let caching = caching.unwrap();
        let expires = caching.expires.unwrap();
        assert_eq!(expires.get(b"text/html; charset=utf-8"), Some(&Expiry::Off));
        assert_eq!(expires.get(b"Image/PNG"), Some(&Expiry::Accessed(30 * 86_400)));
        assert_eq!(expires.get(b""), Some(&Expiry::Accessed(60)));
        assert_eq!(expires.get(b"x"), Some(&Expiry::Accessed(60)));
        assert_eq!(caching.directives.unwrap().get(b"a/b").map(String::as_str), Some("public"));
        assert!(caching.fingerprinted.is_none());
    }

    #[test]
    fn other_values_are_refused_with_their_place() {
        let place = "/routes/0/action";
        for (action, message) in [
            (json!({"expires": "1x"}), "/expires: \"expires\" is no time of expiry; write \"30d\""),
            (json!({"expires": true}), "/expires: \"expires\" must be a time such as"),
            (json!({"expires": 1e30}), "/expires: \"expires\" must be an integer"),
            (json!({"expires": {"text": 1}}), "/expires/text: \"text\" is no media type; write"),
            (json!({"expires": {"*/*": 1}}), "/expires/*%2F*: \"*/*\" is no media type"),
            (json!({"expires": {"a/b": 1, "A/B": 1}}), "is a type that the object has"),
            (json!({"expires": {"a/b": "no"}}), "/expires/a%2Fb: "),
            (json!({"cache_control": ""}), "/cache_control: "),
            (json!({"cache_control": "a\r\nb"}), "must be directives such as"),
            (json!({"fingerprinted": 1}), "/fingerprinted: \"fingerprinted\" must be true, false"),
            (json!({"expire": "1d"}), "did you mean \"expires\"?"),
        ] {
            let error = read(action.clone()).unwrap_err();
            assert!(error.starts_with(place) && error.contains(message), "{action}: {error}");
        }
    }

    #[test]
    fn a_fingerprint_is_no_date_and_no_word() {
        for path in [
            "/app.3f9a1c2b.js",
            "/css/main-3F9A1C2B.min.css",
            "/a_0123456789abcdef.woff2",
            "/application-6b5b2a76dcbe05f8d9a4e24d4ab9bd9a.css",
            "/x/3f9a.3f9a1c2b.js.map",
        ] {
            assert!(is_fingerprinted(path.as_bytes()), "{path}");
        }
        for path in [
            "/report-20240101.pdf",
            "/facade-deadbeef.css",
            "/3f9a1c2b.js",
            "/app.3f9a1c2.js",
            "/app.3f9a1c2b",
            "/a.js",
            "/",
            "",
            "/app.3f9a1c2b/a.js",
            "/app.3f9a1c2g.js",
            "/a.b-3f9a1c2b",
        ] {
            assert!(!is_fingerprinted(path.as_bytes()), "{path}");
        }
        let named = read(json!({"fingerprinted": "~-[A-Za-z0-9_-]{8}\\.js$"})).unwrap();
        let named = named.fingerprinted.unwrap();
        assert!(named.matches(b"/assets/index-BkR3hV2c.js") && !named.matches(b"/app.js"));
    }

    proptest! {
        #[test]
        fn texts_of_any_kind_are_read_without_panic(text in "\\PC*", bytes: Vec<u8>) {
            let _ = Expiry::parse(&text);
            let _ = is_fingerprinted(&bytes);
        }

        #[test]
        fn the_parts_of_a_time_add_up(
            parts in prop::collection::vec(
                (0_i64..100, prop::sample::select(&["s", "m", "h", "d", "w", " days "][..])), 1..6),
            sign in prop::sample::select(&["", "+", "-"][..]),
        ) {
            let text: String = parts.iter().map(|(number, unit)| format!("{number}{unit}"))
                .collect();
            let sum: i64 = parts.iter()
                .map(|(number, unit)| number * unit_seconds(unit.trim()).unwrap()).sum();
            let sum = if sign == "-" { -sum } else { sum };
            prop_assert_eq!(Expiry::parse(&format!("{sign}{text}")), Some(Expiry::Accessed(sum)));
            let modified = Expiry::parse(&format!("modified {sign}{text}"));
            prop_assert_eq!(modified, Some(Expiry::Modified(sum)));
        }
    }
}
