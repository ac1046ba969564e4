//! Feeds bytes to the header reader; what it must hold to is in `mlxcel_catalog::fuzzing`.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mlxcel_catalog::fuzzing::header(bytes));
