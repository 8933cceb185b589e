//! A proxy of IMAP, POP3 and SMTP that reads the protocol up to the login.
//!
//! 1. [`imap`], [`pop3`] and [`smtp`] speak with a client before its login, with the methods of
//!    [`sasl`]; they are state machines without I/O, which take bytes ([`input`]) and write replies.
//!    [`front`] is one of them.
//! 2. [`question`] asks an authentication server in nginx's protocol whether the login is right and
//!    which server is behind. Without one, the server behind decides.
//! 3. [`backend`] logs in at that server in the client's place.
//! 4. [`session`] does the I/O, and passes bytes both ways from then on.
//!
//! Passwords are overwritten when they are no longer needed, and no log and no error has one.
#![forbid(unsafe_code)]

pub mod backend;
pub mod capabilities;
mod conversation;
pub mod front;
pub mod imap;
pub mod input;
pub mod login;
pub mod pop3;
pub mod proxy;
pub mod question;
pub mod sasl;
pub mod session;
pub mod smtp;
