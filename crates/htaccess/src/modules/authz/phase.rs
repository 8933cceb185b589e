//! Phases of access and authentication, in Apache's order.

use super::answer::{Answer, Lookups};
use super::check::evaluate;
use crate::modules::services::Services;
use crate::modules::{access_compat, auth_basic};
use crate::record::Record;
use crate::support::lossy;
use crate::world::{Level, World};

/// Decides whether a request may continue; the error is the status of the answer (401, 403, 500).
/// Sets the user and the type of authentication, and `WWW-Authenticate` in `err_headers_out` for
/// 401.
///
/// The steps: `Order`, `Allow` and `Deny`; then `Require` without a user; then, if a user may
/// change the result, the password and `Require` again. With `Satisfy Any` the first step alone is
/// enough.
pub async fn authorize(
    record: &mut Record,
    world: &dyn World,
    services: &dyn Services,
) -> Result<(), u16> {
    let config = record.config.clone();
    let mut lookups = Lookups::new(record, world, services).await;
    lookups.find_groups(record, world).await.map_err(|_| 503_u16)?;
    let is_allowed =
        access_compat::is_allowed(config.of::<access_compat::Config>(), record, &lookups.hosts);
    let is_any = config.of::<access_compat::Config>().is_satisfied_by_any(&record.method);
    if !is_allowed {
        log_denied(record, world);
    }
    match (is_allowed, is_any) {
        (true, true) => return Ok(()),
        (false, false) => return Err(403),
        _ => {}
    }
    let auth_type = auth_basic::auth_type(record, world, services);
    match evaluate(config.of::<super::Config>(), record, world, services, &lookups) {
        None if auth_type.is_some() => {
            let message = "AuthType configured with no corresponding authorization directives";
            world.log(Level::Error, message);
            return Err(500);
        }
        None | Some(Answer::Granted) => return Ok(()),
        Some(Answer::Denied | Answer::Neutral) => {
            log_denied(record, world);
            return Err(403);
        }
        Some(Answer::Error) => return Err(500),
        Some(Answer::DeniedNoUser) => {}
    }
    auth_basic::authenticate(record, world, services).await?;
    if record.user.is_none() {
        let message = format!(
            "No authentication done but request not allowed without authentication for {}. \
             Authentication not configured?",
            lossy(&record.uri)
        );
        world.log(Level::Error, &message);
        return Err(500);
    }
    let user = record.user.clone().unwrap_or_default();
    lookups.find_groups(record, world).await.map_err(|_| 503_u16)?;
    match evaluate(config.of::<super::Config>(), record, world, services, &lookups) {
        None | Some(Answer::Granted) => Ok(()),
        Some(Answer::DeniedNoUser) => {
            let uri = lossy(&record.uri);
            world.log(
                Level::Error,
                &format!("authorization failure (no authenticated user): {uri}"),
            );
            auth_basic::note_failure(record, world, services);
            Err(401)
        }
        Some(Answer::Denied | Answer::Neutral) => {
            if auth_type.is_none() {
                log_denied(record, world);
                return Err(403);
            }
            let (user, uri) = (lossy(&user), lossy(&record.uri));
            world.log(Level::Error, &format!("user {user}: authorization failure for \"{uri}\": "));
            if config.of::<super::Config>().forbidden_on_failure == Some(true) {
                return Err(403);
            }
            auth_basic::note_failure(record, world, services);
            Err(401)
        }
        Some(Answer::Error) => Err(500),
    }
}

fn log_denied(record: &Record, world: &dyn World) {
    world.log(
        Level::Error,
        &format!("client denied by server configuration: {}", lossy(&record.filename)),
    );
}
