//! The grants of a document: the resources that the router may request from the supervisor.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use howdah_config::{
    Acme, Config, Endpoint, Http3, Listener, ListenerSocket, MailServer, SmtpTls, Telemetry, path,
};
use howdah_router::process::{spec, tls_sources};
use howdah_supervisor::{Grants, Names, SocketAccess};
use howdah_sys::{environment, machine};
use howdah_tls::Source;
use howdah_wire::messages::{MailRoute, MailTls, MetricsRoute, OtlpServer, TelemetryRoute};
use howdah_wire::region::Geometry;

/// Returns the grants of a document for `howdah serve DIR`, where the option names the mail server.
/// Errors as of [`derive`].
pub fn derive_for_site(document: &[u8]) -> Result<Grants, String> {
    let mut grants = derive(document)?;
    for route in grants.mail.values_mut().filter(|route| !route.key.starts_with("applications/")) {
        "--mail-to".clone_into(&mut route.key);
    }
    Ok(grants)
}

/// Returns the grants of a document. Error: the reason why it is not valid.
pub fn derive(document: &[u8]) -> Result<Grants, String> {
    let config = howdah_config::parse(document).map_err(|error| error.to_string())?;
    Ok(of(&config))
}

fn of(config: &Config) -> Grants {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let acme: Vec<&Acme> = config
        .listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref())
        .flat_map(|tls| &tls.acme)
        .collect();
    let variables = environment::all();
    // The router chooses the size of the memory that it shares with workers.
    let applications: HashMap<_, _> = config
        .applications
        .iter()
        .map(|application| {
            (application.name.clone(), spec(application, Geometry::for_pool(1, 1), &variables))
        })
        .collect();
    let mut grants = Grants {
        listeners: { config.listeners.iter() }
            .flat_map(|listener| {
                let udp = listener.http3.as_ref().map(|_| Http3::socket_name(&listener.name));
                let names = [listener.name.clone()].into_iter().chain(udp);
                names.map(|name| (name, socket_access(listener)))
            })
            .collect(),
        logs: { config.applications.iter() }
            .filter_map(|application| application.limits.slow_log.as_deref())
            .chain(config.error_logs.iter().map(|log| log.path.as_path()))
            .map(text)
            .collect(),
        caches: { config.cache_files().into_iter() }
            .filter_map(|(_, store)| store.file().as_deref().map(text))
            .collect(),
        log_sockets: BTreeSet::new(),
        tls_files: BTreeSet::new(),
        programs: { acme.iter() }
            .filter_map(|acme| acme.dns.as_ref())
            .map(|hook| text(&hook.program))
            .collect(),
        certificates: BTreeSet::new(),
        managed: managed(&acme),
        sites: { config.routes.iter().filter_map(|route| route.name.clone()) }
            .chain(config.upstreams.iter().map(|upstream| upstream.name.clone()))
            .collect(),
        mail: { applications.iter() }
            .map(|(name, spec)| (spec.name.clone(), mail(config, name)))
            .collect(),
        jobs: { config.applications.iter() }
            .filter(|application| !application.jobs.is_empty())
            .map(|application| (application.name.clone(), application.jobs.clone()))
            .collect(),
        site_logs: { config.error_logs.iter() }
            .filter(|log| {
                let mut applications = config.applications.iter();
                applications.any(|one| one.name == log.site && !one.jobs.is_empty())
            })
            .map(|log| (log.site.clone(), text(&log.path)))
            .collect(),
        telemetry: config.settings.telemetry.as_ref().map(|one| telemetry(config, one)),
        has_dashboard: config.has_dashboard(),
        shares_timers: config.settings.cluster.is_some(),
        applications,
        shutdown_delay: config.settings.shutdown_delay,
        shutdown_timeout: config.settings.shutdown_timeout,
    };
    for (_, log) in config.access_logs() {
        match log.destination.socket() {
            Some(socket) => grants.log_sockets.insert(socket),
            None => grants.logs.insert(log.destination.to_string()),
        };
    }
    for source in tls_sources(config) {
        match source {
            Source::Stored(name) => grants.certificates.insert(name),
            Source::File(path) => grants.tls_files.insert(text(&path)),
        };
    }
    grants
}

/// Returns who may connect to a listener.
pub(crate) fn socket_access(listener: &Listener) -> SocketAccess {
    let ListenerSocket { user, group, mode, is_for_fastcgi } = listener.socket.clone();
    let place = path(["listeners", listener.key.as_str(), "socket"]);
    SocketAccess { place, user, group, mode, is_for_fastcgi }
}

/// Returns the mail server of an application.
fn mail(config: &Config, application: &str) -> MailRoute {
    let MailServer { host, port, tls, login, authorities, from, limit, timeout, key } =
        config.mail_server(application);
    let (user, password_file) = login.unzip();
    MailRoute {
        host,
        port,
        tls: match tls {
            SmtpTls::Off => MailTls::Off,
            SmtpTls::Implicit => MailTls::Implicit,
            SmtpTls::StartTls => MailTls::StartTls,
        },
        user,
        password_file: password_file.map(|path| path.to_string_lossy().into_owned()),
        authorities: authorities.map(|path| path.to_string_lossy().into_owned()),
        resolver: resolver(config),
        from,
        limit: limit.unwrap_or(0),
        timeout: u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX),
        key,
    }
}

