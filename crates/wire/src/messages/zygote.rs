//! Messages between the supervisor and a zygote.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

messages! {
    /// From the supervisor to a zygote.
    ToZygote {
        /// The first message: loads PHP. Answered with `Ready` or `Unfit`.
        1 Load {
            /// User and group id of the zygote; `None` for those that it was started with.
            user: Option<u32>,
            /// `php.ini` to read instead of libphp's default.
            ini_file: Option<String>,
        }
        /// Forks a prototype, which becomes a child of the supervisor. Descriptors: its socket of
        /// requests, its pipe of reports, the pipe of its output. All about its application is in
        /// the first message on that socket. Answered with `Forked`, `NotForked` or `Outdated`.
        2 Fork {}
    }
}

messages! {
    /// From a zygote to the supervisor.
    FromZygote {
        /// PHP is loaded.
        1 Ready {}
        /// Forks of this process could not run applications; it ends.
        2 Unfit {
            /// The reason.
            reason: String,
        }
        /// A prototype was forked.
        3 Forked {
            /// Its process id.
            pid: u32,
        }
        /// A prototype could not be forked.
        4 NotForked {
            /// Reason of the failure.
            message: String,
        }
        /// A file that PHP was loaded from has changed; the process ends.
        5 Outdated {}
    }
}
