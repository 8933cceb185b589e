//! The program `howdah-sendmail`, with which scripts of applications send mail.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(howdah_sendmail::program::run())
}
