//! Accounts with authorities. One account serves all certificates with the same directory, e-mail
//! address and external account; it is stored and used again after a restart.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use howdah_config::{Acme, AcmeServer};
use howdah_text::hex;
use howdah_tls::stored::ACCOUNT_PREFIX;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use tokio::sync::Mutex;

use super::client::Client;
use super::context::RenewalContext;
use super::failure::{Failure, retry_bad_nonce};

/// An account and the HTTP client for its authority.
#[derive(Clone)]
pub(super) struct Session {
    pub account: Account,
    pub client: Client,
}

/// Sessions by the stored names of their accounts. The lock of an entry is held while its account
/// is loaded or created, so that no account is created twice.
#[derive(Default)]
pub(super) struct Accounts(RefCell<HashMap<String, Rc<Mutex<Option<Session>>>>>);

impl Accounts {
    /// Returns the session for an authority with an existing account; `None` if there is no
    /// account.
    pub async fn existing(
        &self,
        context: &RenewalContext,
        acme: &Acme,
        server: &AcmeServer,
    ) -> Result<Option<Session>, Failure> {
        let name = account_name(acme, server);
        let entry = self.entry(&name);
        let mut entry = entry.lock().await;
        if let Some(session) = &*entry {
            return Ok(Some(session.clone()));
        }
        let Some(stored) = context.stored(&name) else { return Ok(None) };
        let client = client(context, server).await?;
        let session = Session { account: load(&stored, &client).await?, client };
        *entry = Some(session.clone());
        Ok(Some(session))
    }

    /// Returns the session for an authority. Creates the account if there is none.
    pub async fn existing_or_new(
        &self,
        context: &RenewalContext,
        acme: &Acme,
        server: &AcmeServer,
    ) -> Result<Session, Failure> {
        let name = account_name(acme, server);
        let entry = self.entry(&name);
        let mut entry = entry.lock().await;
        if let Some(session) = &*entry {
            return Ok(session.clone());
        }
        let client = client(context, server).await?;
        let account = match context.stored(&name) {
            Some(stored) => load(&stored, &client).await?,
            None => {
                let (account, credentials) = create(acme, server, &client).await?;
                let text = serde_json::to_vec(&credentials);
                context.store(&name, text.map_err(|e| Failure::other(e.to_string()))?).await;
                account
            }
        };
        let session = Session { account, client };
        *entry = Some(session.clone());
        Ok(session)
    }

    /// Drops the session with an authority; the next use loads the authority's directory again.
    pub fn reset(&self, acme: &Acme, server: &AcmeServer) {
        self.0.borrow_mut().remove(&account_name(acme, server));
    }

    /// Drops an account that the authority does not know; the next use creates a new one.
    pub fn discard(&self, context: &RenewalContext, acme: &Acme, server: &AcmeServer) {
        self.reset(acme, server);
        context.forget(&account_name(acme, server));
    }

    fn entry(&self, name: &str) -> Rc<Mutex<Option<Session>>> {
        Rc::clone(self.0.borrow_mut().entry(name.to_owned()).or_default())
    }
}

/// Creates a client that trusts the authority's own `ca`, or the system's authorities.
async fn client(context: &RenewalContext, server: &AcmeServer) -> Result<Client, Failure> {
    let ca = match &server.ca {
        Some(path) => Some(context.read_file(path).await.map_err(Failure::other)?),
        None => None,
    };
    Client::new(ca.as_deref()).map_err(Failure::other)
}

async fn load(stored: &[u8], client: &Client) -> Result<Account, Failure> {
    let credentials: AccountCredentials = serde_json::from_slice(stored)
        .map_err(|_| Failure::account("the stored account cannot be read".to_owned()))?;
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let account = builder.from_credentials(credentials).await;
    account.map_err(|error| Failure::from_error(&error, client))
}

async fn create(
    acme: &Acme,
    server: &AcmeServer,
    client: &Client,
) -> Result<(Account, AccountCredentials), Failure> {
    let contact = acme.email.as_ref().map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.as_deref().into_iter().collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let external = server.external_account.as_ref();
    let external =
        external.map(|external| ExternalAccountKey::new(external.id.clone(), &external.key));
    let created = retry_bad_nonce!(Account::builder_with_http(Box::new(client.clone())).create(
        &new,
        server.directory.clone(),
        external.as_ref()
    ));
    created.map_err(|error| Failure::from_error(&error, client))
}

/// Returns the name that an account is stored under.
fn account_name(acme: &Acme, server: &AcmeServer) -> String {
    let id = server.external_account.as_ref().map_or("", |account| &account.id);
    let email = acme.email.as_deref().unwrap_or_default();
    let text = format!("{}\n{email}\n{id}", server.directory);
    let digest = digest(&SHA256, text.as_bytes());
    let digest = digest.as_ref().get(..12).unwrap_or_default();
    format!("{ACCOUNT_PREFIX}{}", hex::lower(digest))
}
