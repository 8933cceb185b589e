//! TLS of listeners.

use serde_json::{Value, json};

use super::convert::Converter;
use super::server::Server;
use super::steps::object;
use super::units;
use super::variables::Object;
use crate::Status;

/// Directives of TLS that a server or `http` can have.
const NAMES: [&str; 13] = [
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_conf_command",
    "ssl_ecdh_curve",
    "ssl_prefer_server_ciphers",
    "ssl_session_cache",
    "ssl_session_timeout",
    "ssl_session_tickets",
    "ssl_stapling_file",
    "ssl_reject_handshake",
    "ssl_crl",
];

impl<'t> Converter<'_> {
    /// Returns `tls` of a listener. The first server is the default one.
    pub fn tls(&mut self, servers: &[&Server<'t>]) -> Option<Object> {
        let mut tls = Object::new();
        let (mut certificates, mut clients): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
        let mut rejects = false;
        for (number, server) in servers.iter().enumerate() {
            let scope = &server.site.scope;
            if let Some(reject) = scope.one("ssl_reject_handshake") {
                let is_on = scope.is_on("ssl_reject_handshake");
                if is_on && number == 0 {
                    rejects = true;
                    let reason = "names that no certificate has are refused; nginx refuses those of no other server";
                    self.report.mark(reject.id, Status::Changed, reason);
                } else {
                    self.report.converted(reject.id);
                }
                if is_on {
                    continue;
                }
            }
            let (chains, keys) = (scope.all("ssl_certificate"), scope.all("ssl_certificate_key"));
            let ocsp = scope.one("ssl_stapling_file");
            for (place, chain) in chains.iter().enumerate() {
                let Some(key) = keys.get(place) else {
                    self.report.mark(
                        chain.id,
                        Status::NotConverted,
                        "there is no ssl_certificate_key for it",
                    );
                    continue;
                };
                if chain.arg(0).contains('$')
                    || chain.arg(0).starts_with("data:")
                    || key.arg(0).contains('$')
                    || key.arg(0).contains(':')
                {
                    for directive in [chain, key] {
                        self.report.mark(
                            directive.id,
                            Status::NotConverted,
                            "certificates are in files with fixed names",
                        );
                    }
                    continue;
                }
                self.report.converted(chain.id);
                self.report.converted(key.id);
                let mut certificate = object([
                    ("chain", self.whole_path(chain.arg(0)).into()),
                    ("key", self.whole_path(key.arg(0)).into()),
                ]);
                if let Some(ocsp) = ocsp {
                    self.report.converted(ocsp.id);
                    certificate.insert("ocsp".to_owned(), self.whole_path(ocsp.arg(0)).into());
                }
                let certificate = Value::from(certificate);
                if !certificates.contains(&certificate) {
                    certificates.push(certificate);
                }
            }
            clients.extend(self.client_certificates(server, number == 0));
        }
        if certificates.is_empty() {
            return None;
        }
        tls.insert(
            "certificate".to_owned(),
            if certificates.len() == 1 { certificates.remove(0) } else { certificates.into() },
        );
        if rejects {
            tls.insert("refuse_unknown_names".to_owned(), true.into());
        }
        if let Some(first) = servers.first() {
            self.versions(first, &mut tls);
            self.sessions(first, &mut tls);
        }
        for server in servers.iter().skip(1) {
            for name in NAMES {
                for directive in server.site.scope.own_all(name) {
                    if self.report.entry(directive.id).is_open() {
                        self.report.mark(
                            directive.id,
                            Status::NotNeeded,
                            "nginx takes it from the first server of the address",
                        );
                    }
                }
            }
        }
        if !clients.is_empty() {
            tls.insert("client_certificates".to_owned(), clients.into());
        }
        Some(tls)
    }

    fn versions(&mut self, server: &Server<'t>, tls: &mut Object) {
        let scope = &server.site.scope;
        let mut commands = Object::new();
        if let Some(directive) = scope.one("ssl_protocols") {
            let has = |version: &str| directive.args.iter().any(|arg| arg == version);
            let is_old = directive
                .args
                .iter()
                .any(|arg| matches!(arg.as_str(), "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1"));
            if is_old {
                self.report.mark(directive.id, Status::Changed, "there is nothing below TLS 1.2");
            } else {
                self.report.converted(directive.id);
            }
            match (has("TLSv1.2"), has("TLSv1.3")) {
                (true, false) => {
                    commands.insert("MaxProtocol".to_owned(), "TLSv1.2".into());
                }
                (false, true) => {
                    commands.insert("MinProtocol".to_owned(), "TLSv1.3".into());
                }
                _ => {}
            }
        }
        if let Some(directive) = scope.one("ssl_ciphers") {
            let text = directive.arg(0);
            let has_known = [
                "ECDHE-ECDSA-AES",
                "ECDHE-RSA-AES",
                "CHACHA20",
                "EECDH",
                "HIGH",
                "ALL",
                "DEFAULT",
                "ECDHE",
            ]
            .iter()
            .any(|word| text.contains(word));
            if has_known
                && text.split(':').any(|word| {
                    word.starts_with("ECDHE-")
                        && (word.contains("GCM") || word.contains("CHACHA20"))
                })
            {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "of these ciphers, those with ECDHE and AES-GCM or ChaCha20-Poly1305 are there",
                );
                commands.insert("CipherString".to_owned(), text.into());
            } else {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "the ciphers are those of Howdah: ECDHE with AES-GCM or ChaCha20-Poly1305",
                );
            }
        }
        if let Some(directive) = scope.one("ssl_ecdh_curve") {
            self.report.mark(
                directive.id,
                Status::Changed,
                "the groups are X25519MLKEM768, X25519, P-256 and P-384",
            );
        }
        for directive in scope.all("ssl_conf_command") {
            self.report.mark(
                directive.id,
                Status::NotConverted,
                "commands of OpenSSL are not carried over",
            );
        }
        if let Some(directive) = scope.one("ssl_prefer_server_ciphers") {
            self.report.converted(directive.id);
            if directive.arg(0).eq_ignore_ascii_case("on") {
                commands.insert("Options".to_owned(), "ServerPreference".into());
            }
        }
        if !commands.is_empty() {
            tls.insert("conf_commands".to_owned(), commands.into());
        }
    }

    fn sessions(&mut self, server: &Server<'t>, tls: &mut Object) {
        let scope = &server.site.scope;
        let mut session = Object::new();
        if let Some(directive) = scope.one("ssl_session_timeout") {
            self.report.converted(directive.id);
            if let Some(seconds) = units::seconds(directive.arg(0)) {
                session.insert("timeout".to_owned(), seconds.max(1).into());
            }
        }
        if let Some(directive) = scope.one("ssl_session_cache") {
            let shared = directive.args.iter().find_map(|arg| arg.strip_prefix("shared:"));
            let size = shared
                .and_then(|text| text.split_once(':'))
                .and_then(|(_, size)| units::size(size));
            match size {
                Some(size) => {
                    self.report.converted(directive.id);
                    // nginx: about 4000 sessions in a megabyte.
                    session
                        .insert("cache_size".to_owned(), (size / 262).clamp(1, 1_000_000).into());
                }
                None if matches!(directive.arg(0), "off" | "none") => {
                    self.report.converted(directive.id)
                }
                None => self.report.mark(
                    directive.id,
                    Status::Changed,
                    "a session is resumed by a ticket alone",
                ),
            }
        }
        let tickets = scope.one("ssl_session_tickets");
        if let Some(directive) = tickets {
            self.report.converted(directive.id);
        }
        let has_tickets =
            tickets.is_none_or(|directive| directive.arg(0).eq_ignore_ascii_case("on"));
        session.insert("tickets".to_owned(), has_tickets.into());
        tls.insert("session".to_owned(), session.into());
    }

    /// Returns the rule for certificates of clients.
    fn client_certificates(&mut self, server: &Server<'t>, is_default: bool) -> Option<Value> {
        let scope = &server.site.scope;
        let verify = scope.one("ssl_verify_client")?;
        let authorities =
            scope.one("ssl_client_certificate").or_else(|| scope.one("ssl_trusted_certificate"));
        let is_optional = match verify.arg(0) {
            "off" => {
                self.report.converted(verify.id);
                if let Some(authorities) = scope.one("ssl_client_certificate") {
                    self.report.mark(
                        authorities.id,
                        Status::NotNeeded,
                        "clients are not asked for a certificate",
                    );
                }
                return None;
            }
            "on" => false,
            "optional" => true,
            _ => {
                self.report.mark(verify.id, Status::NotConverted, "certificates of unknown authorities are not accepted; clients must have one of these authorities, or none");
                true
            }
        };
        let Some(authorities) = authorities else {
            self.report.mark(verify.id, Status::NotConverted, "there is no ssl_client_certificate");
            return None;
        };
        self.report.mark(verify.id, Status::Changed, "a client without a valid certificate is refused in the handshake; nginx answers it with 400");
        self.report.converted(authorities.id);
        let mut rule = object([("authorities", self.whole_path(authorities.arg(0)).into())]);
        if is_optional {
            rule.insert("optional".to_owned(), true.into());
        }
        if let Some(crl) = scope.one("ssl_crl") {
            self.report.converted(crl.id);
            rule.insert("revoked".to_owned(), self.whole_path(crl.arg(0)).into());
        }
        let names: Vec<&str> = server
            .names
            .iter()
            .copied()
            .filter(|name| !name.is_empty() && !name.starts_with(['~', '_']))
            .collect();
        if !is_default && !names.is_empty() {
            rule.insert(
                "names".to_owned(),
                json!(
                    names
                        .iter()
                        .map(|name| name.strip_prefix('.').unwrap_or(name))
                        .collect::<Vec<_>>()
                ),
            );
        }
        Some(rule.into())
    }
}
