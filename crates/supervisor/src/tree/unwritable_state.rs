//! Files that the supervisor cannot write: the state directory and its log.

/// The state directory and the log, if they cannot be written to.
#[derive(Debug, Default)]
pub(super) struct Unwritable {
    /// Why the state directory cannot be written to, and the remedy.
    pub(super) state: Option<String>,
    /// The document that is served was not kept for a start without a valid one.
    pub(super) is_document_lost: bool,
    /// A process tries to write to the state directory.
    pub(super) is_probing: bool,
    /// Why the log could not be opened again after log rotation: the former file stays in use.
    pub(super) former_log: Option<String>,
    /// It is being opened again without a signal.
    pub(super) is_retrying_log: bool,
    /// The problems of the state directory and of the log that the router knows.
    told: Told,
}

/// The problems of the state directory, of the log, and of opening the log again.
type Told = (Option<String>, Option<String>, Option<String>);

impl Unwritable {
    /// Handles the start of a router, which knows nothing yet.
    pub(super) fn router_begins(&mut self) {
        self.told = Told::default();
    }

    /// Returns true if the router does not know the current problems. It does afterwards.
    pub(super) fn take_changed(&mut self, log: Option<&str>) -> bool {
        let now = (self.state.clone(), log.map(str::to_owned), self.former_log.clone());
        let is_changed = self.told != now;
        self.told = now;
        is_changed
    }
}
