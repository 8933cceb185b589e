//! Output of commands: `print!`, `println!` and `eprintln!` that do not panic if the reader of the
//! output is gone, as with `howdah schema | head`. A crate uses them in place of those of the
//! standard library with `#[macro_use(eprintln)] extern crate howdah_sys;`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Writes to standard output. If it is closed, the program ends, quietly; with another error (a
/// full disk), it ends with the reason.
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

/// Prints to standard output.
#[macro_export]
macro_rules! print {
    ($($part:tt)*) => { $crate::output::to_stdout(format_args!($($part)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! println {
    ($($part:tt)*) => { $crate::output::to_stdout(format_args!("{}\n", format_args!($($part)*))) };
}

/// Prints a line to standard error.
#[macro_export]
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::to_stderr(format_args!("{}\n", format_args!($($part)*))) };
}
