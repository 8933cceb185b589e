//! The stack of a worker's script, read from the worker's memory while it runs.
//!
//! The worker does not cooperate: tracing works while it computes or waits in a system call, and
//! has no cost for workers without a trace. The memory may be changing, and a hostile script may
//! have written any bytes to it: every length and depth is limited, and a reading counts only if a
//! second one confirms it.

use crate::ffi::Layout;

/// Memory that can be read.
pub trait Memory {
    /// Reads bytes at an address into a buffer.
    fn read(&self, address: u64, buffer: &mut [u8]) -> std::io::Result<()>;
}

impl Memory for howdah_sys::process_memory::Process {
    fn read(&self, address: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        self.read(address, buffer)
    }
}

/// Maximum number of calls in a stack; the innermost ones are shown.
const MAX_CALLS: usize = 128;

/// Maximum number of arguments of a call whose types are shown.
const MAX_ARGUMENTS: u64 = 16;

/// Maximum length of the name of a function or class, in bytes.
const MAX_NAME_BYTES: u64 = 256;

/// Maximum length of the name of a file, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Maximum length of a stack, in bytes: it must fit a message.
const MAX_STACK_BYTES: usize = 64 * 1024;

/// Maximum number of readings, until one confirms the one before.
const MAX_READINGS: usize = 5;

/// Returns the stack of a process, a line for each call, the innermost first. Error: the reason why
/// it cannot be read.
pub fn take(memory: &impl Memory, layout: &Layout) -> Result<Vec<String>, String> {
    let reader = Reader { memory, layout };
    let mut last = reader.calls();
    for _ in 1..MAX_READINGS {
        let calls = reader.calls();
        if matches!((&calls, &last), (Ok(calls), Ok(last)) if calls == last) {
            return calls;
        }
        last = calls;
    }
    let mut calls = last?;
    calls.push("(the script ran on meanwhile: these calls may be of different moments)".to_owned());
    Ok(calls)
}

struct Reader<'a, M> {
    memory: &'a M,
    layout: &'a Layout,
}

/// The result of reading memory.
type Read<T> = std::io::Result<T>;

impl<M: Memory> Reader<'_, M> {
    fn calls(&self) -> Result<Vec<String>, String> {
        let current = self.pointer(self.layout.current);
        let mut call = current.map_err(|error| match error.raw_os_error() {
            Some(libc_eperm) if libc_eperm == rustix::io::Errno::PERM.raw_os_error() => {
                "this system does not let a process read the memory of those that it has started \
                 (kernel.yama.ptrace_scope is 2 or 3)"
                    .to_owned()
            }
            _ => format!("its memory cannot be read: {error}"),
        })?;
        let (mut calls, mut length) = (Vec::new(), 0);
        while call != 0 {
            if calls.len() == MAX_CALLS || length > MAX_STACK_BYTES {
                calls.push("...".to_owned());
                break;
            }
            let next = self.call(call).and_then(|text| {
                let number = calls.len();
                let line = text.map(|text| format!("#{number} {text}"));
                length += line.as_ref().map_or(0, String::len);
                calls.extend(line);
                self.pointer(add(call, self.layout.call_previous))
            });
            // The calls that were read so far are returned.
            match next {
                Ok(next) if next != call => call = next,
                _ => {
                    calls.push("???".to_owned());
                    break;
                }
            }
        }
        Ok(calls)
    }

    /// Formats one call; `None` for a frame that PHP inserts between calls.
    fn call(&self, call: u64) -> Read<Option<String>> {
        let layout = self.layout;
        let function = self.pointer(add(call, layout.call_function))?;
        if function == 0 {
            return Ok(None);
        }
        let kind = self.bytes::<1>(add(function, layout.function_type))?[0];
        let is_script = kind != INTERNAL;
        let info = self.number(add(call, layout.call_type))?;
        let name = self.pointer(add(function, layout.function_name))?;
        let mut text = match name {
            0 if kind == EVAL => "eval()".to_owned(),
            0 if info & layout.call_is_top != 0 => "{main}".to_owned(),
            0 => "include()".to_owned(),
            name => {
                let class = self.pointer(add(function, layout.function_class))?;
                let arrow = if info & 0xff == u64::from(OBJECT) { "->" } else { "::" };
                let prefix = match class {
                    0 => String::new(),
                    class => self.class_name(class)? + arrow,
                };
                let name = self.string(name, MAX_NAME_BYTES)?;
                format!("{prefix}{name}({})", self.arguments(call, function, is_script)?)
            }
        };
        if is_script {
            let file = self.pointer(add(function, layout.function_file))?;
            let opline = self.pointer(add(call, layout.call_opline))?;
            let line = match opline {
                0 => 0,
                opline => self.number(add(opline, layout.opline_line))?,
            };
            text += &format!(" at {}:{line}", self.string(file, MAX_FILE_BYTES)?);
        }
        Ok(Some(text))
    }

    /// Formats the types of the arguments of a call.
    fn arguments(&self, call: u64, function: u64, is_script: bool) -> Read<String> {
        let layout = self.layout;
        let count = self.number(add(call, layout.call_arguments))?;
        // Arguments beyond the parameters follow the variables of a script's function.
        let (parameters, behind) = if is_script {
            let number = |offset| self.number(add(function, offset));
            let variables = number(layout.function_variables)?;
            let all = variables.saturating_add(number(layout.function_temporaries)?);
            (number(layout.function_parameters)?, all)
        } else {
            (u64::MAX, 0)
        };
        let mut types = Vec::new();
        for argument in 0..count.min(MAX_ARGUMENTS) {
            let slot = match argument.checked_sub(parameters) {
                Some(beyond) => behind.saturating_add(beyond),
                None => argument,
            };
            let at = slot.saturating_mul(layout.value_size);
            types.push(self.type_of(add(add(call, layout.call_slots), at), true)?);
        }
        if count > MAX_ARGUMENTS {
            types.push("...".to_owned());
        }
        Ok(types.join(", "))
    }

    fn type_of(&self, value: u64, follow: bool) -> Read<String> {
        let kind = self.bytes::<1>(add(value, self.layout.value_type))?[0];
        Ok(match kind {
            OBJECT => {
                let object = self.pointer(value)?;
                self.class_name(self.pointer(add(object, self.layout.object_class))?)?
            }
            REFERENCE if follow => {
                let reference = self.pointer(value)?;
                self.type_of(add(reference, self.layout.reference_value), false)?
            }
            kind => TYPES.get(usize::from(kind)).copied().unwrap_or("???").to_owned(),
        })
    }

    fn class_name(&self, class: u64) -> Read<String> {
        let name =
            self.string(self.pointer(add(class, self.layout.class_name))?, MAX_NAME_BYTES)?;
        // The name of an anonymous class is followed by a NUL and its place in the source.
        Ok(name.split('\u{fffd}').next().unwrap_or_default().to_owned())
    }

    /// Reads a PHP string. Replaces control characters.
    fn string(&self, string: u64, limit: u64) -> Read<String> {
        let length = self.pointer(add(string, self.layout.string_length))?;
        let mut bytes = vec![0; length.min(limit) as usize];
        self.memory.read(add(string, self.layout.string_text), &mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut text: String =
            text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        if length > limit {
            text.push_str("...");
        }
        Ok(text)
    }

    fn bytes<const N: usize>(&self, address: u64) -> Read<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads 64 bits.
    fn pointer(&self, address: u64) -> Read<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }

    /// Reads 32 bits.
    fn number(&self, address: u64) -> Read<u64> {
        self.bytes(address).map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
    }
}

