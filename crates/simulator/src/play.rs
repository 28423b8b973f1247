//! A program on a device.

use crate::oracle::{Results, first_hosts, mix};
use crate::program::{BoxView, HOSTS, Op, SimulatedProgram, SimulatedTask, Target};
use crate::shapes::{SimulatedShape, TileKernels};
use plimsoll_runtime::{
    CoreClass, Dep, Device, Faults, In, InList, InOut, Kernel, KernelError, Orchestrator, Out, ReadList, ReadWrite,
    Result, RunOptions, ShapeLimits, SharedBuffer, TaskShape, Tensor, Value, Write, inout, input_list, output,
    output_existing, scalar,
};
use std::sync::{Arc, Mutex, PoisonError};

type Making = Kernel<(Value<i64>, ReadList<i64>, Write<i64>)>;
type Updating = Kernel<(Value<i64>, ReadList<i64>, ReadWrite<i64>)>;

/// The kernels of all programs, by core class.
#[derive(Debug)]
pub struct PlayKernels {
    make: [Making; 3],
    update: [Updating; 3],
    fail: [Making; 3],
    tiles: TileKernels,
    limits: ShapeLimits,
}

/// What memory holds that was taken back.
const POISON: i64 = i64::from_ne_bytes([Faults::POISON; 8]);

pub(crate) fn gather(row: impl Fn(usize) -> Vec<i64>, rows: usize) -> std::result::Result<Vec<i64>, KernelError> {
    let values: Vec<i64> = (0..rows).flat_map(row).collect();
    match values.contains(&POISON) {
        true => Err("memory was read after it was taken back".into()),
        false => Ok(values),
    }
}

pub(crate) fn gather_list(list: &InList<'_, i64>) -> std::result::Result<Vec<Vec<i64>>, KernelError> {
    list.iter().map(|input: In<'_, i64>| gather(|row| input.row(row).to_vec(), input.rows())).collect()
}

/// The salts of ordinary tasks whose kernels were called, in that order.
pub type CallLog = Arc<Mutex<Vec<i64>>>;

fn note(log: &CallLog, salt: i64) {
    log.lock().unwrap_or_else(PoisonError::into_inner).push(salt);
}

impl PlayKernels {
    /// Registers them.
    pub fn register(device: &mut Device) -> Self {
        Self::register_as(device, false, &CallLog::default())
    }

    /// Registers them with a device whose blocks are threads: those that start together wait for each other.
    pub fn on_threads(device: &mut Device) -> Self {
        Self::register_as(device, true, &CallLog::default())
    }

    /// Registers them; what is called is noted in `log`.
    pub fn register_logged(device: &mut Device, log: &CallLog) -> Self {
        Self::register_as(device, false, log)
    }

    fn register_as(device: &mut Device, meet: bool, log: &CallLog) -> Self {
        let make = CoreClass::ALL.map(|class| {
            let log = Arc::clone(log);
            let body = move |salt: i64, list: InList<i64>, mut out: Out<i64>| -> std::result::Result<(), KernelError> {
                note(&log, salt);
                let inputs = gather_list(&list)?;
                let mut element = 0;
                for row in 0..out.rows() {
                    for value in out.row_mut(row) {
                        *value = mix(salt, &inputs, element, None);
                        element += 1;
                    }
                }
                Ok(())
            };
            device.kernel_on(class, &format!("make-{}", class.name()), body)
        });
        let update = CoreClass::ALL.map(|class| {
            let log = Arc::clone(log);
            let body = move |salt: i64, list: InList<i64>, mut x: InOut<i64>| -> std::result::Result<(), KernelError> {
                note(&log, salt);
                let inputs = gather_list(&list)?;
                gather(|row| x.row(row).to_vec(), x.rows())?;
                let mut element = 0;
                for row in 0..x.rows() {
                    for value in x.row_mut(row) {
                        *value = mix(salt, &inputs, element, Some(*value));
                        element += 1;
                    }
                }
                Ok(())
            };
            device.kernel_on(class, &format!("update-{}", class.name()), body)
        });
        let fail = CoreClass::ALL.map(|class| {
            let body = |_: i64, _: InList<i64>, _: Out<i64>| -> std::result::Result<(), KernelError> {
                Err("as planned".into())
            };
            device.kernel_on(class, &format!("fail-{}", class.name()), body)
        });
        Self { make, update, fail, tiles: TileKernels::register(device, meet), limits: device.limits() }
    }
}

/// A program while it is submitted.
struct Player<'p> {
    kernels: &'p PlayKernels,
    /// By number; only those of open scopes are used again.
    tensors: Vec<Option<Tensor<'static, i64>>>,
    tasks: Vec<Option<Dep<'static>>>,
    reads: Vec<Vec<i64>>,
    /// Whether data is read back, which cannot be while a graph is built.
    reading: bool,
    /// Scopes that are open, the root not counted.
    depth: usize,
}

