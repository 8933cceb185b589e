//! A small disk, which is soon full.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::requirements;

/// A file system of 64 KiB unless another size is given; unmounted on drop.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a small file system with these permissions; `None` if the test may not mount.
    pub fn mount(at: &Path, mode: &str) -> Option<SmallDisk> {
        SmallDisk::sized(at, mode, 64)
    }

    /// Like [`SmallDisk::mount`], with this size in KiB.
    pub fn sized(at: &Path, mode: &str, size: u32) -> Option<SmallDisk> {
        fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let options = format!("size={size}k,mode={mode}");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        let output = mount.output().ok()?;
        if !output.status.success() {
            requirements::skipped("a small file system cannot be mounted here");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }

    /// Writes a file that leaves no room.
    pub fn fill(&self) {
        // Page by page: the last one is the rest.
        let mut file = fs::File::create(self.0.join("fill")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }

    /// Removes the file of [`SmallDisk::fill`].
    pub fn free(&self) {
        fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Processes with open files there keep them.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
