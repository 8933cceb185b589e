//! Files of directives are read and compiled on threads that serve no requests: a hostile file
//! takes long, and a drive may not answer.
//!
//! A site has one file compiled at a time; requests for the same directories wait for it and find
//! it compiled. Only a limited number of sites compiles at a time, so that processors are left for
//! requests.

use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use howdah_htaccess::engine;
use howdah_htaccess::world::{Broken, Reading};
use howdah_routing::htaccess_state::allowance::processor_time;
use howdah_routing::htaccess_state::compiled::Compiled;
use howdah_routing::htaccess_state::site::Site;
use howdah_sys::memory::release_free_memory;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::lookups::MAX_WAIT;

/// Largest `.htaccess` that is read, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Memory of compiled files, in bytes, after which the allocator returns its free memory to the
/// system. Compiling needs several times the memory of its result, and leaves it in pieces.
const RELEASE_AFTER: usize = 32 << 20;

/// Memory of the files that were compiled since then, in bytes.
static COMPILED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Permits to compile: one for each processor.
static PERMITS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Arc::new(Semaphore::new(processors))
});

/// Asks whether there is something at a path (`<IfFile>`).
type Question = (Vec<u8>, oneshot::Sender<bool>);

/// Reads and compiles the file of a directory. `turn` is that of the site; `exists` says whether
/// there is something at a path.
pub(super) async fn compile(
    site: &Site,
    turn: Option<OwnedSemaphorePermit>,
    file: File,
    path: &[u8],
    directory: &[u8],
    exists: &dyn Fn(&[u8]) -> bool,
) -> Compiled {
    let broken = |problem: &dyn std::fmt::Display| {
        Broken::unreadable(format!("{}: {problem}", String::from_utf8_lossy(path)))
    };
    let read = spawn_blocking(move || Reading::All(MAX_FILE_BYTES).of(file));
    let bytes = match timeout(MAX_WAIT, read).await {
        Ok(Ok(Ok(bytes))) => bytes,
        Ok(Ok(Err(error))) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            return Err(broken(&format_args!("has more than {MAX_FILE_BYTES} bytes")));
        }
        Ok(Ok(Err(error))) => return Err(broken(&error)),
        Ok(Err(_)) => return Err(broken(&"reading it has failed")),
        Err(_) => return Err(broken(&"the drive does not answer")),
    };
    let base = site.base.clone()?;
    // The semaphore is never closed.
    let permit = Arc::clone(&PERMITS).acquire_owned().await.ok();
    let (questions, mut asked) = mpsc::unbounded_channel::<Question>();
    let (own_path, own_directory) = (path.to_vec(), directory.to_vec());
    let job = spawn_blocking(move || {
        let start = processor_time();
        let exists = |path: &[u8]| {
            let (answer, answered) = oneshot::channel();
            questions.send((path.to_vec(), answer)).is_ok()
                && answered.blocking_recv().unwrap_or(false)
        };
        let compiled = engine::compile(&bytes, &own_path, &own_directory, &base, &exists);
        let size = compiled.as_ref().map_or(0, |config| config.size);
        if COMPILED_BYTES.fetch_add(size, Ordering::Relaxed) + size >= RELEASE_AFTER {
            COMPILED_BYTES.store(0, Ordering::Relaxed);
            release_free_memory();
        }
        drop((permit, turn));
        (compiled.map(Arc::new), processor_time().saturating_sub(start))
    });
    // Ends with the job, which drops the sender.
    while let Some((path, answer)) = asked.recv().await {
        let _ = answer.send(exists(&path));
    }
    let (compiled, time) = job.await.map_err(|_| broken(&"compiling it has failed"))?;
    site.allowance.charge_other(time);
    compiled
}
