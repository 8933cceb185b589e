//! `conf_commands`: OpenSSL's configuration commands (SSL_CONF_cmd(3)), as far as the TLS library
//! has the feature. Commands for other features are refused with the reason, so that no
//! administrator relies on a setting without effect. Commands that disable a feature that Howdah
//! never has are accepted.

use super::cipher::{CipherSuite, KeyExchange};
use crate::error::Error;
use crate::node::{Node, Shown};

/// Versions, cipher suites and related settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsParameters {
    /// True if TLS 1.2 is enabled.
    pub tls12: bool,
    /// True if TLS 1.3 is enabled.
    pub tls13: bool,
    /// The cipher suites for TLS 1.2, the preferred first.
    pub suites12: Vec<CipherSuite>,
    /// The cipher suites for TLS 1.3, the preferred first.
    pub suites13: Vec<CipherSuite>,
    /// The key exchanges, the preferred first; empty for the library's own choice.
    pub groups: Vec<KeyExchange>,
    /// True if the server's order of suites counts; otherwise the client's.
    pub server_preference: bool,
    /// True if clients may get session tickets.
    pub tickets: bool,
    /// Number of tickets for each connection with TLS 1.3.
    pub ticket_count: usize,
}

impl Default for TlsParameters {
    fn default() -> Self {
        TlsParameters {
            tls12: true,
            tls13: true,
            suites12: CipherSuite::TLS12.to_vec(),
            suites13: CipherSuite::TLS13.to_vec(),
            groups: Vec::new(),
            server_preference: false,
            tickets: true,
            ticket_count: 2,
        }
    }
}

/// Versions that the TLS library does not have.
const OLD_VERSIONS: [&str; 4] = ["sslv2", "sslv3", "tlsv1", "tlsv1.1"];

impl TlsParameters {
    pub(super) fn read(node: &Node<'_>) -> Result<TlsParameters, Error> {
        let mut parameters = TlsParameters::default();
        for (command, value) in node.members()? {
            let text = value.string()?;
            parameters.command(command, text).map_err(|reason| value.invalid(reason))?;
        }
        if !parameters.tls12 && !parameters.tls13 {
            return Err(node.invalid("leave no version: TLS 1.2 or TLS 1.3 must be on"));
        }
        Ok(parameters)
    }

    /// Carries out one command. Names are compared regardless of case, as in OpenSSL.
    fn command(&mut self, command: &str, value: &str) -> Result<(), String> {
        match command.to_ascii_lowercase().as_str() {
            "protocol" => self.protocol(value),
            "minprotocol" => self.bound(value, true),
            "maxprotocol" => self.bound(value, false),
            "cipherstring" => {
                let chosen = CipherSuite::choose(value)
                    .map_err(|word| format!("is no list of ciphers: it has \"{}\"", Shown(word)))?;
                if chosen.is_empty() {
                    return Err(
                        "chooses no cipher suite: for TLS 1.2 there are those with ECDHE and \
                         AES-GCM or ChaCha20-Poly1305"
                            .to_owned(),
                    );
                }
                self.suites12 = chosen;
                Ok(())
            }
            "ciphersuites" => {
                let suites = value.split(':').map(|name| {
                    let found = CipherSuite::TLS13.into_iter().find(|suite| suite.is_named(name));
                    found.ok_or_else(|| {
                        format!("must not have \"{}\": it is no suite of TLS 1.3 here", Shown(name))
                    })
                });
                self.suites13 = suites.collect::<Result<_, _>>()?;
                Ok(())
            }
            "groups" | "curves" => {
                let groups = value.split(':').map(|name| {
                    KeyExchange::of(name).ok_or_else(|| {
                        format!(
                            "must not have \"{}\": there are X25519MLKEM768, SecP256r1MLKEM768, \
                             X25519, P-256 and P-384",
                            Shown(name)
                        )
                    })
                });
                self.groups = groups.collect::<Result<_, _>>()?;
                Ok(())
            }
            "options" => value.split(',').try_for_each(|option| self.option(option.trim())),
            "numtickets" => match value.parse() {
                Ok(count @ 0..=16) => {
                    self.ticket_count = count;
                    Ok(())
                }
                _ => Err("must be a number between 0 and 16".to_owned()),
            },
            "verifymode" | "verifycafile" | "clientcafile" | "requestcafile" => {
                Err("is not for \"conf_commands\": use \"client_certificates\"".to_owned())
            }
            "certificate" | "privatekey" => {
                Err("is not for \"conf_commands\": use \"certificate\" of \"tls\"".to_owned())
            }
            "signaturealgorithms"
            | "clientsignaturealgorithms"
            | "dhparameters"
            | "recordpadding"
            | "verifycapath"
            | "chaincafile"
            | "chaincapath"
            | "clientcapath"
            | "requestcapath"
            | "serverinfofile"
            | "ecdhparam" => {
                Err("is a command of OpenSSL that the TLS library here has nothing for".to_owned())
            }
            _ => Err("is no command of OpenSSL; it knows Protocol, MinProtocol, MaxProtocol, \
                      CipherString, Ciphersuites, Groups, Options and NumTickets, among others"
                .to_owned()),
        }
    }

