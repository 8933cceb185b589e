//! Signals that have no effect on this process, and their default effect on programs that it
//! executes.

extern "C" fn nothing(_signal: libc::c_int) {}

/// Installs an empty handler that restarts system calls. Unlike ignored signals, handled ones get
/// their default disposition in a program that this process executes.
pub fn disarm(signals: &[i32]) {
    for signal in signals {
        // SAFETY: `sigaction` consists of integers and a pointer, for which zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler has the signature for flags without SA_SIGINFO, and does nothing,
        // which is safe at any point; the old action is not requested.
        unsafe { libc::sigaction(*signal, &action, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_disarmed_signal_does_not_end_the_process() {
        super::disarm(&[libc::SIGUSR2]);
        crate::signals::send(std::process::id(), libc::SIGUSR2).unwrap();
    }
}
