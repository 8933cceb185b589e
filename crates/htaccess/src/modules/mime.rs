//! `mod_mime`: type, encoding, language, charset, handler and filters of a file by all of its
//! extensions; and `AddDefaultCharset` of the core.

mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use types::Types;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Apply, Arguments, Directive, Override, Place, is_on};
use crate::record::{FileKind, Record};
use crate::support::{is_space, lossy, trimmed};

/// Type of a directory.
pub const DIRECTORY_TYPE: &[u8] = b"httpd/unix-directory";

/// Meanings of extensions.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Shared by the directories that add no extension.
    extensions: Arc<BTreeMap<Vec<u8>, Extension>>,
    /// Applied when this configuration is merged into that of the parent.
    removals: Vec<(Vec<u8>, Field)>,
    default_language: Option<Vec<u8>>,
    multiviews: Multiviews,
    uses_path_info: Option<bool>,
    /// `Some(None)` for `AddDefaultCharset Off`.
    default_charset: Option<Option<Vec<u8>>>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Mime;

    fn merged(&self, child: &Config) -> Config {
        let mut extensions = Arc::clone(&self.extensions);
        for (name, added) in child.extensions.iter() {
            let extension = Arc::make_mut(&mut extensions).entry(name.clone()).or_default();
            for field in FIELDS {
                if let Some(value) = added.get(field) {
                    extension.set(field, value.to_vec());
                }
            }
        }
        for (name, field) in &child.removals {
            if let Some(extension) = Arc::make_mut(&mut extensions).get_mut(name) {
                extension.values[*field as usize] = None;
            }
        }
        let own_multiviews = child.multiviews != Multiviews::default();
        Config {
            extensions,
            removals: Vec::new(),
            default_language: child
                .default_language
                .clone()
                .or_else(|| self.default_language.clone()),
            multiviews: if own_multiviews { child.multiviews } else { self.multiviews },
            uses_path_info: child.uses_path_info.or(self.uses_path_info),
            default_charset: child.default_charset.clone().or_else(|| self.default_charset.clone()),
        }
    }
}

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    add(
        "AddCharset",
        "a charset (e.g., iso-2022-jp), followed by one or more file extensions",
        |c, _, a| set(c, a, Field::Charset),
    ),
    add(
        "AddEncoding",
        "an encoding (e.g., gzip), followed by one or more file extensions",
        |c, _, a| set(c, a, Field::Encoding),
    ),
    add("AddHandler", "a handler name followed by one or more file extensions", |c, _, a| {
        set(c, a, Field::Handler)
    }),
    add(
        "AddInputFilter",
        "input filter name (or ; delimited names) followed by one or more file extensions",
        |c, _, a| set(c, a, Field::InputFilters),
    ),
    add(
        "AddLanguage",
        "a language (e.g., fr), followed by one or more file extensions",
        |c, _, a| set(c, a, Field::Language),
    ),
    add(
        "AddOutputFilter",
        "output filter name (or ; delimited names) followed by one or more file extensions",
        |c, _, a| set(c, a, Field::OutputFilters),
    ),
    add("AddType", "a mime type followed by one or more file extensions", |c, _, a| {
        set(c, a, Field::Type)
    }),
    Directive {
        name: "DefaultLanguage",
        arguments: Arguments::One,
        class: Override::FILE_INFO,
        usage: "language to use for documents with no other language file extension",
        apply: |config, _, arguments| {
            config.of_mut::<Config>().default_language =
                arguments.first().map(|word| word.to_vec());
            Ok(())
        },
    },
    Directive {
        name: "MultiviewsMatch",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "NegotiatedOnly (default), Handlers and/or Filters, or Any",
        apply: multiviews_match,
    },
    remove("RemoveCharset", |c, _, a| unset(c, a, Field::Charset)),
    remove("RemoveEncoding", |c, _, a| unset(c, a, Field::Encoding)),
    remove("RemoveHandler", |c, _, a| unset(c, a, Field::Handler)),
    remove("RemoveInputFilter", |c, _, a| unset(c, a, Field::InputFilters)),
    remove("RemoveLanguage", |c, _, a| unset(c, a, Field::Language)),
    remove("RemoveOutputFilter", |c, _, a| unset(c, a, Field::OutputFilters)),
    // An empty type: that of the system must not come back.
    remove("RemoveType", |c, _, a| {
        a.iter().try_for_each(|extension| set(c, &[b"", extension], Field::Type))
    }),
    Directive {
        name: "TypesConfig",
        arguments: Arguments::One,
        class: Override::NONE,
        usage: "the MIME types config file",
        apply: |_, _, _| Ok(()),
    },
    Directive {
        name: "ModMimeUsePathInfo",
        arguments: Arguments::Flag,
        class: Override::NONE,
        usage: "Set to 'yes' to allow mod_mime to use path info for type checking",
        apply: |config, _, arguments| {
            config.of_mut::<Config>().uses_path_info = Some(is_on(arguments));
            Ok(())
        },
    },
    Directive {
        name: "AddDefaultCharset",
        arguments: Arguments::One,
        class: Override::FILE_INFO,
        usage: "The name of the default charset to add to any Content-Type without one or 'Off' \
                to disable",
        apply: default_charset,
    },
];

