//! `mod_negotiation`: `MultiViews`, type maps, `LanguagePriority`, `ForceLanguagePriority`.
//!
//! [`type_checker`] looks for variants of a name that no file has; [`handle_map`] answers for a
//! type map (handler `type-map`); [`fixup`] names an encoding as the client does. Variants are
//! looked at through [`Lookup`]: each is a sub-request.

mod accept;
mod choice;
mod config;
mod map;
mod response;
mod state;
mod variant;

pub(crate) use accept::token;
pub use config::Config;
pub use variant::Candidate;

use accept::{Accepted, SCRIPT_TYPE};
use choice::{Preferences, best_match};
use config::Force;
use state::State;
use variant::{MAX_VARIANTS, Variant};

use crate::config::DirConfig;
use crate::directive::{Arguments, Directive, Override, Place};
use crate::record::{FileKind, Record};
use crate::support::lossy;
use crate::work;
use crate::world::{Later, Level, World};

/// Content type of type maps.
pub const MAP_TYPE: &[u8] = b"application/x-type-map";

/// Directives of this module.
pub const DIRECTIVES: &[Directive] = &[
    Directive {
        name: "CacheNegotiatedDocs",
        arguments: Arguments::Flag,
        class: Override::NONE,
        usage: "Either 'on' or 'off' (default)",
        apply: |_, _, _| Ok(()),
    },
    Directive {
        name: "LanguagePriority",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "space-delimited list of MIME language abbreviations",
        apply: |config, _, arguments| {
            let languages = config.of_mut::<Config>().languages.get_or_insert_default();
            languages.extend(arguments.iter().map(|word| word.to_vec()));
            Ok(())
        },
    },
    Directive {
        name: "ForceLanguagePriority",
        arguments: Arguments::Each,
        class: Override::FILE_INFO,
        usage: "Force LanguagePriority elections, either None, or Fallback and/or Prefer",
        apply: force,
    },
];

/// Sub-requests.
pub trait Lookup {
    /// Runs a sub-request for a file in the directory of the request; `name` may be a relative URL.
    fn lookup<'a>(&'a self, record: &'a Record, name: &'a [u8]) -> Later<'a, Option<Candidate>>;
}

/// Result of [`type_checker`].
#[derive(Debug)]
pub enum Multiviews {
    /// The request needs no negotiation.
    Declined,
    /// The request continues as this one (Apache's `ap_internal_fast_redirect`): its file, type,
    /// handler and header fields. `Content-Location` and its like are in the `err_headers_out` of
    /// the request.
    Chosen(Box<Record>),
}

/// Answer of a type map.
#[derive(Debug, PartialEq, Eq)]
pub enum Map {
    /// The request is redirected inside the server to this target.
    Redirect(Vec<u8>),
    /// The map has the content itself; type, language and encoding are in the record.
    Body(Vec<u8>),
}

/// Number of variants after which other requests have their turn.
const LOOKUPS_BETWEEN_PAUSES: u32 = 32;

/// Looks for variants if the request names no file: the type-checker phase, before that of
/// `mod_mime`. `is_enabled` is `Options MultiViews`. The error is the status of the answer; its
/// list of variants is in the note `variant-list`.
pub async fn type_checker(
    record: &mut Record,
    world: &dyn World,
    lookup: &dyn Lookup,
    is_enabled: bool,
) -> Result<Multiviews, u16> {
    if record.file.kind != FileKind::None || !is_enabled {
        return Ok(Multiviews::Declined);
    }
    let mut state = State::new(record);
    let Some(slash) = memchr::memrchr(b'/', &record.filename) else {
        return Ok(Multiviews::Declined);
    };
    if let Some(map) = state.read_directory(record, world, lookup, slash + 1).await? {
        state.variants = map::variants(&map, record, world).await?.0;
    }
    if state.variants.is_empty() {
        return Ok(Multiviews::Declined);
    }
    let has_path_info = !record.path_info.is_empty();
    let prefers_scripts = !is_get(record) || record.args.is_some() || has_path_info;
    let best = state.negotiate(record, world, lookup, prefers_scripts).await?;
    let chosen = state.variants.swap_remove(best);
    let mut sub = match chosen.candidate {
        Some(candidate) => candidate.record,
        None => {
            let candidate = lookup.lookup(record, &chosen.name).await.ok_or(404u16)?;
            if candidate.status != 200 {
                return Err(candidate.status);
            }
            candidate.record
        }
    };
    if sub.args.is_none() {
        sub.args.clone_from(&record.args);
    }
    Ok(Multiviews::Chosen(Box::new(sub)))
}

