//! Accounts with authorities: made once for each authority and address of somebody, kept, and
//! used for all certificates.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use howdah_config::{Acme, AcmeServer};
use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, NewAccount};
use tokio::sync::Mutex;

use super::ACCOUNT_PREFIX;
use super::client::Client;
use super::keeper::Office;
use super::order::Failure;

/// An account, and the way to its authority.
#[derive(Clone)]
pub(super) struct Session {
    pub account: Account,
    pub client: Client,
}

/// Sessions by the names of their accounts. Whoever makes an account holds its place.
#[derive(Default)]
pub(super) struct Accounts(RefCell<HashMap<String, Rc<Mutex<Option<Session>>>>>);

impl Accounts {
    /// The account for a certificate; made if there is none and `make` says so.
    pub async fn session(
        &self,
        office: &Office,
        acme: &Acme,
        server: &AcmeServer,
        make: bool,
    ) -> Result<Option<Session>, Failure> {
        let name = name(acme, server);
        let place = Rc::clone(self.0.borrow_mut().entry(name.clone()).or_default());
        let mut place = place.lock().await;
        if let Some(session) = &*place {
            return Ok(Some(session.clone()));
        }
        let ca = match &server.ca {
            Some(path) => Some(office.read_file(path).await.map_err(Failure::own)?),
            None => None,
        };
        let client = Client::new(ca.as_deref()).map_err(Failure::own)?;
        let account = match office.stored(&name) {
            Some(stored) => load(&stored, &client).await?,
            None if make => {
                let (account, credentials) = create(acme, server, &client).await?;
                let text =
                    serde_json::to_vec(&credentials).map_err(|e| Failure::own(e.to_string()))?;
                office.keep(&name, text).await;
                account
            }
            None => return Ok(None),
        };
        let session = Session { account, client };
        *place = Some(session.clone());
        Ok(Some(session))
    }

    /// Looks at the authority anew the next time; with `lost` also for a new account.
    pub fn forget(&self, office: &Office, acme: &Acme, server: &AcmeServer, lost: bool) {
        let name = name(acme, server);
        self.0.borrow_mut().remove(&name);
        if lost {
            office.forget(&name);
        }
    }
}

async fn load(stored: &[u8], client: &Client) -> Result<Account, Failure> {
    let credentials: AccountCredentials = serde_json::from_slice(stored)
        .map_err(|_| Failure::lost("the stored account cannot be read".to_owned()))?;
    let builder = Account::builder_with_http(Box::new(client.clone()));
    let account = builder.from_credentials(credentials).await;
    account.map_err(|error| Failure::of(&error, client))
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
    let bound = server.external_account.as_ref();
    let bound = bound.map(|bound| ExternalAccountKey::new(bound.id.clone(), &bound.key));
    let mut tries = 0;
    loop {
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let made = builder.create(&new, server.directory.clone(), bound.as_ref()).await;
        match made {
            Err(Error::Api(problem)) if super::order::is_stale(&problem) && tries < 8 => tries += 1,
            made => return made.map_err(|error| Failure::of(&error, client)),
        }
    }
}

/// The name that an account is stored under.
fn name(acme: &Acme, server: &AcmeServer) -> String {
    let id = server.external_account.as_ref().map_or("", |account| &account.id);
    let email = acme.email.as_deref().unwrap_or_default();
    let text = format!("{}\n{email}\n{id}", server.directory);
    let digest = digest(&SHA256, text.as_bytes());
    let hex: String = digest.as_ref().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{ACCOUNT_PREFIX}{hex}")
}
