//! Settings as texts and numbers, as programs in other languages give them.

use crate::entry::invalid;
use plimsoll::machine::{CostTable, EngineKind};
use plimsoll::record::{Flags, Level, RecordOptions};
use plimsoll::run::Builder;
use plimsoll::{ArchSpec, CoreClass, EmulatedOptions, Result, VirtualOptions};

/// The engine that a program in another language names.
pub fn engine(engine: Option<&str>, arch: Option<&str>, seed: Option<u64>, costs: Option<&str>) -> Result<EngineKind> {
    let name = arch.unwrap_or(ArchSpec::HOST.name);
    let Some(arch) = ArchSpec::named(name) else {
        let names = ArchSpec::ALL.iter().map(|arch| arch.name).collect::<Vec<_>>().join(", ");
        return Err(invalid(format!("There is no arch {name:?}. The archs are {names}. Choose one.")));
    };
    let implied = if name == ArchSpec::HOST.name { "host" } else { "emulated" };
    let engine = engine.unwrap_or(implied);
    if engine != "virtual" && (seed.is_some() || costs.is_some()) {
        return Err(invalid(
            "A seed and costs need virtual time. On threads of this machine work costs what it costs. Use the engine `virtual`.",
        ));
    }
    match engine {
        "host" if name == ArchSpec::HOST.name => Ok(EngineKind::Host),
        "host" => Err(invalid(format!(
            "The host engine runs this machine's CPUs, not {name}. That chip is emulated on threads, or modelled in virtual time. Use the engine `emulated` or `virtual`."
        ))),
        "emulated" => Ok(EmulatedOptions::new(arch).into()),
        "virtual" => {
            let mut options = VirtualOptions::new(arch, seed.unwrap_or(1));
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

/// What a program in another language wants recorded; `None` leaves it to the environment.
pub fn recording(record: Option<&str>, out: Option<&str>, program: Option<&str>) -> Result<Option<RecordOptions>> {
    let Some(asked) = record.or(out.map(|_| "1")) else { return Ok(None) };
    let mut options = match out {
        Some(dir) => RecordOptions::new(dir, Flags::CORE_TIMING.with(Flags::SCOPE_STATS)),
        None => RecordOptions::under(plimsoll::trace::OUTPUTS),
    };
    options.program = program.unwrap_or_default().to_owned();
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
    Ok(Some(options))
}

/// Sizes as texts: task windows, heaps, dependency pools, tensormap.
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
pub fn core_class(name: Option<&str>) -> Result<CoreClass> {
    let Some(name) = name else { return Ok(CoreClass::Any) };
    CoreClass::ALL
        .into_iter()
        .find(|class| class.name() == name)
        .ok_or_else(|| invalid(format!("There is no class of cores {name:?}. They are any, aic and aiv. Choose one.")))
}
