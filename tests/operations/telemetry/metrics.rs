//! Metrics over OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{eventually, free_address};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use serde_json::{Value, json};

use super::receiver::{Receiver, value};
use super::{controlled, send_many, settings, site};

/// Settings without spans, and with metrics every second.
fn every_second(more: Value) -> Value {
    let mut telemetry = json!({"sampling_ratio": 0, "metrics_interval": 1});
    harness::merge(&mut telemetry, more);
    telemetry
}

fn points(metric: &Metric) -> &[NumberDataPoint] {
    match &metric.data {
        Some(Data::Sum(sum)) => &sum.data_points,
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{other:?}"),
    }
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Number::AsDouble(number)) => number,
        other => panic!("{other:?}"),
    }
}

fn has(attributes: &[KeyValue], pairs: &[(&str, &str)]) -> bool {
    pairs.iter().all(|(name, expected)| value(attributes, name).as_deref() == Some(*expected))
}

/// Waits for a metric with a data point that has these attributes and at least this value.
fn wait_for(
    receiver: &Receiver,
    name: &str,
    attributes: &[(&str, &str)],
    least: f64,
) -> (Metric, NumberDataPoint) {
    eventually(&format!("{name} of {attributes:?} is at least {least}"), || {
        receiver.metrics(name).into_iter().find_map(|metric| {
            let fits = |point: &&NumberDataPoint| {
                has(&point.attributes, attributes) && number(point) >= least
            };
            let point = points(&metric).iter().find(fits)?.clone();
            Some((metric, point))
        })
    })
}

/// Checks the metrics of a site with a script.
fn check_metrics(receiver: &Receiver) {
    let more = every_second(json!({"service_name": "shop", "headers": {"X-Key": "secret"}}));
    let server = site(receiver, more).serve();
    assert_eq!(send_many(&server, 20), 20);
    let of_site = [("site", "site"), ("code", "2xx")];
    let (metric, point) = wait_for(receiver, "howdah_http_requests_total", &of_site, 20.0);
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2, "{sum:?}");
    assert!(has(&point.attributes, &[("method", "GET")]), "{point:?}");
    assert_eq!(number(&point), 20.0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    assert!(point.start_time_unix_nano < point.time_unix_nano && point.time_unix_nano < now);

    let (metric, start) = wait_for(receiver, "howdah_start_timestamp_seconds", &[], 1.0);
    assert_eq!((metric.unit.as_str(), start.start_time_unix_nano), ("s", 0));
    assert_eq!(number(&start) as u64, point.start_time_unix_nano / 1_000_000_000);
    let (_, info) = wait_for(receiver, "howdah_build_info", &[], 1.0);
    assert!(value(&info.attributes, "version").is_some());
    let (metric, _) =
        wait_for(receiver, "howdah_http_response_bytes_total", &[("site", "site")], 1.0);
    assert_eq!(metric.unit, "By");

    let durations = eventually("the histogram has all requests", || {
        let metrics = receiver.metrics("howdah_http_request_duration_seconds").into_iter();
        metrics.filter(|metric| metric.unit == "s").find_map(|metric| match metric.data? {
            Data::Histogram(one) => one.data_points.into_iter().find(|point| point.count == 20),
            other => panic!("{other:?}"),
        })
    });
    assert!(has(&durations.attributes, &[("site", "site")]), "{durations:?}");
    assert!(durations.explicit_bounds.contains(&0.5) && durations.explicit_bounds.is_sorted());
    assert_eq!(durations.bucket_counts.len(), durations.explicit_bounds.len() + 1);
    assert_eq!(durations.bucket_counts.iter().sum::<u64>(), 20);
    assert!(durations.sum.unwrap() > 0.0 && durations.start_time_unix_nano < now);

    let resource = &receiver.resources()[0];
    assert!(resource.contains(&("service.name".into(), "shop".into())), "{resource:?}");
    assert!(resource.iter().any(|(name, _)| name == "service.instance.id"), "{resource:?}");
    assert_eq!(receiver.fields("x-key")[0], "secret");
    assert!(receiver.spans().is_empty(), "no request was chosen");
}

