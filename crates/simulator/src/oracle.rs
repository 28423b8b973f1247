//! The result of a program, by doing one thing after the other.

use crate::program::{BoxView, HOSTS, Op, SimulatedProgram, SimulatedTask, Target};
use crate::shapes::SimulatedShape;

/// What a program computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Results {
    /// What its reads return, in their order.
    pub reads: Vec<Vec<i64>>,
    /// What the host buffers hold at the end.
    pub hosts: Vec<Vec<i64>>,
}

/// What the host buffers hold at first.
pub fn first_hosts() -> Vec<Vec<i64>> {
    (0..HOSTS.len()).map(|at| (0..HOSTS[at][0] * HOSTS[at][1]).map(|i| (at * 1000 + i) as i64).collect()).collect()
}

/// One element of a task's result: everything it read, in order. `old` is what it updates.
pub fn mix(salt: i64, inputs: &[Vec<i64>], element: usize, old: Option<i64>) -> i64 {
    const FACTOR: i64 = 6_364_136_223_846_793_005;
    let step = |sum: i64, value: i64| sum.wrapping_mul(FACTOR).wrapping_add(value);
    let read = inputs.iter().fold(salt, |sum, input| step(sum, input[element % input.len()]));
    old.map_or(read, |old| step(read, old))
}

struct Memory {
    tensors: Vec<Vec<i64>>,
    columns: Vec<usize>,
}

impl Memory {
    fn places(&self, view: &BoxView) -> Vec<usize> {
        let row = |row| view.columns.clone().map(move |column| row * self.columns[view.tensor] + column);
        view.rows.clone().flat_map(row).collect()
    }

    fn read(&self, view: &BoxView) -> Vec<i64> {
        self.places(view).into_iter().map(|at| self.tensors[view.tensor][at]).collect()
    }

    fn run(&mut self, task: &SimulatedTask) {
        match &task.shape {
            SimulatedShape::Dummy => return,
            SimulatedShape::Predicated(_, element, if_zero) if (self.read(element)[0] == 0) != *if_zero => return,
            _ => {}
        }
        let inputs: Vec<Vec<i64>> = task.inputs.iter().map(|view| self.read(view)).collect();
        match &task.target {
            Target::Make { tensor, len } => {
                self.tensors[*tensor] = (0..*len).map(|element| mix(task.salt, &inputs, element, None)).collect();
                self.columns[*tensor] = *len;
            }
            Target::Update(view) | Target::Replace(view) => {
                let updates = matches!(task.target, Target::Update(_));
                for (element, at) in self.places(view).into_iter().enumerate() {
                    let old = updates.then(|| self.tensors[view.tensor][at]);
                    self.tensors[view.tensor][at] = mix(task.salt, &inputs, element, old);
                }
            }
        }
    }
}

/// Runs a program serially.
pub fn run(program: &SimulatedProgram) -> Results {
    run_from(program, first_hosts())
}

/// Runs a program serially on host buffers that hold this.
pub fn run_from(program: &SimulatedProgram, hosts: Vec<Vec<i64>>) -> Results {
    let mut tensors = hosts;
    tensors.resize(program.tensors, Vec::new());
    let mut columns: Vec<usize> = HOSTS.iter().map(|[_, columns]| *columns).collect();
    columns.resize(program.tensors, 0);
    let mut memory = Memory { tensors, columns };
    let mut reads = Vec::new();
    fn play(ops: &[Op], memory: &mut Memory, reads: &mut Vec<Vec<i64>>) {
        for op in ops {
            match op {
                Op::Task(task) => memory.run(task),
                Op::Scope(ops) => play(ops, memory, reads),
                Op::Read(view) => reads.push(memory.read(view)),
            }
        }
    }
    play(&program.ops, &mut memory, &mut reads);
    memory.tensors.truncate(HOSTS.len());
    Results { reads, hosts: memory.tensors }
}
