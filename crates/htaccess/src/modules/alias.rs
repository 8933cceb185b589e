//! mod_alias: `Redirect`, `RedirectMatch`, `RedirectTemp`, `RedirectPermanent`, `RedirectRelative`.

use std::sync::Arc;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::modules::core::is_url;
use crate::modules::pattern::{Pattern, Text, replaced};
use crate::modules::services::Services;
use crate::record::Record;
use crate::support::{atoi, escape_path};
use crate::uri::construct_url;
use crate::world::{Level, World};

/// Directives of mod_alias.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Redirects by path or pattern. Those of the directory below come first, in the order of its
    /// file.
    redirects: Vec<Arc<Redirect>>,
    /// A redirect of everything below the directory.
    all: Option<(Option<Text>, u16)>,
    /// `RedirectRelative`: a path is sent as it is.
    is_relative: Option<bool>,
}

#[derive(Debug)]
struct Redirect {
    source: Source,
    target: Option<Vec<u8>>,
    status: u16,
}

#[derive(Debug)]
enum Source {
    Path(Vec<u8>),
    Regex(Pattern),
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Alias;

    fn merged(&self, child: &Config) -> Config {
        Config {
            redirects: child.redirects.iter().chain(&self.redirects).cloned().collect(),
            all: child.all.clone().or_else(|| self.all.clone()),
            is_relative: child.is_relative.or(self.is_relative),
        }
    }

    fn is_constant(&self) -> bool {
        self.redirects.is_empty() && self.all.is_none()
    }
}

/// Directives of mod_alias.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "AliasPreservePath",
        arguments: Arguments::Flag,
        class: Override::FILE_INFO,
        usage: "",
        apply: |_, _, _| Ok(()),
    },
    Directive {
        name: "Redirect",
        arguments: Arguments::OneToThree,
        class: Override::FILE_INFO,
        usage: "an optional status, then document to be redirected and destination URL",
        apply: |config, _, words| add(config, words, 302, false),
    },
    Directive {
        name: "RedirectMatch",
        arguments: Arguments::TwoOrThree,
        class: Override::FILE_INFO,
        usage: "an optional status, then a regular expression and destination URL",
        apply: |config, _, words| add(config, words, 302, true),
    },
    Directive {
        name: "RedirectPermanent",
        arguments: Arguments::Two,
        class: Override::FILE_INFO,
        usage: "a document to be redirected, then the destination URL",
        apply: |config, _, words| add(config, words, 301, false),
    },
    Directive {
        name: "RedirectRelative",
        arguments: Arguments::Flag,
        class: Override::FILE_INFO,
        usage: "Set to ON to allow relative redirect targets to be issued as-is",
        apply: |config: &mut DirConfig, _: &Place<'_>, words| {
            config.of_mut::<Config>().is_relative = Some(words[0] == b"on");
            Ok(())
        },
    },
    Directive {
        name: "RedirectTemp",
        arguments: Arguments::Two,
        class: Override::FILE_INFO,
        usage: "a document to be redirected, then the destination URL",
        apply: |config, _, words| add(config, words, 302, false),
    },
];

/// Kind of the first argument of a redirect.
enum First {
    /// Status of a redirect.
    Redirect(u16),
    /// Status without a target.
    Other(u16),
    NoStatus,
}

fn first(word: &[u8]) -> First {
    match word.to_ascii_lowercase().as_slice() {
        b"permanent" => First::Redirect(301),
        b"temp" => First::Redirect(302),
        b"seeother" => First::Redirect(303),
        b"gone" => First::Other(410),
        [b'0'..=b'9', ..] => match u16::try_from(atoi(word)).unwrap_or(0) {
            status @ 300..=399 => First::Redirect(status),
            status => First::Other(status),
        },
        _ => First::NoStatus,
    }
}

fn add(
    config: &mut DirConfig,
    words: &[&[u8]],
    default: u16,
    is_regex: bool,
) -> Result<(), String> {
    let word = |index: usize| words.get(index).copied();
    let kind = first(words[0]);
    let status = match kind {
        First::Redirect(status) | First::Other(status) => status,
        First::NoStatus => default,
    };
    let (source, target) = match (&kind, word(1), word(2)) {
        (First::NoStatus, _, Some(_)) => {
            return Err("Redirect: invalid first argument (of three)".to_owned());
        }
        (First::Redirect(_), Some(_), None) | (First::NoStatus, None, None) => {
            let target = if matches!(kind, First::NoStatus) {
                words[0]
            } else {
                word(1).unwrap_or_default()
            };
            let text = Text::parse(target).map_err(|error| {
                let target = String::from_utf8_lossy(target);
                format!("Cannot parse redirect expression '{target}': {error}")
            })?;
            config.of_mut::<Config>().all = Some((Some(text), status));
            return Ok(());
        }
        (First::Other(_), None, None) => {
            config.of_mut::<Config>().all = Some((None, status));
            return Ok(());
        }
        (First::NoStatus, target, None) => (words[0], target),
        (_, source, target) => (source.unwrap_or_default(), target),
    };
    let is_redirect = (300..400).contains(&status);
    let source = if is_regex {
        let pattern = Pattern::new(source, false);
        Source::Regex(pattern.map_err(|_| "Regular expression could not be compiled.".to_owned())?)
    } else {
        Source::Path(source.to_vec())
    };
    match target {
        None if is_redirect => return Err("URL to redirect to is missing".to_owned()),
        Some(_) if !is_redirect => {
            return Err("Redirect URL not valid for this status".to_owned());
        }
        Some(target) if !is_regex && !is_url(target) && !target.starts_with(b"/") => {
            return Err("Redirect to non-URL".to_owned());
        }
        _ => {}
    }
    let target = target.map(<[u8]>::to_vec);
    config.of_mut::<Config>().redirects.push(Arc::new(Redirect { source, target, status }));
    Ok(())
}

