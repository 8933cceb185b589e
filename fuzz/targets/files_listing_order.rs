#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::run("files_listing_order", input));
