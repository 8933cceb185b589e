//! Certificate bundles: stores and deletes them, and keeps their descriptions.

use howdah_tls::stored::{ACCOUNT_PREFIX, Certificates, is_reserved};
use serde_json::{Map, Value};

use super::super::supervisor::Failed;
use super::Api;
use crate::bundle::Bundle;
use crate::certificate::CertificateName;
use crate::refusal::Refusal;
use crate::reply::{Done, Reply};

impl Api {
    /// Adds a certificate that the server has obtained itself.
    pub fn show_certificate(&self, name: String, pem: Vec<u8>) {
        if name.starts_with(ACCOUNT_PREFIX) {
            return;
        }
        if let Ok(bundle) = Bundle::read(pem) {
            self.certificates.borrow_mut().insert(name, bundle.description().clone());
        }
    }

    pub(super) async fn put_certificate(&self, name: &CertificateName, bundle: Bundle) -> Reply {
        let name = name.as_str().to_owned();
        if self.certificates.borrow().contains_key(&name) {
            return Refusal::CertificateExists.into();
        }
        if is_reserved(&name) {
            return Refusal::InvalidCertificateName.into();
        }
        let description = bundle.description().clone();
        match self.supervisor.store_certificate(name.clone(), &bundle.into_pem()).await {
            Ok(()) => {
                self.certificates.borrow_mut().insert(name, description);
                Done::CertificateStored.into()
            }
            Err(Failed::Because(detail)) => Refusal::CertificateNotStored { detail }.into(),
            Err(Failed::Upgrading) => Refusal::Upgrading.into(),
        }
    }

    pub(super) async fn delete_certificate(&self, name: &CertificateName) -> Reply {
        let name = name.as_str();
        if !self.certificates.borrow().contains_key(name) {
            return Refusal::NoSuchCertificate.into();
        }
        let is_managed = match self.router_status(&["certificates", name, "renewal"]).await {
            Ok(renewal) => renewal.is_some(),
            Err(detail) => return Refusal::NoAnswer { detail }.into(),
        };
        if self.store.borrow().uses_certificate(name) || is_managed {
            return Refusal::CertificateInUse.into();
        }
        match self.supervisor.delete_certificate(name.to_owned()).await {
            Ok(()) => {
                self.certificates.borrow_mut().shift_remove(name);
                Done::CertificateDeleted.into()
            }
            Err(Failed::Because(detail)) => Refusal::CertificateNotDeleted { detail }.into(),
            Err(Failed::Upgrading) => Refusal::Upgrading.into(),
        }
    }
}

/// Returns the descriptions of the certificate bundles. Invalid bundles, put there by hand, are
/// omitted.
pub(super) fn describe(certificates: &Certificates) -> Map<String, Value> {
    let is_account = |name: &str| name.starts_with(ACCOUNT_PREFIX);
    let shown = certificates.iter().filter(|(name, _)| !is_account(name));
    let described = shown.filter_map(|(name, pem)| match Bundle::read(pem.to_vec()) {
        Ok(bundle) => Some((name.to_owned(), bundle.description().clone())),
        Err(refusal) => {
            let reply = Reply::from(refusal);
            eprintln!("howdah: certificate \"{name}\" is not used: {}", reply.body());
            None
        }
    });
    described.collect()
}
