//! The supervisor, and a router that strangers have taken over.

use std::fs::File;
use std::os::fd::OwnedFd;

use howdah_supervisor::model::Model;
use howdah_wire::messages::{ChangeOutcome, ToSupervisor};
use howdah_wire::queue::WorkerId;
use howdah_wire::region::Geometry;

/// Sends the supervisor packets of a router. Each line is a keyword for a message and a name in it
/// (`@` for the model's directory), or the bytes of a packet. The supervisor must send only
/// resources that the configuration names, make no other files, and continue.
pub fn router(input: &[u8]) {
    let Ok(mut model) = Model::new(true) else { return };
    // Each line costs some system calls.
    for line in input.split(|byte| *byte == b'\n').take(64) {
        let packet = match message(line, &model) {
            Some(message) => message.encode(),
            None => line.to_vec(),
        };
        if packet.is_empty() {
            continue;
        }
        let file = File::open("/dev/null").ok().map(OwnedFd::from);
        let sent = model.send(&packet, file.as_slice());
        assert!(sent.is_ok(), "{:?}: {sent:?}", String::from_utf8_lossy(line));
    }
    assert_eq!(model.check_whole(), Ok(()));
}

fn message(line: &[u8], model: &Model) -> Option<ToSupervisor> {
    let line = std::str::from_utf8(line).ok()?;
    let (word, name) = line.split_once(' ').unwrap_or((line, ""));
    let name = match name.strip_prefix('@') {
        Some(name) => model.path(name),
        None => name.to_owned(),
    };
    let worker = WorkerId { index: 0, incarnation: 1 };
    let number = name.len() as u32;
    Some(match word {
        "bind" => ToSupervisor::Bind { address: format!("unix:{name}"), backlog: number },
        "bind-tcp" if !name.contains(':') => ToSupervisor::Bind { address: name, backlog: 1 },
        "unbind" => ToSupervisor::Unbind { address: format!("unix:{name}") },
        "start" => {
            let geometry = Geometry::for_pool(1, 1);
            ToSupervisor::Start { application: number, name, generation: 0, geometry }
        }
        "spawn" => ToSupervisor::Spawn { application: number },
        "kill" => ToSupervisor::Kill { application: number, worker, signal: 9 },
        "trace" => ToSupervisor::Trace { application: number, worker, number },
        "stop" => ToSupervisor::Stop { application: number, grace_ms: u64::MAX },
        "unload" => ToSupervisor::Unload { application: number },
        "measure" => ToSupervisor::Measure { application: number },
        "prepared" => ToSupervisor::Prepared { generation: number },
        "applied" => {
            ToSupervisor::Applied { generation: number, outcome: ChangeOutcome::NotApplied(name) }
        }
        "serving" => ToSupervisor::Serving {},
        "refuse" => ToSupervisor::Refuse { message: name },
        "finished" => ToSupervisor::Finished {},
        "log" => ToSupervisor::OpenLog { path: name },
        "cache" => ToSupervisor::OpenCache { path: name },
        "read" => ToSupervisor::ReadFile { path: name },
        "store" => ToSupervisor::StoreCertificate { name },
        "run" => ToSupervisor::Run {
            number,
            program: name,
            arguments: vec!["present".into(), "_acme-challenge.a.org.".into(), "x".into()],
            environment: Vec::new(),
            timeout_ms: 1000,
        },
        _ => return None,
    })
}
