//! The user and the directory of a new site.
//!
//! PHP runs as the user, and the server reads files with its own one. A new directory belongs to
//! the user and to the group of the server (mode 2750): new files in it get the group, and no other
//! user can look into it. A directory that exists is left as it is.

use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use howdah_sys::credentials::{self, Credentials, Unknown};
use howdah_sys::permission::{Obstacle, Wanted};

use super::file::failed;
use crate::failure::Failure;

/// What was made, so that it can be taken back.
#[derive(Default)]
pub(super) struct Made {
    user: Option<String>,
    /// The outermost directory first.
    directories: Vec<PathBuf>,
}

impl Made {
    /// Looks the user up, or makes it.
    pub(super) fn user(&mut self, name: &str, is_new: bool) -> Result<Credentials, Failure> {
        let look_up = || Credentials::look_up(name, None);
        match look_up() {
            Ok(user) => return Ok(user),
            Err(Unknown::User(_)) if is_new => {}
            Err(Unknown::User(_)) => {
                return Err(Failure::Failed(format!(
                    "there is no user \"{name}\"; add --create-user to make it"
                )));
            }
            Err(error) => return Err(Failure::Failed(format!("user \"{name}\": {error}"))),
        }
        if !credentials::is_root() {
            return Err(Failure::Failed(format!(
                "only root can make the user \"{name}\": sudo howdah site add"
            )));
        }
        let words =
            ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", "--"];
        let output = Command::new("useradd").args(words).arg(name).output();
        let output = output.map_err(|error| {
            Failure::Failed(format!("useradd, which makes users, cannot be started: {error}"))
        })?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure::Failed(format!("user \"{name}\" cannot be made: {reason}")));
        }
        self.user = Some(name.to_owned());
        look_up().map_err(|error| Failure::Failed(format!("user \"{name}\": {error}")))
    }

    /// Makes the directory of a site and those above it, if there are none. Returns true if it is
    /// new.
    pub(super) fn directory(
        &mut self,
        root: &Path,
        user: Option<&Credentials>,
        server: Option<&Credentials>,
    ) -> Result<bool, Failure> {
        if root.is_dir() {
            return Ok(false);
        }
        let mut missing: Vec<_> =
            root.ancestors().take_while(|directory| !directory.exists()).collect();
        missing.reverse();
        // It is a file, and stays as it is: the check of the site says that it is no directory.
        if missing.is_empty() {
            return Ok(false);
        }
        if let Some(above) = missing.first().and_then(|first| first.parent()) {
            only_own(above, root)?;
        }
        for directory in missing {
            DirBuilder::new()
                .mode(0o755)
                .create(directory)
                .map_err(|error| failed(directory, error))?;
            self.directories.push(directory.to_owned());
        }
        if let (Some(user), true) = (user.or(server), credentials::is_root()) {
            let group = server.map_or(user.gid, |server| server.gid);
            let set = chown(root, Some(user.uid), Some(group));
            let mode = Permissions::from_mode(0o2750);
            set.and_then(|()| std::fs::set_permissions(root, mode))
                .map_err(|error| failed(root, error))?;
        }
        Ok(true)
    }

    /// Takes back what was made.
    pub(super) fn undo(self) {
        for directory in self.directories.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
        if let Some(name) = self.user {
            let _ = Command::new("userdel").arg("--").arg(name).output();
        }
    }
}

/// Checks that only this user and root can change a directory and those above it: another user could
/// put a link in the place of a directory that is made there, and get what the link leads to.
fn only_own(directory: &Path, root: &Path) -> Result<(), Failure> {
    let real = directory.canonicalize().map_err(|error| failed(directory, error))?;
    let own = rustix::process::geteuid().as_raw();
    for above in real.ancestors() {
        let found = std::fs::metadata(above).map_err(|error| failed(above, error))?;
        let is_foreign = found.uid() != own && found.uid() != 0;
        let is_shared = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
        if is_foreign || is_shared {
            return Err(Failure::Failed(format!(
                "{}: it is not made, because another user can change {}; make it as that user, \
                 and run the command again",
                root.display(),
                above.display()
            )));
        }
    }
    Ok(())
}

/// Returns what keeps PHP and the server from the files of a site, a line each.
pub(super) fn obstacles(
    root: &Path,
    user: Option<&Credentials>,
    server: Option<&Credentials>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for (who, user) in [("PHP", user.or(server)), ("the server", server)] {
        let Some(user) = user else { continue };
        let Some(obstacle) = Obstacle::find(root, user, Wanted::Read) else { continue };
        let line = format!("files: {who} cannot read them: {obstacle}");
        if !lines.iter().any(|known: &String| known.ends_with(&obstacle.to_string())) {
            lines.push(line);
        }
    }
    lines
}
