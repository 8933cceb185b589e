//! `howdah php --site SITE`: the command-line PHP of the distribution with what a site has.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_config::include::application_of_site;
use howdah_sys::credentials::{self, Credentials};
use serde_json::{Map, Value};

use super::Machine;
use super::check::Hosts;
use super::document::Document;
use super::show;
use crate::args::sites::PhpArgs;
use crate::failure::Failure;

/// Directories of programs.
const DIRECTORIES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/opt/php/bin"];

/// Variables of the caller that a script keeps.
const KEPT: [&str; 5] = ["TERM", "LANG", "LC_ALL", "COLUMNS", "LINES"];

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
    let user = match text("user") {
        Some(name) => Some(
            Credentials::look_up(name, text("group"))
                .map_err(|error| Failure::Failed(format!("user of {}: {error}", args.site)))?,
        ),
        None => machine.server_user(),
    };
    let version = text("type").and_then(|kind| kind.strip_prefix("php")).unwrap_or_default();
    let program = find(version.trim(), &|path| path.is_file())?;
    let mut command = Command::new(&program);
    command.env_clear();
    let kept = KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    kept.for_each(|(name, value)| {
        command.env(name, value);
    });
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    if let Some(user) = &user {
        command.env("HOME", &user.home).env("USER", &user.name).env("LOGNAME", &user.name);
    }
    for (name, value) in members(application.get("environment")) {
        command.env(name, value);
    }
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
                command.arg("-d").arg(format!("{name}={}", quoted(&value)));
            }
        }
    }
    command.args(&args.arguments);
    if let Some(user) = user.filter(|user| user.uid != Credentials::current().uid) {
        if !credentials::is_root() {
            return Err(Failure::Failed(format!(
                "only root can run PHP as the user \"{}\": sudo howdah php",
                user.name
            )));
        }
        user.assume().map_err(|error| {
            Failure::Failed(format!("cannot become the user \"{}\": {error}", user.name))
        })?;
    }
    let error = command.exec();
    Err(Failure::Failed(format!("{}: {error}", program.display())))
}

/// Returns the names and values of an object of strings.
fn members(value: Option<&Value>) -> Vec<(String, String)> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Returns a value as `-d` reads it: as in a file of settings.
fn quoted(value: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:,".contains(&byte);
    if !value.is_empty() && value.bytes().all(is_plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Finds the command of a version of PHP: `8.4`, or the newest for an empty one.
fn find(version: &str, exists: &dyn Fn(&Path) -> bool) -> Result<PathBuf, Failure> {
    // The package has the first two numbers only.
    let short: Vec<_> = version.split('.').take(2).collect();
    let versions: Vec<String> = match short.as_slice() {
        [""] | [] => (0..20).rev().map(|minor| format!("8.{minor}")).collect(),
        [major] => (0..20).rev().map(|minor| format!("{major}.{minor}")).collect(),
        parts => vec![parts.join(".")],
    };
    for version in &versions {
        let name = format!("php{version}");
        let paths = DIRECTORIES.iter().map(|directory| Path::new(directory).join(&name));
        if let Some(path) = paths.into_iter().find(|path| exists(path)) {
            return Ok(path);
        }
    }
    let package = match versions.as_slice() {
        [one] => format!("php{one}-cli"),
        _ => "php-cli".to_owned(),
    };
    Err(Failure::Failed(format!(
        "there is no command php{version} in {}; install it (Debian: apt-get install {package})",
        DIRECTORIES.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_of_the_version_is_found() {
        let there = ["/usr/bin/php8.2", "/usr/bin/php8.10", "/usr/bin/php8.4"];
        let exists = |path: &Path| there.iter().any(|one| Path::new(one) == path);
        let found = |version| find(version, &exists).map(|path| path.display().to_string());
        assert_eq!(found("8.2").as_deref(), Ok("/usr/bin/php8.2"));
        assert_eq!(found("8.4.7").as_deref(), Ok("/usr/bin/php8.4"));
        assert_eq!(found("").as_deref(), Ok("/usr/bin/php8.10"));
        assert_eq!(found("8").as_deref(), Ok("/usr/bin/php8.10"));
        let Err(Failure::Failed(problem)) = found("8.3") else { panic!() };
        assert!(problem.contains("apt-get install php8.3-cli"), "{problem}");
    }

    #[test]
    fn values_of_settings_are_quoted() {
        assert_eq!(quoted("256M"), "256M");
        assert_eq!(quoted("a b;c"), "\"a b;c\"");
        assert_eq!(quoted("a\"b\\"), "\"a\\\"b\\\\\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
