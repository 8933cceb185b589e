//! The identity of an application.

/// An application's number and the router that assigned it. Each router numbers applications
/// itself; a new one gets no messages about applications of the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id {
    /// Process id of the router.
    pub(super) router: u32,
    pub(super) number: u32,
}
