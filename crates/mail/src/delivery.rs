//! One submission: reads the envelope, speaks with the mail server, and passes the text on.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use howdah_dns as names;
use howdah_sendmail::address::Address;
use howdah_sendmail::lines::Encoder;
use howdah_sendmail::{Failure, MAX_MESSAGE_BYTES, MAX_RECIPIENTS, status};
use howdah_tls::AnonymousClient;
use howdah_wire::messages::{FromMail, FromSendmail, MailRoute, MailTls, ToSendmail};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use crate::session::{Envelope, Problem, Session};
use crate::socket::Socket;
use crate::unreachable::Unreachable;
use crate::usage::Usage;
use crate::{frames, mailbox};

/// Maximum time in which a server must be found, take the connection, and greet.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time in which a submission must send its envelope.
const ENVELOPE_TIMEOUT: Duration = Duration::from_secs(30);

/// The key of servers that the option of the command line names.
const MAIL_TO: &str = "--mail-to";
const USE_MAIL_TO: &str = "start howdah serve with --mail-to page to see messages in a browser, or \
                           with --mail-to smtp://HOST:PORT";

/// Maximum time for `QUIT`.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of a password in bytes.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// State of the process that all submissions share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Host name of the machine.
    pub(crate) host: String,
    pub(crate) usage: RefCell<Usage>,
    /// The supervisor, which is told all counts.
    pub(crate) supervisor: Option<Rc<Socket>>,
    pub(crate) unreachable: RefCell<Unreachable>,
    /// The client of TLS with the system's authorities.
    pub(crate) tls: RefCell<Option<AnonymousClient>>,
}

/// A submission.
pub(crate) struct Submission {
    pub(crate) application: String,
    pub(crate) user: String,
    pub(crate) route: MailRoute,
    pub(crate) requests: Receiver,
    pub(crate) answers: Sender,
    /// File with the password, or the file that takes the message.
    pub(crate) file: Option<OwnedFd>,
    pub(crate) authorities: Option<OwnedFd>,
    pub(crate) is_to_file: bool,
    /// The message may have been taken: the end of its text is on its way, and it was not refused.
    pub(crate) may_be_taken: bool,
}

/// Carries a submission out, and answers it. Returns the number of recipients if the mail server
/// has taken the message, otherwise 0.
pub(crate) async fn carry_out(mut submission: Submission, shared: &Shared) -> u32 {
    let (answer, session, count) = match deliver(&mut submission, shared).await {
        Ok((session, count)) => (ToSendmail::Sent {}, session, count),
        Err(Failure { status, reason }) => (ToSendmail::Failed { status, reason }, None, 0),
    };
    // The other end may be gone, or may not read.
    let _ = timeout(GREETING_TIMEOUT, frames::send(&mut submission.answers, &answer)).await;
    // A server that is slow after it has the message delays no client.
    if let Some(mut session) = session {
        let _ = timeout(QUIT_TIMEOUT, session.quit()).await;
    }
    count
}

/// Delivers the message. Returns the session with the mail server, if there was one, and the number
/// of recipients.
async fn deliver(
    submission: &mut Submission,
    shared: &Shared,
) -> Result<(Option<Session>, u32), Failure> {
    let first = timeout(ENVELOPE_TIMEOUT, frames::receive(&mut submission.requests)).await;
    let first = first.map_err(|_| submission_ended())?.map_err(|_| submission_ended())?;
    let (envelope, from) = envelope(&first, submission, shared)?;
    let count = envelope.recipients.len() as u32;
    let limit = submission.route.limit;
    if limit > 0 && !shared.admit(&submission.application, count, limit) {
        let reason = format!(
            "the application has sent to {limit} recipients in the last hour, which is its \
             \"limit\" in {}",
            key(&submission.route)
        );
        return Err(Failure::new(status::NO_PERMISSION, reason));
    }
    let (seconds, route) = (submission.route.timeout, submission.route.clone());
    let time = Duration::from_secs(u64::from(seconds));
    let sent = if submission.is_to_file {
        timeout(time, to_file(submission, shared, &envelope, from)).await
    } else {
        timeout(time, send(submission, shared, &envelope, from)).await
    };
    let sent = sent.unwrap_or_else(|_| {
        let limit = match route.key.as_str() {
            MAIL_TO => format!("; {USE_MAIL_TO}"),
            _ => format!(", the \"timeout\" in {}", key(&route)),
        };
        let server = server(&route);
        let missing = if submission.may_be_taken {
            "has not confirmed the message, which it may have taken,"
        } else {
            "has not taken the message"
        };
        let reason = format!("{server} {missing} within {seconds} seconds{limit}");
        Err(Failure::new(status::UNAVAILABLE, reason))
    });
    // A script chooses when its text ends, and so whether the confirmation comes in time.
    if sent.is_err() && limit > 0 && !submission.may_be_taken {
        shared.refund(&submission.application, count);
    }
    sent.map(|session| (session, count))
}

