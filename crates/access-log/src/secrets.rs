//! Names of arguments whose values are hidden.

use std::collections::BTreeSet;

use howdah_config::Config;
use howdah_http::mask::SECRETS;

/// Returns the names of arguments whose values are hidden in the log and in what the control API shows:
/// the usual ones, and those that access logs of the document mask.
pub fn secrets(config: &Config) -> Vec<String> {
    let masked = config.access_logs().into_iter().flat_map(|(_, log)| log.mask.iter().cloned());
    let all: BTreeSet<_> = masked.chain(SECRETS.map(str::to_owned)).collect();
    all.into_iter().collect()
}
