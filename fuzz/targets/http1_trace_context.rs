#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| howdah_fuzz::run("http1_trace_context", input));
