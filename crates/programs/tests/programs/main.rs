//! The built-in programs on every engine. One program, because each is linked with all that is below it.

mod emulated;
mod fake_engine;
mod faults;
mod floors;
mod harness;
mod linear;
mod programs;