/// Adds an offset to an address. A sum that is too large is no valid address.
fn add(address: u64, offset: u64) -> u64 {
    address.saturating_add(offset)
}

// Kinds of functions and types of values; `shim/layout.c` asserts them.
const INTERNAL: u8 = 1;
const EVAL: u8 = 4;
const OBJECT: u8 = 8;
const REFERENCE: u8 = 10;
const TYPES: [&str; 10] =
    ["undefined", "null", "bool", "bool", "int", "float", "string", "array", "object", "resource"];

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Memory in which every word is a hash of its address and of the number of reads.
    struct Nonsense(u64, Cell<u64>);

    impl Memory for Nonsense {
        fn read(&self, address: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            for (at, byte) in buffer.iter_mut().enumerate() {
                let turn = self.1.replace(self.1.get() + 1);
                let mixed = (address.wrapping_add(at as u64) ^ turn).wrapping_mul(self.0 | 1);
                *byte = (mixed >> 33) as u8;
            }
            Ok(())
        }
    }

    /// Memory that points to itself.
    struct Circle;

    impl Memory for Circle {
        fn read(&self, address: u64, buffer: &mut [u8]) -> std::io::Result<()> {
            let word = (address ^ 64).to_ne_bytes();
            buffer.iter_mut().zip(word.iter().cycle()).for_each(|(byte, of)| *byte = *of);
            Ok(())
        }
    }

    fn layout() -> Layout {
        Layout { current: 64, call_function: 24, call_previous: 48, ..Layout::default() }
    }

    #[test]
    fn what_a_hostile_worker_has_for_calls_is_read_within_bounds() {
        for seed in 1..200u64 {
            let memory = Nonsense(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), Cell::new(0));
            let calls = take(&memory, &layout()).unwrap();
            assert!(calls.len() <= MAX_CALLS + 2, "{} calls", calls.len());
            let length: usize = calls.iter().map(String::len).sum();
            assert!(length < MAX_STACK_BYTES + 3 * MAX_FILE_BYTES as usize * 3, "{length} bytes");
        }
        assert!(take(&Circle, &layout()).unwrap().len() <= MAX_CALLS + 2);
    }

    #[test]
    fn memory_that_cannot_be_read_is_a_reason_and_no_stack() {
        struct Refused;
        impl Memory for Refused {
            fn read(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
                Err(rustix::io::Errno::PERM.into())
            }
        }
        let why = take(&Refused, &layout()).unwrap_err();
        assert!(why.contains("ptrace_scope"), "{why}");
    }
}
