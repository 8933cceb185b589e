//! Requests for a file whose names are exchanged meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use howdah_http::body::Body;

use super::*;

/// Number of exchanges during a test.
const SWAPS: usize = 100_000;

/// Requests a file while names are swapped; content that may be sent starts with `inside`.
pub(super) fn swap_while_asking(
    site: &Site,
    chroot: &[u8],
    path: &str,
    mut swap: impl FnMut(usize) + Send,
) {
    let done = AtomicBool::new(false);
    let mut inside = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..SWAPS).for_each(&mut swap);
            done.store(true, Ordering::Release);
        });
        let mut now = site.now;
        while !done.load(Ordering::Acquire) {
            now.monotonic += REVALIDATION_INTERVAL;
            let request = request("GET", path.as_bytes(), b"", &[]);
            let place = FileLocation { chroot, ..site.share.place(&request.path) };
            match site.files.answer(&site.share, place, &request, now) {
                Ok(response) => match response.body {
                    Body::Bytes(bytes) => {
                        assert_eq!(bytes, "inside");
                        inside += 1;
                    }
                    other => panic!("{other:?}"),
                },
                Err(ServeOutcome::NotServed(
                    NotServedReason::NotFound | NotServedReason::Forbidden,
                )) => {}
                // The names changed until the retries were used up.
                Err(ServeOutcome::NotServed(NotServedReason::Failed(Errno::AGAIN))) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(inside > 0, "the file was never found");
}

/// Exchanges the files of two names.
pub(super) fn exchange(one: &Path, other: &Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}
