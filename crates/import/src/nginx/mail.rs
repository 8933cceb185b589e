//! `mail`: proxies of IMAP, POP3 and SMTP.

use serde_json::{Value, json};

use super::convert::{Converter, unique};
use super::reader::Directive;
use super::scope::Scope;
use super::session_parts::SessionListen;
use super::steps::object;
use super::units;
use super::variables::Object;
use crate::{Error, Status};

/// Directives that need no conversion, and why.
const NOT_NEEDED: [(&str, &str); 7] = [
    ("error_log", "the server's log is chosen on the command line (--log, --log-level)"),
    ("proxy", "each login leads to a server"),
    ("proxy_buffer", "buffers grow with what waits"),
    ("imap_client_buffer", "a line may have 12 KiB"),
    ("pop3_client_buffer", "a line may have 12 KiB"),
    ("smtp_client_buffer", "a line may have 12 KiB"),
    ("resolver_timeout", "names are looked up beside the sessions"),
];

impl<'t> Converter<'_> {
    /// Converts the block `mail`. Returns its listeners and proxies.
    pub fn mail(&mut self, block: &'t Directive) -> Result<(Object, Object), Error> {
        self.report.converted(block.id);
        let scope = Scope::outermost(block.children());
        let (mut listeners, mut proxies) = (Object::new(), Object::new());
        for server in scope.own_all("server") {
            self.report.converted(server.id);
            let inner = scope.inner(server.children());
            let listens = self.session_listens(&inner)?;
            let protocol = self.mail_protocol(server, &inner, &listens)?;
            let name = self.mail_proxy(&inner, protocol, &mut proxies);
            for (listen, directive) in &listens {
                let listener = match &name {
                    Ok(name) => self.mail_listener(&inner, listen, directive, name),
                    Err(reason) => {
                        self.report.mark(server.id, Status::NotConverted, *reason);
                        let reason = "nothing listens there, because the server is not converted";
                        self.report.mark(directive.id, Status::NotConverted, reason);
                        None
                    }
                };
                let Some(listener) = listener else { continue };
                if !listen.insert(listener, &mut listeners) {
                    return Err(directive.error("there is another server at this address"));
                }
            }
        }
        self.mark_session_rest(block, &NOT_NEEDED);
        // A proxy whose listeners are not converted is not used.
        proxies.retain(|name, _| {
            let pass = format!("mail/{name}");
            listeners.values().any(|listener| listener["pass"] == *pass)
        });
        Ok((listeners, proxies))
    }

    /// Returns the protocol, which the port tells if no directive does.
    fn mail_protocol(
        &mut self,
        server: &Directive,
        scope: &Scope<'t>,
        listens: &[(SessionListen, &'t Directive)],
    ) -> Result<&'static str, Error> {
        let named = scope.one("protocol");
        if let Some(directive) = named {
            self.report.converted(directive.id);
        }
        let known = |name: &str| ["imap", "pop3", "smtp"].into_iter().find(|one| *one == name);
        let by_port = |(listen, _): &(SessionListen, &Directive)| match listen.listen.port {
            143 | 993 => Some("imap"),
            110 | 995 => Some("pop3"),
            25 | 465 | 587 => Some("smtp"),
            _ => None,
        };
        let found = match named {
            Some(directive) => known(directive.arg(0)),
            None => listens.iter().find_map(by_port),
        };
        found.ok_or_else(|| named.unwrap_or(server).error("the protocol of mail is not known"))
    }

    /// Adds the proxy of a server, and returns its name.
    fn mail_proxy(
        &mut self,
        scope: &Scope<'t>,
        protocol: &'static str,
        proxies: &mut Object,
    ) -> Result<String, &'static str> {
        let mut mail = object([("protocol", protocol.into())]);
        mail.insert("authentication".to_owned(), self.mail_authentication(scope)?);
        let methods = format!("{protocol}_auth");
        if let Some(directive) = scope.one(&methods) {
            mail.insert("methods".to_owned(), self.mail_methods(directive));
        }
        if let Some(directive) = scope.one(&format!("{protocol}_capabilities")) {
            self.report.converted(directive.id);
            mail.insert("capabilities".to_owned(), json!(directive.args));
        }
        if let Some(directive) = scope.one("server_name") {
            self.report.converted(directive.id);
            mail.insert("server_name".to_owned(), directive.arg(0).into());
        }
        if let Some(directive) = scope.one("max_errors") {
            self.report.converted(directive.id);
            if let Ok(number @ 1..) = directive.arg(0).parse::<u32>() {
                mail.insert("max_errors".to_owned(), number.into());
            }
        }
        let mut timeouts = Object::new();
        for (name, key) in [("timeout", "client"), ("proxy_timeout", "session")] {
            let Some(directive) = scope.one(name) else { continue };
            self.report.converted(directive.id);
            if let Some(seconds) = units::seconds(directive.arg(0)) {
                timeouts.insert(key.to_owned(), seconds.max(1).into());
            }
        }
        if !timeouts.is_empty() {
            mail.insert("timeouts".to_owned(), timeouts.into());
        }
        self.mail_switches(scope, protocol, &mut mail);
        let mail = Value::from(mail);
        if let Some((name, _)) = proxies.iter().find(|(_, other)| **other == mail) {
            return Ok(name.clone());
        }
        let name = unique(protocol, |name| !proxies.contains_key(name));
        proxies.insert(name.clone(), mail);
        Ok(name)
    }

