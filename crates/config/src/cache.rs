//! `cache` of an action: answers of applications and other servers that are stored and used again.
//!
//! The grammar is here; `presets` has the settings of `preset`, which the keys of a document
//! replace or, for lists of conditions, extend. RFC 9111 holds where no key says otherwise.

mod keys;
pub(crate) mod presets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use howdah_template::{Part, Patterns, Subject, Template, Variable};
use howdah_text::token::is_token;

use crate::address_pattern::AddressPatterns;
use crate::error::Error;
use crate::matching::Match;
use crate::node::{Node, Object, quoted};
use crate::patterns;
use crate::suggest::nearest;
use crate::templates;

pub(crate) use self::keys::CACHE;

/// The value of `cache`.
#[derive(Debug, Clone)]
pub enum CacheOption {
    /// `false`: responses are not stored, even if an earlier action has a cache.
    Off,
    /// Responses are stored.
    On(Arc<Cache>),
}

/// Settings of a cache for one action.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Name of the store. Actions with the same name share their entries.
    pub name: String,
    /// Memory of the store in bytes, if the action sets it.
    pub memory: Option<u64>,
    /// The file of the store, if the action names it.
    pub disk: Option<CacheDisk>,
    /// Maximum size of a stored body in bytes.
    pub max_object: u64,
    /// Template of the key of a stored response, instead of scheme, host, path and query.
    pub key: Option<Template>,
    /// GET requests are answered from the cache.
    pub get: bool,
    /// HEAD requests are answered from the cache.
    pub head: bool,
    /// Lifetimes in seconds of responses that state none, by status.
    pub ttl: BTreeMap<u16, u64>,
    /// Requests that the cache takes no part in: those that meet one of these conditions.
    pub bypass: Vec<Match>,
    /// If not empty: only responses to requests that meet one of these conditions are stored.
    pub store: Vec<Match>,
    /// Fields without effect.
    pub ignore: Ignored,
    /// Rules for request fields that `Vary` names; names in lower case.
    pub vary: Vec<(String, VaryRule)>,
    /// Seconds for which a stale response is used while it is being refreshed, if the response
    /// does not say.
    pub stale_while_revalidate: Option<u64>,
    /// Seconds for which a stale response is used if it cannot be refreshed, if the response does
    /// not say.
    pub stale_if_error: Option<u64>,
    /// Concurrent requests for the same response wait for the first.
    pub lock: bool,
    /// Maximum time of that wait.
    pub lock_timeout: Duration,
    /// Number of requests after which a response is stored.
    pub min_uses: u32,
    /// Stale responses that may be used are refreshed without a client waiting.
    pub background: bool,
    /// Clients that may send `PURGE` and `BAN`.
    pub purge: Option<AddressPatterns>,
    /// A response may be stored although no field states its lifetime, from its `Last-Modified`.
    pub heuristic: bool,
    /// Pages that ask for it are assembled from parts (ESI).
    pub esi: bool,
    /// Responses have the field `Cache-Status`.
    pub announce: bool,
}

/// Fields without effect on the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    /// `Cache-Control` and `Pragma` of requests.
    pub request: bool,
    /// `Cache-Control` of responses.
    pub cache_control: bool,
    /// `CDN-Cache-Control` and `Surrogate-Control` of responses.
    pub targeted: bool,
    /// `Expires` of responses.
    pub expires: bool,
    /// `Set-Cookie` of responses: they are stored without it.
    pub set_cookie: bool,
    /// `Vary` of responses.
    pub vary: bool,
}

/// The effect of a request field that `Vary` names.
#[derive(Debug, Clone)]
pub enum VaryRule {
    /// None: its value has no effect on responses.
    Ignored,
    /// The first of these values that the client accepts; the application sees only that.
    Accepted(Vec<String>),
    /// The name of the first class whose pattern accepts the value.
    Classes(Vec<(String, Patterns)>),
}

/// The file of a store, beside its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    /// Its directory.
    pub directory: PathBuf,
    /// Its maximum size in bytes.
    pub size: u64,
}

/// A store of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStore {
    /// Its name.
    pub name: String,
    /// Maximum memory of all entries in bytes.
    pub memory: u64,
    /// Largest `max_object` of its actions.
    pub max_object: u64,
    /// Its file.
    pub disk: Option<CacheDisk>,
}

