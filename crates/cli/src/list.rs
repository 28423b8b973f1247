//! `plimsoll list`: the programs, one program's settings, or the archs.

use crate::program::NamedProgram;
use clap::Args;
use plimsoll::ArchSpec;
use std::process::ExitCode;

/// Options of `list`.
#[derive(Args)]
pub(crate) struct ListCommand {
    /// Show this program's settings; a plug-in is named by its file
    program: Option<String>,
    /// Show the archs instead
    #[arg(long, conflicts_with = "program")]
    archs: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl ListCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match (&self.program, self.archs) {
            (Some(name), _) => self.program(name)?,
            (None, true) => self.archs(),
            (None, false) => self.programs(),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn programs(&self) {
        if self.json {
            let rows: Vec<_> = plimsoll_programs::ALL
                .iter()
                .map(|p| serde_json::json!({ "name": p.name, "about": p.about, "fault": p.fault }))
                .collect();
            println!("{}", serde_json::json!({ "programs": rows }));
            return;
        }
        for (fault, title) in [(false, "Programs"), (true, "Programs that go wrong on purpose")] {
            println!("{title}:");
            for program in plimsoll_programs::ALL.iter().filter(|program| program.fault == fault) {
                println!("  {:<22} {}", program.name, program.about);
            }
        }
        println!("next: plimsoll list PROGRAM · plimsoll run PROGRAM");
    }

    fn program(&self, name: &str) -> anyhow::Result<()> {
        let program = NamedProgram::find(name)?;
        if self.json {
            let params: Vec<_> = program
                .params
                .iter()
                .map(|p| serde_json::json!({ "key": p.key, "default": p.default, "min": p.min, "max": p.max, "words": p.words, "about": p.about }))
                .collect();
            println!("{}", serde_json::json!({ "name": program.name, "about": program.about, "params": params }));
            return Ok(());
        }
        println!("{}: {}", program.name, program.about);
        for param in program.params {
            let values = match param.words {
                [] => format!("{} to {}", param.min, param.max),
                words => words.join(", "),
            };
            println!("  --set {}={:<10} {} ({values})", param.key, param.text(param.default), param.about);
        }
        println!("next: plimsoll run {}", plimsoll::trace::for_shell(program.spelled));
        Ok(())
    }

    fn archs(&self) {
        if self.json {
            let rows: Vec<_> = ArchSpec::ALL.iter().map(|arch| arch_json(arch)).collect();
            println!("{}", serde_json::json!({ "archs": rows }));
            return;
        }
        for arch in ArchSpec::ALL {
            if arch.clusters == 0 {
                println!("  {:<6} this machine's CPUs as workers", arch.name);
                continue;
            }
            println!(
                "  {:<6} {} clusters = {} AIC + {} AIV, {} schedulers + 1 orchestrator, {} MHz counter (not a real chip: emulated by threads, or in virtual time)",
                arch.name,
                arch.clusters,
                arch.clusters * arch.aic_per_cluster,
                arch.clusters * arch.aiv_per_cluster,
                arch.sched_threads,
                arch.counter_hz / 1_000_000,
            );
        }
        println!("Their numbers, each of which `--arch-set KEY=VALUE` changes; costs count in virtual time only:");
        let names = ArchSpec::ALL.map(|arch| format!("{:>12}", arch.name));
        println!("  {:<16}{}", "", names.concat());
        for number in &ArchSpec::NUMBERS {
            let values = ArchSpec::ALL.map(|arch| format!("{:>12}", number.of(arch)));
            println!("  {:<16}{}  {}", number.key, values.concat(), number.about);
        }
        println!("next: plimsoll run vector --arch a2a3 --arch-set clusters=8");
    }
}

fn arch_json(arch: &ArchSpec) -> serde_json::Value {
    let mut row = serde_json::json!({
        "name": arch.name, "cores": arch.cores(), "host_mapped": arch.host_mapped,
    });
    for number in &ArchSpec::NUMBERS {
        row[number.key] = number.of(arch).into();
    }
    row
}
