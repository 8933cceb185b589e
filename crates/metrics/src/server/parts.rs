//! Metrics of upstreams, TLS, certificates, caches, limits, jobs, and parts that are out.

use std::collections::BTreeMap;

use howdah_questions::{CacheStatus, JobStatus, LimitStatus, PartStatus, ServerStatus, Status};

use super::put_date;
use crate::exposition::{Kind, Writer};

/// Writes the metrics.
pub(super) fn write(status: &Status, out: &mut Writer) {
    upstreams(status, out);
    tls(status, out);
    caches(status, out);
    limits(status, out);
    jobs(status, out);
    if let Some(cluster) = &status.cluster {
        out.begin(
            Kind::Gauge,
            "howdah_cluster_connected",
            "1 if the server for shared purges and limits answers",
        );
        out.number(&[], cluster.connected.into());
    }
    if let Some(telemetry) = &status.telemetry {
        out.begin(
            Kind::Counter,
            "howdah_telemetry_spans_lost",
            "Spans that no server of OpenTelemetry has got",
        );
        out.number(&[], telemetry.spans_lost);
    }
    out.begin(Kind::Gauge, "howdah_parts_out", "Parts of the document that cannot run, by kind");
    kinds(&status.out, out);
    out.begin(
        Kind::Gauge,
        "howdah_parts_with_warnings",
        "Parts of the document that will be out soon, or are busy, by kind",
    );
    kinds(&status.warnings, out);
}

fn jobs(status: &Status, out: &mut Writer) {
    let mut one = |kind, family, help, number: &dyn Fn(&JobStatus) -> Option<u64>| {
        out.begin(kind, family, help);
        for (application, jobs) in &status.jobs {
            for (name, job) in jobs {
                let labels = [("application", application.as_str()), ("job", name.as_str())];
                number(job).into_iter().for_each(|number| out.number(&labels, number));
            }
        }
    };
    let count = |processes: &[u32]| u64::try_from(processes.len()).ok();
    one(Kind::Gauge, "howdah_job_processes", "Processes of the job", &|job| count(&job.processes));
    one(Kind::Counter, "howdah_job_runs", "Runs of the job", &|job| Some(job.runs));
    one(Kind::Counter, "howdah_job_failures", "Runs of the job that have failed", &|job| {
        Some(job.failed)
    });
    one(Kind::Counter, "howdah_job_left_out", "Runs left out, as one before went on", &|job| {
        Some(job.left_out)
    });
    one(
        Kind::Gauge,
        "howdah_job_last_start_timestamp_seconds",
        "Start of the last run of the job",
        &|job| job.last_start,
    );
    out.begin(
        Kind::Gauge,
        "howdah_job_last_duration_seconds",
        "Duration of the last run of the job that has ended",
    );
    for (application, jobs) in &status.jobs {
        for (name, job) in jobs {
            let labels = [("application", application.as_str()), ("job", name.as_str())];
            let micros = job.last_duration.map(|ms| ms.saturating_mul(1000));
            micros.into_iter().for_each(|micros| out.micros(&labels, micros));
        }
    }
}

fn kinds(parts: &[PartStatus], out: &mut Writer) {
    let mut kinds = BTreeMap::<&str, u64>::new();
    parts.iter().for_each(|part| *kinds.entry(&part.kind).or_default() += 1);
    kinds.into_iter().for_each(|(kind, count)| out.number(&[("kind", kind)], count));
}

fn upstreams(status: &Status, out: &mut Writer) {
    let mut one = |kind, family, help, number: &dyn Fn(&ServerStatus) -> u64| {
        out.begin(kind, family, help);
        for (upstream, found) in &status.upstreams {
            for (server, state) in &found.servers {
                out.number(&[("upstream", upstream), ("server", server)], number(state));
            }
        }
    };
    one(Kind::Gauge, "howdah_upstream_server_up", "1 if the server gets requests", &|server| {
        matches!(&*server.state, "up").into()
    });
    one(Kind::Counter, "howdah_upstream_tries", "Requests passed to the server", &|server| {
        server.requests.total
    });
    one(Kind::Counter, "howdah_upstream_failures", "Requests that failed there", &|server| {
        server.failures
    });
    one(Kind::Gauge, "howdah_upstream_active_requests", "Requests in progress there", &|server| {
        server.requests.active
    });
}

