//! Translates `conf_commands` into settings of rustls.

use std::sync::Arc;

use howdah_config::{CipherSuite, KeyExchange, TlsParameters};
use rustls::crypto::aws_lc_rs::{self, cipher_suite as suite, kx_group as group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion, version};

/// Returns the enabled protocol versions.
pub(super) fn versions(parameters: &TlsParameters) -> Vec<&'static SupportedProtocolVersion> {
    let mut versions = Vec::new();
    versions.extend(parameters.tls13.then_some(&version::TLS13));
    versions.extend(parameters.tls12.then_some(&version::TLS12));
    versions
}

/// Returns the cryptography provider with the configured suites and key exchange groups.
pub(super) fn provider(parameters: &TlsParameters) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    let suites = parameters.suites13.iter().chain(&parameters.suites12);
    provider.cipher_suites = suites.map(|suite| cipher_suite(*suite)).collect();
    if !parameters.groups.is_empty() {
        provider.kx_groups = parameters.groups.iter().map(|group| key_exchange(*group)).collect();
    }
    Arc::new(provider)
}

fn cipher_suite(chosen: CipherSuite) -> SupportedCipherSuite {
    match chosen {
        CipherSuite::Tls13Aes256Gcm => suite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::Tls13Aes128Gcm => suite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::Tls13Chacha20 => suite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheEcdsaAes256Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheEcdsaAes128Gcm => suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheEcdsaChacha20 => suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherSuite::EcdheRsaAes256Gcm => suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::EcdheRsaAes128Gcm => suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::EcdheRsaChacha20 => suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

/// Returns OpenSSL's name of a negotiated suite.
pub(super) fn suite_name(agreed: SupportedCipherSuite) -> &'static str {
    let mut all = CipherSuite::TLS13.into_iter().chain(CipherSuite::TLS12);
    let found = all.find(|known| cipher_suite(*known).suite() == agreed.suite());
    found.map_or("unknown", CipherSuite::name)
}

fn key_exchange(chosen: KeyExchange) -> &'static dyn SupportedKxGroup {
    match chosen {
        KeyExchange::X25519MlKem768 => group::X25519MLKEM768,
        KeyExchange::Secp256r1MlKem768 => group::SECP256R1MLKEM768,
        KeyExchange::X25519 => group::X25519,
        KeyExchange::Secp256r1 => group::SECP256R1,
        KeyExchange::Secp384r1 => group::SECP384R1,
    }
}
