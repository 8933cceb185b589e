//! The user and the variables of a process that is run for a site.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use howdah_sys::credentials::Credentials;
use howdah_sys::environment;
use serde_json::Value;

use super::Machine;

/// Variables of the caller that the process keeps.
const KEPT: [&str; 5] = ["TERM", "LANG", "LC_ALL", "COLUMNS", "LINES"];

/// The account that a process of a site runs in.
pub(crate) struct Account {
    /// The user of the site; `None` if that is the one of this process.
    pub(crate) user: Option<Credentials>,
    environment: Vec<(String, String)>,
}

impl Account {
    /// Returns the account of an application; `parts` are the objects that may name its `user`, the
    /// application first. Error: the user does not exist, or a value cannot be read.
    pub(crate) fn of(parts: &[&Value], machine: &dyn Machine) -> Result<Account, String> {
        let text = |key: &str| parts.iter().find_map(|part| part.get(key)?.as_str());
        let user = match text("user") {
            Some(name) => Some(
                Credentials::look_up(name, text("group"))
                    .map_err(|error| format!("user \"{name}\": {error}"))?,
            ),
            None => machine.server_user(),
        };
        let path = ("PATH".to_owned(), environment::DEFAULT_PATH.to_owned());
        let mut all = vec![path];
        if let Some(user) = &user {
            let known = [("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)];
            all.extend(known.map(|(name, value)| (name.to_owned(), value.clone())));
        }
        all.extend(variables(parts.first().and_then(|part| part.get("environment")))?);
        let user = user.filter(|user| user.uid != Credentials::current().uid);
        Ok(Account { user, environment: all })
    }

    /// Returns a command with the variables of the account, and with the user of this process.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear();
        let kept = KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(kept).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Returns the variables of an application; values in files are read with the rights of this
/// process. Those of the server's environment are not known here, but for their defaults.
fn variables(value: Option<&Value>) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (name, value) in value.and_then(Value::as_object).into_iter().flatten() {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        let value = match (value.as_str().or_else(|| text("default")), text("file")) {
            (Some(value), _) => value.to_owned(),
            (None, Some(file)) => environment::read_value(Path::new(file))
                .map_err(|error| format!("environment/{name}: {file}: {error}"))?,
            (None, None) => continue,
        };
        variables.push((name.clone(), value));
    }
    Ok(variables)
}

/// Returns the names and values of an object of strings.
pub(super) fn members(value: Option<&Value>) -> Vec<(String, String)> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
