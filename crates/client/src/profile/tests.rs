use std::collections::HashMap;
use std::io::Read;

use howdah_questions::{ProfileFrame, ProfileNode};
use serde_json::Value;

use super::*;

/// `main` calls `total` at two lines, which calls `<b>"&;` of PHP.
fn profile() -> Profile {
    let strings = ["{main}", "/srv/a.php", "Cart::total", "", "<b>\"'&;\u{1}"];
    Profile {
        site: "blog </title>".into(),
        clock: "processor".into(),
        period_us: 10_000,
        milliseconds: 30_000,
        began: 1_800_000_000,
        requests: 5,
        ticks: 100,
        lost: 0,
        strings: strings.map(str::to_owned).into(),
        frames: vec![
            ProfileFrame(0, 1, 3),
            ProfileFrame(2, 1, 9),
            ProfileFrame(2, 1, 10),
            ProfileFrame(4, 3, 0),
        ],
        nodes: vec![
            ProfileNode(0, 0, 10),
            ProfileNode(1, 1, 20),
            ProfileNode(1, 2, 40),
            ProfileNode(3, 3, 30),
        ],
    }
}

#[test]
fn calls_of_a_function_are_together_whatever_their_lines() {
    let profile = profile();
    let tree = Tree::new(&profile).unwrap();
    assert_eq!(tree.0.iter().map(|node| node.total).collect::<Vec<_>>(), [100, 20, 70, 30]);
    let merged = tree.by_function();
    let found: Vec<_> = merged.0.iter().map(|node| (node.name, node.own, node.total)).collect();
    let php = profile.strings[4].as_str();
    assert_eq!(found, [("{main}", 10, 100), ("Cart::total", 60, 90), (php, 30, 30)]);
    assert_eq!(
        folded::write(&merged),
        "{main} /srv/a.php 10\n\
         {main} /srv/a.php;Cart::total 60\n\
         {main} /srv/a.php;Cart::total;<b>\"'&,\u{fffd} 30\n"
    );
}

#[test]
fn an_answer_whose_numbers_lead_nowhere_is_refused() {
    let broken = |change: fn(&mut Profile)| {
        let mut profile = profile();
        change(&mut profile);
        Tree::new(&profile).is_none()
    };
    assert!(broken(|it| it.nodes[0].0 = 1), "its own parent");
    assert!(broken(|it| it.nodes[2].0 = 9));
    assert!(broken(|it| it.nodes[2].1 = 4));
    assert!(broken(|it| it.frames[3].0 = 5));
    assert!(broken(|it| it.frames[3].1 = u32::MAX));
    let mut most = profile();
    most.nodes.iter_mut().for_each(|node| node.2 = u64::MAX);
    assert_eq!(Tree::new(&most).unwrap().ticks(), u64::MAX);
}

