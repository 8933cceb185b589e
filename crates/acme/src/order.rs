//! One certificate from one authority: order, proofs, key, certificate.

use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_config::{Acme, AcmeChallenge, AcmeKey};
use howdah_tls::challenges::Shown;
use instant_acme::{
    AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, Problem,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, RsaKeySize};

use super::accounts::Session;
use super::client::Client;
use super::hook::Record;
use super::keeper::Office;
use super::made::Made;

/// How long an authority may take for what it does behind the scenes.
const PATIENCE: Duration = Duration::from_secs(300);

/// What is asked for.
pub(super) struct Wish<'a> {
    pub acme: &'a Acme,
    pub domains: &'a [String],
    /// The way that names are proved.
    pub way: AcmeChallenge,
    /// The certificate that it takes the place of, if the authority wants to know.
    pub replaces: Option<CertificateIdentifier<'static>>,
}

/// Why there is no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub message: String,
    pub whose: Whose,
    /// How long the authority wants to be left alone.
    pub retry_after: Option<Duration>,
}

/// Whose fault it is, which is what helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A name was not proved: another way may do.
    Proof,
    /// The authority does not know the account: another one is needed.
    Account,
    /// It has another certificate in mind than the one to be replaced.
    Replacement,
    /// Anything else.
    Other,
}

/// A proof, until it is not needed any more.
enum Proof {
    Shown { _shown: Shown },
    Record { _record: Record },
}

/// Calls again what the authority refused for a number that it has forgotten (RFC 8555, 6.5).
macro_rules! patiently {
    ($call:expr) => {{
        let mut tries = 0;
        loop {
            match $call.await {
                Err(Error::Api(problem)) if is_stale(&problem) && tries < 8 => tries += 1,
                result => break result,
            }
        }
    }};
}

/// Has a certificate made; returns it with its key.
pub(super) async fn obtain(
    office: &Rc<Office>,
    session: &Session,
    wish: &Wish<'_>,
) -> Result<(Vec<u8>, Made), Failure> {
    let failed = |error: Error| Failure::of(&error, &session.client);
    let names: Vec<_> = wish.domains.iter().cloned().map(Identifier::Dns).collect();
    let mut new = NewOrder::new(&names);
    if let Some(profile) = &wish.acme.profile {
        new = new.profile(profile);
    }
    if let Some(replaces) = &wish.replaces {
        new = new.replaces(replaces.clone());
    }
    let ordered = patiently!(session.account.new_order(&new));
    let mut order = ordered.map_err(|error| match (&error, &wish.replaces) {
        // Authorities differ in what they call a certificate that they do not know.
        (Error::Api(_), Some(_)) => failed(error).unless_known(Whose::Replacement),
        _ => failed(error),
    })?;
    let proofs = prove(office, session, wish, &mut order).await?;
    set_ready(session, wish, &mut order).await?;
    if let Err(failure) = wait(session, &mut order, OrderStatus::Ready).await {
        return Err(match order.state().status {
            OrderStatus::Invalid => why_not(session, wish, &mut order, failure).await,
            _ => failure,
        });
    }
    drop(proofs);
    let kind = wish.acme.key;
    let domains = wish.domains.to_vec();
    let made = tokio::task::spawn_blocking(move || request(kind, domains)).await;
    let made = made.unwrap_or_else(|_| Err("there is no key".to_owned()));
    let (key, request) = made.map_err(Failure::own)?;
    if order.state().status == OrderStatus::Ready {
        patiently!(order.finalize_csr(&request)).map_err(failed)?;
    }
    wait(session, &mut order, OrderStatus::Valid).await?;
    let chain = patiently!(order.certificate()).map_err(failed)?;
    let chain = chain.ok_or_else(|| Failure::own("there is no certificate".to_owned()))?;
    let bundle = format!("{}\n{key}", chain.trim_end()).into_bytes();
    check(&bundle, wish.domains).map(|made| (bundle, made)).map_err(|problem| {
        Failure::own(format!("the authority has sent what is of no use: {problem}"))
    })
}

