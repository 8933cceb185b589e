//! Cipher suites and key exchanges by the names that OpenSSL has for them.

/// A cipher suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are OpenSSL's
pub enum CipherSuite {
    Tls13Aes256Gcm,
    Tls13Aes128Gcm,
    Tls13Chacha20,
    EcdheEcdsaAes256Gcm,
    EcdheEcdsaAes128Gcm,
    EcdheEcdsaChacha20,
    EcdheRsaAes256Gcm,
    EcdheRsaAes128Gcm,
    EcdheRsaChacha20,
}

use CipherSuite::*;

impl CipherSuite {
    /// The suites of TLS 1.3, the preferred first.
    pub const TLS13: [CipherSuite; 3] = [Tls13Aes256Gcm, Tls13Aes128Gcm, Tls13Chacha20];

    /// The suites of TLS 1.2, the preferred first.
    pub const TLS12: [CipherSuite; 6] = [
        EcdheEcdsaAes256Gcm,
        EcdheEcdsaAes128Gcm,
        EcdheEcdsaChacha20,
        EcdheRsaAes256Gcm,
        EcdheRsaAes128Gcm,
        EcdheRsaChacha20,
    ];

    /// Returns OpenSSL's name and the registered name.
    fn names(self) -> [&'static str; 2] {
        match self {
            Tls13Aes256Gcm => ["TLS_AES_256_GCM_SHA384"; 2],
            Tls13Aes128Gcm => ["TLS_AES_128_GCM_SHA256"; 2],
            Tls13Chacha20 => ["TLS_CHACHA20_POLY1305_SHA256"; 2],
            EcdheEcdsaAes256Gcm => {
                ["ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]
            }
            EcdheEcdsaAes128Gcm => {
                ["ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
            }
            EcdheEcdsaChacha20 => {
                ["ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]
            }
            EcdheRsaAes256Gcm => {
                ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]
            }
            EcdheRsaAes128Gcm => {
                ["ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]
            }
            EcdheRsaChacha20 => {
                ["ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]
            }
        }
    }

    /// Returns OpenSSL's name, as in `$ssl_cipher`.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    pub(super) fn is_named(self, name: &str) -> bool {
        self.names().iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Returns true if a word of OpenSSL's cipher lists includes this suite of TLS 1.2.
    fn is_selected_by(self, word: &str) -> bool {
        let name = self.name();
        match word {
            "ALL" | "DEFAULT" | "HIGH" | "TLSv1.2" => true,
            "ECDHE" | "EECDH" | "kECDHE" | "kEECDH" => true,
            "AES" => name.contains("AES"),
            "AES128" => name.contains("AES128"),
            "AES256" => name.contains("AES256"),
            "AESGCM" => name.contains("GCM"),
            "CHACHA20" => name.contains("CHACHA20"),
            "aRSA" => name.contains("-RSA-"),
            "aECDSA" | "ECDSA" => name.contains("-ECDSA-"),
            _ => self.is_named(word),
        }
    }

    /// Reads OpenSSL's cipher list (ciphers(1)) for the suites of the TLS library. Words for other
    /// suites are ignored. Error: a word that is not valid in a cipher list.
    pub(super) fn choose(list: &str) -> Result<Vec<CipherSuite>, &str> {
        let mut chosen: Vec<CipherSuite> = Vec::new();
        let mut killed: Vec<CipherSuite> = Vec::new();
        for item in list.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
            if let Some(rule) = item.strip_prefix('@') {
                if rule == "STRENGTH" || rule.starts_with("SECLEVEL=") {
                    continue;
                } else {
                    return Err(item);
                }
            }
            let (sign, words) = match item.as_bytes().first() {
                Some(b'!' | b'-' | b'+') => item.split_at(1),
                _ => ("", item),
            };
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_+.".contains(&byte);
            if words.is_empty() || !words.bytes().all(is_word) {
                return Err(item);
            }
            let meant =
                |suite: &CipherSuite| words.split('+').all(|word| suite.is_selected_by(word));
            match sign {
                "!" => {
                    killed.extend(CipherSuite::TLS12.iter().filter(|suite| meant(suite)));
                    chosen.retain(|suite| !meant(suite));
                }
                "-" => chosen.retain(|suite| !meant(suite)),
                "+" => chosen.sort_by_key(meant), // to the end; the sort is stable
                _ => {
                    for suite in CipherSuite::TLS12.into_iter().filter(meant) {
                        if !chosen.contains(&suite) && !killed.contains(&suite) {
                            chosen.push(suite);
                        }
                    }
                }
            }
        }
        Ok(chosen)
    }
}

/// A named group for the key exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are OpenSSL's
pub enum KeyExchange {
    X25519MlKem768,
    Secp256r1MlKem768,
    X25519,
    Secp256r1,
    Secp384r1,
}

impl KeyExchange {
    pub(super) fn of(name: &str) -> Option<KeyExchange> {
        Some(match name.to_ascii_lowercase().as_str() {
            "x25519mlkem768" => KeyExchange::X25519MlKem768,
            "secp256r1mlkem768" => KeyExchange::Secp256r1MlKem768,
            "x25519" => KeyExchange::X25519,
            "p-256" | "prime256v1" | "secp256r1" => KeyExchange::Secp256r1,
            "p-384" | "secp384r1" => KeyExchange::Secp384r1,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(list: &str) -> Vec<&'static str> {
        CipherSuite::choose(list).unwrap().into_iter().map(CipherSuite::name).collect()
    }

    #[test]
    fn a_cipher_list_is_read_as_openssl_reads_it() {
        assert_eq!(chosen("HIGH:!aNULL:!MD5").len(), 6);
        assert_eq!(chosen("DEFAULT:@SECLEVEL=2").len(), 6);
        assert_eq!(
            chosen("ECDHE+AESGCM:!aECDSA"),
            ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(
            chosen("ECDHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES128-SHA"),
            ["ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(chosen("TLSv1.2:!ECDHE-RSA-AES256-GCM-SHA384").len(), 5);
        // `!` excludes a suite permanently; a later word can add a suite that `-` has removed
        // (ciphers(1)).
        assert_eq!(chosen("CHACHA20:!CHACHA20:CHACHA20").len(), 0);
        assert_eq!(chosen("CHACHA20:-CHACHA20:CHACHA20").len(), 2);
        assert_eq!(chosen("ALL:+AES")[0], "ECDHE-ECDSA-CHACHA20-POLY1305");
        assert_eq!(chosen("RC4:DES").len(), 0);
    }

    #[test]
    fn what_is_no_cipher_list_is_refused() {
        for list in ["@NONSENSE", "!", "AES;RM", "ALL:é"] {
            assert!(CipherSuite::choose(list).is_err(), "{list}");
        }
    }
}
