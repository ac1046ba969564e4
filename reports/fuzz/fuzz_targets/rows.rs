//! `mlxcel_reports_fuzz::rows` on whatever the fuzzer thinks of.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mlxcel_reports_fuzz::rows(data));
