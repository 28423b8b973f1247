//! Settings as texts and numbers, as programs in other languages give them.

use crate::entry::invalid;
use crate::wording::Language;
use plimsoll::machine::{CostTable, EngineKind};
use plimsoll::record::{CounterGroup, Flags, Level, Policy, RecordOptions, TransportKind};
use plimsoll::run::Builder;
use plimsoll::{ArchSpec, CoreClass, EmulatedOptions, Result, VirtualOptions};

/// The name of the engine that an arch means where none is chosen: threads of this machine, or a chip made of threads.
pub fn implied_engine(arch: &str) -> &'static str {
    if arch == ArchSpec::HOST.name { "host" } else { "emulated" }
}

/// The engine that a program in another language names, and what it changes of the arch: KEY=VALUE each.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::abi::ErrorCode::InvalidArgs) if there is no such engine or arch, if the two do not go together, if a change is none of
/// a number of the arch, if a seed or costs are given without virtual time, or if the costs are no cost table.
pub fn engine<'a>(
    engine: Option<&str>,
    arch: Option<&str>,
    changes: impl IntoIterator<Item = &'a str>,
    seed: Option<u64>,
    costs: Option<&str>,
) -> Result<EngineKind> {
    let name = arch.unwrap_or(ArchSpec::HOST.name);
    let Some(arch) = ArchSpec::named(name) else {
        let names = ArchSpec::ALL.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", ");
        return Err(invalid(format!("There is no arch {name:?}. The archs are {names}. Choose one.")));
    };
    let engine = engine.unwrap_or_else(|| implied_engine(name));
    if engine != "virtual" && (seed.is_some() || costs.is_some()) {
        return Err(invalid(
            "A seed and costs need virtual time. On threads of this machine work costs what it costs. Use the engine `virtual`.",
        ));
    }
    let mut arch = arch.clone();
    for change in changes {
        if engine == "host" {
            return Err(invalid(
                "Numbers of an arch need a chip. The host engine has workers only. Use the engine `emulated` or `virtual`.",
            ));
        }
        set_number(&mut arch, change)?;
    }
    match engine {
        "host" if name == ArchSpec::HOST.name => Ok(EngineKind::Host),
        "host" => Err(invalid(format!(
            "The host engine runs this machine's CPUs, not {name}. That chip is emulated on threads, or modelled in virtual time. Use the engine `emulated` or `virtual`."
        ))),
        "emulated" => Ok(EmulatedOptions::new(&arch).into()),
        "virtual" => {
            let mut options = VirtualOptions::new(&arch, seed.unwrap_or(1));
            if let Some(costs) = costs {
                options.costs = CostTable::load_or_parse(costs)?;
            }
            Ok(options.into())
        }
        _ => Err(invalid(format!(
            "There is no engine {engine:?}. The engines are host, emulated and virtual. Choose one."
        ))),
    }
}

/// Changes one number of an arch.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::run::ErrorCode::InvalidArgs) if there is no such number, or it cannot be that.
pub fn set_number(arch: &mut ArchSpec, change: &str) -> Result<()> {
    let Some((key, value)) = change.split_once('=') else {
        return Err(invalid(format!(
            "{change:?} changes no number of an arch. It is not of the form key=value. Write it like clusters=8."
        )));
    };
    let Some(number) = ArchSpec::number(key) else {
        let known: Vec<&str> = ArchSpec::NUMBERS.iter().map(|number| number.key).collect();
        return Err(invalid(format!("An arch has no number {key:?}. It has {}. Use one of them.", known.join(", "))));
    };
    value.parse().ok().and_then(|value| number.change(arch, value)).ok_or_else(|| {
        invalid(format!(
            "{key} cannot be {value:?}. It is a whole number from 0 to {}. Give one of those.",
            number.most
        ))
    })
}

/// The group of counters with this name.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::run::ErrorCode::InvalidArgs) if there is none.
pub fn counters(name: &str) -> Result<CounterGroup> {
    CounterGroup::from_name(name).ok_or_else(|| {
        let names = CounterGroup::ALL.map(|group| group.name()).join(", ");
        invalid(format!("There is no group of counters {name:?}. There are {names}. Choose one of them."))
    })
}

/// What a program in another language wants recorded.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordSettings<'a> {
    /// A level from 0 to 4, or `profile`; `None` leaves it to the environment, unless a place is named.
    pub record: Option<&'a str>,
    /// The run's directory; `None` for one of its own under `outputs`.
    pub out: Option<&'a str>,
    /// The program's name.
    pub program: Option<&'a str>,
    /// `mapped` or `shadow`; `None` for as the arch has it.
    pub transport: Option<&'a str>,
    /// Where the region goes.
    pub region_dir: Option<&'a str>,
    /// `block` or `drop`.
    pub on_full: Option<&'a str>,
    /// Whether submits are recorded.
    pub dep_gen: bool,
    /// Captures arguments: a level from 1 to 3; 0 for none.
    pub dump_args: u32,
    /// Of which tasks, with commas between them.
    pub dump_tasks: Option<&'a str>,
    /// The most bytes of an argument; 0 for the default.
    pub dump_bytes: u64,
    /// The group of counters to read around every kernel.
    pub pmu: Option<&'a str>,
    /// What advice on the run is worded in.
    pub language: Language,
}

