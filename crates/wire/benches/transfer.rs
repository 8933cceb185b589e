//! Measures the transfer of a request to a worker and of its response back through the shared
//! region, without waking.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use howdah_wire::frame::{Head, Kind, RequestUsage};
use howdah_wire::queue::{Producer, Work, WorkerId};
use howdah_wire::region::{Geometry, Region};
use howdah_wire::stream::{Reader, Writer};

const WORKER: WorkerId = WorkerId { index: 0, incarnation: 1 };

fn region() -> Region<Vec<AtomicU64>> {
    let geometry = Geometry::for_pool(8, 2);
    let words = (0..geometry.region_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    Region::new(words, geometry).expect("the memory has the size that the geometry asks for")
}

/// State kept between requests.
struct Transfer {
    region: Region<Vec<AtomicU64>>,
    producer: Producer,
    request: Vec<u8>,
    received: Vec<u8>,
    frames: Vec<u8>,
}

impl Transfer {
    fn new(request: usize) -> Self {
        let region = region();
        let producer = Producer::new(&region);
        let (received, frames) = (Vec::new(), Vec::new());
        Transfer { region, producer, request: vec![b'x'; request], received, frames }
    }

    /// Transfers one request and a response of these frames.
    fn run(&mut self, answer: &[(Kind, &[u8])]) -> usize {
        let region = &self.region;
        let slot = self.producer.take_slot().expect("all slots are free");
        assert!(region.stage(slot, 0, &self.request));
        self.producer.publish(region, slot).expect("the queue is empty");

        let Work::Request { slot, thread, .. } = region.take(WORKER) else {
            panic!("nothing came")
        };
        region.request(slot, &mut self.received);
        let mut writer = Writer::new(slot, thread);
        let mut reader = Reader::default();
        self.frames.clear();
        for (kind, payload) in answer {
            assert!(writer.put(region, *kind as u8, payload));
            if writer.unpublished() > 32 << 10 {
                writer.publish(region);
                while let Ok(Some(_)) = reader.next(region, slot, &mut self.frames) {}
                reader.release(region, slot);
            }
        }
        writer.publish(region);

        region.take_dirty(0, |dirty| assert_eq!(dirty, slot));
        while let Ok(Some(_)) = reader.next(region, slot, &mut self.frames) {}
        reader.release(region, slot);
        self.producer.release(region, slot);
        self.frames.len()
    }
}

fn transfer(criterion: &mut Criterion) {
    let (mut head, mut done) = (Vec::new(), Vec::new());
    Head::put(&mut head, 200, b"");
    Head::put_field(&mut head, b"Content-type: text/html; charset=UTF-8");
    RequestUsage { peak_memory: 2 << 20, cpu_us: 100, retirement: None, opcache: None }
        .put(&mut done);

    let mut group = criterion.benchmark_group("transfer");
    let small = [(Kind::Head, &head[..]), (Kind::Body, b"Hello, world!"), (Kind::Done, &done)];
    let mut one = Transfer::new(1000);
    group.bench_function("13 bytes", |bencher| bencher.iter(|| black_box(one.run(&small))));

    let piece = vec![b'x'; 16 << 10];
    let mut large = vec![(Kind::Head, &head[..])];
    large.extend(std::iter::repeat_n((Kind::Body, &piece[..]), 64));
    large.push((Kind::Done, &done));
    group.throughput(Throughput::Bytes(1 << 20));
    let mut one = Transfer::new(1000);
    group.bench_function("1 MiB", |bencher| bencher.iter(|| black_box(one.run(&large))));
    group.finish();
}

criterion_group!(benches, transfer);
criterion_main!(benches);