/// Meaning of the extensions of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Type, with parameters.
    pub content_type: Option<Vec<u8>>,
    /// Encodings in their order, with commas.
    pub content_encoding: Option<Vec<u8>>,
    /// Languages in the order of the name's parts.
    pub content_languages: Vec<Vec<u8>>,
    /// Handler, in lower case.
    pub handler: Option<Vec<u8>>,
    /// Filters of the request's body, in lower case.
    pub input_filters: Vec<Vec<u8>>,
    /// Filters of the response's body, in lower case.
    pub output_filters: Vec<Vec<u8>>,
    /// Parts of the name without a meaning, the base name first; `None` if no part has a meaning.
    pub exceptions: Option<Vec<Vec<u8>>>,
}

/// Determines the type of a request's file: the type-checker phase. Returns the filters and
/// exceptions.
pub fn type_checker(record: &mut Record, types: &Types) -> Found {
    if record.file.kind == FileKind::Directory {
        record.content_type = Some(DIRECTORY_TYPE.to_vec());
        return Found::default();
    }
    let config = record.config.clone();
    let mut name = record.filename.clone();
    if config.of::<Config>().uses_path_info == Some(true) {
        name.extend_from_slice(&record.path_info);
    }
    let found = found(config.of::<Config>(), types, &name, record.content_type.as_deref());
    if found.content_type.is_some() {
        record.content_type.clone_from(&found.content_type);
    }
    if let Some(encoding) = &found.content_encoding {
        record.content_encoding = Some(match record.content_encoding.take() {
            Some(mut before) => {
                before.extend_from_slice(b", ");
                before.extend_from_slice(encoding);
                before
            }
            None => encoding.clone(),
        });
    }
    record.content_languages.extend(found.content_languages.iter().cloned());
    if record.content_languages.is_empty() {
        record.content_languages.extend(config.of::<Config>().default_language.clone());
    }
    if found.handler.is_some() {
        record.handler.clone_from(&found.handler);
    }
    found
}

/// Reads the extensions of a path. `before` is the type that the request has already.
pub fn found(config: &Config, types: &Types, path: &[u8], before: Option<&[u8]>) -> Found {
    let start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = path.get(start..).unwrap_or_default();
    let mut found = Found { content_type: before.map(<[u8]>::to_vec), ..Found::default() };
    // Dots at the start belong to the base name.
    let dots = name.iter().take_while(|&&byte| byte == b'.').count();
    let rest = name.get(dots..).unwrap_or_default();
    let base = dots + rest.iter().position(|&byte| byte == b'.').unwrap_or(rest.len());
    let mut exceptions = vec![name.get(..base).unwrap_or_default().to_vec()];
    let (mut charset, mut has_metadata) = (None, false);
    for part in name.get(base..).unwrap_or_default().split(|&byte| byte == b'.') {
        if part.is_empty() {
            continue;
        }
        let extension = part.to_ascii_lowercase();
        let meaning = config.extensions.get(&extension);
        let get = |field| meaning.and_then(|meaning| meaning.get(field));
        let mut is_found = false;
        let forced = get(Field::Type);
        if let Some(media_type) =
            forced.or_else(|| types.get(&extension)).filter(|name| !name.is_empty())
        {
            found.content_type = Some(media_type.to_vec());
            is_found = true;
        }
        if let Some(name) = get(Field::Charset) {
            charset = Some(name);
            is_found = true;
        }
        if let Some(language) = get(Field::Language) {
            found.content_languages.push(language.to_vec());
            is_found = true;
        }
        if let Some(encoding) = get(Field::Encoding) {
            found.content_encoding = Some(match found.content_encoding.take() {
                Some(before) => [before.as_slice(), b", ", encoding].concat(),
                None => encoding.to_vec(),
            });
            is_found = true;
        }
        if let Some(handler) = get(Field::Handler) {
            found.handler = Some(handler.to_vec());
            is_found |= config.multiviews.handlers;
        }
        for (field, filters) in [
            (Field::InputFilters, &mut found.input_filters),
            (Field::OutputFilters, &mut found.output_filters),
        ] {
            if let Some(names) = get(field) {
                let names = names.split(|&byte| byte == b';').filter(|name| !name.is_empty());
                filters.extend(names.map(<[u8]>::to_vec));
                is_found |= config.multiviews.filters;
            }
        }
        if is_found || config.multiviews.any {
            has_metadata = true;
        } else {
            exceptions.push(part.to_vec());
        }
    }
    found.exceptions = has_metadata.then_some(exceptions);
    let media_type = found.content_type.take();
    found.content_type = media_type.map(|media_type| with_charset(&media_type, charset));
    found
}

