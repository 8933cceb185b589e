//! Orders one certificate from one authority (RFC 8555, 7.4):
//!
//! 1. place the order;
//! 2. prove the names ([`challenges`]), and wait until the authority has checked them;
//! 3. generate a key, and finalize the order with the signing request;
//! 4. wait for the certificate, download it and check it.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use instant_acme::{Error, Identifier, NewOrder, Order, OrderStatus};

use super::accounts::Session;
use super::authorizations;
use super::certificate::IssuedCertificate;
use super::context::RenewalContext;
use super::failure::{Failure, FailureKind, retry_bad_nonce};
use super::request::CertificateRequest;
use super::signing_request::SigningRequest;

/// Timeout for each of the authority's own steps: the check of the proofs, and the issuance.
const AUTHORITY_TIMEOUT: Duration = Duration::from_secs(300);
/// First and longest interval between two polls of the order's status.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// An issued certificate: the text to store (chain and key, PEM), and the facts about it.
pub(super) struct Issued {
    pub bundle: Vec<u8>,
    pub certificate: IssuedCertificate,
}

/// Obtains a certificate.
pub(super) async fn obtain(
    context: &Rc<RenewalContext>,
    session: &Session,
    request: &CertificateRequest<'_>,
) -> Result<Issued, Failure> {
    let failure = |error: Error| Failure::from_error(&error, &session.client);
    let mut order = place(session, request).await?;
    let proofs = authorizations::publish(context, session, request, &mut order).await?;
    authorizations::set_ready(session, request, &mut order).await?;
    if let Err(failure) = wait_for(session, &mut order, OrderStatus::Ready).await {
        return Err(match order.state().status {
            OrderStatus::Invalid => {
                authorizations::explain_refusal(request, &mut order, failure).await
            }
            _ => failure,
        });
    }
    drop(proofs);
    let (kind, domains) = (request.acme.key, request.domains.to_vec());
    let generated =
        tokio::task::spawn_blocking(move || SigningRequest::generate(kind, domains)).await;
    let generated = generated.unwrap_or_else(|_| Err("the key could not be generated".to_owned()));
    let SigningRequest { key, csr } = generated.map_err(Failure::other)?;
    if order.state().status == OrderStatus::Ready {
        retry_bad_nonce!(order.finalize_csr(&csr)).map_err(failure)?;
    }
    wait_for(session, &mut order, OrderStatus::Valid).await?;
    let chain = retry_bad_nonce!(order.certificate()).map_err(failure)?;
    let chain =
        chain.ok_or_else(|| Failure::other("the authority sent no certificate".to_owned()))?;
    let bundle = format!("{}\n{key}", chain.trim_end()).into_bytes();
    let certificate = check(&bundle, request.domains).map_err(|problem| {
        Failure::other(format!("the authority sent an unusable certificate: {problem}"))
    })?;
    Ok(Issued { bundle, certificate })
}

async fn place(session: &Session, request: &CertificateRequest<'_>) -> Result<Order, Failure> {
    let names: Vec<_> = request.domains.iter().cloned().map(Identifier::Dns).collect();
    let mut new = NewOrder::new(&names);
    if let Some(profile) = &request.acme.profile {
        new = new.profile(profile);
    }
    if let Some(replaces) = &request.replaces {
        new = new.replaces(replaces.clone());
    }
    let placed = retry_bad_nonce!(session.account.new_order(&new));
    placed.map_err(|error| {
        let failure = Failure::from_error(&error, &session.client);
        match (&error, &request.replaces) {
            // Authorities return different errors for an unknown certificate.
            (Error::Api(_), Some(_)) => failure.or_kind(FailureKind::Replacement),
            _ => failure,
        }
    })
}

/// Polls the order until it has this status or is valid.
async fn wait_for(
    session: &Session,
    order: &mut Order,
    expected: OrderStatus,
) -> Result<(), Failure> {
    let deadline = Instant::now() + AUTHORITY_TIMEOUT;
    let (mut interval, longest) = POLL_INTERVALS;
    loop {
        let status = order.state().status;
        if status == expected || status == OrderStatus::Valid {
            return Ok(());
        }
        if status == OrderStatus::Invalid {
            return Err(match order.state().error.clone() {
                Some(problem) => Failure::from_error(&Error::Api(problem), &session.client),
                None => Failure::other("the order was refused".to_owned()),
            });
        }
        if Instant::now() > deadline {
            let minutes = AUTHORITY_TIMEOUT.as_secs() / 60;
            return Err(Failure::other(format!(
                "the authority did not finish the order within {minutes} minutes"
            )));
        }
        tokio::time::sleep(interval).await;
        interval = (interval * 3 / 2).min(longest);
        let refreshed = retry_bad_nonce!(order.refresh()).map(|_| ());
        refreshed.map_err(|error| Failure::from_error(&error, &session.client))?;
    }
}

/// Parses a bundle that an authority has issued. Error: the reason why it cannot be used.
fn check(bundle: &[u8], domains: &[String]) -> Result<IssuedCertificate, String> {
    let certificate = IssuedCertificate::parse(bundle)?;
    if !certificate.covers(domains) {
        return Err("it is for other names".to_owned());
    }
    if certificate.validity.remaining(SystemTime::now()).is_zero() {
        return Err("it has expired already; is the clock right?".to_owned());
    }
    Ok(certificate)
}
