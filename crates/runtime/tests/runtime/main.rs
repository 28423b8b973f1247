//! Devices, runs and recordings through the library's own API, in one program, because each is linked with all that is below it. What counts
//! allocations or memory, or turns LeakSanitizer off, has a program of its own beside it.

mod collector_stopped;
mod counters;
mod devices;
mod dump;
mod errors;
mod failures;
mod guesses;
mod hostile;
mod many_kernels;
mod prebuilt;
mod quiet_panics;
mod reclaim;
mod recording_order;
mod recording_place;
mod refusals;
#[path = "../scale/mod.rs"]
mod scale;
mod shapes;
mod sync_start;
mod untyped;
mod views;
mod virtual_time;
mod watchdog;
