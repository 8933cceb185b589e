//! Advice about a document: what is legal and nearly always a mistake.
//!
//! [`Config::advice`] looks at the document alone. Conditions without effect and steps that no
//! request reaches are in `effect`, variables in strings where none are filled in in `variables`.

mod effect;
#[cfg(test)]
mod tests;
mod variables;

use std::path::Path;

use crate::action::{Action, ActionKind};
use crate::node::{Shown, path};
use crate::share::Share;
use crate::target::{Pass, Target};
use crate::template::{Part, Template, Variable};
use crate::{Config, LogFormat};

/// A line of advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// The place in the document, as [`crate::Error::path`] gives it.
    pub path: String,
    /// What is wrong there and what to write.
    pub message: String,
}

impl Config {
    /// What is legal in the document and nearly always a mistake, in the document's order by kind.
    pub fn advice(&self) -> Vec<Advice> {
        let mut all = Vec::new();
        self.advise_on_listeners(&mut all);
        for route in &self.routes {
            effect::of_route(self, route, &mut all);
        }
        for (place, action) in self.actions() {
            if let ActionKind::Share(share) = &action.kind {
                self.advise_on_share(&place, share, &mut all);
            }
        }
        for application in &self.applications {
            let place = path(["applications", application.name.as_str()]);
            for target in &application.targets {
                if target.root.is_relative() {
                    let root = target.root.to_string_lossy();
                    all.push(relative(format!("{place}/{}", target.key("root")), &root));
                }
            }
        }
        if let Some(log) = &self.access_log {
            effect::of_access_log(log, &mut all);
            if let LogFormat::Text(format) = &log.format
                && format.constant().is_some()
            {
                let message = "has no variable, so all lines are the same";
                add(&mut all, "/access_log/format".to_owned(), message);
            }
        }
        variables::unfilled(&self.document, &mut all);
        all
    }

    fn advise_on_listeners(&self, all: &mut Vec<Advice>) {
        if self.listeners.is_empty() {
            let message = "there are none, so no request can arrive; write {\"*:80\": {\"pass\": \
                           \"routes\"}}";
            add(all, "/listeners".to_owned(), message);
        }
        for listener in &self.listeners {
            if let Pass::Fixed(Target::Route(name)) = &listener.pass
                && self.route(name.as_deref()).is_some_and(|route| route.steps.is_empty())
            {
                let place = format!("{}/pass", path(["listeners", listener.name.as_str()]));
                add(
                    all,
                    place,
                    "leads to a route without steps, so each request is answered with 404",
                );
            }
        }
    }

    fn advise_on_share(&self, place: &str, share: &Share, all: &mut Vec<Advice>) {
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
                self.scripts_to_write()
            );
            add(all, format!("{place}/index"), message);
        }
    }

    /// What to write so that scripts are run.
    fn scripts_to_write(&self) -> String {
        let first = self.applications.iter().map(|one| &one.name);
        match first.chain(self.fastcgi.iter().map(|one| &one.name)).next() {
            Some(name) => {
                let target = Target::Application { name: name.clone(), target: None };
                format!("write \"scripts\": \"{}\"", Shown(&target.to_string()))
            }
            None => "write \"scripts\": \"applications/NAME\", and the application".to_owned(),
        }
    }

    /// Whether an action refuses all scripts that it finds.
    fn refuses_scripts(action: &Action) -> bool {
        matches!(&action.kind, ActionKind::Share(share) if share.scripts.is_none()
            && share.fallback.is_none())
    }
}

fn add(all: &mut Vec<Advice>, path: String, message: impl Into<String>) {
    all.push(Advice { path, message: message.into() });
}

fn is_script(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("php"))
}

fn relative(path: String, text: &str) -> Advice {
    let message = format!(
        "\"{}\" does not begin with a slash, so it depends on the directory in which the server is \
         started; write it in full",
        Shown(text)
    );
    Advice { path, message }
}

/// The beginning of a file name that does not begin with a slash.
fn relative_start(name: &Template) -> Option<&str> {
    match name.parts().first()? {
        Part::Literal(text) if !text.starts_with('/') => Some(text),
        _ => None,
    }
}

/// The text of a name that is the same for all requests, or for all of a host, and that seems to be a
/// directory.
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
