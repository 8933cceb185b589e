//! The keys of `cache`.

use super::presets;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::matching::MATCH;

/// Conditions, one of which must hold.
const CONDITIONS: Kind = Kind::OneOrMany(&Kind::Object(&MATCH));

/// `cache` of an action.
pub(crate) static CACHE: Shape = Shape {
    name: "cache",
    parts: &[&[
        Key::new(
            "preset",
            Kind::Word(&presets::NAMES),
            "Settings for an application, which other keys replace or add to",
        )
        .default("none")
        .details("`bypass` and `store` add to those of the preset, other keys replace them"),
        Key::new(
            "name",
            Kind::Text,
            "Name of the store; actions with the same name share entries and memory",
        )
        .default("\"default\""),
        Key::new("memory", Kind::Bytes(1 << 20), "Memory of the store in bytes")
            .default("67108864")
            .details("Actions with the same `name` must not differ. A new value empties the store"),
        Key::new("path", Kind::Text, "Directory of the disk store").default("none").details(
            "A [file](../cache.md#disk) there has the responses for which the memory has no room, \
             also after a restart. It must belong to root, or to the user that starts the server, \
             and no other user may write to it. Actions with the same `name` must not differ",
        ),
        Key::new("size", Kind::Bytes(16 << 20), "Maximum size of the disk store in bytes")
            .default("1073741824")
            .details("A new value empties it"),
        Key::new("max_object", Kind::Bytes(1), "Maximum size of a stored body in bytes")
            .default("1048576"),
        Key::new("key", Kind::Text, "Template of the cache key")
            .default("scheme, host, target and the client's certificate")
            .details(
                "Its [variables](variables.md) tell responses apart. The application, a path \
                 changed by routes, and fields that override the URL always do",
            ),
        Key::new("methods", Kind::Texts, "Methods that are answered from the cache: `GET`, `HEAD`")
            .default("[\"GET\", \"HEAD\"]")
            .details("Only responses to `GET` are stored"),
        Key::new(
            "ttl",
            Kind::Named(&Kind::Seconds(0)),
            "Lifetimes in seconds by status, for responses that state none",
        )
        .default("{}")
        .details("`{ \"200\": 600, \"404\": 60 }`"),
        Key::new(
            "bypass",
            CONDITIONS,
            "Conditions; requests that meet one of them bypass the cache",
        )
        .default("none")
        .details(
            "See [Match](routes.md#match). Names of cookies may have a `*`, and are compared as \
             PHP reads them. `uri` is compared with the path that the client has sent and with \
             what a `rewrite` or `try` has made of it: it accepts a request of which it accepts \
             one path and excludes (`!`) none",
        ),
        Key::new(
            "store",
            CONDITIONS,
            "Conditions; only responses to requests that meet one of them are stored",
        )
        .default("all"),
        Key::new("ignore", Kind::Texts, "Fields without effect on the cache")
            .default("none")
            .details(
                "`cache-control`, `expires`, `vary`, `set-cookie`, `cdn-cache-control` and \
                 `surrogate-control` of responses, `request-cache-control` for `Cache-Control` \
                 and `Pragma` of requests",
            ),
        Key::new(
            "vary",
            Kind::Named(&Kind::Either(&[
                Kind::Array(&Kind::Text),
                Kind::Null,
                Kind::Named(&Kind::Texts),
            ])),
            "Values or classes of request fields that `Vary` names; `null` to ignore the field",
        )
        .default("{}")
        .details(
            "An array of values of which the first accepted one counts, or an object of classes \
             with [patterns](routes.md#patterns)",
        ),
        Key::new(
            "stale_while_revalidate",
            Kind::Seconds(0),
            "Seconds for which a stale response is sent while it is being refreshed",
        )
        .default("that of the response"),
        Key::new(
            "stale_if_error",
            Kind::Seconds(0),
            "Seconds for which a stale response is sent if it cannot be refreshed",
        )
        .default("that of the response"),
        Key::switch(
            "background",
            true,
            "Refreshes stale responses without a client; otherwise the first client that asks \
             waits for it",
        ),
        Key::switch(
            "lock",
            true,
            "Lets concurrent requests for one response wait for the first of them",
        ),
        Key::new("lock_timeout", Kind::Seconds(1), "Maximum seconds of that wait").default("5"),
        Key::new(
            "min_uses",
            Kind::Integer(1, COUNT),
            "Number of requests after which a response is stored",
        )
        .default("1"),
        Key::switch("heuristic", true, "Derives lifetimes from `Last-Modified`").details(
            "A response that has no other field is fresh for a tenth of its age, up to an hour",
        ),
        Key::switch("esi", false, "Assembles pages from parts (ESI) if they ask for it").details(
            "By `Surrogate-Control: content=\"ESI/1.0\"`, see [Parts of \
             pages](../cache.md#parts-of-pages-esi)",
        ),
        Key::switch(
            "announce",
            true,
            "Sends the field `Cache-Status`, which tells how the cache has handled the request",
        )
        .details("See [Cache-Status](../cache.md#why-was-this-page-not-cached)"),
        Key::new("purge", Kind::Texts, "Addresses of clients that may send `PURGE` and `BAN`")
            .default("no client")
            .details(
                "[Address patterns](routes.md#address-patterns); other clients get 403. Without \
                 the key, the application gets these methods",
            ),
    ]],
};
