//! Variables of the server's environment for `${NAME}` in `php.ini` and its further files, as the
//! server started by hand would have them: those of the application come first.
//!
//! PHP asks for each by its name while it reads its settings. Before it loads the first extension
//! they are overwritten and forgotten, so no script finds them.

use std::collections::BTreeSet;
use std::ffi::{CString, c_char};
use std::hint::black_box;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The variables; `None` unless PHP reads its settings.
static VARIABLES: Mutex<Option<StartVariables>> = Mutex::new(None);

#[derive(Default)]
struct StartVariables {
    /// Names and values.
    known: Vec<(String, CString)>,
    /// Defaults that PHP was given; it copies them later.
    defaults: Vec<CString>,
    /// Names that PHP has asked for in vain.
    missing: BTreeSet<String>,
}

/// Makes these variables known to [`find`].
pub fn set(variables: Vec<(String, String)>) {
    let known =
        variables.into_iter().filter_map(|(name, value)| Some((name, CString::new(value).ok()?)));
    let variables = StartVariables { known: known.collect(), ..StartVariables::default() };
    *VARIABLES.lock().unwrap_or_else(PoisonError::into_inner) = Some(variables);
}

/// Returns the value of a variable that the application does not have, or null. `own` returns those
/// of the application. The value is valid until [`forget`].
///
/// PHP before 8.3 takes `NAME:-default` for a name; it has the value that later versions give it.
pub fn find(name: &str, own: impl Fn(&str) -> Option<CString>) -> *const c_char {
    let mut variables = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(variables) = variables.as_mut() else { return ptr::null() };
    let (wanted, default) = match name.split_once(":-") {
        Some((wanted, default)) => (wanted, Some(default)),
        None => (name, None),
    };
    if default.is_some()
        && let Some(value) = own(wanted)
    {
        return variables.keep(value);
    }
    if let Some((_, value)) = variables.known.iter().find(|(known, _)| known == wanted) {
        return value.as_ptr();
    }
    match default.map(CString::new) {
        Some(Ok(default)) => variables.keep(default),
        _ => {
            variables.missing.insert(name.to_owned());
            ptr::null()
        }
    }
}

impl StartVariables {
    fn keep(&mut self, value: CString) -> *const c_char {
        self.defaults.push(value);
        self.defaults.last().map_or(ptr::null(), |value| value.as_ptr())
    }
}

/// Overwrites and forgets the variables. Returns the names that were asked for in vain.
pub fn forget() -> BTreeSet<String> {
    let taken = VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(taken) = taken else { return BTreeSet::new() };
    for (_, value) in taken.known {
        overwrite(value.into_bytes());
    }
    taken.missing
}

/// Overwrites a text that must not stay in the memory of a process that runs scripts.
pub fn overwrite(mut bytes: Vec<u8>) {
    bytes.fill(0);
    black_box(&bytes);
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_variable_is_that_of_the_application_then_that_of_the_server_then_the_default() {
        let pairs = [("A", "server"), ("B", "server")];
        set(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
        let own = |name: &str| (name == "A").then(|| CString::from(c"own"));
        let value = |name: &str| {
            let found = find(name, own);
            let variables = VARIABLES.lock().unwrap();
            let variables = variables.as_ref().unwrap();
            let known = variables.known.iter().map(|(_, value)| value);
            let mut all = known.chain(&variables.defaults).map(CString::as_c_str);
            all.find(|value: &&CStr| value.as_ptr() == found).map(|value| value.to_owned())
        };
        // PHP has looked for the application's own before.
        assert_eq!(value("A:-default").as_deref(), Some(c"own"));
        assert_eq!(value("B").as_deref(), Some(c"server"));
        assert_eq!(value("B:-default").as_deref(), Some(c"server"));
        assert_eq!(value("C:-a:-b").as_deref(), Some(c"a:-b"));
        assert_eq!(value("D"), None);
        assert_eq!(forget().into_iter().collect::<Vec<_>>(), ["D"]);
        assert!(find("A", own).is_null() && forget().is_empty());
    }
}
