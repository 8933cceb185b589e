//! `--open`: shows the site in a browser once it is served.

use std::io::{PipeWriter, Write, pipe};
use std::process::{Command, Stdio};

/// Reads a URL, and opens it. The browser may go on when the server ends: it has a session of its
/// own, and this process does not adopt it, as it has not become the one that adopts orphans.
const SCRIPT: &str =
    "IFS= read -r url && exec ${BROWSER:-xdg-open} \"$url\" </dev/null >/dev/null 2>&1";

/// A program that waits for the URL. It ends with this value.
pub struct Browser(PipeWriter);

impl Browser {
    /// Starts the program. Must be called before the server begins to adopt orphans.
    pub fn prepare(is_root: bool) -> Result<Browser, String> {
        if is_root {
            return Err("--open: a browser must not run as root; start the server as another \
                        user, or open the address yourself"
                .to_owned());
        }
        let failed = |error: std::io::Error| format!("--open: {error}");
        let (reader, writer) = pipe().map_err(failed)?;
        let mut command = Command::new("setsid");
        command.args(["--fork", "sh", "-c", SCRIPT]).stdin(reader);
        let status = command.stdout(Stdio::null()).status().map_err(failed)?;
        if status.success() { Ok(Browser(writer)) } else { Err("--open: setsid fails".to_owned()) }
    }

    /// Opens a URL.
    pub fn open(mut self, url: &str) {
        // If the program has ended, there is nobody to tell.
        let _ = writeln!(self.0, "{url}");
    }
}