impl CacheStore {
    /// Returns the path of its file.
    pub fn file(&self) -> Option<PathBuf> {
        self.disk.as_ref().map(|disk| disk.directory.join(format!("{}.cache", self.name)))
    }
}

/// Memory of a store in bytes, if no action sets it.
const DEFAULT_MEMORY: u64 = 64 << 20;

/// Size of the file of a store in bytes, if its action does not set it.
const DEFAULT_SIZE: u64 = 1 << 30;

/// Largest size of the file of a store in bytes.
const MAX_SIZE: u64 = 16 << 40;

/// Names of fields that can be ignored.
const IGNORABLE: [&str; 7] = [
    "cache-control",
    "cdn-cache-control",
    "expires",
    "request-cache-control",
    "set-cookie",
    "surrogate-control",
    "vary",
];

impl CacheOption {
    pub(crate) fn read(node: &Node<'_>) -> Result<CacheOption, Error> {
        match node.value {
            serde_json::Value::Bool(false) => Ok(CacheOption::Off),
            serde_json::Value::Object(_) => Ok(CacheOption::On(Arc::new(Cache::read(node)?))),
            _ => Err(node.wrong_type("an object, or false")),
        }
    }

    /// Returns the settings, unless caching is off.
    pub fn settings(&self) -> Option<&Arc<Cache>> {
        match self {
            CacheOption::Off => None,
            CacheOption::On(cache) => Some(cache),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Cache {
            name: "default".to_owned(),
            memory: None,
            disk: None,
            max_object: 1 << 20,
            key: None,
            get: true,
            head: true,
            ttl: BTreeMap::new(),
            bypass: Vec::new(),
            store: Vec::new(),
            ignore: Ignored::default(),
            vary: Vec::new(),
            stale_while_revalidate: None,
            stale_if_error: None,
            lock: true,
            lock_timeout: Duration::from_secs(5),
            min_uses: 1,
            background: true,
            purge: None,
            heuristic: true,
            esi: false,
            announce: true,
        }
    }
}

impl Cache {
    fn read(node: &Node<'_>) -> Result<Cache, Error> {
        let object = node.object(&CACHE)?;
        let base = object.read("preset", read_preset)?.unwrap_or_default();
        Cache::read_over(base, object)
    }

    /// Reads the keys of an object over the settings of a preset.
    fn read_over(mut cache: Cache, object: Object<'_>) -> Result<Cache, Error> {
        if let Some(name) = object.read("name", read_name)? {
            cache.name = name;
        }
        cache.memory = object.bytes("memory")?.or(cache.memory);
        cache.disk = read_disk(&object)?.or(cache.disk);
        let replace = |value: &mut bool, new: Option<bool>| *value = new.unwrap_or(*value);
        if let Some(size) = object.bytes("max_object")? {
            cache.max_object = size;
        }
        cache.key = object.read("key", templates::read)?.or(cache.key);
        if let Some((get, head)) = object.read("methods", read_methods)? {
            (cache.get, cache.head) = (get, head);
        }
        if let Some(ttl) = object.read("ttl", read_ttl)? {
            cache.ttl = ttl;
        }
        cache.bypass.extend(object.read("bypass", read_conditions)?.unwrap_or_default());
        cache.store.extend(object.read("store", read_conditions)?.unwrap_or_default());
        if let Some(ignore) = object.read("ignore", Ignored::read)? {
            cache.ignore = ignore;
        }
        if let Some(rules) = object.read("vary", read_vary)? {
            cache.vary.retain(|(name, _)| !rules.iter().any(|(other, _)| other == name));
            cache.vary.extend(rules);
        }
        let seconds = |key| Ok::<_, Error>(object.seconds(key)?.map(|time| time.as_secs()));
        cache.stale_while_revalidate =
            seconds("stale_while_revalidate")?.or(cache.stale_while_revalidate);
        cache.stale_if_error = seconds("stale_if_error")?.or(cache.stale_if_error);
        replace(&mut cache.lock, object.boolean("lock")?);
        if let Some(timeout) = object.seconds("lock_timeout")? {
            cache.lock_timeout = timeout;
        }
        if let Some(uses) = object.integer("min_uses")? {
            cache.min_uses = uses;
        }
        replace(&mut cache.background, object.boolean("background")?);
        replace(&mut cache.heuristic, object.boolean("heuristic")?);
        replace(&mut cache.esi, object.boolean("esi")?);
        replace(&mut cache.announce, object.boolean("announce")?);
        cache.purge = object.read("purge", AddressPatterns::read)?.or(cache.purge);
        object.end()?;
        Ok(cache)
    }

