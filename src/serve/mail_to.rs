//! `--mail-to`: the messages of a site in development.

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use howdah_sys::plain::Plain;
use serde_json::{Value, json};

use super::mail_page;

/// Adds the mail server to a document, if the option names one.
pub fn add(document: &mut Value, option: Option<&str>) -> Result<(), String> {
    let Some((is_tls, rest)) = option.and_then(url) else { return Ok(()) };
    let wrong = || {
        format!(
            "--mail-to: \"{}\" is not such as smtp://localhost:1025",
            option.unwrap_or_default()
        )
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, if port.is_empty() { "" } else { port.strip_prefix(':').ok_or_else(wrong)? })
        }
        None => rest.rsplit_once(':').unwrap_or((rest, "")),
    };
    if host.is_empty() || host.contains(['/', '@', '?', '#']) {
        return Err(wrong());
    }
    let mut smtp = json!({"host": host});
    if !port.is_empty() {
        smtp["port"] = json!(port.parse::<u16>().map_err(|_| wrong())?);
    } else if is_tls {
        smtp["port"] = json!(465);
    }
    if is_tls {
        smtp["tls"] = json!(true);
    }
    document["settings"]["smtp"] = smtp;
    Ok(())
}

/// Returns the line that says where messages of scripts go.
pub fn explain(document: &Value, option: Option<&str>) -> String {
    match option {
        Some(mail_page::OPTION) => mail_page::explain(document),
        Some(place) if url(place).is_some() => format!("mail: to the server {}", Plain(place)),
        Some(file) => format!("mail: to the file {}", Plain(file)),
        None => "mail: to the server localhost:25; --mail-to page shows it".to_owned(),
    }
}

/// Opens the file that takes all messages, if the option names one.
pub fn file(option: Option<&str>) -> Result<Option<OwnedFd>, String> {
    let Some(path) = option.filter(|option| url(option).is_none()) else { return Ok(None) };
    if path.contains("://") {
        return Err(format!(
            "--mail-to: \"{path}\" is neither a file nor such as smtp://localhost:1025"
        ));
    }
    let failed = |problem: String| format!("--mail-to: {path}: {problem}");
    // Passwords are reset by mail. A pipe without a reader would make this wait.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = file.map_err(|error| failed(error.to_string()))?;
    let kind = file.metadata().map_err(|error| failed(error.to_string()))?.file_type();
    if kind.is_file() || kind.is_char_device() {
        Ok(Some(file.into()))
    } else {
        Err(failed("is no file".to_owned()))
    }
}

/// Returns true with TLS, and the rest of a URL behind its scheme.
fn url(option: &str) -> Option<(bool, &str)> {
    let plain = option.strip_prefix("smtp://").map(|rest| (false, rest));
    plain.or_else(|| option.strip_prefix("smtps://").map(|rest| (true, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_server_and_anything_else_a_file() {
        for (option, expected) in [
            ("smtp://localhost:1025", json!({"host": "localhost", "port": 1025})),
            ("smtp://mail.test", json!({"host": "mail.test"})),
            ("smtp://[::1]:25/", json!({"host": "::1", "port": 25})),
            ("smtps://mail.test", json!({"host": "mail.test", "port": 465, "tls": true})),
        ] {
            let mut document = json!({});
            add(&mut document, Some(option)).unwrap();
            assert_eq!(document["settings"]["smtp"], expected, "{option}");
            assert!(file(Some(option)).unwrap().is_none());
        }
        for wrong in ["smtp://", "smtp://a:b", "smtp://u@a", "smtp://[::1", "smtp://a/b"] {
            assert!(add(&mut json!({}), Some(wrong)).is_err(), "{wrong}");
        }
        assert!(file(Some("http://a")).is_err());
        let directory = tempfile::tempdir().unwrap();
        assert!(file(directory.path().to_str()).is_err());
        let path = directory.path().join("mail");
        assert!(file(path.to_str()).unwrap().is_some() && path.is_file());
        let mut document = json!({});
        add(&mut document, path.to_str()).unwrap();
        assert_eq!(document, json!({}));
    }
}
