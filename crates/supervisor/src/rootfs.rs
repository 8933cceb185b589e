//! The root directory of an application, with the files that PHP needs.
//!
//! Runs in the new process, in its own mount namespace and before it drops its privileges. The
//! directory belongs to another user: every path in it is resolved as if it were the root already,
//! so that no link leads out, and mounts are attached to descriptors, not to paths.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use howdah_wire::messages::{Isolation, Problem};
use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, fstatvfs, mkdirat, open, openat2,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};

/// Files and directories that PHP needs: libraries, extensions and settings, and those for names,
/// time zones and certificates. Missing ones are left out.
const LANGUAGE_DEPS: [&str; 21] = [
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/php",
    "/etc/php.d",
    "/etc/php.ini",
    "/usr/local/etc/php",
    "/usr/share/php",
    "/usr/share/zoneinfo",
    "/usr/share/ca-certificates",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/hosts",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
];

/// Size of `/tmp`, which is in memory.
const TMP_SIZE: &str = "64m";

const NO_RIGHTS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Keeps further mounts of this process from spreading to other mount namespaces.
pub(crate) fn keep_mounts_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Makes `directory` the root of this process.
pub(crate) fn enter(directory: &str, isolation: &Isolation) -> io::Result<()> {
    let context = |step: &'static str| {
        move |error: Errno| {
            let kind = io::Error::from(error).kind();
            io::Error::new(kind, format!("{directory}: {step}: {error}"))
        }
    };
    // pivot_root requires a mount point.
    let tree = open_tree(CWD, directory, clone_of_all()).map_err(context("cannot be used"))?;
    let place = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(context("cannot be used"))?;
    attach(&tree, &place).map_err(context("cannot be mounted"))?;
    if isolation.language_deps {
        for path in LANGUAGE_DEPS {
            mount_read_only(&tree, Path::new(path)).map_err(context(path))?;
        }
    }
    if isolation.tmpfs {
        mount_tmp(&tree).map_err(context("/tmp"))?;
    }
    if isolation.procfs {
        mount_proc(&tree, isolation).map_err(context("/proc"))?;
    }
    rustix::process::fchdir(&tree).map_err(context("cannot be entered"))?;
    // Mounts the old root over the new one, from where it is detached.
    rustix::process::pivot_root(".", ".").map_err(context("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(context("the old root"))?;
    rustix::process::chdir("/").map_err(context("cannot be entered"))
}

/// Checks that `directory` could become a root with these document roots. The check mounts no file
/// system.
pub(crate) fn check(directory: &str, roots: &[(String, String)]) -> Result<(), Problem> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(directory, flags, Mode::empty()).map_err(|error| {
        let problem = format_args!("{directory}: cannot be used: {error}");
        Problem::at("isolation/rootfs", problem)
    })?;
    check_in(&root, directory, roots)
}

/// Checks that the document roots of an application exist in the root directory of its prototype.
pub(crate) fn check_running(prototype: u32, roots: &[(String, String)]) -> Result<(), Problem> {
    let directory = format!("/proc/{prototype}/root");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match open(&directory, flags, Mode::empty()) {
        Ok(root) => check_in(&root, "its \"rootfs\"", roots),
        Err(_) => Ok(()), // it has ended
    }
}

fn check_in(root: &OwnedFd, name: &str, roots: &[(String, String)]) -> Result<(), Problem> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for (key, path) in roots {
        let path = Path::new(path);
        if LANGUAGE_DEPS.iter().any(|provided| path.starts_with(provided)) {
            continue; // is mounted
        }
        match openat2(root, inside(path), flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Ok(_) | Err(Errno::ACCESS) => {}
            Err(error) => {
                let path = path.display();
                let problem = format_args!("{path} cannot be used in {name}: {error}");
                return Err(Problem::no_root(key, problem));
            }
        }
    }
    Ok(())
}

fn clone_of_all() -> OpenTreeFlags {
    OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE
}

fn attach(mount: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", place, "", flags)
}

