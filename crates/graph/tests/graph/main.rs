//! Inference and tensors against oracles. One program, because each is linked with all that is below it.

mod bounded;
mod cells;
mod inference;
mod live;
#[path = "../../../runtime/tests/scale/mod.rs"]
mod scale;
mod widened;