    /// Reads `Protocol`: versions to enable, or with `-` to disable.
    fn protocol(&mut self, value: &str) -> Result<(), String> {
        for item in value.split(',').map(str::trim) {
            let (on, name) = match item.strip_prefix('-') {
                Some(name) => (false, name),
                None => (true, item.strip_prefix('+').unwrap_or(item)),
            };
            match name.to_ascii_lowercase().as_str() {
                "all" => (self.tls12, self.tls13) = (on, on),
                "tlsv1.2" => self.tls12 = on,
                "tlsv1.3" => self.tls13 = on,
                old if OLD_VERSIONS.contains(&old) && !on => {}
                old if OLD_VERSIONS.contains(&old) => return Err(too_old(name)),
                _ => return Err(no_version(name)),
            }
        }
        Ok(())
    }

    /// Reads `MinProtocol` or `MaxProtocol`.
    fn bound(&mut self, value: &str, lowest: bool) -> Result<(), String> {
        match (value.to_ascii_lowercase().as_str(), lowest) {
            ("none" | "tlsv1.2", true) | ("none" | "tlsv1.3", false) => {}
            ("tlsv1.3", true) => self.tls12 = false,
            ("tlsv1.2", false) => self.tls13 = false,
            (old, _) if OLD_VERSIONS.contains(&old) => return Err(too_old(value)),
            _ => return Err(no_version(value)),
        }
        Ok(())
    }

    fn option(&mut self, option: &str) -> Result<(), String> {
        let (on, name) = match option.strip_prefix('-') {
            Some(name) => (false, name),
            None => (true, option.strip_prefix('+').unwrap_or(option)),
        };
        match (name.to_ascii_lowercase().as_str(), on) {
            ("sessionticket", on) => self.tickets = on,
            ("serverpreference", on) => self.server_preference = on,
            // Always disabled: there is neither compression nor renegotiation.
            ("compression" | "unsafelegacyrenegotiation" | "unsafelegacyserverconnect", false)
            | (
                "norenegotiation" | "noresumptiononrenegotiation" | "ecdhsingle" | "dhsingle",
                true,
            )
            | (
                "encryptthenmac" | "extendedmastersecret" | "antireplay" | "middleboxcompat",
                true,
            ) => {}
            _ => {
                return Err(format!(
                    "must not have \"{}\": the TLS library here has SessionTicket and \
                     ServerPreference",
                    Shown(option)
                ));
            }
        }
        Ok(())
    }
}

fn too_old(name: &str) -> String {
    format!("must not ask for {}: TLS 1.2 and TLS 1.3 are spoken, nothing older", Shown(name))
}

fn no_version(name: &str) -> String {
    format!("must name TLSv1.2 or TLSv1.3, but has \"{}\"", Shown(name))
}
