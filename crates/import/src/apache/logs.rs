//! Access logs: `LogFormat`, `CustomLog`, `TransferLog`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Default format of `TransferLog`, and of `CustomLog` without one.
const COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;

/// A format, and what is not as in Apache.
#[derive(Debug, PartialEq, Eq)]
pub struct Format {
    pub template: String,
    pub difference: Option<String>,
}

/// The formats by name.
#[derive(Debug, Default, Clone)]
pub struct Formats {
    named: BTreeMap<String, String>,
    /// Format of `LogFormat` without a name.
    plain: Option<String>,
}

impl Formats {
    /// Adds a format by the words of `LogFormat`.
    pub fn add(&mut self, words: &[String]) -> bool {
        match words {
            [format] => self.plain = Some(self.text(format)),
            [format, name] => {
                let text = self.text(format);
                self.named.insert(name.to_ascii_lowercase(), text);
            }
            _ => return false,
        }
        true
    }

    fn text(&self, format: &str) -> String {
        self.named.get(&format.to_ascii_lowercase()).cloned().unwrap_or_else(|| format.to_owned())
    }

    /// Returns the text of a format, or the one of a name; without any, the last one without a name.
    pub fn get(&self, format: Option<&str>) -> String {
        match format {
            Some(format) => self.text(format),
            None => self.plain.clone().unwrap_or_else(|| COMMON.to_owned()),
        }
    }
}

/// Translates a format. `host` is the value of `%v`.
pub fn translated(format: &str, host: &str) -> Format {
    let mut template = String::new();
    let mut unknown: Vec<String> = Vec::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '%' => {
                let (text, behind, problem) = directive(rest, host);
                template.push_str(&text);
                unknown.extend(problem);
                rest = behind;
            }
            '$' => template.push_str("${dollar}"),
            '\\' => {
                let next = rest.chars().next();
                rest = next.map_or(rest, |next| &rest[next.len_utf8()..]);
                match next {
                    Some('t') => template.push('\t'),
                    Some('n') => template.push('\n'),
                    Some(next) => template.push(next),
                    None => template.push('\\'),
                }
            }
            c => template.push(c),
        }
    }
    let mut difference =
        (!unknown.is_empty()).then(|| format!("{} is written as -", unknown.join(", ")));
    if difference.is_none() && template.contains("${is_args}") {
        difference = Some("a query that is not there is written as -".to_owned());
    }
    Format { template, difference }
}

