//! The messages of OTLP (<https://opentelemetry.io/docs/specs/otlp/>).
//!
//! - [`spans`]: messages with spans; [`metrics`]: messages with metrics.
//! - [`histograms`]: the histograms of metrics.
//! - [`answers`]: what servers answer.

mod answers;
mod histograms;
pub(crate) mod metrics;
pub(crate) mod spans;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

pub(crate) use self::answers::{RpcStatus, refused, shown};

/// Returns the resource with the attributes of the document.
fn resource(attributes: &[(String, String)]) -> Resource {
    let attributes = attributes.iter().map(|(name, value)| attribute(name, text(value)));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

/// Returns the part of the program that measures.
fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "howdah".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

fn attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}
