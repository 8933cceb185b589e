//! `howdah deploy`: replaces the link to the release of a site, restarts its application, checks the
//! answers, and goes back to the former release if one of these fails.
//!
//! The user of the site may be hostile, and root runs the command. So the hooks, which run code of
//! the release, have the rights of that user, and links of that user lead root to nothing that is
//! not that user's ([`link`]).

mod hook;
mod link;
mod page;
mod trial;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use howdah_sys::{credentials, signals};
use serde_json::Value;

use crate::args::deploy::DeployArgs;
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::find::connect;
use crate::output::{printable, write_out};
use crate::sites::{Account, Machine};
use crate::visitor::Url;
use link::Link;
use trial::Trial;

/// Signals that end a deployment, between two of its steps: copies of the server end with it, and a
/// link that was replaced leads to the former release again. The command of a hook gets them.
const END: [i32; 3] = [signals::SIGHUP, signals::SIGINT, signals::SIGTERM];

/// Runs the command.
pub(super) fn run(args: &DeployArgs, machine: &dyn Machine) -> Result<(), Failure> {
    let urls = args.url.iter().map(|url| read_url(url)).collect::<Result<Vec<_>, _>>();
    let urls = urls.map_err(Failure::Failed)?;
    let client = connect(&args.server)?;
    let deployment = Deployment::prepare(args, &client, machine).map_err(Failure::Failed)?;
    let signals = signals::descriptor(&END)
        .map_err(|error| Failure::Failed(format!("signals cannot be blocked: {error}")))?;
    let unchanged = |problem| Failure::Failed(format!("{problem}; nothing was changed"));
    if let Some(command) = &args.before {
        deployment.execute("--before", command, &signals).map_err(unchanged)?;
    }
    deployment.try_out(args, &urls, &signals).map_err(unchanged)?;
    let text = deployment.link.text(&deployment.release);
    deployment.link.lead_to(&text).map_err(Failure::Failed)?;
    let (link, release) = (shown(deployment.link.path()), shown(&deployment.release));
    tell(&format!("{link}: leads to {release}\n"));
    if let Err(problem) = deployment.begin(args, &urls, &client, &signals) {
        return Err(deployment.go_back(&problem, &client));
    }
    if let Some(command) = &args.after {
        let problem = |problem| {
            Failure::Failed(format!(
                "{problem}; the new release serves, {link} is not changed back"
            ))
        };
        deployment.execute("--after", command, &signals).map_err(problem)?;
    }
    tell(&format!("{}: {release} serves\n", printable(&args.site)));
    Ok(())
}

/// A deployment of a release.
struct Deployment {
    site: String,
    link: Link,
    release: PathBuf,
    /// The running configuration, with the parts that sites were compiled to.
    compiled: Value,
    /// That of the hooks; `None` if they run as this process.
    account: Option<Account>,
}

impl Deployment {
    /// Looks up the release, the link, which is locked, and the user of the hooks.
    fn prepare(
        args: &DeployArgs,
        client: &Client,
        machine: &dyn Machine,
    ) -> Result<Deployment, String> {
        let release = link::release(&args.directory)?;
        let compiled = client.compiled().map_err(problem_of)?;
        let application = compiled
            .get("applications")
            .and_then(|all| all.get(&args.site))
            .ok_or_else(|| format!("the configuration has no application \"{}\"", args.site))?;
        let path = match &args.link {
            Some(link) => {
                std::path::absolute(link).map_err(|error| format!("{}: {error}", link.display()))?
            }
            None => {
                let root = root(application)
                    .ok_or_else(|| format!("the application \"{}\" has no root", args.site))?;
                first_link(&root).ok_or_else(|| {
                    format!(
                        "the root of \"{}\", {}, leads through no symbolic link; make it one, such \
                         as current -> releases/1, or name a link with --link",
                        args.site,
                        root.display()
                    )
                })?
            }
        };
        let account = credentials::is_root().then(|| Account::of(&[application], machine));
        let account = account.transpose().map_err(|problem| format!("{}: {problem}", args.site));
        Ok(Deployment {
            site: args.site.clone(),
            link: Link::open(&path)?,
            release,
            account: account?,
            compiled,
        })
    }

    /// Asks for the pages of the release before visitors see it, where that can be.
    fn try_out(&self, args: &DeployArgs, urls: &[Url], signals: &OwnedFd) -> Result<(), String> {
        if urls.is_empty() {
            return Ok(());
        }
        let mut trial = Trial::new(&self.compiled, &self.site, self.link.path(), &self.release)?;
        if let Some(obstacle) = trial.obstacle() {
            let site = printable(&self.site);
            tell(&format!("{site}: the release is not tried before: {obstacle}\n"));
            return Ok(());
        }
        for (url, text) in urls.iter().zip(&args.url) {
            let found = trial.status(url).map_err(|problem| format!("{text}: {problem}"))?;
            let told = match found {
                Some(status) if status >= 400 => {
                    return Err(format!("{text} is answered with {status} by the new release"));
                }
                Some(status) => format!("{status} from the new release, which nobody sees yet"),
                None => format!(
                    "not tried before: the server has no listener with port {}, or no path below {}",
                    url.port,
                    self.link.path().display()
                ),
            };
            tell(&format!("{}: {told}\n", printable(text)));
            go_on(signals)?;
        }
        Ok(())
    }

