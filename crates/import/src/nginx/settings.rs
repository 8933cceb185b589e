//! Settings of the whole server: sizes, times, compression, media types.

use serde_json::{Value, json};

use super::context::Place;
use super::convert::Converter;
use super::options::body_size;
use super::reader::Directive;
use super::steps::object;
use super::units;
use super::variables::Object;
use crate::Status;

impl<'t> Converter<'_> {
    /// Returns the settings of `http`. `servers` are the blocks of all servers.
    pub fn settings(&mut self, place: &Place<'t>, servers: &[&'t Directive]) -> Object {
        let mut http = Object::new();
        http.insert("max_body_size".to_owned(), self.body_size.into());
        let times = [
            ("client_header_timeout", "header_read_timeout"),
            ("client_body_timeout", "body_read_timeout"),
            ("keepalive_timeout", "idle_timeout"),
            ("send_timeout", "send_timeout"),
        ];
        for (name, key) in times {
            if let Some(directive) = self.of_server(place, servers, name)
                && let Some(seconds) = units::seconds(directive.arg(0))
            {
                self.report.converted(directive.id);
                http.insert(key.to_owned(), seconds.into());
            }
        }
        let sizes = [("client_body_buffer_size", "body_buffer_size")];
        for (name, key) in sizes {
            if let Some(directive) = self.of_server(place, servers, name)
                && let Some(size) = units::size(directive.arg(0))
            {
                self.report.converted(directive.id);
                http.insert(key.to_owned(), size.into());
            }
        }
        if let Some(directive) = self.of_server(place, servers, "large_client_header_buffers")
            && let (Ok(number), Some(size)) =
                (directive.arg(0).parse::<u64>(), units::size(directive.arg(1)))
        {
            self.report.mark(
                directive.id,
                Status::Changed,
                "a field that is too long is answered with 431",
            );
            http.insert("large_header_buffers".to_owned(), number.clamp(1, 1024).into());
            http.insert("large_header_buffer_size".to_owned(), size.max(1).into());
        }
        if let Some(directive) = place.scope.own("client_header_buffer_size") {
            self.report.mark(
                directive.id,
                Status::NotNeeded,
                "large_client_header_buffers limits the head of a request",
            );
        }
        if let Some(directive) = self.of_server(place, servers, "client_body_temp_path") {
            self.report.mark(
                directive.id,
                Status::Changed,
                "files of bodies are without names and without directories of levels",
            );
            http.insert("body_temp_path".to_owned(), self.whole_path(directive.arg(0)).into());
        }
        let ignore = self.of_server(place, servers, "ignore_invalid_headers");
        let underscores = self.of_server(place, servers, "underscores_in_headers");
        let is_off = ignore.is_some_and(|directive| directive.arg(0).eq_ignore_ascii_case("off"));
        let is_on =
            underscores.is_some_and(|directive| directive.arg(0).eq_ignore_ascii_case("on"));
        if is_off || is_on {
            http.insert("discard_unsafe_fields".to_owned(), false.into());
        }
        for directive in [ignore, underscores].into_iter().flatten() {
            self.report.converted(directive.id);
        }
        if let Some(directive) = self.of_server(place, servers, "server_tokens") {
            match directive.arg(0) {
                "off" => {
                    self.report.converted(directive.id);
                    http.insert("server_version".to_owned(), false.into());
                }
                "on" => self.report.converted(directive.id),
                _ => self.report.mark(
                    directive.id,
                    Status::NotConverted,
                    "the field Server is \"Howdah\" with its version or without it",
                ),
            }
        }
        if let Some(compression) = self.compression(place, servers) {
            http.insert("compression".to_owned(), compression);
        }
        let files = self.types(place);
        if !files.is_empty() {
            http.insert("static".to_owned(), files.into());
        }
        let mut settings = object([("http", http.into())]);
        if let Some(directive) = self.of_server(place, servers, "resolver") {
            let servers: Vec<&str> = directive
                .args
                .iter()
                .map(String::as_str)
                .filter(|arg| !arg.contains('='))
                .collect();
            let is_address = |text: &&str| {
                text.parse::<std::net::IpAddr>().is_ok()
                    || text.parse::<std::net::SocketAddr>().is_ok()
                    || text.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok()
            };
            if !servers.is_empty() && servers.iter().all(is_address) {
                self.report.converted(directive.id);
                settings.insert("resolver".to_owned(), json!(servers));
            } else {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "a DNS server is given by its address; those of the machine are used",
                );
            }
        }
        settings
    }

    /// Returns the directive of `http`, or else one of the servers; those of other servers have no
    /// effect.
    fn of_server(
        &mut self,
        place: &Place<'t>,
        servers: &[&'t Directive],
        name: &str,
    ) -> Option<&'t Directive> {
        let global = place.scope.own(name);
        let own: Vec<_> = servers
            .iter()
            .flat_map(|server| server.children())
            .filter(|directive| directive.name == name)
            .collect();
        let chosen = global.or(own.first().copied());
        for directive in own {
            if chosen.is_some_and(|chosen| {
                !std::ptr::eq(chosen, directive) && chosen.args != directive.args
            }) {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "this is a setting of the whole server; another value is used",
                );
            } else {
                self.report.converted(directive.id);
            }
        }
        chosen
    }

    /// Returns the compression of the settings, if some place has it.
    fn compression(&mut self, place: &Place<'t>, servers: &[&'t Directive]) -> Option<Value> {
        let all = all_of(place.scope.directives(), servers);
        let named = |name: &str| {
            all.iter().copied().filter(|directive| directive.name == name).collect::<Vec<_>>()
        };
        let switches = named("gzip");
        let is_on = |directive: &&&Directive| directive.arg(0).eq_ignore_ascii_case("on");
        let statics = named("gzip_static");
        for directive in &switches {
            if directive.arg(0).eq_ignore_ascii_case("off") {
                self.report.converted(directive.id);
            } else {
                self.report.mark(
                    directive.id,
                    Status::Changed,
                    "compressed responses also have Vary: Accept-Encoding",
                );
            }
        }
        for directive in statics.iter() {
            if directive.arg(0) == "off" {
                self.report.converted(directive.id);
            } else {
                self.report.mark(directive.id, Status::Changed, "copies beside a file are sent in all places with compression, and those of other encodings too");
            }
        }
        if !switches.iter().any(|directive| is_on(&directive)) {
            for name in ["gzip_types", "gzip_comp_level", "gzip_min_length"] {
                for directive in named(name) {
                    self.report.mark(directive.id, Status::NotNeeded, "gzip is off");
                }
            }
            return None;
        }
        self.compresses = true;
        let mut types = vec!["text/html".to_owned()];
        let mut compressor =
            object([("encoding", "gzip".into()), ("level", 1.into()), ("min_length", 20.into())]);
        let once = |converter: &mut Self, name: &str| {
            let found = named(name);
            for other in found.iter().skip(1) {
                if other.args != found[0].args {
                    converter.report.mark(
                        other.id,
                        Status::Changed,
                        "compression is a setting of the whole server; another value is used",
                    );
                } else {
                    converter.report.converted(other.id);
                }
            }
            if let Some(first) = found.first() {
                converter.report.converted(first.id);
            }
            found.first().copied()
        };
        if let Some(directive) = once(self, "gzip_types") {
            for arg in &directive.args {
                if !types.contains(arg) {
                    types.push(arg.clone());
                }
            }
            if types.iter().any(|kind| kind == "*") {
                types = vec!["*".to_owned()];
            }
        }
        if let Some(level) =
            once(self, "gzip_comp_level").and_then(|directive| directive.arg(0).parse::<u64>().ok())
        {
            compressor.insert("level".to_owned(), level.clamp(1, 9).into());
        }
        if let Some(length) =
            once(self, "gzip_min_length").and_then(|directive| units::size(directive.arg(0)))
        {
            compressor.insert("min_length".to_owned(), length.into());
        }
        if let Some(directive) = once(self, "gzip_vary") {
            self.report.mark(
                directive.id,
                Status::NotNeeded,
                "compressed responses always have Vary: Accept-Encoding",
            );
        }
        Some(json!({ "types": types, "compressors": [compressor] }))
    }

    /// Returns media types and the default type.
    fn types(&mut self, place: &Place<'t>) -> Object {
        let mut files = Object::new();
        let mut by_type: Object = Object::new();
        let blocks = place.scope.own_all("types");
        for block in &blocks {
            for entry in block.children().iter().filter(|entry| entry.name != "include") {
                let list = by_type.entry(entry.name.clone()).or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.extend(entry.args.iter().map(|ending| Value::from(format!(".{ending}"))));
                }
            }
            self.report.converted(block.id);
        }
        // An ending has one type: the last one.
        let mut seen = std::collections::BTreeSet::new();
        for (_, list) in by_type.iter_mut().rev() {
            if let Some(list) = list.as_array_mut() {
                list.retain(|ending| seen.insert(ending.to_string()));
            }
        }
        by_type.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
        if blocks.is_empty() && self.is_part {
            // The main file around a site includes nginx's list.
            for (ending, name) in USUAL_TYPES {
                self.types.insert(ending.to_owned(), name.to_owned());
            }
        } else if blocks.is_empty() {
            by_type = object([
                ("text/html", json!([".html"])),
                ("image/gif", json!([".gif"])),
                ("image/jpeg", json!([".jpg"])),
            ]);
        }
        for (name, list) in &by_type {
            for ending in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
                self.types
                    .insert(ending.trim_start_matches('.').to_ascii_lowercase(), name.clone());
            }
        }
        if !blocks.is_empty() || !self.is_part {
            // A list of nginx replaces the one that is built in.
            files.insert("builtin_types".to_owned(), false.into());
        }
        if !by_type.is_empty() {
            files.insert("mime_types".to_owned(), by_type.into());
        }
        match place.scope.own("default_type") {
            Some(directive) => {
                self.report.converted(directive.id);
                if !directive.arg(0).is_empty() {
                    files.insert("default_type".to_owned(), directive.arg(0).into());
                }
            }
            None => {
                let default = if self.is_part { "application/octet-stream" } else { "text/plain" };
                files.insert("default_type".to_owned(), default.into());
            }
        }
        files
    }

    /// Reads the size of bodies of the settings.
    pub fn read_body_size(&mut self, place: &Place<'t>) {
        if let Some(directive) = place.scope.own("client_max_body_size") {
            self.report.converted(directive.id);
            self.body_size = body_size(directive.arg(0));
        }
    }
}

/// Returns all directives of `http`, its servers and their locations.
fn all_of<'t>(http: &'t [Directive], servers: &[&'t Directive]) -> Vec<&'t Directive> {
    fn add<'t>(directives: &'t [Directive], found: &mut Vec<&'t Directive>) {
        for directive in directives {
            found.push(directive);
            if matches!(directive.name.as_str(), "location" | "if") {
                add(directive.children(), found);
            }
        }
    }
    let mut found = Vec::new();
    add(http, &mut found);
    for server in servers {
        add(server.children(), &mut found);
    }
    found
}

/// Types of nginx's list that a `return` may need.
const USUAL_TYPES: [(&str, &str); 12] = [
    ("css", "text/css"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("jpg", "image/jpeg"),
    ("js", "application/javascript"),
    ("json", "application/json"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain"),
    ("xml", "text/xml"),
];
