//! `limit` of a listener or action: how often, how many at once and how fast requests are served.

mod preset;

use std::time::Duration;

use howdah_template::{Part, Patterns, Subject, Template};
use serde_json::Value;

use crate::address_pattern::AddressPatterns;
use crate::error::{Error, ErrorKind};
use crate::key::{COUNT, Key, Kind, Shape};
use crate::matching::{MATCH, Match};
use crate::node::{Node, Object, Shown};
use crate::patterns;
use crate::templates;

/// Maximum of `keys`: about 600 MB.
const MAX_KEYS: i64 = 20_000_000;

/// A rule of `limit`.
pub(crate) static LIMIT: Shape = Shape {
    name: "limit",
    parts: &[&[
        Key::new(
            "preset",
            Kind::Word(&["login", "search", "api", "crawlers"]),
            "Keys for a common case, which the rule's own keys replace",
        )
        .default("none")
        .details("See [Presets](../limits.md#presets)"),
        Key::new(
            "match",
            Kind::Object(&MATCH),
            "Conditions of the requests that the rule is about",
        )
        .default("all requests")
        .details(
            "See [Match](routes.md#match). A `uri` is compared with the path after a `rewrite` \
             and with [the one that the client has sent](../limits.md#presets)",
        ),
        Key::new(
            "except",
            Kind::OneOrMany(&Kind::Either(&[Kind::Text, Kind::Object(&MATCH)])),
            "Client addresses, and conditions of requests, that the rule is not about",
        )
        .default("none")
        .details(
            "[Address pattern](routes.md#address-patterns), object as in `match`, or array of both",
        ),
        Key::new(
            "except_names",
            Kind::Texts,
            "Host names of clients that the rule is not about, confirmed by DNS, such as \
             `\"*.googlebot.com\"`",
        )
        .default("none")
        .details(
            "[Pattern](routes.md#patterns) or array of them. The name is that of the client's \
             address in DNS, if it leads to the address again. It is looked up only for requests \
             that the rule is about otherwise, and kept for a minute",
        ),
        Key::new("key", Kind::Text, "Text, with variables, that requests are counted by")
            .default("the client's address")
            .details(
                "See [Variables](variables.md). Requests with an empty text are not counted. The \
                 client's address, also as `$remote_addr` in a text, is the /64 network of an \
                 IPv6 address",
            ),
        Key::new("zone", Kind::Text, "Name of the counters, which rules of the same name share")
            .default("none")
            .details("These rules must have the same `key`, `penalty` and `keys`"),
        Key::new(
            "rate",
            Kind::Text,
            "Number of requests in a second, minute, hour or day, such as `\"10/s\"` or \
             `\"100/m\"`",
        )
        .default("none")
        .details("Without a `burst`, requests must be that far apart"),
        Key::new(
            "burst",
            Kind::Integer(0, COUNT),
            "Number of requests beyond the `rate` that are admitted",
        )
        .default("0"),
        Key::new(
            "delay",
            Kind::Either(&[Kind::Switch, Kind::Integer(0, COUNT)]),
            "Lets requests of the `burst` wait until they are no faster than the `rate`; a number \
             of them does not wait",
        )
        .default("false"),
        Key::new("concurrency", Kind::Integer(1, COUNT), "Maximum number of requests at once")
            .default("none")
            .details(
                "A request counts until its response has been sent. One of `rate`, `concurrency`, \
                 `processes`, `connections` and `bandwidth` is required",
            ),
        Key::new(
            "processes",
            Kind::Integer(1, COUNT),
            "Maximum number of requests at once that PHP processes run; others wait",
        )
        .default("none")
        .details("They wait in the queue of the application and are passed by"),
        Key::new(
            "connections",
            Kind::Integer(1, COUNT),
            "Maximum number of connections of a client at once; only in a listener",
        )
        .default("none")
        .details(
            "Further ones are closed. Behind `proxy_protocol` the client of its header counts",
        ),
        Key::new(
            "bandwidth",
            Kind::Either(&[Kind::Bytes(1), Kind::Object(&BANDWIDTH)]),
            "Bytes a second of all responses to a key together",
        )
        .default("none"),
        Key::new(
            "penalty",
            Kind::Object(&PENALTY),
            "Longer refusals for clients that continue after refusals",
        )
        .default("none")
        .details("See below"),
        Key::new(
            "keys",
            Kind::Integer(100, MAX_KEYS),
            "Maximum number of keys with a debt that are remembered",
        )
        .default("100000")
        .details("Each takes about 32 bytes"),
        Key::new("status", Kind::Integer(400, 599), "Status of refusals").default("429"),
        Key::switch(
            "shared",
            true,
            "Makes the `rate` that of all servers of the `cluster` together",
        )
        .details("If there is a [cluster](settings.md#cluster)"),
        Key::switch(
            "announce",
            false,
            "Sends the `RateLimit` fields with all responses, not only with refusals",
        )
        .details("`RateLimit` and `RateLimit-Policy`"),
        Key::switch("dry_run", false, "Counts refusals, and admits the requests"),
    ]],
};

