//! The configuration document and the small languages in it.

use std::net::SocketAddr;

use howdah_config::geo_database::GeoContent;
use howdah_config::{
    ActionKind, Address, AddressPattern, Captures, Config, ErrorKind, Expiry, Group, Groups, Part,
    Pattern, Patterns, Prefix, QueryChange, RequiredTexts, Subject, Target, Template, Variable,
    parse,
};
use serde_json::{Value, json};

use crate::{Bytes, split};

/// A document that is taken reads back as the same configuration; one that is refused is refused
/// with a place that it has, in one line.
pub fn document(input: &[u8]) {
    let error = match parse(input) {
        Ok(config) => {
            let text = serde_json::to_vec(&config.document).expect("a value tree is JSON");
            let again = parse(&text).expect("what was taken is taken again");
            assert_eq!(format!("{again:?}"), format!("{config:?}"));
            return;
        }
        Err(error) => error,
    };
    let line = error.to_string();
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert!(!error.message().is_empty());
    assert_eq!(error.kind() == ErrorKind::Syntax, error.position().is_some());
    if let Some(position) = error.position() {
        assert!(error.path().is_empty() && position.offset <= input.len());
        let before = &input[..position.offset];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(position.line, lines + 1);
        assert!((1..=position.offset + 1).contains(&position.column));
        return;
    }
    let document = howdah_config::json::parse(input).expect("only syntax errors have a position");
    let steps: Vec<&str> = error.path().split('/').skip(1).collect();
    assert!(error.path().is_empty() || error.path().starts_with('/'));
    // The last step may name a missing member.
    let parents = steps.len().saturating_sub(1);
    steps[..parents]
        .iter()
        .try_fold(&document, |value, step| child(value, step))
        .unwrap_or_else(|| panic!("there is no {} in {document}", error.path()));
}

fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        Value::Object(members) => {
            let mut bytes = Bytes(step.as_bytes());
            let mut name = Vec::new();
            while let Some(byte) = bytes.byte() {
                let digits = if byte == b'%' { bytes.take(2) } else { b"" };
                let digits = std::str::from_utf8(digits).ok()?;
                name.push(u8::from_str_radix(digits, 16).unwrap_or(byte));
            }
            members.get(std::str::from_utf8(&name).ok()?)
        }
        _ => None,
    }
}

/// A text that serde_json accepts is accepted, with the same values, except for the refusals that
/// the module names; and an accepted text reads back.
pub fn json(input: &[u8]) {
    let ours = howdah_config::json::parse(input);
    if let Ok(value) = &ours {
        let text = serde_json::to_vec(value).expect("a value tree is JSON");
        assert_eq!(howdah_config::json::parse(&text).as_ref(), Ok(value));
        assert!(same(&serde_json::from_slice(&text).expect("JSON"), value));
    }
    let Ok(theirs) = serde_json::from_slice::<Value>(input) else { return };
    match ours {
        Ok(value) => assert!(same(&theirs, &value), "{theirs} is not {value}"),
        Err(error) => {
            let known = ["two members", "nested more", "outside the range of 64-bit integers"];
            assert!(known.iter().any(|reason| error.message().contains(reason)), "{error}");
        }
    }
}

/// Returns true if two trees are the same, except that an integer may be written in other ways.
fn same(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Number(theirs), Value::Number(ours)) => theirs.as_f64() == ours.as_f64(),
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(t, o)| same(t, o))
        }
        (Value::Object(theirs), Value::Object(ours)) => {
            theirs.len() == ours.len()
                && theirs.iter().zip(ours).all(|((tk, t), (ok, o))| tk == ok && same(t, o))
        }
        (theirs, ours) => theirs == ours,
    }
}