/// Returns the names of all elements of a document. Fails the test unless it is well-formed.
fn elements(xml: &str) -> HashMap<String, usize> {
    let (mut open, mut found) = (Vec::new(), HashMap::new());
    let mut rest = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    assert!(!rest.contains(|c: char| c.is_control() && c != '\n'));
    while let Some(start) = rest.find('<') {
        let text = &rest[..start];
        assert!(open.len() == 1 || !text.contains("]]>"), "{text}");
        text.split('&').skip(1).for_each(|after| {
            let name = after.split_once(';').expect(after).0;
            assert!(["lt", "gt", "amp", "quot", "#39"].contains(&name), "{name}");
        });
        rest = &rest[start..];
        if let Some(script) = rest.strip_prefix("<![CDATA[") {
            rest = script.split_once("]]>").unwrap().1;
            continue;
        }
        let (tag, behind) = rest[1..].split_once('>').unwrap();
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        *found.entry(name.clone()).or_insert(0) += 1;
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    found
}

#[test]
fn a_picture_is_well_formed_whatever_the_names() {
    let mut profile = profile();
    let svg = svg::write(&profile, &Tree::new(&profile).unwrap().by_function());
    let found = elements(&svg);
    assert_eq!((found["g"], found["title"], found["script"]), (4, 4, 1));
    assert!(svg.contains("blog &lt;/title&gt;: processor time of 5 requests"), "{svg}");
    assert!(svg.contains("Cart::total in /srv/a.php: 90.0 %, 0.90 s, itself 0.60 s"), "{svg}");
    profile.strings[4] = "]]></script><script>alert(1)</script>\u{ffff}&#0;<!--".to_owned();
    let found = elements(&svg::write(&profile, &Tree::new(&profile).unwrap()));
    assert_eq!((found["script"], found["g"]), (1, 5));
    let none = Profile::default();
    elements(&svg::write(&none, &Tree::new(&none).unwrap()));
}

#[test]
fn calls_too_small_to_be_seen_and_endless_recursion_are_not_drawn() {
    let mut profile = profile();
    profile.nodes[0].2 = 1_000_000;
    let svg = svg::write(&profile, &Tree::new(&profile).unwrap());
    assert_eq!(elements(&svg)["g"], 2);
    profile.nodes = (0..5000).map(|at| ProfileNode(at, at % 4, u64::from(at == 4999))).collect();
    let svg = svg::write(&profile, &Tree::new(&profile).unwrap());
    assert_eq!(elements(&svg)["g"], 257);
}

#[test]
fn speedscope_finds_its_numbers() {
    let profile = profile();
    let text = speedscope::write(&profile, &Tree::new(&profile).unwrap().by_function());
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    assert_eq!(file["shared"]["frames"][1]["name"], "Cart::total");
    let sampled = &file["profiles"][0];
    assert_eq!((&sampled["type"], &sampled["unit"]), (&"sampled".into(), &"microseconds".into()));
    assert_eq!(sampled["samples"], serde_json::json!([[0], [0, 1], [0, 1, 2]]));
    assert_eq!(sampled["weights"], serde_json::json!([100_000, 600_000, 300_000]));
    assert_eq!((&sampled["startValue"], &sampled["endValue"]), (&0.into(), &1_000_000.into()));
}

/// A message of Protocol Buffers: fields with their numbers; those with bytes, and the others.
type Fields = Vec<(u64, Result<Vec<u8>, u64>)>;

fn fields(mut bytes: &[u8]) -> Fields {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        found.push((
            key >> 3,
            match key & 7 {
                0 => Err(value),
                2 => {
                    let (content, rest) = bytes.split_at(value as usize);
                    bytes = rest;
                    Ok(content.to_vec())
                }
                other => panic!("wire type {other}"),
            },
        ));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn bytes_of(fields: &Fields, field: u64) -> Vec<Vec<u8>> {
    let of = fields.iter().filter(|(number, _)| *number == field);
    of.map(|(_, value)| value.clone().unwrap()).collect()
}

fn number_of(fields: &Fields, field: u64) -> u64 {
    fields.iter().find(|(number, _)| *number == field).unwrap().1.clone().unwrap_err()
}

#[test]
fn pprof_finds_functions_lines_and_both_values() {
    let profile = profile();
    let file = pprof::write(&profile, &Tree::new(&profile).unwrap()).unwrap();
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&file[..]).read_to_end(&mut message).unwrap();
    let message = fields(&message);
    let strings = bytes_of(&message, 6);
    let strings: Vec<_> = strings.iter().map(|text| String::from_utf8_lossy(text)).collect();
    assert_eq!(strings[0], "");
    let text = |number: u64| strings[number as usize].to_string();
    let types: Vec<_> = bytes_of(&message, 1).iter().map(|kind| fields(kind)).collect();
    let types: Vec<_> =
        types.iter().map(|kind| (text(number_of(kind, 1)), text(number_of(kind, 2)))).collect();
    let expected = [("samples", "count"), ("cpu", "nanoseconds")];
    assert_eq!(types, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    let functions: HashMap<_, _> = bytes_of(&message, 5)
        .iter()
        .map(|function| fields(function))
        .map(|function| (number_of(&function, 1), text(number_of(&function, 2))))
        .collect();
    let locations: HashMap<_, _> = bytes_of(&message, 4)
        .iter()
        .map(|location| fields(location))
        .map(|location| {
            let line = fields(&bytes_of(&location, 4)[0]);
            let name = functions[&number_of(&line, 1)].clone();
            (number_of(&location, 1), format!("{name}:{}", number_of(&line, 2)))
        })
        .collect();
    let packed = |mut bytes: &[u8]| {
        let mut numbers = Vec::new();
        while !bytes.is_empty() {
            numbers.push(varint(&mut bytes));
        }
        numbers
    };
    let samples: Vec<_> = bytes_of(&message, 2)
        .iter()
        .map(|sample| fields(sample))
        .map(|sample| {
            let stack = packed(&bytes_of(&sample, 1)[0]);
            let stack: Vec<_> = stack.iter().map(|at| locations[at].clone()).collect();
            (stack.join(" < "), packed(&bytes_of(&sample, 2)[0]))
        })
        .collect();
    let ms = 1_000_000;
    assert_eq!(samples[2], ("Cart::total:10 < {main}:3".to_owned(), vec![40, 400 * ms]));
    assert_eq!(samples.len(), 4);
    assert_eq!(number_of(&message, 10), 30_000 * ms);
    assert_eq!(number_of(&message, 12), 10 * ms);
}
