//! The engine with the world of a request.

use crate::site::Site;
use crate::world::World;

/// Most internal redirects of a request, and most requests inside of each other
/// (`LimitInternalRecursion`).
pub(super) const MAX_REDIRECTS: u8 = 10;

/// A site with the world of a request.
#[derive(Clone, Copy)]
pub(crate) struct Server<'a> {
    pub(crate) site: &'a Site,
    pub(crate) world: &'a dyn World,
}

/// Result of a phase before the handler: continue, or a status.
pub(super) type Progress = Result<(), u16>;
