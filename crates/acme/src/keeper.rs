//! One task for each certificate: it sleeps until it is time, and has it made.
//!
//! The tasks run on the control thread; each gives way to the others while it waits. What they
//! need of the supervisor goes the way of all commands.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use howdah_config::{Acme, AcmeChallenge, Config};
use howdah_sys::log::{Level, Log};
use howdah_tls::challenges::{ChallengeStore, Wanted};
use howdah_tls::stored::Certificates;
use instant_acme::CertificateIdentifier;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::accounts::Accounts;
use super::asking::{Asking, is_name};
use super::commands::Commands;
use super::hook::Run;
use super::made::Made;
use super::order::{self, Failure, Whose, Wish};
use super::schedule::{self, Window};
use super::status::{AcmeReport, Board};

/// Certificates that are made at the same time.
const AT_ONCE: usize = 4;
/// How long one attempt may take, the user's program for DNS included.
const ATTEMPT: Duration = Duration::from_secs(30 * 60);
/// How often to ask again where an authority does not say when to renew.
const SILENCE: Duration = Duration::from_secs(6 * 3600);
/// Longest sleep: the clock may be set.
const NAP: Duration = Duration::from_secs(3600);
/// How long a name on demand has no certificate after a failure.
const UNLUCKY: Duration = Duration::from_secs(600);

/// What all tasks share.
pub(super) struct Office {
    pub door: Arc<ChallengeStore>,
    pub accounts: Accounts,
    commands: Commands,
    log: Arc<Log>,
    board: Board,
    /// What is stored; beside the tasks nobody changes what has their names.
    certificates: RefCell<Certificates>,
    asking: Asking,
    places: Semaphore,
    kept: RefCell<HashMap<String, Kept>>,
}

/// A certificate that is kept.
struct Kept {
    acme: Acme,
    task: JoinHandle<()>,
    wake: Rc<Notify>,
    /// Connections that wait for it.
    waiting: Vec<oneshot::Sender<()>>,
    on_demand: bool,
}

/// See the module.
pub struct Keeper {
    office: Rc<Office>,
}

impl Keeper {
    /// Names on demand come from `wanted`.
    pub fn new(
        door: Arc<ChallengeStore>,
        commands: Commands,
        log: Arc<Log>,
        board: Board,
        certificates: Certificates,
        mut wanted: Receiver<Wanted>,
    ) -> Self {
        let office = Rc::new(Office {
            door,
            accounts: Accounts::default(),
            commands,
            log,
            board,
            certificates: RefCell::new(certificates),
            asking: Asking::new(),
            places: Semaphore::new(AT_ONCE),
            kept: RefCell::default(),
        });
        let serving = Rc::clone(&office);
        tokio::task::spawn_local(async move {
            while let Some(wanted) = wanted.recv().await {
                tokio::task::spawn_local(want(Rc::clone(&serving), wanted));
            }
        });
        Keeper { office }
    }

    /// Keeps the certificates of a new configuration. A configuration that says the same as the last
    /// one is still a reason to try at once what has failed.
    pub fn follow(&mut self, config: &Config) {
        let all: Vec<&Acme> = configured(config).collect();
        let office = &self.office;
        let mut gone = Vec::new();
        office.kept.borrow_mut().retain(|name, kept| {
            let stays = all.iter().any(|acme| {
                let is_its = kept.on_demand || acme.certificate().as_ref() == Some(name);
                is_its && **acme == kept.acme
            });
            if !stays {
                kept.task.abort();
                gone.push(name.clone());
            }
            stays
        });
        gone.iter().for_each(|name| office.board.remove(name));
        for acme in all {
            let Some(name) = acme.certificate() else { continue };
            if let Some(kept) = office.kept.borrow().get(&name) {
                kept.wake.notify_one();
                continue;
            }
            start(office, name, acme, acme.domains.clone(), None);
        }
    }
}

fn configured(config: &Config) -> impl Iterator<Item = &Acme> {
    config.listeners.iter().filter_map(|listener| listener.tls.as_ref()).flat_map(|tls| &tls.acme)
}

/// Starts to keep a certificate; on demand if somebody waits for it.
fn start(
    office: &Rc<Office>,
    name: String,
    acme: &Acme,
    domains: Vec<String>,
    waiting: Option<oneshot::Sender<()>>,
) {
    let (wake, on_demand) = (Rc::new(Notify::new()), waiting.is_some());
    let task = Task {
        office: Rc::clone(office),
        name: name.clone(),
        acme: acme.clone(),
        domains,
        wake: Rc::clone(&wake),
        on_demand,
    };
    let kept = Kept {
        acme: acme.clone(),
        task: tokio::task::spawn_local(task.run()),
        wake,
        waiting: waiting.into_iter().collect(),
        on_demand,
    };
    office.kept.borrow_mut().insert(name, kept);
}

