//! A login that a client asks for: the question about it, and the login behind.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use howdah_config::Address;
use howdah_dns::turns::Asker;
use howdah_http::handling::Handling;
use howdah_http::message::{ConnectionInfo, Fields, Request, ShownAddress, Version};
use howdah_limits::{Nanos, sessions};
use howdah_stream::connect::{Connected, Step, connect};
use howdah_stream::hops::{Ends, Hop, passed};
use howdah_sys::clock;
use howdah_tls::ClientProtocol;
use howdah_upstream::connections::connection::{ConnectOptions, Connection, ends, open};
use howdah_upstream::failure::Failure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{Behind, End, Session};
use crate::backend::{
    Account, BackendLogin, ImapLogin, Pop3Login, SmtpLogin, SmtpOptions, greeting,
};
use crate::conversation::{NoLogin, exchange, log_in, start_tls};
use crate::login::{Login, Method, Protocol};
use crate::question::{Answer, Question};

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// Refusals of IMAP (RFC 5530, 3), POP3 (RFC 2449, 8.1) and SMTP.
const TOO_MANY_FAILURES: (&str, &str, &str) = (
    "[LIMIT] Too many failed logins",
    "[LOGIN-DELAY] Too many failed logins",
    "Too many failed logins",
);
const TOO_MANY_SESSIONS: (&str, &str, &str) =
    ("[LIMIT] Too many sessions", "[IN-USE] Too many sessions", "Too many sessions");

