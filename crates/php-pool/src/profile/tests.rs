use howdah_wire::profile::{Call, Recorder};

use super::*;

fn order() -> Order {
    Order { is_processor_time: true, period_us: 10_000, end_us: 0 }
}

/// Samples of one stack, the outermost call first.
fn piece(names: &[&str], ticks: u32) -> Samples {
    let mut recorder = Recorder::default();
    let calls = names.iter().rev().map(|name| Call { name: name.as_bytes(), file: b"/a", line: 1 });
    recorder.add(calls, ticks);
    Samples::decode(&recorder.take(1 << 20).unwrap()).unwrap()
}

fn report(profile: &Profile) -> Answer {
    let mut answer = Answer::default();
    profile.report(&mut answer);
    answer
}

#[test]
fn stacks_of_several_pieces_are_one_tree() {
    let profile = Profile::new(order(), None, b"");
    profile.add(&piece(&["main", "a", "b"], 3));
    profile.add(&piece(&["main", "a"], 2));
    profile.add(&piece(&["main", "a", "b"], 1));
    let answer = report(&profile);
    assert_eq!(answer.strings, ["b", "/a", "a", "main"]);
    assert_eq!((answer.ticks, answer.lost), (6, 0));
    let nodes: Vec<_> = answer.nodes.iter().map(|node| (node.0, node.2)).collect();
    assert_eq!(nodes, [(0, 0), (1, 2), (2, 4)]);
    // A second report, of another application, follows behind the first.
    let mut both = answer.clone();
    profile.report(&mut both);
    assert_eq!(both.nodes[4].0, 4);
    assert_eq!(both.frames[3].0, answer.strings.len() as u32);
}

#[test]
fn only_requests_of_the_site_and_below_the_url_are_sampled() {
    let slot = ProfileSlot::default();
    assert!(slot.of_request("blog", b"/").is_none());
    let profile = Arc::new(Profile::new(order(), Some("blog"), b"/shop"));
    assert!(slot.start(&profile));
    assert!(!slot.start(&Arc::new(Profile::new(order(), None, b""))), "one at a time");
    assert!(slot.of_request("blog", b"/shop/cart?x").is_some());
    assert!(slot.of_request("blog", b"/sho").is_none());
    assert!(slot.of_request("other", b"/shop").is_none());
    slot.end(&profile);
    assert!(slot.of_request("blog", b"/shop").is_none());
    assert_eq!(report(&profile).requests, 1);
}

#[test]
fn a_hostile_worker_cannot_make_a_profile_grow() {
    let profile = Profile::new(order(), None, b"");
    for round in 0..3000u32 {
        let mut recorder = Recorder::default();
        for number in 0..60u32 {
            let name = format!("{round}-{number}-{}", "\u{1}".repeat(240));
            let call = Call { name: name.as_bytes(), file: b"/a", line: round };
            recorder.add(std::iter::once(call), 1);
        }
        let mut bytes = Vec::new();
        while let Some(piece) = recorder.take(1 << 20) {
            bytes = piece;
        }
        profile.add(&Samples::decode(&bytes).unwrap());
    }
    let answer = report(&profile);
    let length: usize = answer.strings.iter().map(String::len).sum();
    assert!(length <= MAX_STRING_BYTES, "{length}");
    assert!(answer.frames.len() <= MAX_FRAMES && answer.nodes.len() <= MAX_NODES);
    assert_eq!(answer.ticks, 180_000);
    assert!(answer.lost > 100_000);
    assert!(!answer.strings.iter().any(|text| text.contains('\u{1}')));
}
