//! `--mail-to page`: messages of scripts are kept in a file, and a page of this machine shows them.
//!
//! The page is files of a share: [`MailPage::new`] makes a directory with them and with the file of
//! the messages, which the mail process appends to (mbox). The page reads that file in the browser.
//! The directory belongs to the user of the server: scripts cannot change what is in it.
//!
//! Messages are hostile: anybody can write one through a form of the site. The page shows text, and
//! HTML in frames without scripts; its policy permits nothing but its own files. Messages are secret,
//! as they reset passwords: other machines do not reach the page, nor do other sites in a browser
//! whose name leads to this machine.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use howdah_config::Template;
use howdah_sys::credentials::Credentials;
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::reload::{LOOPBACK, first_route};

/// Value of `--mail-to`.
pub const OPTION: &str = "page";

/// Path of the page.
const PATH: &str = "/-/mail/";

/// Hosts of requests for the page.
const HOSTS: [&str; 4] = ["localhost", "*.localhost", "127.0.0.1", "[::1]"];

/// Name of the file with the messages.
const MESSAGES: &str = "messages";

const FILES: [(&str, &str); 4] = [
    ("index.html", include_str!("mail_page/index.html")),
    ("page.css", include_str!("mail_page/page.css")),
    ("page.js", include_str!("mail_page/page.js")),
    (MESSAGES, ""),
];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Number of names that are tried for the directory.
const MAX_PLACES: u32 = 1000;

/// The directory of a page. It is removed with the value of the last process that has one.
pub struct MailPage {
    directory: PathBuf,
    messages: File,
}

impl MailPage {
    /// Makes the directory, for a router that reads files as a user (`None`: that of this process).
    pub fn new(reader: Option<&Credentials>) -> Result<MailPage, String> {
        let base = std::env::temp_dir();
        let name = |number| base.join(format!("howdah-mail-{}-{number}", std::process::id()));
        for directory in (0..MAX_PLACES).map(name) {
            // Others may have made one of the same name.
            match DirBuilder::new().mode(0o700).create(&directory) {
                Ok(()) => return MailPage::fill(directory, reader),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&directory, &error)),
            }
        }
        Err(failed(&base, &"no directory can be made there"))
    }

    fn fill(directory: PathBuf, reader: Option<&Credentials>) -> Result<MailPage, String> {
        let fill = || {
            let place = place(&directory);
            fs::create_dir_all(&place)?;
            for (name, text) in FILES {
                let mut options = OpenOptions::new();
                let mut file =
                    options.write(true).create_new(true).mode(0o600).open(place.join(name))?;
                file.write_all(text.as_bytes())?;
            }
            let Some(reader) = reader else { return Ok(()) };
            let all = FILES.map(|(name, _)| (place.join(name), 0o640)).into_iter();
            let above = place.ancestors().take_while(|above| above.starts_with(&directory));
            for (path, mode) in all.chain(above.map(|above| (above.to_owned(), 0o750))) {
                chown(&path, None, Some(reader.gid))?;
                fs::set_permissions(&path, Permissions::from_mode(mode))?;
            }
            Ok(())
        };
        fill().map_err(|error: io::Error| failed(&directory, &error))?;
        MailPage::open(directory)
    }

    /// Opens the directory that a document names: that of the server which this one replaces.
    pub fn of_document(document: &[u8]) -> Result<Option<MailPage>, String> {
        let mut document: Value = serde_json::from_slice(document).unwrap_or_default();
        let steps = first_route(&mut document).into_iter().flatten();
        let mut shares = steps.filter(|step| step["match"] == matched());
        let share = shares.find_map(|step| step["action"]["share"].as_str()?.strip_suffix("$uri"));
        share.map(|share| MailPage::open(share.replace("${dollar}", "$").into())).transpose()
    }

    fn open(directory: PathBuf) -> Result<MailPage, String> {
        let path = place(&directory).join(MESSAGES);
        let open = || {
            let messages = OpenOptions::new().append(true).open(&path)?;
            flock(&messages, FlockOperation::LockShared)?;
            Ok(messages)
        };
        let messages = open().map_err(|error: io::Error| failed(&path, &error))?;
        Ok(MailPage { directory, messages })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the file that takes all messages.
    pub fn file(&self) -> Result<OwnedFd, String> {
        let path = place(&self.directory).join(MESSAGES);
        // Of its own: a lock belongs to what was opened.
        let file = OpenOptions::new().append(true).open(&path);
        file.map(OwnedFd::from).map_err(|error| failed(&path, &error))
    }
}

impl Drop for MailPage {
    fn drop(&mut self) {
        if flock(&self.messages, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Nothing but the page: a document, which others may have changed, names the directory.
            let place = place(&self.directory);
            for (name, _) in FILES {
                let _ = fs::remove_file(place.join(name));
            }
            let own = place.ancestors().take_while(|above| above.starts_with(&self.directory));
            own.for_each(|above| drop(fs::remove_dir(above)));
        }
    }
}

/// Adds the page to a document.
pub fn add(document: &mut Value, directory: Option<&Path>) {
    let (Some(directory), Some(steps)) = (directory, first_route(document)) else { return };
    let share = Template::escape(&directory.to_string_lossy()) + "$uri";
    let fields = json!({
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",
    });
    let action = json!({"share": share, "response_headers": fields, "access_log": false});
    steps.insert(0, json!({"match": matched(), "action": action}));
}

/// Returns the line that says where the page is, of a document with it.
pub fn explain(document: &Value) -> String {
    let listeners = document.get("listeners").and_then(Value::as_object);
    let first = listeners.and_then(|all| all.iter().next());
    let url = first.map_or_else(String::new, |(name, listener)| {
        let scheme = if listener.get("tls").is_some() { "https" } else { "http" };
        format!("{scheme}://{}", name.replacen("*:", "localhost:", 1))
    });
    format!("mail: shown at {url}{PATH}, in browsers of this machine")
}

fn matched() -> Value {
    json!({
        "uri": [PATH.trim_end_matches('/'), format!("{PATH}*")], "source": LOOPBACK, "host": HOSTS,
    })
}

/// Returns where the files of the page are in its directory.
fn place(directory: &Path) -> PathBuf {
    directory.join(PATH.trim_matches('/'))
}

fn failed(path: &Path, problem: &dyn std::fmt::Display) -> String {
    format!("--mail-to {OPTION}: {}: {problem}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_found_in_a_document_and_is_removed_by_the_last_server() {
        let page = MailPage::new(None).unwrap();
        let mut document = json!({"listeners": {"*:80": {"pass": "routes"}}, "routes": []});
        assert!(MailPage::of_document(document.to_string().as_bytes()).unwrap().is_none());
        add(&mut document, Some(page.directory()));
        howdah_config::parse(document.to_string().as_bytes()).unwrap();
        assert_eq!(
            explain(&document),
            "mail: shown at http://localhost:80/-/mail/, in browsers of this machine"
        );
        let successor =
            MailPage::of_document(document.to_string().as_bytes()).unwrap().expect("the page");
        let directory = page.directory().to_owned();
        assert_eq!(successor.directory(), directory);
        drop(page);
        assert!(place(&directory).join("index.html").exists());
        drop(successor);
        assert!(!directory.exists());

        // A file of somebody else stays.
        let page = MailPage::new(None).unwrap();
        let directory = page.directory().to_owned();
        fs::write(directory.join("other"), "").unwrap();
        drop(page);
        assert!(directory.join("other").exists() && !place(&directory).exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