const NO_ANSWER: &str = "no answer came in time";

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Tries a login within the limits. `None` if it has failed and the client may try again.
    pub(super) async fn try_login(&mut self, login: Login) -> Result<Option<Behind>, End> {
        self.attempts += 1;
        self.context.drain.set_busy();
        let credentials = &login.credentials;
        if credentials.method != Method::None {
            self.request.user = Some(Bytes::copy_from_slice(&credentials.user));
        }
        let (rules, started_at) = (self.context.limit, self.context.started_at);
        let counted = match sessions::try_login(rules, self.request, started_at, now()) {
            Ok(counted) => counted,
            Err(refusal) => {
                let reason = format!("limit {}: too many failed logins", refusal.zone);
                self.refuse_limited(&login, TOO_MANY_FAILURES, &reason).await?;
                return Ok(None);
            }
        };
        match self.check_login(login.clone()).await {
            Ok(None) => Ok(None),
            // It could not be decided.
            Err(End::Status(502)) => {
                counted.take_back(now());
                Err(End::Status(502))
            }
            Err(end) => Err(end),
            Ok(Some(behind)) => match counted.enter(now()) {
                Ok(permits) => Ok(Some(Behind { permits, ..behind })),
                Err(refusal) => {
                    drop(behind);
                    let reason = format!("limit {}: too many sessions", refusal.zone);
                    self.refuse_limited(&login, TOO_MANY_SESSIONS, &reason).await?;
                    Ok(None)
                }
            },
        }
    }

    /// Refuses a login for a limit.
    async fn refuse_limited(
        &mut self,
        login: &Login,
        (imap, pop3, smtp): (&str, &str, &str),
        reason: &str,
    ) -> Result<(), End> {
        self.log_failure(&login.credentials.user, login.credentials.method, reason);
        let text = match self.context.proxy.config.protocol {
            Protocol::Imap => imap,
            Protocol::Pop3 => pop3,
            Protocol::Smtp => smtp,
        };
        self.front.refuse(login, text, Some("454 4.7.0"), &mut self.out);
        self.delay_refusal().await
    }

    /// Asks whether a login is right, and logs in behind. `None` if it has failed and the client may
    /// try again.
    async fn check_login(&mut self, login: Login) -> Result<Option<Behind>, End> {
        let credentials = &login.credentials;
        if self.client_name.is_none() {
            self.client_name = Some(self.look_up_client().await);
        }
        if let Some(upstream) = &self.context.proxy.backend {
            let (user, password) = (credentials.user.clone(), Some(credentials.password.clone()));
            let account = self.account(login.clone(), user, password);
            let started_at = std::time::Instant::now();
            let (thread, client) = (self.context.thread, self.context.client);
            let connected = connect(thread, upstream, self.request, started_at, client).await;
            let Ok(Connected { connection, active, hop }) = connected else {
                return Err(self.fail().await);
            };
            let name = upstream.name.to_string();
            let server = active.server().map(|server| server.name.clone()).unwrap_or_default();
            return match self.log_in_behind(connection, account, &server).await {
                Ok((connection, reply)) => {
                    let (active, permits) = (Some(active), Vec::new());
                    Ok(Some(Behind { connection, reply, active, hop, permits }))
                }
                Err(NoLogin::Refused(reply)) => {
                    self.log_failure(&login.credentials.user, login.credentials.method, "");
                    self.write_refusal(&login, &reply);
                    self.delay_refusal().await?;
                    Ok(None)
                }
                Err(NoLogin::Failed(problem)) => {
                    self.log_problem(&name, &problem);
                    Err(self.fail().await)
                }
            };
        }
        loop {
            match self.ask(&login).await {
                Some(Answer::Again(time)) => self.pause_for_client(time).await?,
                Some(Answer::Pass { server, port, user, password }) => {
                    return self.pass(login, &server, port, user, password).await.map(Some);
                }
                Some(Answer::Refused { text, code, wait }) => {
                    let credentials = &login.credentials;
                    if credentials.method != Method::None {
                        self.log_failure(&credentials.user, credentials.method, &text);
                    }
                    if let Some(time) = wait {
                        self.pause(time).await?;
                    }
                    self.front.refuse(&login, &text, code.as_deref(), &mut self.out);
                    self.flush().await?;
                    return if wait.is_some() { Ok(None) } else { Err(End::Status(401)) };
                }
                None => return Err(self.fail().await),
            }
        }
    }

    /// Asks the script, or the authentication servers, one after another, until one answers. `None`
    /// if none has; that has been logged.
    async fn ask(&mut self, login: &Login) -> Option<Answer> {
        let proxy = self.context.proxy;
        let info = Arc::clone(&self.request.connection);
        // An address of its own: variables are about the servers behind.
        let asking = Request { handling: Handling::default(), ..self.request.clone() };
        let question = Question {
            headers: &proxy.config.headers,
            protocol: proxy.config.protocol,
            login,
            attempt: self.attempts,
            client: &ShownAddress(info.peer.map(|peer| peer.ip())).to_string(),
            client_name: self.client_name.as_ref().and_then(|name| name.as_deref()),
            proxied: info.peer.zip(info.local).filter(|_| self.context.is_proxied),
            handshake: info.handshake.as_deref(),
        };
        let limit = proxy.config.authentication_timeout;
        if let Some(script) = &proxy.config.script {
            let answering = self.context.scripts.ask(script, script_request(&asking, &question));
            let answer = match timeout(limit, answering).await {
                Ok(response) => Answer::of(response.fields.iter())
                    .map_err(|problem| format!("{problem} (status {})", response.status)),
                Err(_) => Err(NO_ANSWER.to_owned()),
            };
            return answer
                .inspect_err(|problem| self.log_problem(&script.to_string(), problem))
                .ok();
        }
        for (upstream, server) in &proxy.authentication {
            let request = question.request(&server.target, &server.host);
            let answering = async {
                let started_at = std::time::Instant::now();
                let thread = self.context.thread;
                let connected = connect(thread, upstream, &asking, started_at, None).await;
                let mut connected = connected.ok()?;
                Some(exchange(&mut connected.connection, &request).await)
            };
            let problem = match timeout(limit, answering).await {
                Ok(Some(Ok(answer))) => return Some(answer),
                Ok(Some(Err(problem))) => problem,
                Ok(None) => continue, // that is logged
                Err(_) => NO_ANSWER.to_owned(),
            };
            self.log_problem(&upstream.name, &problem);
        }
        None
    }

    /// Logs in at a server that an authentication server has named.
    async fn pass(
        &mut self,
        login: Login,
        server: &str,
        port: u16,
        user: Option<Vec<u8>>,
        password: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Behind, End> {
        let proxy = self.context.proxy;
        let addresses = self.addresses(server, port).await;
        if addresses.is_empty() {
            let problem = "its \"Auth-Server\" is no address, and no name that leads to one";
            self.log_problem("authentication", problem);
            return Err(self.fail().await);
        }
        let credentials = &login.credentials;
        let is_passed_on = matches!(
            credentials.method,
            Method::Plain | Method::Login | Method::Xoauth2 | Method::OauthBearer
        );
        let password = password.or_else(|| is_passed_on.then(|| credentials.password.clone()));
        let is_needed = proxy.config.protocol != Protocol::Smtp
            || proxy.config.backend_authentication && credentials.method != Method::None;
        if is_needed && password.is_none() {
            self.log_problem("authentication", "it sends no \"Auth-Pass\", which the method needs");
            return Err(self.fail().await);
        }
        let user = user.unwrap_or_else(|| credentials.user.clone());
        let mut login = login;
        // Another password is no token.
        if password.as_ref().is_some_and(|one| **one != *login.credentials.password) {
            login.credentials.method = match login.credentials.method {
                Method::Xoauth2 | Method::OauthBearer => Method::Plain,
                method => method,
            };
        }
        let tag = login.clone();
        let account = self.account(login, user, password);
        let mut opened = None;
        for address in addresses {
            if let Some((connection, hop)) = self.open(server, &address).await {
                opened = Some((connection, hop, address));
                break;
            }
        }
        let Some((connection, hop, address)) = opened else { return Err(self.fail().await) };
        match self.log_in_behind(connection, account, server).await {
            Ok((connection, reply)) => {
                Ok(Behind { connection, reply, active: None, hop, permits: Vec::new() })
            }
            Err(NoLogin::Refused(reply)) => {
                self.log_failure(&tag.credentials.user, tag.credentials.method, "");
                if proxy.config.error_messages {
                    self.out.extend_from_slice(&reply)
                } else {
                    self.front.fail(&mut self.out)
                }
                self.flush().await?;
                Err(End::Status(401))
            }
            Err(NoLogin::Failed(problem)) => {
                self.log_problem(&address.to_string(), &problem);
                Err(self.fail().await)
            }
        }
    }

    /// Returns the addresses of a server that an authentication server has named.
    async fn addresses(&self, server: &str, port: u16) -> Vec<Address> {
        if let Ok(ip) = server.trim_matches(['[', ']']).parse() {
            return vec![Address::Inet(SocketAddr::new(ip, port))];
        }
        let Ok(Address::Name(name, _)) = Address::parse_server(&format!("{server}:{port}")) else {
            return Vec::new();
        };
        let asker = Asker::Mail(Arc::clone(&self.context.proxy.name));
        let found = self.context.names.addresses(asker, &name, self.context.resolver).await;
        let found = found.iter().take(MAX_ADDRESSES);
        found.map(|ip| Address::Inet(SocketAddr::new(*ip, port))).collect()
    }

    /// Returns the name of the client, if it is to be looked up. The owner of an address chooses
    /// its name, so nothing else than a name of a host may pass.
    async fn look_up_client(&self) -> Option<String> {
        let proxy = self.context.proxy;
        let address = self.request.connection.peer.filter(|_| proxy.config.client_names)?;
        let asker = Asker::Mail(Arc::clone(&proxy.name));
        let address = address.ip().to_canonical();
        let name = self.context.names.name(asker, address, self.context.resolver).await?;
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_valid = (1..=255).contains(&name.len()) && name.bytes().all(is_host);
        is_valid.then(|| name.to_owned())
    }

    /// Connects to a server behind. A failure is logged.
    async fn open(&mut self, server: &str, address: &Address) -> Option<(Connection, Hop)> {
        let proxy = self.context.proxy;
        self.request.handling.add_step(Rc::new(Step::new(address.to_string())));
        let tls = proxy.tls.as_deref().filter(|_| proxy.starttls().is_none());
        let options = ConnectOptions {
            address,
            proxy_protocol: proxy.config.proxy_protocol,
            tls: tls.map(|tls| (tls, server)),
            protocol: ClientProtocol::Other,
            client: Some(&self.request.connection),
        };
        let opening = async {
            let passed = passed(self.context.client, address).await.map_err(Failure::Connect)?;
            let connection = open(&options).await?;
            let hop = Hop::new(ends(&connection).map(Ends::new), passed);
            Ok::<_, Failure>((connection, hop))
        };
        let problem = match timeout(proxy.config.connect_timeout, opening).await {
            Ok(Ok(opened)) => return Some(opened),
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "the connection was not accepted in time (timeouts/connect)".to_owned(),
        };
        self.log_problem(&address.to_string(), &problem);
        None
    }

    fn account(
        &self,
        login: Login,
        user: Vec<u8>,
        password: Option<Zeroizing<Vec<u8>>>,
    ) -> Account {
        let ConnectionInfo { peer, local, .. } = *self.request.connection;
        Account { login, user, password, client: peer, local }
    }

    /// Logs in at a server behind. Returns the connection and the bytes for the client.
    async fn log_in_behind(
        &self,
        mut connection: Connection,
        account: Account,
        server: &str,
    ) -> Result<(Connection, Vec<u8>), NoLogin> {
        let proxy = self.context.proxy;
        let (settings, limit) = (&proxy.config, proxy.config.client_timeout);
        let mut first: &[u8] = &[];
        if let Some(tls) = proxy.starttls() {
            let own_name = &proxy.offer.server_name;
            let protocol = settings.protocol;
            connection = start_tls(connection, protocol, own_name, (tls, server), limit).await?;
            first = greeting(protocol);
        }
        let mut login = match settings.protocol {
            Protocol::Imap => BackendLogin::Imap(ImapLogin::new(account, settings.client_id)),
            Protocol::Pop3 => BackendLogin::Pop3(Pop3Login::new(account)),
            Protocol::Smtp => BackendLogin::Smtp(SmtpLogin::new(
                account,
                SmtpOptions {
                    server_name: proxy.offer.server_name.clone(),
                    xclient: settings.xclient,
                    authenticates: settings.backend_authentication,
                    client_name: self.client_name.clone().flatten(),
                },
            )),
        };
        let reply = log_in(&mut connection, &mut login, first, limit).await?;
        Ok((connection, reply))
    }

    /// Writes that a server behind has refused a login.
    fn write_refusal(&mut self, login: &Login, reply: &[u8]) {
        if self.context.proxy.config.error_messages {
            return self.out.extend_from_slice(reply);
        }
        let (text, code) = match self.context.proxy.config.protocol {
            Protocol::Imap => ("[AUTHENTICATIONFAILED] Authentication failed", None),
            Protocol::Pop3 => ("[AUTH] Authentication failed", None),
            Protocol::Smtp => ("Authentication failed", Some("535 5.7.8")),
        };
        self.front.refuse(login, text, code, &mut self.out);
    }
}

/// Returns the time of limits.
fn now() -> Nanos {
    clock::monotonic_us() * 1000
}

/// Returns the request for a script that has a question's fields.
fn script_request(session: &Request, question: &Question<'_>) -> Request {
    let mut fields = vec![("Host".to_owned(), Zeroizing::new("localhost".to_owned()))];
    question.fields(&mut |name, value| {
        fields.push((name.to_owned(), Zeroizing::new(value.to_owned())));
    });
    let pairs = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let root = Bytes::from_static(b"/");
    Request {
        method: Bytes::from_static(b"GET"),
        target: root.clone(),
        path: root,
        version: Version::Http10,
        host: Bytes::from_static(b"localhost"),
        fields: Fields::from_pairs(pairs),
        user: None,
        ..session.clone()
    }
}
