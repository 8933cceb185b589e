//! Endings of the names of files that requests may run. Included files are not checked.
//!
//! The router has chosen the file by the same list; this second check is in the process that opens
//! it.

use howdah_wire::bytes::Malformed;
use howdah_wire::request::decode_params;

/// The endings that the configuration has; empty for `.php` alone.
#[derive(Debug)]
pub struct ScriptExtensions<'a>(&'a [String]);

impl<'a> ScriptExtensions<'a> {
    /// Creates the list of an application.
    pub fn new(endings: &'a [String]) -> Self {
        ScriptExtensions(endings)
    }

    /// Returns true if a path has one of the endings.
    pub fn allow_path(&self, path: &[u8]) -> bool {
        match self.0 {
            [] => path.ends_with(b".php"),
            endings => endings.iter().any(|end| path.ends_with(end.as_bytes())),
        }
    }

    /// Returns true if the script that these parameters name has one of the endings. `None` if the
    /// configuration has none.
    pub fn allow(&self, params: &[u8], count: u32) -> Result<Option<bool>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        // Whichever of several names PHP takes, it has been checked.
        let (mut names, mut allowed) = (0, 0);
        decode_params(params, count, |name, value| {
            if name == b"SCRIPT_FILENAME" {
                names += 1;
                allowed += u32::from(self.allow_path(value));
            }
        })?;
        Ok(Some(names > 0 && allowed == names))
    }
}

#[cfg(test)]
mod tests {
    use howdah_wire::request::Params;

    use super::*;

    #[test]
    fn a_name_is_compared_byte_for_byte() {
        let endings = [".php".to_owned(), ".phtml".to_owned()];
        let extensions = ScriptExtensions::new(&endings);
        for (script, is_allowed) in [
            ("/srv/a.php", true),
            ("/srv/a.phtml", true),
            ("/srv/a.PHTML", false),
            ("/srv/a.phar", false),
            ("/srv/a.phtml/b", false),
            ("", false),
        ] {
            let mut params = Params::default();
            params.push(b"SCRIPT_FILENAME", script.as_bytes());
            let allowed = extensions.allow(params.as_bytes(), 1);
            assert_eq!(allowed, Ok(Some(is_allowed)), "{script}");
            assert_eq!(ScriptExtensions::new(&[]).allow(params.as_bytes(), 1), Ok(None));
        }
        assert_eq!(extensions.allow(b"\xff", 1), Err(Malformed));
    }
}
