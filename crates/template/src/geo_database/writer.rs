//! Writes small databases in MaxMind's format, for tests.

use serde_json::{Value, json};

/// Writes a database of IPv4 networks with 24-bit records (MaxMind DB 2.0).
pub fn write(networks: &[(&str, Value)]) -> Vec<u8> {
    let (mut nodes, mut data) = (vec![[Record::None; 2]], Vec::new());
    for (network, value) in networks {
        let (address, length) = network.split_once('/').unwrap();
        let bits = address.parse::<std::net::Ipv4Addr>().unwrap().to_bits();
        let length: u32 = length.parse().unwrap();
        let at = data.len();
        put(value, &mut data);
        let mut node = 0;
        for depth in 0..length {
            let side = (bits >> (31 - depth) & 1) as usize;
            if depth + 1 == length {
                nodes[node][side] = Record::Data(at);
            } else if let Record::Node(next) = nodes[node][side] {
                node = next;
            } else {
                let next = nodes.len();
                nodes[node][side] = Record::Node(next);
                nodes.push([Record::None; 2]);
                node = next;
            }
        }
    }
    let mut out = Vec::new();
    for record in nodes.iter().flatten() {
        let number = match record {
            Record::None => nodes.len(),
            Record::Node(node) => *node,
            Record::Data(at) => nodes.len() + 16 + at,
        };
        out.extend_from_slice(&(number as u32).to_be_bytes()[1..]);
    }
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(&data);
    out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
    let metadata = json!({
        "binary_format_major_version": 2, "binary_format_minor_version": 0,
        "build_epoch": 1_u64 << 33,
        "database_type": "Test", "description": {"en": "A test"}, "ip_version": 4,
        "languages": ["en"],
        "node_count": nodes.len(), "record_size": 24,
    });
    put(&metadata, &mut out);
    out
}

#[derive(Clone, Copy)]
enum Record {
    None,
    Node(usize),
    Data(usize),
}

/// Writes a value. Texts of the tests are shorter than 29 bytes.
fn put(value: &Value, out: &mut Vec<u8>) {
    let mut extended = |kind: u8, size: usize| out.extend([size as u8, kind - 7]);
    match value {
        Value::String(text) => {
            out.push(2 << 5 | text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
        Value::Bool(truth) => extended(14, usize::from(*truth)),
        Value::Number(number) if number.is_f64() => {
            out.push(3 << 5 | 8);
            out.extend_from_slice(&number.as_f64().unwrap().to_be_bytes());
        }
        Value::Number(number) if number.as_i64().unwrap() < 0 => {
            extended(8, 4);
            out.extend_from_slice(&(number.as_i64().unwrap() as i32).to_be_bytes());
        }
        // Unsigned numbers of 16, 32 and 64 bits.
        Value::Number(number) => match number.as_u64().unwrap() {
            small if small < 1 << 16 => {
                out.push(5 << 5 | 2);
                out.extend_from_slice(&(small as u16).to_be_bytes());
            }
            medium if medium < 1 << 32 => put_u32(medium, out),
            large => {
                extended(9, 8);
                out.extend_from_slice(&large.to_be_bytes());
            }
        },
        Value::Array(elements) => {
            extended(11, elements.len());
            elements.iter().for_each(|element| put(element, out));
        }
        Value::Object(members) => {
            out.push(7 << 5 | members.len() as u8);
            for (name, value) in members {
                put(&json!(name), out);
                match (name.as_str(), value.as_u64()) {
                    ("node_count", Some(nodes)) => put_u32(nodes, out),
                    _ => put(value, out),
                }
            }
        }
        Value::Null => unreachable!("the format has no null"),
    }
}

fn put_u32(number: u64, out: &mut Vec<u8>) {
    out.push(6 << 5 | 4);
    out.extend_from_slice(&(number as u32).to_be_bytes());
}
