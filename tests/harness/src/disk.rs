//! A disk that is soon full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::requirements;

/// A file system of 64 KiB, until it is dropped.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one with these permissions; `None` where that is not allowed.
    pub fn mount(at: &Path, mode: &str) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size=64k,mode={mode}");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let output = mount.output().ok()?;
        if !output.status.success() {
            requirements::skipped("a small file system cannot be mounted here");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What has files open there goes on without a name.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
