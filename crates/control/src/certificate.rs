//! Names and descriptions of certificate bundles.

use std::fmt;

use serde_json::{Map, Value};

use crate::path::Path;
use crate::refusal::Refusal;
use crate::reply::Reply;

/// The name of a certificate bundle. It is a plain file name: no slash, no leading dot, no control
/// character, at most 255 bytes. Joined to a directory, it cannot lead out of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateName(String);

impl CertificateName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<CertificateName, Refusal> {
        let is_plain = !name.is_empty()
            && name.len() <= MAX_LENGTH
            && !name.starts_with('.')
            && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control());
        if is_plain {
            Ok(CertificateName(name.to_owned()))
        } else {
            Err(Refusal::InvalidCertificateName)
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Answers [`Command::GetCertificates`] from the descriptions of all bundles, by name.
///
/// [`Command::GetCertificates`]: crate::Command::GetCertificates
pub fn list_certificates(bundles: &Map<String, Value>, path: &Path) -> Reply {
    let [name, rest @ ..] = path.steps() else {
        return Reply::value(Value::Object(bundles.clone()));
    };
    let Some(bundle) = bundles.get(name) else { return Refusal::NoSuchCertificate.into() };
    match Path::from(rest).find(bundle) {
        Some(value) => Reply::value(value.clone()),
        None => Refusal::NoSuchPath.into(),
    }
}

/// Maximum length of a file name in bytes (Linux).
const MAX_LENGTH: usize = 255;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_certificate_name_cannot_leave_its_directory() {
        let long = "x".repeat(256);
        let bad = ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a\\b", "a\nb", &long];
        for name in bad {
            assert_eq!(
                CertificateName::new(name),
                Err(Refusal::InvalidCertificateName),
                "{name:?}"
            );
        }
        for name in ["default", "example.org", "*.example.org", "пример", "a b", &long[1..]] {
            assert_eq!(CertificateName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn certificates_are_listed_whole_and_in_part() {
        let bundles = json!({"blog": {"key": "RSA (2048 bits)", "chain": [{"subject": {}}]}});
        let bundles = bundles.as_object().unwrap();
        let listed = |target: &str| {
            let reply = list_certificates(bundles, &Path::read(target.as_bytes()).unwrap());
            (reply.status(), reply.body().clone())
        };
        assert_eq!(listed("/"), (200, Value::Object(bundles.clone())));
        assert_eq!(listed("/blog/chain/0"), (200, json!({"subject": {}})));
        assert_eq!(listed("/shop"), (404, json!({"error": "Certificate doesn't exist."})));
        assert_eq!(listed("/blog/chain/1"), (404, json!({"error": "Invalid path."})));
    }
}
