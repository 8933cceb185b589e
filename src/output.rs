//! Output of commands. In this program, `print!`, `println!` and `eprintln!` do not panic if nobody reads the output
//! any more, as with `howdah schema | head`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Writes to standard output. If it is closed, the program ends, quietly; with another error (a full disk), it
/// ends with the reason.
pub fn to_stdout(text: Arguments<'_>) {
    let mut output = io::stdout().lock();
    let written = output.write_fmt(text).and_then(|()| output.flush());
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            to_stderr(format_args!("howdah: standard output: {error}\n"));
            process::exit(1);
        }
    }
}

/// Writes to standard error, if it is open.
pub fn to_stderr(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

macro_rules! print {
    ($($part:tt)*) => { $crate::output::to_stdout(format_args!($($part)*)) };
}

macro_rules! println {
    ($($part:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($part)*))) };
}

macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($part)*))) };
}
