//! How much a test does: less where every access is checked.

/// Cases, tasks or rounds: `full` of them, or `PLIMSOLL_TEST_PERCENT` per cent, or a tenth under AddressSanitizer.
pub(crate) fn cases(full: u32) -> u32 {
    let asked = std::env::var("PLIMSOLL_TEST_PERCENT").ok().map(|text| text.parse().expect("a whole number"));
    let percent: u64 = asked.unwrap_or(if is_sanitized() { 10 } else { 100 });
    (u64::from(full) * percent / 100).max(1) as u32
}

/// Whether AddressSanitizer is linked in: nothing else reserves terabytes, as its shadow memory does.
pub(crate) fn is_sanitized() -> bool {
    const SHADOW_PAGES: u64 = (8 << 40) / 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').next().and_then(|pages| pages.parse().ok()).is_some_and(|pages: u64| pages > SHADOW_PAGES)
}
