//! What engines with cores behind mailboxes have in common: which topologies make sense, and who owns which core.

use crate::error::{Error, Result};
use crate::shape::{BlockRoom, ShapeLimits};
use plimsoll_abi::{AgentId, CoreId};
use plimsoll_platform::{ArchSpec, CoreClass, Number};
use plimsoll_sched::KernelEntry;
use plimsoll_sched::pipe::MOST_PARTS;

/// Cores that an arch has at most.
const MOST_CORES: u32 = super::MOST_WORKERS as u32;

/// Scheduler threads that an arch has at most. A recording has room for as many agents as for cores, and the orchestrator is
/// an agent, too.
const MOST_SCHEDULERS: u32 = MOST_CORES - 1;

/// Refuses archs whose numbers make no device.
pub(super) fn check_arch(arch: &ArchSpec) -> Result<()> {
    let name = arch.name;
    arch.check().map_err(|too_large| Error::invalid(format!("The arch {name} cannot be used. {too_large}.")))?;
    let (cores, threads, clusters) = (arch.cores(), arch.sched_threads, arch.clusters);
    if cores == 0 && (threads > 0 || clusters > 0) {
        return Err(Error::invalid(format!(
            "The arch {name} has {clusters} clusters and {threads} scheduler threads, but no cores. A device without cores of its own has workers instead of all three. Give it at least one cluster with cores, or change the number of workers only."
        )));
    }
    let parts = |arch: &ArchSpec| (arch.aic_per_cluster, arch.aiv_per_cluster);
    if cores == 0 && ArchSpec::named(name).is_some_and(|own| parts(own) != parts(arch)) {
        return Err(Error::invalid(format!(
            "The arch {name} has no clusters whose cores could be changed. A device without clusters has workers instead. Give it clusters and scheduler threads, too, or change the number of workers only."
        )));
    }
    if cores > 0 && (threads == 0 || cores > MOST_CORES || threads > MOST_SCHEDULERS) {
        return Err(Error::invalid(format!(
            "An arch cannot have {cores} cores and {threads} scheduler threads. It needs at least one scheduler, and has at most {MOST_CORES} cores and {MOST_SCHEDULERS} schedulers, which is what a recording has room for. Change its clusters or scheduler threads."
        )));
    }
    Ok(())
}

/// Refuses numbers that were changed and that an engine of threads makes nothing of.
pub(super) fn refuse_virtual_numbers(arch: &ArchSpec) -> Result<()> {
    // Of an arch that is in no table nobody knows what was changed.
    let Some(own) = ArchSpec::named(arch.name) else { return Ok(()) };
    let changed = |number: &&Number| number.only_virtual && number.of(arch) != number.of(own);
    match ArchSpec::NUMBERS.iter().find(changed) {
        Some(number) => Err(Error::invalid(format!(
            "The number {} of an arch needs virtual time. On threads of this machine the clock is the machine's, and work costs what it costs. Leave it as it is, or use `EngineKind::Virtual`.",
            number.key
        ))),
        None => Ok(()),
    }
}

/// Workers are the threads of arch host; a chip has cores.
pub(super) fn refuse_workers(arch: &ArchSpec) -> Error {
    Error::invalid(format!(
        "The arch {} has {} cores, not workers. Workers are the threads of arch host. Change its clusters instead.",
        arch.name,
        arch.cores()
    ))
}

/// The class and the owning agent of every core of a chip.
pub(super) fn cores(arch: &ArchSpec) -> Vec<(CoreClass, AgentId)> {
    (0..arch.cores()).map(|core| (arch.class_of(core), arch.owner(core))).collect()
}

/// What a device of this arch can place together: in the clusters of a chip, or on `workers` that execute tasks.
pub(super) fn limits(arch: &ArchSpec, workers: usize) -> ShapeLimits {
    if arch.cores() == 0 {
        return ShapeLimits { parts: MOST_PARTS, blocks: BlockRoom::Workers(workers) };
    }
    let parts = if arch.aic_per_cluster == 0 { 0 } else { 1 + arch.aiv_per_cluster as usize };
    let of = |class| (0..arch.cores()).filter(|&core| arch.class_of(core) == class).count();
    let blocks = BlockRoom::Chip {
        aic: of(CoreClass::Aic),
        aiv: of(CoreClass::Aiv),
        clusters: if parts == 0 { 0 } else { arch.clusters as usize },
    };
    ShapeLimits { parts: parts.min(MOST_PARTS), blocks }
}

/// The cores that `agent` owns.
pub(super) fn owned(
    cores: &[(CoreClass, AgentId)],
    agent: AgentId,
) -> impl Iterator<Item = (CoreId, CoreClass)> + Clone {
    let owned = cores.iter().enumerate().filter(move |(_, (_, owner))| *owner == agent);
    owned.map(|(core, (class, _))| (CoreId(core as u16), *class))
}

/// Refuses kernels that none of the cores could ever run.
pub(super) fn check_kernels(cores: &[(CoreClass, AgentId)], kernels: &[KernelEntry]) -> Result<()> {
    let runs = |wanted: CoreClass| {
        wanted == CoreClass::Any || cores.iter().any(|&(class, _)| class == wanted || class == CoreClass::Any)
    };
    match kernels.iter().find(|kernel| !runs(kernel.class)) {
        None => Ok(()),
        Some(kernel) => {
            let (name, class) = (&kernel.name, kernel.class.name());
            Err(Error::invalid(format!(
                "Kernel {name} wants a core of class {class}, and this arch has none. Its tasks would wait for ever. Give every cluster at least one {class} core."
            )))
        }
    }
}