/// Forgets which scope a tensor belongs to.
pub(crate) fn unbound(tensor: Tensor<'_, i64>) -> Tensor<'static, i64> {
    // SAFETY: the two types differ by a lifetime only. A program names a tensor inside its scope only, because `program`
    // draws among those of open scopes, so it is not used for longer than it is valid.
    unsafe { std::mem::transmute::<Tensor<'_, i64>, Tensor<'static, i64>>(tensor) }
}

/// Forgets which scope a task belongs to.
pub(crate) fn unbound_dep(dep: Dep<'_>) -> Dep<'static> {
    // SAFETY: as in `unbound`; a dependency on a task of a closed scope would be harmless besides.
    unsafe { std::mem::transmute::<Dep<'_>, Dep<'static>>(dep) }
}

/// The lines of this file at which scopes are opened, by depth modulo their number.
pub const SCOPE_LINES: [u32; 4] = Player::SCOPE_LINES;

impl Player<'_> {
    fn view(&self, view: &BoxView) -> Result<Tensor<'static, i64>> {
        let tensor = self.tensors[view.tensor].expect("a program names tensors of open scopes");
        if view.tensor < HOSTS.len() {
            tensor.slice(0, view.rows.clone())?.slice(1, view.columns.clone())
        } else {
            tensor.slice(0, view.columns.clone())
        }
    }

    fn submit(&mut self, o: &mut Orchestrator<'_, '_>, task: &SimulatedTask) -> Result<()> {
        let inputs: Vec<_> = task.inputs.iter().map(|view| self.view(view)).collect::<Result<_>>()?;
        let deps: Vec<Dep<'_>> = task.after.iter().filter_map(|&task| self.tasks[task]).collect();
        let class = task.class as usize;
        let make = if task.fails { &self.kernels.fail[class] } else { &self.kernels.make[class] };
        let (salt, list) = (scalar(task.salt), input_list(&inputs));
        if task.shape != SimulatedShape::Ordinary {
            self.submit_shaped(o, task, &deps, &inputs)?;
            self.tasks[task.number] = o.last().map(unbound_dep);
            return Ok(());
        }
        match &task.target {
            Target::Make { tensor, len } => {
                let (.., made) = o.submit_after(&deps, make, (salt, list, output([*len])))?;
                self.tensors[*tensor] = Some(unbound(made));
            }
            Target::Update(view) if !task.fails => {
                o.submit_after(&deps, &self.kernels.update[class], (salt, list, inout(&self.view(view)?)))?;
            }
            Target::Update(view) | Target::Replace(view) => {
                o.submit_after(&deps, make, (salt, list, output_existing(&self.view(view)?)))?;
            }
        }
        self.tasks[task.number] = o.last().map(unbound_dep);
        Ok(())
    }

    /// Submits a task that is not ordinary.
    fn submit_shaped(
        &mut self,
        o: &mut Orchestrator<'_, '_>,
        task: &SimulatedTask,
        deps: &[Dep<'_>],
        inputs: &[Tensor<'static, i64>],
    ) -> Result<()> {
        let (salt, list, class) = (scalar(task.salt), input_list(inputs), task.class as usize);
        let (tiles, limits) = (&self.kernels.tiles, &self.kernels.limits);
        let predicate = task.shape.predicate().map(|view| self.view(view)).transpose()?;
        let (shape, parts) = match (&task.shape, &predicate) {
            (SimulatedShape::Predicated(blocks, _, true), Some(flag)) => (TaskShape::blocks(*blocks).unless(flag), 1),
            (SimulatedShape::Predicated(blocks, ..), Some(flag)) => (TaskShape::blocks(*blocks).only_if(flag), 1),
            (SimulatedShape::Mixed(blocks, parts), _) => (TaskShape::blocks(*blocks), *parts),
            (SimulatedShape::Cohort(blocks, 1), _) => {
                let blocks = SimulatedShape::cohort(*blocks, limits.together(task.class));
                (TaskShape::blocks(blocks).sync_start(), 1)
            }
            (SimulatedShape::Cohort(blocks, parts), _) => {
                let blocks = SimulatedShape::cohort(*blocks, limits.mixed_together());
                (TaskShape::blocks(blocks).sync_start(), *parts)
            }
            (SimulatedShape::Blocks(blocks), _) => (TaskShape::blocks(*blocks), 1),
            _ => (TaskShape::default(), 1),
        };
        let (make, update) = match &task.shape {
            SimulatedShape::Cohort(..) => (&tiles.make_together[class], &tiles.update_together[class]),
            _ => (&tiles.make[class], &tiles.update[class]),
        };
        match &task.target {
            Target::Update(view) | Target::Replace(view) if task.shape == SimulatedShape::Dummy => {
                o.submit_dummy(deps, (salt, list, inout(&self.view(view)?)))?;
            }
            Target::Make { tensor, len } => {
                let args = (salt, list, output([*len]));
                let [one, two, three] = tiles.make_parts;
                let (.., made) = match parts {
                    1 => o.submit_shaped_after(deps, &shape, make, args)?,
                    2 => o.submit_shaped_after(deps, &shape, &[one, two], args)?,
                    _ => o.submit_shaped_after(deps, &shape, &[one, two, three], args)?,
                };
                self.tensors[*tensor] = Some(unbound(made));
            }
            Target::Update(view) => {
                let view = self.view(view)?;
                let args = (salt, list, inout(&view));
                let [one, two, three] = tiles.update_parts;
                match parts {
                    1 => o.submit_shaped_after(deps, &shape, update, args)?,
                    2 => o.submit_shaped_after(deps, &shape, &[one, two], args)?,
                    _ => o.submit_shaped_after(deps, &shape, &[one, two, three], args)?,
                };
            }
            Target::Replace(view) => {
                let view = self.view(view)?;
                let args = (salt, list, output_existing(&view));
                let [one, two, three] = tiles.make_parts;
                match parts {
                    1 => o.submit_shaped_after(deps, &shape, make, args)?,
                    2 => o.submit_shaped_after(deps, &shape, &[one, two], args)?,
                    _ => o.submit_shaped_after(deps, &shape, &[one, two, three], args)?,
                };
            }
        }
        Ok(())
    }

    /// Plays in a scope whose place in this file tells its depth.
    fn play_scope(&mut self, o: &mut Orchestrator<'_, '_>, ops: &[Op]) -> Result<()> {
        self.depth += 1;
        let played = match self.depth % SCOPE_LINES.len() {
            0 => o.scope(|o| self.play(o, ops)),
            1 => o.scope(|o| self.play(o, ops)),
            2 => o.scope(|o| self.play(o, ops)),
            _ => o.scope(|o| self.play(o, ops)),
        };
        self.depth -= 1;
        played
    }

    /// The lines above at which scopes are opened, by depth modulo their number.
    const SCOPE_LINES: [u32; 4] = [line!() - 10, line!() - 9, line!() - 8, line!() - 7];

    fn play(&mut self, o: &mut Orchestrator<'_, '_>, ops: &[Op]) -> Result<()> {
        for op in ops {
            match op {
                Op::Task(task) => self.submit(o, task)?,
                Op::Scope(ops) => self.play_scope(o, ops)?,
                Op::Read(_) if !self.reading => {}
                Op::Read(view) => {
                    let view = self.view(view)?;
                    self.reads.push(o.read(&view)?);
                }
            }
        }
        Ok(())
    }
}

/// Runs a program and returns what it computed.
pub fn play(
    device: &mut Device,
    kernels: &PlayKernels,
    program: &SimulatedProgram,
    options: &RunOptions,
) -> Result<Results> {
    let hosts: Vec<SharedBuffer<i64>> = first_hosts().into_iter().map(SharedBuffer::new).collect();
    let reads = device.run_with(options, |o| submit_all(o, kernels, program, &hosts, true))?;
    Ok(Results { reads, hosts: contents(&hosts)? })
}

/// Builds a program once, without what it reads back, launches it `rounds` times and returns the host buffers.
pub fn play_prebuilt(
    device: &mut Device,
    kernels: &PlayKernels,
    program: &SimulatedProgram,
    rounds: u32,
    options: &RunOptions,
) -> Result<Vec<Vec<i64>>> {
    let hosts: Vec<SharedBuffer<i64>> = first_hosts().into_iter().map(SharedBuffer::new).collect();
    let mut graph = device.prebuild(|o| submit_all(o, kernels, program, &hosts, false).map(drop))?;
    device.launch(&mut graph, rounds, options)?;
    contents(&hosts)
}

fn submit_all(
    o: &mut Orchestrator<'_, '_>,
    kernels: &PlayKernels,
    program: &SimulatedProgram,
    hosts: &[SharedBuffer<i64>],
    reading: bool,
) -> Result<Vec<Vec<i64>>> {
    let mut player = Player {
        kernels,
        tensors: vec![None; program.tensors],
        tasks: vec![None; program.tasks],
        reads: Vec::new(),
        reading,
        depth: 0,
    };
    for (at, host) in hosts.iter().enumerate() {
        player.tensors[at] = Some(unbound(o.share(host, HOSTS[at])?));
    }
    player.play(o, &program.ops)?;
    Ok(player.reads)
}

fn contents(hosts: &[SharedBuffer<i64>]) -> Result<Vec<Vec<i64>>> {
    hosts.iter().map(|host| host.to_vec()).collect()
}
