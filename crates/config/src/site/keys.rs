//! Keys of a site.

use crate::access::BASIC_AUTH;
use crate::access_log::LOGS;
use crate::cache::CACHE;
use crate::environment::VARIABLE_SOURCE;
use crate::jobs::JOB;
use crate::key::{COUNT, Key, Kind, Shape};
use crate::limit::BANDWIDTH;
use crate::php::EXTENSIONS;
use crate::processes::PROCESSES;
use crate::response_headers;
use crate::route::STEP;
use crate::tls::{ACME_SERVERS, CHALLENGES, DNS};

/// A site.
pub(crate) static SITE: Shape = Shape { name: "site", parts: &[OWN, SHARED] };

/// `defaults` of a document.
pub(crate) static SITE_DEFAULTS: Shape =
    Shape { name: "site_defaults", parts: &[LISTENERS, SHARED] };

/// Keys of one site.
static OWN: &[Key] = &[
    Key::new("hosts", Kind::Texts, "Host names of the site, such as `\"shop.example\"`")
        .details("`*.shop.example` for all names below one, `*` for all that no other site has")
        .required(),
    Key::new("root", Kind::Text, "Directory of the site").details(
        "Absolute. The kind of site is [found](../configuration.md#zero-configuration) in it, as \
         by `howdah serve DIR`",
    )
    .required(),
    Key::new("user", Kind::Text, "User that PHP runs as").default("the server's own"),
    Key::new("group", Kind::Text, "Group that PHP runs as").default("the user's own"),
    Key::switch("enabled", true, "Serves the site").details(
        "With `false`, requests get a page for maintenance with 503 and `Retry-After`, and no \
         PHP runs",
    ),
    Key::new("canonical", Kind::Text, "The one of the `hosts` to which the others redirect")
        .default("none"),
    Key::new("public", Kind::Text, "Public directory, relative to the `root`")
        .default("found")
        .details("`\".\"` is the root itself"),
    Key::new(
        "front_controller",
        Kind::Either(&[Kind::Off, Kind::Text]),
        "Script in the public directory for requests that no file is for",
    )
    .default("found")
    .details("`false` for none: such requests get 404"),
    Key::new(
        "worker",
        Kind::Either(&[Kind::Switch, Kind::Text]),
        "Keeps the application in memory",
    )
    .default("false")
    .details(
        "See [Worker mode](../worker-mode.md). `true` for the worker script that is found, or \
         the path of one in the public directory",
    ),
    Key::switch(
        "releases",
        false,
        "Restarts the application when a symbolic link in `root` leads to another release",
    )
    .details("See [Releases](../releases.md). Not with `php.shared`"),
    Key::new("jobs", Kind::Named(&Kind::Object(&JOB)), "Commands that run beside the pages")
        .default("none")
        .details(
            "As [`jobs`](applications.md#jobs) of an application; they start in the `root`. Not \
             with `php.shared`",
        ),
    Key::new("auth", Kind::Object(&BASIC_AUTH), "User names and passwords for the whole site")
        .default("none")
        .details("As [`basic_auth`](actions.md#options-of-all-actions) of an action"),
    Key::new(
        "routes",
        Kind::Array(&Kind::Object(&STEP)),
        "Steps in front of those that serve what is found",
    )
    .default("none")
    .details("See [Routes](routes.md)"),
];

/// Keys of a site that `defaults` may have, too.
pub(super) static SHARED: &[Key] = &[
    Key::new(
        "https",
        Kind::Either(&[Kind::Word(&["auto"]), Kind::Off, Kind::Object(&HTTPS)]),
        "Encryption: certificates of an authority (ACME), files of a certificate, or `false`",
    )
    .default("\"auto\"")
    .details(
        "`\"auto\"` obtains certificates once there is an `email` for the authority in \
         `defaults`; until then the site has HTTP only. With HTTPS, requests without it are \
         redirected",
    ),
    Key::new("php", Kind::Object(&PHP), "PHP of the site").default("{}"),
    Key::new("limits", Kind::Object(&SITE_LIMITS), "Limits of the site").default("{}"),
    Key::new(
        "cache",
        Kind::Either(&[
            Kind::Switch,
            Kind::Word(&["drupal", "laravel", "mediawiki", "symfony", "wordpress"]),
            Kind::Object(&CACHE),
        ]),
        "Cache of responses: a preset, or an object",
    )
    .default("false")
    .details("As [`cache`](actions.md#cache) of an action"),
    Key::switch("htaccess", true, "Obeys `.htaccess` files, as Apache does")
        .details("See [`.htaccess`](../htaccess.md). Not with `worker`"),
    Key::new(
        "environment",
        Kind::Named(&Kind::Either(&[Kind::Text, Kind::Object(&VARIABLE_SOURCE)])),
        "Environment variables of PHP",
    )
    .default("{}")
    .details("As [`environment`](applications.md) of an application"),
    Key::new("logs", Kind::Object(&LOGS_OF_SITE), "Logs of the site").default("{}"),
    Key::new(
        "headers",
        Kind::Named(&response_headers::MEMBER),
        "Header fields of responses to set, or with `null` to remove",
    )
    .default("{}")
    .details("As [`response_headers`](actions.md#options-of-all-actions) of an action"),
];

