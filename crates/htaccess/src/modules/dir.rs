//! mod_dir: index files of directories, slashes behind their names, a resource for missing files.
//!
//! The work on a request needs sub-requests and is in [`crate::phases`].

use std::sync::Arc;

use crate::config::{DirConfig, ModuleConfig, Slot};
use crate::directive::{Arguments, Directive, Override, Place};
use crate::words::Words;

/// Directives of mod_dir.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// `DirectoryIndex`; an empty list has no index files.
    pub index_names: Option<Arc<[Vec<u8>]>>,
    /// `DirectorySlash`.
    pub slash: Option<bool>,
    /// `DirectoryCheckHandler`.
    pub checks_handler: Option<bool>,
    /// `DirectoryIndexRedirect`: a status, or `Some(None)` for `Off`.
    pub index_redirect: Option<Option<u16>>,
    /// `FallbackResource`.
    pub fallback: Option<Arc<[u8]>>,
}

impl ModuleConfig for Config {
    const SLOT: Slot = Slot::Dir;

    fn merged(&self, child: &Config) -> Config {
        Config {
            index_names: child.index_names.clone().or_else(|| self.index_names.clone()),
            slash: child.slash.or(self.slash),
            checks_handler: child.checks_handler.or(self.checks_handler),
            index_redirect: child.index_redirect.or(self.index_redirect),
            fallback: child.fallback.clone().or_else(|| self.fallback.clone()),
        }
    }
}

impl Config {
    /// Returns the resource for missing files; `None` without one or if it is `disabled`.
    pub(crate) fn fallback(&self) -> Option<&[u8]> {
        self.fallback.as_deref().filter(|path| !path.eq_ignore_ascii_case(b"disabled"))
    }
}

/// Directives of mod_dir.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "DirectoryCheckHandler",
        arguments: Arguments::Flag,
        class: Override::INDEXES,
        usage: "On or Off",
        apply: |config, _, words| {
            config.of_mut::<Config>().checks_handler = Some(words[0] == b"on");
            Ok(())
        },
    },
    Directive {
        name: "DirectoryIndex",
        arguments: Arguments::Raw,
        class: Override::INDEXES,
        usage: "a list of file names",
        apply: index,
    },
    Directive {
        name: "DirectoryIndexRedirect",
        arguments: Arguments::One,
        class: Override::INDEXES,
        usage: "On, Off, or a 3xx status code.",
        apply: index_redirect,
    },
    Directive {
        name: "DirectorySlash",
        arguments: Arguments::Flag,
        class: Override::INDEXES,
        usage: "On or Off",
        apply: |config, _, words| {
            config.of_mut::<Config>().slash = Some(words[0] == b"on");
            Ok(())
        },
    },
    Directive {
        name: "FallbackResource",
        arguments: Arguments::One,
        class: Override::INDEXES,
        usage: "Set a default handler",
        apply: |config, _, words| {
            config.of_mut::<Config>().fallback = Some(words[0].into());
            Ok(())
        },
    },
];

/// Several directives in a file add up; `disabled` alone empties the list.
fn index(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    let names = Words::new(words[0]).all();
    let mut list = config.of::<Config>().index_names.as_deref().unwrap_or_default().to_vec();
    match names.as_slice() {
        [only] if only.eq_ignore_ascii_case(b"disabled") => list.clear(),
        names => list.extend_from_slice(names),
    }
    config.of_mut::<Config>().index_names = Some(list.into());
    Ok(())
}

fn index_redirect(config: &mut DirConfig, _: &Place<'_>, words: &[&[u8]]) -> Result<(), String> {
    let word = words[0].to_ascii_lowercase();
    let status = match word.as_slice() {
        b"on" | b"temp" => Some(302),
        b"off" => None,
        b"permanent" => Some(301),
        b"seeother" => Some(303),
        [b'0'..=b'9', ..] => match crate::support::atoi(&word) {
            status @ 300..=399 => u16::try_from(status).ok(),
            _ => {
                let text = "DirectoryIndexRedirect only accepts values between 300 and 399";
                return Err(text.to_owned());
            }
        },
        _ => return Err("DirectoryIndexRedirect ON|OFF|permanent|temp|seeother|3xx".to_owned()),
    };
    config.of_mut::<Config>().index_redirect = Some(status);
    Ok(())
}
