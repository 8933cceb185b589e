//! State of a pass of a request through the rules of a directory.

use std::cell::RefCell;

use super::Config;
use super::trace::Trace;
use crate::expr::Scope;
use crate::record::Record;
use crate::regex::Captures;

/// Note of a request that `[END]` excludes from further rules.
pub(crate) const END_NOTE: &[u8] = b"rewrite_really_last";

/// A pass of a request through rules.
pub(super) struct Pass<'a, 't> {
    pub record: &'a mut Record,
    pub scope: &'a dyn Scope,
    pub config: &'a Config,
    pub trace: Trace<'t>,
    /// Status of a redirect that a rule has asked for.
    pub status: u16,
    /// File name with PATH_INFO, and the length of the directory in front of the part that patterns
    /// see.
    pub subject: Vec<u8>,
    pub start: usize,
    pub is_fresh: bool,
    pub rule_groups: Captures,
    pub cond_subject: Vec<u8>,
    pub cond_groups: Captures,
    /// Header fields that the current condition depends on, and those of the rule.
    pub vary_now: RefCell<Vec<u8>>,
    pub vary: Vec<u8>,
}

impl<'a, 't> Pass<'a, 't> {
    pub fn new(
        record: &'a mut Record,
        config: &'a Config,
        scope: &'a dyn Scope,
        trace: Trace<'t>,
    ) -> Pass<'a, 't> {
        Pass {
            status: record.status,
            record,
            scope,
            config,
            trace,
            subject: Vec::new(),
            start: 0,
            is_fresh: false,
            rule_groups: Captures::NONE,
            cond_subject: Vec::new(),
            cond_groups: Captures::NONE,
            vary_now: RefCell::default(),
            vary: Vec::new(),
        }
    }
}

/// Result of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    None,
    /// The URL changed; the result may have escapes if `is_escaped`.
    Url {
        is_escaped: bool,
    },
    /// As `Url`, by a rule with the flag `PT`: its result counts as a path, even if it is the URL
    /// of a redirect.
    Passed,
    /// The request is answered at once.
    Status(u16),
    /// As `Status`, independent of the query.
    Refused(u16),
}
