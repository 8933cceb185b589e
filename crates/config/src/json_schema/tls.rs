//! Objects of `tls` of listeners.

use super::shape::Kind::{Array, Either, Integer, Named, Switch, Text, Texts, Word};
use super::shape::{Key, Kind, SECONDS, Shape};

/// `challenges` of `acme`.
const CHALLENGES: Kind = Word(&["http", "tls-alpn", "dns"]);

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
                "Names of stored certificates, or their files; the first is the default",
            ),
            Key(
                "acme",
                Either(&[Kind::Shape("acme"), Array(&Kind::Shape("acme"))]),
                "Certificates that the server obtains and renews by itself (ACME)",
            ),
            Key(
                "conf_commands",
                Named(&Text),
                "Versions and ciphers, as OpenSSL's configuration commands",
            ),
            Key("session", Kind::Shape("session"), "Session resumption"),
            Key(
                "client_certificates",
                Either(&[
                    Kind::Shape("client_certificates"),
                    Array(&Kind::Shape("client_certificates")),
                ]),
                "Client certificates",
            ),
            Key(
                "refuse_unknown_names",
                Switch,
                "Whether clients are refused that request no name of a certificate",
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
            Key("email", Text, "Contact address for the authority"),
            Key(
                "servers",
                Either(&[
                    Texts,
                    Kind::Shape("acme_server"),
                    Array(&Either(&[Text, Kind::Shape("acme_server")])),
                ]),
                "URLs of the authorities' directories, tried in order",
            ),
            Key(
                "challenges",
                Either(&[CHALLENGES, Array(&CHALLENGES)]),
                "Challenges in order of preference",
            ),
            Key("dns", Kind::Shape("acme_dns"), "The program that changes DNS records"),
            Key("key", Word(&["ecdsa", "rsa"]), "The kind of key"),
            Key("profile", Text, "The authority's certificate profile"),
            Key(
                "on_demand",
                Kind::Shape("acme_on_demand"),
                "Certificates for names that clients request",
            ),
        ],
    },
    Shape {
        name: "acme_server",
        required: &["directory"],
        keys: &[
            Key("directory", Text, "The URL of the directory"),
            Key("ca", Text, "File with the authorities of the server's TLS certificate (PEM)"),
            Key(
                "external_account",
                Kind::Shape("acme_external_account"),
                "External account binding",
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
            Key("wait", SECONDS, "Seconds until a new record is visible everywhere"),
            Key("timeout", SECONDS, "Maximum run time of the program in seconds"),
        ],
    },
    Shape {
        name: "acme_on_demand",
        required: &["ask"],
        keys: &[
            Key("ask", Text, "URL that responds with 200 for names that may have a certificate"),
            Key("max", Integer(1, 100_000), "Maximum number of names"),
        ],
    },
    Shape {
        name: "session",
        required: &[],
        keys: &[
            Key("cache_size", Integer(0, 1_000_000), "Number of sessions in the server's cache"),
            Key("timeout", SECONDS, "Seconds for which a session can be resumed"),
            Key(
                "tickets",
                Either(&[Switch, Texts]),
                "Session tickets: true or false, or keys of 48 or 80 bytes in base64",
            ),
        ],
    },
    Shape {
        name: "client_certificates",
        required: &["authorities"],
        keys: &[
            Key("authorities", Text, "File with the authorities' certificates (PEM)"),
            Key("revoked", Text, "File with the authorities' lists of revoked certificates (PEM)"),
            Key("optional", Switch, "Whether clients without a certificate are accepted"),
            Key("names", Texts, "Requested server names that the rule is for; all by default"),
        ],
    },
];
