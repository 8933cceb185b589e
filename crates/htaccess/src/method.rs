//! Methods of requests.

/// Names of the methods. `HEAD` is missing: to Apache it is a form of `GET`.
pub(crate) const NAMES: &[&str] = &[
    "GET",
    "PUT",
    "POST",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "VERSION-CONTROL",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "BASELINE-CONTROL",
    "MERGE",
    "BREW",
    "WHEN",
];

/// Returns true for the name of a method; names have case.
pub(crate) fn is_known(name: &[u8]) -> bool {
    name == b"HEAD" || NAMES.iter().any(|known| known.as_bytes() == name)
}

/// Methods of a `<Limit>` or `<LimitExcept>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Methods {
    /// Names in upper case; `HEAD` is `GET`.
    pub names: Vec<Vec<u8>>,
    /// True for `<LimitExcept>`: all methods but these.
    pub is_except: bool,
}

impl Methods {
    /// Returns true if a method of a request is among them. `HEAD` counts as `GET`.
    pub fn contains(&self, method: &[u8]) -> bool {
        let method = if method == b"HEAD" { b"GET" } else { method };
        self.names.iter().any(|name| name == method) != self.is_except
    }

    /// Returns the methods that are in both, for sections inside of each other.
    pub(crate) fn both(&self, other: &Methods) -> Methods {
        let keep = |from: &Methods, by: &Methods| Methods {
            names: from.names.iter().filter(|name| by.contains(name)).cloned().collect(),
            is_except: false,
        };
        match (self.is_except, other.is_except) {
            (true, true) => Methods {
                names: self.names.iter().chain(&other.names).cloned().collect(),
                is_except: true,
            },
            (false, _) => keep(self, other),
            (true, false) => keep(other, self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(names: &[&str], is_except: bool) -> Methods {
        Methods { names: names.iter().map(|name| name.as_bytes().to_vec()).collect(), is_except }
    }

    #[test]
    fn head_counts_as_get() {
        assert!(methods(&["GET"], false).contains(b"HEAD"));
        assert!(!methods(&["GET"], true).contains(b"HEAD"));
    }

    #[test]
    fn nested_sections_have_the_methods_of_both() {
        let both = methods(&["GET", "POST"], false).both(&methods(&["GET"], true));
        assert!(both.contains(b"POST") && !both.contains(b"GET") && !both.contains(b"PUT"));
        let both = methods(&["GET"], true).both(&methods(&["PUT"], true));
        assert!(both.contains(b"POST") && !both.contains(b"GET") && !both.contains(b"PUT"));
    }
}
