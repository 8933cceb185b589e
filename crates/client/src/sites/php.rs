//! `howdah php --site SITE`: the command-line PHP of the distribution with what a site has.

use std::os::unix::process::CommandExt;

use howdah_config::include::application_of_site;
use howdah_jobs::php_command;
use howdah_sys::sandbox::seccomp;
use howdah_sys::{credentials, process};
use serde_json::{Map, Value};

use super::Machine;
use super::account::{Account, members};
use super::check::Hosts;
use super::document::Document;
use super::show;
use crate::args::sites::PhpArgs;
use crate::failure::Failure;

/// Replaces this process by PHP.
pub(crate) fn run(args: &PhpArgs, machine: &dyn Machine) -> Result<(), Failure> {
    let document = Document::open(
        &args.server,
        args.config.as_deref(),
        machine.files(false).map_err(Failure::Failed)?,
    )?;
    let show::Shown { site, becomes, .. } = show::find(&document, &args.site, &Hosts::new())?;
    let (parts, _) = becomes.map_err(show::failed)?;
    let application = application_of_site(&parts, &args.site);
    let application = application.and_then(|name| parts.get("applications")?.get(name));
    let none = Value::Object(Map::new());
    // A site that is disabled, or has no PHP yet.
    let application = application.unwrap_or(&none);
    let text = |key: &str| application.get(key).or(site.get(key)).and_then(Value::as_str);
    let account = Account::of(&[application, &site], machine)
        .map_err(|problem| Failure::Failed(format!("{}: {problem}", args.site)))?;
    let version = text("type").and_then(|kind| kind.strip_prefix("php")).unwrap_or_default();
    let program = php_command::find(version.trim(), &|path| path.is_file());
    let program = program.map_err(Failure::Failed)?;
    let mut command = account.command(&program);
    // What a site that shares its application has for its own requests.
    let steps = parts.get("routes").and_then(|routes| routes.get(&args.site)?.as_array());
    let content = Value::String(format!("routes/{}%2Fcontent", args.site));
    let mut actions = steps.into_iter().flatten().filter_map(|step| step.get("action"));
    let of_site = actions.find(|action| action.get("pass") == Some(&content));
    for (name, value) in members(of_site.and_then(|action| action.get("environment"))) {
        command.env(name, value.replace("${dollar}", "$"));
    }
    for part in [Some(application), of_site] {
        let options = part.and_then(|part| part.get("options"));
        for key in ["user", "admin"] {
            for (name, value) in members(options.and_then(|options| options.get(key))) {
                command.args(php_command::setting(&name, &value));
            }
        }
    }
    command.args(&args.arguments);
    if let Some(user) = account.user {
        if !credentials::is_root() {
            return Err(Failure::Failed(format!(
                "only root can run PHP as the user \"{}\": sudo howdah php",
                user.name
            )));
        }
        keep_from_typing().map_err(|error| {
            Failure::Failed(format!(
                "PHP cannot be kept from typing at the terminal of root: {error}; run it as its user: \
                 sudo -u {} howdah php",
                user.name
            ))
        })?;
        user.assume().map_err(|error| {
            Failure::Failed(format!("cannot become the user \"{}\": {error}", user.name))
        })?;
    }
    let error = command.exec();
    Err(Failure::Failed(format!("{}: {error}", program.display())))
}

/// Keeps what this process runs from putting characters into the input of its terminal, which a shell
/// of root reads afterwards. Jobs of that shell need the terminal, so PHP does not leave its session.
fn keep_from_typing() -> std::io::Result<()> {
    match seccomp::deny_typing() {
        // Root of a container may lack the right; what it starts gains no privileges then.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            process::no_new_privileges()?;
            seccomp::deny_typing()
        }
        denied => denied,
    }
}
