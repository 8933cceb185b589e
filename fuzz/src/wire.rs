//! Messages between processes, shared memory, and the wire formats of other servers.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use howdah_php_pool::profile::Profile;
use howdah_questions::Profile as ProfileAnswer;
use howdah_wire::dns;
use howdah_wire::fastcgi::{
    Answer, Answers, MAX_PARAMS, MAX_PARAMS_BYTES, Pairs, Part, Received, Records, Requests,
    put_pair,
};
use howdah_wire::frame::{Head, Log, RequestUsage};
use howdah_wire::messages::{
    FromPrototype, FromSupervisor, FromTemplate, ToPrototype, ToSupervisor, ToTemplate, ToWorker,
};
use howdah_wire::php_values::{self, PhpValues};
use howdah_wire::profile::{Order, Samples};
use howdah_wire::prometheus::{Families, MAX_METRIC_BYTES, Metric, MetricFamily};
use howdah_wire::proxy_protocol::{Header, MAX_HEADER_BYTES, Version};
use howdah_wire::queue::{Claim, Producer, Work, WorkerId};
use howdah_wire::region::{Geometry, Region};
use howdah_wire::request::{HEADER_BYTES, Params, RequestHeader, Reserved, decode_params};
use howdah_wire::spans::{self, ReadSpan, SpanWriter, Value};
use howdah_wire::stream::{Reader, Writer};
use prost::Message;

use crate::Bytes;

/// Decodes a packet as the process that the first byte selects. A message must encode to the packet
/// that it was decoded from.
pub fn messages(input: &[u8]) {
    let Some((reader, packet)) = input.split_first() else { return };
    let encoded = match reader {
        b'r' => FromSupervisor::decode(packet).map(|message| message.encode()),
        b's' => ToSupervisor::decode(packet).map(|message| message.encode()),
        b'p' => ToPrototype::decode(packet).map(|message| message.encode()),
        b'f' => FromPrototype::decode(packet).map(|message| message.encode()),
        b't' => ToTemplate::decode(packet).map(|message| message.encode()),
        b'b' => FromTemplate::decode(packet).map(|message| message.encode()),
        _ => ToWorker::decode(packet).map(|message| message.encode()),
    };
    if let Ok(encoded) = encoded {
        assert_eq!(encoded, packet);
    }
}

/// Decodes the response to a DNS query. It must have no more addresses than the message has room
/// for, and must not be a response to another query.
pub fn dns(input: &[u8]) {
    let Some(mut message) = dns::question(7, "a.example", dns::Kind::A) else { return };
    message.splice(2..8, [0x81, 0x80, 0, 1, 0, 4]);
    message.extend_from_slice(input);
    if let Ok(answer) = dns::answer(&message, 7, "A.Example", dns::Kind::A) {
        assert!(answer.addresses.len() <= message.len() / 4);
    }
    assert!(dns::answer(&message, 8, "a.example", dns::Kind::A).is_err());
    assert!(dns::answer(&message, 7, "b.example", dns::Kind::A).is_err());
    assert!(dns::answer(&message, 7, "a.example", dns::Kind::Aaaa).is_err());
}

/// Reads the PROXY header of a connection. It must not depend on the bytes after it, must need all
/// of its own bytes, and must be read back when it is written for a connection.
pub fn proxy_protocol(input: &[u8]) {
    let Ok(Some((header, length))) = Header::read(input) else { return };
    assert!(length <= MAX_HEADER_BYTES && length <= input.len());
    assert_eq!(Header::read(&input[..length]), Ok(Some((header, length))));
    assert_eq!(Header::read(&input[..length - 1]), Ok(None));
    for version in [Version::V1, Version::V2] {
        let mut written = Vec::new();
        header.write(version, &mut written);
        let Ok(Some((again, all))) = Header::read(&written) else { panic!("{header:?}") };
        let port = |header: Header| header.addresses.map(|(from, to)| (from.port(), to.port()));
        assert_eq!((port(again), all), (port(header), written.len()));
    }
    // In front of a datagram only the transport differs, whose clients have no known connection.
    let (mut of_connection, mut of_datagram) = (Vec::new(), Vec::new());
    header.write(Version::V2, &mut of_connection);
    header.write(Version::V2Datagram, &mut of_datagram);
    let length = of_datagram.len();
    assert_eq!(Header::read(&of_datagram), Ok(Some((Header::default(), length))));
    if let (Some(family), true) = (of_connection.get_mut(13), header.addresses.is_some()) {
        *family = *family & 0xf0 | 2;
    }
    assert_eq!(of_connection, of_datagram);
}