/// `bandwidth` of a limit, `rate` of an action.
pub(crate) static BANDWIDTH: Shape = Shape {
    name: "bandwidth",
    parts: &[&[
        Key::new("rate", Kind::Bytes(1), "Bytes a second").required(),
        Key::new("after", Kind::Bytes(0), "Bytes that are sent first at full speed")
            .default("0")
            .details("In a limit, they come back at the rate"),
    ]],
};

/// `penalty` of a limit.
static PENALTY: Shape = Shape {
    name: "penalty",
    parts: &[&[
        Key::new(
            "after",
            Kind::Integer(1, COUNT),
            "Number of refusals after which all requests of the key are refused for a time",
        )
        .default("20"),
        Key::new("time", Kind::Seconds(1), "Seconds of that time")
            .default("60")
            .details("After as many refusals more, the next one begins, twice as long"),
        Key::new("max_time", Kind::Seconds(1), "Maximum seconds of that time")
            .default("3600, or `time` if that is longer"),
        Key::new(
            "close_after",
            Kind::Integer(1, COUNT),
            "Number of refusals from which connections are closed without a response",
        )
        .default("none"),
    ]],
};

/// A rule that limits requests.
#[derive(Debug, Clone)]
pub struct LimitRule {
    /// Name of the counters, which rules with this name share; `None` if no other rule has them.
    pub zone: Option<String>,
    /// Path of the rule in the document.
    pub place: String,
    /// Conditions for requests that the rule is about.
    pub conditions: Match,
    /// Requests that it is not about.
    pub except: LimitExceptions,
    /// The key that requests are counted by; `None` for the client's address (the /64 of an IPv6
    /// address).
    pub key: Option<Template>,
    /// Requests in a time.
    pub rate: Option<LimitRate>,
    /// Requests at once.
    pub concurrency: Option<u32>,
    /// Requests at once that PHP processes run; further ones wait.
    pub processes: Option<u32>,
    /// Connections at once; only of listeners, by the client's address.
    pub connections: Option<u32>,
    /// Bytes of responses in a time.
    pub bandwidth: Option<LimitBandwidth>,
    /// Maximum number of keys that are kept.
    pub keys: u32,
    /// Penalties for clients that continue after refusals.
    pub penalty: Option<LimitPenalty>,
    /// Status of refusals.
    pub status: u16,
    /// True if the rate is that of all servers of the cluster together, if there is one.
    pub shared: bool,
    /// True if all responses tell the client the rest of its rate.
    pub announce: bool,
    /// True if refusals are counted and not carried out.
    pub dry_run: bool,
}

/// Requests that a rule is not about.
#[derive(Debug, Clone, Default)]
pub struct LimitExceptions {
    /// Client addresses; none if empty.
    pub addresses: AddressPatterns,
    /// Conditions, one of which must hold.
    pub conditions: Vec<Match>,
    /// Host names of clients (`except_names`) that lead to the client's address and back.
    pub names: Option<Patterns>,
}

/// Requests in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRate {
    /// Number of requests, at least 1.
    pub requests: u32,
    /// The time.
    pub period: Duration,
    /// Requests beyond the rate that are admitted.
    pub burst: u32,
    /// Number of requests of the burst that do not wait; `None` if none waits.
    pub undelayed: Option<u32>,
}

/// Bytes of responses in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBandwidth {
    /// Bytes a second.
    pub rate: u64,
    /// Bytes that are sent without a limit; they come back at the rate.
    pub after: u64,
}

/// Penalties for clients that continue after refusals. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPenalty {
    /// Number of refusals after which a client is blocked.
    pub after: u32,
    /// Time of the first block; each further one takes twice as long.
    pub time: u64,
    /// Maximum time of a block.
    pub max_time: u64,
    /// Number of refusals from which connections are closed without a response.
    pub close_after: Option<u32>,
}

/// Keys of which a rule has at least one.
const LIMITS: [&str; 5] = ["rate", "concurrency", "processes", "connections", "bandwidth"];

impl LimitRule {
    /// Reads `limit`: a rule, or an array of rules.
    pub(crate) fn read_all(node: &Node<'_>) -> Result<Vec<LimitRule>, Error> {
        node.one_or_many().map(|rule| LimitRule::read(&rule, false)).collect()
    }

    /// Reads `limit` of a listener.
    pub(crate) fn read_of_listener(node: &Node<'_>) -> Result<Vec<LimitRule>, Error> {
        node.one_or_many().map(|rule| LimitRule::read(&rule, true)).collect()
    }

