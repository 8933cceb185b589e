//! Header fields and the list of a negotiated response.

use super::state::State;
use super::variant::Variant;
use crate::record::Record;
use crate::support::{escape_html, escape_segment, merge};

/// Sets `Alternates`, `Vary` and `TCN`, in the table for errors, so that all answers have them.
pub(super) fn set_headers(state: &State, record: &mut Record, is_choice: bool) {
    let headers = &mut record.err_headers_out;
    if state.preferences.sends_alternates && !state.variants.is_empty() {
        let all: Vec<Vec<u8>> = state.variants.iter().map(alternate).collect();
        merge(headers, b"Alternates", &all.join(&b", "[..]));
    }
    let varies = |differs: &dyn Fn(&Variant, &Variant) -> bool| {
        state
            .variants
            .first()
            .is_some_and(|first| state.variants.iter().any(|other| differs(first, other)))
    };
    let dimensions: [(bool, &[u8]); 5] = [
        (state.is_transparent, b"negotiate"),
        (varies(&|a, b| a.media_type != b.media_type), b"accept"),
        (varies(&|a, b| a.languages != b.languages), b"accept-language"),
        (varies(&|a, b| a.charset != b.charset), b"accept-charset"),
        (
            varies(&|a, b| {
                a.encoding.as_deref().unwrap_or_default()
                    != b.encoding.as_deref().unwrap_or_default()
            }),
            b"accept-encoding",
        ),
    ];
    let names: Vec<&[u8]> =
        dimensions.iter().filter(|(varies, _)| *varies).map(|(_, name)| *name).collect();
    if !names.is_empty() {
        merge(headers, b"Vary", &names.join(&b", "[..]));
    }
    if state.is_transparent {
        headers.set("TCN", if is_choice { "choice" } else { "list" });
    }
}

/// Element of `Alternates` (RFC 2295, section 8.3).
fn alternate(variant: &Variant) -> Vec<u8> {
    let mut text = [b"{\"", escape_segment(&variant.name).as_slice(), b"\" "].concat();
    text.extend_from_slice(quality(variant.source_quality).as_bytes());
    let mut push = |name: &[u8], value: &[u8]| {
        if !value.is_empty() {
            text.extend([b" {", name, b" ", value, b"}"].concat());
        }
    };
    push(b"type", &variant.media_type);
    push(b"charset", &variant.charset);
    push(b"language", &variant.languages.join(&b','));
    push(b"encoding", variant.encoding.as_deref().unwrap_or_default());
    let has_handler =
        variant.candidate.as_ref().is_some_and(|candidate| candidate.record.handler.is_some());
    if let (false, Some(bytes)) = (has_handler, variant.bytes) {
        push(b"length", bytes.to_string().as_bytes());
    }
    text.push(b'}');
    text
}

fn quality(quality: f32) -> String {
    let text = format!("{quality:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// List of variants for the text of a 300 or 406.
pub(super) fn list(variants: &[Variant]) -> Vec<u8> {
    let mut text = b"Available variants:\n<ul>\n".to_vec();
    for variant in variants {
        text.extend_from_slice(b"<li><a href=\"");
        text.extend_from_slice(&escape_segment(&variant.name));
        text.extend_from_slice(b"\">");
        text.extend_from_slice(&escape_html(&variant.name));
        text.extend_from_slice(b"</a> ");
        text.extend_from_slice(&variant.description);
        let mut push = |name: &[u8], value: &[u8]| text.extend([b", ", name, b" ", value].concat());
        if !variant.media_type.is_empty() {
            push(b"type", &variant.media_type);
        }
        if !variant.languages.is_empty() {
            push(b"language", &variant.languages.join(&b','));
        }
        if !variant.charset.is_empty() {
            push(b"charset", &variant.charset);
        }
        if let Some(encoding) = &variant.encoding {
            push(b"encoding", encoding);
        }
        text.extend_from_slice(b"</li>\n");
    }
    text.extend_from_slice(b"</ul>\n");
    text
}
