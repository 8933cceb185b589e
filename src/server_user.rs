//! The user that the server runs as.

use howdah_sys::credentials::{self, Credentials};

use crate::cli::CommonOptions;

/// Default users for a server that root starts: those of the web servers of distributions.
const DEFAULT_USERS: [&str; 4] = ["www-data", "apache", "http", "nobody"];

/// Returns the user that the server runs as; `None` if it is the user of this process.
pub fn find(options: &CommonOptions) -> Result<Option<Credentials>, String> {
    let look_up = |name: &str| {
        Credentials::look_up(name, options.group.as_deref()).map_err(|error| error.to_string())
    };
    match &options.user {
        Some(name) if credentials::is_root() => look_up(name).map(Some),
        Some(name) => {
            let user = look_up(name)?;
            if user.uid == Credentials::current().uid {
                Ok(None)
            } else {
                Err(format!("--user {name}: only root can serve as another user"))
            }
        }
        None if credentials::is_root() => {
            let found = DEFAULT_USERS.iter().find_map(|name| Credentials::look_up(name, None).ok());
            found.map(Some).ok_or_else(|| {
                "root must not serve sites, and there is no user www-data, apache, http or \
                 nobody; name one with --user"
                    .to_owned()
            })
        }
        None => Ok(None),
    }
}