impl Shared {
    /// Counts recipients of an application, unless there were too many in the last hour.
    fn admit(&self, application: &str, count: u32, limit: u32) -> bool {
        let is_admitted = self.usage.borrow_mut().admit(application, count, limit, minute());
        if is_admitted {
            self.report(application);
        }
        is_admitted
    }

    /// Takes recipients back that no message has reached.
    fn refund(&self, application: &str, count: u32) {
        self.usage.borrow_mut().refund(application, count);
        self.report(application);
    }

    fn report(&self, application: &str) {
        if let Some(supervisor) = &self.supervisor {
            let usage = self.usage.borrow().of(application, minute());
            let _ = supervisor.send(&FromMail::Counted { usage });
        }
    }
}

/// Returns the envelope of a submission, and the address for a missing `From`.
fn envelope(
    first: &[u8],
    submission: &Submission,
    shared: &Shared,
) -> Result<(Envelope, Address), Failure> {
    let malformed = || Failure::new(status::SOFTWARE, "the envelope is malformed");
    let FromSendmail::Submit { sender, author, recipients, is_8bit, size } =
        FromSendmail::decode(first).map_err(|_| malformed())?;
    let read = |text: &str| Address::parse(text).ok_or_else(malformed);
    let local = format!("{}@{}", submission.user, shared.host);
    let local = Address::parse(&local).or_else(|| Address::parse("webmaster@localhost"));
    let configured = submission.route.from.as_deref().and_then(Address::parse);
    let from = configured.clone().or(local).ok_or_else(malformed)?;
    let sender = match sender.as_deref() {
        Some("") => None,
        Some(given) => Some(read(given)?),
        None => {
            let author = author.as_deref().map(read).transpose()?;
            Some(configured.or(author).unwrap_or_else(|| from.clone()))
        }
    };
    if recipients.is_empty() || recipients.len() > MAX_RECIPIENTS {
        return Err(malformed());
    }
    let recipients = recipients.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    Ok((Envelope { sender, recipients, is_8bit, size }, from))
}

async fn send(
    submission: &mut Submission,
    shared: &Shared,
    envelope: &Envelope,
    from: Address,
) -> Result<Option<Session>, Failure> {
    let route = submission.route.clone();
    let failed = |problem| failure(&route, problem);
    let client = match route.tls {
        MailTls::Off => None,
        _ => Some(tls(&route, submission.authorities.take(), shared)?),
    };
    let mut session = connect(&route, client.as_ref(), shared).await?;
    session.hello().await.map_err(failed)?;
    if let Some(client) = client.filter(|_| route.tls == MailTls::StartTls) {
        session = session.starttls(&client, &route.host).await.map_err(failed)?;
    }
    if let Some(user) = &route.user {
        let password = password(submission.file.take(), &route)?;
        session.log_in(user, &password).await.map_err(failed)?;
    }
    session.envelope(envelope).await.map_err(failed)?;
    ready(submission, shared, from).await?;
    let (mut encoder, mut out, mut length) = (Encoder::default(), Vec::new(), 0);
    loop {
        let piece = next_piece(&mut submission.requests, &mut length).await?;
        out.clear();
        if piece.is_empty() {
            encoder.finish(&mut out);
            break;
        } else {
            encoder.encode(&piece, &mut out)
        }
        session.text(&out).await.map_err(failed)?;
    }
    submission.may_be_taken = true;
    if let Err(problem) = session.finish(&out).await {
        submission.may_be_taken = !problem.is_refusal();
        return Err(failed(problem));
    }
    Ok(Some(session))
}

/// Tells the program to send the text.
async fn ready(submission: &mut Submission, shared: &Shared, from: Address) -> Result<(), Failure> {
    let ready = ToSendmail::Ready { from: from.to_string(), host: shared.host.clone() };
    frames::send(&mut submission.answers, &ready).await.map_err(|_| submission_ended())
}

