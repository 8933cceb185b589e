//! Sections that decide while a file is read: `<IfModule>`, `<IfDefine>`, `<IfFile>`,
//! `<IfVersion>`, `<IfDirective>`, `<IfSection>`.

use std::cmp::Ordering;

use crate::base::Base;
use crate::modules::pattern::Pattern;
use crate::registry;
use crate::words::Words;

/// The inputs of a condition.
pub(super) struct Context<'a> {
    pub(super) base: &'a Base,
    pub(super) exists: &'a dyn Fn(&[u8]) -> bool,
    pub(super) probes: &'a mut Vec<(Vec<u8>, bool)>,
}

/// A kind of section.
pub(super) struct Section {
    /// Name with its `<`.
    pub(super) name: &'static str,
    /// Returns true if the content of the section counts.
    pub(super) decide: fn(&Section, &[u8], &mut Context<'_>) -> Result<bool, String>,
    test: fn(&[u8], &mut Context<'_>) -> bool,
}

/// Returns the kind of section of a name.
pub(super) fn find(name: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|section| section.name.eq_ignore_ascii_case(name))
}

static SECTIONS: &[Section] = &[
    Section { name: "<IfModule", decide: named, test: has_module },
    Section { name: "<IfDefine", decide: named, test: is_defined },
    Section { name: "<IfFile", decide: named, test: has_file },
    Section { name: "<IfDirective", decide: named, test: has_directive },
    Section { name: "<IfSection", decide: named, test: has_section },
    Section { name: "<IfVersion", decide: version, test: |_, _| false },
];

fn named(section: &Section, arguments: &[u8], context: &mut Context<'_>) -> Result<bool, String> {
    let Some(end) = memchr::memrchr(b'>', arguments) else {
        return Err(format!("{}> directive missing closing '>'", section.name));
    };
    let text = &arguments[..end];
    let (is_negated, text) = match text.strip_prefix(b"!") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let word = Words::new(text).take();
    if word.is_empty() {
        return Err(format!("{}> directive requires additional arguments", section.name));
    }
    Ok((section.test)(&word, context) != is_negated)
}

fn has_module(name: &[u8], context: &mut Context<'_>) -> bool {
    registry::find_module(name).is_some()
        || context.base.modules.split_ascii_whitespace().any(|module| module.as_bytes() == name)
}

fn is_defined(name: &[u8], context: &mut Context<'_>) -> bool {
    context.base.defines.split_ascii_whitespace().any(|defined| defined.as_bytes() == name)
}

fn has_file(path: &[u8], context: &mut Context<'_>) -> bool {
    if !path.starts_with(b"/") || path.contains(&0) {
        return false;
    }
    let is_there = (context.exists)(path);
    context.probes.push((path.to_vec(), is_there));
    is_there
}

fn has_directive(name: &[u8], _: &mut Context<'_>) -> bool {
    is_known(&String::from_utf8_lossy(name))
}

fn has_section(name: &[u8], _: &mut Context<'_>) -> bool {
    is_known(&format!("<{}", String::from_utf8_lossy(name)))
}

fn is_known(name: &str) -> bool {
    !registry::find(name).is_empty()
        || registry::is_server_only(name)
        || find(name).is_some()
        || super::section_kind::Kind::find(name).is_some()
}

/// `<IfVersion [[!]operator] version>`.
fn version(_: &Section, arguments: &[u8], context: &mut Context<'_>) -> Result<bool, String> {
    let unclosed = || Err("<IfVersion> directive missing closing '>'".to_owned());
    let mut words = Words::new(arguments);
    let (first, second, third) = (words.take(), words.take(), words.take());
    if first.is_empty() || !words.rest().is_empty() {
        return Err("<IfVersion takes one, two or three arguments, a comparison operator, a \
                    version (and a delimiter)"
            .to_owned());
    }
    let (operator, version, is_closed) = match (second.as_slice(), third.as_slice()) {
        (b"", _) => (b"=".to_vec(), first, false),
        (b">", b"") => (b"=".to_vec(), first, true),
        (_, third) => (first, second, third == b">"),
    };
    let version = match (is_closed, version.strip_suffix(b">")) {
        (true, _) if !version.is_empty() => version.as_slice(),
        (false, Some(version)) => version,
        _ => return unclosed(),
    };
    let unknown = || Err(format!("unrecognized operator '{}'", String::from_utf8_lossy(&operator)));
    let (is_negated, plain) = match operator.strip_prefix(b"!") {
        Some(plain) if !plain.is_empty() => (true, plain),
        _ => (false, operator.as_slice()),
    };
    let own = context.base.version;
    let matches = match plain {
        b"=" | b"==" if !version.starts_with(b"/") => compare(own, version)?.is_eq(),
        b"=" | b"==" => match version.strip_prefix(b"/").and_then(|text| text.strip_suffix(b"/")) {
            Some(pattern) => matches_version(own, pattern)?,
            None => return Err("Missing delimiting / of regular expression.".to_owned()),
        },
        b"~" => matches_version(own, version)?,
        b"<" => compare(own, version)?.is_lt(),
        b"<=" => compare(own, version)?.is_le(),
        b">" => compare(own, version)?.is_gt(),
        b">=" => compare(own, version)?.is_ge(),
        _ => return unknown(),
    };
    Ok(matches != is_negated)
}

fn compare(own: [u32; 3], text: &[u8]) -> Result<Ordering, String> {
    let invalid = || {
        "Version appears to be invalid. It must have the format major[.minor[.patch]] where \
         major, minor and patch are numbers."
            .to_owned()
    };
    let mut version = [0; 3];
    let text = std::str::from_utf8(text).map_err(|_| invalid())?;
    for (index, part) in text.split('.').enumerate() {
        let number = part.parse().map_err(|_| invalid())?;
        *version.get_mut(index).ok_or_else(invalid)? = number;
    }
    Ok(own.cmp(&version))
}

fn matches_version(own: [u32; 3], pattern: &[u8]) -> Result<bool, String> {
    let pattern = Pattern::new(pattern, false)
        .map_err(|_| "Unable to compile regular expression".to_owned())?;
    let own = format!("{}.{}.{}", own[0], own[1], own[2]);
    pattern.is_match(own.as_bytes()).map_err(|_| "The regular expression takes too long".to_owned())
}
