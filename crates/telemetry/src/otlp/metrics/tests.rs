use howdah_wire::messages::{MetricsRoute, OtlpServer};
use howdah_wire::prometheus::{self, Bucket, BucketSpan, Counter, MetricFamily};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Text;
use proptest::prelude::*;

use super::*;

const TIMES: MetricsTimes = MetricsTimes { started: 1_000, measured: 2_000 };

fn route(is_exponential: bool) -> TelemetryRoute {
    let server = OtlpServer { host: "a".into(), port: 1, is_tls: false, path: "/v1/traces".into() };
    TelemetryRoute {
        metrics: Some(MetricsRoute { server: server.clone(), is_exponential }),
        server,
        is_grpc: false,
        headers: Vec::new(),
        authorities: None,
        resolver: Vec::new(),
        attributes: vec![("service.name".into(), "shop".into())],
        batch_size: 1,
    }
}

fn labels(site: &str) -> Vec<LabelPair> {
    vec![LabelPair { name: "site".into(), value: site.into() }]
}

fn gauge(site: &str, value: f64) -> Sent {
    let gauge = Some(prometheus::Gauge { value });
    Sent { labels: labels(site), gauge, ..Sent::default() }
}

fn counter(site: &str, value: f64) -> Sent {
    Sent { labels: labels(site), counter: Some(Counter { value }), ..Sent::default() }
}

fn histogram() -> Sent {
    let bucket = |cumulative_count, upper_bound| Bucket { cumulative_count, upper_bound };
    let histogram = prometheus::Histogram {
        sample_count: 3,
        sample_sum: 1.5,
        buckets: vec![bucket(1, 0.5), bucket(3, 1.0)],
        schema: 3,
        zero_threshold: 1e-6,
        zero_count: 1,
        positive_spans: vec![BucketSpan { offset: -8, length: 2 }],
        positive_deltas: vec![1, 0],
        ..prometheus::Histogram::default()
    };
    Sent { histogram: Some(histogram), ..Sent::default() }
}

fn family(name: &str, kind: MetricType, unit: &str, metrics: Vec<Sent>) -> Vec<u8> {
    MetricFamily {
        name: name.into(),
        help: "About it".into(),
        kind: kind.into(),
        metrics,
        unit: unit.into(),
    }
    .encode_length_delimited_to_vec()
}

/// Decodes messages with the official types.
fn decoded(families: &[u8], is_exponential: bool) -> Vec<Vec<Metric>> {
    let route = route(is_exponential);
    let messages = Messages::new(families, TIMES, &route);
    let decode = |(bytes, points): (Vec<u8>, u64)| {
        assert!(bytes.len() < 2 * MESSAGE_BYTES && points > 0, "{} {points}", bytes.len());
        let mut request = ExportMetricsServiceRequest::decode(&bytes[..]).unwrap();
        let mut resource = request.resource_metrics.remove(0);
        assert_eq!(resource.resource.unwrap().attributes[0].key, "service.name");
        resource.scope_metrics.remove(0).metrics
    };
    messages.map(decode).collect()
}

fn only(families: &[u8], is_exponential: bool) -> Vec<Metric> {
    let mut messages = decoded(families, is_exponential);
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

#[test]
fn counters_and_gauges_become_those_of_opentelemetry() {
    let families = [
        family("howdah_x_total", MetricType::Counter, "", vec![counter("a", 1.0)]),
        family(
            "howdah_y_bytes",
            MetricType::Gauge,
            "bytes",
            vec![gauge("a", 2.0), gauge("b", 3.0)],
        ),
        family("howdah_empty", MetricType::Gauge, "", vec![]),
        family("howdah_summary", MetricType::Summary, "", vec![gauge("a", 1.0)]),
    ];
    let metrics = only(&families.concat(), false);
    assert_eq!(metrics.len(), 2);
    let [counter, gauge] = &metrics[..] else { panic!() };
    assert_eq!(
        (counter.name.as_str(), counter.unit.as_str(), counter.description.as_str()),
        ("howdah_x_total", "", "About it")
    );
    let Some(Data::Sum(sum)) = &counter.data else { panic!() };
    assert!(sum.is_monotonic && sum.aggregation_temporality == 2);
    let point = &sum.data_points[0];
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1_000, 2_000));
    assert_eq!(point.value, Some(Value::AsDouble(1.0)));
    assert_eq!(gauge.unit, "By");
    let Some(Data::Gauge(gauge)) = &gauge.data else { panic!() };
    let value = |point: &NumberDataPoint| match point.attributes[0].value.clone().unwrap().value {
        Some(Text::StringValue(site)) => (site, point.value, point.start_time_unix_nano),
        other => panic!("{other:?}"),
    };
    let values: Vec<_> = gauge.data_points.iter().map(value).collect();
    let expected =
        [("a", 2.0), ("b", 3.0)].map(|(site, v)| (site.to_owned(), Some(Value::AsDouble(v)), 0));
    assert_eq!(values, expected);
}