/// Decodes the payload of a frame whose type the first byte selects. It must encode to the same
/// bytes.
pub fn frame(input: &[u8]) {
    let Some((kind, payload)) = input.split_first() else { return };
    let mut encoded = Vec::new();
    match kind {
        b'h' => {
            let Ok(head) = Head::decode(payload) else { return };
            Head::put(&mut encoded, head.status, head.reason);
            head.fields().for_each(|line| Head::put_field(&mut encoded, line));
            assert_eq!(encoded, payload);
        }
        b'd' => {
            let Ok(done) = RequestUsage::decode(payload) else { return };
            done.put(&mut encoded);
            assert_eq!(RequestUsage::decode(&encoded), Ok(done));
            assert_eq!(encoded.len(), payload.len());
        }
        b's' => {
            let Ok(samples) = Samples::decode(payload) else { return };
            samples.put(&mut encoded);
            assert_eq!(encoded, payload);
            let profile = Profile::new(
                Order { is_processor_time: false, period_us: 10_000, end_us: 0 },
                None,
                b"",
            );
            profile.add(&samples);
            profile.add(&samples);
            let mut answer = ProfileAnswer::default();
            profile.report(&mut answer);
            let own: u64 = answer.nodes.iter().map(|node| node.2).sum();
            assert!(own <= answer.ticks && answer.ticks - own <= answer.lost);
            for (at, node) in answer.nodes.iter().enumerate() {
                assert!(node.0 as usize <= at && (node.1 as usize) < answer.frames.len());
            }
        }
        _ => {
            let Ok(log) = Log::decode(payload) else { return };
            log.put(&mut encoded);
            assert_eq!(Log::decode(&encoded), Ok(log));
            assert_eq!(encoded.len(), payload.len());
        }
    }
}

/// Reads FastCGI records in pieces whose length the first byte selects. Records and responses must
/// not depend on the pieces, and short names and values must encode to the same bytes.
pub fn fastcgi(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else { return };
    let whole = bytes.len().max(1);
    let cut = usize::from(*cut).clamp(1, whole);
    assert_eq!(records(bytes, cut), records(bytes, whole));
    assert_eq!(answers(bytes, cut), answers(bytes, whole));
    let pairs: Result<Vec<_>, _> = Pairs::new(bytes).collect();
    if let Ok(pairs) = pairs {
        let mut encoded = Vec::new();
        pairs.iter().for_each(|(name, value)| put_pair(name, value, &mut encoded));
        assert!(encoded.len() <= bytes.len());
        assert!(Pairs::new(&encoded).eq(pairs.into_iter().map(Ok)));
    }
}

/// Reads what a web server sends in pieces whose length the first byte selects. Requests, bodies and
/// answers must not depend on the pieces, a head must be within its limits, and an answer must be
/// whole records.
pub fn fastcgi_requests(input: &[u8]) {
    let Some((cut, bytes)) = input.split_first() else { return };
    let whole = bytes.len().max(1);
    let cut = usize::from(*cut).clamp(1, whole);
    assert_eq!(requests(bytes, cut), requests(bytes, whole));
}

/// The events up to the first malformed record, each as text. A request is answered as soon as its
/// body is complete, or when it is abandoned.
fn requests(bytes: &[u8], cut: usize) -> (Vec<String>, bool) {
    let (mut reader, mut seen, mut body) = (Requests::default(), Vec::new(), Vec::new());
    for mut input in bytes.chunks(cut) {
        loop {
            let event = match reader.next(&mut input) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) => return (seen, false),
            };
            assert!(reader.kept_bytes() <= MAX_PARAMS_BYTES);
            match event {
                Received::Body(piece) => {
                    assert!(!piece.is_empty());
                    body.extend_from_slice(piece);
                }
                Received::Head(head) => {
                    assert!(head.id != 0 && head.params.len() <= MAX_PARAMS_BYTES);
                    let pairs: Result<Vec<_>, _> = Pairs::new(&head.params).collect();
                    assert!(pairs.is_ok_and(|pairs| pairs.len() <= MAX_PARAMS));
                    seen.push(format!("{head:?}"));
                }
                Received::Reply(reply) => {
                    let mut records = Vec::new();
                    reply.put(&mut records);
                    let (mut reader, mut rest) = (Records::default(), &records[..]);
                    while let Ok(Some(_)) = reader.next(&mut rest) {}
                    assert!(rest.is_empty() && reader.is_record_complete());
                    seen.push(format!("{reply:?}"));
                }
                end @ (Received::BodyEnd | Received::Abort) => {
                    assert!(reader.has_begun());
                    seen.push(format!("{end:?} after {:?}", std::mem::take(&mut body)));
                    reader.end();
                }
            }
        }
    }
    (seen, true)
}

