//! `/status/protection`: what protects the processes of the server from each other.

use serde_json::{Map, Value, json};

/// What protects the processes of the server from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectionStatus {
    /// Version of the kernel's Landlock; 0 if it has none.
    pub landlock: u32,
    /// The router.
    pub router: ProcessProtection,
    /// The applications by name, in the order to show them in.
    pub applications: Vec<(String, ProcessProtection)>,
}

/// What protects others from a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessProtection {
    /// Its user; `None`, and not shown, for an application whose document names none.
    pub user: Option<String>,
    /// What it is kept from.
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
        // Clients of Unit compare strings and lists, and subtract what is neither.
        if let Some(user) = &self.user {
            value["user"] = user.as_str().into();
        }
        value
    }
}
