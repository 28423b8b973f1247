//! Readers of our and foreign formats. One program, because each is linked with all that is below it.

mod args_dump;
mod audit;
mod contradictions;
mod counters;
mod deps;
mod newest;
mod reference;
mod segments;
