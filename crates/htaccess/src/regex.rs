//! Regular expressions of a `.htaccess`: PCRE2, as in Apache, with limits on work and memory.
//!
//! The author of a pattern and the author of a subject may both be hostile. PCRE2 counts the steps
//! of a match for each position where the match may begin, so the limit of a pattern that is not
//! anchored depends on the length of the subject: the product of both stays near [`TOTAL_STEPS`]. A
//! match that exceeds its limit is an [`Overrun`], which answers the request with 500.
//!
//! Three differences from a plain `pcre2_compile` follow Apache: `.` matches line breaks, names of
//! groups may repeat, and `$` matches at the end of the subject only.

mod invalid;
mod prepare;
mod size;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pcre2::bytes::{CaptureLocations, RegexBuilder};

pub use self::invalid::{InvalidPattern, MAX_PATTERN_BYTES};
use crate::budget;
use crate::memory::Charge;
use crate::work;

/// Maximum number of groups that capture.
pub const MAX_GROUPS: usize = 512;

/// Number of captures that directives can refer to: `$0` to `$9`.
pub const CAPTURES: usize = 10;

/// Approximate maximum number of steps of a match on a subject of a usual length.
const TOTAL_STEPS: usize = 20_000_000;

/// Upper limits of the lengths of subjects, in bytes, and the maximum number of steps at each
/// position.
const CLASSES: [(usize, usize); 5] = [
    (64, TOTAL_STEPS / 64),
    (512, TOTAL_STEPS / 512),
    (4096, 16_384),
    (16_384, 24_576),
    (MAX_SUBJECT_BYTES, 4096),
];

/// Maximum number of steps of a pattern that can match at one position only.
const ANCHORED_STEPS: usize = 2_000_000;

/// Maximum length of a subject, in bytes.
pub const MAX_SUBJECT_BYTES: usize = 1 << 20;

/// Maximum memory of a match without JIT, in KiB.
const HEAP_KIB: usize = 4096;

/// Maximum size of a pattern that JIT compiles, in bytes: machine code is several times as large.
const MAX_JIT_BYTES: usize = 16 * 1024;

/// Maximum number of spare blocks of memory for matches that a variant with JIT keeps.
const MAX_SPARES: usize = 4;

/// Approximate memory of a variant in bytes, beside the parts that grow with its size and its
/// groups.
const BYTES_OF_A_VARIANT: usize = 3072;

/// Memory of machine code in relation to the size of a variant without JIT.
const GROWTH: usize = 8;

/// Codes of `pcre2.h`.
mod code {
    pub const JIT_STACK_LIMIT: i32 = -46;
    pub const MATCH_LIMIT: i32 = -47;
    pub const NO_MEMORY: i32 = -48;
    pub const DEPTH_LIMIT: i32 = -53;
    pub const HEAP_LIMIT: i32 = -63;
}

/// A compiled pattern.
pub struct Regex {
    pattern: Vec<u8>,
    ignores_case: bool,
    names: Vec<Option<String>>,
    /// Each variant is compiled when a subject of its length occurs first.
    variants: [OnceLock<Option<Variant>>; CLASSES.len()],
    /// Without JIT, for matches that need more stack than JIT has.
    interpreted: [OnceLock<Option<Variant>>; CLASSES.len()],
    prepared: prepare::Prepared,
    /// Approximate size in bytes of a variant without JIT.
    size: usize,
    /// Memory of the file that has the pattern.
    charge: Option<Arc<Charge>>,
}

/// A pattern with the limit of a class of subjects.
struct Variant {
    regex: pcre2::bytes::Regex,
    /// Not used without JIT: a block of the interpreter keeps up to [`HEAP_KIB`] after a match.
    spares: Mutex<Vec<CaptureLocations>>,
    uses_jit: bool,
}

/// A match was abandoned because it took too many steps or too much memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overrun;

impl fmt::Display for Overrun {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a regular expression exceeded the limit on its work")
    }
}

impl std::error::Error for Overrun {}

/// Offsets of a match and of its first nine groups in the subject.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Captures {
    offsets: [(u32, u32); CAPTURES],
}

