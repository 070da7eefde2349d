//! Any bytes, as `tenure_proof::inputs::hold` takes them.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _believed = tenure_proof::inputs::hold(bytes);
});
