//! Settings of the whole server.

use serde_json::{Map, Value};

use crate::Status;

use super::document::Writer;
use super::scope::mark;
use super::tree::Node;

impl Writer<'_, '_> {
    /// Reads the settings of the whole server.
    pub(super) fn settings(&mut self) {
        let mut http = Map::new();
        for node in self.common.server.clone() {
            let number = node.first().parse::<u64>().ok();
            match node.name.as_str() {
                "servertokens" => {
                    if node.first().to_ascii_lowercase().starts_with("prod") {
                        http.insert("server_version".into(), false.into());
                        self.converted(node);
                    } else {
                        mark(
                            self.report,
                            node,
                            Status::NotNeeded,
                            "the field Server has the name and the version of Howdah",
                        );
                    }
                }
                "timeout" => match number.filter(|seconds| (1..2_000_000).contains(seconds)) {
                    Some(seconds) => {
                        http.insert("body_read_timeout".into(), seconds.into());
                        http.insert("send_timeout".into(), seconds.into());
                        self.converted(node);
                    }
                    None => mark(
                        self.report,
                        node,
                        Status::NotConverted,
                        "it takes a number of seconds",
                    ),
                },
                "limitrequestfields" => {
                    let number = number.filter(|number| *number <= 1000);
                    if let Some(number) = number {
                        http.insert(
                            "max_header_fields".into(),
                            if number == 0 { 1000 } else { number }.into(),
                        );
                    }
                    mark(
                        self.report,
                        node,
                        Status::Changed,
                        "requests with more fields get 431, not 400",
                    );
                }
                "limitrequestfieldsize" | "limitrequestline" => {
                    if let Some(number) = number.filter(|number| (1..=1 << 20).contains(number)) {
                        let known = http.get("large_header_buffer_size").and_then(Value::as_u64);
                        let size = known.map_or(number, |known| known.max(number));
                        http.insert("large_header_buffer_size".into(), size.into());
                    }
                    mark(
                        self.report,
                        node,
                        Status::Changed,
                        "the line and each field have one limit, the larger one; fields beyond it get 431, not 400",
                    );
                }
                "user" | "group" => {
                    if node.first().starts_with('#') {
                        mark(
                            self.report,
                            node,
                            Status::Changed,
                            "numbers are no names: PHP runs as the server's own user",
                        );
                    } else if self.common.has_mod_php {
                        self.converted(node);
                    } else {
                        mark(
                            self.report,
                            node,
                            Status::NotNeeded,
                            "the server has a user of its own, and PHP that of its application",
                        );
                    }
                }
                "typesconfig" => {
                    mark(self.report, node, Status::NotNeeded, "media types are built in")
                }
                "httpprotocoloptions" => {
                    mark(self.report, node, Status::NotNeeded, "requests are parsed strictly")
                }
                "errorlogformat" => {
                    mark(self.report, node, Status::Changed, "log records have their own form")
                }
                "loadmodule" => self.module(node),
                _ => {}
            }
        }
        if !http.is_empty() {
            self.settings.insert("http".into(), http.into());
        }
    }

    pub(super) fn module(&mut self, node: &Node) {
        let stem = super::modules::stem(&node.first()).to_owned();
        let unknown = [
            "security",
            "security2",
            "evasive",
            "evasive20",
            "wsgi",
            "perl",
            "passenger",
            "lua",
            "pagespeed",
            "jk",
            "qos",
            "shib",
            "auth_openidc",
            "auth_mellon",
            "auth_kerb",
            "auth_gssapi",
        ];
        if unknown.contains(&stem.as_str()) {
            let reason = format!("Howdah has nothing in the place of mod_{stem}");
            mark(self.report, node, Status::NotConverted, reason);
        } else {
            mark(
                self.report,
                node,
                Status::NotNeeded,
                "what the document needs is built in; the directives of the module say what is converted",
            );
        }
    }
}