/// Returns the `Content-Type` to send: with the charset of `AddDefaultCharset` for `text/plain` and
/// `text/html` without one.
pub fn sent_type(config: &Config, content_type: &[u8]) -> Vec<u8> {
    let lower = content_type.to_ascii_lowercase();
    let has = |text: &[u8]| memchr::memmem::find(&lower, text).is_some();
    match &config.default_charset {
        Some(Some(charset)) if !has(b"charset=") && (has(b"text/plain") || has(b"text/html")) => {
            [content_type, b"; charset=", charset].concat()
        }
        _ => content_type.to_vec(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Type,
    Encoding,
    Language,
    Handler,
    Charset,
    InputFilters,
    OutputFilters,
}

const FIELDS: [Field; 7] = [
    Field::Type,
    Field::Encoding,
    Field::Language,
    Field::Handler,
    Field::Charset,
    Field::InputFilters,
    Field::OutputFilters,
];

#[derive(Debug, Clone, Default)]
struct Extension {
    values: [Option<Vec<u8>>; 7],
}

impl Extension {
    fn get(&self, field: Field) -> Option<&[u8]> {
        self.values[field as usize].as_deref()
    }

    fn set(&mut self, field: Field, value: Vec<u8>) {
        self.values[field as usize] = Some(value);
    }
}

/// `MultiviewsMatch`; the default is `NegotiatedOnly`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Multiviews {
    any: bool,
    negotiated_only: bool,
    handlers: bool,
    filters: bool,
}

const fn add(name: &'static str, usage: &'static str, apply: Apply) -> Directive {
    Directive::new(name, Arguments::EachAfterFirst, Override::FILE_INFO, usage, apply)
}

const fn remove(name: &'static str, apply: Apply) -> Directive {
    let usage = "one or more file extensions";
    Directive { name, arguments: Arguments::Each, class: Override::FILE_INFO, usage, apply }
}

fn set(config: &mut DirConfig, arguments: &[&[u8]], field: Field) -> Result<(), String> {
    let [value, extensions @ ..] = arguments else { return Ok(()) };
    for extension in extensions {
        let name = extension.strip_prefix(b".").unwrap_or(extension).to_ascii_lowercase();
        let extensions = Arc::make_mut(&mut config.of_mut::<Config>().extensions);
        extensions.entry(name).or_default().set(field, value.to_ascii_lowercase());
    }
    Ok(())
}

fn unset(config: &mut DirConfig, arguments: &[&[u8]], field: Field) -> Result<(), String> {
    for extension in arguments {
        let name = extension.strip_prefix(b".").unwrap_or(extension).to_ascii_lowercase();
        config.of_mut::<Config>().removals.push((name, field));
    }
    Ok(())
}

fn multiviews_match(
    config: &mut DirConfig,
    _: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    for word in arguments {
        let set = &mut config.of_mut::<Config>().multiviews;
        match word.to_ascii_lowercase().as_slice() {
            b"any" if set.negotiated_only || set.handlers || set.filters => {
                return Err("Any is incompatible with NegotiatedOnly, Filters and Handlers".into());
            }
            b"any" => set.any = true,
            b"negotiatedonly" if set.any || set.handlers || set.filters => {
                return Err("NegotiatedOnly is incompatible with Any, Filters and Handlers".into());
            }
            b"negotiatedonly" => set.negotiated_only = true,
            b"filters" if set.any || set.negotiated_only => {
                return Err("Filters is incompatible with Any and NegotiatedOnly".into());
            }
            b"filters" => set.filters = true,
            b"handlers" if set.any || set.negotiated_only => {
                return Err("Handlers is incompatible with Any and NegotiatedOnly".into());
            }
            b"handlers" => set.handlers = true,
            _ => return Err(format!("Unrecognized option '{}'", lossy(word))),
        }
    }
    Ok(())
}

fn default_charset(
    config: &mut DirConfig,
    _: &Place<'_>,
    arguments: &[&[u8]],
) -> Result<(), String> {
    let name = arguments.first().copied().unwrap_or_default();
    config.of_mut::<Config>().default_charset = Some(match name.to_ascii_lowercase().as_slice() {
        b"off" => None,
        b"on" => Some(b"iso-8859-1".to_vec()),
        _ => Some(name.to_vec()),
    });
    Ok(())
}

/// Writes a type again as Apache does, with a charset in place of its own. A type that cannot be
/// read stays.
fn with_charset(content_type: &[u8], charset: Option<&[u8]>) -> Vec<u8> {
    let Some((base, parameters)) = divided(content_type) else { return content_type.to_vec() };
    let (mut text, mut charset) = (base, charset);
    let replaces = charset.is_some();
    let mut push = |name: &[u8], value: &[u8]| text.extend([b"; ", name, b"=", value].concat());
    for (name, value) in parameters {
        if replaces && name == b"charset" {
            if let Some(charset) = charset.take() {
                push(b"charset", charset);
            }
        } else {
            push(&name, &value)
        }
    }
    if let Some(charset) = charset {
        push(b"charset", charset);
    }
    text
}

/// White space may stand before the slash; Apache keeps it.
fn is_main_type(main: &[u8]) -> bool {
    let name = trimmed(main);
    !name.is_empty() && !name.iter().any(|&byte| is_space(byte) || byte == b';')
}

type Parameters = Vec<(Vec<u8>, Vec<u8>)>;

/// Divides a type into `type/subtype` and parameters.
fn divided(content_type: &[u8]) -> Option<(Vec<u8>, Parameters)> {
    let text = trimmed(content_type);
    let slash = text.iter().position(|&byte| byte == b'/')?;
    let (main, rest) = text.split_at(slash);
    let rest = trimmed(rest.get(1..)?);
    let end = rest.iter().position(|&byte| is_space(byte) || byte == b';').unwrap_or(rest.len());
    let (subtype, rest) = rest.split_at(end);
    if !is_main_type(main) || subtype.is_empty() {
        return None;
    }
    let base = [main, b"/", subtype].concat();
    let rest = trimmed(rest);
    let mut parameters = Vec::new();
    if rest.is_empty() {
        return Some((base, parameters));
    }
    let mut rest = rest.get(1..)?;
    loop {
        let equals = rest.iter().position(|&byte| byte == b'=')?;
        let (name, value) = rest.split_at(equals);
        let value = crate::support::skip_space(value.get(1..)?);
        let name = trimmed(name);
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let end = value_end(value)?;
        let (value, after) = value.split_at(end);
        parameters.push((name.to_vec(), trimmed(value).to_vec()));
        match after.get(1..) {
            None => return Some((base, parameters)),
            Some([]) => return Some((base, parameters)),
            Some(after) => rest = after,
        }
    }
}

/// Returns the length of a value: up to a semicolon or the end.
fn value_end(value: &[u8]) -> Option<usize> {
    if value.first() != Some(&b'"') {
        let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
        let text = value.get(..end)?;
        return (!text.is_empty() && text.iter().all(|&byte| is_token(byte))).then_some(end);
    }
    let mut at = 1;
    loop {
        match value.get(at)? {
            b'\\' => at += 2,
            b'"' => break,
            b'\n' => return None,
            _ => at += 1,
        }
    }
    let rest = value.get(at + 1..)?;
    let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count();
    matches!(rest.get(spaces), None | Some(b';')).then_some(at + 1 + spaces)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::testing::{apply, record};

    fn checked(lines: &[&str], path: &str) -> String {
        let config = Config::default().merged(apply(DIRECTIVES, lines).unwrap().of::<Config>());
        let found = found(&config, &Types::built_in(), path.as_bytes(), None);
        let text = |value: &Option<Vec<u8>>| value.as_deref().map_or("-".into(), lossy);
        let languages: Vec<String> =
            found.content_languages.iter().map(|name| lossy(name)).collect();
        format!(
            "{} {} {} {}",
            text(&found.content_type),
            text(&found.content_encoding),
            languages.join(","),
            text(&found.handler)
        )
    }

    #[test]
    fn all_extensions_count_in_any_order() {
        for (lines, path, expected) in [
            (vec![], "/site/a.html", "text/html -  -"),
            (vec![], "/site/a.HTML", "text/html -  -"),
            (vec![], "/site/html", "- -  -"),
            (vec![], "/site/.html", "- -  -"),
            (vec![], "/site/a.b/c", "- -  -"),
            (vec![], "/site/a.html.unknown", "text/html -  -"),
            (
                vec!["AddLanguage EN .en", "AddEncoding x-gzip gz"],
                "/a.html.en.gz",
                "application/gzip x-gzip en -",
            ),
            (vec!["AddEncoding x-gzip gz", "RemoveType gz"], "/a.html.gz", "text/html x-gzip  -"),
            (vec!["RemoveType html"], "/a.html", "- -  -"),
            (vec!["AddCharset UTF-8 .utf8"], "/a.utf8.html", "text/html; charset=utf-8 -  -"),
            (
                vec!["AddType 'text/html; charset=x; a=b' .html", "AddCharset y .qq"],
                "/a.html.qq",
                "text/html; charset=y; a=b -  -",
            ),
            (vec!["AddHandler X-Script .x"], "/a.x.html", "text/html -  x-script"),
            (vec!["AddHandler x .x", "RemoveHandler .x"], "/a.x", "- -  -"),
            (vec!["AddType nothing .x"], "/a.x", "nothing -  -"),
            (vec!["AddType text/x;a= .x"], "/a.x", "text/x;a= -  -"),
        ] {
            assert_eq!(checked(&lines, path), expected, "{lines:?} {path}");
        }
    }

    #[test]
    fn parts_without_meaning_are_exceptions() {
        let config = apply(DIRECTIVES, &["AddLanguage en .en"]).unwrap().of::<Config>().clone();
        let all = |path: &str| found(&config, &Types::built_in(), path.as_bytes(), None).exceptions;
        assert_eq!(all("/a.QQ.en"), Some(vec![b"a".to_vec(), b"QQ".to_vec()]));
        assert_eq!(all("/a.qq"), None);
    }

    #[test]
    fn default_charset_is_for_plain_text_and_html() {
        let config = |line: &str| apply(DIRECTIVES, &[line]).unwrap().of::<Config>().clone();
        for (line, content_type, expected) in [
            ("AddDefaultCharset UTF-8", "text/html", "text/html; charset=UTF-8"),
            ("AddDefaultCharset on", "text/plain", "text/plain; charset=iso-8859-1"),
            ("AddDefaultCharset off", "text/plain", "text/plain"),
            ("AddDefaultCharset UTF-8", "text/css", "text/css"),
            ("AddDefaultCharset UTF-8", "text/html;charset=x", "text/html;charset=x"),
        ] {
            assert_eq!(
                lossy(&sent_type(&config(line), content_type.as_bytes())),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn a_file_in_a_request_gets_type_and_language() {
        let mut record = record(apply(DIRECTIVES, &["DefaultLanguage de"]).unwrap());
        record.filename = b"/site/a.css".to_vec();
        type_checker(&mut record, &Types::built_in());
        assert_eq!(record.content_type.as_deref(), Some(&b"text/css"[..]));
        assert_eq!(record.content_languages, [b"de".to_vec()]);
        record.file.kind = FileKind::Directory;
        type_checker(&mut record, &Types::built_in());
        assert_eq!(record.content_type.as_deref(), Some(DIRECTORY_TYPE));
    }

    #[test]
    fn errors_are_those_of_apache() {
        let error = apply(DIRECTIVES, &["MultiviewsMatch Any Filters"]).unwrap_err();
        assert_eq!(error, "Filters is incompatible with Any and NegotiatedOnly");
        let error = apply(DIRECTIVES, &["MultiviewsMatch x"]).unwrap_err();
        assert_eq!(error, "Unrecognized option 'x'");
    }
}
