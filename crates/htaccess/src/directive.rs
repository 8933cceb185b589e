//! A directive, as Apache's `command_rec` describes each.

use crate::config::DirConfig;
use crate::options::Options;

/// Class of `AllowOverride` that a directive belongs to, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override(pub u8);

impl Override {
    /// In server configuration only: an error in a `.htaccess`.
    pub const NONE: Override = Override(0);
    /// Authentication and authorization.
    pub const AUTH_CONFIG: Override = Override(1);
    /// Types, handlers, header fields, redirects, rewriting.
    pub const FILE_INFO: Override = Override(2);
    /// Index files and listings.
    pub const INDEXES: Override = Override(4);
    /// Access by address.
    pub const LIMIT: Override = Override(8);
    /// `Options` and settings of PHP.
    pub const OPTIONS: Override = Override(16);
    /// Always allowed.
    pub const ALL: Override = Override(31);

    /// Returns the classes of both.
    pub const fn union(self, other: Override) -> Override {
        Override(self.0 | other.0)
    }

    /// Returns true if both have a class in common.
    pub const fn intersects(self, other: Override) -> bool {
        self.0 & other.0 != 0
    }
}

/// Division of the rest of the line into arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// Not divided.
    Raw,
    /// No words.
    None,
    /// A word.
    One,
    /// Two words.
    Two,
    /// Three words.
    Three,
    /// One or two words.
    OneOrTwo,
    /// Two or three words.
    TwoOrThree,
    /// One, two or three words.
    OneToThree,
    /// One or more words; the function is called for each.
    Each,
    /// A word, and one or more others; the function is called for each of the others.
    EachAfterFirst,
    /// All words at once.
    Words,
    /// `On` or `Off`; the function gets `on` or `off`.
    Flag,
}

/// Place of a directive.
#[derive(Debug)]
pub struct Place<'a> {
    /// Path of the file.
    pub file: &'a str,
    /// Number of the line, from 1.
    pub line: u32,
    /// Directory of the file, absolute, with a slash at the end.
    pub directory: &'a [u8],
    /// Name or pattern of the `<Files>` or `<FilesMatch>` around it, `*If` in an `<If>`; `None`
    /// outside.
    pub section: Option<&'a [u8]>,
    /// Methods of the `<Limit>` around it; `None` without one.
    pub methods: Option<&'a crate::method::Methods>,
    /// Options that the directive `Options` may name.
    pub options: Options,
}

/// Adds a directive at a place to the configuration; the words are its arguments. The error is the
/// text that Apache logs.
pub type Apply = fn(&mut DirConfig, &Place<'_>, &[&[u8]]) -> Result<(), String>;

/// Returns true if the argument of a [`Flag`](Arguments::Flag) is `on`.
pub fn is_on(arguments: &[&[u8]]) -> bool {
    arguments.first().is_some_and(|word| word.eq_ignore_ascii_case(b"on"))
}

/// A directive of a module.
#[derive(Debug)]
pub struct Directive {
    /// Name, in Apache's spelling; compared without case. A section's name begins with `<`: its
    /// function gets the rest of the line, then come the directives inside, then the function of
    /// `</Name>`, if there is one.
    pub name: &'static str,
    /// Division of the rest of the line.
    pub arguments: Arguments,
    /// Classes of `AllowOverride`, one of which must be allowed.
    pub class: Override,
    /// Apache's text after `NAME takes …` if the number of arguments is wrong.
    pub usage: &'static str,
    /// The function that adds the directive to a configuration.
    pub apply: Apply,
}

impl Directive {
    /// Creates a directive.
    pub const fn new(
        name: &'static str,
        arguments: Arguments,
        class: Override,
        usage: &'static str,
        apply: Apply,
    ) -> Directive {
        Directive { name, arguments, class, usage, apply }
    }
}