/// A connection asks for a name that there is no certificate for.
async fn want(office: Rc<Office>, wanted: Wanted) {
    let Wanted { name, acme, done } = wanted;
    let Some(on_demand) = &acme.on_demand else { return };
    if !is_name(&name) || office.asking.is_refused(&name, Instant::now()) {
        return;
    }
    let stored = Acme::certificate_for(&name);
    if let Some(kept) = office.kept.borrow_mut().get_mut(&stored) {
        if office.made(&stored).is_none() {
            kept.waiting.push(done);
            return;
        }
    } else {
        let kept = office.kept.borrow().values().filter(|kept| kept.on_demand).count();
        let problem = if kept >= on_demand.max as usize {
            Some(format!("there are {kept} certificates on demand already (on_demand/max)"))
        } else if office.made(&stored).is_some() {
            None // it was approved of once, and will be asked about before it is renewed
        } else {
            match office.asking.may_have(on_demand, &name).await {
                Ok(true) => None,
                Ok(false) => return,
                Err(problem) => Some(format!("on_demand/ask: {problem}")),
            }
        };
        if let Some(problem) = problem {
            office.asking.refuse(&name, Duration::from_secs(5), Instant::now());
            if office.asking.may_tell(Instant::now()) {
                office.say(Level::Error, &stored, &problem);
            }
            return;
        }
        // Others may have asked for it meanwhile.
        if let Some(kept) = office.kept.borrow_mut().get_mut(&stored) {
            kept.waiting.push(done);
            return;
        }
        if office.made(&stored).is_none() {
            return start(&office, stored, &acme, vec![name], Some(done));
        }
        let (nobody, _) = oneshot::channel();
        start(&office, stored.clone(), &acme, vec![name], Some(nobody));
    }
    // It is there, and the listener does not have it yet.
    let _ = office.commands.use_certificate(stored).await;
    let _ = done.send(());
}

impl Office {
    /// The text that is stored under a name.
    pub fn stored(&self, name: &str) -> Option<Arc<[u8]>> {
        self.certificates.borrow().get(name).cloned()
    }

    fn made(&self, name: &str) -> Option<Made> {
        self.stored(name).and_then(|pem| Made::read(&pem).ok())
    }

    /// Uses a text and stores it. If it cannot be stored, it is used until the end.
    pub async fn keep(&self, name: &str, text: Vec<u8>) {
        self.certificates.borrow_mut().insert(name.to_owned(), text.as_slice().into());
        if let Err(problem) = self.commands.keep_certificate(name.to_owned(), text).await {
            let line = format!("it cannot be stored, and is lost at the next start: {problem}");
            self.say(Level::Alert, name, &line);
        }
    }

    /// What is stored under a name is of no use.
    pub fn forget(&self, name: &str) {
        self.certificates.borrow_mut().remove(name);
    }

    /// Reads a file that the supervisor may read.
    pub async fn read_file(&self, path: &Path) -> Result<Vec<u8>, String> {
        self.commands.read_file(path.to_string_lossy().into_owned()).await
    }

    /// Has a program run to its end.
    pub async fn run(&self, run: Run) -> Result<(), String> {
        self.commands.run(run).await
    }

    /// As [`Office::run`], without waiting for it.
    pub fn run_aside(&self, run: Run) {
        let (commands, log) = (self.commands.clone(), Arc::clone(&self.log));
        tokio::task::spawn_local(async move {
            let program = run.program.clone();
            if let Err(problem) = commands.run(run).await {
                log.write(Level::Error, format_args!("{program}: {problem}"));
            }
        });
    }

    fn say(&self, level: Level, name: &str, what: &str) {
        self.log.write(level, format_args!("certificate {name}: {what}"));
    }
}

/// What one task works on.
struct Task {
    office: Rc<Office>,
    name: String,
    acme: Acme,
    domains: Vec<String>,
    wake: Rc<Notify>,
    on_demand: bool,
}

/// What an authority has said about the time to renew.
#[derive(Default)]
struct Advice {
    window: Option<Window>,
    /// The authority that knows the certificate.
    issuer: Option<usize>,
    /// When to ask again.
    next: Option<SystemTime>,
}

