//! Filters of system calls.
//!
//! The kernel runs all filters of a process for each call and applies the strictest result. An
//! [`AllowList`] is two filters: one answers calls that are not allowed with `ENOSYS`, as a kernel
//! without the call does; the other kills the process for calls that only an intruder would make.

use std::io;

use libc::sock_filter;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// A system call with conditions on its arguments.
#[derive(Debug, Clone, Copy)]
pub struct SystemCall {
    /// Number of the call on this architecture.
    pub number: libc::c_long,
    /// Alternative conditions, one of which must be met. Empty for any arguments.
    pub arguments: &'static [Argument],
    /// Reason why the call is in the list.
    pub why: &'static str,
}

/// Condition on an argument; compares its low 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// The argument of this index has this value.
    Is(u8, u32),
    /// The argument of this index has all of these bits.
    Has(u8, u32),
    /// The argument of this index has none of these bits.
    Lacks(u8, u32),
    /// The argument of this index is the id of the calling process.
    IsOwnProcess(u8),
    /// The argument of this index is not the id of the calling process.
    IsOtherProcess(u8),
}

/// System calls that a process may make.
#[derive(Debug, Clone, Copy)]
pub struct AllowList {
    /// Calls that are allowed.
    pub allowed: &'static [SystemCall],
    /// Calls that kill the process. A call in neither list fails with `ENOSYS`.
    pub killed: &'static [SystemCall],
}

impl AllowList {
    /// Installs the list for the calling thread and all that it starts from now on.
    pub fn install(&self) -> io::Result<()> {
        let nothing = SeccompAction::Errno(libc::ENOSYS as u32);
        let allowed = compile(self.allowed, SeccompAction::Allow, nothing)?;
        let deadly = compile(self.killed, SeccompAction::KillProcess, SeccompAction::Allow)?;
        install(&deadly)?;
        install(&allowed)
    }
}

fn compile(
    calls: &[SystemCall],
    matching: SeccompAction,
    other: SeccompAction,
) -> io::Result<Vec<sock_filter>> {
    let mut rules = std::collections::BTreeMap::<i64, Vec<SeccompRule>>::new();
    for call in calls {
        let conditions: Vec<_> = call
            .arguments
            .iter()
            .map(|argument| SeccompRule::new(vec![argument.condition()?]))
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        rules.entry(call.number).or_default().extend(conditions);
    }
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, other, matching, architecture);
    let program = filter.and_then(BpfProgram::try_from).map_err(io::Error::other)?;
    let plain =
        |i: &seccompiler::sock_filter| sock_filter { code: i.code, jt: i.jt, jf: i.jf, k: i.k };
    Ok(program.iter().map(plain).collect())
}

impl Argument {
    fn condition(self) -> Result<SeccompCondition, BackendError> {
        use SeccompCmpOp::{Eq, MaskedEq, Ne};
        let own = u64::from(std::process::id());
        let (index, comparison, value) = match self {
            Argument::Is(index, value) => (index, Eq, value.into()),
            Argument::Has(index, bits) => (index, MaskedEq(bits.into()), bits.into()),
            Argument::Lacks(index, bits) => (index, MaskedEq(bits.into()), 0),
            Argument::IsOwnProcess(index) => (index, Eq, own),
            Argument::IsOtherProcess(index) => (index, Ne, own),
        };
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, comparison, value)
    }
}

/// Returns true if the kernel supports filters of system calls.
pub fn is_available() -> bool {
    let action = libc::SECCOMP_RET_KILL_PROCESS;
    // SAFETY: the kernel reads four bytes behind the pointer, which `action` has, and changes
    // nothing.
    let found = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0,
            std::ptr::from_ref(&action),
        )
    };
    found == 0
}

/// Prevents the calling thread, and all that it starts, from setting resource limits of other
/// processes. Otherwise a process could end any other process of its user with a limit of processor
/// time, which neither Landlock nor a lack of privileges prevents. It can still set its own limits.
pub fn deny_limits_of_others() -> io::Result<()> {
    install(&limits_of_others())
}

