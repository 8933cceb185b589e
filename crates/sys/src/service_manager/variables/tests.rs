use std::os::unix::ffi::OsStringExt;

use super::*;

const PID: u32 = 7;

fn read(variables: &[(&str, &str)]) -> Variables {
    let all: Vec<_> = variables.iter().map(|(name, value)| (*name, value.into())).collect();
    read_raw(&all)
}

fn read_raw(variables: &[(&str, OsString)]) -> Variables {
    let get = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    };
    Variables::read(get, PID)
}

#[test]
fn nothing_is_passed_without_variables() {
    let variables = read(&[]);
    assert!(variables.notifier.is_none() && variables.watchdog.is_none());
    assert!(variables.descriptors.is_empty() && variables.warnings.is_empty());
}

#[test]
fn descriptors_are_counted_and_named() {
    let passed = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "web:")];
    assert_eq!(read(&passed).descriptors, ["web", ""]);
    assert_eq!(read(&passed[..2]).descriptors, ["", ""]);
    assert!(read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")]).warnings.is_empty());
}

#[test]
fn descriptors_of_another_process_are_not_touched() {
    for pid in ["8", "", "-7", " 7", "+7", "7\n", "4294967303"] {
        let variables = read(&[("LISTEN_PID", pid), ("LISTEN_FDS", "1")]);
        assert!(variables.descriptors.is_empty(), "{pid:?}");
        assert!(variables.warnings[0].contains("LISTEN_PID"), "{:?}", variables.warnings);
    }
    let variables = read(&[("LISTEN_FDS", "1")]);
    assert!(variables.descriptors.is_empty() && variables.warnings.len() == 1);
}

#[test]
fn a_number_that_is_none_or_too_large_passes_nothing() {
    for count in ["-1", "x", "", "2000000000", "99999999999999999999", "1 ", "0x1"] {
        let variables = read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", count)]);
        assert!(variables.descriptors.is_empty(), "{count:?}");
        assert!(variables.warnings[0].contains("LISTEN_FDS"), "{:?}", variables.warnings);
    }
}

#[test]
fn names_that_do_not_fit_the_descriptors_are_ignored() {
    for names in ["a", "a:b:c", "::::"] {
        let passed = [("LISTEN_PID", "7"), ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", names)];
        let variables = read(&passed);
        assert_eq!(variables.descriptors, ["", ""], "{names}");
        assert!(variables.warnings[0].contains("LISTEN_FDNAMES"), "{:?}", variables.warnings);
    }
    let bytes = OsString::from_vec(b"\xff:\x1b[2J".to_vec());
    let passed = [
        ("LISTEN_PID", OsString::from("7")),
        ("LISTEN_FDS", OsString::from("2")),
        ("LISTEN_FDNAMES", bytes),
    ];
    let variables = read_raw(&passed);
    assert_eq!(variables.descriptors, ["", ""]);
    assert!(!variables.warnings[0].contains('\x1b'), "{:?}", variables.warnings);
}

#[test]
fn a_warning_is_short() {
    let long = "9".repeat(100_000);
    let variables = read(&[("LISTEN_PID", "7"), ("LISTEN_FDS", &long)]);
    assert!(variables.warnings[0].len() < 300);
}

#[test]
fn the_watchdog_has_a_time_and_a_process() {
    let time = |pairs: &[(&str, &str)]| read(pairs).watchdog;
    assert_eq!(time(&[("WATCHDOG_USEC", "1500000")]), Some(Duration::from_millis(1500)));
    assert_eq!(
        time(&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "7")]),
        Some(Duration::from_micros(1))
    );
    assert_eq!(time(&[("WATCHDOG_USEC", "1"), ("WATCHDOG_PID", "8")]), None);
    for wrong in ["0", "-1", "1.5", "", "30s"] {
        let variables = read(&[("WATCHDOG_USEC", wrong)]);
        assert!(variables.watchdog.is_none() && variables.warnings.len() == 1, "{wrong}");
    }
}

#[test]
fn an_address_that_is_none_is_ignored() {
    for wrong in ["", "relative", "@", "vsock:2:1234", "/", &format!("/{}", "a".repeat(108))] {
        let variables = read(&[("NOTIFY_SOCKET", wrong)]);
        let has_warning = variables.warnings.iter().any(|text| text.contains("NOTIFY_SOCKET"));
        assert!(variables.notifier.is_none() && has_warning, "{wrong}");
    }
    assert!(read(&[("NOTIFY_SOCKET", "/run/systemd/notify")]).notifier.is_some());
    assert!(read(&[("NOTIFY_SOCKET", "@notify")]).notifier.is_some());
}
