//! Whether visitors can be served: the answer to readiness probes.

/// Returns the reason why visitors cannot be served, in one sentence; `None` if they can.
/// `problems` are the names of applications with the reasons why they cannot run.
pub fn obstacle<'a>(
    has_listener: bool,
    is_leaving: bool,
    problems: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<String> {
    if !has_listener {
        return Some("the configuration has no listener".to_owned());
    }
    if is_leaving {
        return Some("the server is about to end".to_owned());
    }
    let (name, problem) = problems.into_iter().next()?;
    Some(format!("{name} cannot run: {problem}"))
}
