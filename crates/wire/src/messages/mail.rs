//! Messages about mail: between the supervisor and the mail process, and between that process and
//! a program that submits a message.
//!
//! A submission goes over two pipes, which carry no descriptors. Each message has its length in
//! front, as 32 bits with the least significant byte first. After `Ready` the text follows in
//! chunks of the same form; an empty one ends it.

use super::field::Field;
use crate::bytes::{Decoder, Encode, Malformed};

/// Encryption of the connection to a mail server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// None.
    Off,
    /// From the first byte on, as on port 465.
    Implicit,
    /// After `STARTTLS`, which the server must offer.
    StartTls,
}

impl Field for MailTls {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(*self as u8);
    }
    fn take(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(MailTls::Off),
            1 => Ok(MailTls::Implicit),
            2 => Ok(MailTls::StartTls),
            _ => Err(Malformed),
        }
    }
}

record! {
    /// The mail server of an application, and the rules for its mail.
    MailRoute {
        /// Host name or address of the server.
        host: String,
        /// Port of the server.
        port: u16,
        /// Encryption of the connection.
        tls: MailTls,
        /// User name at the server; `None` without authentication.
        user: Option<String>,
        /// Path of the file with the password; opened by the supervisor.
        password_file: Option<String>,
        /// Path of the file with the trusted authorities, opened by the supervisor; `None` for
        /// those of the system.
        authorities: Option<String>,
        /// Addresses of DNS servers; none for those of the machine.
        resolver: Vec<String>,
        /// Sender of messages that name none.
        from: Option<String>,
        /// Maximum number of recipients in an hour; 0 for no limit.
        limit: u32,
        /// Maximum time of a delivery, in seconds.
        timeout: u32,
        /// Part of the document that has these settings, for messages.
        key: String,
    }
}

record! {
    /// Number of recipients of an application's mail by minute.
    MailUsage {
        /// Name of the application.
        application: String,
        /// Minute of the machine's monotonic clock, and the number.
        minutes: Vec<(u64, u32)>,
    }
}

messages! {
    /// From the supervisor to the mail process.
    ToMail {
        /// The first message.
        1 Hello {
            /// The process enters its sandbox.
            sandbox: bool,
            /// Host name of the machine.
            host: String,
        }
        /// An application submits a message. Descriptors: the pipe of the submission, the pipe of
        /// the answers, the file with the password or the file that takes messages, and the file
        /// with the authorities, as far as they exist.
        2 Deliver {
            /// Number of the submission, repeated in `Done`.
            number: u32,
            /// Name of the application.
            application: String,
            /// User of the application.
            user: String,
            /// Its mail server.
            route: MailRoute,
            /// Messages are appended to the first file instead of being sent.
            is_to_file: bool,
            /// There is a file with the password, or one that takes messages.
            has_file: bool,
            /// There is a file with the authorities.
            has_authorities: bool,
            /// Recipients of the last hour, by minute, as earlier processes have counted them.
            counted: Vec<(u64, u32)>,
        }
        /// Recipients that another server has counted, in addition to those that are known.
        3 Add {
            /// The recipients of an application.
            usage: MailUsage,
        }
    }
}

messages! {
    /// From the mail process to the supervisor.
    FromMail {
        /// A submission has ended.
        1 Done {
            /// Number of the submission.
            number: u32,
            /// Number of recipients, if a mail server has taken the message; otherwise 0.
            recipients: u32,
        }
        /// The process is idle. The supervisor closes the socket unless it has sent a message
        /// meanwhile, and the process ends.
        2 Idle {}
        /// The recipients of an application have changed. Sent before a message of theirs is
        /// delivered, so that the limit outlives the process.
        3 Counted {
            /// All recipients of the last hour.
            usage: MailUsage,
        }
    }
}

/// Encodes the recipients of all applications for another server.
pub fn put_mail_usage(usage: &[MailUsage]) -> Vec<u8> {
    let mut out = Vec::new();
    usage.to_vec().put(&mut out);
    out
}

/// Decodes the recipients of all applications.
pub fn take_mail_usage(bytes: &[u8]) -> Result<Vec<MailUsage>, Malformed> {
    let mut decoder = Decoder(bytes);
    let usage = Field::take(&mut decoder)?;
    decoder.end()?;
    Ok(usage)
}

messages! {
    /// From a program that submits a message to the mail process.
    FromSendmail {
        /// The envelope of a message.
        1 Submit {
            /// Sender that the program was called with; empty for none (`<>`).
            sender: Option<String>,
            /// First address of the message's `From`.
            author: Option<String>,
            /// Recipients.
            recipients: Vec<String>,
            /// The text has bytes above 127.
            is_8bit: bool,
            /// Length of the text in bytes, as far as it is known.
            size: u64,
        }
    }
}

messages! {
    /// From the mail process to a program that submits a message.
    ToSendmail {
        /// The mail server waits for the text.
        1 Ready {
            /// Address for a missing `From`.
            from: String,
            /// Host name for a missing `Message-ID`.
            host: String,
        }
        /// The mail server has taken the message.
        2 Sent {}
        /// The message was not sent.
        3 Failed {
            /// Exit status of sysexits.h.
            status: u8,
            /// Reason, and remedy.
            reason: String,
        }
    }
}
