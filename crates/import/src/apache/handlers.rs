//! Directives that choose what runs a file, and settings of PHP.

use crate::{Report, Status};

use super::scope::{Facts, Place, Scope, close, converted, escaped, generic, mark};
use super::tree::Node;
use super::words::quoted;

/// What differs for scripts that PHP-FPM runs.
pub const MISSING_SCRIPT: &str =
    "a script that does not exist has the page of the server for 404, not the text of PHP-FPM";

/// What differs for paths that are passed to PHP-FPM.
pub const ONLY_SCRIPTS: &str =
    "scripts alone are run; other paths, such as PHP-FPM's pages of its status, are 404";

/// What differs for scripts that mod_php runs beside PHP-FPM.
pub const BESIDE_MOD_PHP: &str = "names that mod_php alone runs, such as .phtml, go to PHP-FPM as well, which \
    refuses those that security.limit_extensions does not have";

/// Settings that PHP lets only the administrator change.
const SYSTEM_ONLY: &str = "disable_functions disable_classes upload_tmp_dir sendmail_path \
    allow_url_fopen allow_url_include file_uploads enable_dl extension_dir max_file_uploads \
    mail.log mail.add_x_header realpath_cache_size opcache.enable sys_temp_dir";

/// Returns the address of a FastCGI server that a handler names.
pub fn fastcgi_address(handler: &str) -> Option<String> {
    let target = handler.strip_prefix("proxy:")?;
    fastcgi_target(target)
}

/// Returns the address of a URL of FastCGI: `unix:/run/a.sock|fcgi://localhost`,
/// `fcgi://127.0.0.1:9000/srv/www`.
pub fn fastcgi_target(target: &str) -> Option<String> {
    if let Some((socket, url)) = target.split_once('|') {
        return (socket.starts_with("unix:") && url.starts_with("fcgi://"))
            .then(|| socket.to_owned());
    }
    let authority = target.strip_prefix("fcgi://")?;
    let authority = authority.split('/').next().unwrap_or_default();
    if authority.is_empty() || authority.contains('$') {
        return None;
    }
    Some(if authority.contains(':') { authority.to_owned() } else { format!("{authority}:8000") })
}

pub(super) fn set_handler(
    node: &Node,
    lower: &str,
    first: &str,
    place: Place,
    facts: &Facts,
    scope: &mut Scope,
    report: &mut Report,
) {
    if let Some(address) = fastcgi_address(first) {
        scope.servers.push((address, node.id));
        scope.line("SetHandler application/x-httpd-php");
        let reason = if place == Place::Location { ONLY_SCRIPTS } else { MISSING_SCRIPT };
        return mark(report, node, Status::Changed, reason);
    }
    match lower {
        "none" | "default-handler" => {
            let reason =
                "scripts without a handler are refused with 403; Apache sends their source";
            generic(node, scope, report);
            mark(report, node, Status::Changed, reason);
        }
        "server-status" | "server-info" | "balancer-manager" | "ldap-status" => {
            let reason = "the page is closed; howdah status has the state of the server";
            mark(report, node, Status::Changed, reason);
            scope.is_closed = true;
        }
        _ if runs_programs(lower, facts) => {
            close(node, "only PHP is run; the place is closed", scope, report);
        }
        _ => generic(node, scope, report),
    }
}

/// Returns true for a handler that runs something else than PHP.
pub(super) fn runs_programs(handler: &str, facts: &Facts) -> bool {
    let is_php = howdah_htaccess::handler_name::names_php(handler.as_bytes());
    howdah_htaccess::handler_name::names_program(handler.as_bytes())
        || matches!(handler, "server-parsed" | "send-as-is" | "imap-file")
        || handler.starts_with("proxy:")
        || facts.actions.iter().any(|action| action == handler) && !is_php
}

