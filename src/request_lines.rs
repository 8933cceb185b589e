//! A line for each request of `howdah serve DIR`, on standard output: at a terminal, or with `--dev`.

use std::io::{IsTerminal, stdout};

use serde_json::{Value, json};

/// How requests are shown.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum RequestLines {
    /// Not at all.
    #[default]
    None,
    /// As text.
    Plain,
    /// With the colour of their status, for a terminal.
    Coloured,
}

/// The line of a request.
const LINE: &str = "$method $request_uri ${request_time} s $script_filename";

/// The lowest and the highest status with a colour, and its number (ECMA-48, SGR): green, cyan, yellow
/// and red.
const COLOURS: [(u16, u16, u8); 4] =
    [(100, 299, 32), (300, 399, 36), (400, 499, 33), (500, 599, 31)];

impl RequestLines {
    /// Returns how requests are shown on the standard output of this process; `is_dev` with `--dev`.
    pub fn of_output(is_dev: bool) -> RequestLines {
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match stdout().is_terminal() {
            true if !is_plain => RequestLines::Coloured,
            false if !is_dev => RequestLines::None,
            _ => RequestLines::Plain,
        }
    }

    /// Adds the lines to a document as access logs.
    pub fn add(self, document: &mut Value) {
        let log = |line: String| json!({"path": "/dev/stdout", "format": line});
        document["access_log"] = match self {
            RequestLines::None => return,
            RequestLines::Plain => log(format!("$status {LINE}")),
            RequestLines::Coloured => COLOURS
                .iter()
                .map(|(from, to, colour)| {
                    let mut log = log(format!("\u{1b}[{colour}m$status\u{1b}[0m {LINE}"));
                    log["only"] = json!({"status": [from, to]});
                    log
                })
                .collect(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_access_logs_of_a_valid_document() {
        for (lines, count) in
            [(RequestLines::None, 0), (RequestLines::Plain, 1), (RequestLines::Coloured, 4)]
        {
            let mut document = json!({"listeners": {"*:80": {"pass": "routes"}}, "routes": []});
            lines.add(&mut document);
            let config = howdah_config::parse(document.to_string().as_bytes()).unwrap();
            assert_eq!(config.access_log.len(), count, "{lines:?}");
        }
    }
}
