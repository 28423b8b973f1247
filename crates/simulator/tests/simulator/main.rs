//! The whole system under seeds, faults and random programs. One program, because each is linked with all that is below it.

mod critical_path;
mod fuzz;
mod hangs;
mod join;
mod programs;
#[path = "../../../runtime/tests/scale/mod.rs"]
mod scale;
mod scopes;
mod seeds;
mod serial_equivalence;
mod stress;