/// The records up to the first malformed one.
fn records(bytes: &[u8], cut: usize) -> (Vec<u8>, bool) {
    let (mut reader, mut said) = (Records::default(), Vec::new());
    for mut input in bytes.chunks(cut) {
        loop {
            match reader.next(&mut input) {
                Ok(Some((_, _, Part::Content(content)))) => said.extend_from_slice(content),
                Ok(Some((_, _, Part::End(_)))) => said.push(b'.'),
                Ok(None) => break,
                Err(_) => return (said, false),
            }
        }
    }
    (said, true)
}

/// The response up to the first malformed record.
fn answers(bytes: &[u8], cut: usize) -> (Vec<u8>, Vec<u8>, bool) {
    let (mut reader, mut out, mut err) = (Answers::new(1), Vec::new(), Vec::new());
    for mut input in bytes.chunks(cut) {
        loop {
            match reader.next(&mut input) {
                Ok(Some(Answer::Stdout(bytes))) => out.extend_from_slice(bytes),
                Ok(Some(Answer::Stderr(bytes))) => err.extend_from_slice(bytes),
                Ok(Some(Answer::End(end))) => out.extend_from_slice(&end.status.to_be_bytes()),
                Ok(None) => break,
                Err(_) => return (out, err, false),
            }
        }
    }
    (out, err, true)
}

/// Decodes a request. It must encode to the same bytes.
pub fn request(input: &[u8]) {
    let Ok((fixed, rest)) = RequestHeader::decode(input) else {
        assert!(input.len() < HEADER_BYTES);
        return;
    };
    let mut params = Params::default();
    let mut count = 0;
    let mut has_unknown = false;
    let body = decode_params(rest, fixed.params, |name, value| {
        match Reserved::from_name(name) {
            Ok(None) => params.push(name, value),
            Ok(Some(reserved)) => params.push_reserved(reserved, value),
            Err(_) => has_unknown = true,
        }
        if name == Reserved::PhpValues.name() || name == Reserved::PhpAdminValues.name() {
            php_values(value);
        }
        count += 1;
    });
    assert!(count <= fixed.params);
    if has_unknown {
        return;
    }
    assert!(rest.starts_with(params.as_bytes()));
    let Ok(body) = body else { return };
    assert_eq!(count, fixed.params);
    assert_eq!(params.as_bytes().len() + body.len(), rest.len());
    let mut pairs = 0;
    params.iter().for_each(|_| pairs += 1);
    assert_eq!(pairs, count);
    let again = RequestHeader::new(&params, fixed.flags, fixed.id, fixed.body_len, fixed.queued_us);
    assert_eq!(RequestHeader { params_len: again.params_len, ..fixed }, again);
}

/// Decodes settings of PHP. They must encode to the same bytes.
fn php_values(input: &[u8]) {
    let Ok(settings) = php_values::decode(input) else { return };
    let mut again = PhpValues::default();
    assert!(settings.iter().all(|(name, value)| again.push(name, value)));
    assert_eq!(again.as_bytes(), input);
}

/// Two slots, one router thread, the smallest areas.
const SMALL: Geometry =
    Geometry { slots: 2, threads: 1, request_bytes: 4096, response_bytes: 8192 };

fn region(geometry: Geometry) -> Region<Vec<AtomicU64>> {
    let words = geometry.region_bytes() / 8;
    Region::new((0..words).map(|_| AtomicU64::new(0)).collect(), geometry).expect("it fits")
}