    /// Restarts the application and checks its answers.
    fn begin(
        &self,
        args: &DeployArgs,
        urls: &[Url],
        client: &Client,
        signals: &OwnedFd,
    ) -> Result<(), String> {
        self.restart(client)?;
        go_on(signals)?;
        for (url, text) in urls.iter().zip(&args.url) {
            let begun = Instant::now();
            let status = page::status(url, args.cacert.as_deref());
            let status = status.map_err(|problem| format!("{text}: {problem}"))?;
            let took = begun.elapsed().as_millis();
            tell(&format!("{}: {status}, {took} ms\n", printable(text)));
            if status >= 400 {
                return Err(format!("{text} is answered with {status}"));
            }
            go_on(signals)?;
        }
        if let Some(command) = &args.check {
            self.execute("--check", command, signals)?;
        }
        go_on(signals)
    }

    fn restart(&self, client: &Client) -> Result<(), String> {
        let target = format!("/control/applications/{}/restart", encode(&self.site));
        client.request("POST", &target, b"").map(drop).map_err(problem_of)
    }

    /// Goes back to the former release because of a problem. Returns the failure.
    fn go_back(&self, problem: &str, client: &Client) -> Failure {
        let link = self.link.path().display();
        let Some(former) = self.link.former() else {
            let gone = match self.link.remove() {
                Ok(()) => format!("{link} is removed, as before"),
                Err(error) => format!("{link} could not be removed: {error}"),
            };
            return Failure::Failed(format!("{problem}; {gone}"));
        };
        let former_text = former.display();
        let back = match self.link.lead_to(former).map(|()| self.restart(client)) {
            Ok(Ok(())) => format!("{link} leads to {former_text} again, which serves"),
            Ok(Err(error)) => {
                format!("{link} leads to {former_text} again, but that was not restarted: {error}")
            }
            Err(error) => format!("it could not be changed back to {former_text}: {error}"),
        };
        Failure::Failed(format!("{problem}; {back}"))
    }

    /// Runs a command in the directory of the release, as the user of the site.
    fn execute(&self, option: &str, command: &str, signals: &OwnedFd) -> Result<(), String> {
        let mut shell = match &self.account {
            Some(account) => account.command("sh"),
            None => Command::new("sh"),
        };
        shell.args(["-c", command]).current_dir(&self.release);
        shell.env("HOWDAH_SITE", &self.site).env("HOWDAH_RELEASE", &self.release);
        let user = self.account.as_ref().and_then(|account| account.user.as_ref());
        hook::run(&mut shell, user, signals)
            .map_err(|problem| format!("{option} has failed: {problem}"))
    }
}

/// Error: a signal has asked the command to end.
fn go_on(signals: &OwnedFd) -> Result<(), String> {
    match signals::next(signals) {
        Some(signal) => Err(format!("the command was ended by signal {signal}")),
        None => Ok(()),
    }
}

/// Prints a line. Whether somebody reads it does not matter to the deployment.
fn tell(line: &str) {
    let _ = write_out(line);
}

/// Reads the value of `--url`.
fn read_url(text: &str) -> Result<Url, String> {
    let problem = || format!("--url {text}: must be a URL like https://shop.example/cart");
    Url::parse(text).ok_or_else(problem)
}

fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

fn problem_of(failure: Failure) -> String {
    match failure {
        Failure::Failed(problem) | Failure::Unreachable(problem) => problem,
        Failure::PartsOut(_) => "parts of the configuration are out".to_owned(),
    }
}

/// Returns the first document root of an application.
fn root(application: &Value) -> Option<PathBuf> {
    let targets = application.get("targets").and_then(Value::as_object);
    let of_target = || targets?.values().find_map(|target| target.get("root"));
    application.get("root").or_else(of_target).and_then(Value::as_str).map(PathBuf::from)
}

/// Returns the first symbolic link on the way to a path. Links of the system, directly below `/`, do
/// not count.
fn first_link(path: &Path) -> Option<PathBuf> {
    let mut above: Vec<_> = path.ancestors().collect();
    above.reverse();
    let is_link = |path: &&Path| {
        path.components().count() > 2
            && fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
    };
    above.into_iter().find(is_link).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_link_is_the_first_on_the_way_to_the_root() {
        assert_eq!(root(&json!({"root": "/srv/a"})), Some("/srv/a".into()));
        assert_eq!(root(&json!({"targets": {"x": {"root": "/srv/b"}}})), Some("/srv/b".into()));
        assert_eq!(root(&json!({})), None);
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(base.join("releases/1/public")).unwrap();
        symlink("releases/1", base.join("current")).unwrap();
        assert_eq!(first_link(&base.join("current/public")), Some(base.join("current")));
        assert_eq!(first_link(&base.join("releases/1/public")), None);
    }
}
