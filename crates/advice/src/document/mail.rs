//! Passwords of mail that pass in plain text.

use howdah_config::{Address, Config, Session, StartTls, path};

use super::line::{Advice, add};

/// Checks listeners for mail, and the servers that are told the passwords.
pub(super) fn of_document(config: &Config, all: &mut Vec<Advice>) {
    for listener in &config.listeners {
        let Some(Session::Mail(name)) = &listener.session else { continue };
        let found = config.mail.iter().find(|mail| mail.name == *name);
        let asks = found.is_some_and(|mail| !mail.is_open());
        let is_plain =
            listener.tls.as_ref().is_none_or(|tls| tls.starttls == Some(StartTls::Optional));
        if asks && is_plain && !is_local(&listener.address) {
            let message = "takes passwords in plain text, which others on the way can read; give it \
                           \"tls\", with \"starttls\": \"required\" for the ports 143, 110 and 587";
            add(all, path(["listeners", listener.key.as_str()]), message);
        }
    }
    for mail in &config.mail {
        let is_open = |address: &Address| !is_local(address);
        let plain = mail.authentication.iter().filter(|server| !server.is_https);
        if !mail.is_open() && plain.map(|server| &server.address).any(is_open) {
            let place = path(["mail", mail.name.as_str(), "authentication", "url"]);
            let message = "gets passwords in plain text over the network; write \"https://\", unless \
                           the network is trusted";
            add(all, place, message);
        }
    }
}

/// Returns true for addresses that only this machine reaches.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Unix(_) | Address::Abstract(_) => true,
        Address::Inet(address) => address.ip().to_canonical().is_loopback(),
        Address::Name(name, _) => name == "localhost",
        Address::Service(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn places(address: &str, listener: Value, methods: Value, url: &str) -> Vec<String> {
        let mut whole = json!({"pass": "mail/m"});
        for (key, value) in listener.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let config = Config::from_value(json!({
            "listeners": {address: whole},
            "mail": {"m": {"protocol": "smtp", "methods": methods, "authentication": {"url": url}}},
        }));
        let mut all = Vec::new();
        of_document(&config.unwrap(), &mut all);
        all.into_iter().map(|one| one.path).collect()
    }

    #[test]
    fn passwords_in_plain_text_are_named_where_others_can_read_them() {
        let (plain, local) = (json!(["plain"]), "http://127.0.0.1:1/");
        let found = |address, listener| places(address, listener, plain.clone(), local);
        assert_eq!(found("*:25", json!({})), ["/listeners/*:25"]);
        let tls = |starttls: &str| json!({"tls": {"certificate": "c", "starttls": starttls}});
        assert_eq!(found("*:25", tls("optional")), ["/listeners/*:25"]);
        assert_eq!(found("*:25", tls("required")), [""; 0]);
        assert_eq!(found("*:25", json!({"tls": {"certificate": "c"}})), [""; 0]);
        assert_eq!(found("127.0.0.1:25", json!({})), [""; 0]);
        let place = "/mail/m/authentication/url";
        assert_eq!(places("[::1]:25", json!({}), plain, "http://10.0.0.1/"), [place]);
        assert_eq!(places("*:25", json!({}), json!(["none"]), "http://10.0.0.1/"), [""; 0]);
    }
}