    fn mail_switches(&mut self, scope: &Scope<'t>, protocol: &str, mail: &mut Object) {
        if let Some(directive) = scope.one("proxy_pass_error_message") {
            self.report.converted(directive.id);
            if scope.is_on("proxy_pass_error_message") {
                mail.insert("error_messages".to_owned(), true.into());
            }
        }
        if let Some(directive) = scope.one("proxy_protocol") {
            self.report.converted(directive.id);
            match directive.arg(0) {
                "on" => drop(mail.insert("proxy_protocol".to_owned(), 1.into())),
                "v2" => drop(mail.insert("proxy_protocol".to_owned(), 2.into())),
                _ => {}
            }
        }
        if protocol == "smtp" {
            let xclient = scope.one("xclient");
            let is_on = xclient.is_none_or(|directive| directive.arg(0) == "on");
            // nginx sends it whether the server announces it or not.
            mail.insert("xclient".to_owned(), is_on.into());
            if scope.is_on("proxy_smtp_auth") {
                mail.insert("backend_authentication".to_owned(), true.into());
            }
            for directive in xclient.into_iter().chain(scope.one("proxy_smtp_auth")) {
                self.report.converted(directive.id);
            }
            if let Some(directive) = scope.one("smtp_greeting_delay") {
                let reason =
                    "the greeting comes at once; what a client sends before it is read after it";
                self.report.mark(directive.id, Status::NotConverted, reason);
            }
        }
        if let Some(directive) = scope.one("resolver") {
            match (directive.arg(0), protocol) {
                ("off", _) => self.report.converted(directive.id),
                (_, "smtp") => {
                    let reason =
                        "the servers of DNS are those of settings.resolver, or the machine's";
                    self.report.mark(directive.id, Status::Changed, reason);
                    mail.insert("client_names".to_owned(), true.into());
                }
                _ => {
                    let reason = "names of clients matter to SMTP alone";
                    self.report.mark(directive.id, Status::NotNeeded, reason);
                }
            }
        }
    }

    /// Returns the server that decides about logins.
    fn mail_authentication(&mut self, scope: &Scope<'t>) -> Result<Value, &'static str> {
        let directive = scope.one("auth_http").ok_or("it has no auth_http")?;
        self.report.converted(directive.id);
        let url = directive.arg(0);
        let rest = url.strip_prefix("http://").unwrap_or(url);
        let mut authentication = object([("url", format!("http://{rest}").into())]);
        if let Some(directive) = scope.one("auth_http_timeout") {
            self.report.converted(directive.id);
            if let Some(seconds) = units::seconds(directive.arg(0)) {
                authentication.insert("timeout".to_owned(), seconds.max(1).into());
            }
        }
        let mut headers = Object::new();
        for directive in scope.all("auth_http_header") {
            self.report.converted(directive.id);
            headers.insert(directive.arg(0).to_owned(), directive.arg(1).into());
        }
        if !headers.is_empty() {
            authentication.insert("headers".to_owned(), headers.into());
        }
        if let Some(directive) = scope.one("auth_http_pass_client_cert") {
            if scope.is_on("auth_http_pass_client_cert") {
                self.report.converted(directive.id);
            } else {
                let reason = "the certificate is passed on as Auth-SSL-Cert";
                self.report.mark(directive.id, Status::Changed, reason);
            }
        }
        Ok(authentication.into())
    }

    fn mail_methods(&mut self, directive: &Directive) -> Value {
        let names = &directive.args;
        if names.len() > 1 && names.iter().any(|name| name == "none") {
            let reason = "a server takes mail without a login from all clients or from none";
            self.report.mark(directive.id, Status::Changed, reason);
            return names.iter().filter(|name| *name != "none").cloned().collect();
        }
        self.report.converted(directive.id);
        json!(names)
    }

    /// Returns a listener; `None` if nothing can listen at the address.
    fn mail_listener(
        &mut self,
        scope: &Scope<'t>,
        listen: &SessionListen,
        directive: &'t Directive,
        name: &str,
    ) -> Option<Object> {
        let mut listener = object([("pass", format!("mail/{name}").into())]);
        if !self.session_listener(scope, listen, directive, &mut listener) {
            return None;
        }
        if let Some(switch) = scope.one("starttls") {
            self.report.converted(switch.id);
            let begins = match switch.arg(0) {
                "on" => Some("optional"),
                "only" => Some("required"),
                _ => None,
            };
            if let Some(begins) = begins.filter(|_| !listener.contains_key("tls")) {
                let Some(mut tls) = self.session_tls(directive, scope) else {
                    let reason = "there is no certificate, so nothing listens at this address";
                    self.report.mark(directive.id, Status::NotConverted, reason);
                    return None;
                };
                tls.insert("starttls".to_owned(), begins.into());
                listener.insert("tls".to_owned(), tls.into());
            }
        }
        // nginx has no access log of mail.
        listener.insert("access_log".to_owned(), false.into());
        Some(listener)
    }
}
