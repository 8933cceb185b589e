//! Advice on PHP scripts in shares and the applications that run them.

use std::path::Path;

use crate::action::{Action, ActionKind};
use crate::config::Config;
use crate::node::Shown;
use crate::target::Target;

/// Returns true if a file name is that of a PHP script.
pub(super) fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("php"))
}

/// Returns the setting with which a share's scripts are run.
pub(super) fn how_to_run_scripts(config: &Config) -> String {
    let first = config.applications.iter().map(|one| &one.name);
    match first.chain(config.fastcgi.iter().map(|one| &one.name)).next() {
        Some(name) => {
            let target = Target::Application { name: name.clone(), target: None };
            format!("write \"scripts\": \"{}\"", Shown(&target.to_string()))
        }
        None => "write \"scripts\": \"applications/NAME\", and the application".to_owned(),
    }
}

/// Returns true if an action answers requests for all scripts in its share with an error.
pub(super) fn refuses_scripts(action: &Action) -> bool {
    matches!(&action.kind, ActionKind::Share(share) if share.scripts.is_none()
        && share.fallback.is_none())
}
