//! `upstream`: groups of servers.

use std::rc::Rc;

use serde_json::json;

use super::context::Place;
use super::convert::Converter;
use super::fastcgi::server_address;
use super::reader::Directive;
use super::state::State;
use super::units;
use super::variables::{Object, Reason};
use crate::Status;

impl Converter<'_> {
    /// Returns the block of an upstream.
    pub fn upstream_block(&self, name: &str) -> Option<Rc<Directive>> {
        self.upstream_blocks.iter().find(|block| block.arg(0) == name).cloned()
    }

    /// Makes an upstream of a block, with further options.
    pub fn upstream(&mut self, block: &Directive, options: &Object) -> Result<String, Reason> {
        let mut servers = Object::new();
        let (mut fails, mut has_checks) = (None, true);
        let mut upstream = Object::new();
        for inner in block.children() {
            match inner.name.as_str() {
                "server" => {
                    let port = if options.contains_key("tls") { 443 } else { 80 };
                    let Some(address) = server_address(inner.arg(0), port) else {
                        self.report.mark(
                            inner.id,
                            Status::NotConverted,
                            "this is no address of a server",
                        );
                        continue;
                    };
                    let mut server = Object::new();
                    self.report.converted(inner.id);
                    let (mut max, mut time) = ("1", "10s");
                    for arg in inner.args.iter().skip(1) {
                        match arg.split_once('=').unwrap_or((arg, "")) {
                            ("weight", weight) => {
                                if let Ok(weight) = weight.parse::<u64>()
                                    && weight != 1
                                {
                                    server.insert("weight".to_owned(), weight.into());
                                }
                            }
                            ("max_conns", number) => {
                                if let Some(number) =
                                    number.parse::<u64>().ok().filter(|number| *number > 0)
                                {
                                    server.insert("max_connections".to_owned(), number.into());
                                }
                            }
                            ("max_fails", number) => max = number,
                            ("fail_timeout", text) => time = text,
                            ("backup", _) => {
                                server.insert("backup".to_owned(), true.into());
                            }
                            ("down", _) => {
                                server.insert("weight".to_owned(), 0.into());
                            }
                            ("resolve", _) => {}
                            (other, _) => {
                                let reason = format!("\"{other}\" has no equivalent");
                                self.report.mark(inner.id, Status::NotConverted, reason);
                            }
                        }
                    }
                    let own = (
                        max.parse::<u64>().unwrap_or(1),
                        units::seconds(time).unwrap_or(10).max(1),
                    );
                    match fails {
                        None => fails = Some(own),
                        Some(first) if first != own => {
                            self.report.mark(
                                inner.id,
                                Status::Changed,
                                "max_fails and fail_timeout are those of the first server",
                            );
                        }
                        Some(_) => {}
                    }
                    has_checks &= own.0 > 0;
                    servers.insert(address, server.into());
                }
                "ip_hash" => {
                    self.report.mark(
                        inner.id,
                        Status::Changed,
                        "the whole address counts; nginx uses three quarters of an IPv4 address",
                    );
                    upstream.insert("balance".to_owned(), json!({ "hash": "$remote_addr" }));
                }
                "hash" => {
                    let place = Place {
                        scope: super::scope::Scope::outermost(&[]),
                        site: None,
                        location: None,
                        server_name: String::new(),
                        variant: String::new(),
                    };
                    match self.value(inner.arg(0), &place, &State::default()) {
                        Ok(key) => {
                            self.report.mark(
                                inner.id,
                                Status::Changed,
                                "a value leads to another server than under nginx",
                            );
                            upstream.insert("balance".to_owned(), json!({ "hash": key.render() }));
                        }
                        Err(reason) => self.report.mark(inner.id, Status::NotConverted, reason),
                    }
                }
                "least_conn" => {
                    self.report.converted(inner.id);
                    upstream.insert("balance".to_owned(), "least_connections".into());
                }
                "random" => {
                    if inner.arg(0) == "two" {
                        self.report.converted(inner.id);
                    } else {
                        self.report.mark(
                            inner.id,
                            Status::Changed,
                            "of two random servers the one with fewer requests is used",
                        );
                    }
                    upstream.insert("balance".to_owned(), "two_choices".into());
                }
                "keepalive" => {
                    self.report.converted(inner.id);
                    if let Ok(number) = inner.arg(0).parse::<u64>() {
                        upstream.insert("keepalive".to_owned(), number.min(10_000).into());
                    }
                }
                "keepalive_timeout" => {
                    self.report.converted(inner.id);
                    if let Some(seconds) = units::seconds(inner.arg(0)) {
                        upstream.insert("timeouts".to_owned(), json!({ "idle": seconds.max(1) }));
                    }
                }
                _ => {}
            }
        }
        if servers.is_empty() {
            return Err("the upstream has no servers".to_owned());
        }
        if servers.len() > 1 {
            upstream.insert("tries".to_owned(), servers.len().min(100).into());
            if has_checks {
                let checks = match fails {
                    Some((1, 10)) | None => json!({}),
                    Some((max, time)) => json!({ "max": max, "time": time }),
                };
                upstream.insert("failures".to_owned(), checks);
            }
        }
        upstream.entry("keepalive").or_insert_with(|| 0.into());
        upstream.insert("servers".to_owned(), servers.into());
        upstream.extend(options.clone());
        self.report.converted(block.id);
        Ok(self.add_upstream(block.arg(0), upstream))
    }
}
