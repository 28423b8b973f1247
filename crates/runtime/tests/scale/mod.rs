//! How much a test does: less where every access is checked.

/// Cases, tasks or rounds: `full` of them, or `PLIMSOLL_TEST_PERCENT` per cent, or a tenth under AddressSanitizer.
pub(crate) fn cases(full: u32) -> u32 {
    let asked = std::env::var("PLIMSOLL_TEST_PERCENT").ok().map(|text| text.parse().expect("a whole number"));
    let percent: u64 = asked.unwrap_or(if is_sanitized() { 10 } else { 100 });
    (u64::from(full) * percent / 100).max(1) as u32
}

/// Whether AddressSanitizer is linked in.
pub(crate) fn is_sanitized() -> bool {
    // SAFETY: a look-up of a symbol by name, which is a C string; the result is not called.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_init".as_ptr()) }.is_null()
}