    /// Returns true if the settings distinguish requests by cookies: by the key, by a condition, or
    /// by a rule for `Vary`. Otherwise requests with cookies need a response that states its
    /// lifetime itself.
    pub fn considers_cookies(&self) -> bool {
        let is_cookie = |variable: &Variable| match variable {
            Variable::Cookie(_) => true,
            Variable::Header(name) => name == "cookie",
            _ => false,
        };
        let tells_apart = |conditions: &Match| {
            let condition = conditions.condition.as_ref();
            conditions.cookies.is_some()
                || condition.is_some_and(|condition| condition.leads_to(&is_cookie))
        };
        self.key.as_ref().is_some_and(|key| key.leads_to(&is_cookie))
            || self.bypass.iter().any(tells_apart)
            || self.store.iter().any(tells_apart)
    }

    /// Returns true if the key contains the field `Authorization`, so that answers to different
    /// users differ.
    pub fn considers_authorization(&self) -> bool {
        let parts = self.key.as_ref().map_or(&[][..], Template::parts);
        // The value of a defined variable may be the same for several users.
        parts.iter().any(|part| {
            matches!(part, Part::Variable(Variable::Header(name)) if name == "authorization")
        })
    }
}

/// A key of a cache that differs from that of an earlier one with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Index of the cache.
    pub index: usize,
    /// The key.
    pub key: &'static str,
}

/// Returns the stores of these caches, each once.
pub(crate) fn stores<'c>(
    caches: impl Iterator<Item = &'c Cache>,
) -> Result<Vec<CacheStore>, Difference> {
    let mut found: Vec<(Option<u64>, CacheStore)> = Vec::new();
    for (index, cache) in caches.enumerate() {
        let known = found.iter_mut().find(|(_, store)| store.name == cache.name);
        match known {
            None => {
                let memory = cache.memory.unwrap_or(DEFAULT_MEMORY);
                let (name, max_object) = (cache.name.clone(), cache.max_object);
                let disk = cache.disk.clone();
                found.push((cache.memory, CacheStore { name, memory, max_object, disk }));
            }
            Some((memory, store)) => {
                store.max_object = store.max_object.max(cache.max_object);
                match (*memory, cache.memory) {
                    (Some(first), Some(other)) if first != other => {
                        return Err(Difference { index, key: "memory" });
                    }
                    (None, Some(other)) => (*memory, store.memory) = (Some(other), other),
                    _ => {}
                }
                match (&store.disk, &cache.disk) {
                    (Some(first), Some(other)) if first.directory != other.directory => {
                        return Err(Difference { index, key: "path" });
                    }
                    (Some(first), Some(other)) if first.size != other.size => {
                        return Err(Difference { index, key: "size" });
                    }
                    (None, Some(_)) => store.disk.clone_from(&cache.disk),
                    _ => {}
                }
            }
        }
    }
    Ok(found.into_iter().map(|(_, store)| store).collect())
}

impl Ignored {
    fn read(node: &Node<'_>) -> Result<Ignored, Error> {
        let mut ignored = Ignored::default();
        for name in node.strings()? {
            match name.string()?.to_ascii_lowercase().as_str() {
                "cache-control" => ignored.cache_control = true,
                "cdn-cache-control" | "surrogate-control" => ignored.targeted = true,
                "expires" => ignored.expires = true,
                "request-cache-control" => ignored.request = true,
                "set-cookie" => ignored.set_cookie = true,
                "vary" => ignored.vary = true,
                _ => {
                    let message = format_args!("must be one of {}", quoted(&IGNORABLE));
                    return Err(name.invalid(message));
                }
            }
        }
        Ok(ignored)
    }
}