/// Shows what proves the names that are not proved yet.
async fn prove(
    office: &Rc<Office>,
    session: &Session,
    wish: &Wish<'_>,
    order: &mut Order,
) -> Result<Vec<Proof>, Failure> {
    let mut proofs = Vec::new();
    learn(session, order).await?;
    let mut records = false;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.map_err(|error| Failure::of(&error, &session.client))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let domain = match authorization.identifier().identifier {
            Identifier::Dns(domain) if wish.asked_for(domain) => domain.clone(),
            other => {
                let message = format!("the authority wants a proof for {other:?}");
                return Err(Failure::own(message));
            }
        };
        let Some(challenge) = authorization.challenge(wish.way.kind()) else {
            let message =
                format!("the authority takes no proof by {} for {domain}", wish.way.word());
            return Err(Failure { whose: Whose::Proof, ..Failure::own(message) });
        };
        let authorization = challenge.key_authorization();
        let proof = match (wish.way, &wish.acme.dns) {
            (AcmeChallenge::Http, _) => {
                let shown = office.door.show_text(&challenge.token, authorization.as_str());
                let shown = shown.ok_or_else(|| {
                    Failure::own("the authority's token has characters that none has".to_owned())
                })?;
                Proof::Shown { _shown: shown }
            }
            (AcmeChallenge::TlsAlpn, _) => {
                let digest = authorization.digest();
                let shown = office.door.show_handshake(&domain, digest.as_ref());
                Proof::Shown { _shown: shown.map_err(Failure::own)? }
            }
            (AcmeChallenge::Dns, Some(hook)) => {
                records = true;
                let value = authorization.dns_value();
                let record = Record::make(office, hook, &domain, value).await;
                Proof::Record { _record: record.map_err(Failure::own)? }
            }
            (AcmeChallenge::Dns, None) => {
                return Err(Failure::own("there is no program for DNS".to_owned()));
            }
        };
        proofs.push(proof);
    }
    if let (true, Some(hook)) = (records, &wish.acme.dns) {
        tokio::time::sleep(hook.wait).await;
    }
    Ok(proofs)
}

/// Asks for the state of all authorizations.
async fn learn(session: &Session, order: &mut Order) -> Result<(), Failure> {
    let mut tries = 0;
    'again: loop {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            match authorization {
                Ok(_) => {}
                Err(Error::Api(problem)) if is_stale(&problem) && tries < 16 => {
                    tries += 1;
                    continue 'again; // those that are known are not asked for again
                }
                Err(error) => return Err(Failure::of(&error, &session.client)),
            }
        }
        return Ok(());
    }
}

/// Tells the authority that it can look.
async fn set_ready(session: &Session, wish: &Wish<'_>, order: &mut Order) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.map_err(|error| Failure::of(&error, &session.client))?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        if let Some(mut challenge) = authorization.challenge(wish.way.kind()) {
            let ready = patiently!(challenge.set_ready());
            ready.map_err(|error| Failure::of(&error, &session.client))?;
        }
    }
    Ok(())
}

/// Waits until the order is so far, or further.
async fn wait(session: &Session, order: &mut Order, far: OrderStatus) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(200);
    loop {
        let status = order.state().status;
        if status == far || status == OrderStatus::Valid {
            return Ok(());
        }
        if status == OrderStatus::Invalid {
            let problem = order.state().error.clone();
            let failure = problem.map(|problem| Failure::of(&Error::Api(problem), &session.client));
            return Err(failure.unwrap_or_else(|| Failure::own("the order was refused".to_owned())));
        }
        if Instant::now() > deadline {
            return Err(Failure::own("the authority does not get on with the order".to_owned()));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 3 / 2).min(Duration::from_secs(5));
        let refreshed = patiently!(order.refresh()).map(|_| ());
        refreshed.map_err(|error| Failure::of(&error, &session.client))?;
    }
}

/// What the authority has found instead of the proofs.
async fn why_not(
    session: &Session,
    wish: &Wish<'_>,
    order: &mut Order,
    failure: Failure,
) -> Failure {
    let mut problems = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if patiently!(authorization.refresh()).is_err()
            || authorization.status == AuthorizationStatus::Valid
        {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let errors = authorization.challenges.iter().filter_map(|one| one.error.as_ref());
        for error in errors {
            problems.push(format!("{domain}: {}", shown(error)));
        }
    }
    let _ = session;
    match problems.is_empty() {
        true => Failure { whose: Whose::Proof, ..failure },
        false => Failure {
            message: clean(&format!("proof by {}: {}", wish.way.word(), problems.join("; "))),
            whose: Whose::Proof,
            ..failure
        },
    }
}

/// A key, PEM, and the request for its certificate.
fn request(kind: AcmeKey, domains: Vec<String>) -> Result<(String, Vec<u8>), String> {
    let made = || -> Result<_, rcgen::Error> {
        let key = match kind {
            AcmeKey::Ecdsa => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?,
            AcmeKey::Rsa => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?,
        };
        let mut params = CertificateParams::new(domains)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key)?;
        Ok((key.serialize_pem(), request.der().to_vec()))
    };
    made().map_err(|error| error.to_string())
}