/// Translates a directive behind `%`. Returns the text, the rest, and the directive if there is
/// nothing for it.
fn directive<'a>(text: &'a str, host: &str) -> (String, &'a str, Option<String>) {
    let conditions =
        text.len() - text.trim_start_matches(|c: char| matches!(c, '!' | ',' | '0'..='9')).len();
    let mut rest = text[conditions..].trim_start_matches(['<', '>']);
    let mut argument = None;
    if let Some(inside) = rest.strip_prefix('{')
        && let Some(end) = inside.find('}')
    {
        argument = Some(&inside[..end]);
        rest = inside[end + 1..].trim_start_matches(['<', '>']);
    }
    let Some(letter) = rest.chars().next() else { return ("%".into(), rest, None) };
    let behind = &rest[letter.len_utf8()..];
    let variable = |prefix: &str| {
        argument.map(|name| format!("${{{prefix}{}}}", name.to_ascii_lowercase().replace('-', "_")))
    };
    let plain = |text: &str| Some(text.to_owned());
    let text_of = match (letter, argument) {
        ('%', _) => plain("%"),
        ('h' | 'a', _) => plain("${remote_addr}"),
        ('A', _) => plain("${server_addr}"),
        ('l', _) => plain("-"),
        ('u', _) => plain("${remote_user}"),
        ('t', None) => plain("[${time_local}]"),
        ('t', Some("sec" | "begin:sec" | "end:sec")) => None,
        ('r', _) => plain("${request_line}"),
        ('s', _) => plain("${status}"),
        ('b' | 'B', _) => plain("${body_bytes_sent}"),
        ('O', _) => plain("${bytes_sent}"),
        ('I', _) => plain("${request_length}"),
        ('S', _) => None,
        ('m', _) => plain("${method}"),
        ('U', _) => plain("${uri}"),
        ('q', _) => plain("${is_args}${args}"),
        ('H', _) => plain("${server_protocol}"),
        ('v', _) => Some(host.replace('$', "${dollar}")),
        ('V', _) => plain("${host}"),
        ('p', None | Some("canonical" | "local")) => plain("${server_port}"),
        ('p', Some("remote")) => plain("${remote_port}"),
        ('T', _) => None,
        ('k', _) => None,
        ('i', Some(_)) => variable("header_"),
        ('o', Some(_)) => variable("response_header_"),
        ('C', Some(name)) if is_name(name) => Some(format!("${{cookie_{name}}}")),
        ('e', Some("UNIQUE_ID")) | ('L', None) => plain("${request_id}"),
        ('x', Some("SSL_PROTOCOL")) | ('e', Some("SSL_PROTOCOL")) => plain("${ssl_protocol}"),
        ('x', Some("SSL_CIPHER")) | ('e', Some("SSL_CIPHER")) => plain("${ssl_cipher}"),
        _ => None,
    };
    let is_valid = argument.is_none_or(|name| is_name(&name.replace('-', "_")))
        || !matches!(letter, 'i' | 'o');
    match text_of.filter(|_| is_valid) {
        Some(text) => (text, behind, None),
        None => {
            let length = text.len() - behind.len();
            ("-".into(), behind, Some(format!("%{}", &text[..length])))
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the destination of a log, and what is not as in Apache.
pub fn destination(target: &str, server_root: &str) -> (Option<Value>, Option<String>) {
    if let Some(command) = target.strip_prefix('|') {
        let command = command.trim_start_matches(['|', '$']);
        if command.contains("logger") || command.contains("systemd-cat") {
            let reason = "lines are written to the journal, without the command";
            return (Some(json!({ "journal": true })), Some(reason.into()));
        }
        return match rotated(command) {
            Some(path) => {
                let reason =
                    "lines are written to the file itself; rotate it with logrotate and SIGUSR1";
                (Some(json!({ "path": path })), Some(reason.into()))
            }
            None => (None, Some("logs are not written to programs".into())),
        };
    }
    if target.eq_ignore_ascii_case("syslog") || target.starts_with("syslog:") {
        return (Some(json!({ "syslog": "unix:/dev/log" })), None);
    }
    if target.starts_with("journald") {
        return (Some(json!({ "journal": true })), None);
    }
    let path =
        if target.starts_with('/') { target.to_owned() } else { format!("{server_root}/{target}") };
    (Some(json!({ "path": path })), None)
}

/// Returns the file of rotatelogs, without the parts of the time.
fn rotated(command: &str) -> Option<String> {
    let words = super::words::all(command);
    words.first().filter(|program| program.ends_with("rotatelogs"))?;
    let path = words.iter().skip(1).find(|word| word.starts_with('/'))?;
    let mut name = String::new();
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        if c == '%' {
            chars.next();
        } else {
            name.push(c);
        }
    }
    Some(name.trim_end_matches(['.', '-', '_']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_become_templates() {
        let of = |format| translated(format, "a.example").template;
        assert_eq!(
            of(r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" %{X-A}o 5$"#),
            "a.example:${server_port} ${remote_addr} - ${remote_user} [${time_local}] \
             \"${request_line}\" ${status} ${bytes_sent} \"${header_referer}\" \
             ${response_header_x_a} 5${dollar}"
        );
        let odd = translated("%D %{NAME}e %400,501{User-agent}i %%", "a");
        assert_eq!(odd.template, "- - ${header_user_agent} %");
        assert_eq!(odd.difference.unwrap(), "%D, %{NAME}e is written as -");
    }

    #[test]
    fn pipes_of_rotatelogs_are_files() {
        let (found, reason) =
            destination("|/usr/bin/rotatelogs -l /var/log/a.%Y-%m-%d 86400", "/e");
        assert_eq!(found, Some(json!({"path": "/var/log/a"})));
        assert!(reason.is_some());
        assert_eq!(destination("|/bin/x", "/e").0, None);
        assert_eq!(destination("logs/a", "/e").0, Some(json!({"path": "/e/logs/a"})));
    }
}