/// Answers a request for a type map: the handler phase. The error is the status of the answer.
pub async fn handle_map(
    record: &mut Record,
    world: &dyn World,
    lookup: &dyn Lookup,
) -> Result<Map, u16> {
    let mut state = State::new(record);
    let (variants, content) = map::variants(&record.filename, record, world).await?;
    state.variants = variants;
    let best = state.negotiate(record, world, lookup, false).await?;
    let best = state.variants.swap_remove(best);
    if let Some((start, length)) = best.body {
        if !matches!(record.method.as_slice(), b"GET" | b"HEAD" | b"POST") {
            return Err(405);
        }
        if !best.media_type.is_empty() {
            record.content_type = Some(if best.charset.is_empty() {
                best.media_type
            } else {
                [best.media_type.as_slice(), b"; charset=", &best.charset].concat()
            });
        }
        if !best.languages.is_empty() {
            record.content_languages = best.languages;
        }
        if best.encoding.as_ref().is_some_and(|encoding| !encoding.is_empty()) {
            record.content_encoding = best.encoding;
        }
        return Ok(Map::Body(content.get(start..start + length).unwrap_or_default().to_vec()));
    }
    let path = record.uri.strip_suffix(record.path_info.as_slice()).unwrap_or(&record.uri);
    let end = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let mut target = crate::support::escape_path(path.get(..end).unwrap_or_default(), true);
    target.extend_from_slice(&best.name);
    target.extend_from_slice(&record.path_info);
    if let Some(args) = &record.args {
        target.push(b'?');
        target.extend_from_slice(args);
    }
    Ok(Map::Redirect(target))
}

/// Gives an encoding the name that the client has for it (`gzip`, `x-gzip`): a fixup.
pub fn fixup(record: &mut Record) {
    let plain = |name: &[u8]| name.strip_prefix(b"x-").unwrap_or(name).to_vec();
    let Some(encoding) = record.content_encoding.as_deref().filter(|name| !name.is_empty()) else {
        return;
    };
    let encoding = plain(encoding);
    let Some(accepted) = record.headers_in.get(b"Accept-Encoding").map(accept::entries) else {
        return;
    };
    let exact = accepted.iter().find(|entry| entry.name == encoding);
    let with_prefix = || {
        accepted
            .iter()
            .rev()
            .find(|entry| entry.name.starts_with(b"x-") && plain(&entry.name) == encoding)
    };
    if let Some(entry) = exact.or_else(with_prefix) {
        record.content_encoding = Some(entry.name.clone());
    }
}

fn is_get(record: &Record) -> bool {
    matches!(record.method.as_slice(), b"GET" | b"HEAD")
}

impl State {
    fn new(record: &Record) -> State {
        let end = memchr::memrchr(b'/', &record.filename).map_or(0, |slash| slash + 1);
        State {
            accepted: Accepted::of(record),
            directory: record.filename.get(..end).unwrap_or_default().to_vec(),
            variants: Vec::new(),
            is_transparent: false,
            preferences: Preferences::default(),
        }
    }

    /// Collects the files whose names begin with that of the request. Returns the path of a type
    /// map that is among them.
    async fn read_directory(
        &mut self,
        record: &Record,
        world: &dyn World,
        lookup: &dyn Lookup,
        start: usize,
    ) -> Result<Option<Vec<u8>>, u16> {
        let wanted = record.filename.get(start..).unwrap_or_default();
        let Ok(names) = world.list(&self.directory).await else {
            world.log(
                Level::Error,
                &format!("cannot read directory for multi: {}", lossy(&self.directory)),
            );
            return Err(403);
        };
        let mut has_match = false;
        let mut lookups = 0_u32;
        for name in names {
            if name.strip_prefix(wanted).and_then(|rest| rest.first()) != Some(&b'.') {
                continue;
            }
            let path = [self.directory.as_slice(), &name].concat();
            if world.stat(&path).is_none_or(|info| info.kind == FileKind::Directory) {
                continue;
            }
            has_match = true;
            lookups += 1;
            // A condition that asks for a path cannot wait.
            let is_pause = lookups.is_multiple_of(LOOKUPS_BETWEEN_PAUSES) || work::is_long();
            if is_pause && record.main.is_none() {
                world.pause().await;
            }
            if work::is_spent() {
                return Err(500);
            }
            let Some(mut candidate) = lookup.lookup(record, &name).await else { continue };
            if candidate.record.file.kind != FileKind::File {
                continue;
            }
            if candidate.record.handler.is_some() && candidate.record.content_type.is_none() {
                candidate.record.content_type = Some(SCRIPT_TYPE.to_vec());
            }
            let is_named = candidate.exceptions.as_ref().is_some_and(|all| names_all(wanted, all));
            let Some(content_type) = candidate.record.content_type.clone() else { continue };
            if !is_named || candidate.status != 200 {
                continue;
            }
            if content_type == MAP_TYPE || candidate.record.handler.as_deref() == Some(b"type-map")
            {
                return Ok(Some(path));
            }
            let mut variant = Variant::new();
            variant.encoding.clone_from(&candidate.record.content_encoding);
            variant.languages.clone_from(&candidate.record.content_languages);
            variant.bytes = Some(candidate.record.file.size);
            variant.set_type(&content_type);
            variant.name = name;
            variant.candidate = Some(candidate);
            self.variants.push(variant);
            if self.variants.len() >= MAX_VARIANTS {
                break;
            }
        }
        if has_match && self.variants.is_empty() {
            let name = lossy(&record.filename);
            let message = format!(
                "Negotiation: discovered file(s) matching request: {name} (None could be \
                 negotiated)."
            );
            world.log(Level::Error, &message);
            return Err(404);
        }
        self.variants.sort_by(|a, b| {
            b.source_quality.total_cmp(&a.source_quality).then_with(|| a.name.cmp(&b.name))
        });
        Ok(None)
    }

