//! A small disk, which is soon full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::requirements;

/// A file system of 64 KiB; unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a small file system with these permissions; `None` if the test may not mount.
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
        // Processes with open files there keep them.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
