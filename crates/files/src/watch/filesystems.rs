//! File systems that report all changes.
//!
//! The kernel reports only changes that pass through it. Changes that another machine makes in a
//! network file system, or the program behind a file system in user space, do not.

use std::os::fd::AsFd;

use rustix::fs::{CWD, Mode, OFlags};

/// Devices, and whether all changes on them are reported.
#[derive(Debug, Default)]
pub(super) struct FileSystems(Vec<(u64, bool)>);

impl FileSystems {
    /// Returns true if all changes on a device are reported. `path` names something on it.
    pub fn report_changes(&mut self, device: u64, path: &[u8]) -> bool {
        if let Some((_, reports)) = self.0.iter().find(|(known, _)| *known == device) {
            return *reports;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(CWD, path, flags, Mode::empty()) else { return false };
        let reports = kind(&file).is_some_and(|kind| REPORTING.contains(&kind));
        if self.0.len() >= MAX_DEVICES {
            self.0.clear();
        }
        self.0.push((device, reports));
        reports
    }

    /// Sets whether a device reports all changes.
    #[cfg(test)]
    pub fn set(&mut self, device: u64, reports: bool) {
        self.0.retain(|(known, _)| *known != device);
        self.0.push((device, reports));
    }
}

/// Returns the kernel's number of a kind of file systems.
fn kind(file: impl AsFd) -> Option<u32> {
    let found = rustix::fs::fstatfs(file).ok()?;
    // The numbers have 32 bits, and the field more.
    u32::try_from(found.f_type & 0xffff_ffff).ok()
}

/// Most devices that are remembered.
const MAX_DEVICES: usize = 64;

/// File systems on local storage and in memory, by the numbers in statfs(2). In `overlay`, the
/// layers below must not change while it is mounted.
const REPORTING: [u32; 11] = [
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // F2FS
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlay
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // EROFS
];
