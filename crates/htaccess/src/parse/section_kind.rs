//! Kinds of sections that hold for some requests only.

use crate::directive::Override;

/// Kind of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Else,
    ElseIf,
    Error,
    Files,
    FilesMatch,
    If,
    Limit,
    LimitExcept,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Else,
        Kind::ElseIf,
        Kind::Error,
        Kind::Files,
        Kind::FilesMatch,
        Kind::If,
        Kind::Limit,
        Kind::LimitExcept,
    ];

    pub(super) fn find(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Else => "<Else",
            Kind::ElseIf => "<ElseIf",
            Kind::Error => "Error",
            Kind::Files => "<Files",
            Kind::FilesMatch => "<FilesMatch",
            Kind::If => "<If",
            Kind::Limit => "<Limit",
            Kind::LimitExcept => "<LimitExcept",
        }
    }

    pub(super) fn class(self) -> Override {
        match self {
            Kind::Limit | Kind::LimitExcept => Override::LIMIT.union(Override::AUTH_CONFIG),
            _ => Override::ALL,
        }
    }
}
