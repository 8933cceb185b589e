//! `tls` of listeners.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::{Key, Kind, SECONDS, Shape};

/// `challenges` of `acme`.
const WAYS: Kind = Word(&["http", "tls-alpn", "dns"]);

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "tls",
        required: &[],
        keys: &[
            Key(
                "certificate",
                Either(&[
                    Texts,
                    Kind::Shape("certificate"),
                    Array(&Either(&[Text, Kind::Shape("certificate")])),
                ]),
                "Names of stored certificates, or their files; the first is for unknown names",
            ),
            Key(
                "acme",
                Either(&[Kind::Shape("acme"), Array(&Kind::Shape("acme"))]),
                "Certificates that the server gets and renews by itself",
            ),
            Key(
                "conf_commands",
                Named(&Text),
                "Versions and ciphers, as OpenSSL's configuration commands",
            ),
            Key("session", Kind::Shape("session"), "How clients come back faster"),
            Key(
                "client_certificates",
                Either(&[
                    Kind::Shape("client_certificates"),
                    Array(&Kind::Shape("client_certificates")),
                ]),
                "Certificates that clients must show",
            ),
        ],
    },
    Shape {
        name: "certificate",
        required: &["chain", "key"],
        keys: &[
            Key("chain", Text, "File with the certificate and those of its issuers (PEM)"),
            Key("key", Text, "File with the private key (PEM)"),
            Key("ocsp", Text, "File with an OCSP response (DER)"),
        ],
    },
    Shape {
        name: "acme",
        required: &[],
        keys: &[
            Key("domains", Texts, "The names of the certificate"),
            Key("email", Text, "Where the authority can reach somebody"),
            Key(
                "servers",
                Either(&[
                    Texts,
                    Kind::Shape("acme_server"),
                    Array(&Either(&[Text, Kind::Shape("acme_server")])),
                ]),
                "URLs of the authorities' directories; the next one if one fails",
            ),
            Key(
                "challenges",
                Either(&[WAYS, Array(&WAYS)]),
                "How names are proved, in order of preference",
            ),
            Key("dns", Kind::Shape("acme_dns"), "The program that changes DNS records"),
            Key("key", Word(&["ecdsa", "rsa"]), "The kind of key"),
            Key("profile", Text, "The authority's profile of certificates"),
            Key(
                "on_demand",
                Kind::Shape("acme_on_demand"),
                "Certificates for names that clients ask for",
            ),
        ],
    },
    Shape {
        name: "acme_server",
        required: &["directory"],
        keys: &[
            Key("directory", Text, "The URL of the directory"),
            Key("ca", Text, "File with those who issue the server's own certificate (PEM)"),
            Key(
                "external_account",
                Kind::Shape("acme_external_account"),
                "An account that the authority knows already",
            ),
        ],
    },
    Shape {
        name: "acme_external_account",
        required: &["id", "key"],
        keys: &[
            Key("id", Text, "The key's identifier"),
            Key("key", Text, "The key (HMAC), in base64"),
        ],
    },
    Shape {
        name: "acme_dns",
        required: &["program"],
        keys: &[
            Key("program", Text, "The program: present|cleanup RECORD VALUE"),
            Key("wait", SECONDS, "Seconds until everybody sees a record"),
            Key("timeout", SECONDS, "Seconds that the program may take"),
        ],
    },
    Shape {
        name: "acme_on_demand",
        required: &["ask"],
        keys: &[
            Key("ask", Text, "URL that says with 200 which names may have one"),
            Key("max", Integer(1, 100_000), "Maximum number of names"),
        ],
    },
    Shape {
        name: "session",
        required: &[],
        keys: &[
            Key("cache_size", Integer(0, 1_000_000), "Sessions that the server remembers"),
            Key("timeout", SECONDS, "Seconds that a session can be taken up again"),
            Key(
                "tickets",
                Either(&[Switch, Texts]),
                "Sessions that clients remember: on, or keys of 48 or 80 bytes in base64",
            ),
        ],
    },
    Shape {
        name: "client_certificates",
        required: &["authorities"],
        keys: &[
            Key("authorities", Text, "File with those who may issue them (PEM)"),
            Key("optional", Switch, "Whether clients without one are served"),
            Key("names", Texts, "Host names that this is for; all if not given"),
        ],
    },
];
