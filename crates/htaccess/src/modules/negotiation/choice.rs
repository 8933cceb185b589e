//! Qualities of variants, and the best of them: Apache's algorithm, and RFC 2296 for clients that
//! ask for it.

use super::accept::{Accepted, Entry};
use super::config::{Config, Force};
use super::variant::{Scores, Variant};
use crate::modules::accept_list::elements;
use crate::record::Record;

/// The directives of a client's `Negotiate`.
#[derive(Debug, Clone)]
pub(super) struct Preferences {
    /// True if the client knows RFC 2295.
    pub is_client_transparent: bool,
    pub sends_alternates: bool,
    pub may_choose: bool,
    /// RFC 2296 instead of Apache's algorithm.
    pub uses_rvsa: bool,
    /// True if the qualities count as they are.
    pub is_literal: bool,
}

impl Default for Preferences {
    fn default() -> Self {
        Preferences {
            is_client_transparent: false,
            sends_alternates: false,
            may_choose: true,
            uses_rvsa: false,
            is_literal: false,
        }
    }
}

impl Preferences {
    pub fn of(record: &Record) -> Preferences {
        let mut preferences = Preferences::default();
        let Some(negotiate) = record.headers_in.get(b"Negotiate") else { return preferences };
        let is_lynx =
            || record.headers_in.get(b"User-Agent").is_some_and(|name| name.starts_with(b"Lynx"));
        if negotiate == b"trans" && is_lynx() {
            return preferences;
        }
        preferences.may_choose = false;
        for token in elements(negotiate) {
            let is_known = matches!(token.as_slice(), b"trans" | b"vlist" | b"guess-small" | b"*");
            if is_known || token.first().is_some_and(u8::is_ascii_digit) {
                preferences.is_client_transparent = true;
                preferences.sends_alternates = true;
            }
            if token == b"1.0" {
                preferences.may_choose = true;
                preferences.uses_rvsa = true;
                preferences.is_literal = true;
            } else if token.first() == Some(&b'*') {
                preferences.may_choose = true;
                preferences.is_literal = true;
            }
        }
        preferences
    }
}

/// Returns the index of the best variant, and whether it may be sent (otherwise the answer is a
/// list).
pub(super) fn best_match(
    variants: &mut [Variant],
    accepted: &Accepted,
    preferences: &Preferences,
    config: &Config,
    record: &Record,
) -> (Option<usize>, bool) {
    let discards = match record.env.get(b"no-gzip") {
        Some(_) => Discards::All,
        None if record.env.get(b"gzip-only-text/html") == Some(b"1") => Discards::AllButHtml,
        None => Discards::None,
    };
    let mut preferred = record.env.get(b"prefer-language");
    let has_languages = variants.iter().any(|variant| !variant.languages.is_empty());
    let default_language = if has_languages && !preferences.is_literal { 0.0001 } else { 1.0 };
    loop {
        let (mut best, mut best_quality): (Option<usize>, f32) = (None, 0.0);
        for index in 0..variants.len() {
            let Some(variant) = variants.get_mut(index) else { break };
            if discards.covers(variant) {
                continue;
            }
            let speaks = |language: &[u8]| variant.languages.iter().any(|other| other == language);
            if preferred.is_some_and(|language| !speaks(language)) {
                continue;
            }
            set_type_quality(variant, accepted, preferences);
            if preferred.is_some() {
                variant.scores.language = 1.0;
                variant.scores.is_definite = true;
            } else {
                set_language_quality(variant, accepted, preferences, config, default_language);
            }
            set_encoding_quality(variant, accepted);
            set_charset_quality(variant, accepted, preferences);
            let (Some(variant), true) = (variants.get(index), preferences.may_choose) else {
                continue;
            };
            let current = best.and_then(|best| variants.get(best));
            let is_better = if preferences.uses_rvsa {
                is_better_rvsa(variant, current, &mut best_quality)
            } else {
                is_better(variant, current, &mut best_quality)
            };
            if is_better {
                best = Some(index);
            }
        }
        let best_variant = best.and_then(|best| variants.get(best));
        let is_definite = best_variant.is_some_and(|variant| variant.scores.is_definite);
        let is_choice = best_quality > 0.0 && (is_definite || !preferences.uses_rvsa);
        if preferred.take().is_some() && (best.is_none() || !is_choice) {
            continue;
        }
        return (best, is_choice);
    }
}

/// Encodings that variables of the environment exclude.
#[derive(Debug, Clone, Copy)]
enum Discards {
    None,
    All,
    AllButHtml,
}

impl Discards {
    fn covers(self, variant: &Variant) -> bool {
        if is_identity(variant.encoding.as_deref())
            || variant.encoding.as_deref() == Some(b"identity")
        {
            return false;
        }
        match self {
            Discards::None => false,
            Discards::All => true,
            Discards::AllButHtml => !variant.media_type.starts_with(b"text/html"),
        }
    }
}

