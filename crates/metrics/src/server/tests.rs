//! Tests of the whole text.

mod names;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use howdah_http::exchange::SendOutcome;
use howdah_questions::{
    ApplicationStatus, CacheStatus, CertificateStatus, Handshakes, JobStatus, LimitStatus,
    ListenerStatus, OpcacheStatus, PartStatus, PhpStatus, ProgramStatus, Renewal, ServerStatus,
    TelemetryStatus, UpstreamStatus,
};
use howdah_wire::prometheus::MetricFamily;
use prost::Message;

use super::*;
use crate::{FinishedRequest, Parts, Tally};

/// A status with one of everything, and names that need escapes.
fn status() -> Status {
    let mut status = Status::default();
    let date = Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned());
    status.server = Some(ProgramStatus {
        version: "1.2.3".to_owned(),
        started: date.clone(),
        ..ProgramStatus::default()
    });
    let name = || "a \"name\"\nwith \\".to_owned();
    let mut php = PhpStatus { opcache: Some(OpcacheStatus::default()), ..PhpStatus::default() };
    php.activity.ends.insert("signal_11".to_owned(), 2);
    php.activity.cpu_us = 1_500_000;
    status.applications.insert(name(), ApplicationStatus::default());
    status.php.insert(name(), php);
    let server = ServerStatus { state: "up".into(), ..ServerStatus::default() };
    let upstream = UpstreamStatus { servers: [(name(), server)].into_iter().collect() };
    status.upstreams.insert(name(), upstream);
    let tls = Handshakes {
        versions: [("TLSv1.3".to_owned(), 1)].into_iter().collect(),
        handshakes: 1,
        ..Handshakes::default()
    };
    status.listeners.insert(name(), ListenerStatus { tls: Some(tls) });
    let certificate = CertificateStatus {
        expires: date,
        renewal: Some(Renewal::default()),
        ..CertificateStatus::default()
    };
    status.certificates.insert(name(), certificate);
    status.caches.insert(name(), CacheStatus::default());
    status.limits.insert(name(), LimitStatus::default());
    let job = JobStatus { last_start: Some(7), last_duration: Some(8), ..JobStatus::default() };
    status.jobs.entry(name()).or_default().insert(name(), job);
    status.telemetry = Some(TelemetryStatus { spans_lost: 5 });
    status.out.push(PartStatus { kind: "listener".into(), ..PartStatus::default() });
    status
}

fn totals(sites: usize) -> Totals {
    let (mut totals, tally) = (Totals::default(), Tally::default());
    let listener = Arc::from("*:80");
    for site in 0..sites {
        let parts = Parts { queue: Some(1), script: Some(2), sending: Some(3), ..Parts::default() };
        tally.add(&FinishedRequest {
            site: &Arc::from(format!("site{site}")),
            listener: &listener,
            trace: None,
            id: None,
            method: b"GET",
            target: b"/secret",
            status: 200,
            received: 1,
            sent: 2,
            whole: Duration::from_millis(3),
            parts,
            script: None,
            cache_status: None,
            outcome: SendOutcome::Complete,
            handling: None,
        });
    }
    for (site, listener, counts) in tally.take() {
        totals.add(&site, &listener, &counts);
    }
    totals.add_lag(1, Duration::from_micros(20));
    totals
}

fn text(totals: &Totals, format: Format) -> String {
    String::from_utf8(page(&status(), totals, &ProcessFacts::default(), format)).unwrap()
}

#[test]
fn each_family_stands_once_with_its_description() {
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let text = text(&totals(3), format);
        let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
        let mut family = "";
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(help) = line.strip_prefix("# HELP ") {
                family = help.split(' ').next().unwrap();
                assert!(families.insert(family), "{family} stands twice");
                assert!(family.starts_with("howdah_"), "{family}");
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ").or(line.strip_prefix("# UNIT ")) {
                assert!(rest.starts_with(&format!("{family} ")), "{line}");
                continue;
            }
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(family), "{line} is not of {family}");
            assert!(series.insert(name), "{name} stands twice");
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
        assert!(!text.contains("secret"), "a path is shown");
        for part in [
            "howdah_http_requests_total{site=\"site1\",listener=\"*:80\",method=\"GET\",\
             code=\"2xx\"} 1\n",
            "howdah_http_request_part_duration_seconds_count{site=\"site0\",part=\"script\"} 1\n",
            "howdah_php_process_ends_total{application=\"a \\\"name\\\"\\nwith \\\\\",\
             reason=\"signal_11\"} 2\n",
            "with \\\\\"} 784111777\n",
            "howdah_php_cpu_seconds_total{application=\"a \\\"name\\\"\\nwith \\\\\"} 1.5\n",
            "howdah_event_loop_lag_seconds_count{thread=\"1\"} 1\n",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert!(!text.contains("part=\"upstream\""), "no request had an upstream");
    }
}

#[test]
fn a_thousand_sites_have_a_series_each() {
    let text = text(&totals(1000), Format::Prometheus);
    let lines = text.lines().filter(|line| line.starts_with("howdah_http_requests_total{"));
    assert_eq!(lines.count(), 1000);
}

#[test]
fn messages_have_the_values_of_the_text() {
    let totals = totals(3);
    let text = text(&totals, Format::OpenMetrics);
    let bytes = page(&status(), &totals, &ProcessFacts::default(), Format::Protobuf);
    let (mut rest, mut names, mut found) = (&bytes[..], BTreeSet::new(), BTreeSet::new());
    while !rest.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut rest).unwrap();
        for metric in &family.metrics {
            let escape =
                |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels: Vec<_> = { metric.labels.iter() }
                .map(|label| format!("{}=\"{}\"", label.name, escape(&label.value)))
                .collect();
            let mut line = |suffix: &str, limit: Option<String>, value: f64| {
                let labels = labels.iter().cloned().chain(limit).collect::<Vec<_>>().join(",");
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                assert!(found.insert(format!("{}{suffix}{labels} {value}", family.name)));
            };
            metric.gauge.iter().for_each(|gauge| line("", None, gauge.value));
            metric.counter.iter().for_each(|counter| line("", None, counter.value));
            if let Some(histogram) = &metric.histogram {
                for bucket in &histogram.buckets {
                    let limit = match bucket.upper_bound {
                        f64::INFINITY => "+Inf".to_owned(),
                        limit => format!("{limit:?}"),
                    };
                    let limit = format!("le=\"{limit}\"");
                    line("_bucket", Some(limit), bucket.cumulative_count as f64);
                }
                line("_count", None, histogram.sample_count as f64);
                line("_sum", None, histogram.sample_sum);
                assert!(histogram.zero_threshold > 0.0, "native buckets are missing");
            }
        }
        assert!(names.insert(family.name.clone()), "{} stands twice", family.name);
    }
    let expected: BTreeSet<_> =
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(found, expected);
}