/// First line: the pattern, after a character for its subject; the rest: the compared text. A
/// pattern with stars has the result of a trial of all places, and `!` negates every result.
pub fn pattern(input: &[u8]) {
    let (line, bytes) = split(input);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let mut characters = line.chars();
    let subject = match characters.next() {
        Some('a') => Subject::Argument,
        Some('c') => Subject::Cookie,
        Some('h') => Subject::Header,
        Some('H') => Subject::Host,
        Some('m') => Subject::Method,
        Some('t') => Subject::MimeType,
        Some('q') => Subject::Query,
        Some('u') => Subject::Uri,
        _ => return,
    };
    let text = characters.as_str().trim_start_matches('!');
    let Ok(pattern) = Pattern::parse(text, subject) else {
        assert!(Pattern::parse(&format!("!{text}"), subject).is_err());
        return;
    };
    let negative = Pattern::parse(&format!("!{text}"), subject).expect("as without the mark");
    assert_eq!(pattern.matches(bytes), !negative.matches(bytes));
    let mut patterns = Patterns::default();
    patterns.push(pattern.clone());
    if let (true, Some(required)) = (patterns.matches(bytes), patterns.required_texts()) {
        let has = |text: &[u8]| match &required {
            RequiredTexts::Whole(_) => bytes == text,
            RequiredTexts::Start(_) => bytes.starts_with(text),
            RequiredTexts::End(_) => bytes.ends_with(text),
        };
        assert!(required.texts().any(has), "{required:?}");
    }
    if text.starts_with('~') {
        return;
    }
    // `None` is a wildcard; an encoded star is a star.
    let encoded = matches!(subject, Subject::Argument | Subject::Query | Subject::Uri);
    let form = matches!(subject, Subject::Argument | Subject::Query);
    let mut elements: Vec<Option<u8>> = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        elements.push(match first {
            b'*' => None,
            b'+' if form => Some(b' '),
            b'%' if encoded => {
                let (digits, after) = rest.split_at(2);
                rest = after;
                let digits = std::str::from_utf8(digits).expect("checked by the parser");
                Some(u8::from_str_radix(digits, 16).expect("checked by the parser"))
            }
            byte => Some(*byte),
        });
    }
    let same_byte = |wanted: u8, byte: u8| match subject {
        Subject::Header | Subject::MimeType => wanted.eq_ignore_ascii_case(&byte),
        Subject::Host => wanted.to_ascii_lowercase() == byte,
        Subject::Method => wanted.to_ascii_uppercase() == byte,
        _ => wanted == byte,
    };
    // For each number of bytes, whether the elements so far can be found in so many.
    let mut reach = vec![false; bytes.len() + 1];
    reach[0] = true;
    for element in elements {
        let mut next = vec![false; reach.len()];
        for at in (0..reach.len()).filter(|at| reach[*at]) {
            match element {
                None => next[at..].fill(true),
                Some(wanted) if at < bytes.len() && same_byte(wanted, bytes[at]) => {
                    next[at + 1] = true;
                }
                Some(_) => {}
            }
        }
        reach = next;
    }
    assert_eq!(pattern.matches(bytes), reach[bytes.len()]);
}

/// A template reads back from its parts, and an escaped text stands for itself.
pub fn template(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(escaped) = Template::parse(&Template::escape(text)) {
        assert_eq!(escaped.constant(), Some(text));
    } else {
        assert!(text.starts_with('`') && text.ends_with('`'));
    }
    let Ok(template) = Template::parse(text) else { return };
    let mut written = String::new();
    let mut literal_before = false;
    for part in template.parts() {
        match part {
            Part::Literal(literal) => {
                assert!(!literal.is_empty() && !literal_before);
                written.push_str(&Template::escape(literal));
            }
            Part::Variable(variable) => written.push_str(&format!("${{{}}}", name(variable))),
        }
        literal_before = matches!(part, Part::Literal(_));
    }
    assert_eq!(Template::parse(&written).as_ref(), Ok(&template));
    let variables = template.parts().iter().any(|part| matches!(part, Part::Variable(_)));
    assert_eq!(template.constant().is_none(), variables);
    let mut expanded = Vec::new();
    template
        .expand(&mut expanded, |variable, out| out.extend_from_slice(name(variable).as_bytes()));
    assert!(expanded.len() <= written.len());
}

