//! A compiled member of `mail`.

use std::sync::Arc;

use howdah_config as config;
use howdah_tls::TlsClient;
use howdah_upstream::servers::upstream::Upstream;

use crate::capabilities::Known;
use crate::login::Offer;

/// A proxy of mail, with the servers that it asks and passes to.
#[derive(Debug)]
pub struct MailProxy {
    /// Name for logs: `mail/NAME`.
    pub name: Arc<str>,
    /// Settings.
    pub config: config::Mail,
    /// What clients are offered.
    pub offer: Offer,
    /// The servers that decide about logins, each with the settings of its requests.
    pub authentication: Vec<(Arc<Upstream>, config::MailAuthentication)>,
    /// The upstream whose servers decide themselves.
    pub backend: Option<Arc<Upstream>>,
    /// Capabilities of the servers behind.
    pub capabilities: Known,
    /// TLS to the servers behind; with `backend`, its upstream may have it instead.
    pub tls: Option<Arc<TlsClient>>,
}

impl MailProxy {
    /// Compiles a proxy.
    pub fn new(
        config: &config::Mail,
        authentication: Vec<Arc<Upstream>>,
        backend: Option<Arc<Upstream>>,
        tls: Option<Arc<TlsClient>>,
    ) -> MailProxy {
        let servers = config.authentication.iter().cloned();
        MailProxy {
            name: format!("mail/{}", config.name).into(),
            offer: Offer {
                methods: config.methods.clone(),
                capabilities: config.capabilities.clone(),
                server_name: config.server_name.clone().unwrap_or_else(host_name),
                max_errors: config.max_errors,
            },
            authentication: authentication.into_iter().zip(servers).collect(),
            backend,
            capabilities: Known::default(),
            tls,
            config: config.clone(),
        }
    }

    /// Returns TLS to servers behind that begins by a command, if there is any.
    pub fn starttls(&self) -> Option<&TlsClient> {
        let begins = self.config.tls.as_ref().is_some_and(|tls| tls.starttls);
        self.tls.as_deref().filter(|_| begins)
    }
}

/// Returns the name of this machine.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
