//! State of a negotiation.

use super::accept::Accepted;
use super::choice::Preferences;
use super::variant::Variant;

/// State of a negotiation.
pub(super) struct State {
    pub accepted: Accepted,
    pub directory: Vec<u8>,
    pub variants: Vec<Variant>,
    pub is_transparent: bool,
    pub preferences: Preferences,
}
