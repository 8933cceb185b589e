//! `/status/protection`: restrictions of the server's processes.

use serde_json::{Map, Value, json};

/// Restrictions of the server's processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectionStatus {
    /// Version of the kernel's Landlock ABI; 0 if it has none.
    pub landlock: u32,
    /// The router.
    pub router: ProcessProtection,
    /// The applications by name, in the order of the response.
    pub applications: Vec<(String, ProcessProtection)>,
}

/// Restrictions of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessProtection {
    /// Its user; `None`, and not shown, for an application whose document names none.
    pub user: Option<String>,
    /// Names of the restrictions.
    pub restrictions: Vec<&'static str>,
    /// Namespaces of its own.
    pub namespaces: Vec<&'static str>,
}

impl ProtectionStatus {
    pub(crate) fn to_value(&self) -> Value {
        let applications = self.applications.iter();
        let applications: Map<_, _> =
            applications.map(|(name, one)| (name.clone(), one.to_value())).collect();
        json!({
            "landlock": self.landlock,
            "router": self.router.to_value(),
            "applications": applications,
        })
    }
}

impl ProcessProtection {
    fn to_value(&self) -> Value {
        let mut value = json!({ "restrictions": self.restrictions, "namespaces": self.namespaces });
        // Clients of Unit compare strings and lists, and subtract all other values.
        if let Some(user) = &self.user {
            value["user"] = user.as_str().into();
        }
        value
    }
}
