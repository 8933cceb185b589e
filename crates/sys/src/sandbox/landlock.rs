//! Landlock domains.
//!
//! The kernel compares files, not names: a rule applies to the file or directory that was at a path
//! when the [`Grant`] was opened. A file that is replaced by another one of the same name needs a
//! grant for its directory.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope, make_bitflags,
};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

/// First Landlock version whose domains can restrict files and still allow renaming between
/// directories (Linux 5.19).
pub const FILES: u32 = 2;

/// First Landlock version that can deny binding TCP sockets (Linux 6.7).
pub const BIND_TCP: u32 = 4;

/// First Landlock version that can deny signals to processes outside of a domain (Linux 6.12).
pub const SIGNALS: u32 = 6;

/// Returns the version of the kernel's Landlock interface; 0 if it has none or has disabled it.
pub fn version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(ask_version)
}

fn ask_version() -> u32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes no attributes (a null pointer and the size 0),
    // creates nothing and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Rights of a domain to a file, or to a directory and everything below it. File modes apply too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read files.
    Open,
    /// Read files, and list directories.
    Read,
    /// Read and execute files, and list directories.
    Execute,
    /// Read and write existing files, and files without a name (`O_TMPFILE`).
    Use,
    /// Everything except executing files and creating device nodes.
    Write,
}

impl Access {
    fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Access::Open => AccessFs::ReadFile.into(),
            Access::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
            Access::Execute => make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute}),
            Access::Use => make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate}),
            Access::Write => make_bitflags!(AccessFs::{
                ReadFile | ReadDir | WriteFile | Truncate | Refer | RemoveDir | RemoveFile |
                MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym
            }),
        }
    }
}

/// A file or directory that a domain may use.
#[derive(Debug)]
pub struct Grant {
    file: OwnedFd,
    access: Access,
    is_directory: bool,
}

impl Grant {
    /// Opens a file or directory, which need not be readable to the caller.
    pub fn open(path: impl AsRef<Path>, access: Access) -> io::Result<Grant> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = rustix::fs::open(path.as_ref(), flags, Mode::empty())?;
        Grant::of(file, access)
    }

    /// Opens a file or directory below another one. Error `CrossesDevices` if a link leads out of
    /// that one.
    pub fn open_below(
        directory: impl AsRef<Path>,
        path: impl AsRef<Path>,
        access: Access,
    ) -> io::Result<Grant> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory.as_ref(), flags, Mode::empty())?;
        let (path, resolve) = (path.as_ref(), ResolveFlags::BENEATH);
        Grant::of(openat2(directory, path, flags, Mode::empty(), resolve)?, access)
    }

    /// Creates a grant for an open file or directory.
    pub fn of(file: OwnedFd, access: Access) -> io::Result<Grant> {
        let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
        Ok(Grant { file, access, is_directory: kind == FileType::Directory })
    }

    fn rule(self) -> PathBeneath<OwnedFd> {
        let rights = if self.is_directory {
            self.access.rights()
        } else {
            self.access.rights() & AccessFs::from_file(ABI::V5)
        };
        PathBeneath::new(self.file, rights)
    }
}

/// A domain. Processes in it can never trace a process outside of it (ptrace, `/proc/PID/mem` and
/// `/proc/PID/fd`, `process_vm_readv`, `pidfd_getfd`) and, if the kernel can deny that
/// ([`SIGNALS`]), never send it a signal.
#[derive(Debug, Default)]
pub struct Domain {
    /// Usable files; `None` for all. A domain that restricts files cannot mount anything.
    pub files: Option<Vec<Grant>>,
    /// Denies ioctl calls on devices, if files are restricted.
    pub no_device_ioctl: bool,
    /// Denies binding TCP sockets.
    pub no_bind_tcp: bool,
    /// Denies connections to abstract unix sockets of processes outside.
    pub no_abstract_sockets: bool,
}

impl Domain {
    /// Puts the calling thread, and all that it starts from now on, into the domain. Restrictions
    /// that the kernel does not support are left out; without Landlock the error is `Unsupported`.
    pub fn enter(self) -> io::Result<()> {
        self.enter_with(version())
    }

    /// Enters the domain on a kernel with this Landlock version.
    pub(super) fn enter_with(self, version: u32) -> io::Result<()> {
        if version == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let mut ruleset = Ruleset::default();
        let mut grants = Vec::new();
        // A ruleset must handle at least one right. A scope restricts nothing else; without scopes
        // there must be a right to files. Creating block devices is a right that only root has.
        // Handling any right to files forbids renaming between directories, so this right is
        // handled and granted.
        if version >= SIGNALS {
            let mut scopes = BitFlags::from(Scope::Signal);
            if self.no_abstract_sockets {
                scopes |= Scope::AbstractUnixSocket;
            }
            ruleset = ruleset.scope(scopes).map_err(io::Error::other)?;
        }
        if self.no_bind_tcp && version >= BIND_TCP {
            ruleset = ruleset.handle_access(AccessNet::BindTcp).map_err(io::Error::other)?;
        }
        match self.files {
            Some(files) => {
                let mut handled = AccessFs::from_all(ABI::V5);
                if !self.no_device_ioctl {
                    handled &= !AccessFs::IoctlDev;
                }
                ruleset = ruleset.handle_access(handled).map_err(io::Error::other)?;
                grants.extend(files.into_iter().map(Grant::rule));
            }
            None if version < SIGNALS => {
                if version < FILES {
                    return Err(io::Error::new(io::ErrorKind::Unsupported, TOO_OLD));
                }
                let handled = make_bitflags!(AccessFs::{MakeBlock | Refer});
                ruleset = ruleset.handle_access(handled).map_err(io::Error::other)?;
                let root = Grant::open("/", Access::Read)?;
                grants.push(PathBeneath::new(root.file, AccessFs::Refer));
            }
            None => {}
        }
        let mut ruleset = ruleset.create().map_err(io::Error::other)?;
        for grant in grants {
            ruleset = ruleset.add_rule(grant).map_err(io::Error::other)?;
        }
        ruleset.no_new_privs(false).restrict_self().map_err(io::Error::other)?;
        Ok(())
    }
}

const TOO_OLD: &str =
    "with the Landlock of this kernel no file could be moved to another directory";