impl RecordSettings<'_> {
    /// The settings as options of a run; `None` leaves it to the environment.
    ///
    /// # Errors
    /// [`InvalidArgs`](plimsoll::run::ErrorCode::InvalidArgs) if a text or number is none of those that there are.
    pub fn options(&self) -> Result<Option<RecordOptions>> {
        let asked = self.asked()?;
        Ok(asked.map(|options| RecordOptions {
            program: self.program.unwrap_or_default().to_owned(),
            language: self.language.name(),
            wording: Some(self.language.wording()),
            ..options
        }))
    }

    fn asked(&self) -> Result<Option<RecordOptions>> {
        let wanted = self.out.is_some() || self.dep_gen || self.dump_args != 0 || self.pmu.is_some();
        let Some(asked) = self.record.or(wanted.then_some("1")) else { return RecordOptions::from_env() };
        let mut options = match self.out {
            Some(dir) => RecordOptions::new(dir, Flags::CORE_TIMING.with(Flags::SCOPE_STATS)),
            None => RecordOptions::under(plimsoll::trace::OUTPUTS),
        };
        let level = asked.parse().ok().and_then(|number| Level::new(number).ok());
        match (asked, level) {
            ("" | "0", _) => options.flags = Flags::NONE,
            ("profile", _) => options = options.profile(),
            (_, Some(level)) => options.flags = level.flags().with(Flags::SCOPE_STATS),
            _ => {
                return Err(invalid(format!(
                    "{asked:?} cannot be recorded. It is a level from 0 to 4, or `profile`. Give one of them."
                )));
            }
        }
        if self.dep_gen {
            options.flags = options.flags.with(Flags::DEP_GEN);
        }
        if let Some(group) = self.pmu {
            options.counters = counters(group)?;
            options.flags = options.flags.with(Flags::PMU);
        }
        self.set_capture(&mut options)?;
        options.region_dir = self.region_dir.map(Into::into);
        options.transport = self.transport.map(transport).transpose()?;
        options.policy = match self.on_full.unwrap_or("block") {
            "block" => Policy::Block,
            "drop" => Policy::Drop,
            other => {
                return Err(invalid(format!("A recorder cannot {other:?}. It can block or drop. Choose one.")));
            }
        };
        Ok(Some(options))
    }

    /// What is captured of arguments.
    fn set_capture(&self, options: &mut RecordOptions) -> Result<()> {
        match self.dump_args {
            0 => return Ok(()),
            1..=3 => options.dump.level = self.dump_args as u8,
            other => {
                return Err(invalid(format!(
                    "Arguments cannot be captured at level {other}. There are 1 to 3. Choose one."
                )));
            }
        }
        // Submits are recorded with the arguments: they tell the order of the tasks.
        options.flags = options.flags.with(Flags::TENSOR_DUMP).with(Flags::DEP_GEN);
        let tasks = self.dump_tasks.unwrap_or_default().split(',').map(str::trim).filter(|task| !task.is_empty());
        options.dump_tasks = tasks.map(str::to_owned).collect();
        if self.dump_bytes != 0 {
            options.dump.bytes = self.dump_bytes;
        }
        Ok(())
    }
}

fn transport(name: &str) -> Result<TransportKind> {
    match name {
        "mapped" => Ok(TransportKind::Mapped),
        "shadow" => Ok(TransportKind::Shadow),
        _ => Err(invalid(format!("There is no transport {name:?}. There are mapped and shadow. Choose one."))),
    }
}

/// Refuses time-outs, told by the names of their settings and whether they are given, that no engine in virtual time keeps.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::run::ErrorCode::InvalidArgs) if one is given in virtual time.
pub fn check_time_outs(is_virtual: bool, given: [(&str, bool); 3]) -> Result<()> {
    match given.iter().find(|(_, is_given)| *is_given && is_virtual) {
        None => Ok(()),
        Some((name, _)) => Err(invalid(format!(
            "{name} needs threads. In virtual time a run that does not move is found at once, by its structure. Leave it out, or choose another engine."
        ))),
    }
}

/// Sizes as texts: task windows, heaps, dependency pools, tensormap.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::abi::ErrorCode::InvalidArgs) if a text is no size, or too large a one; also if a variable of the environment is.
pub fn set_sizes(builder: Builder, [window, heap, deps, tensormap]: [Option<&str>; 4]) -> Result<Builder> {
    let mut capacities = plimsoll::Capacities::from_env()?;
    let wrong = |why: String| invalid(format!("A size cannot be used. {why}. Correct it."));
    if let Some(window) = window {
        capacities.set_task_window(window).map_err(wrong)?;
    }
    if let Some(heap) = heap {
        capacities.set_heap(heap).map_err(wrong)?;
    }
    if let Some(deps) = deps {
        capacities.set_dep_pool(deps).map_err(wrong)?;
    }
    if let Some(tensormap) = tensormap {
        capacities.set_tensormap(tensormap).map_err(wrong)?;
    }
    Ok(builder.capacities(capacities))
}

/// The class of this name.
///
/// # Errors
/// [`InvalidArgs`](plimsoll::abi::ErrorCode::InvalidArgs) if there is no class of this name.
pub fn core_class(name: Option<&str>) -> Result<CoreClass> {
    let Some(name) = name else { return Ok(CoreClass::Any) };
    CoreClass::ALL
        .into_iter()
        .find(|class| class.name() == name)
        .ok_or_else(|| invalid(format!("There is no class of cores {name:?}. They are any, aic and aiv. Choose one.")))
}