/// First line: an expression; second: a template; the rest: a path. A template's text of the groups
/// is a part of the path, and a group that the template may not name is empty.
pub fn captures(input: &[u8]) {
    let (expression, rest) = split(input);
    let (template, path) = split(rest);
    let (Ok(expression), Ok(template)) = (str::from_utf8(expression), str::from_utf8(template))
    else {
        return;
    };
    let Ok(pattern) = Pattern::parse(&format!("~{expression}"), Subject::Uri) else { return };
    let mut patterns = Patterns::default();
    patterns.push(pattern);
    let groups = Groups::new(Some(&patterns), None);
    let captures = Captures::of(Some((&patterns, path)), None);
    let found = |group: &Group| captures.get(group).unwrap_or_default();
    for number in 1..=9 {
        let text = found(&Group::Number(number));
        assert!(usize::from(number) <= groups.count() || text.is_empty());
        assert!(text.is_empty() || path.windows(text.len()).any(|window| window == text));
        let named = Template::parse_with(&format!("${number}"), &groups);
        assert_eq!(named.is_ok(), usize::from(number) <= groups.count());
    }
    if !patterns.matches(path) {
        assert_eq!(captures, Captures::default());
    }
    let Ok(template) = Template::parse_with(template, &groups) else { return };
    let mut out = Vec::new();
    template.expand(&mut out, |variable, out| match variable {
        Variable::Capture(group) => out.extend_from_slice(found(group)),
        _ => out.push(b'v'),
    });
    assert!(out.len() <= template.parts().len() * (path.len() + input.len() + 1));
}

fn name(variable: &Variable) -> String {
    let field = |prefix: &str, name: &str| format!("{prefix}{}", name.replace('-', "_"));
    match variable {
        Variable::Argument(name) => format!("arg_{name}"),
        Variable::Capture(Group::Number(number)) => number.to_string(),
        Variable::Capture(Group::Name(name)) => name.clone(),
        Variable::Cookie(name) => format!("cookie_{name}"),
        Variable::Header(name) => field("header_", name),
        Variable::ResponseHeader(name) => field("response_header_", name),
        Variable::Defined(defined) => defined.name().to_owned(),
        variable => variable.constant_name().expect("it has no argument").to_owned(),
    }
}

/// First line: a prefix; second: a path. The prefix and the rest below it together are the path.
pub fn prefix(input: &[u8]) {
    let (line, path) = split(input);
    let Some(prefix) = std::str::from_utf8(line).ok().and_then(Prefix::parse) else { return };
    let bytes = prefix.as_bytes();
    assert!(bytes.starts_with(b"/") && !bytes.ends_with(b"/") && !bytes.contains(&0));
    let mut segments = bytes.split(|byte| *byte == b'/').skip(1);
    assert!(!segments.any(|segment| matches!(segment, b"" | b"." | b"..")));
    match prefix.rest(path) {
        Some(rest) => {
            assert!(rest.is_empty() || rest.starts_with(b"/"));
            assert_eq!(&*Prefix::join(Some(&prefix), rest), path);
        }
        None => assert!(path != bytes && !path.starts_with(&[bytes, b"/"].concat())),
    }
}

/// First line: a rewrite, or an element of `try`. The text behind its `?` is no part of the path.
pub fn rewrite(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let steps = json!([
        {"action": {"rewrite": text, "return": 200}},
        {"action": {"share": "/www$uri", "try": text}},
    ]);
    for step in steps.as_array().expect("an array") {
        let Ok(config) = Config::from_value(json!({"routes": [step]})) else { continue };
        let action = &config.routes[0].steps[0].action;
        let rewrite = match &action.kind {
            ActionKind::Share(share) => &share.candidates[0].target,
            _ => action.rewrite.as_ref().expect("a rewrite"),
        };
        let mut literals = rewrite.path.parts().iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text),
            Part::Variable(_) => None,
        });
        assert!(!literals.any(|text| text.contains(['?', '#'])), "{rewrite:?}");
        let has_query = text.split('#').next().is_some_and(|text| text.contains('?'));
        assert!(!has_query || rewrite.query != QueryChange::Keep, "{rewrite:?}");
    }
}

/// First line: the definition of a variable; rest: the value of all others. A value is found in the
/// same way each time.
pub fn variables(input: &[u8]) {
    let (line, value) = split(input);
    let Ok(definition) = howdah_config::json::parse(line) else { return };
    let step = json!({"action": {"return": 301, "location": "$x"}});
    let document = json!({"variables": {"x": definition}, "routes": [step]});
    let Ok(config) = Config::from_value(document) else { return };
    let ActionKind::Return(answer) = &config.routes[0].steps[0].action.kind else { return };
    let expand = || {
        let mut out = Vec::new();
        answer.location.as_ref().expect("a location").expand(&mut out, |variable, out| {
            let Variable::Defined(defined) = variable else { unreachable!("it is $x") };
            let found = defined.write(out, &|_, out| out.extend_from_slice(value));
            assert_eq!(found, !out.is_empty());
        });
        out
    };
    let found = expand();
    assert_eq!(found, expand());
    assert!(found.len() <= line.len() * (value.len() + 1));
}

