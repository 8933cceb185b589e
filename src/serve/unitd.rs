//! Command lines of unitd, the program of NGINX Unit.

use howdah_client::DEFAULT_CONTROL;

use crate::cli::Serve;

/// The defaults of unitd.
const UNITD_STATE: &str = "/var/lib/howdah";
const UNITD_LOG: &str = "/var/log/howdah.log";
const UNITD_PID: &str = "/run/howdah.pid";

/// Applies the defaults of unitd, the background included, if the command line is one of unitd.
pub(super) fn apply_defaults(arguments: &mut Serve) {
    let is_https = arguments.tls || !arguments.domain.is_empty();
    let has_site = arguments.dir.is_some() || arguments.config.is_some() || is_https;
    if !arguments.like_unitd || has_site || !arguments.listen.is_empty() {
        return;
    }
    arguments.unit = true;
    arguments.common.state.get_or_insert_with(|| UNITD_STATE.into());
    if !arguments.no_control {
        arguments.control.get_or_insert_with(|| DEFAULT_CONTROL.to_owned());
    }
    arguments.common.pid.get_or_insert_with(|| UNITD_PID.into());
    arguments.common.log.get_or_insert_with(|| UNITD_LOG.into());
    arguments.daemon = !arguments.no_daemon;
}