#[test]
fn histograms_have_the_form_of_the_document() {
    let name = "howdah_x_seconds";
    let families = family(name, MetricType::Histogram, "seconds", vec![histogram(), histogram()]);
    let metric = only(&families, false).remove(0);
    assert_eq!(metric.unit, "s");
    let Some(Data::Histogram(explicit)) = metric.data else { panic!() };
    assert_eq!((explicit.data_points.len(), explicit.aggregation_temporality), (2, 2));
    let point = &explicit.data_points[0];
    assert_eq!((point.count, point.sum, point.start_time_unix_nano), (3, Some(1.5), 1_000));
    assert_eq!(
        (&point.bucket_counts[..], &point.explicit_bounds[..]),
        (&[1, 2, 0][..], &[0.5, 1.0][..])
    );

    let Some(Data::ExponentialHistogram(found)) = only(&families, true).remove(0).data else {
        panic!()
    };
    assert_eq!((found.data_points.len(), found.aggregation_temporality), (2, 2));
    let point = &found.data_points[0];
    assert_eq!((point.count, point.sum, point.scale, point.zero_count), (3, Some(1.5), 3, 1));
    assert_eq!(point.zero_threshold, 1e-6);
    let positive = point.positive.as_ref().unwrap();
    assert_eq!((positive.offset, &positive.bucket_counts[..]), (-9, &[1, 1][..]));

    // A histogram without native buckets has explicit ones in any case.
    let mut classic = histogram();
    let inner = classic.histogram.as_mut().unwrap();
    (inner.zero_threshold, inner.positive_spans) = (0.0, Vec::new());
    let families = family(name, MetricType::Histogram, "seconds", vec![classic, histogram()]);
    let Some(Data::Histogram(explicit)) = only(&families, true).remove(0).data else { panic!() };
    assert_eq!(explicit.data_points.len(), 1);
}

#[test]
fn the_metrics_of_many_sites_become_several_messages() {
    let sites = || (0..20_000).map(|site| gauge(&format!("site-{site}"), site.into()));
    let families = [
        family("howdah_x", MetricType::Gauge, "", sites().collect()),
        family("howdah_y", MetricType::Gauge, "", sites().collect()),
    ];
    let messages = decoded(&families.concat(), false);
    assert!(messages.len() >= 2, "{}", messages.len());
    let points = |name| {
        let metrics = messages.iter().flatten().filter(|metric| metric.name == name);
        let points = metrics.map(|metric| match &metric.data {
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            other => panic!("{other:?}"),
        });
        points.sum::<usize>()
    };
    assert_eq!((points("howdah_x"), points("howdah_y")), (20_000, 20_000));
}

proptest! {
    #[test]
    fn no_metrics_make_the_conversion_fail(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        changes in prop::collection::vec((0usize..1000, any::<u8>()), 0..4),
        kind in 0i32..6,
        is_exponential: bool,
    ) {
        decoded(&bytes, is_exponential);
        let kind = MetricType::try_from(kind).unwrap();
        let metrics = vec![histogram(), gauge("a", 1.0), counter("b", f64::NAN)];
        let mut families = family("howdah_x", kind, "seconds", metrics);
        for (at, byte) in changes {
            let at = at % families.len();
            families[at] = byte;
        }
        decoded(&families, is_exponential);
    }
}