/// A time of expiry. An accepted one is within a hundred years, with blanks around it too.
pub fn expires(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = |text: &str| {
        let step = json!({"action": {"return": 200, "expires": text}});
        let config = Config::from_value(json!({"routes": [step]})).ok()?;
        let caching = &config.routes[0].steps[0].action.options.caching;
        caching.expires.as_ref().and_then(|times| times.get(b"")).copied()
    };
    let Some(found) = read(text) else { return };
    match found {
        Expiry::Accessed(seconds) | Expiry::Modified(seconds) => {
            assert!(seconds.unsigned_abs() <= 100 * 31_536_000, "{seconds}");
        }
        Expiry::Daily(seconds) => assert!(seconds < 86_400, "{seconds}"),
        Expiry::Off | Expiry::Epoch | Expiry::Max => {}
    }
    assert_eq!(read(&format!(" {text} ")), Some(found));
}

/// First line: a path and an address; the rest: a database. With any bytes, a value is found in the
/// same way each time, or the default.
pub fn geo_database(input: &[u8]) {
    let (line, bytes) = split(input);
    let Ok(line) = std::str::from_utf8(line) else { return };
    let Some((path, address)) = line.split_once(' ') else { return };
    let Ok(content) = GeoContent::read(bytes.to_vec(), [0; 4]) else { return };
    let variable = json!({
        "geo": "$remote_addr", "database": "/fuzz.mmdb", "path": path, "default": "none",
    });
    let step = json!({"action": {"return": 301, "location": "$x"}});
    let document = json!({"variables": {"x": variable}, "routes": [step]});
    let Ok(config) = Config::from_value(document) else { return };
    config.geo_databases[0].1.set(content);
    let ActionKind::Return(answer) = &config.routes[0].steps[0].action.kind else { return };
    let expand = || {
        let mut out = Vec::new();
        answer.location.as_ref().expect("a location").expand(&mut out, |variable, out| {
            let Variable::Defined(defined) = variable else { unreachable!("it is $x") };
            defined.write(out, &|_, out| out.extend_from_slice(address.as_bytes()));
        });
        out
    };
    let found = expand();
    assert_eq!(found, expand());
    assert!(address.parse::<std::net::IpAddr>().is_ok() || found == b"none");
}

/// An address is written so that it reads back.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(address) = Address::parse(text) else { return };
    assert_eq!(Address::parse(&address.to_string()), Ok(address));
}

/// A target is written so that it reads back.
pub fn target(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(target) = Target::parse(text) else { return };
    assert_eq!(Target::parse(&target.to_string()), Some(target));
}

/// First line: the pattern; second: an address. `!` turns every answer round, an IPv4 address is
/// found in both its forms, and an address alone finds itself.
pub fn address_pattern(input: &[u8]) {
    let (line, rest) = split(input);
    let (Ok(line), Ok(rest)) = (std::str::from_utf8(line), std::str::from_utf8(rest)) else {
        return;
    };
    let address: Option<SocketAddr> = rest.trim().parse().ok();
    // Without the zone that an IPv6 address may have in text.
    let address = address.map(|address| SocketAddr::new(address.ip(), address.port()));
    let text = line.trim_start_matches('!');
    let Ok(pattern) = AddressPattern::parse(text) else {
        assert!(AddressPattern::parse(&format!("!{text}")).is_err());
        return;
    };
    let negative = AddressPattern::parse(&format!("!{text}")).expect("as without the mark");
    assert_eq!(pattern.matches(address), !negative.matches(address));
    if let Some(SocketAddr::V4(v4)) = address {
        let mapped = SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port()));
        assert!(!pattern.matches(address) || pattern.matches(Some(mapped)));
    }
    if let Ok(itself) = text.parse::<SocketAddr>() {
        assert!(pattern.matches(Some(itself)));
    }
    if let Some(address) = address {
        for itself in [address.to_string(), address.ip().to_string()] {
            let pattern = AddressPattern::parse(&itself).expect("an address is a pattern");
            assert!(pattern.matches(Some(address)), "{itself}");
        }
    }
}
