//! The merge of the options of actions along the way of a request. A new option is a field of
//! [`Options`], a field of [`Effects`] and a line of [`Effects::apply`].

use howdah_config::{Buffering, Cors, ResponseHeader};

use super::action::{ErrorPage, Options};

/// The options that count for a request: those of all actions that it has met.
#[derive(Debug)]
pub struct Effects<'s> {
    /// Of the last action.
    pub response_headers: &'s [ResponseHeader],
    /// No action forbids compression.
    pub compress: bool,
    /// Of the last action that has error pages.
    pub error_pages: &'s [ErrorPage],
    /// An action asks for them.
    pub security_headers: bool,
    /// Of the last action that has `cors`.
    pub cors: Option<&'s Cors>,
    /// Each of the last action that sets it.
    pub buffering: Buffering,
    /// Of the last action that sets it.
    pub max_body_size: Option<u64>,
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
        }
    }
}

impl<'s> Effects<'s> {
    /// Adds the options of the next action.
    pub fn apply(&mut self, options: &'s Options) {
        self.response_headers = &options.response_headers;
        self.compress &= options.compress;
        if !options.error_pages.is_empty() {
            self.error_pages = &options.error_pages;
        }
        self.security_headers |= options.security_headers;
        self.cors = options.cors.as_ref().or(self.cors);
        self.buffering = options.buffering.or(self.buffering);
        self.max_body_size = options.max_body_size.or(self.max_body_size);
    }
}
