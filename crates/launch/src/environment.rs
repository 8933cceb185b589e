//! The environment variables of an application.

use howdah_sys::credentials::Credentials;
use howdah_wire::messages::ApplicationSpec;

/// Returns the configured variables, with `USER` and `HOME` of the user as PHP-FPM sets them.
pub fn environment(spec: &ApplicationSpec, user: Option<&Credentials>) -> Vec<(String, String)> {
    let user = user.cloned().unwrap_or_else(Credentials::current);
    let mut environment = spec.environment.clone();
    for (name, value) in [("USER", user.name), ("HOME", user.home)] {
        if !environment.iter().any(|(n, _)| n == name) {
            environment.push((name.to_owned(), value));
        }
    }
    environment
}
