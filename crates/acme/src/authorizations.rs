//! Proves the names of an order (RFC 8555, 8): publishes the answers to its challenges, and tells
//! the authority to check them.

use std::rc::Rc;

use howdah_config::AcmeChallenge;
use howdah_tls::challenge_answers::PublishedProof;
use instant_acme::{AuthorizationStatus, ChallengeType, Error, Identifier, Order};

use super::accounts::Session;
use super::context::RenewalContext;
use super::dns_record::DnsRecord;
use super::failure::{Failure, FailureKind, describe, is_bad_nonce, retry_bad_nonce, sanitize};
use super::request::CertificateRequest;

/// Maximum number of times that the authorizations are fetched again after `badNonce`.
const MAX_FETCH_RETRIES: u32 = 16;

/// A published answer to a challenge. Dropping it removes the answer.
pub(super) enum Proof {
    Published { _proof: PublishedProof },
    Record { _record: DnsRecord },
}

/// Publishes the answers for all names that are not proved yet. With DNS it also waits for
/// `dns.wait`, until name servers have the records.
pub(super) async fn publish(
    context: &Rc<RenewalContext>,
    session: &Session,
    request: &CertificateRequest<'_>,
    order: &mut Order,
) -> Result<Vec<Proof>, Failure> {
    fetch_authorizations(session, order).await?;
    let mut proofs = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.map_err(|error| Failure::from_error(&error, &session.client))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let domain = match authorization.identifier().identifier {
            Identifier::Dns(domain) if request.includes(domain) => domain.clone(),
            other => {
                let message =
                    format!("the authority asks for a proof of another identifier: {other:?}");
                return Err(Failure::other(message));
            }
        };
        let Some(challenge) = authorization.challenge(challenge_type(request.challenge)) else {
            let kind = config_name(request.challenge);
            let message = format!("the authority offers no {kind} challenge for {domain}");
            return Err(Failure::challenge(message));
        };
        let key = challenge.key_authorization();
        let proof = match (request.challenge, &request.acme.dns) {
            (AcmeChallenge::Http, _) => {
                let proof = context.challenges.publish_http(&challenge.token, key.as_str());
                let proof = proof.ok_or_else(|| {
                    Failure::other("the authority's token has invalid characters".to_owned())
                })?;
                Proof::Published { _proof: proof }
            }
            (AcmeChallenge::TlsAlpn, _) => {
                let digest = key.digest();
                let proof = context.challenges.publish_tls_alpn(&domain, digest.as_ref());
                Proof::Published { _proof: proof.map_err(Failure::other)? }
            }
            (AcmeChallenge::Dns, Some(hook)) => {
                let record = DnsRecord::create(context, hook, &domain, key.dns_value()).await;
                Proof::Record { _record: record.map_err(Failure::other)? }
            }
            (AcmeChallenge::Dns, None) => {
                return Err(Failure::other("dns/program is not set".to_owned()));
            }
        };
        proofs.push(proof);
    }
    let has_records = proofs.iter().any(|proof| matches!(proof, Proof::Record { .. }));
    if let (true, Some(hook)) = (has_records, &request.acme.dns) {
        tokio::time::sleep(hook.wait).await;
    }
    Ok(proofs)
}

/// Tells the authority that the answers to the challenges are published.
pub(super) async fn set_ready(
    session: &Session,
    request: &CertificateRequest<'_>,
    order: &mut Order,
) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.map_err(|error| Failure::from_error(&error, &session.client))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        if let Some(mut challenge) = authorization.challenge(challenge_type(request.challenge)) {
            let ready = retry_bad_nonce!(challenge.set_ready());
            ready.map_err(|error| Failure::from_error(&error, &session.client))?;
        }
    }
    Ok(())
}

/// Replaces the message of a refused order by the authority's reasons for each name, if it gives
/// any.
pub(super) async fn explain_refusal(
    request: &CertificateRequest<'_>,
    order: &mut Order,
    failure: Failure,
) -> Failure {
    let mut problems = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if retry_bad_nonce!(authorization.refresh()).is_err()
            || authorization.status == AuthorizationStatus::Valid
        {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let challenges = authorization.challenges.iter();
        for error in challenges.filter_map(|challenge| challenge.error.as_ref()) {
            problems.push(format!("{domain}: {}", describe(error)));
        }
    }
    let message = if problems.is_empty() {
        failure.message
    } else {
        let kind = config_name(request.challenge);
        sanitize(&format!("proof by {kind}: {}", problems.join("; ")))
    };
    Failure { message, kind: FailureKind::Challenge, ..failure }
}

/// Fetches the state of all authorizations.
async fn fetch_authorizations(session: &Session, order: &mut Order) -> Result<(), Failure> {
    let mut retries = 0;
    'fetch: loop {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            match authorization {
                Ok(_) => {}
                Err(Error::Api(problem))
                    if is_bad_nonce(&problem) && retries < MAX_FETCH_RETRIES =>
                {
                    retries += 1;
                    continue 'fetch; // the order keeps those already fetched
                }
                Err(error) => return Err(Failure::from_error(&error, &session.client)),
            }
        }
        return Ok(());
    }
}

fn challenge_type(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::Http => ChallengeType::Http01,
        AcmeChallenge::TlsAlpn => ChallengeType::TlsAlpn01,
        AcmeChallenge::Dns => ChallengeType::Dns01,
    }
}

/// Returns the name of a type of challenge in the configuration.
fn config_name(challenge: AcmeChallenge) -> &'static str {
    match challenge {
        AcmeChallenge::Http => "http",
        AcmeChallenge::TlsAlpn => "tls-alpn",
        AcmeChallenge::Dns => "dns",
    }
}
