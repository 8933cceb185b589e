//! A root directory of an application's own, with what PHP needs in it.
//!
//! Runs in the new process, in a mount namespace of its own and while it still has its privileges.
//! The directory belongs to somebody else: every name in it is looked up as if it were the root
//! already, so that no link in it leads out, and mounts go to descriptors, not to names.

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

/// What PHP needs: the directories of its libraries, extensions and settings, and what looking up
/// names, time zones and certificates takes. What a system does not have is left out.
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

/// Size of `/tmp`; it is memory.
const TMP_SIZE: &str = "64m";

const NO_RIGHTS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Keeps mounts that are made from here on from everybody else.
pub(crate) fn keep_mounts_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Makes `directory` the root of this process.
pub(crate) fn enter(directory: &str, isolation: &Isolation) -> io::Result<()> {
    let at = |what: &'static str| {
        move |error: Errno| {
            let kind = io::Error::from(error).kind();
            io::Error::new(kind, format!("{directory}: {what}: {error}"))
        }
    };
    // A root must be a mount.
    let tree = open_tree(CWD, directory, clone_of_all()).map_err(at("cannot be used"))?;
    let place = open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(at("cannot be used"))?;
    attach(&tree, &place).map_err(at("cannot be mounted"))?;
    if isolation.language_deps {
        for path in LANGUAGE_DEPS {
            provide(&tree, Path::new(path)).map_err(at(path))?;
        }
    }
    if isolation.tmpfs {
        mount_tmp(&tree).map_err(at("/tmp"))?;
    }
    if isolation.procfs {
        mount_proc(&tree, isolation).map_err(at("/proc"))?;
    }
    rustix::process::fchdir(&tree).map_err(at("cannot be entered"))?;
    // The old root comes to lie on the new one, from where it is taken away.
    rustix::process::pivot_root(".", ".").map_err(at("pivot_root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(at("the old root"))?;
    rustix::process::chdir("/").map_err(at("cannot be entered"))
}

/// Looks whether `directory` could become a root with these document roots in it. Nothing is mounted.
pub(crate) fn look(directory: &str, roots: &[(String, String)]) -> Result<(), Problem> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(directory, flags, Mode::empty()).map_err(|error| {
        let problem = format_args!("{directory}: cannot be used: {error}");
        Problem::at("isolation/rootfs", problem)
    })?;
    for (key, path) in roots {
        let path = Path::new(path);
        if LANGUAGE_DEPS.iter().any(|provided| path.starts_with(provided)) {
            continue; // comes with a mount
        }
        openat2(&root, inside(path), flags, Mode::empty(), ResolveFlags::IN_ROOT).map_err(
            |error| {
                let path = path.display();
                Problem::at(key, format_args!("{path} cannot be used in {directory}: {error}"))
            },
        )?;
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

/// Makes a file or a directory of the system available under the same name, for reading. What the
/// root has under that name stays as it is.
fn provide(root: &OwnedFd, path: &Path) -> Result<(), Errno> {
    // Such as /lib, which leads to /usr/lib.
    let Ok(source) = std::fs::canonicalize(path) else { return Ok(()) };
    if has(root, path)? {
        return Ok(());
    }
    let tree = open_tree(CWD, &source, clone_of_all())?;
    let place = if source.is_dir() { directory(root, path)? } else { file(root, path)? };
    attach(&tree, &place)?;
    // The kernel lets nobody take away what restricts a mount already.
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

/// Whether the root has this: anything but an empty directory or file, as were left for a mount.
fn has(root: &OwnedFd, path: &Path) -> Result<bool, Errno> {
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

/// A path relative to the root.
fn inside(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(path) if path.as_os_str().is_empty() => Path::new("."),
        Ok(path) => path,
        Err(_) => path,
    }
}

/// A directory in the root; what is missing on the way is made.
fn directory(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let look = |path: &Path| openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
    let mut so_far = PathBuf::from(".");
    let mut found = look(&so_far)?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        so_far.push(name);
        let next = match look(&so_far) {
            Err(Errno::NOENT) => {
                mkdirat(&found, name, Mode::from(0o755))?;
                look(&so_far)?
            }
            other => other?,
        };
        found = next;
    }
    Ok(found)
}

/// An empty file in the root, for another one to lie on.
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
        // Others' processes are nobody's business. Kernels before 5.8 do not know the word, and
        // would have hidden them from the whole system.
        let _ = fsconfig_set_string(proc.as_fd(), "hidepid", "invisible");
        fsconfig_create(proc.as_fd())?;
        fsmount(proc.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
    });
    match own {
        // Those who have no processes of their own may not mount a view of others', but they have
        // one.
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
        assert!(!has(&fd, Path::new("/usr/share/php")).unwrap(), "it is empty");
        assert!(has(&fd, Path::new("/usr/share")).unwrap());
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
        assert!(!has(&fd, Path::new("/etc/hosts")).unwrap(), "it is empty");
        std::fs::write(at.path().join("etc/group"), "x").unwrap();
        assert!(has(&fd, Path::new("/etc/group")).unwrap());
        std::os::unix::fs::symlink("elsewhere", at.path().join("etc/passwd")).unwrap();
        assert!(file(&fd, Path::new("/etc/passwd")).is_err());
        assert!(!at.path().join("etc/elsewhere").exists());
    }
}