/// Prevents the calling thread, and all that it starts, from putting characters into the input of a
/// terminal, where a shell of another user would read them. Takes the right to change the system
/// (`CAP_SYS_ADMIN`), or `no_new_privs`.
pub fn deny_typing() -> io::Result<()> {
    install(&typing())
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const DENIED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// The bit of the numbers of x32, a third way to call a kernel of x86_64, which few kernels allow.
const X32: u32 = 0x4000_0000;

/// Offset of the lower half of an argument in `struct seccomp_data`, on the architectures of
/// [`ARCHITECTURES`].
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Returns a filter of the call that has one of these numbers by architecture; `check` is run for it,
/// and other calls are allowed.
fn filter_of(number: impl Fn(&Architecture) -> u32, check: &[sock_filter]) -> Vec<sock_filter> {
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    let mut program = vec![
        step(LOAD, 0, 0, NUMBER),
        step(AT_LEAST, 0, 1, X32),
        step(RETURN, 0, 0, DENIED),
        step(LOAD, 0, 0, ARCHITECTURE),
    ];
    // For each architecture: if it is another one, go to the next; if it is another call, allow it.
    for (index, architecture) in ARCHITECTURES.iter().enumerate() {
        let others = (ARCHITECTURES.len() - 1 - index) as u8;
        program.push(step(EQUAL, 0, 2, architecture.audit));
        program.push(step(LOAD, 0, 0, NUMBER));
        // Jumps to the check of the arguments for this call, otherwise to the end.
        program.push(step(EQUAL, 3 * others + 1, 3 * others, number(architecture)));
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program.extend_from_slice(check);
    program
}

/// Returns the filter of [`deny_limits_of_others`].
fn limits_of_others() -> Vec<sock_filter> {
    let (pid, new_limit) = (argument(0), argument(2));
    filter_of(
        |architecture| architecture.prlimit64,
        &[
            step(LOAD, 0, 0, pid),
            step(EQUAL, 4, 0, 0),
            step(LOAD, 0, 0, new_limit),
            step(EQUAL, 0, 3, 0),
            step(LOAD, 0, 0, new_limit + 4),
            step(EQUAL, 0, 1, 0),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, 0, DENIED),
        ],
    )
}

/// Returns the filter of [`deny_typing`]. The kernel reads the lower half of a request alone.
fn typing() -> Vec<sock_filter> {
    filter_of(
        |architecture| architecture.ioctl,
        &[
            step(LOAD, 0, 0, argument(1)),
            step(EQUAL, 2, 0, libc::TIOCSTI as u32),
            step(EQUAL, 1, 0, TIOCLINUX),
            step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            step(RETURN, 0, 0, DENIED),
        ],
    )
}

/// Requests to the console of Linux (ioctl_console(2)), of which one pastes text.
const TIOCLINUX: u32 = 0x541c;

/// Numbers of an architecture.
struct Architecture {
    /// `AUDIT_ARCH_*`.
    audit: u32,
    prlimit64: u32,
    ioctl: u32,
}

/// This architecture, and the other one whose programs the kernel runs on it (32 bits).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        audit: 0xc000_003e,
        prlimit64: libc::SYS_prlimit64 as u32,
        ioctl: libc::SYS_ioctl as u32,
    },
    Architecture { audit: 0x4000_0003, prlimit64: 340, ioctl: 54 },
];
#[cfg(target_arch = "aarch64")]
const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        audit: 0xc000_00b7,
        prlimit64: libc::SYS_prlimit64 as u32,
        ioctl: libc::SYS_ioctl as u32,
    },
    Architecture { audit: 0x4000_0028, prlimit64: 369, ioctl: 54 },
];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURES: &[Architecture] = &[];

fn install(program: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the instructions, of which `len` lie behind `filter`, checks them,
    // and writes to none.
    let installed = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            // Without this flag, older kernels slow the process down with mitigations against
            // hostile code in the same process, of which there is none here.
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            std::ptr::from_ref(&program),
        )
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
