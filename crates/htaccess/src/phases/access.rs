//! Access by address, authentication and authorization.

use std::sync::Arc;

use super::server::{Progress, Server};
use crate::modules::authz;
use crate::record::Record;

impl Server<'_> {
    /// Decides whether the client may have the resource.
    pub(super) async fn authorize(&self, record: &mut Record) -> Progress {
        if self.is_authorized_already(record) {
            return Ok(());
        }
        let result = authz::authorize(record, self.world, self).await;
        self.world.explain(&|| match result {
            Ok(()) => "access is allowed".to_owned(),
            Err(status) => format!("access is refused with {status} (Require, Allow, Deny)"),
        });
        result
    }

    /// A request whose directives are those of the request before it, or above it, is not asked
    /// again.
    fn is_authorized_already(&self, record: &mut Record) -> bool {
        let (config, user, auth_type) = match (&record.previous, &record.main) {
            (Some(previous), _) => (&previous.config, &previous.user, &previous.auth_type),
            (None, Some(main)) => (&main.config, &main.user, &main.auth_type),
            (None, None) => return false,
        };
        if !Arc::ptr_eq(config, &record.config) {
            return false;
        }
        let (user, auth_type) = (user.clone(), auth_type.clone());
        record.user = user;
        record.auth_type = auth_type;
        true
    }
}