/// An honest worker: frames of any length must be read as they were written, in order, and a frame
/// must be refused only if there is no room.
pub fn stream(input: &[u8]) {
    let region = region(SMALL);
    let mut input = Bytes(input);
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    let (mut unpublished, mut published) = (Vec::new(), VecDeque::new());
    let mut frames = 0u64;
    let mut out = Vec::new();
    let mut used = 0;
    while let Some(op) = input.byte() {
        match op % 8 {
            0..4 => {
                let length = (usize::from(op) << 3) | usize::from(input.byte().unwrap_or(0));
                let payload: Vec<u8> = (0..length).map(|i| (frames as usize + i) as u8).collect();
                let need = 8 + length.next_multiple_of(8) as u64;
                let written = writer.put(&region, op, &payload);
                assert_eq!(written, used + need <= 8192);
                if written {
                    frames += 1;
                    used += need;
                    unpublished.push((op, payload));
                } else {
                    assert!(writer.wait_for_room(&region, length).is_some());
                }
            }
            4 => {
                let sleeps = region.thread_sleeps(0, false);
                let something = !unpublished.is_empty();
                assert_eq!(writer.unpublished() > 0, something);
                assert_eq!(writer.publish(&region), !sleeps);
                published.extend(unpublished.drain(..));
                let mut slots = Vec::new();
                region.take_dirty(0, |slot| slots.push(slot));
                assert_eq!(slots, [1]);
            }
            5 | 6 => {
                out.clear();
                let next = reader.next(&region, 1, &mut out).expect("an honest worker");
                assert_eq!(next.map(|kind| (kind, out.clone())), published.pop_front());
            }
            _ => {
                let waits = reader.release(&region, 1);
                let held: usize = published
                    .iter()
                    .chain(&unpublished)
                    .map(|(_, payload): &(u8, Vec<u8>)| 8 + payload.len().next_multiple_of(8))
                    .sum();
                assert!(!waits || held as u64 <= used);
                used = held as u64;
            }
        }
    }
}

/// Honest workers: each request must be taken once, in the order of publication, unless it was
/// withdrawn.
pub fn queue(input: &[u8]) {
    let geometry = Geometry { slots: 4, ..SMALL };
    let region = region(geometry);
    let mut producer = Producer::new(&region);
    let mut input = Bytes(input);
    let me = WorkerId { index: 3, incarnation: 1 };
    let mut queued: VecDeque<(u32, u32, Vec<u8>)> = VecDeque::new();
    let mut running: Vec<(u32, u32)> = Vec::new();
    let mut staged = 0u64;
    while let Some(op) = input.byte() {
        let pick = usize::from(op >> 3);
        match op % 8 {
            0..3 => {
                let Some(slot) = producer.take_slot() else {
                    assert_eq!(queued.len() + running.len(), 4);
                    continue;
                };
                staged += 1;
                let request = staged.to_le_bytes()[..1 + pick % 8].to_vec();
                assert!(region.stage(slot, 0, &request));
                match producer.publish(&region, slot) {
                    Ok((ticket, wake)) => {
                        assert_eq!(wake, None, "nobody sleeps");
                        assert_eq!(region.claim_of(slot), Claim::Queued(ticket));
                        queued.push_back((slot, ticket, request));
                    }
                    // Only while the oldest request still waits can others be in the way.
                    Err(_) => {
                        assert!(!queued.is_empty());
                        producer.release(&region, slot);
                    }
                }
            }
            3 | 4 => match (region.take(me), queued.pop_front()) {
                (Work::Idle, None) => {}
                (Work::Request { slot, ticket, thread }, Some((expected, its, request))) => {
                    assert_eq!((slot, ticket, thread), (expected, its, 0));
                    assert_eq!(region.claim_of(slot), Claim::Taken(ticket, me));
                    let mut out = Vec::new();
                    region.request(slot, &mut out);
                    assert_eq!(out, request);
                    assert!(!region.cancel(slot, ticket));
                    running.push((slot, ticket));
                }
                (work, expected) => panic!("{work:?}, not {expected:?}"),
            },
            5 | 6 if !queued.is_empty() => {
                let (slot, ticket, _) = queued.remove(pick % queued.len()).expect("within");
                assert!(!region.cancel(slot, ticket.wrapping_add(1)));
                assert!(region.cancel(slot, ticket) && !region.cancel(slot, ticket));
                producer.release(&region, slot);
            }
            _ if !running.is_empty() => {
                let (slot, _) = running.swap_remove(pick % running.len());
                producer.release(&region, slot);
            }
            _ => {}
        }
    }
}

