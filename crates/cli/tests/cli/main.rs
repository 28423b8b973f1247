//! The command, run as its users run it. One program, because each is linked with all that is below it.

mod answers;
mod args;
mod bench;
mod console;
mod counters;
#[allow(dead_code, reason = "the tests of the writer use the rest")]
#[path = "../../../report/tests/report/decode.rs"]
mod decode;
mod deps;
mod disk_full;
mod emulated;
mod ends;
mod explain;
mod figures;
mod hang;
mod harness;
mod isolated;
mod junit;
mod kill;
mod orphans;
mod perfetto;
mod plugin;
mod read;
mod record;
mod run;
mod run_dir;
mod scopes;
mod signals;
mod size;
mod sql;
mod usage;
mod virtual_time;