/// Returns the next piece of the text; an empty one is its end. A program that ends before has its
/// message not sent.
async fn next_piece(requests: &mut Receiver, length: &mut usize) -> Result<Vec<u8>, Failure> {
    let piece = frames::receive(requests).await.map_err(|_| submission_ended())?;
    *length += piece.len();
    // Some more for the fields that were added.
    if *length > MAX_MESSAGE_BYTES + 4096 {
        Err(Failure::new(status::DATA, "the message is too long"))
    } else {
        Ok(piece)
    }
}

async fn to_file(
    submission: &mut Submission,
    shared: &Shared,
    envelope: &Envelope,
    from: Address,
) -> Result<Option<Session>, Failure> {
    ready(submission, shared, from).await?;
    let (mut text, mut length) = (Vec::new(), 0);
    loop {
        let piece = next_piece(&mut submission.requests, &mut length).await?;
        if piece.is_empty() {
            break;
        }
        text.extend_from_slice(&piece);
    }
    let unwritable = |error: io::Error| {
        Failure::new(status::IO, format!("the file of --mail-to cannot be written: {error}"))
    };
    let file = submission.file.take().ok_or(io::ErrorKind::NotFound);
    let mut file = File::from(file.map_err(|kind| unwritable(kind.into()))?);
    let sender = envelope.sender.as_ref().map_or("", Address::as_str);
    let recipients: Vec<_> = envelope.recipients.iter().map(Address::to_string).collect();
    let seconds = clock_gettime(ClockId::Realtime).tv_sec.unsigned_abs();
    let date = howdah_sendmail::date::asctime(seconds);
    mailbox::append(&mut file, sender, &recipients, &date, &text).map_err(unwritable)?;
    Ok(None)
}

/// Connects to the mail server, and waits for its greeting.
async fn connect(
    route: &MailRoute,
    client: Option<&AnonymousClient>,
    shared: &Shared,
) -> Result<Session, Failure> {
    let server = server(route);
    let known = shared.unreachable.borrow().reason(&server, Instant::now()).map(str::to_owned);
    let problem = match known {
        Some(problem) => problem,
        None => {
            let time = GREETING_TIMEOUT.min(Duration::from_secs(u64::from(route.timeout)));
            let problem = match timeout(time, greeted(route, client, shared)).await {
                Ok(Ok(session)) => return Ok(session),
                // The server is there and refuses.
                Ok(Err(Unusable::Session(
                    problem @ (Problem::Refused { .. } | Problem::Tls(_)),
                ))) => {
                    return Err(failure(route, problem));
                }
                Ok(Err(Unusable::Session(problem))) => shown(&problem),
                Ok(Err(Unusable::Name(problem))) => problem,
                Err(_) => format!("it has not answered for {} seconds", time.as_secs()),
            };
            shared.unreachable.borrow_mut().add(&server, &problem, Instant::now());
            problem
        }
    };
    let advice = match route.key.as_str() {
        MAIL_TO => USE_MAIL_TO.to_owned(),
        "" => "set \"smtp\" in \"settings\", or in the application, to the address of a mail \
             server, or install one on this machine"
            .to_owned(),
        _ => format!("see {}", key(route)),
    };
    let reason = format!("no mail server answers at {server}: {problem}; {advice}");
    Err(Failure::new(status::UNAVAILABLE, reason))
}

/// Reason why there is no session.
enum Unusable {
    Name(String),
    Session(Problem),
}

