//! The merge of the options of actions along the way of a request. A new option is a field of
//! [`ActionOptions`], a field of [`Effects`] and a line of [`Effects::apply`].

use std::sync::Arc;

use howdah_access_log::AccessLog;
use howdah_config::{
    ActionOptions, BodyLimit, BrowserCaching, Buffering, ByType, Cors, Expiry, Fingerprinted,
    LimitBandwidth, ResponseHeader, ServerOptions,
};

use super::action::{Action, ActionCache, ErrorPage, Mirror};

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
    /// Each member is from the last action that sets it.
    pub caching: Caching<'s>,
    /// From the last action that sets it.
    pub charset: Option<&'s str>,
    /// From the last action that sets it.
    pub page_script: Option<&'s str>,
    /// True if an action lets another action check requests.
    pub is_authorized: bool,
    /// From the last action that has mirrors.
    pub mirror: &'s [Arc<Mirror>],
    /// From the last action that sets it.
    pub cache: Option<&'s ActionCache>,
    /// From the last action that sets it.
    pub max_body_size: Option<&'s BodyLimit>,
    /// From the last action that sets it.
    pub rate: Option<LimitBandwidth>,
    /// From the last action that sets it.
    pub intercept_errors: bool,
    /// Options of all actions; later actions take precedence.
    pub servers: Option<Arc<ServerOptions>>,
    /// The access logs are those of an action.
    pub has_own_log: bool,
    /// From the listener, or the last action that has access logs.
    pub access_log: Option<&'s Arc<[AccessLog]>>,
}

/// The cache fields that the response gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caching<'s> {
    /// Times of expiry.
    pub expires: Option<&'s ByType<Expiry>>,
    /// Directives of `Cache-Control`.
    pub directives: Option<&'s ByType<String>>,
    /// Files that do not change.
    pub fingerprinted: Option<&'s Fingerprinted>,
}

/// The options that the origin of a response is asked with.
#[derive(Debug, Clone)]
pub struct Handling<'s> {
    /// Buffering of messages.
    pub buffering: Buffering,
    /// Options for requests to other servers.
    pub servers: Option<Arc<ServerOptions>>,
    /// The cache in front of the origin.
    pub cache: Option<&'s ActionCache>,
    /// Another action has let the request pass, and may have told the origin for whom.
    pub is_authorized: bool,
    /// The response may be compressed, and the conditions of the request are those of the client.
    pub restores_tags: bool,
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
            caching: Caching::default(),
            charset: None,
            page_script: None,
            is_authorized: false,
            mirror: &[],
            cache: None,
            max_body_size: None,
            rate: None,
            intercept_errors: false,
            servers: None,
            has_own_log: false,
            access_log: None,
        }
    }
}

impl<'s> Effects<'s> {
    /// Returns the options that an origin is asked with.
    pub fn handling(&self) -> Handling<'s> {
        Handling {
            buffering: self.buffering,
            servers: self.servers.clone(),
            cache: self.cache,
            is_authorized: self.is_authorized,
            restores_tags: self.compress,
        }
    }

    /// Adds the options of the next action.
    pub fn apply(&mut self, action: &'s Action) {
        let ActionOptions {
            response_headers,
            compress,
            security_headers,
            cors,
            buffering,
            cache,
            caching,
            charset,
            page_script,
            max_body_size,
            servers,
            access_log: _,
            rate,
            intercept_errors,
            // These hold where the action is reached.
            internal: _,
            environment: _,
            php_settings: _,
            locked_php_settings: _,
        } = &action.options;
        self.response_headers = response_headers;
        self.compress &= compress;
        self.security_headers |= security_headers;
        self.cors = cors.as_ref().or(self.cors);
        self.buffering = buffering.or(self.buffering);
        self.caching = self.caching.or(caching);
        self.charset = charset.as_deref().or(self.charset);
        self.page_script = page_script.as_deref().or(self.page_script);
        self.is_authorized |= action.auth_request.is_some();
        if !action.mirror.is_empty() {
            self.mirror = &action.mirror;
        }
        if cache.is_some() {
            self.cache = action.cache.as_ref();
        }
        self.max_body_size = max_body_size.as_ref().or(self.max_body_size);
        self.rate = rate.or(self.rate);
        self.intercept_errors = intercept_errors.unwrap_or(self.intercept_errors);
        if let Some(servers) = servers {
            self.servers = Some(match &self.servers {
                Some(earlier) => Arc::new(servers.after(earlier)),
                None => Arc::clone(servers),
            });
        }
        self.has_own_log |= action.access_log.is_some();
        self.access_log = action.access_log.as_ref().or(self.access_log);
        if !action.error_pages.is_empty() {
            self.error_pages = &action.error_pages;
        }
    }
}

impl<'s> Caching<'s> {
    /// Returns these settings, replaced by those of the next action where it has some.
    fn or(self, next: &'s BrowserCaching) -> Caching<'s> {
        Caching {
            expires: next.expires.as_ref().or(self.expires),
            directives: next.directives.as_ref().or(self.directives),
            fingerprinted: next.fingerprinted.as_ref().or(self.fingerprinted),
        }
    }
}
