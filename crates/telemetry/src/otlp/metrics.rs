//! Messages with metrics: the metrics of [`howdah_wire::prometheus`] as OpenTelemetry has them.
//!
//! Names stay as they are, so that both ways to get metrics give the same ones. Counters and
//! histograms are cumulative, since the start that the router has named.

use howdah_wire::messages::TelemetryRoute;
use howdah_wire::metrics::MetricsTimes;
use howdah_wire::prometheus::{Families, Family, LabelPair, Metric as Sent, MetricType};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum,
};
use prost::Message;

use super::histograms::{Explicit, Exponential};
use super::{attribute, resource, scope, text};

/// Bytes of data points with which a message is complete, far below what servers take (4 MiB with
/// gRPC).
const MESSAGE_BYTES: usize = 1 << 20;

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// Messages with all metrics of a router, each with its number of data points. They are made one at
/// a time.
pub(crate) struct Messages<'a> {
    families: Families<'a>,
    /// The family whose metrics did not all fit the last message.
    current: Option<Family<'a>>,
    times: MetricsTimes,
    route: &'a TelemetryRoute,
}

impl<'a> Messages<'a> {
    /// Starts with the families of a router, each after its length.
    pub(crate) fn new(
        families: &'a [u8],
        times: MetricsTimes,
        route: &'a TelemetryRoute,
    ) -> Messages<'a> {
        Messages { families: Families(families), current: None, times, route }
    }

    fn encode(&self, metrics: Vec<Metric>) -> Vec<u8> {
        let scope_metrics =
            ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
        let resource_metrics = ResourceMetrics {
            resource: Some(resource(&self.route.attributes)),
            scope_metrics: vec![scope_metrics],
            ..ResourceMetrics::default()
        };
        ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
    }

    fn is_exponential(&self) -> bool {
        self.route.metrics.as_ref().is_some_and(|metrics| metrics.is_exponential)
    }
}

impl Iterator for Messages<'_> {
    type Item = (Vec<u8>, u64);

    fn next(&mut self) -> Option<(Vec<u8>, u64)> {
        let (mut metrics, mut bytes, mut points) = (Vec::new(), 0, 0);
        while bytes < MESSAGE_BYTES {
            let Some(mut family) = self.current.take().or_else(|| self.families.next()) else {
                break;
            };
            let mut data = None;
            while bytes < MESSAGE_BYTES {
                let Some(sent) = family.next_metric() else { break };
                let is_exponential = self.is_exponential();
                let Some(one) = converted(family.kind, &sent, self.times, is_exponential) else {
                    continue;
                };
                let length = one.encoded_len();
                if join(&mut data, one) {
                    bytes += length;
                    points += 1;
                }
            }
            if data.is_some() {
                bytes += family.name.len() + family.help.len();
                metrics.push(Metric {
                    name: family.name.to_owned(),
                    description: family.help.to_owned(),
                    unit: unit(&family).to_owned(),
                    data,
                    ..Metric::default()
                });
            }
            if bytes >= MESSAGE_BYTES {
                self.current = Some(family);
            }
        }
        (points > 0).then(|| (self.encode(metrics), points))
    }
}

/// Returns the data of one metric, as a single data point; `None` if it has no value of the kind of
/// its family.
fn converted(
    kind: MetricType,
    sent: &Sent,
    times: MetricsTimes,
    wants_exponential: bool,
) -> Option<Data> {
    let attributes: Vec<_> = sent.labels.iter().map(label).collect();
    let MetricsTimes { started, measured } = times;
    let started = started.min(measured);
    let number = |value, start_time_unix_nano| NumberDataPoint {
        attributes: attributes.clone(),
        start_time_unix_nano,
        time_unix_nano: measured,
        value: Some(Value::AsDouble(value)),
        ..NumberDataPoint::default()
    };
    match kind {
        MetricType::Counter => Some(Data::Sum(Sum {
            data_points: vec![number(sent.counter?.value, started)],
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        })),
        MetricType::Gauge => {
            Some(Data::Gauge(Gauge { data_points: vec![number(sent.gauge?.value, 0)] }))
        }
        MetricType::Histogram => {
            let histogram = sent.histogram.as_ref()?;
            let exponential = if wants_exponential { Exponential::of(histogram) } else { None };
            Some(match exponential {
                Some(Exponential { scale, positive, negative }) => {
                    let point = ExponentialHistogramDataPoint {
                        attributes,
                        start_time_unix_nano: started,
                        time_unix_nano: measured,
                        count: histogram.sample_count,
                        sum: Some(histogram.sample_sum),
                        scale,
                        zero_count: histogram.zero_count,
                        positive: Some(positive),
                        negative: Some(negative),
                        zero_threshold: histogram.zero_threshold,
                        ..ExponentialHistogramDataPoint::default()
                    };
                    Data::ExponentialHistogram(ExponentialHistogram {
                        data_points: vec![point],
                        aggregation_temporality: CUMULATIVE,
                    })
                }
                None => {
                    let Explicit { bounds, counts } = Explicit::of(histogram);
                    let point = HistogramDataPoint {
                        attributes,
                        start_time_unix_nano: started,
                        time_unix_nano: measured,
                        count: histogram.sample_count,
                        sum: Some(histogram.sample_sum),
                        bucket_counts: counts,
                        explicit_bounds: bounds,
                        ..HistogramDataPoint::default()
                    };
                    Data::Histogram(Histogram {
                        data_points: vec![point],
                        aggregation_temporality: CUMULATIVE,
                    })
                }
            })
        }
        MetricType::Summary | MetricType::Untyped | MetricType::GaugeHistogram => None,
    }
}

/// Adds the data point of another metric. Returns false if it is of another kind: a metric of
/// OpenTelemetry has data points of one kind.
fn join(all: &mut Option<Data>, one: Data) -> bool {
    match (all, one) {
        (all @ None, one) => *all = Some(one),
        (Some(Data::Gauge(all)), Data::Gauge(one)) => all.data_points.extend(one.data_points),
        (Some(Data::Sum(all)), Data::Sum(one)) => all.data_points.extend(one.data_points),
        (Some(Data::Histogram(all)), Data::Histogram(one)) => {
            all.data_points.extend(one.data_points);
        }
        (Some(Data::ExponentialHistogram(all)), Data::ExponentialHistogram(one)) => {
            all.data_points.extend(one.data_points);
        }
        _ => return false,
    }
    true
}

fn label(label: &LabelPair) -> KeyValue {
    attribute(&label.name, text(&label.value))
}

/// Returns the unit in the words of OpenTelemetry (UCUM), which has its own for the units of
/// Prometheus.
fn unit<'a>(family: &Family<'a>) -> &'a str {
    match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

#[cfg(test)]
mod tests;
