//! The peers written in Rust: `stealing`, `rayon`, `rayon-inline`, `serial-kahn`.
//!
//! Same arguments, task graphs, kernel and JSON line as the C++ peers; the contract stands in `peers/README.md`.
//! `rust-peers calibrate` prints the nanoseconds of one kernel iteration.

mod bench;
mod edges;
mod kernel;
mod marks;
mod program;
mod rayon_dag;
mod serial;
mod stealing;

use bench::PeerBench;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("calibrate") {
        println!("{}", kernel::ns_per_iteration());
        return;
    }
    if let Err(why) = measure() {
        eprintln!("{why}");
        std::process::exit(2);
    }
}

fn measure() -> Result<(), String> {
    let bench = PeerBench::prepare(std::env::args().skip(1))?;
    let marks = match bench.peer.as_str() {
        "serial-kahn" => serial::run(&bench),
        "rayon" => rayon_dag::run(&bench, rayon_dag::FirstReady::Spawned)?,
        "rayon-inline" => rayon_dag::run(&bench, rayon_dag::FirstReady::Inline)?,
        "stealing" => stealing::run(&bench),
        other => return Err(format!("no such peer: {other}")),
    };
    bench.report(&marks);
    Ok(())
}
