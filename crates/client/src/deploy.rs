//! `howdah deploy`: replaces the link to the release of a site, restarts its application, checks the
//! answers, and goes back to the former release if one of these fails.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Uid, chownat, flock};
use serde_json::Value;

use crate::args::deploy::DeployArgs;
use crate::client::{Client, encode};
use crate::failure::Failure;
use crate::find::connect;
use crate::output::{printable, write_out};
use crate::visitor::Visitor;

/// Runs the command.
pub(super) fn run(args: &DeployArgs) -> Result<(), Failure> {
    let urls = args.url.iter().map(|url| Page::read(url)).collect::<Result<Vec<_>, _>>();
    let urls = urls.map_err(Failure::Failed)?;
    let client = connect(&args.server)?;
    let deployment = Deployment::prepare(args, &client).map_err(Failure::Failed)?;
    // Until the end of the command.
    let _lock = deployment.lock().map_err(Failure::Failed)?;
    if let Some(command) = &args.before {
        let problem = |problem| Failure::Failed(format!("{problem}; nothing was changed"));
        deployment.execute("--before", command).map_err(problem)?;
    }
    deployment.lead_to(&deployment.target).map_err(Failure::Failed)?;
    let (link, release) = (deployment.link.display(), deployment.release.display());
    write_out(&format!("{link}: leads to {release}\n"))?;
    if let Err(problem) = deployment.begin(args, &urls, &client) {
        return Err(deployment.go_back(&problem, &client));
    }
    if let Some(command) = &args.after {
        let problem = |problem| {
            Failure::Failed(format!(
                "{problem}; the new release serves, {link} is not changed back"
            ))
        };
        deployment.execute("--after", command).map_err(problem)?;
    }
    write_out(&format!("{}: {release} serves\n", printable(&args.site)))
}

/// A deployment of a release.
struct Deployment {
    site: String,
    link: PathBuf,
    release: PathBuf,
    /// The text of the link for the release.
    target: PathBuf,
    /// The text of the link before; `None` if there was no link.
    former: Option<PathBuf>,
    /// Owner and group of the link.
    owner: (u32, u32),
}