/// Keys that only `defaults` has.
static LISTENERS: &[Key] = &[
    Key::new("listen", Kind::Texts, "Addresses for requests without encryption")
        .default("`[\"*:80\", \"[::]:80\"]`; without IPv6 the first"),
    Key::new("listen_https", Kind::Texts, "Addresses for requests with encryption")
        .default("`[\"*:443\", \"[::]:443\"]`; without IPv6 the first"),
];

/// `https` of a site.
pub(super) static HTTPS: Shape = Shape {
    name: "site_https",
    parts: &[&[
        Key::new("certificate", Kind::Text, "File with the certificate chain (PEM)")
            .default("none"),
        Key::new("key", Kind::Text, "File with the private key (PEM)")
            .default("that of `certificate`")
            .beside("certificate"),
        Key::new("email", Kind::Text, "Contact address for the authority").default("none"),
        Key::new("servers", ACME_SERVERS, "URLs of the authorities' directories, tried in order")
            .default("Let's Encrypt"),
        Key::new("challenges", CHALLENGES, "Types of challenges in order of preference")
            .default("as of [`acme`](../tls.md#certificates-by-themselves)"),
        Key::new("dns", Kind::Object(&DNS), "The program that changes DNS records").default("none"),
    ]],
};

/// `php` of a site.
pub(super) static PHP: Shape = Shape {
    name: "site_php",
    parts: &[&[
        Key::new("version", Kind::Text, "Version of PHP, such as `\"8.4\"`").default(
            "the newest that `require.php` of `composer.json` allows, else the newest installed",
        ),
        Key::new("ini", Kind::Named(&Kind::Text), "Settings of PHP that scripts cannot change")
            .default("{}"),
        Key::new(
            "processes",
            Kind::Either(&[
                Kind::Word(&["auto"]),
                Kind::Integer(1, COUNT),
                Kind::Object(&PROCESSES),
            ]),
            "Number of worker processes",
        )
        .default("\"auto\"")
        .details("As [`processes`](applications.md#processes) of an application"),
        EXTENSIONS,
        Key::switch(
            "shared",
            false,
            "Shares the processes and the OPcache of PHP with other sites",
        )
        .details(
            "With those of the same `user` and `root` that have it, too. See [Sites that share \
                 PHP](../sites.md#sites-that-share-php). Not with `worker`",
        ),
    ]],
};

/// `limits` of a site.
pub(super) static SITE_LIMITS: Shape = Shape {
    name: "site_limits",
    parts: &[&[
        Key::new("memory", SIZE, "Memory of all processes of the site, such as `\"512M\"`")
            .default("none"),
        Key::new("cpu", Kind::Number, "Processors of all processes of the site, such as `0.5`")
            .default("none"),
        Key::new("processes", Kind::Integer(1, COUNT), "Maximum number of processes of the site")
            .default("none")
            .details("With the programs that scripts start"),
        Key::new(
            "requests",
            Kind::Text,
            "Requests of each client, such as `\"20/s\"` or `\"300/m\"`",
        )
        .default("none")
        .details("More get 429. A second's worth, at least 20, may come at once"),
        Key::new("mail", Kind::Integer(1, COUNT), "Recipients of mail in an hour")
            .default("that of `smtp` of the settings"),
        Key::new(
            "bandwidth",
            Kind::Either(&[Kind::Bytes(1), Kind::Text, Kind::Object(&BANDWIDTH)]),
            "Bytes a second of all responses of the site together, such as `\"10M\"`",
        )
        .default("none"),
    ]],
};

/// A number of bytes, or a text such as `"512M"`.
const SIZE: Kind = Kind::Either(&[Kind::Bytes(1), Kind::Matching("^[0-9]+[KkMmGg]?$")]);

/// `logs` of a site.
pub(super) static LOGS_OF_SITE: Shape = Shape {
    name: "site_logs",
    parts: &[&[
        Key::new("access", LOGS, "Access log of the site")
            .default("that of the document")
            .details("See [Access log](access-log.md)"),
        Key::new("error", Kind::Text, "File for the log records about the site")
            .default("the server's log")
            .details("See [Log of a site](../operations.md#log-of-a-site)"),
    ]],
};
