//! Any bytes, as `tenure_proof::inputs::floor` takes them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _believed = tenure_proof::inputs::floor(bytes);
});
