//! Protocols in every order up to a bound of preemptions, or in as many as time allows where `explore_for_a_while` says so.
#![cfg(loom)]

mod board;
mod model;
mod reserve;
mod rotation;
mod staging;