fn is_identity(encoding: Option<&[u8]>) -> bool {
    matches!(encoding, None | Some(b"" | b"7bit" | b"8bit" | b"binary"))
}

fn is_parsed_html(media_type: &[u8]) -> bool {
    matches!(media_type, b"text/x-server-parsed-html" | b"text/x-server-parsed-html3")
}

fn set_type_quality(variant: &mut Variant, accepted: &Accepted, preferences: &Preferences) {
    let Some(types) = &accepted.types else {
        variant.scores.is_definite &= variant.media_type.is_empty();
        return;
    };
    let (mut quality, mut is_definite) = (0.0, true);
    for entry in types {
        let before = variant.scores.stars;
        if !matches_type(entry, variant) || before == variant.scores.stars {
            continue;
        }
        let is_vague = !preferences.is_literal && !accepted.has_quality;
        quality = match variant.scores.stars {
            1 if is_vague => 0.01,
            2 if is_vague => 0.02,
            _ => entry.quality,
        };
        is_definite = variant.scores.stars == 3;
    }
    variant.scores.media_type = quality;
    variant.scores.is_definite &= is_definite;
}

fn matches_type(entry: &Entry, variant: &mut Variant) -> bool {
    let (wanted, media_type) = (entry.name.as_slice(), variant.media_type.as_slice());
    if matches!(wanted, b"*" | b"*/*") {
        variant.scores.stars = variant.scores.stars.max(1);
        return true;
    }
    if let Some(main) = wanted.strip_suffix(b"/*")
        && media_type.strip_prefix(main).is_some_and(|rest| rest.first() == Some(&b'/'))
    {
        variant.scores.stars = variant.scores.stars.max(2);
        return true;
    }
    let is_same = wanted == media_type || (wanted == b"text/html" && is_parsed_html(media_type));
    if is_same && entry.level >= variant.level {
        variant.scores.level_matched = variant.level;
        variant.scores.stars = 3;
        return true;
    }
    false
}

fn set_language_quality(
    variant: &mut Variant,
    accepted: &Accepted,
    preferences: &Preferences,
    config: &Config,
    default: f32,
) {
    if variant.languages.is_empty() {
        if !preferences.is_literal {
            variant.scores.language = default;
        }
        return;
    }
    match &accepted.languages {
        None => variant.scores.is_definite = false,
        Some(wanted) => {
            let (quality, is_star) = language_quality(&variant.languages, wanted, preferences);
            variant.scores.language = quality;
            variant.scores.is_definite &= !is_star;
        }
    }
    let force = config.force.unwrap_or(Force { prefer: true, fallback: false });
    let quality = variant.scores.language;
    let is_wanted = (force.prefer && variant.scores.language_index.is_none())
        || (force.fallback && quality == 0.0);
    if !is_wanted {
        return;
    }
    let priorities = config.languages.as_deref().unwrap_or_default();
    let index = |language: &Vec<u8>| {
        let is_prefix = |name: &Vec<u8>| crate::support::has_prefix(language, name);
        priorities.iter().position(is_prefix)
    };
    let Some(index) = variant.languages.iter().filter_map(index).min() else { return };
    if quality != 0.0 {
        if force.prefer {
            variant.scores.language_index = Some(index);
        }
    } else if force.fallback {
        variant.scores.language_index = Some(index);
        variant.scores.language = 0.0001;
        variant.scores.is_definite = false;
    }
}

/// Returns the quality of the best of several languages, and whether `*` decided.
fn language_quality(
    languages: &[Vec<u8>],
    wanted: &[Entry],
    preferences: &Preferences,
) -> (f32, bool) {
    let star = wanted.iter().find(|entry| entry.name == b"*");
    let (mut best, mut fiddled, mut uses_star): (Option<&Entry>, f32, bool) = (None, 0.0, false);
    for language in languages {
        let (mut best_of_this, mut longest): (Option<&Entry>, usize) = (None, 0);
        for entry in wanted.iter().filter(|entry| entry.name != b"*") {
            if let Some(rest) = language.strip_prefix(entry.name.as_slice())
                && matches!(rest.first(), None | Some(b'-'))
                && entry.name.len() > longest
            {
                longest = entry.name.len();
                best_of_this = Some(entry);
            }
            // `en-US` accepts `en` with a low quality if no other language fits.
            if best_of_this.is_none()
                && !preferences.is_literal
                && let Some(dash) = entry.name.iter().position(|&byte| byte == b'-')
                && entry.name.get(..dash).is_some_and(|main| language.starts_with(main))
            {
                fiddled = 0.001;
            }
        }
        let is_better =
            |entry: &Entry| best.is_none_or(|best: &Entry| entry.quality > best.quality);
        if best.is_none() || best_of_this.is_some_and(is_better) {
            best = best_of_this;
        }
        uses_star |= best_of_this.is_none() && star.is_some();
    }
    match star {
        Some(star) if uses_star && best.is_none_or(|best| star.quality > best.quality) => {
            (star.quality, true)
        }
        _ => (best.map_or(fiddled, |best| best.quality), false),
    }
}