pub(super) fn add_handler(
    node: &Node,
    all: &[String],
    place: Place,
    facts: &Facts,
    scope: &mut Scope,
    report: &mut Report,
) {
    let Some((handler, suffixes)) = all.split_first().filter(|(_, rest)| !rest.is_empty()) else {
        return generic(node, scope, report);
    };
    let lower = handler.to_ascii_lowercase();
    let names: Vec<String> =
        suffixes.iter().map(|suffix| suffix.trim_start_matches('.').to_ascii_lowercase()).collect();
    let is_php = names.iter().all(|name| name.starts_with("ph"));
    if let Some(address) = fastcgi_address(handler) {
        scope.servers.push((address, node.id));
        scope.line(format!("AddHandler application/x-httpd-php {}", suffixes.join(" ")));
        return mark(report, node, Status::Changed, MISSING_SCRIPT);
    }
    if !runs_programs(&lower, facts) || lower == "fcgid-script" && is_php {
        return generic(node, scope, report);
    }
    let reason = "only PHP is run; files with these suffixes are refused";
    mark(report, node, Status::NotConverted, reason);
    if matches!(place, Place::Inner(_)) {
        scope.is_closed = true;
        return;
    }
    let alternatives: Vec<String> = names.iter().map(|name| escaped(name)).collect();
    scope.line(format!("<FilesMatch \"(?i)\\.({})(\\.|$)\">", alternatives.join("|")));
    scope.line("Require all denied");
    scope.line("</FilesMatch>");
}

pub(super) fn filter(node: &Node, all: &[String], scope: &mut Scope, report: &mut Report) {
    let Some(filters) = all.first() else { return generic(node, scope, report) };
    let mut names = filters.split(';').map(str::to_ascii_lowercase);
    if names.all(|name| matches!(name.as_str(), "deflate" | "none")) && !node.name.contains("input")
    {
        return generic(node, scope, report);
    }
    let brotli = filters.to_ascii_lowercase().contains("brotli");
    let (status, reason) = if brotli {
        (Status::Changed, "responses are compressed with gzip, if DEFLATE is set for them")
    } else {
        (Status::NotConverted, "there is no such filter")
    };
    mark(report, node, status, reason);
}

pub(super) fn php_setting(
    node: &Node,
    all: &[String],
    place: Place,
    facts: &Facts,
    scope: &mut Scope,
    report: &mut Report,
) {
    if facts.has_fpm {
        let reason = "PHP-FPM runs the scripts, and does not know settings of mod_php";
        return mark(report, node, Status::NotNeeded, reason);
    }
    let [name, value] = all else {
        return mark(
            report,
            node,
            Status::NotConverted,
            "it takes the name of a setting and a value",
        );
    };
    let is_flag = node.name.ends_with("flag");
    let is_on = value.eq_ignore_ascii_case("on") || value == "1";
    let value = match is_flag {
        true if is_on => "1".to_owned(),
        true => "0".to_owned(),
        false if value.eq_ignore_ascii_case("none") => String::new(),
        false => value.clone(),
    };
    let is_engine = name.eq_ignore_ascii_case("engine");
    if is_engine {
        generic(node, scope, report);
        if value == "0" {
            let reason = "scripts are refused with 403; Apache sends their source";
            mark(report, node, Status::Changed, reason);
        }
        return;
    }
    if !node.name.contains("admin") {
        return generic(node, scope, report);
    }
    if matches!(place, Place::Server | Place::Directory(true)) {
        scope.admin.push((name.clone(), value));
        return converted(report, node);
    }
    if SYSTEM_ONLY.split_whitespace().any(|own| own == name) {
        let reason = "the setting is one of the whole application, not of a directory";
        return mark(report, node, Status::NotConverted, reason);
    }
    scope.line(format!("{} {} {}", node.written, quoted(name), quoted(&all[1])));
    if name == "open_basedir" {
        converted(report, node);
    } else {
        mark(report, node, Status::Changed, "a script can change it with ini_set()");
    }
}
