//! The program `howdah-sendmail`: what scripts of applications send mail with.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(howdah_sendmail::program::run())
}
