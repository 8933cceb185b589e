//! Variants of a resource.

use super::accept;
use crate::record::Record;

/// Largest number of variants.
pub(super) const MAX_VARIANTS: usize = 1000;

/// A variant, as a sub-request for its file sees it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The sub-request after its type-checker and fixups.
    pub record: Record,
    /// Status of the sub-request; 200 unless access is denied or something failed.
    pub status: u16,
    /// Exceptions of [`mime::type_checker`](crate::modules::mime::type_checker).
    pub exceptions: Option<Vec<Vec<u8>>>,
}

/// A variant of a resource.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub candidate: Option<Candidate>,
    pub name: Vec<u8>,
    /// In lower case, without parameters.
    pub media_type: Vec<u8>,
    pub charset: Vec<u8>,
    pub encoding: Option<Vec<u8>>,
    pub languages: Vec<Vec<u8>>,
    pub description: Vec<u8>,
    /// Start and length of the content in a type map.
    pub body: Option<(usize, usize)>,
    pub bytes: Option<u64>,
    pub level: f32,
    pub source_quality: f32,
    pub scores: Scores,
}

impl Variant {
    pub fn new() -> Variant {
        Variant {
            candidate: None,
            name: Vec::new(),
            media_type: Vec::new(),
            charset: Vec::new(),
            encoding: None,
            languages: Vec::new(),
            description: Vec::new(),
            body: None,
            bytes: None,
            level: 0.0,
            source_quality: 0.0,
            scores: Scores::default(),
        }
    }

    pub fn set_type(&mut self, text: &[u8]) {
        let entry = accept::entry(&mut &*text);
        self.media_type = entry.name;
        self.source_quality = entry.quality;
        self.level = entry.level;
        self.charset = entry.charset;
    }
}

/// Qualities of a variant for a client.
#[derive(Debug, Clone)]
pub(super) struct Scores {
    pub language: f32,
    pub encoding: f32,
    pub charset: f32,
    pub media_type: f32,
    pub language_index: Option<usize>,
    pub level_matched: f32,
    pub stars: u8,
    pub is_definite: bool,
}

impl Default for Scores {
    fn default() -> Self {
        Scores {
            language: 1.0,
            encoding: 1.0,
            charset: 1.0,
            media_type: 1.0,
            language_index: None,
            level_matched: 0.0,
            stars: 0,
            is_definite: true,
        }
    }
}