impl Task {
    async fn run(self) {
        let (mut failures, mut advice, mut chance) = (0u32, Advice::default(), chance());
        // Authorities that want to be left alone.
        let mut resting: HashMap<String, SystemTime> = HashMap::new();
        loop {
            let made = self.office.made(&self.name).filter(|made| made.covers(&self.domains));
            let now = SystemTime::now();
            if let Some(made) = &made {
                if advice.next.is_none_or(|next| next <= now) && failures == 0 {
                    advice = self.advice(made).await;
                }
                let due = schedule::renewal(&made.validity, advice.window, chance);
                if due > now {
                    self.report(Some(made), Some(due), 0, None);
                    let look = advice.next.unwrap_or(due);
                    self.sleep(due.min(look)).await;
                    continue;
                }
            }
            self.report(made.as_ref(), None, failures, None);
            match self.attempt(made.as_ref(), &advice, failures, &mut resting).await {
                Ok(()) => {
                    (failures, advice, chance) = (0, Advice::default(), self::chance());
                    if let Some(kept) = self.office.kept.borrow_mut().get_mut(&self.name) {
                        kept.waiting.clear(); // they go on
                    }
                }
                Err(problem) => {
                    failures = failures.saturating_add(1);
                    if self.on_demand && made.is_none() {
                        return self.give_up(&problem);
                    }
                    let now = SystemTime::now();
                    let validity = made.as_ref().map(|made| &made.validity);
                    let asked = rest(&self.acme, &resting, now);
                    let pause = schedule::pause(failures, asked, validity, now, self::chance());
                    self.report(made.as_ref(), Some(now + pause), failures, Some(&problem));
                    let stays = if made.is_some() { "; the old one stays in use" } else { "" };
                    let line = format!("{problem}; the next try is in {}{stays}", rough(pause));
                    self.office.say(Level::Error, &self.name, &line);
                    self.sleep(now + pause).await;
                }
            }
        }
    }

    /// There is no certificate for a name on demand; a later connection may ask again.
    fn give_up(&self, problem: &str) {
        self.office.say(Level::Error, &self.name, problem);
        for domain in &self.domains {
            self.office.asking.refuse(domain, UNLUCKY, Instant::now());
        }
        self.office.board.remove(&self.name);
        self.office.kept.borrow_mut().remove(&self.name);
    }

    /// Asks the authority that has made the certificate when to renew it.
    async fn advice(&self, made: &Made) -> Advice {
        let now = SystemTime::now();
        let silence = Advice { next: Some(now + SILENCE), ..Advice::default() };
        let Ok(identifier) = CertificateIdentifier::try_from(&made.leaf) else { return silence };
        for (issuer, server) in self.acme.servers.iter().enumerate() {
            let session = self.office.accounts.session(&self.office, &self.acme, server, false);
            let Ok(Some(session)) = session.await else { continue };
            let Ok((info, asked)) = session.account.renewal_info(&identifier).await else {
                continue; // it knows neither it nor this question
            };
            let window = Window {
                start: info.suggested_window.start.into(),
                end: info.suggested_window.end.into(),
            };
            let next = now + schedule::next_look(asked, &made.validity);
            return Advice { window: Some(window), issuer: Some(issuer), next: Some(next) };
        }
        silence
    }

    /// Tries one authority after the other, and one way to prove the names after the other.
    async fn attempt(
        &self,
        made: Option<&Made>,
        advice: &Advice,
        failures: u32,
        resting: &mut HashMap<String, SystemTime>,
    ) -> Result<(), String> {
        if let (true, Some(on_demand), Some(_), Some(name)) =
            (self.on_demand, &self.acme.on_demand, made, self.domains.first())
            && !self.office.asking.may_have(on_demand, name).await?
        {
            return Err("it is not wanted any more (on_demand/ask)".to_owned());
        }
        let Ok(_place) = self.office.places.acquire().await else { return Err(String::new()) };
        let mut problems = Vec::new();
        for (index, server) in self.acme.servers.iter().enumerate() {
            let host = host(&server.directory);
            if let Some(until) = resting.get(&server.directory)
                && *until > SystemTime::now()
            {
                let until = httpdate::fmt_http_date(*until);
                problems.push(format!("{host}: it wants to be left alone until {until}"));
                continue;
            }
            for way in self.ways(failures) {
                let replaces = made.filter(|_| advice.issuer == Some(index));
                let ordered = self.order(index, way, replaces.map(|made| &made.leaf));
                let failure = match tokio::time::timeout(ATTEMPT, ordered).await {
                    Ok(Ok((bundle, made))) => {
                        self.take(bundle, &made, host).await;
                        return Ok(());
                    }
                    Ok(Err(failure)) => failure,
                    Err(_) => Failure::own("it takes too long".to_owned()),
                };
                problems.push(format!("{host}: {}", failure.message));
                if let Some(asked) = failure.retry_after {
                    let asked = asked.min(Duration::from_secs(7 * 86_400));
                    resting.insert(server.directory.clone(), SystemTime::now() + asked);
                }
                if failure.whose != Whose::Proof || failure.retry_after.is_some() {
                    break;
                }
            }
        }
        Err(problems.join("; "))
    }