impl Deployment {
    /// Looks up the link and the release.
    fn prepare(args: &DeployArgs, client: &Client) -> Result<Deployment, String> {
        let release = fs::canonicalize(&args.directory)
            .and_then(|release| {
                let is_directory = fs::metadata(&release)?.is_dir();
                let problem = || io::Error::from(io::ErrorKind::NotADirectory);
                is_directory.then_some(release).ok_or_else(problem)
            })
            .map_err(|error| format!("{}: {error}", args.directory.display()))?;
        let link = match &args.link {
            Some(link) => {
                std::path::absolute(link).map_err(|error| format!("{}: {error}", link.display()))?
            }
            None => {
                let compiled = client.compiled().map_err(|failure| match failure {
                    Failure::Failed(problem) | Failure::Unreachable(problem) => problem,
                    Failure::PartsOut(_) => "the configuration has parts that are out".to_owned(),
                })?;
                let root = root(&compiled, &args.site)?;
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
        let problem = |error: io::Error| format!("{}: {error}", link.display());
        let directory = link.parent().ok_or("--link must name a symbolic link")?;
        let (former, of) = match fs::symlink_metadata(&link) {
            Ok(found) if found.is_symlink() => {
                (Some(fs::read_link(&link).map_err(problem)?), found)
            }
            Ok(_) => return Err(format!("{} is no symbolic link", link.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (None, fs::metadata(directory).map_err(problem)?)
            }
            Err(error) => return Err(problem(error)),
        };
        let target = relative_target(directory, &release);
        let (site, owner) = (args.site.clone(), (of.uid(), of.gid()));
        Ok(Deployment { site, link, release, target, former, owner })
    }

    /// Refuses a second deployment of the link while the lock is held.
    fn lock(&self) -> Result<File, String> {
        let directory = self.link.parent().unwrap_or(Path::new("/"));
        let locked = File::open(directory).and_then(|file| {
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => format!(
                "another deployment in {} is in progress; try again when it has ended",
                directory.display()
            ),
            _ => format!("{}: {error}", directory.display()),
        })
    }

    /// Replaces the link, so that at each moment it leads to one of both releases.
    fn lead_to(&self, target: &Path) -> Result<(), String> {
        let name = self.link.file_name().unwrap_or_default().to_string_lossy();
        let new = self.link.with_file_name(format!(".{name}.new.{}", std::process::id()));
        let replaced = symlink(target, &new).and_then(|()| {
            let found = fs::symlink_metadata(&new)?;
            // Links that shares follow belong to the owner of their target.
            if (found.uid(), found.gid()) != self.owner {
                let (user, group) = (Uid::from_raw(self.owner.0), Gid::from_raw(self.owner.1));
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                // Only root can; otherwise it belongs to the user of this command.
                let _ = chownat(CWD, &new, Some(user), Some(group), flags);
            }
            fs::rename(&new, &self.link)
        });
        replaced.map_err(|error| {
            let _ = fs::remove_file(&new);
            format!("{}: {error}", self.link.display())
        })
    }

    /// Restarts the application and checks its answers.
    fn begin(&self, args: &DeployArgs, pages: &[Page], client: &Client) -> Result<(), String> {
        self.restart(client)?;
        for page in pages {
            let begun = Instant::now();
            let status = page.status()?;
            let took = begun.elapsed().as_millis();
            let line = format!("{}: {status}, {took} ms\n", printable(&page.url));
            // Whether somebody reads it does not matter to the deployment.
            let _ = write_out(&line);
            if status >= 400 {
                return Err(format!("{} is answered with {status}", page.url));
            }
        }
        args.check.iter().try_for_each(|command| self.execute("--check", command))
    }

    fn restart(&self, client: &Client) -> Result<(), String> {
        let target = format!("/control/applications/{}/restart", encode(&self.site));
        match client.request("POST", &target, b"") {
            Ok(_) => Ok(()),
            Err(Failure::Failed(problem) | Failure::Unreachable(problem)) => Err(problem),
            Err(Failure::PartsOut(_)) => Err("parts of the configuration are out".to_owned()),
        }
    }

    /// Goes back to the former release because of a problem. Returns the failure.
    fn go_back(&self, problem: &str, client: &Client) -> Failure {
        let link = self.link.display();
        let Some(former) = &self.former else {
            let gone = match fs::remove_file(&self.link) {
                Ok(()) => format!("{link} is removed, as before"),
                Err(error) => format!("{link} could not be removed: {error}"),
            };
            return Failure::Failed(format!("{problem}; {gone}"));
        };
        let back = match self.lead_to(former).and_then(|()| self.restart(client)) {
            Ok(()) => format!("{link} leads to {} again, which serves", former.display()),
            Err(error) => format!("it could not be changed back to {}: {error}", former.display()),
        };
        Failure::Failed(format!("{problem}; {back}"))
    }

    /// Runs a command in the directory of the release.
    fn execute(&self, option: &str, command: &str) -> Result<(), String> {
        let status = Command::new("sh")
            .args(["-c", command])
            .current_dir(&self.release)
            .env("HOWDAH_SITE", &self.site)
            .env("HOWDAH_RELEASE", &self.release)
            .status()
            .map_err(|error| format!("{option}: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("{option} has failed: {status}")) }
    }
}

/// Returns the first document root of an application.
fn root(compiled: &Value, site: &str) -> Result<PathBuf, String> {
    let application = compiled
        .get("applications")
        .and_then(|all| all.get(site))
        .ok_or_else(|| format!("the configuration has no application \"{site}\""))?;
    let targets = application.get("targets").and_then(Value::as_object);
    let of_target = || targets?.values().find_map(|target| target.get("root"));
    let root = application.get("root").or_else(of_target).and_then(Value::as_str);
    root.map(PathBuf::from).ok_or_else(|| format!("the application \"{site}\" has no root"))
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

/// Returns the text of a link in `directory` that leads to a release: relative if the release is
/// below the directory, so that both can be moved.
fn relative_target(directory: &Path, release: &Path) -> PathBuf {
    let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    match release.strip_prefix(real) {
        Ok(below) if below.components().all(|part| matches!(part, Component::Normal(_))) => {
            below.to_owned()
        }
        _ => release.to_owned(),
    }
}

/// A page to ask for.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    url: String,
    /// Name and port, as in the URL.
    host: String,
    /// Path and query.
    target: String,
}

impl Page {
    fn read(url: &str) -> Result<Page, String> {
        let problem = || {
            format!(
                "--url {url}: must be a URL like http://shop.example/; for https, use --check 'curl \
                 -fsS URL'"
            )
        };
        let rest = url.strip_prefix("http://").ok_or_else(problem)?;
        let (host, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let target = if target.is_empty() { "/" } else { target };
        let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || host.contains('@') || !is_text(host) || !is_text(target) {
            return Err(problem());
        }
        let (url, host, target) = (url.to_owned(), host.to_owned(), target.to_owned());
        Ok(Page { url, host, target })
    }

    /// Asks for the page. Returns the status.
    fn status(&self) -> Result<u16, String> {
        let problem = |error: io::Error| format!("{}: {error}", self.url);
        let has_port = self.host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address = if has_port { self.host.clone() } else { format!("{}:80", self.host) };
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(problem)?.collect();
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match Visitor::new(address, &self.host, false).get(&self.target) {
                Ok(page) => return Ok(page.status),
                Err(error) => last = error,
            }
        }
        Err(problem(last))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_has_a_host_and_a_target() {
        for (url, host, target) in [
            ("http://shop.example", "shop.example", "/"),
            ("http://shop.example:8080/a?b=c", "shop.example:8080", "/a?b=c"),
            ("http://[::1]:80/", "[::1]:80", "/"),
        ] {
            let page = Page::read(url).unwrap();
            assert_eq!((page.host.as_str(), page.target.as_str()), (host, target));
        }
        for wrong in [
            "https://a/",
            "a",
            "http://",
            "http:///a",
            "http://a b/",
            "http://u@a/",
            "http://a/\r\nX",
        ] {
            assert!(Page::read(wrong).unwrap_err().contains("--check"), "{wrong}");
        }
    }

    #[test]
    fn the_link_is_the_first_on_the_way_to_the_root_and_its_target_relative() {
        let compiled = json!({"applications": {
            "a": {"root": "/srv/a"}, "b": {"targets": {"x": {"root": "/srv/b"}}}, "c": {},
        }});
        assert_eq!(root(&compiled, "a"), Ok("/srv/a".into()));
        assert_eq!(root(&compiled, "b"), Ok("/srv/b".into()));
        assert!(root(&compiled, "c").is_err() && root(&compiled, "d").is_err());
        let place = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(base.join("releases/1/public")).unwrap();
        symlink("releases/1", base.join("current")).unwrap();
        assert_eq!(first_link(&base.join("current/public")), Some(base.join("current")));
        assert_eq!(first_link(&base.join("releases/1/public")), None);
        let release = base.join("releases/1");
        assert_eq!(relative_target(&base, &release), Path::new("releases/1"));
        assert_eq!(relative_target(&base.join("releases/1/public"), &release), release);
    }
}