    /// Chooses a variant and writes the header fields; returns its index.
    async fn negotiate(
        &mut self,
        record: &mut Record,
        world: &dyn World,
        lookup: &dyn Lookup,
        prefers_scripts: bool,
    ) -> Result<usize, u16> {
        let is_below = |variant: &Variant| variant.name.contains(&b'/') || variant.body.is_some();
        if is_get(record) {
            self.is_transparent =
                record.path_info.is_empty() && !self.variants.iter().any(is_below);
        }
        self.preferences =
            if self.is_transparent { Preferences::of(record) } else { Preferences::default() };
        self.accepted.add_defaults(prefers_scripts, self.preferences.uses_rvsa);
        self.find_lengths(world);
        let (best, is_choice) = best_match(
            &mut self.variants,
            &self.accepted,
            &self.preferences,
            record.config.clone().of::<Config>(),
            record,
        );
        if !is_choice {
            self.preferences.sends_alternates = true;
            response::set_headers(self, record, false);
            record.notes.set("variant-list", response::list(&self.variants));
            if self.is_transparent && self.preferences.is_client_transparent {
                return Err(300);
            }
        }
        let Some(best) = best else {
            world.log(Level::Error, &format!("no acceptable variant: {}", lossy(&record.filename)));
            return Err(406);
        };
        if self.is_transparent {
            self.set_up_choice(best, record, lookup).await?;
        } else {
            response::set_headers(self, record, is_choice);
        }
        Ok(best)
    }

    async fn set_up_choice(
        &mut self,
        best: usize,
        record: &mut Record,
        lookup: &dyn Lookup,
    ) -> Result<(), u16> {
        let Some(variant) = self.variants.get_mut(best) else { return Err(500) };
        if variant.candidate.is_none() {
            let candidate = lookup.lookup(record, &variant.name).await;
            let is_varying =
                |candidate: &Candidate| candidate.record.err_headers_out.get(b"TCN").is_some();
            match candidate {
                Some(candidate) if candidate.status != 200 && !is_varying(&candidate) => {
                    return Err(candidate.status);
                }
                candidate => variant.candidate = candidate,
            }
        }
        let name = crate::support::escape_segment(&variant.name);
        if let Some(candidate) = &mut variant.candidate {
            let sub = &mut candidate.record;
            if sub.err_headers_out.get(b"TCN").is_some()
                || sub.handler.as_deref() == Some(b"type-map")
            {
                return Err(506);
            }
            if let Some(vary) = sub.err_headers_out.get(b"Vary").map(<[u8]>::to_vec) {
                record.err_headers_out.set("Variant-Vary", vary.clone());
                record.err_headers_out.set("Vary", vary);
                sub.err_headers_out.unset(b"Vary");
            }
        }
        record.err_headers_out.set("Content-Location", name);
        response::set_headers(self, record, true);
        Ok(())
    }

    fn find_lengths(&mut self, world: &dyn World) {
        for variant in self.variants.iter_mut().filter(|variant| variant.bytes.is_none()) {
            // A name with `..` in a map would lead out of the directory.
            if variant.name.split(|&byte| byte == b'/').any(|part| part == b"..") {
                continue;
            }
            let path = [self.directory.as_slice(), &variant.name].concat();
            variant.bytes = world.stat(&path).map(|info| info.size);
        }
    }
}

/// Returns true if the parts of the wanted name have all exceptions, in order.
fn names_all(wanted: &[u8], exceptions: &[Vec<u8>]) -> bool {
    let mut exceptions = exceptions.iter().peekable();
    for part in wanted.split(|&byte| byte == b'.') {
        exceptions.next_if(|exception| exception.as_slice() == part);
    }
    exceptions.peek().is_none()
}

fn force(config: &mut DirConfig, _: &Place<'_>, arguments: &[&[u8]]) -> Result<(), String> {
    for word in arguments {
        let force = &mut config.of_mut::<Config>().force;
        let is_none = *force == Some(Force { prefer: false, fallback: false });
        match word.to_ascii_lowercase().as_slice() {
            b"none" if force.is_some() && !is_none => {
                return Err("Cannot combine ForceLanguagePriority options with None".into());
            }
            b"none" => *force = Some(Force { prefer: false, fallback: false }),
            b"prefer" if is_none => {
                return Err("Cannot combine ForceLanguagePriority options None and Prefer".into());
            }
            b"prefer" => {
                *force = Some(Force { prefer: true, fallback: force.is_some_and(|f| f.fallback) })
            }
            b"fallback" if is_none => {
                return Err("Cannot combine ForceLanguagePriority options None and Fallback".into());
            }
            b"fallback" => {
                *force = Some(Force { prefer: force.is_some_and(|f| f.prefer), fallback: true })
            }
            _ => return Err(format!("Invalid ForceLanguagePriority option {}", lossy(word))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