impl Captures {
    /// No group at all.
    pub const NONE: Captures = Captures { offsets: [UNSET; CAPTURES] };

    /// Returns start and end of a group; `None` if the group does not exist or took no part.
    #[inline]
    pub fn get(&self, group: usize) -> Option<(usize, usize)> {
        let &(start, end) = self.offsets.get(group)?;
        // `\K` in a look-ahead can put the start behind the end.
        (start <= end && end != u32::MAX).then_some((start as usize, end as usize))
    }

    /// Returns the text of a group in the subject of the match, empty without any.
    #[inline]
    pub fn text<'s>(&self, group: usize, subject: &'s [u8]) -> &'s [u8] {
        self.get(group).and_then(|(start, end)| subject.get(start..end)).unwrap_or_default()
    }
}

impl fmt::Debug for Captures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries((0..CAPTURES).map(|group| self.get(group))).finish()
    }
}

const UNSET: (u32, u32) = (u32::MAX, u32::MAX);

impl Regex {
    /// Compiles a pattern; with `ignores_case`, letters match in both cases.
    pub fn new(pattern: &[u8], ignores_case: bool) -> Result<Regex, InvalidPattern> {
        let prepared = prepare::prepare(pattern)?;
        let size = size::estimate(pattern);
        budget::add_pattern(size, pattern.len()).map_err(InvalidPattern::of_limit)?;
        let mut regex = Regex {
            pattern: pattern.to_vec(),
            ignores_case,
            names: Vec::new(),
            variants: Default::default(),
            interpreted: Default::default(),
            prepared,
            size,
            charge: budget::charge(),
        };
        regex.count_variant(true).map_err(InvalidPattern::of_limit)?;
        let first = regex.compile(0, true)?;
        if first.regex.captures_len() > MAX_GROUPS {
            return Err(InvalidPattern { reason: format!("more than {MAX_GROUPS} groups") });
        }
        regex.names = first.regex.capture_names().to_vec();
        regex.variants[0] = OnceLock::from(Some(first));
        Ok(regex)
    }

    /// Returns the pattern, as it was written.
    pub fn pattern(&self) -> &[u8] {
        &self.pattern
    }

    /// Returns true if letters match in both cases.
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Returns the number of groups that capture, without the match itself.
    pub fn groups(&self) -> usize {
        self.names.len().saturating_sub(1)
    }