/// Reads the name of a preset and returns its settings.
fn read_preset(node: &Node<'_>) -> Result<Cache, Error> {
    let name = node.string()?;
    let Some(document) = presets::document(name) else {
        let error = node.invalid(format_args!("must be one of {}", quoted(&presets::NAMES)));
        return Err(match nearest(name, presets::NAMES) {
            Some(meant) => error.with_hint(format!("did you mean \"{meant}\"?")),
            None => error,
        });
    };
    let root = Node::root(&document, node.scope);
    Cache::read_over(Cache::default(), root.object(&CACHE)?)
}

/// Reads the file of a store.
fn read_disk(object: &Object<'_>) -> Result<Option<CacheDisk>, Error> {
    let directory = object.read("path", |node| node.directory(node.text()?))?;
    let size = object.bytes("size")?;
    if let Some(node) = object.optional("size") {
        if directory.is_none() {
            return Err(node.invalid("needs \"path\", the directory of the file"));
        }
        if size.is_some_and(|size| size > MAX_SIZE) {
            return Err(node.invalid(format_args!("must be at most {MAX_SIZE}")));
        }
    }
    Ok(directory.map(|directory| CacheDisk { directory, size: size.unwrap_or(DEFAULT_SIZE) }))
}

fn read_name(node: &Node<'_>) -> Result<String, Error> {
    let name = node.text()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.len() <= 64 && name.bytes().all(is_plain) {
        Ok(name.to_owned())
    } else {
        Err(node.invalid("must have at most 64 letters, digits, \"-\", \"_\" and \".\""))
    }
}

fn read_methods(node: &Node<'_>) -> Result<(bool, bool), Error> {
    let (mut get, mut head) = (false, false);
    for method in node.strings()? {
        match method.string()? {
            "GET" => get = true,
            "HEAD" => head = true,
            _ => {
                let hint = "other methods may change something or have a body, which is no part \
                            of the key";
                return Err(method.invalid("must be \"GET\" or \"HEAD\"").with_hint(hint));
            }
        }
    }
    Ok((get, head))
}

fn read_ttl(node: &Node<'_>) -> Result<BTreeMap<u16, u64>, Error> {
    let mut ttl = BTreeMap::new();
    if !node.value.is_object() {
        return Err(node.wrong_type("an object").with_hint("write {\"200\": 600} for 10 minutes"));
    }
    for (status, seconds) in node.members()? {
        let number = status.parse::<u16>().ok().filter(|number| (200..600).contains(number));
        let number = number.filter(|number| status.len() == 3 && !matches!(number, 206 | 304));
        let Some(number) = number else {
            let message = "must be a status from 200 to 599, other than 206 and 304";
            return Err(seconds.invalid(message));
        };
        ttl.insert(number, seconds.seconds(0)?.as_secs());
    }
    Ok(ttl)
}

/// Reads a `match` object, or an array of them.
fn read_conditions(node: &Node<'_>) -> Result<Vec<Match>, Error> {
    if !node.value.is_object() && !node.value.is_array() {
        return Err(node.wrong_type("an object or an array of objects"));
    }
    node.one_or_many().map(|conditions| Match::read_for_cache(&conditions)).collect()
}

fn read_vary(node: &Node<'_>) -> Result<Vec<(String, VaryRule)>, Error> {
    let mut rules = Vec::new();
    for (name, rule) in node.members()? {
        if !is_token(name) {
            return Err(rule.invalid("must be the name of a header field"));
        }
        let value = match rule.value {
            serde_json::Value::Null => VaryRule::Ignored,
            serde_json::Value::Array(_) => {
                let values = rule.elements()?.map(|value| {
                    let text = value.string()?;
                    if is_token(text) {
                        Ok(text.to_ascii_lowercase())
                    } else {
                        Err(value.invalid("must be a coding or a language, such as \"br\""))
                    }
                });
                VaryRule::Accepted(values.collect::<Result<_, _>>()?)
            }
            serde_json::Value::Object(_) => {
                let classes = rule.members()?.map(|(class, patterns)| {
                    Ok((class.to_owned(), patterns::read(&patterns, Subject::Header)?))
                });
                VaryRule::Classes(classes.collect::<Result<_, Error>>()?)
            }
            _ => {
                return Err(rule.wrong_type(
                    "an array of values, an object of classes with patterns, or null",
                ));
            }
        };
        rules.push((name.to_ascii_lowercase(), value));
    }
    Ok(rules)
}

#[cfg(test)]
mod tests;