#[test]
fn a_receiver_over_http_gets_the_metrics_of_a_site() {
    let receiver = Receiver::http();
    check_metrics(&receiver);
    assert!(receiver.paths().iter().all(|path| path == "/v1/metrics"));
}

#[test]
fn a_receiver_over_grpc_gets_the_metrics_of_a_site() {
    check_metrics(&Receiver::grpc());
}

#[test]
fn histograms_are_exponential_if_the_document_says_so() {
    let receiver = Receiver::http();
    let more = every_second(json!({"metrics_histograms": "exponential"}));
    let server = site(&receiver, more).serve();
    assert_eq!(send_many(&server, 20), 20);
    let found = eventually("the histogram has all requests", || {
        let metrics = receiver.metrics("howdah_http_request_duration_seconds").into_iter();
        metrics.filter_map(|metric| metric.data).find_map(|data| match data {
            Data::ExponentialHistogram(one) => {
                one.data_points.into_iter().find(|point| point.count == 20)
            }
            other => panic!("{other:?}"),
        })
    });
    let positive = found.positive.as_ref().unwrap();
    assert_eq!(positive.bucket_counts.iter().sum::<u64>() + found.zero_count, 20);
    // The mean is in the range of the buckets.
    let limit = |index: i32| 2f64.powf(f64::from(index) / 2f64.powi(found.scale));
    let end = positive.offset + positive.bucket_counts.len() as i32;
    let mean = found.sum.unwrap() / 20.0;
    assert!(limit(positive.offset) < mean && mean <= limit(end), "{found:?}");
}

#[test]
fn metrics_can_go_to_another_server_than_traces() {
    let (traces, metrics) = (Receiver::http(), Receiver::http());
    let own = format!("{}/otlp/v1/metrics", metrics.url());
    let more = json!({"metrics_interval": 1, "metrics_endpoint": own});
    let server = site(&traces, more).serve();
    assert_eq!(send_many(&server, 5), 5);
    traces.wait_for("php script", 5);
    wait_for(&metrics, "howdah_http_requests_total", &[("site", "site")], 5.0);
    assert!(traces.paths().iter().all(|path| path == "/v1/traces"));
    assert!(metrics.paths().iter().all(|path| path == "/otlp/v1/metrics"));

    // Another document names another server.
    let other = Receiver::http();
    let url = json!(other.url()).to_string();
    server.control("PUT", "/config/settings/telemetry/metrics_endpoint", &url).succeeded();
    wait_for(&other, "howdah_http_requests_total", &[("site", "site")], 5.0);
}

#[test]
fn the_loss_of_the_receiver_costs_no_request_and_the_newest_metrics_wait() {
    let address = free_address();
    let more = every_second(json!({}));
    let server = controlled().with(settings(&format!("http://{address}"), "http", more)).serve();
    server.wait_for_log("takes no metrics: the connection is refused; the newest wait for it");
    assert_eq!(send_many(&server, 100), 100);
    let receiver = Receiver::http_at(address);
    wait_for(&receiver, "howdah_http_requests_total", &[("site", "site")], 100.0);
    server.wait_for_log("takes metrics again");
    receiver.be_busy(2);
    assert_eq!(send_many(&server, 10), 10);
    wait_for(&receiver, "howdah_http_requests_total", &[("site", "site")], 110.0);
    let builds = receiver.metrics("howdah_build_info").into_iter();
    let times: Vec<_> = builds.map(|metric| points(&metric)[0].time_unix_nano).collect();
    assert!(times.is_sorted(), "no older metrics follow newer ones: {times:?}");
}

#[test]
fn lost_spans_are_counted_in_the_status_and_the_metrics() {
    let receiver = Receiver::http();
    receiver.refuse_spans();
    let server = site(&receiver, json!({"metrics_interval": 1})).serve();
    assert_eq!(send_many(&server, 5), 5);
    server.wait_for_log("takes no spans: status 400");
    let lost = eventually("all spans are lost", || {
        let status = server.control("GET", "/status/telemetry", "").succeeded();
        status["spans_lost"].as_u64().filter(|lost| *lost == 15)
    });
    wait_for(&receiver, "howdah_telemetry_spans_lost_total", &[], lost as f64);
}
