//! The command line of `sendmail`.

use crate::address::Address;

/// A command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// Speaks SMTP on standard input and output (`-bs`).
    pub is_smtp: bool,
    /// The recipients are in the header (`-t`).
    pub from_header: bool,
    /// A line with a single dot is part of the message (`-i`, `-oi`).
    pub ignores_dots: bool,
    /// The sender of the envelope (`-f`, `-r`); `None` inside for the empty one.
    pub sender: Option<Option<Address>>,
    /// The name in a `From` that is missing (`-F`).
    pub full_name: Option<String>,
    /// Recipients.
    pub recipients: Vec<Address>,
}

/// Options that have an argument, which may be attached.
const WITH_ARGUMENT: &str = "BCFfhLNOoprRVX";

/// Options whose argument, if there is one, is attached.
const WITH_ATTACHED: &str = "Abdeq";

impl Arguments {
    /// Reads a command line without the name of the program. Options that concern a queue, a
    /// settings file or reports are accepted and ignored. Error: the argument that is wrong.
    pub fn parse(arguments: &[String]) -> Result<Arguments, String> {
        let mut found = Arguments::default();
        let mut rest = arguments.iter();
        // A `for` would not let an option take the next argument.
        #[allow(clippy::while_let_on_iterator)]
        while let Some(argument) = rest.next() {
            match argument.strip_prefix('-') {
                Some("-") => {
                    rest.by_ref().try_for_each(|recipient| found.add_recipient(recipient))?;
                }
                Some(options) if !options.is_empty() => {
                    for (at, option) in options.char_indices() {
                        let after = &options[at + option.len_utf8()..];
                        if WITH_ATTACHED.contains(option) {
                            found.set(option, after)?;
                            break;
                        }
                        if WITH_ARGUMENT.contains(option) {
                            let value = match after {
                                "" => rest.next().ok_or(format!("-{option} has no value"))?,
                                attached => attached,
                            };
                            found.set(option, value)?;
                            break;
                        }
                        found.set(option, "")?;
                    }
                }
                _ => found.add_recipient(argument)?,
            }
        }
        Ok(found)
    }

    fn add_recipient(&mut self, text: &str) -> Result<(), String> {
        let wrong = |wrong: String| format!("\"{}\" is no address of a recipient", shown(&wrong));
        self.recipients.extend(crate::address::list(text).map_err(wrong)?);
        Ok(())
    }

    fn set(&mut self, option: char, value: &str) -> Result<(), String> {
        match (option, value) {
            ('t', _) => self.from_header = true,
            ('i', _) | ('o', "i") => self.ignores_dots = true,
            ('f' | 'r', text) => self.sender = Some(sender(text)?),
            ('F', name) => self.full_name = Some(name.to_owned()),
            ('b', "s") => self.is_smtp = true,
            ('b', "m") => {}
            ('b', mode) => return Err(format!("-b{} is not supported", shown(mode))),
            ('q', _) => return Err("-q: there is no queue".to_owned()),
            (
                'A' | 'B' | 'C' | 'd' | 'e' | 'h' | 'L' | 'N' | 'O' | 'o' | 'p' | 'R' | 'V' | 'X',
                _,
            )
            | ('G' | 'I' | 'm' | 'n' | 's' | 'T' | 'U' | 'v', _) => {}
            (other, _) => return Err(format!("there is no option -{}", shown(&other.to_string()))),
        }
        Ok(())
    }
}

/// Reads the sender of an envelope: an address, also in angle brackets or with a name.
pub fn sender(text: &str) -> Result<Option<Address>, String> {
    if matches!(text.trim(), "" | "<>") {
        return Ok(None);
    }
    match crate::address::list(text).as_deref() {
        Ok([address]) => Ok(Some(address.clone())),
        _ => Err(format!("\"{}\" is no address of a sender", shown(text))),
    }
}

/// Returns a text for a message: printable, and not too long.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(100).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn options_are_read_as_sendmail_reads_them() {
        let usual = Arguments { from_header: true, ignores_dots: true, ..Arguments::default() };
        for line in
            ["-t -i", "-ti", "-t -oi", "-oi -t -oem -odb -v -G", "-it -N never -B8BITMIME -R hdrs"]
        {
            assert_eq!(parse(line).unwrap(), usual, "{line}");
        }
        for line in ["-f joe@a.org", "-fjoe@a.org", "-f<joe@a.org>", "-rjoe@a.org", "-ifjoe@a.org"]
        {
            assert_eq!(parse(line).unwrap().sender, Some(Some(address("joe@a.org"))), "{line}");
        }
        assert_eq!(parse("-f<>").unwrap().sender, Some(None));
        let given = parse("-i -FJoe a@a.org,b@b.org -- -c@c.org").unwrap();
        assert_eq!(given.recipients, ["a@a.org", "b@b.org", "-c@c.org"].map(address));
        assert_eq!(given.full_name.as_deref(), Some("Joe"));
        assert!(parse("-bs").unwrap().is_smtp && !parse("-bm").unwrap().is_smtp);
    }

    #[test]
    fn what_sendmail_would_do_and_this_program_does_not_is_refused() {
        for line in ["-bp", "-bd", "-q", "-q30m", "-f", "-Z", "-é", "-f a@b\r\nDATA", "x@y@"] {
            assert!(parse(line).is_err(), "{line}: {:?}", parse(line));
        }
        let error = parse("-fa\u{1b}[31m b").unwrap_err();
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
}
