//! The CGI parameters of a request in the form that C reads: pointers into the worker's copy.

use howdah_wire::bytes::Malformed;
use howdah_wire::php_values;
use howdah_wire::profile::Order;
use howdah_wire::request::{Reserved, decode_params};

use crate::document_root::Roots;
use crate::ffi::Params;

/// Reason why parameters cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// The encoding is invalid: an error of the router.
    Malformed,
    /// A parameter contains a NUL, at which C would end the string.
    Nul,
}

impl From<Malformed> for Unusable {
    fn from(_: Malformed) -> Self {
        Unusable::Malformed
    }
}

/// Values that replace those of the request: the document root without symbolic links, and the
/// paths below it. Each ends in a NUL.
#[derive(Debug, Default)]
pub struct Resolved(Vec<(&'static [u8], Vec<u8>)>);

impl Resolved {
    /// Resolves the document root among these parameters; `now_us` is any monotonic time.
    pub fn new(bytes: &[u8], count: u32, roots: &Roots, now_us: u64) -> Result<Self, Unusable> {
        const ROOT: &[u8] = b"DOCUMENT_ROOT";
        const BELOW: [&[u8]; 2] = [b"SCRIPT_FILENAME", b"PATH_TRANSLATED"];
        let mut root: &[u8] = b"";
        let mut below: [&[u8]; 2] = [b""; 2];
        decode_params(bytes, count, |name, value| {
            if name == ROOT {
                root = value;
            } else if let Some(place) = BELOW.iter().position(|other| *other == name) {
                below[place] = value;
            }
        })?;
        let mut resolved = Resolved::default();
        let Some(real) = roots.real(root, now_us) else { return Ok(resolved) };
        resolved.0.push((ROOT, [&real[..], b"\0"].concat()));
        for (name, value) in BELOW.into_iter().zip(below) {
            if let Some(rest) = value.strip_prefix(root).filter(|rest| rest.starts_with(b"/")) {
                resolved.0.push((name, [&real[..], rest, b"\0"].concat()));
            }
        }
        Ok(resolved)
    }

    fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, value)| &value[..])
    }
}