/// Mounts a file or directory of the system read-only at the same path. An existing one in the root
/// is left unchanged.
fn mount_read_only(root: &OwnedFd, path: &Path) -> Result<(), Errno> {
    // Some are links: /lib, for example, leads to /usr/lib.
    let Ok(source) = std::fs::canonicalize(path) else { return Ok(()) };
    if is_populated(root, path)? {
        return Ok(());
    }
    let tree = open_tree(CWD, &source, clone_of_all())?;
    let place = if source.is_dir() { directory(root, path)? } else { file(root, path)? };
    attach(&tree, &place)?;
    // The kernel refuses to remove flags that already restrict the mount.
    let restricted = fstatvfs(&tree)?.f_flag;
    let kept = [
        (rustix::fs::StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (rustix::fs::StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (rustix::fs::StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (rustix::fs::StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ]
    .into_iter()
    .filter(|(set, _)| restricted.contains(*set))
    .fold(MountFlags::empty(), |flags, (_, flag)| flags | flag);
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(format!("/proc/self/fd/{}", tree.as_raw_fd()), flags | kept, "")
}

/// Returns true if the root has this path, and it is not an empty file or directory, which an
/// earlier mount leaves behind.
fn is_populated(root: &OwnedFd, path: &Path) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let found = match openat2(root, inside(path), flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(false),
        Err(error) => return Err(error),
    };
    let stat = fstat(&found)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Dir::new(found)?.any(|entry| {
            entry.is_ok_and(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        })),
        _ => Ok(stat.st_size > 0),
    }
}

/// Returns the path relative to the root.
fn inside(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(path) if path.as_os_str().is_empty() => Path::new("."),
        Ok(path) => path,
        Err(_) => path,
    }
}

/// Opens a directory in the root. Creates missing directories.
fn directory(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &Path| openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let mut so_far = PathBuf::from(".");
    let mut found = open(&so_far)?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        so_far.push(name);
        let next = match open(&so_far) {
            Err(Errno::NOENT) => {
                mkdirat(&found, name, Mode::from(0o755))?;
                open(&so_far)?
            }
            other => other?,
        };
        found = next;
    }
    Ok(found)
}

/// Creates an empty file in the root, as a mount point for a file.
fn file(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let above = directory(root, path.parent().unwrap_or(Path::new("/")))?;
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = path.file_name().unwrap_or_default();
    openat2(&above, name, flags, Mode::from(0o644), ResolveFlags::IN_ROOT)
}

fn mount_tmp(root: &OwnedFd) -> Result<(), Errno> {
    let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(tmpfs.as_fd(), "size", TMP_SIZE)?;
    fsconfig_set_string(tmpfs.as_fd(), "mode", "1777")?;
    fsconfig_create(tmpfs.as_fd())?;
    let flags = NO_RIGHTS | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(tmpfs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)?;
    attach(&mount, &directory(root, Path::new("/tmp"))?)
}

fn mount_proc(root: &OwnedFd, isolation: &Isolation) -> Result<(), Errno> {
    let place = directory(root, Path::new("/proc"))?;
    let flags = NO_RIGHTS | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let own = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|proc| {
        // Hides processes of other users. Kernels before 5.8 do not know the value, and would have
        // hidden them in the whole system.
        let _ = fsconfig_set_string(proc.as_fd(), "hidepid", "invisible");
        fsconfig_create(proc.as_fd())?;
        fsmount(proc.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
    });
    match own {
        // Without a process namespace of its own a process may not mount /proc: it gets the
        // existing one.
        Err(Errno::PERM) if !isolation.pid_namespace => {
            attach(&open_tree(CWD, "/proc", clone_of_all())?, &place)
        }
        own => attach(&own?, &place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, OwnedFd) {
        let directory = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(directory.path(), flags, Mode::empty()).unwrap();
        (directory, fd)
    }

    #[test]
    fn directories_are_made_on_the_way() {
        let (at, fd) = root();
        directory(&fd, Path::new("/usr/share/php")).unwrap();
        directory(&fd, Path::new("/usr/share/php")).unwrap();
        assert!(at.path().join("usr/share/php").is_dir());
        assert!(!is_populated(&fd, Path::new("/usr/share/php")).unwrap(), "it is empty");
        assert!(is_populated(&fd, Path::new("/usr/share")).unwrap());
    }

    #[test]
    fn no_link_leads_out_of_the_root() {
        let (at, fd) = root();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), at.path().join("etc")).unwrap();
        std::os::unix::fs::symlink("../../../../..", at.path().join("usr")).unwrap();
        assert_eq!(directory(&fd, Path::new("/etc/php")).unwrap_err(), Errno::EXIST);
        assert!(file(&fd, Path::new("/etc/hosts")).is_err());
        directory(&fd, Path::new("/usr/made")).unwrap();
        assert!(at.path().join("made").is_dir(), "the root's own parent is itself");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn files_are_made_to_lie_on_and_never_through_a_link() {
        let (at, fd) = root();
        file(&fd, Path::new("/etc/hosts")).unwrap();
        assert!(!is_populated(&fd, Path::new("/etc/hosts")).unwrap(), "it is empty");
        std::fs::write(at.path().join("etc/group"), "x").unwrap();
        assert!(is_populated(&fd, Path::new("/etc/group")).unwrap());
        std::os::unix::fs::symlink("elsewhere", at.path().join("etc/passwd")).unwrap();
        assert!(file(&fd, Path::new("/etc/passwd")).is_err());
        assert!(!at.path().join("etc/elsewhere").exists());
    }
}