/// Looks for a redirect of a request. Returns its status, with `Location` set, or the status of
/// another answer.
pub fn fixup(record: &mut Record, world: &dyn World, services: &dyn Services) -> Option<u16> {
    let config = record.config.clone();
    redirect(config.of::<Config>(), record, world, services)
}

/// The same with these directives.
pub(crate) fn redirect(
    config: &Config,
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Option<u16> {
    if config.redirects.is_empty() && config.all.is_none() {
        return None;
    }
    let (target, status) = match find(config, record, services) {
        Ok(found) => found?,
        Err(error) => {
            world.log(Level::Error, &error);
            return Some(500);
        }
    };
    if !(300..400).contains(&status) {
        return Some(status);
    }
    let mut target = target;
    if target.first() == Some(&b'/') && config.is_relative != Some(true) {
        target = construct_url(record, &target);
    }
    let is_valid = is_url(&target) || target.first() == Some(&b'/');
    if !is_valid {
        let (uri, target) =
            (String::from_utf8_lossy(&record.uri), String::from_utf8_lossy(&target));
        let text = format!(
            "cannot redirect '{uri}' to '{target}'; target is not a valid absoluteURI or abs_path"
        );
        world.log(Level::Error, &text);
        return Some(500);
    }
    if let Some(args) = &record.args
        && !target.contains(&b'?')
    {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    record.headers_out.set("Location", target);
    Some(status)
}

type Found = Option<(Vec<u8>, u16)>;

fn find(config: &Config, record: &Record, services: &dyn Services) -> Result<Found, String> {
    if let Some((text, status)) = &config.all {
        let target = match text {
            Some(text) => escape_url(
                &services
                    .text(record, text)
                    .map_err(|error| format!("Can't evaluate redirect expression: {error}"))?,
            ),
            None => Vec::new(),
        };
        return Ok(Some((target, *status)));
    }
    for redirect in &config.redirects {
        let target = redirect.target.as_deref();
        match &redirect.source {
            Source::Path(path) => {
                if let Some(length) = path_matches(path, &record.uri) {
                    let mut found = target.unwrap_or_default().to_vec();
                    found.extend(escape_path(&record.uri[length..], true));
                    return Ok(Some((found, redirect.status)));
                }
            }
            Source::Regex(pattern) => {
                let groups = pattern.groups(&record.uri);
                let groups = groups.map_err(|_| "The pattern of a redirect takes too long")?;
                if let Some(groups) = groups {
                    let found = match target {
                        Some(target) => escape_url(
                            &replaced(target, &record.uri, &groups).ok_or_else(|| {
                                let target = String::from_utf8_lossy(target);
                                format!(
                                    "Regex substitution in '{target}' failed. Replacement too long?"
                                )
                            })?,
                        ),
                        None => Vec::new(),
                    };
                    return Ok(Some((found, redirect.status)));
                }
            }
        }
    }
    Ok(None)
}

/// Escapes a URL up to its query and fragment.
fn escape_url(url: &[u8]) -> Vec<u8> {
    let end = url.iter().position(|byte| matches!(byte, b'?' | b'#')).unwrap_or(url.len());
    let mut escaped = escape_path(&url[..end], true);
    escaped.extend_from_slice(&url[end..]);
    escaped
}

/// Matches a path at its slashes: any number of them stands for one. Returns the length of the
/// match in the request's path.
pub(crate) fn path_matches(path: &[u8], uri: &[u8]) -> Option<usize> {
    let (mut at, mut from) = (0, 0);
    while let Some(&byte) = path.get(at) {
        if uri.get(from) != Some(&byte) {
            return None;
        }
        at += 1;
        from += 1;
        if byte == b'/' {
            while path.get(at) == Some(&b'/') {
                at += 1;
            }
            while uri.get(from) == Some(&b'/') {
                from += 1;
            }
        }
    }
    let is_whole = path.last() == Some(&b'/') || matches!(uri.get(from), None | Some(b'/'));
    (is_whole && from > 0).then_some(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_whole_segments() {
        assert_eq!(path_matches(b"/a", b"/a/b"), Some(2));
        assert_eq!(path_matches(b"/a", b"/ab"), None);
        assert_eq!(path_matches(b"/a/", b"/a//b"), Some(4));
        assert_eq!(path_matches(b"/a/b", b"/a//b"), Some(5));
        assert_eq!(path_matches(b"", b"/a"), None);
    }

    fn error(words: &[&str], is_regex: bool) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        add(&mut DirConfig::default(), &words, 302, is_regex).err().unwrap_or_default()
    }

    #[test]
    fn arguments_are_checked() {
        assert_eq!(error(&["301", "/a", "http://b.example/"], false), "");
        assert_eq!(error(&["/a", "/b"], false), "");
        assert_eq!(error(&["410", "/a"], false), "");
        assert_eq!(error(&["gone", "/a", "/b"], false), "Redirect URL not valid for this status");
        assert_eq!(error(&["/a", "b"], false), "Redirect to non-URL");
        assert_eq!(error(&["x", "/a", "/b"], false), "Redirect: invalid first argument (of three)");
        assert_eq!(error(&["(", "/b"], true), "Regular expression could not be compiled.");
    }

    #[test]
    fn query_and_fragment_of_a_target_are_not_escaped() {
        assert_eq!(escape_url(b"/a b?c d#e f"), b"/a%20b?c d#e f");
    }
}
