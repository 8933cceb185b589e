//! Values that a configuration uses and does not define: nginx does not start with them, also where
//! no request comes to them.

use std::collections::BTreeSet;

use super::logs::OF_SERVER;
use super::pcre;
use super::reader::Directive;
use super::variables::{built_in_of, names_of};
use crate::{Report, Status};

/// Directives whose variables have to be known, beside those that are looked at where they are used.
const WITH_VARIABLES: [&str; 19] = [
    "auth_basic",
    "auth_basic_user_file",
    "fastcgi_cache",
    "fastcgi_cache_bypass",
    "fastcgi_cache_key",
    "fastcgi_no_cache",
    "limit_rate",
    "limit_rate_after",
    "proxy_cache",
    "proxy_cache_bypass",
    "proxy_cache_key",
    "proxy_no_cache",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_name",
    "secure_link",
    "secure_link_md5",
    "ssl_certificate",
    "ssl_certificate_key",
];

/// Variables of nginx that have a value where a directive of [`WITH_VARIABLES`] stands, beside
/// [`OF_SERVER`] and those that have the same meaning in Howdah.
const FURTHER: [&str; 8] = [
    "proxy_add_x_forwarded_for",
    "proxy_host",
    "proxy_port",
    "invalid_referer",
    "secure_link_expires",
    "request_body",
    "request_completion",
    "limit_rate",
];

/// Names that a configuration defines.
#[derive(Default)]
struct Defined {
    variables: BTreeSet<String>,
    zones: BTreeSet<String>,
}

/// Marks directives whose variables, zones, expressions and files nginx does not know.
pub fn check(tree: &[Directive], report: &mut Report) {
    let mut defined = Defined::default();
    defined.add(tree);
    defined.check(tree, false, report);
}

impl Defined {
    fn add(&mut self, directives: &[Directive]) {
        for directive in directives {
            match directive.name.as_str() {
                "set" | "auth_request_set" | "perl_set" | "js_set" | "js_var" => {
                    self.variables.extend(names_of(directive.arg(0)));
                }
                "map" | "geo" | "split_clients" => {
                    self.variables.extend(
                        directive
                            .args
                            .last()
                            .map(|name| name.trim_start_matches('$').to_ascii_lowercase()),
                    );
                }
                name if name.ends_with("_cache_path") => {
                    let zone = directive.args.iter().find_map(|arg| arg.strip_prefix("keys_zone="));
                    let name = zone.and_then(|zone| zone.split(':').next());
                    self.zones.extend(name.map(str::to_owned));
                }
                _ => {}
            }
            let words = directive.args.iter().chain([&directive.name]);
            for group in words.flat_map(|word| word.split("(?").skip(1)) {
                let group = group.strip_prefix('P').unwrap_or(group);
                let name =
                    group.strip_prefix(['<', '\'']).and_then(|rest| rest.split(['>', '\'']).next());
                self.variables.extend(name.map(str::to_ascii_lowercase));
            }
            self.add(directive.children());
        }
    }

    fn check(&self, directives: &[Directive], has_key: bool, report: &mut Report) {
        let has = |name: &str| directives.iter().any(|directive| directive.name == name);
        let has_key = has_key || has("ssl_certificate_key");
        for directive in directives {
            let problem = self.problem(directive).or_else(|| {
                (directive.name == "ssl_certificate" && !has_key)
                    .then(|| "there is no ssl_certificate_key for it".to_owned())
            });
            if let Some(problem) = problem {
                let reason = format!("{problem}, and nginx does not start");
                report.mark(directive.id, Status::NotConverted, reason);
            }
            if matches!(
                directive.name.as_str(),
                "http" | "events" | "server" | "location" | "if" | "limit_except"
            ) {
                self.check(directive.children(), has_key, report);
            }
            if directive.name == "upstream" {
                let zone = directive.children().iter().find(|inner| inner.name == "zone");
                if let Some(zone) = zone.filter(|zone| zone.args.len() == 1) {
                    let reason = "the zone has no size here, and without another one of its name nginx does not start";
                    report.mark(zone.id, Status::NotConverted, reason);
                }
            }
        }
    }

    fn problem(&self, directive: &Directive) -> Option<String> {
        let (name, first) = (directive.name.as_str(), directive.arg(0));
        if WITH_VARIABLES.contains(&name) {
            let unknown = directive.args.iter().flat_map(|arg| names_of(arg)).find(|name| {
                !self.variables.contains(name)
                    && !FURTHER.contains(&name.as_str())
                    && !OF_SERVER.contains(&name.as_str())
                    && !name.starts_with("arg_")
                    && !name.bytes().all(|byte| byte.is_ascii_digit())
                    && built_in_of(name).is_none()
            });
            if let Some(unknown) = unknown {
                return Some(format!("there is no variable ${unknown}"));
            }
        }
        match name {
            "proxy_cache" | "fastcgi_cache" => {
                let is_known = first == "off" || first.contains('$') || self.zones.contains(first);
                (!is_known).then(|| format!("there is no zone \"{first}\""))
            }
            "resolver" => {
                let is_name = |text: &str| {
                    let host = text.trim_start_matches('[').split([':', ']']).next();
                    text.contains(':')
                        || host.is_some_and(|host| host.contains('.') || host == "localhost")
                };
                let wrong = directive.args.iter().find(|arg| {
                    let is_option = arg.split_once('=').is_some_and(|(key, _)| {
                        matches!(key, "valid" | "ipv4" | "ipv6" | "status_zone")
                    });
                    !is_option && !is_name(arg)
                });
                wrong.map(|wrong| format!("\"{wrong}\" is no address of a DNS server"))
            }
            "debug_connection" => {
                let address = first.split('/').next().unwrap_or_default();
                let is_known = address.parse::<std::net::IpAddr>().is_ok()
                    || address.contains('.')
                    || matches!(first, "unix:" | "localhost");
                (!is_known).then(|| format!("\"{first}\" is no address"))
            }
            "disable_symlinks" if first == "off" && directive.args.len() > 1 => {
                Some("\"off\" stands alone".to_owned())
            }
            "gzip_disable"
            | "valid_referers"
            | "proxy_redirect"
            | "proxy_cookie_domain"
            | "proxy_cookie_path"
            | "proxy_cookie_flags"
            | "fastcgi_split_path_info" => {
                let is_whole = name == "fastcgi_split_path_info";
                if name == "valid_referers" && directive.args.iter().any(String::is_empty) {
                    return Some("a referer is empty".to_owned());
                }
                let wrong = directive.args.iter().find(|arg| {
                    let regex = if is_whole { Some(arg.as_str()) } else { arg.strip_prefix('~') };
                    regex.is_some_and(|regex| !is_balanced(regex.trim_start_matches('*')))
                });
                wrong.map(|wrong| format!("\"{wrong}\" is no expression"))
            }
            _ => None,
        }
    }
}

/// Returns false for an expression that nobody takes.
fn is_balanced(regex: &str) -> bool {
    if pcre::convert(regex, false).is_some() {
        return true;
    }
    let (mut open, mut is_escaped, mut in_class) = (0_i32, false, false);
    for c in regex.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => open += 1,
            ')' if !in_class => open -= 1,
            _ => {}
        }
        if open < 0 {
            return false;
        }
    }
    open == 0 && !in_class && !is_escaped
}
