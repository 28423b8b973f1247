//! Prints what recording costs on this machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("plimsoll-recorder-cost-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let cost = plimsoll_collect::bench::bench_recorder(&dir, 20_000_000);
    std::fs::remove_dir_all(&dir)?;
    println!("{}", serde_json::to_string_pretty(&cost?)?);
    Ok(())
}
