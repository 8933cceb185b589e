//! Files that do not answer, as on a network drive whose server has gone.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::requirements;

/// A listener of the kernel (fanotify) that must permit each opening of a file, and never does: the
/// file can be looked at, but a process that opens it waits, with `O_NONBLOCK` too. Dropping this
/// ends the wait.
pub struct HangingFiles(Child);

impl HangingFiles {
    /// Lets files hang, and those in directories. `None` if the test may not do that, or the kernel
    /// cannot.
    pub fn new(files: &[&Path]) -> Option<HangingFiles> {
        run(LISTEN, files, "the kernel does not let a program delay the opening of files")
            .map(HangingFiles)
    }
}

/// A file system (FUSE) that never answers: a process that looks at its directory waits. Dropping
/// this removes it.
pub struct HangingMount(Child);

impl HangingMount {
    /// Mounts it on a directory. `None` if the test may not do that.
    pub fn new(directory: &Path) -> Option<HangingMount> {
        run(MOUNT, &[directory], "a file system of a program cannot be mounted").map(HangingMount)
    }
}

impl Drop for HangingMount {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Runs a program in Python that says when it is ready. `None` if it cannot run.
fn run(program: &str, arguments: &[&Path], otherwise: &str) -> Option<Child> {
    let mut command = Command::new("python3");
    command.arg("-c").arg(program).args(arguments);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        requirements::skipped("there is no python3");
        return None;
    };
    let mut line = String::new();
    let read = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line);
    if read.is_err() || line != "ready\n" {
        let _ = child.kill();
        let _ = child.wait();
        requirements::skipped(otherwise);
        return None;
    }
    Some(child)
}

impl Drop for HangingFiles {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Marks the files whose names are the arguments (`FAN_OPEN_PERM` in a group of
/// `FAN_CLASS_CONTENT`, with `FAN_EVENT_ON_CHILD` for directories), and reads no event.
const LISTEN: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
group = libc.fanotify_init(4, 0)
mark = libc.fanotify_mark
mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]
events = lambda name: 0x8010000 if os.path.isdir(name) else 0x10000
if group < 0 or any(mark(group, 1, events(name), -100, os.fsencode(name)) for name in sys.argv[1:]):
    sys.exit(1)
print('ready', flush=True)
sys.stdin.read()
";

/// Mounts a file system on the directory, and reads no request of the kernel.
const MOUNT: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
directory = os.fsencode(sys.argv[1])
options = b'fd=%d,rootmode=40000,user_id=0,group_id=0' % os.open('/dev/fuse', os.O_RDWR)
if libc.mount(b'hanging', directory, b'fuse', 0, options):
    sys.exit(1)
print('ready', flush=True)
sys.stdin.read()
libc.umount2(directory, 2)
";
