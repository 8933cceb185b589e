//! User database of the C library.

use std::ffi::{CStr, CString};

/// Numeric ids, name and home directory of a user.
pub(crate) struct Entry {
    pub uid: u32,
    pub gid: u32,
    pub name: String,
    pub home: String,
}

fn text(pointer: *const libc::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: strings in a passwd or group entry end in a NUL and live in the buffer that the
    // caller still holds.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// Maximum size of a buffer for an entry, in bytes: a group may have thousands of members.
const MAX_BUFFER: usize = 4 << 20;

/// Looks an entry up, with a larger buffer while it does not fit. `read` returns the status of the
/// C library's function, and the entry if there is one. Error: it is not known whether there is
/// one, as the source of users does not answer.
fn look_up<T>(
    mut read: impl FnMut(&mut [libc::c_char]) -> (i32, Option<T>),
) -> std::io::Result<Option<T>> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        match read(&mut buffer) {
            (0, found) => return Ok(found),
            (libc::EINTR, _) => {}
            (libc::ERANGE, _) if buffer.len() < MAX_BUFFER => buffer.resize(buffer.len() * 4, 0),
            // The C library returns these for an entry that does not exist, besides 0.
            (libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM, _) => return Ok(None),
            (status, _) => return Err(std::io::Error::from_raw_os_error(status)),
        }
    }
}

fn entry(
    lookup: impl Fn(&mut libc::passwd, &mut [libc::c_char], &mut *mut libc::passwd) -> i32,
) -> std::io::Result<Option<Entry>> {
    look_up(|buffer| {
        // SAFETY: a passwd entry consists of integers and pointers, for which zero is a value.
        let mut passwd: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let status = lookup(&mut passwd, buffer, &mut found);
        let entry = (status == 0 && !found.is_null()).then(|| Entry {
            uid: passwd.pw_uid,
            gid: passwd.pw_gid,
            name: text(passwd.pw_name),
            home: text(passwd.pw_dir),
        });
        (status, entry)
    })
}

pub(crate) fn by_name(name: &str) -> std::io::Result<Option<Entry>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    entry(|passwd, buffer, found| {
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        unsafe { libc::getpwnam_r(name.as_ptr(), passwd, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

pub(crate) fn by_uid(uid: u32) -> Option<Entry> {
    let found = entry(|passwd, buffer, found| {
        // SAFETY: as above.
        unsafe { libc::getpwuid_r(uid, passwd, buffer.as_mut_ptr(), buffer.len(), found) }
    });
    found.ok().flatten()
}

pub(crate) fn group_id(name: &str) -> std::io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    look_up(|buffer| {
        // SAFETY: a group entry consists of integers and pointers, for which zero is a value.
        let mut group: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let (memory, length) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: all pointers are valid for the call, the length is the buffer's.
        let status =
            unsafe { libc::getgrnam_r(name.as_ptr(), &mut group, memory, length, &mut found) };
        (status, (status == 0 && !found.is_null()).then_some(group.gr_gid))
    })
}

/// Returns all groups of a user, including `gid`.
pub(crate) fn groups(name: &str, gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(name) else { return vec![gid] };
    let mut groups = vec![0; 256];
    let mut count = groups.len() as libc::c_int;
    // SAFETY: the array has `count` elements; the call writes no more than that and sets `count`
    // to the number written, or fails.
    let status = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
    if status < 0 {
        return vec![gid];
    }
    groups.truncate(count as usize);
    groups
}

/// Sets the supplementary groups of this process.
pub(crate) fn set_groups(groups: &[u32]) -> std::io::Result<()> {
    // SAFETY: pointer and length describe the slice.
    match unsafe { libc::setgroups(groups.len(), groups.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Sets real, effective and saved group and user of this process, in this order.
pub(crate) fn set_ids(uid: u32, gid: u32) -> std::io::Result<()> {
    // SAFETY: the calls take integers only. The process has one thread, as `credentials` requires.
    let failed =
        unsafe { libc::setresgid(gid, gid, gid) != 0 || libc::setresuid(uid, uid, uid) != 0 };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the user id for file access of this thread and of threads that it starts.
pub(crate) fn set_file_user(uid: u32) -> std::io::Result<()> {
    // SAFETY: the calls take integers only. They return the previous id; no user has the highest
    // one, so the second call changes nothing.
    let now = unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX)
    };
    if now as u32 == uid { Ok(()) } else { Err(std::io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_of_users_that_does_not_answer_is_no_user_that_does_not_exist() {
        let of = |status| look_up(|_| (status, None::<u32>)).map_err(|error| error.raw_os_error());
        assert_eq!(of(0), Ok(None));
        assert_eq!(of(libc::ENOENT), Ok(None));
        for status in [libc::EIO, libc::ETIMEDOUT, libc::EMFILE, libc::ERANGE] {
            assert_eq!(of(status), Err(Some(status)));
        }
    }

    #[test]
    fn a_large_entry_gets_a_larger_buffer() {
        let found =
            look_up(
                |buffer| if buffer.len() > 100_000 { (0, Some(7)) } else { (libc::ERANGE, None) },
            );
        assert_eq!(found.unwrap(), Some(7));
        assert_eq!(group_id("no such group").unwrap(), None);
        assert!(by_name("no such user").unwrap().is_none());
    }
}
