//! `tls` of listeners.

use super::Kind::{Array, Either, Integer, Named, Switch, Text, Texts};
use super::{Key, Kind, SECONDS, Shape};

pub(super) const TABLE: &[Shape] = &[
    Shape {
        name: "tls",
        required: &["certificate"],
        keys: &[
            Key(
                "certificate",
                Either(&[
                    Texts,
                    Kind::Shape("certificate"),
                    Array(&Either(&[Text, Kind::Shape("certificate")])),
                ]),
                "Names of stored certificates, or their files; the first is for unknown names",
                None,
            ),
            Key(
                "conf_commands",
                Named(&Text),
                "Versions and ciphers, as OpenSSL's configuration commands",
                None,
            ),
            Key("session", Kind::Shape("session"), "How clients come back faster", None),
            Key(
                "client_certificates",
                Either(&[
                    Kind::Shape("client_certificates"),
                    Array(&Kind::Shape("client_certificates")),
                ]),
                "Certificates that clients must show",
                None,
            ),
        ],
    },
    Shape {
        name: "certificate",
        required: &["chain", "key"],
        keys: &[
            Key("chain", Text, "File with the certificate and those of its issuers (PEM)", None),
            Key("key", Text, "File with the private key (PEM)", None),
            Key("ocsp", Text, "File with an OCSP response (DER)", None),
        ],
    },
    Shape {
        name: "session",
        required: &[],
        keys: &[
            Key("cache_size", Integer(0, 1_000_000), "Sessions that the server remembers", None),
            Key("timeout", SECONDS, "Seconds that a session can be taken up again", None),
            Key(
                "tickets",
                Either(&[Switch, Texts]),
                "Sessions that clients remember: on, or keys of 48 or 80 bytes in base64",
                None,
            ),
        ],
    },
    Shape {
        name: "client_certificates",
        required: &["authorities"],
        keys: &[
            Key("authorities", Text, "File with those who may issue them (PEM)", None),
            Key("optional", Switch, "Whether clients without one are served", None),
            Key("names", Texts, "Host names that this is for; all if not given", None),
        ],
    },
];