    /// Returns the names of the groups that have one, with their numbers.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        self.names.iter().enumerate().filter_map(|(group, name)| Some((group, name.as_deref()?)))
    }

    /// Returns true if the subject matches.
    #[inline]
    pub fn is_match(&self, subject: &[u8]) -> Result<bool, Overrun> {
        // Not with the library's own blocks of memory, whose number has no limit.
        Ok(self.captures(subject)?.is_some())
    }

    /// Returns the captures of the first match; `None` without a match.
    #[inline]
    pub fn captures(&self, subject: &[u8]) -> Result<Option<Captures>, Overrun> {
        self.captures_at(subject, 0)
    }

    /// As `captures`, for matches that begin at an offset or behind it; the text before the offset
    /// counts for look-behinds and `^`.
    #[inline]
    pub fn captures_at(&self, subject: &[u8], start: usize) -> Result<Option<Captures>, Overrun> {
        if start > subject.len() {
            return Ok(None);
        }
        let (class, variant) = self.variant(subject)?;
        match variant.captures(subject, start) {
            Ok(captures) => Ok(captures),
            Err(error) if error.code() == code::JIT_STACK_LIMIT => {
                let found = self.interpreted(class)?.captures(subject, start);
                found.or_else(|error| failed(&error).map(|()| None))
            }
            Err(error) => failed(&error).map(|()| None),
        }
    }

    fn variant(&self, subject: &[u8]) -> Result<(usize, &Variant), Overrun> {
        if subject.len() > MAX_SUBJECT_BYTES || work::is_spent() {
            return Err(overrun());
        }
        let class = if self.prepared.is_anchored {
            0
        } else {
            CLASSES.iter().position(|&(most, _)| subject.len() <= most).unwrap_or(0)
        };
        Ok((class, self.kept(&self.variants[class], class, true)?))
    }

    #[cold]
    fn interpreted(&self, class: usize) -> Result<&Variant, Overrun> {
        self.kept(&self.interpreted[class], class, false)
    }

    /// Returns a variant, which is compiled when it is needed first. A variant without memory is
    /// tried again.
    #[inline]
    fn kept<'r>(
        &'r self,
        place: &'r OnceLock<Option<Variant>>,
        class: usize,
        uses_jit: bool,
    ) -> Result<&'r Variant, Overrun> {
        let known = match place.get() {
            Some(known) => known,
            None => {
                self.count_variant(uses_jit).map_err(|_| overrun())?;
                work::record_prepared();
                place.get_or_init(|| self.compile(class, uses_jit).ok())
            }
        };
        known.as_ref().ok_or_else(overrun)
    }

    /// Counts the memory of a variant.
    fn count_variant(&self, uses_jit: bool) -> Result<(), &'static str> {
        let growth = if uses_jit && self.size <= MAX_JIT_BYTES { GROWTH } else { 1 };
        let groups = self.names.len().saturating_mul(2 * size_of::<usize>() * MAX_SPARES);
        let size = self.size.saturating_mul(growth);
        let bytes = BYTES_OF_A_VARIANT.saturating_add(size).saturating_add(groups);
        budget::add_variant(bytes, self.charge.as_ref())
    }

    fn compile(&self, class: usize, uses_jit: bool) -> Result<Variant, InvalidPattern> {
        let steps = if self.prepared.is_anchored { ANCHORED_STEPS } else { CLASSES[class].1 };
        let limits =
            format!("(*LIMIT_MATCH={steps})(*LIMIT_DEPTH={steps})(*LIMIT_HEAP={HEAP_KIB})");
        let text = format!("{limits}{}", self.prepared.text);
        let mut builder = RegexBuilder::new();
        builder.caseless(self.ignores_case).dotall(true);
        let uses_jit = uses_jit && self.size <= MAX_JIT_BYTES;
        builder.jit_if_available(uses_jit);
        match builder.build(&text) {
            Ok(regex) => Ok(Variant { regex, spares: Mutex::new(Vec::new()), uses_jit }),
            Err(error) => Err(InvalidPattern { reason: error.to_string() }),
        }
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.ignores_case { "i" } else { "" };
        write!(formatter, "m#{}#{flags}", String::from_utf8_lossy(&self.pattern))
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Regex) -> bool {
        self.pattern == other.pattern && self.ignores_case == other.ignores_case
    }
}

impl Eq for Regex {}

impl Variant {
    fn captures(&self, subject: &[u8], start: usize) -> Result<Option<Captures>, pcre2::Error> {
        let spare = self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut locations = spare.unwrap_or_else(|| self.regex.capture_locations());
        let found = self.regex.captures_read_at(&mut locations, subject, start);
        let found = found.map(|found| {
            found?;
            let mut captures = Captures::NONE;
            for (group, offsets) in captures.offsets.iter_mut().enumerate().take(locations.len()) {
                let Some((start, end)) = locations.get(group) else { continue };
                // Subjects are shorter than `MAX_SUBJECT_BYTES`.
                *offsets = (start as u32, end as u32);
            }
            Some(captures)
        });
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if self.uses_jit && spares.len() < MAX_SPARES {
            spares.push(locations);
        }
        found
    }
}

/// Returns the error, and records it for the request that runs.
#[cold]
fn overrun() -> Overrun {
    work::record_overrun();
    Overrun
}

/// Returns an error for exceeded limits. All others, such as a subject that is not UTF-8 for a
/// pattern that begins with `(*UTF)`, are no match, as in Apache.
fn failed(error: &pcre2::Error) -> Result<(), Overrun> {
    match error.code() {
        code::MATCH_LIMIT
        | code::DEPTH_LIMIT
        | code::HEAP_LIMIT
        | code::NO_MEMORY
        | code::JIT_STACK_LIMIT => Err(overrun()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