async fn greeted(
    route: &MailRoute,
    client: Option<&AnonymousClient>,
    shared: &Shared,
) -> Result<Session, Unusable> {
    let resolver: Vec<SocketAddr> =
        route.resolver.iter().filter_map(|address| address.parse().ok()).collect();
    let addresses = names::addresses(&route.host, &resolver).await.map_err(Unusable::Name)?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        let stream = match TcpStream::connect(SocketAddr::new(address, route.port)).await {
            Ok(stream) => stream,
            Err(error) => {
                last = error;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let mut session = Session::new(Box::new(stream), &shared.host);
        if let Some(client) = client.filter(|_| route.tls == MailTls::Implicit) {
            session = session.begin_tls(client, &route.host).await.map_err(Unusable::Session)?;
        }
        session.greeting().await.map_err(Unusable::Session)?;
        return Ok(session);
    }
    Err(Unusable::Session(Problem::Connection(last)))
}

/// Returns the client of TLS with the authorities of the system, or of the file that the document
/// names.
fn tls(
    route: &MailRoute,
    file: Option<OwnedFd>,
    shared: &Shared,
) -> Result<AnonymousClient, Failure> {
    let unusable = |problem: String| Failure::new(status::UNAVAILABLE, problem);
    if let Some(path) = &route.authorities {
        return AnonymousClient::of_file(path, file)
            .map_err(|problem| unusable(format!("\"authorities\" in {}: {problem}", key(route))));
    }
    if let Some(client) = &*shared.tls.borrow() {
        return Ok(client.clone());
    }
    let client = AnonymousClient::of_system().map_err(unusable)?;
    Ok(shared.tls.borrow_mut().insert(client).clone())
}

/// Reads the password: the first line of the file.
fn password(file: Option<OwnedFd>, route: &MailRoute) -> Result<String, Failure> {
    let unusable = |problem: &str| {
        let path = route.password_file.as_deref().unwrap_or_default();
        let reason = format!("\"password_file\" in {}: {path} {problem}", key(route));
        Failure::new(status::NO_PERMISSION, reason)
    };
    let file = file.ok_or_else(|| unusable("cannot be read; see the server's log"))?;
    let (mut file, mut text) = (File::from(file), String::new());
    let read = file.rewind().and_then(|()| file.take(MAX_PASSWORD_BYTES).read_to_string(&mut text));
    read.map_err(|error| unusable(&format!("cannot be read: {error}")))?;
    match text.lines().next().filter(|line| !line.is_empty() && !line.contains('\0')) {
        Some(password) => Ok(password.to_owned()),
        None => Err(unusable("has no password in its first line")),
    }
}

fn server(route: &MailRoute) -> String {
    if route.host.contains(':') {
        format!("[{}]:{}", route.host, route.port)
    } else {
        format!("{}:{}", route.host, route.port)
    }
}

/// Returns the part of the document to look at.
fn key(route: &MailRoute) -> &str {
    if route.key.is_empty() { "\"settings/smtp\"" } else { &route.key }
}

fn submission_ended() -> Failure {
    Failure::new(status::IO, "the program that sends the message has ended")
}

fn shown(problem: &Problem) -> String {
    match problem {
        Problem::Connection(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it has closed the connection".to_owned()
        }
        Problem::Connection(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => "the connection is refused".to_owned(),
            _ => error.to_string(),
        },
        Problem::Protocol(problem) => (*problem).to_owned(),
        Problem::Tls(problem) => problem.clone(),
        Problem::Lacks(extension) => format!("it does not offer {extension}"),
        Problem::Refused { command, reply } => {
            format!("it refuses the {command}: {}", reply.shown())
        }
    }
}

fn failure(route: &MailRoute, problem: Problem) -> Failure {
    let status = match &problem {
        Problem::Connection(_) | Problem::Tls(_) => status::UNAVAILABLE,
        Problem::Protocol(_) => status::PROTOCOL,
        Problem::Lacks(_) => status::UNAVAILABLE,
        Problem::Refused { command, .. } if command == "AUTH" => status::NO_PERMISSION,
        Problem::Refused { command, .. } if command.starts_with("recipient") => status::NO_USER,
        Problem::Refused { .. } => status::UNAVAILABLE,
    };
    let advice = match &problem {
        Problem::Refused { command, .. } if command == "AUTH" => {
            "; see \"user\" and \"password_file\" in "
        }
        Problem::Refused { command, .. } if command.starts_with("sender") => "; see \"from\" in ",
        Problem::Tls(_) | Problem::Lacks("STARTTLS") => "; see \"tls\" and \"port\" in ",
        _ => {
            return Failure::new(
                status,
                format!("mail server {}: {}", server(route), shown(&problem)),
            );
        }
    };
    let reason =
        format!("mail server {}: {}{advice}{}", server(route), shown(&problem), key(route));
    Failure::new(status, reason)
}

/// Returns the minute of the machine's monotonic clock, which is the same in all processes.
pub(crate) fn minute() -> u64 {
    clock_gettime(ClockId::Monotonic).tv_sec.unsigned_abs() / 60
}
