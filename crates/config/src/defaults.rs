//! Values that hold where a document says nothing, and that the command line may choose.

/// Defaults of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// The default of `settings.http.strict_requests`.
    pub strict_requests: bool,
}

impl Default for Defaults {
    /// Howdah's own.
    fn default() -> Defaults {
        Defaults { strict_requests: true }
    }
}

impl Defaults {
    /// NGINX Unit's if these are wanted, otherwise Howdah's own.
    pub fn of(unit: bool) -> Defaults {
        if unit { Defaults::of_unit() } else { Defaults::default() }
    }

    /// NGINX Unit's, for clients that rely on its ways.
    pub fn of_unit() -> Defaults {
        Defaults { strict_requests: false }
    }
}
