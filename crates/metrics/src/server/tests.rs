//! Tests of the whole text.

mod names;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use howdah_http::exchange::SendOutcome;
use howdah_questions::{
    ApplicationStatus, CacheStatus, CertificateStatus, Handshakes, LimitStatus, ListenerStatus,
    OpcacheStatus, PartStatus, PhpStatus, ProgramStatus, Renewal, ServerStatus, UpstreamStatus,
};

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

#[test]
fn each_family_stands_once_with_its_description() {
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let text = page(&status(), &totals(3), &ProcessFacts::default(), format);
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
    let text = page(&status(), &totals(1000), &ProcessFacts::default(), Format::Prometheus);
    let lines = text.lines().filter(|line| line.starts_with("howdah_http_requests_total{"));
    assert_eq!(lines.count(), 1000);
}