fn tls(status: &Status, out: &mut Writer) {
    let listeners =
        || { status.listeners.iter() }.filter_map(|(name, of)| Some((name, of.tls.as_ref()?)));
    out.begin(Kind::Counter, "howdah_tls_handshakes", "Handshakes by their result");
    for (listener, tls) in listeners() {
        let full = tls.handshakes.saturating_sub(tls.resumed);
        for (result, count) in [("full", full), ("resumed", tls.resumed), ("failed", tls.failed)] {
            out.number(&[("listener", listener), ("result", result)], count);
        }
    }
    out.begin(Kind::Counter, "howdah_tls_protocol_handshakes", "Handshakes by version of TLS");
    for (listener, tls) in listeners() {
        for (version, count) in &tls.versions {
            out.number(&[("listener", listener), ("version", version)], *count);
        }
    }
    out.begin(
        Kind::Gauge,
        "howdah_certificate_expiry_timestamp_seconds",
        "Time at which the certificate expires",
    );
    for (name, certificate) in &status.certificates {
        put_date(certificate.expires.as_deref(), &[("certificate", name)], out);
    }
    out.begin(
        Kind::Gauge,
        "howdah_certificate_renewal_failures",
        "Attempts to obtain the certificate that failed since the last success",
    );
    for (name, certificate) in &status.certificates {
        if let Some(renewal) = &certificate.renewal {
            out.number(&[("certificate", name)], renewal.failures.into());
        }
    }
}

fn caches(status: &Status, out: &mut Writer) {
    out.begin(Kind::Counter, "howdah_cache_requests", "Requests to the cache by their result");
    for (name, cache) in &status.caches {
        let CacheStatus { hits, stale, collapsed, misses, bypassed, revalidated, .. } = cache;
        for (result, count) in [
            ("hit", hits),
            ("stale", stale),
            ("collapsed", collapsed),
            ("miss", misses),
            ("bypass", bypassed),
            ("revalidated", revalidated),
        ] {
            out.number(&[("cache", name), ("result", result)], *count);
        }
    }
    let mut one = |kind, family, help, number: &dyn Fn(&CacheStatus) -> Option<u64>| {
        out.begin(kind, family, help);
        for (name, cache) in &status.caches {
            number(cache).into_iter().for_each(|number| out.number(&[("cache", name)], number));
        }
    };
    one(Kind::Counter, "howdah_cache_stored", "Responses that were stored", &|cache| {
        Some(cache.stored)
    });
    one(Kind::Counter, "howdah_cache_purges", "Purges", &|cache| Some(cache.purges));
    one(Kind::Gauge, "howdah_cache_entries", "Entries in memory", &|cache| Some(cache.entries));
    one(Kind::Gauge, "howdah_cache_memory_bytes", "Bytes of entries in memory", &|cache| {
        Some(cache.bytes)
    });
    one(Kind::Gauge, "howdah_cache_memory_limit_bytes", "Maximum of these bytes", &|cache| {
        Some(cache.memory)
    });
    one(Kind::Gauge, "howdah_cache_disk_bytes", "Bytes of entries on the disk", &|cache| {
        cache.disk.map(|disk| disk.disk_bytes)
    });
    one(Kind::Counter, "howdah_cache_disk_errors", "Failed operations of the disk", &|cache| {
        cache.disk.map(|disk| disk.disk_errors)
    });
}

fn limits(status: &Status, out: &mut Writer) {
    let mut one = |kind, family, help, number: &dyn Fn(&LimitStatus) -> u64| {
        out.begin(kind, family, help);
        for (name, limit) in &status.limits {
            out.number(&[("limit", name)], number(limit));
        }
    };
    one(Kind::Counter, "howdah_limit_requests", "Requests with a key of the limit", &|limit| {
        limit.requests
    });
    one(Kind::Counter, "howdah_limit_delayed_requests", "Requests that had to wait", &|limit| {
        limit.delayed
    });
    one(Kind::Counter, "howdah_limit_refused_requests", "Refused requests", &|limit| limit.refused);
    one(
        Kind::Counter,
        "howdah_limit_dry_run_requests",
        "Requests that a dry run would have refused",
        &|limit| limit.dry_run,
    );
    one(Kind::Gauge, "howdah_limit_keys", "Keys with a debt or a refusal", &|limit| limit.keys);
    one(
        Kind::Counter,
        "howdah_limit_untracked_requests",
        "Requests whose key was not kept as the table was full",
        &|limit| limit.untracked,
    );
}