    fn read(node: &Node<'_>, is_of_listener: bool) -> Result<LimitRule, Error> {
        let merged: Value;
        let node = match preset::merge(node)? {
            Some(value) => {
                merged = value;
                &node.with_value(&merged)
            }
            None => node,
        };
        let object = node.object(&LIMIT)?;
        let rule = LimitRule {
            zone: object.read("zone", read_zone)?,
            place: node.place(),
            conditions: object.read("match", Match::read)?.unwrap_or_default(),
            except: LimitExceptions {
                names: object.read("except_names", |names| patterns::read(names, Subject::Host))?,
                ..object.read("except", LimitExceptions::read)?.unwrap_or_default()
            },
            key: object.read("key", read_key)?,
            rate: LimitRate::read(&object)?,
            concurrency: object.integer("concurrency")?,
            processes: object.integer("processes")?,
            connections: object.integer("connections")?,
            bandwidth: object.read("bandwidth", LimitBandwidth::read)?,
            keys: object.integer_or_default("keys")?,
            penalty: object.read("penalty", LimitPenalty::read)?,
            status: object.integer_or_default("status")?,
            shared: object.switch("shared")?,
            announce: object.switch("announce")?,
            dry_run: object.switch("dry_run")?,
        };
        let counts = [rule.concurrency, rule.processes, rule.connections];
        if rule.rate.is_none() && rule.bandwidth.is_none() && counts.iter().all(Option::is_none) {
            return Err(object.missing(&LIMITS));
        }
        if let Some(connections) = object.optional("connections") {
            rule.check_connections(&connections, &object, is_of_listener)?;
        }
        if rule.rate.is_none() && rule.penalty.is_some() {
            return Err(node.invalid("has \"penalty\", which must be with \"rate\""));
        }
        if let (None, true, Some(shared)) = (rule.rate, rule.shared, object.optional("shared")) {
            let hint = "only rates are counted for all servers of a cluster together";
            return Err(shared.invalid("must be with \"rate\"").with_hint(hint));
        }
        object.end()?;
        Ok(rule)
    }

    /// Checks that `connections` can be counted: before there is a request.
    fn check_connections(
        &self,
        node: &Node<'_>,
        object: &Object<'_>,
        is_of_listener: bool,
    ) -> Result<(), Error> {
        if !is_of_listener {
            return Err(node.invalid("must be in the \"limit\" of a listener"));
        }
        for key in ["match", "key", "except_names"] {
            if let Some(node) = object.optional(key) {
                let hint = "make it two rules";
                return Err(node.invalid("must not be with \"connections\"").with_hint(hint));
            }
        }
        if self.except.conditions.is_empty() {
            Ok(())
        } else {
            Err(node.invalid(
                "must be with \
            addresses in \"except\" only",
            ))
        }
    }

    /// Returns the name of the counters for people: the name of the zone, or the path of the rule.
    pub fn name(&self) -> &str {
        self.zone.as_deref().unwrap_or(&self.place)
    }

    /// Checks that rules of one zone count alike.
    pub(crate) fn check_zones<'a>(rules: impl Iterator<Item = &'a LimitRule>) -> Result<(), Error> {
        let mut known = std::collections::HashMap::<&str, &LimitRule>::new();
        for rule in rules {
            let Some(zone) = rule.zone.as_deref() else { continue };
            let first = *known.entry(zone).or_insert(rule);
            let different = [
                ("key", first.key != rule.key),
                ("penalty", first.penalty != rule.penalty),
                ("keys", first.keys != rule.keys),
            ];
            if let Some((key, _)) = different.into_iter().find(|(_, differs)| *differs) {
                let message = format!(
                    "\"{key}\" is not that of {}, which has the same zone \"{}\"",
                    first.place,
                    Shown(zone)
                );
                let error = Error::new(ErrorKind::InvalidValue, rule.place.clone(), message);
                return Err(error.with_hint("make them the same, or use two zones"));
            }
        }
        Ok(())
    }
}

impl LimitExceptions {
    /// Reads address patterns and conditions, one or an array.
    fn read(node: &Node<'_>) -> Result<LimitExceptions, Error> {
        let mut exceptions = LimitExceptions::default();
        for element in node.one_or_many() {
            if element.value.is_object() {
                exceptions.conditions.push(Match::read(&element)?);
            } else if element.value.is_string() {
                exceptions.addresses.add(&element)?;
            } else {
                return Err(element.wrong_type("an address pattern or an object like \"match\""));
            }
        }
        Ok(exceptions)
    }
}

