//! Native histograms: the messages that a scraper gets, and what a real Prometheus makes of them.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use harness::client::{Client, Response};
use harness::{Server, Site, eventually, free_address, requirements};
use howdah_wire::prometheus::{Histogram, MEDIA_TYPE, MetricFamily};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Run time of the script in microseconds.
const RUN_TIME: u64 = 20_000;

/// Index of the bucket with this run time in seconds: above 2^(-46/8), up to 2^(-45/8).
const RUN_TIME_INDEX: i32 = -45;

/// Serves a script, and metrics on an address.
fn serve(metrics: SocketAddr) -> Server {
    Site::script("a.php", &format!("usleep({RUN_TIME}); echo 'done';"))
        .with(json!({"settings": {"metrics": {"listen": metrics.to_string()}}}))
        .serve()
}

fn get(address: SocketAddr, target: &str, accept: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!(
        "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
    ));
    client.response()
}

/// Asks for metrics as Prometheus does with native histograms.
fn scrape(address: SocketAddr) -> Vec<MetricFamily> {
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
                  encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8,\
                  text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let response = get(address, "/metrics", accept);
    assert_eq!((response.status, response.field("content-type")), (200, Some(MEDIA_TYPE)));
    assert_eq!(response.field("vary"), Some("Accept"));
    let (mut rest, mut families) = (&response.body[..], Vec::new());
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
    }
    families
}

/// Returns the histogram of a family with this value of a label.
fn histogram(families: &[MetricFamily], name: &str, label: &str) -> Option<Histogram> {
    let family = families.iter().find(|family| family.name == name)?;
    let mut metrics = family.metrics.iter();
    let metric = metrics.find(|metric| metric.labels.iter().any(|one| one.value == label))?;
    metric.histogram.clone()
}

/// Returns the index of the first native bucket, and the number of times in all of them.
fn native(histogram: &Histogram) -> (i32, u64) {
    let counts = histogram.positive_deltas.iter().scan(0, |count, delta| {
        *count += delta;
        Some(*count)
    });
    let sum = u64::try_from(counts.sum::<i64>()).unwrap();
    (histogram.positive_spans[0].offset, histogram.zero_count + sum)
}

#[test]
fn a_scraper_of_messages_gets_native_and_classic_buckets() {
    let address = free_address();
    let server = serve(address);
    for _ in 0..3 {
        assert_eq!(server.get("/a.php").status, 200);
    }
    let (whole, script) = eventually("three requests are counted", || {
        let families = scrape(address);
        let part = "howdah_http_request_part_duration_seconds";
        let script = histogram(&families, part, "script")?;
        let whole = histogram(&families, "howdah_http_request_duration_seconds", "site")?;
        (script.sample_count == 3).then_some((whole, script))
    });
    for histogram in [whole, script] {
        let (first, count) = native(&histogram);
        assert!(first >= RUN_TIME_INDEX, "{histogram:?}");
        assert_eq!((count, histogram.sample_count), (3, 3), "{histogram:?}");
        assert_eq!((histogram.schema, histogram.zero_count), (3, 0));
        assert!(histogram.sample_sum >= 3.0 * RUN_TIME as f64 / 1e6);
        let last = histogram.buckets.last().unwrap();
        assert_eq!((last.upper_bound, last.cumulative_count), (f64::INFINITY, 3));
    }
}

/// A real Prometheus that asks for native histograms; stopped on drop.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts it with this target. Returns `None` and reports that the test is skipped if it is not
    /// installed.
    #[track_caller]
    fn start(target: SocketAddr) -> Option<Prometheus> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            requirements::skipped("prometheus is not installed (Debian's package prometheus)");
            return None;
        }
        let directory = tempfile::Builder::new().prefix("howdah-prometheus-").tempdir().unwrap();
        let rules = "packaging/monitoring/prometheus/howdah-recording.yml";
        // JSON is YAML.
        let configuration = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [Path::new(env!("CARGO_MANIFEST_DIR")).join(rules)],
            "scrape_configs": [
                {"job_name": "howdah", "static_configs": [{"targets": [target.to_string()]}]},
            ],
        });
        let file = directory.path().join("prometheus.yml");
        fs::write(&file, configuration.to_string()).unwrap();
        let (data, address) = (directory.path().join("data"), free_address());
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--enable-feature=native-histograms", "--log.level=error"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { child, address, _directory: directory };
        eventually("Prometheus is ready", || {
            TcpStream::connect(address).ok()?;
            (get(address, "/-/ready", "*/*").status == 200).then_some(())
        });
        Some(prometheus)
    }

    /// Returns the values of the series of a query, in JSON.
    fn query(&self, query: &str) -> Vec<Value> {
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let target = format!("/api/v1/query?query={escaped}");
        let response = get(self.address, &target, "application/json");
        assert_eq!(response.status, 200, "{response:?}");
        let answer: Value = serde_json::from_slice(&response.body).unwrap();
        let series = answer["data"]["result"].as_array().unwrap();
        series.iter().map(|series| series["value"][1].clone()).collect()
    }

    /// Returns the number that is the only answer to a query; `None` as long as there is none.
    fn number(&self, query: &str) -> Option<f64> {
        let [value] = &self.query(query)[..] else { return None };
        let number: f64 = value.as_str()?.parse().ok()?;
        number.is_finite().then_some(number)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_computes_quantiles_of_native_histograms() {
    let address = free_address();
    let server = serve(address);
    let Some(prometheus) = Prometheus::start(address) else { return };
    let shortest = 2_f64.powf(f64::from(RUN_TIME_INDEX - 1) / 8.0);
    let whole = "howdah_http_request_duration_seconds{site=\"site\"}";
    let script = "howdah_http_request_part_duration_seconds{part=\"script\"}";
    for query in [
        format!("histogram_quantile(0.99, rate({whole}[1m]))"),
        format!("histogram_quantile(0.01, rate({whole}[1m]))"),
        format!("histogram_quantile(0.5, rate({script}[1m]))"),
        "site:howdah_http_request_duration_seconds:p95_rate5m{site=\"site\"}".to_owned(),
    ] {
        let quantile = eventually(&query, || {
            assert_eq!(server.get("/a.php").status, 200);
            prometheus.number(&query)
        });
        assert!(quantile >= shortest, "{query} is {quantile}");
    }
    let times = prometheus.number(&format!("histogram_count({whole})")).unwrap();
    assert!(times > 0.0);
    // The quantiles cannot be of classic buckets: Prometheus has none.
    let classic = prometheus.query("howdah_http_request_duration_seconds_bucket");
    assert!(classic.is_empty(), "{classic:?}");
    assert_eq!(prometheus.number("up"), Some(1.0));
}