/// Returns where traces and metrics go.
fn telemetry(config: &Config, telemetry: &Telemetry) -> TelemetryRoute {
    let Telemetry { endpoint, is_grpc, batch_size, service_name, headers, metrics, .. } = telemetry;
    let mut attributes = vec![
        ("service.name".to_owned(), service_name.clone()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        // Prometheus makes its label `instance` of it, which keeps the metrics of machines apart.
        ("service.instance.id".to_owned(), machine::name()),
        ("host.name".to_owned(), machine::name()),
    ];
    attributes.retain(|(name, _)| telemetry.attributes.iter().all(|(other, _)| other != name));
    attributes.extend(telemetry.attributes.iter().cloned());
    TelemetryRoute {
        server: otlp_server(endpoint),
        metrics: metrics.as_ref().map(|metrics| MetricsRoute {
            server: otlp_server(&metrics.endpoint),
            is_exponential: metrics.is_exponential,
        }),
        is_grpc: *is_grpc,
        headers: headers.clone(),
        authorities: telemetry.authorities.as_ref().map(|path| path.to_string_lossy().into_owned()),
        resolver: resolver(config),
        attributes,
        batch_size: *batch_size,
    }
}

fn otlp_server(endpoint: &Endpoint) -> OtlpServer {
    let Endpoint { is_tls, host, port, path } = endpoint.clone();
    OtlpServer { host, port, is_tls, path }
}

fn resolver(config: &Config) -> Vec<String> {
    config.settings.resolver.iter().map(ToString::to_string).collect()
}

/// Returns the names of certificates that the router obtains and has stored.
fn managed(acme: &[&Acme]) -> Names {
    let mut names = Names {
        whole: acme.iter().filter_map(|acme| acme.certificate()).collect(),
        prefixes: Vec::new(),
    };
    if !acme.is_empty() {
        names.prefixes.push(howdah_tls::stored::ACCOUNT_PREFIX.to_owned());
    }
    if acme.iter().any(|acme| acme.on_demand.is_some()) {
        names.prefixes.push(Acme::PREFIX.to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(document: serde_json::Value) -> Grants {
        derive(document.to_string().as_bytes()).unwrap()
    }

    fn names(set: &BTreeSet<String>) -> Vec<&str> {
        set.iter().map(String::as_str).collect()
    }

    #[test]
    fn all_that_a_document_names_is_granted() {
        let grants = grants(serde_json::json!({
            "access_log": ["/var/log/access.log", {"syslog": "10.0.0.5"}],
            "listeners": {
                "*:80": {
                    "pass": "applications/blog",
                    "access_log": {"syslog": {"server": "unix:/dev/log"}},
                },
                "*:443": {
                    "pass": "routes",
                    "tls": {
                        "certificate": ["shop", {"chain": "/c.pem", "key": "/k.pem"}],
                        "acme": {
                            "domains": ["a.org"],
                            "challenges": "dns",
                            "dns": {"program": "/usr/bin/hook"},
                            "servers": {"directory": "https://ca.test/d", "ca": "/ca.pem"},
                        },
                    },
                },
            },
            "routes": [{"action": {"return": 404, "access_log": "/var/log/404.log"}}],
            "error_logs": {"blog": "/var/log/blog.error.log"},
            "applications": {
                "blog": {
                    "type": "php", "root": "/srv/blog", "user": "blog",
                    "limits": {"slow": 1, "slow_log": "/var/log/slow.log"},
                },
            },
        }));
        assert_eq!(grants.listeners.keys().collect::<Vec<_>>(), ["*:443", "*:80"]);
        assert_eq!(
            names(&grants.logs),
            [
                "/var/log/404.log",
                "/var/log/access.log",
                "/var/log/blog.error.log",
                "/var/log/slow.log",
            ]
        );
        assert_eq!(names(&grants.log_sockets), ["udp:10.0.0.5:514", "unix:/dev/log"]);
        assert_eq!(names(&grants.tls_files), ["/c.pem", "/ca.pem", "/k.pem"]);
        assert_eq!(names(&grants.programs), ["/usr/bin/hook"]);
        assert_eq!(names(&grants.certificates), ["acme:a.org", "shop"]);
        assert!(grants.managed.contains("acme:a.org"));
        assert!(grants.managed.contains("acme-account:0123"));
        assert!(!grants.managed.contains("acme:b.org") && !grants.managed.contains("shop"));
        assert_eq!(grants.applications["blog"].user.as_deref(), Some("blog"));
    }

    #[test]
    fn a_document_that_names_nothing_grants_nothing() {
        assert_eq!(grants(serde_json::json!({})), Grants::default());
        assert!(derive(b"{").is_err());
    }
}
