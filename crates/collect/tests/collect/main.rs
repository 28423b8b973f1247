//! Runs' directories: drained, reconciled, recovered. One program, because each is linked with all that is below it; what limits its
//! process or is traced has one of its own beside it.

mod flips;
#[path = "../harness/mod.rs"]
mod harness;
mod kill;
mod ledger;
mod reserve;
mod run_dir;
mod scopes;
