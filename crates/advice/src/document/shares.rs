//! Shares: file names that are nearly always a mistake, and scripts that would be refused.

use super::line::{Advice, add, note, relative};
use super::scripts::{how_to_run_scripts, is_script};
use howdah_config::{
    Action, ActionKind, Config, Part, Pass, Share, Shown, Target, Template, Variable,
};

/// Checks whether pages of a `fallback` lack `response_headers` of its share, whose action is at
/// `place`. Fields about files, such as their lifetime, are not for pages.
pub(super) fn of_fallback(place: &str, action: &Action, all: &mut Vec<Advice>) {
    const OF_FILES: [&str; 4] = ["cache-control", "expires", "pragma", "vary"];
    let ActionKind::Share(share) = &action.kind else { return };
    let Some(fallback) = &share.fallback else { return };
    let has_fields = |action: &Action| !action.options.response_headers.is_empty();
    let has_own = match &fallback.kind {
        ActionKind::Return(answer) => answer.status >= 400,
        // Its steps have their own.
        ActionKind::Pass(Pass::Fixed(Target::Route(_))) => true,
        ActionKind::Pass(Pass::Fixed(_)) | ActionKind::Proxy(_) | ActionKind::Share(_) => false,
        _ => true,
    };
    let mut names = action.options.response_headers.iter().map(|header| header.name.as_str());
    let missing = names.find(|name| {
        let name = name.to_ascii_lowercase();
        !OF_FILES.contains(&&*name)
            && name != "content-type"
            && !name.starts_with("access-control-")
    });
    if let (false, false, Some(name)) = (has_own, has_fields(fallback), missing) {
        let message = format!(
            "is for the files of the share: responses of the fallback have no \"{}\"; write it \
             there, too",
            Shown(name)
        );
        note(all, format!("{place}/response_headers"), message);
    }
}

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
