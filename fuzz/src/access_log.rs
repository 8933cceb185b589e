//! The access log.

/// Hides the values of query arguments. Nothing but values is changed, hidden values stay hidden,
/// and an argument that PHP reads by the name has no value left.
pub fn mask(input: &[u8]) {
    let names = ["token".to_owned()];
    let mut once = input.to_vec();
    howdah_http::mask::mask_query(&mut once, 0, &names);
    let mut twice = once.clone();
    howdah_http::mask::mask_query(&mut twice, 0, &names);
    assert_eq!(once, twice, "what is hidden stays as it is");
    if !input.contains(&b'?') && !input.contains(&b'&') {
        assert_eq!(once, input);
    }
    // The plainest reading: the arguments of a query without anything around it.
    for argument in once.split(|byte| b"?&".contains(byte)).skip(1) {
        if let Some(value) = argument.strip_prefix(b"token=") {
            assert!(value.starts_with(b"***"), "{:?}", String::from_utf8_lossy(&once));
        }
    }
}
