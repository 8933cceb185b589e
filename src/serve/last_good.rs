//! The document to start with if that at its source cannot be used: the one that was served last.
//!
//! A mistake in a document shows when the server is started again, perhaps by a reboot at night.
//! The document that was served before is kept with the state, and is served again until the new
//! one is corrected.

use std::time::{SystemTime, UNIX_EPOCH};

use howdah_config::Config;
use howdah_supervisor::{Apart, LastDocument, load_last_document, read_apart, state_format};
use howdah_sys::clock;

use super::plan::{StartupPlan, keeps_document};
use crate::cli::Serve;
use crate::config_file::Hanging;
use crate::php_programs;

/// The document that the server starts with.
pub(super) struct Chosen {
    pub plan: StartupPlan,
    /// `None`: no site is served before the control API gets a configuration.
    pub config: Option<Config>,
    /// Reason why it is not the document at its source; `None` if it is.
    pub refused: Option<String>,
}

/// Chooses the document. Error: the one at its source cannot be used, and there is no other one.
pub(super) fn choose(arguments: &Serve) -> Result<Chosen, String> {
    let last = last(arguments);
    let former = last.as_ref().map(|last| last.document.as_slice());
    let tried = read(arguments, former, false).and_then(|plan| match &last {
        Some(_) if !arguments.strict => plan.valid_config(arguments).map(|c| (plan, Some(c))),
        _ => plan.config(arguments).map(|config| (plan, config)),
    });
    let problem = match tried {
        Ok((plan, config)) => return Ok(Chosen { plan, config, refused: None }),
        Err(problem) => with_newer_writer(problem, arguments),
    };
    let Some(LastDocument { document, since }) = last.filter(|_| !arguments.strict) else {
        return Err(problem);
    };
    let plan = StartupPlan::of_document(document, origin(arguments));
    // The document of a newer version may be unusable, too.
    let Ok(config) = plan.valid_config(arguments) else { return Err(problem) };
    let refused = Some(explain(&problem, since));
    Ok(Chosen { plan, config: Some(config), refused })
}

/// Adds the version that has written the state to the problem of a document, if that version is
/// newer than this one: the document may have keys that only it knows.
pub(super) fn with_newer_writer(problem: String, arguments: &Serve) -> String {
    let is_kept = arguments.config.is_some() || keeps_document(arguments);
    let state = arguments.common.state.as_deref().filter(|_| is_kept);
    match state.and_then(state_format::newer_writer) {
        Some(newer) => format!(
            "{problem}; the document may need howdah {newer}, which has written the state: install \
             that version again, or correct the document"
        ),
        None => problem,
    }
}

/// Reads the document as [`StartupPlan::new`] does, but without sites whose directories do not
/// answer: they would keep all others from starting. Other files that do not answer are left out at
/// the start, and refuse a reload.
pub(super) fn read(
    arguments: &Serve,
    former: Option<&[u8]>,
    is_reload: bool,
) -> Result<StartupPlan, String> {
    if arguments.config.is_none() {
        return StartupPlan::new(arguments, former);
    }
    let may_be_left_out = |place: &str| !is_reload || Hanging::is_site(place);
    let document = without_hanging(&origin(arguments), &may_be_left_out, &|hanging| {
        StartupPlan::without(arguments, former, hanging).map(|plan| plan.document)
    });
    Ok(StartupPlan::of_document(document?, origin(arguments)))
}

/// Reads a document by a process of its own. Where that stops, the document is read again without
/// the file that does not answer, if that `may_be_left_out`. `origin` names the document in errors.
pub(super) fn without_hanging(
    origin: &str,
    may_be_left_out: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&Hanging) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    // This process keeps the answer.
    php_programs::find();
    let mut hanging = Hanging::default();
    loop {
        match read_apart(&|| read(&hanging)) {
            Ok(Apart::Done(document)) => return document,
            Ok(Apart::Hangs { place, problem }) => {
                let file = if place.is_empty() { origin } else { &place };
                let line = format!("{file}: {problem}");
                if !may_be_left_out(&place) || !hanging.add(&place, problem) {
                    return Err(line);
                }
            }
            Err(_) => return read(&hanging),
        }
    }
}

/// Returns the document from the same source that was served last.
fn last(arguments: &Serve) -> Option<LastDocument> {
    let state = arguments.common.state.as_deref();
    let is_kept = arguments.config.is_some() || keeps_document(arguments);
    load_last_document(state.filter(|_| is_kept)?, &origin(arguments))
}

fn origin(arguments: &Serve) -> String {
    match &arguments.config {
        Some(path) => path.display().to_string(),
        None => StartupPlan::STORED.to_owned(),
    }
}

fn explain(problem: &str, since: SystemTime) -> String {
    let mut date = String::new();
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    clock::iso_date(since.as_secs(), &mut date);
    let problem = problem.lines().collect::<Vec<_>>().join("; ");
    format!(
        "{problem}; the document is refused, and the one that was served last (since {date}) is \
         served again: correct it and run howdah reload"
    )
}