    /// The ways to prove the names: all of them at first, then one at a time, so that no authority
    /// counts more failures than necessary.
    fn ways(&self, failures: u32) -> Vec<AcmeChallenge> {
        let wildcard = self.domains.iter().any(|name| name.starts_with('*'));
        let fits = |way: &&AcmeChallenge| !wildcard || **way == AcmeChallenge::Dns;
        let mut ways: Vec<_> = self.acme.challenges.iter().filter(fits).copied().collect();
        let mut seen = HashSet::new();
        ways.retain(|way| seen.insert(format!("{way:?}")));
        if failures == 0 || ways.is_empty() {
            return ways;
        }
        vec![ways[failures as usize % ways.len()]]
    }

    async fn order(
        &self,
        index: usize,
        way: AcmeChallenge,
        replaces: Option<&rustls::pki_types::CertificateDer<'static>>,
    ) -> Result<(Vec<u8>, Made), Failure> {
        let Some(server) = self.acme.servers.get(index) else {
            return Err(Failure::own("there is no such authority".to_owned()));
        };
        let replaces = replaces.and_then(|leaf| CertificateIdentifier::try_from(leaf).ok());
        let mut wish = Wish {
            acme: &self.acme,
            domains: &self.domains,
            way,
            replaces: replaces.map(CertificateIdentifier::into_owned),
        };
        let (office, accounts) = (&self.office, &self.office.accounts);
        let mut is_new = false;
        loop {
            let session = accounts.session(office, &self.acme, server, true).await;
            let ordered = match session {
                Ok(Some(session)) => order::obtain(office, &session, &wish).await,
                Ok(None) => Err(Failure::own("there is no account".to_owned())),
                Err(failure) => Err(failure),
            };
            let Err(failure) = ordered else { return ordered };
            match failure.whose {
                Whose::Account if !is_new => {
                    is_new = true;
                    accounts.forget(office, &self.acme, server, true);
                }
                Whose::Replacement if wish.replaces.is_some() => wish.replaces = None,
                whose => {
                    if whose != Whose::Proof {
                        accounts.forget(office, &self.acme, server, false);
                    }
                    return Err(failure);
                }
            }
        }
    }

    /// Stores a certificate; the listeners take it.
    async fn take(&self, bundle: Vec<u8>, made: &Made, host: &str) {
        self.office.keep(&self.name, bundle).await;
        let until = httpdate::fmt_http_date(made.validity.until);
        let line = format!("{host} has made it; it counts until {until}");
        self.office.say(Level::Notice, &self.name, &line);
    }

    fn report(
        &self,
        made: Option<&Made>,
        next: Option<SystemTime>,
        failures: u32,
        error: Option<&str>,
    ) {
        // What went wrong is shown until it goes well.
        let earlier = || {
            let all = self.office.board.all();
            all.into_iter().find(|report| report.name == self.name).and_then(|one| one.error)
        };
        self.office.board.put(AcmeReport {
            name: self.name.clone(),
            domains: self.domains.clone(),
            expires: made.map(|made| made.validity.until),
            next,
            failures,
            error: match failures {
                0 => None,
                _ => error.map(str::to_owned).or_else(earlier),
            },
        });
    }

    /// Sleeps until then, or until there is a new configuration.
    async fn sleep(&self, until: SystemTime) {
        loop {
            let left = until.duration_since(SystemTime::now()).unwrap_or_default();
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(left.min(NAP)) => {}
                () = self.wake.notified() => return,
            }
        }
    }
}

/// How long all authorities want to be left alone.
fn rest(acme: &Acme, resting: &HashMap<String, SystemTime>, now: SystemTime) -> Option<Duration> {
    let left = |directory: &String| resting.get(directory)?.duration_since(now).ok();
    let all: Option<Vec<_>> = acme.servers.iter().map(|server| left(&server.directory)).collect();
    all?.into_iter().min()
}

fn host(directory: &str) -> &str {
    let rest = directory.split_once("://").map_or(directory, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// A number from 0 to 1.
fn chance() -> f64 {
    let mut bytes = [0; 4];
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}
