//! pure functions over a Trace