fn set_charset_quality(variant: &mut Variant, accepted: &Accepted, preferences: &Preferences) {
    let Some(wanted) = &accepted.charsets else {
        variant.scores.is_definite &= variant.charset.is_empty();
        return;
    };
    let mut charset = variant.charset.as_slice();
    if charset.is_empty() {
        let is_text =
            variant.media_type.starts_with(b"text/") || is_parsed_html(&variant.media_type);
        if !is_text || preferences.is_literal {
            return;
        }
        charset = b"iso-8859-1";
    }
    let star = wanted.iter().rev().find(|entry| entry.name == b"*");
    let exact = wanted.iter().find(|entry| entry.name == charset);
    variant.scores.charset = match (exact, star) {
        (Some(entry), _) => entry.quality,
        (None, Some(star)) => {
            variant.scores.is_definite = false;
            star.quality
        }
        (None, None) if charset == b"iso-8859-1" => 1.0,
        (None, None) => 0.0,
    };
}

fn set_encoding_quality(variant: &mut Variant, accepted: &Accepted) {
    let is_identity = is_identity(variant.encoding.as_deref());
    let Some(wanted) = &accepted.encodings else {
        variant.scores.encoding = if is_identity { 1.0 } else { 0.5 };
        return;
    };
    let plain = |name: &'_ [u8]| name.strip_prefix(b"x-").unwrap_or(name).to_vec();
    let encoding = match variant.encoding.as_deref() {
        Some(encoding) if !is_identity => plain(encoding),
        _ => b"identity".to_vec(),
    };
    let exact = wanted.iter().position(|entry| plain(&entry.name) == encoding);
    let star = || wanted.iter().rev().find(|entry| entry.name == b"*");
    let entry = exact.and_then(|index| wanted.get(index)).or_else(star);
    let otherwise = if is_identity { 0.0001 } else { 0.0 };
    variant.scores.encoding = entry.map_or(otherwise, |entry| entry.quality);
}

fn is_better_rvsa(variant: &Variant, best: Option<&Variant>, best_quality: &mut f32) -> bool {
    let scores = &variant.scores;
    if scores.encoding == 0.0 {
        return false;
    }
    let quality = scores.media_type * variant.source_quality * scores.charset * scores.language;
    if quality <= 0.0 || quality < *best_quality {
        return false;
    }
    let is_better =
        quality > *best_quality || best.is_some_and(|best| scores.encoding > best.scores.encoding);
    if is_better {
        *best_quality = quality;
    }
    is_better
}

fn is_better(variant: &Variant, best: Option<&Variant>, best_quality: &mut f32) -> bool {
    let scores = &variant.scores;
    let all = [
        scores.encoding,
        scores.language,
        variant.source_quality,
        scores.charset,
        scores.media_type,
    ];
    if all.contains(&0.0) {
        return false;
    }
    let quality = scores.media_type * variant.source_quality;
    if quality == 0.0 || quality < *best_quality {
        return false;
    }
    let is_better = match best {
        Some(best) if quality <= *best_quality => wins_tie(variant, best),
        _ => true,
    };
    if is_better {
        *best_quality = quality;
    }
    is_better
}

/// Compares variants of the same quality of type.
fn wins_tie(variant: &Variant, best: &Variant) -> bool {
    let (ours, theirs) = (&variant.scores, &best.scores);
    if ours.language != theirs.language {
        return ours.language > theirs.language;
    }
    // No index is the last one.
    let index = |scores: &Scores| scores.language_index.unwrap_or(usize::MAX);
    if index(ours) != index(theirs) {
        return index(ours) < index(theirs);
    }
    if let Some(is_better) = level_is_better(variant, best) {
        return is_better;
    }
    if ours.charset < theirs.charset {
        return false;
    }
    let is_latin = |variant: &Variant| variant.charset == b"iso-8859-1";
    if ours.charset > theirs.charset || (!is_latin(variant) && is_latin(best)) {
        return true;
    }
    if ours.encoding != theirs.encoding {
        return ours.encoding > theirs.encoding;
    }
    match (variant.bytes, best.bytes) {
        (Some(ours), Some(theirs)) => ours < theirs,
        (None, Some(_)) => true,
        _ => false,
    }
}

/// Compares levels of HTML: the higher one that was asked for, otherwise the lower one.
fn level_is_better(variant: &Variant, best: &Variant) -> Option<bool> {
    let is_html = |variant: &Variant| {
        variant.media_type == b"text/html" || is_parsed_html(&variant.media_type)
    };
    if is_html(variant) && !is_html(best) {
        return None;
    }
    if !is_html(variant) && variant.media_type != best.media_type {
        return None;
    }
    let (ours, theirs) = (variant.scores.level_matched, best.scores.level_matched);
    if ours != theirs {
        return Some(ours > theirs);
    }
    (variant.level != best.level).then_some(variant.level < best.level)
}
