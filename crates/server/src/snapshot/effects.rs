//! The merge of the options of actions along the way of a request. A new option is a field of
//! [`ActionOptions`], a field of [`Effects`] and a line of [`Effects::apply`].

use std::sync::Arc;

use howdah_access_log::AccessLog;
use howdah_config::{ActionOptions, Buffering, Cors, ResponseHeader};

use super::action::{Action, ErrorPage};

/// Effective options of a request: those of all actions on its way, merged.
#[derive(Debug)]
pub struct Effects<'s> {
    /// From the last action.
    pub response_headers: &'s [ResponseHeader],
    /// True unless an action forbids compression.
    pub compress: bool,
    /// From the last action that has error pages.
    pub error_pages: &'s [ErrorPage],
    /// True if an action asks for the fields.
    pub security_headers: bool,
    /// From the last action that has `cors`.
    pub cors: Option<&'s Cors>,
    /// Each member is from the last action that sets it.
    pub buffering: Buffering,
    /// From the last action that sets it.
    pub max_body_size: Option<u64>,
    /// From the last action that sets it.
    pub intercept_errors: bool,
    /// From the listener, or the last action that has access logs.
    pub access_log: Option<&'s Arc<[AccessLog]>>,
}

impl Default for Effects<'_> {
    fn default() -> Self {
        Effects {
            response_headers: &[],
            compress: true,
            error_pages: &[],
            security_headers: false,
            cors: None,
            buffering: Buffering::default(),
            max_body_size: None,
            intercept_errors: false,
            access_log: None,
        }
    }
}

impl<'s> Effects<'s> {
    /// Adds the options of the next action.
    pub fn apply(&mut self, action: &'s Action) {
        let ActionOptions {
            response_headers,
            compress,
            security_headers,
            cors,
            buffering,
            max_body_size,
            access_log: _,
            intercept_errors,
            // These hold where the action is reached.
            internal: _,
            environment: _,
            php_settings: _,
        } = &action.options;
        self.response_headers = response_headers;
        self.compress &= compress;
        self.security_headers |= security_headers;
        self.cors = cors.as_ref().or(self.cors);
        self.buffering = buffering.or(self.buffering);
        self.max_body_size = max_body_size.or(self.max_body_size);
        self.intercept_errors = intercept_errors.unwrap_or(self.intercept_errors);
        self.access_log = action.access_log.as_ref().or(self.access_log);
        if !action.error_pages.is_empty() {
            self.error_pages = &action.error_pages;
        }
    }
}