fn check(bundle: &[u8], domains: &[String]) -> Result<Made, String> {
    let made = Made::read(bundle)?;
    if !made.covers(domains) {
        return Err("it is for other names".to_owned());
    }
    if made.validity.left(std::time::SystemTime::now()).is_zero() {
        return Err("it has run out already; is the clock right?".to_owned());
    }
    Ok(made)
}

impl Wish<'_> {
    fn asked_for(&self, domain: &str) -> bool {
        let same = |own: &String| own.strip_prefix("*.").unwrap_or(own) == domain;
        self.domains.iter().any(same)
    }
}

/// What the ways are called.
pub(super) trait Way {
    fn kind(self) -> ChallengeType;
    fn word(self) -> &'static str;
}

impl Way for AcmeChallenge {
    fn kind(self) -> ChallengeType {
        match self {
            AcmeChallenge::Http => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn => ChallengeType::TlsAlpn01,
            AcmeChallenge::Dns => ChallengeType::Dns01,
        }
    }

    fn word(self) -> &'static str {
        match self {
            AcmeChallenge::Http => "http",
            AcmeChallenge::TlsAlpn => "tls-alpn",
            AcmeChallenge::Dns => "dns",
        }
    }
}

impl Failure {
    /// Neither the authority's fault nor that of a proof.
    pub fn own(message: String) -> Failure {
        Failure { message: clean(&message), whose: Whose::Other, retry_after: None }
    }

    /// The same, whose fault it is if nothing better is known.
    fn unless_known(self, whose: Whose) -> Failure {
        match (self.whose, self.retry_after) {
            (Whose::Other, None) => Failure { whose, ..self },
            _ => self,
        }
    }

    /// The account is of no use.
    pub fn lost(message: String) -> Failure {
        Failure { whose: Whose::Account, ..Failure::own(message) }
    }

    /// What the authority, or the way to it, has failed with.
    pub fn of(error: &Error, client: &Client) -> Failure {
        let retry_after = client.take_asked();
        let (message, kind) = match error {
            Error::Api(problem) => (shown(problem), problem.r#type.as_deref().unwrap_or_default()),
            error => (error.to_string(), ""),
        };
        let whose = match kind.strip_prefix("urn:ietf:params:acme:error:") {
            Some("accountDoesNotExist") => Whose::Account,
            Some("caa" | "connection" | "dns" | "incorrectResponse" | "tls" | "unauthorized") => {
                Whose::Proof
            }
            _ => Whose::Other,
        };
        Failure { message: clean(&message), whose, retry_after }
    }
}

/// Whether a number was refused that has been used or forgotten.
pub(super) fn is_stale(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce")
}

fn shown(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    let kind = kind.rsplit(':').next().unwrap_or_default();
    match &problem.detail {
        Some(detail) => format!("{detail} ({kind})"),
        None => kind.to_owned(),
    }
}

/// A stranger's words, for a log: one line of bearable length.
fn clean(text: &str) -> String {
    let mut clean: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(600).collect();
    if text.chars().nth(600).is_some() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardening_47_what_an_authority_says_is_one_short_line() {
        let failure = Failure::own(format!("a\r\nb\u{1b}[31m{}", "x".repeat(10_000)));
        assert!(failure.message.starts_with("a  b [31mx") && failure.message.len() < 700);
    }

    #[test]
    fn a_request_is_for_the_names_and_nothing_else() {
        use x509_parser::certification_request::X509CertificationRequest;
        use x509_parser::prelude::FromDer;
        for kind in [AcmeKey::Ecdsa, AcmeKey::Rsa] {
            let names = vec!["a.org".to_owned(), "*.a.org".to_owned()];
            let (key, der) = request(kind, names).unwrap();
            assert!(key.contains("PRIVATE KEY"));
            let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
            let info = &request.certification_request_info;
            assert_eq!(info.subject.iter().count(), 0);
            let text = format!("{:?}", request.requested_extensions().unwrap().collect::<Vec<_>>());
            assert!(text.contains("a.org") && text.contains("*.a.org"), "{text}");
        }
    }

    #[test]
    fn another_name_than_the_wanted_is_not_proved() {
        let acme = r#"{"listeners": {"*:443": {"pass": "routes", "tls":
            {"acme": {"domains": ["*.a.org", "b.org"], "dns": {"program": "/p"}}}}}, "routes": []}"#;
        let mut config = howdah_config::parse(acme.as_bytes()).unwrap();
        let acme = config.listeners.remove(0).tls.unwrap().acme.remove(0);
        let wish =
            Wish { acme: &acme, domains: &acme.domains, way: AcmeChallenge::Dns, replaces: None };
        assert!(wish.asked_for("a.org") && wish.asked_for("b.org"));
        assert!(!wish.asked_for("c.org") && !wish.asked_for("x.a.org"));
    }
}