/// A worker that writes any word of the region: all other processes must continue without a panic,
/// in limited time, and copy no more than the region holds.
pub fn hostile(input: &[u8]) {
    struct Shared(std::rc::Rc<[AtomicU64]>);
    impl AsRef<[AtomicU64]> for Shared {
        fn as_ref(&self) -> &[AtomicU64] {
            &self.0
        }
    }
    let words: std::rc::Rc<[AtomicU64]> =
        (0..SMALL.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    let region = Region::new(Shared(words.clone()), SMALL).expect("it fits");
    let mut producer = Producer::new(&region);
    let mut input = Bytes(input);
    let (mut writer, mut reader) = (Writer::new(1, 0), Reader::default());
    let me = WorkerId { index: 0, incarnation: 0 };
    let mut slots = Vec::new();
    let mut out = Vec::new();
    while let Some(op) = input.byte() {
        let slot = u32::from(op >> 4);
        match op % 16 {
            // The words that control something come first in the region.
            0 => words[usize::from(input.byte().unwrap_or(0)) % words.len()]
                .store(input.word(), Relaxed),
            1 => words[input.word() as usize % words.len()].store(input.word(), Relaxed),
            2 => {
                let word = &words[usize::from(input.byte().unwrap_or(0)) % words.len()];
                word.store(word.load(Relaxed).wrapping_add(u64::from(slot) * 8), Relaxed);
            }
            3 => {
                if let Some(slot) = producer.take_slot() {
                    assert!(region.stage(slot, 0, input.take(usize::from(op))));
                    if producer.publish(&region, slot).is_ok() {
                        slots.push(slot);
                    } else {
                        producer.release(&region, slot);
                    }
                }
            }
            4 => {
                if let Some(slot) = slots.pop() {
                    region.cancel(slot, u32::from(op));
                    producer.release(&region, slot);
                }
            }
            5 => {
                let _ = region.take(me);
            }
            6 => {
                region.request(slot, &mut out);
                assert!(out.len() <= 4096);
            }
            7 => {
                let _ = region.claim_of(slot);
                region.retire(1);
            }
            8 | 9 => {
                // Between two releases there can be no more than the ring holds.
                out.clear();
                let mut frames = 0;
                while let Ok(Some(_)) = reader.next(&region, 1, &mut out) {
                    frames += 1;
                    let written = region.slot(1).expect("it exists").written;
                    written.fetch_add(8 * u64::from(slot), Relaxed);
                }
                assert!(out.len() <= 8192 && frames <= 1024, "{frames} frames");
                reader.release(&region, 1);
            }
            10 => {
                let length = usize::from(input.byte().unwrap_or(0)) * 8;
                let payload = vec![op; length];
                if !writer.put(&region, op, &payload) {
                    writer.wait_for_room(&region, length);
                }
            }
            11 => {
                writer.publish(&region);
            }
            12 => {
                region.take_dirty(u32::from(op & 1), |_| {});
                region.thread_sleeps(slot, slot % 2 == 0);
                region.thread_wakes(slot);
            }
            13 => {
                let sequence = region.begin_sleep(me);
                let _ = (sequence, region.end_sleep(me));
            }
            14 => {
                reader = Reader::default();
                region.stage(1, 0, b"");
            }
            _ => writer = Writer::new(slot, u64::from(op)),
        }
    }
}

/// Reads families of metrics. A family that is well-formed as a whole must read as the whole does; and
/// whatever the bytes are, there cannot be more metrics than fit them.
pub fn metrics(input: &[u8]) {
    let mut count = 0;
    for mut family in Families(input) {
        count += std::iter::from_fn(|| family.next_metric()).count();
    }
    assert!(2 * count <= input.len());
    let Ok(whole) = MetricFamily::decode(input) else { return };
    let delimited = whole.encode_length_delimited_to_vec();
    let Some(mut family) = Families(&delimited).next() else { return };
    let texts = [&whole.name, &whole.help, &whole.unit].map(String::as_str);
    assert_eq!([family.name, family.help, family.unit], texts);
    assert_eq!(family.kind as i32, whole.kind);
    let metrics: Vec<_> = std::iter::from_fn(|| family.next_metric()).collect();
    // NaN is not equal to itself.
    let encoded =
        |metrics: &[Metric]| metrics.iter().map(Metric::encode_to_vec).collect::<Vec<_>>();
    let is_short = |metric: &&Metric| metric.encoded_len() <= MAX_METRIC_BYTES;
    let expected: Vec<_> = whole.metrics.iter().filter(is_short).cloned().collect();
    assert_eq!(encoded(&metrics), encoded(&expected));
}

/// Reads a packet of spans. A span must be written as it was read, and the first packet of several
/// must have whole spans.
pub fn spans(input: &[u8]) {
    let first = spans::first_packet(input);
    assert!(input.starts_with(first) && spans::split(first).is_ok());
    for bytes in spans::split(input).unwrap_or_default() {
        let Ok(read) = ReadSpan::read(bytes) else { continue };
        let mut written = Vec::new();
        let mut writer = SpanWriter::new(&mut written, &read.span);
        for (attribute, value) in &read.attributes {
            match value {
                Value::Text(text) => writer.text(*attribute, text),
                Value::Number(number) => writer.number(*attribute, *number),
            };
        }
        assert_eq!(spans::split(&written), Ok(vec![bytes]));
    }
}