/// Decodes `count` parameters from the front of `bytes`. Returns them and the bytes that follow.
/// Reserved parameters are kept apart from those that scripts see.
pub fn decode<'a: 'r, 'r>(
    bytes: &'a [u8],
    count: u32,
    resolved: &'r Resolved,
) -> Result<(Params<'r>, &'a [u8]), Unusable> {
    let mut params = Params::default();
    let mut is_valid = true;
    let mut reserved: Vec<(Reserved, &[u8])> = Vec::new();
    let mut is_broken = false;
    // `decode_params` passes strings without the NUL that follows them.
    let with_nul = |text: &[u8]| {
        let start = text.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
        bytes.get(start..start.checked_add(text.len() + 1)?)
    };
    let rest = decode_params(bytes, count, |name, value| {
        match Reserved::from_name(name) {
            Ok(None) => {}
            Ok(Some(parameter)) => {
                is_broken |= reserved.iter().any(|(other, _)| *other == parameter);
                return reserved.push((parameter, value));
            }
            Err(Malformed) => return is_broken = true,
        }
        is_valid &= match (with_nul(name), resolved.get(name).or_else(|| with_nul(value))) {
            (Some(name), Some(value)) => params.push(name, value),
            _ => false,
        };
    })?;
    if is_broken {
        return Err(Unusable::Malformed);
    }
    for (parameter, value) in reserved {
        is_valid &= match parameter {
            Reserved::PhpValues | Reserved::PhpAdminValues if value.contains(&0) => false,
            Reserved::PhpValues | Reserved::PhpAdminValues => {
                let is_locked = parameter == Reserved::PhpAdminValues;
                params.add_php_values(php_values::decode(value)?, is_locked);
                true
            }
            Reserved::Authorization => {
                with_nul(value).is_some_and(|value| params.set_authorization(value))
            }
            Reserved::AnyName => {
                params.allow_any_name(value == b"1");
                true
            }
            Reserved::Status => {
                let digits = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let status = digits.filter(|status| (100..=599).contains(status));
                params.set_status(status.ok_or(Unusable::Malformed)?);
                true
            }
            // The caller has read it.
            Reserved::FastCgi => return Err(Unusable::Malformed),
            Reserved::Profile => {
                params.profile = Some(Order::decode(value)?);
                true
            }
        };
    }
    if is_valid { Ok((params, rest)) } else { Err(Unusable::Nul) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_wire::request::Params as Encoded;

    #[test]
    fn a_nul_within_a_value_is_refused() {
        let mut encoded = Encoded::default();
        encoded.push(b"SCRIPT_FILENAME", b"/srv/a.jpg\0.php");
        assert_eq!(decode(encoded.as_bytes(), 1, &Resolved::default()).unwrap_err(), Unusable::Nul);
    }

    #[test]
    fn fewer_parameters_than_announced_are_refused() {
        let mut encoded = Encoded::default();
        encoded.push(b"A", b"1");
        assert_eq!(
            decode(encoded.as_bytes(), 2, &Resolved::default()).unwrap_err(),
            Unusable::Malformed
        );
        assert_eq!(
            decode(encoded.as_bytes(), u32::MAX, &Resolved::default()).unwrap_err(),
            Unusable::Malformed
        );
    }

    #[test]
    fn what_follows_the_parameters_is_returned() {
        let mut encoded = Encoded::default();
        encoded.push(b"A", b"1");
        let mut bytes = encoded.as_bytes().to_vec();
        bytes.extend_from_slice(b"body");
        assert_eq!(decode(&bytes, 1, &Resolved::default()).unwrap().1, b"body");
    }

    #[test]
    fn broken_reserved_parameters_are_refused() {
        let decoded = |pairs: &[(&[u8], &[u8])]| {
            let mut bytes = Vec::new();
            for (name, value) in pairs {
                bytes.extend((name.len() as u32).to_le_bytes());
                bytes.extend((value.len() as u32).to_le_bytes());
                bytes.extend([name, &b"\0"[..], value, b"\0"].concat());
            }
            decode(&bytes, pairs.len() as u32, &Resolved::default()).map(|_| ())
        };
        let settings = Reserved::PhpValues.name();
        let authorization = Reserved::Authorization.name();
        assert_eq!(decoded(&[(settings, b"a\x021\x03"), (authorization, b"Basic x")]), Ok(()));
        assert_eq!(decoded(&[(settings, b""), (authorization, b"")]), Ok(()));
        for broken in [
            &[(settings, &b"a"[..])][..],
            &[(settings, b""), (settings, b"")],
            &[(authorization, b""), (authorization, b"")],
            &[(b"\x01unknown", b"")],
        ] {
            assert_eq!(decoded(broken), Err(Unusable::Malformed), "{broken:?}");
        }
        for nul in
            [(settings, &b"a\x02\0\x03"[..]), (settings, b"a\0\x021\x03"), (authorization, b"\0")]
        {
            assert_eq!(decoded(&[nul]), Err(Unusable::Nul), "{nul:?}");
        }
    }

    #[test]
    fn paths_below_a_root_with_a_link_lead_to_where_it_leads() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let base = base.to_str().unwrap();
        std::fs::create_dir(format!("{base}/1")).unwrap();
        std::os::unix::fs::symlink("1", format!("{base}/now")).unwrap();
        let resolved = |root: &str, script: &str| {
            let mut encoded = Encoded::default();
            encoded.push(b"SCRIPT_FILENAME", script.as_bytes());
            encoded.push(b"DOCUMENT_ROOT", root.as_bytes());
            let resolved = Resolved::new(encoded.as_bytes(), 2, &Roots::default(), 0).unwrap();
            let text = |name: &[u8]| {
                resolved.get(name).map(|value| String::from_utf8(value.to_vec()).unwrap())
            };
            (text(b"DOCUMENT_ROOT"), text(b"SCRIPT_FILENAME"))
        };
        let now = format!("{base}/now");
        let (root, script) = (format!("{base}/1\0"), format!("{base}/1/a/b.php\0"));
        assert_eq!(resolved(&now, &format!("{now}/a/b.php")), (Some(root.clone()), Some(script)));
        assert_eq!(resolved(&now, &format!("{now}x/b.php")), (Some(root), None));
        let plain = format!("{base}/1");
        assert_eq!(resolved(&plain, &format!("{plain}/b.php")), (None, None));
    }
}
