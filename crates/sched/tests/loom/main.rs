//! Protocols in every order up to a bound of preemptions.
#![cfg(loom)]

mod agents;
mod gate;
mod model;
mod queues;