impl LimitRate {
    fn read(object: &Object<'_>) -> Result<Option<LimitRate>, Error> {
        let rate = object.read("rate", read_rate)?;
        let burst = object.integer("burst")?;
        let undelayed = object.read("delay", read_delay)?;
        let Some((requests, period)) = rate else {
            for key in ["burst", "delay"] {
                if let Some(node) = object.optional(key) {
                    return Err(node.invalid("must be with \"rate\""));
                }
            }
            return Ok(None);
        };
        let (burst, undelayed) = (burst.unwrap_or(0), undelayed.flatten());
        if let (Some(_), 0, Some(node)) = (undelayed, burst, object.optional("delay")) {
            return Err(node.invalid("must be with a \"burst\", whose requests wait"));
        }
        Ok(Some(LimitRate { requests, period, burst, undelayed }))
    }
}

/// Reads a number of requests and a unit of time, such as `10/s`.
pub(crate) fn read_rate(node: &Node<'_>) -> Result<(u32, Duration), Error> {
    /// Maximum number of requests a second: their interval is exact to one in a thousand.
    const MAX_PER_SECOND: u64 = 1_000_000;
    let text = node.string()?;
    let (number, unit) = text.split_once('/').unwrap_or((text, ""));
    // nginx writes 10r/s.
    let (digits, is_nginx) = match number.strip_suffix('r') {
        Some(digits) => (digits, true),
        None => (number, false),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let requests = digits.parse::<u32>().ok().filter(|_| is_number);
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        "d" => Some(86_400),
        _ => None,
    };
    let (Some(requests), Some(seconds), false) = (requests, seconds, is_nginx) else {
        let error = node.invalid("must be a number of requests and a unit of time (s, m, h or d)");
        return Err(error.with_hint(match (requests, seconds) {
            (Some(requests), Some(_)) => format!("write \"{requests}/{unit}\""),
            _ => "write \"10/s\" or \"100/m\"".to_owned(),
        }));
    };
    if requests == 0 {
        return Err(node.invalid("must be at least 1").with_hint("\"deny\" refuses all requests"));
    }
    if u64::from(requests) > MAX_PER_SECOND * seconds {
        return Err(node.invalid(format_args!("must be at most {MAX_PER_SECOND}/s")));
    }
    Ok((requests, Duration::from_secs(seconds)))
}

/// Reads true, false, or a number of requests of the burst that do not wait.
fn read_delay(node: &Node<'_>) -> Result<Option<u32>, Error> {
    match node.value.as_bool() {
        Some(delay) => Ok(delay.then_some(0)),
        None if node.value.is_number() => node.count(0).map(Some),
        None => Err(node.wrong_type("true, false, or the number of requests that do not wait")),
    }
}

impl LimitBandwidth {
    /// Reads bytes a second, or an object.
    pub(crate) fn read(node: &Node<'_>) -> Result<LimitBandwidth, Error> {
        if !node.value.is_object() {
            return Ok(LimitBandwidth { rate: node.size(1)?, after: 0 });
        }
        let object = node.object(&BANDWIDTH)?;
        let rate = object.required("rate")?.size(1)?;
        let after = object.bytes("after")?.unwrap_or(0);
        object.end()?;
        Ok(LimitBandwidth { rate, after })
    }
}

impl LimitPenalty {
    fn read(node: &Node<'_>) -> Result<LimitPenalty, Error> {
        let object = node.object(&PENALTY)?;
        let seconds = |key, default: u64| {
            let read = object.seconds(key)?;
            Ok::<_, Error>(read.map_or(default, |time| time.as_secs()))
        };
        let time = seconds("time", 60)?;
        let penalty = LimitPenalty {
            after: object.integer_or_default("after")?,
            time,
            max_time: seconds("max_time", time.max(3600))?,
            close_after: object.integer("close_after")?,
        };
        if let (true, Some(node)) = (penalty.max_time < time, object.optional("max_time")) {
            return Err(node.invalid(format_args!("must be at least \"time\", which is {time}")));
        }
        object.end()?;
        Ok(penalty)
    }
}

/// Reads a name, which clients see in the `RateLimit` fields.
fn read_zone(node: &Node<'_>) -> Result<String, Error> {
    let text = node.text()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.bytes().all(fits) && text.len() <= 64 {
        Ok(text.to_owned())
    } else {
        Err(node.invalid("must be a name of letters, digits, \"-\", \"_\" and \".\""))
    }
}

/// Reads a template whose text is known before the response.
pub(crate) fn read_key(node: &Node<'_>) -> Result<Template, Error> {
    node.text()?;
    let template = templates::read(node)?;
    let is_of_response =
        |part: &Part| matches!(part, Part::Variable(variable) if variable.is_of_response());
    if template.parts().iter().any(is_of_response) {
        Err(node.invalid("must not have variables of the response, which is not known yet"))
    } else {
        Ok(template)
    }
}
