//! What the supervisor cannot write to: the state directory and its log.

/// The state directory and the log, if they cannot be written to.
#[derive(Debug, Default)]
pub(super) struct Unwritable {
    /// Why the state directory cannot be written to, and what to do.
    pub(super) state: Option<String>,
    /// The document that is served was not kept for a start without a valid one.
    pub(super) is_document_lost: bool,
    /// A process tries to write to the state directory.
    pub(super) is_probing: bool,
    /// The problems of the state directory and of the log that the router knows.
    told: (Option<String>, Option<String>),
}

impl Unwritable {
    /// Handles the start of a router, which knows nothing yet.
    pub(super) fn router_begins(&mut self) {
        self.told = (None, None);
    }

    /// Returns true if the router does not know the current problems. It does afterwards.
    pub(super) fn take_changed(&mut self, log: Option<&str>) -> bool {
        let now = (self.state.clone(), log.map(str::to_owned));
        let is_changed = self.told != now;
        self.told = now;
        is_changed
    }
}
