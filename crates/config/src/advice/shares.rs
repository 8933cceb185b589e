//! Shares: file names that are nearly always a mistake, and scripts that would be refused.

use super::line::{Advice, add, relative};
use super::scripts::{how_to_run_scripts, is_script};
use crate::action::Share;
use crate::config::Config;
use crate::node::Shown;
use crate::template::{Part, Template, Variable};

/// Checks a share whose action is at `place`.
pub(super) fn of_share(config: &Config, place: &str, share: &Share, all: &mut Vec<Advice>) {
    for (index, name) in share.paths.iter().enumerate() {
        let place = match share.paths.len() {
            1 => format!("{place}/share"),
            _ => format!("{place}/share/{index}"),
        };
        if let Some(text) = only_directory(name) {
            let text = Shown(text.trim_end_matches('/'));
            let message = format!(
                "has no \"$uri\", so all requests get the same file; write \"{text}$uri\" for the \
                 files of a directory"
            );
            add(all, place.clone(), message);
        }
        all.extend(relative_start(name).map(|text| relative(place, text)));
    }
    if let Some(text) = share.chroot.as_ref().and_then(relative_start) {
        all.push(relative(format!("{place}/chroot"), text));
    }
    if share.scripts.is_none()
        && let Some(script) = share.index.iter().find(|name| is_script(name))
    {
        let script = Shown(script);
        let message = format!(
            "names the script \"{script}\", and without \"scripts\" in the action scripts are \
             refused; {}",
            how_to_run_scripts(config)
        );
        add(all, format!("{place}/index"), message);
    }
}

/// Returns the beginning of a file name that does not begin with a slash.
fn relative_start(name: &Template) -> Option<&str> {
    match name.parts().first()? {
        Part::Literal(text) if !text.starts_with('/') => Some(text),
        _ => None,
    }
}

/// Returns the name if it is the same for all requests, or for all requests of a host, and seems to
/// be a directory.
fn only_directory(name: &Template) -> Option<&str> {
    let is_path = |part: &Part| {
        matches!(part, Part::Variable(Variable::Uri | Variable::RequestUri | Variable::Capture(_)))
    };
    let Part::Literal(end) = name.parts().last()? else { return None };
    if name.parts().iter().any(is_path) {
        return None;
    }
    let file = end.rsplit('/').next().unwrap_or_default();
    let is_directory = file.is_empty() || (name.parts().len() == 1 && !file.contains('.'));
    is_directory.then_some(end)
}
