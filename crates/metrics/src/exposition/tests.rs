//! Tests of the formats of metrics.

use howdah_wire::prometheus::{MetricFamily, MetricType};
use prost::Message;

use super::*;

fn accepted(accept: &str) -> Format {
    Format::accepted([accept.as_bytes()].into_iter())
}

#[test]
fn the_scraper_chooses_the_format() {
    // As Prometheus 2.42 and 3 send it.
    let old = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
               version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let new = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
               text/plain;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                    encoding=delimited";
    let old_native = format!("{protobuf},{}", old.replacen(",", ";q=0.8,", 1));
    let new_native = format!("{protobuf};q=0.7,{new}");
    for (accept, format) in [
        (&*old_native, Format::Protobuf),
        (&*new_native, Format::Protobuf),
        (protobuf, Format::Protobuf),
        (&*format!("{protobuf};q=0.5,{new}"), Format::OpenMetrics),
        (&*format!("{protobuf};q=0,*/*"), Format::Prometheus),
        // As Telegraf sends it.
        (&*format!("{protobuf};q=0.7,text/plain;version=0.0.4;q=0.3"), Format::Protobuf),
        (
            &*format!("text/plain,{},application/openmetrics-text", protobuf.replace(";", " ; ")),
            Format::Protobuf,
        ),
        (&*protobuf.replace("delimited", "text"), Format::Prometheus),
        (&*protobuf.replace("MetricFamily", "Metric"), Format::Prometheus),
        ("application/vnd.google.protobuf", Format::Prometheus),
        (old, Format::OpenMetrics),
        (new, Format::OpenMetrics),
        ("text/plain;version=0.0.4", Format::Prometheus),
        ("text/plain, application/openmetrics-text;q=0.9", Format::Prometheus),
        ("text/plain, Application/OpenMetrics-Text", Format::OpenMetrics),
        ("application/openmetrics-text; q=0", Format::Prometheus),
        ("application/openmetrics-text; version=2.0.0", Format::Prometheus),
        ("text/html,*/*;q=0.8", Format::Prometheus),
        ("application/openmetrics-text;q=x", Format::Prometheus),
        ("application/openmetrics-text;q", Format::Prometheus),
        ("", Format::Prometheus),
        (";;,,=", Format::Prometheus),
    ] {
        assert_eq!(accepted(accept), format, "{accept}");
    }
    assert_eq!(Format::accepted([].into_iter()), Format::Prometheus);
}

fn written(format: Format) -> Vec<u8> {
    let mut writer = Writer::new(format);
    writer.begin(Kind::Info, "a_build", "The program");
    writer.number(&[("version", "1")], 1);
    writer.begin(Kind::Gauge, "a_nothing", "Without samples");
    writer.begin(Kind::Counter, "a_sent_bytes", "Bytes");
    writer.number(&[("site", "a\\b\"c\nd"), ("x", "")], 3);
    writer.number(&[], 4);
    writer.begin(Kind::Histogram, "a_time_seconds", "Times");
    let mut histogram = Histogram::default();
    histogram.add(2_000_000);
    writer.histogram(&[("site", "s")], &histogram);
    writer.finish()
}

fn written_text(format: Format) -> String {
    String::from_utf8(written(format)).unwrap()
}

#[test]
fn both_texts_have_the_names_that_they_demand() {
    let text = written_text(Format::OpenMetrics);
    assert!(text.starts_with(
        "# HELP a_build The program.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
         # HELP a_sent_bytes Bytes.\n# TYPE a_sent_bytes counter\n# UNIT a_sent_bytes bytes\n\
         a_sent_bytes_total{site=\"a\\\\b\\\"c\\nd\",x=\"\"} 3\na_sent_bytes_total 4\n"
    ));
    assert!(text.contains("\na_time_seconds_bucket{site=\"s\",le=\"1.0\"} 0\n"), "{text}");
    assert!(text.ends_with(
        "a_time_seconds_bucket{site=\"s\",le=\"+Inf\"} 1\na_time_seconds_count{site=\"s\"} 1\n\
         a_time_seconds_sum{site=\"s\"} 2\n# EOF\n"
    ));
    let text = written_text(Format::Prometheus);
    assert!(text.contains("# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE a_sent_bytes_total counter\na_sent_bytes_total{"), "{text}");
    assert!(text.contains("\na_time_seconds_bucket{site=\"s\",le=\"1\"} 0\n"), "{text}");
    assert!(!text.contains("EOF") && !text.contains("UNIT") && !text.contains("nothing"));
}

#[test]
fn messages_have_the_names_that_prometheus_demands() {
    let bytes = written(Format::Protobuf);
    let (mut rest, mut families) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
    }
    let [build, sent, times] = &families[..] else { panic!("{families:?}") };
    assert_eq!((&*build.name, build.kind(), &*build.unit), ("a_build_info", MetricType::Gauge, ""));
    assert_eq!(build.metrics[0].gauge.unwrap().value, 1.0);
    assert_eq!(
        (&*sent.name, &*sent.help, sent.kind()),
        ("a_sent_bytes_total", "Bytes.", MetricType::Counter)
    );
    assert_eq!((&*sent.unit, sent.metrics.len()), ("bytes", 2));
    assert_eq!(sent.metrics[0].labels[0].value, "a\\b\"c\nd");
    assert_eq!(sent.metrics[1].counter.unwrap().value, 4.0);

    assert_eq!((times.kind(), &*times.unit), (MetricType::Histogram, "seconds"));
    let histogram = times.metrics[0].histogram.as_ref().unwrap();
    assert_eq!((histogram.sample_count, histogram.sample_sum), (1, 2.0));
    let classic =
        histogram.buckets.iter().map(|bucket| (bucket.upper_bound, bucket.cumulative_count));
    let classic: Vec<_> = classic.collect();
    assert_eq!(classic[10..], [(1.0, 0), (2.5, 1), (10.0, 1), (30.0, 1), (f64::INFINITY, 1)]);
    assert_eq!((histogram.schema, histogram.zero_count), (3, 0));
    let span = histogram.positive_spans[0];
    assert_eq!((span.offset, span.length, &histogram.positive_deltas[..]), (8, 1, &[1][..]));
}
