//! Protocols in every order up to a bound of preemptions.
#![cfg(loom)]

mod board;
mod model;
mod reserve;
mod rotation;
mod staging;
