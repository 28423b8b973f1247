//! `plimsoll size`: what sizes of rings would do, from a run that was recorded or by making one in large rings.

use crate::exit::{refused, wrong};
use crate::program::{NamedProgram, file_of};
use crate::read::{object, place, say_machine};
use crate::run::machine::Machine;
use crate::wording::{device_with, in_flags};
use clap::Args;
use plimsoll::abi::{Flags, Resource};
use plimsoll::isolate::ProgramCall;
use plimsoll::report::plain::{PROGRAM_NAME, one_line};
use plimsoll::trace::manifest::{CapacityFacts, RingCapacity};
use plimsoll::trace::{Manifest, OUTPUTS, for_shell};
use plimsoll::{Capacities, Device, RecordOptions, RunOptions, analyze, collect, report};
use plimsoll_programs::{Hosted, Settings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `size`.
#[derive(Args)]
pub(crate) struct SizeCommand {
    /// A run's directory, or a program, which is then run in large rings; the newest run if left out
    #[arg(value_name = "DIR | PROGRAM")]
    subject: Option<String>,
    /// Change a setting of the program
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Threads in all for a program's run, or cores of an emulated arch host; one per CPU if left out
    #[arg(long)]
    workers: Option<usize>,
    #[command(flatten)]
    machine: Machine,
    /// The directory of a program's run; `outputs/size-PROGRAM_TIME-PID` if left out
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Whether the command made a run, rather than a program of the user's own.
pub(crate) fn is_of_the_command(manifest: &Manifest) -> bool {
    !manifest.command.is_empty()
}

/// How to run with these sizes: as flags of the command, or as calls in the user's own program.
pub(crate) fn advice(manifest: &Manifest, flags: &str) -> String {
    if is_of_the_command(manifest) {
        let sets: Vec<String> =
            sets_of(&manifest.command).iter().map(|set| format!("--set {} ", setting_for_shell(set))).collect();
        return format!("plimsoll run {} {}{flags}", for_shell(&manifest.program), sets.concat());
    }
    format!("in {}: {}", one_line(&manifest.program, PROGRAM_NAME), device_with(manifest, flags))
}

/// `key=value` as a shell takes it.
fn setting_for_shell(set: &str) -> String {
    match set.split_once('=') {
        Some((key, value)) => format!("{}={}", for_shell(key), for_shell(value)),
        None => for_shell(set),
    }
}

/// The settings of the program in the words of a command that made a run.
fn sets_of(command: &[String]) -> Vec<&str> {
    let mut words = command.iter().map(String::as_str);
    let mut sets = Vec::new();
    while let Some(word) = words.next() {
        let set = if word == "--set" { words.next() } else { word.strip_prefix("--set=") };
        sets.extend(set);
    }
    sets
}

impl SizeCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let program = self.subject.as_deref().filter(|name| !is_run(Path::new(name))).map(named);
        let (dir, manifest, made) = match program.transpose()? {
            Some(program) => self.measured(&program)?,
            None if !self.how().is_empty() || self.out.is_some() => {
                return Err(wrong(format!(
                    "{} for a sizing run. A run that was recorded is only read. Name a program.",
                    match self.how().split_whitespace().next() {
                        Some(flag) => format!("{flag} is"),
                        None => "--out is".to_owned(),
                    }
                )));
            }
            None => {
                let dir = place(self.subject.as_ref().map(PathBuf::from))?;
                let manifest = Manifest::read(&dir)?;
                (dir, manifest, None)
            }
        };
        let Some(sizing) = analyze::sizing(&manifest) else {
            let remedy = if is_of_the_command(&manifest) {
                format!("Make a sizing run: plimsoll size {}.", for_shell(&manifest.program))
            } else {
                format!("Record a run of {} that ends.", one_line(&manifest.program, PROGRAM_NAME))
            };
            anyhow::bail!(
                "The run in {} does not say what it used. It has not ended, was killed, or was launched from a prebuilt graph. {remedy}",
                dir.display(),
            );
        };
        if self.json {
            let mut object = object(&sizing, manifest.virtual_time, manifest.emulated, Some(&manifest))?;
            object["out"] = dir.display().to_string().into();
            println!("{object}");
        } else {
            let calls = (!is_of_the_command(&manifest)).then(|| device_with(&manifest, &sizing.flags));
            print!("{}", report::text::sizing(&sizing, calls.as_deref()));
            say_machine(manifest.virtual_time, manifest.emulated, &manifest.arch);
            let flags =
                if made.is_some() { format!("{}{}", self.machine_words(), sizing.flags) } else { sizing.flags.clone() };
            println!("next: {}", advice(&manifest, &flags));
        }
        Ok(if made != Some(false) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The flags that say how a sizing run is made, each with a space behind it.
    fn how(&self) -> String {
        let sets: String = self.set.iter().map(|set| format!("--set {set} ")).collect();
        sets + &self.machine_words()
    }

    /// Those of them that say on what machine, each with a space behind it.
    fn machine_words(&self) -> String {
        let workers = self.workers.map_or(String::new(), |workers| format!("--workers {workers} "));
        let machine = self.machine.flags();
        let machine = if machine.is_empty() { machine } else { format!("{} ", machine.trim_start()) };
        format!("{workers}{machine}")
    }

    /// Runs the program in large rings, and reports against the sizes that it would have had. The last value says whether it
    /// ended well.
    fn measured(&self, program: &NamedProgram) -> anyhow::Result<(PathBuf, Manifest, Option<bool>)> {
        program.check_isolation(self.machine.is_isolated())?;
        let settings = program.settings(&self.set)?;
        let usual = Capacities::from_env().map_err(refused)?;
        let mut device = self.device(generous())?;
        let hosted = Hosted(program.build(&mut device, &settings).map_err(refused)?);
        self.machine.warn_of_unused_costs(&device);
        let mut record = match &self.out {
            Some(dir) => RecordOptions::new(dir, Flags::SCOPE_STATS),
            None => RecordOptions::under(OUTPUTS),
        };
        record.flags = Flags::SCOPE_STATS;
        record.dir_name = Some(format!("size-{}", program.name));
        record.wording = Some(in_flags);
        record.program = program.spelled.to_owned();
        record.command = std::env::args().collect();
        let mut options = hosted.0.options();
        options.record = Some(record);
        let outcome = self.play(program, &mut device, &hosted, &options);
        let Some(dir) = device.report().dir.clone() else {
            return Err(outcome.err().map_or_else(|| anyhow::anyhow!("The sizing run was not recorded."), Into::into));
        };
        if let Err(error) = &outcome {
            eprintln!(
                "plimsoll: the sizing run failed, so its figures are lower bounds. {}",
                in_flags(&error.to_string())
            );
        }
        let mut manifest = Manifest::read(&dir)?;
        if let Some(floors) = manifest.floors.as_mut().filter(|_| outcome.is_ok()) {
            self.prove(program, &settings, floors)?;
            collect::prove_floors(&dir, floors.clone())?;
        }
        manifest.capacities = amounts(&usual);
        Ok((dir, manifest, Some(outcome.is_ok())))
    }

    fn device(&self, capacities: Capacities) -> anyhow::Result<Device> {
        let builder = Device::builder().capacities(capacities).engine(self.machine.engine()?);
        self.workers.map_or(builder.clone(), |workers| builder.workers(workers)).open().map_err(refused)
    }

    fn play(
        &self,
        program: &NamedProgram,
        device: &mut Device,
        hosted: &Hosted,
        options: &RunOptions,
    ) -> plimsoll::Result<()> {
        device.run_program(&ProgramCall::new(program.spelled, &self.set), hosted, options)
    }

    /// Runs the program with its floors as capacities, and raises those that the run says are too small, until it passes.
    fn prove(&self, program: &NamedProgram, settings: &Settings, floors: &mut CapacityFacts) -> anyhow::Result<()> {
        loop {
            let mut device = self.device(capacities(floors))?;
            let hosted = Hosted(program.build(&mut device, settings).map_err(refused)?);
            let outcome = self.play(program, &mut device, &hosted, &hosted.0.options());
            let Err(error) = outcome else { return Ok(()) };
            let (Some(resource), Some(needed)) = (error.resource(), error.needed()) else { return Err(error.into()) };
            let ring = &mut floors.rings[error.ring().map_or(0, usize::from)];
            let floor = match resource {
                Resource::TaskWindow => &mut ring.task_window,
                Resource::Heap => &mut ring.heap,
                Resource::DepPool => &mut ring.dep_pool,
                Resource::Tensormap => &mut floors.tensormap,
            };
            anyhow::ensure!(needed > *floor, "The floor of {resource} cannot be found: {error}");
            *floor = needed;
        }
    }
}

/// The program of this name, or an error that says what names there are.
fn named(name: &str) -> anyhow::Result<NamedProgram> {
    match NamedProgram::find(name) {
        Err(_) if !file_of(name).is_some_and(|file| file.is_file()) => Err(wrong(format!(
            "{name:?} is neither a run nor a program. There is no run.json in a directory of that name. `plimsoll list` shows the programs."
        ))),
        found => found,
    }
}

fn is_run(path: &Path) -> bool {
    path.join(Manifest::FILE).is_file()
}

/// Rings so large that hardly any program waits for room. What is not touched costs nothing.
fn generous() -> Capacities {
    let mut out = Capacities { tensormap: 1 << 21, ..Capacities::default() };
    for ring in &mut out.rings {
        (ring.window, ring.heap, ring.dep_pool) = (1 << 18, 1 << 34, 1 << 21);
    }
    out
}

fn amounts(capacities: &Capacities) -> CapacityFacts {
    let rings = capacities.rings.map(|c| RingCapacity {
        task_window: u64::from(c.window),
        heap: c.heap,
        dep_pool: u64::from(c.dep_pool),
    });
    CapacityFacts { rings, tensormap: u64::from(capacities.tensormap) }
}

fn capacities(amounts: &CapacityFacts) -> Capacities {
    let mut out = Capacities { tensormap: narrow(amounts.tensormap), ..Capacities::default() };
    for (ring, amount) in out.rings.iter_mut().zip(&amounts.rings) {
        (ring.window, ring.heap) = (narrow(amount.task_window), amount.heap);
        ring.dep_pool = narrow(amount.dep_pool);
    }
    out
}

/// A size of a run as 32 bits, which it always fits.
fn narrow(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
