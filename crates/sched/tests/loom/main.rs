//! Protocols in every order up to a bound of preemptions, or in as many as time allows where `model_for_a_while` says so.
#![cfg(loom)]

mod agents;
mod gate;
mod model;
mod queues;
