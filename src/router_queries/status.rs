//! The content of `/status`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use howdah_acme::AcmeReport;
use howdah_control::{
    ApplicationStatus, CacheStatus, CertificateStatus, ClusterStatus, Connections, Handshakes,
    LimitStatus, ListenerStatus, MemoryStatus, Module, OpcacheStatus, OutStatus, ProcessProtection,
    Processes, ProgramStatus, ProtectionStatus, RefusedKey, Renewal, ServerStatus, Status,
    UpstreamStatus, WorkerStatus,
};
use howdah_router::process::{
    LimitReport, OutPart, ProcessProtection as Protected, Report, ServerReport, TlsReport,
};

/// Converts the report of the router.
pub(crate) fn of(report: Report) -> Status {
    let (warnings, out): (Vec<_>, Vec<_>) =
        report.out.into_iter().partition(|part| part.extent.is_warning());
    Status {
        modules: report.php.into_iter().map(|(version, path)| Module { version, path }).collect(),
        connections: Connections {
            accepted: report.accepted,
            active: report.active,
            idle: report.idle,
            closed: report.closed,
        },
        requests: report.requests,
        protection: ProtectionStatus {
            landlock: report.protection.landlock,
            router: protected(report.protection.router),
            applications: { report.protected.into_iter() }
                .map(|(name, one)| (name, protected(one)))
                .collect(),
        },
        memory: MemoryStatus { budget: report.pools.memory.budget, used: report.pools.memory.used },
        applications: report
            .pools
            .applications
            .into_iter()
            .map(|application| ApplicationStatus {
                name: application.name,
                state: application.state,
                shares_start: application.shares_start,
                prototype_bytes: application.prototype_bytes,
                process_bytes: application.worker_bytes,
                processes: Processes {
                    running: application.running,
                    starting: application.starting,
                    idle: application.idle,
                },
                active_requests: application.active,
                problem: application.problem,
                given_up: application.given_up,
                worker: application.boot.map(|boot| WorkerStatus {
                    generation: boot.generation,
                    boot_ms: boot.boot_us / 1000,
                    has_template: boot.has_template,
                    fallback: boot.fallback,
                    retired: application
                        .retired
                        .into_iter()
                        .map(|(reason, count)| (reason.name(), count))
                        .collect(),
                }),
                opcache: application.opcache.map(|opcache| OpcacheStatus {
                    is_enabled: opcache.is_enabled,
                    used: opcache.used,
                    free: opcache.free,
                    wasted: opcache.wasted,
                    scripts: opcache.scripts,
                    hits: opcache.hits,
                    misses: opcache.misses,
                    restarts: opcache.restarts,
                }),
            })
            .collect(),
        upstreams: { report.upstreams.into_iter() }
            .map(|(name, servers)| UpstreamStatus {
                name,
                servers: servers.into_iter().map(server).collect(),
            })
            .collect(),
        limits: report.limits.into_iter().map(limit).collect(),
        caches: { report.caches.into_iter() }
            .map(|(name, numbers)| CacheStatus { name, numbers })
            .collect(),
        cluster: report.cluster.map(|cluster| ClusterStatus {
            server: cluster.server,
            is_connected: cluster.is_connected,
            counted: cluster.counted,
            alone: cluster.alone,
            purges_sent: cluster.purges_sent,
            purges_received: cluster.purges_received,
            invalid: cluster.invalid,
            missed: cluster.missed,
        }),
        out: out.into_iter().map(out_part).collect(),
        warnings: warnings.into_iter().map(out_part).collect(),
        certificates: certificates(&report.tls, report.acme),
        listeners: listeners(report.listeners, &report.tls),
        program: Some(ProgramStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: report.started_at.and_then(date),
            uptime: report.uptime.as_secs(),
        }),
    }
}

fn out_part(part: OutPart) -> OutStatus {
    let OutPart { kind, name, reason, since, .. } = part;
    OutStatus { kind: kind.word(), name, reason, since: date(since) }
}

fn listeners(names: Vec<String>, tls: &[TlsReport]) -> Vec<ListenerStatus> {
    let handshakes = |name: &str| {
        let found = tls.iter().find(|report| report.name == name)?;
        let TlsReport { handshakes, resumed, failed, .. } = *found;
        Some(Handshakes { handshakes, resumed, failed })
    };
    let listener = |name: String| ListenerStatus { tls: handshakes(&name), name };
    names.into_iter().map(listener).collect()
}

fn limit(report: LimitReport) -> LimitStatus {
    let LimitReport { zone, top } = report;
    LimitStatus {
        name: zone.name,
        requests: zone.requests,
        delayed: zone.delayed,
        refused: zone.refused,
        closed: zone.closed,
        dry_run: zone.dry_run,
        penalties: zone.blocks,
        keys: zone.keys,
        untracked: zone.untracked,
        top: { top.into_iter() }
            .map(|(ranked, age)| RefusedKey {
                key: ranked.key,
                refused: ranked.refused,
                error: ranked.error,
                seconds: age.as_secs(),
            })
            .collect(),
    }
}

/// Returns the certificates that listeners use, and those that the server obtains itself.
fn certificates(tls: &[TlsReport], acme: Vec<AcmeReport>) -> Vec<CertificateStatus> {
    let mut all: Vec<CertificateStatus> = Vec::new();
    for one in tls.iter().flat_map(|listener| &listener.certificates) {
        if all.iter().all(|known| known.name != one.name) {
            let expires = UNIX_EPOCH + Duration::from_secs(one.validity.until);
            let (name, names) = (one.name.clone(), one.names.clone());
            all.push(CertificateStatus { name, names, expires: date(expires), renewal: None });
        }
    }
    for one in acme {
        let (next, failures, error) = (one.next.and_then(date), one.failures, one.error);
        let renewal = Some(Renewal { next, failures, error });
        match all.iter_mut().find(|known| known.name == one.name) {
            Some(known) => known.renewal = renewal,
            None => all.push(CertificateStatus {
                name: one.name,
                names: one.domains,
                expires: one.expires.and_then(date),
                renewal,
            }),
        }
    }
    all
}

fn protected(one: Protected) -> ProcessProtection {
    ProcessProtection {
        user: one.user,
        restrictions: one.restrictions.into_iter().map(|one| one.name()).collect(),
        namespaces: one.namespaces,
    }
}

/// Formats an HTTP date; `None` after the year 9999.
fn date(time: SystemTime) -> Option<String> {
    let seconds = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    (seconds < 253_402_300_800).then(|| howdah_text::date::http_of(time))
}

fn server(server: ServerReport) -> ServerStatus {
    ServerStatus {
        address: server.address,
        state: server.state,
        active: u64::from(server.active),
        requests: server.requests,
        failures: server.failures,
    }
}
