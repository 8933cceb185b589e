//! Tests of the text of metrics.

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
    for (accept, format) in [
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

fn written(format: Format) -> String {
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

#[test]
fn both_formats_have_the_names_that_they_demand() {
    let text = written(Format::OpenMetrics);
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
    let text = written(Format::Prometheus);
    assert!(text.contains("# TYPE a_build_info gauge\na_build_info{version=\"1\"} 1\n"), "{text}");
    assert!(text.contains("# TYPE a_sent_bytes_total counter\na_sent_bytes_total{"), "{text}");
    assert!(text.contains("\na_time_seconds_bucket{site=\"s\",le=\"1\"} 0\n"), "{text}");
    assert!(!text.contains("EOF") && !text.contains("UNIT") && !text.contains("nothing"));
}
