//! Random programs over a few host buffers and the outputs of tasks, in nested scopes.

use crate::shapes::SimulatedShape;
use plimsoll_runtime::{CoreClass, Random};
use std::ops::Range;

/// The host buffers: rows and columns.
pub const HOSTS: [[usize; 2]; 3] = [[6, 8], [1, 16], [4, 4]];

/// A program.
#[derive(Clone, Debug)]
pub struct SimulatedProgram {
    /// What it does.
    pub ops: Vec<Op>,
    /// How many tasks it has.
    pub tasks: usize,
    /// How many tensors there are, host buffers first.
    pub tensors: usize,
}

/// One thing a program does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Submits a task.
    Task(SimulatedTask),
    /// Does something inside a scope.
    Scope(Vec<Op>),
    /// Reads data back.
    Read(BoxView),
}

/// A task.
#[derive(Clone, Debug)]
pub struct SimulatedTask {
    /// Its number in order of submission.
    pub number: usize,
    /// The cores it wants.
    pub class: CoreClass,
    /// Makes its result its own.
    pub salt: i64,
    /// What it reads.
    pub inputs: Vec<BoxView>,
    /// What it writes.
    pub target: Target,
    /// Tasks that it waits for besides.
    pub after: Vec<usize>,
    /// Whether its kernel fails.
    pub fails: bool,
    /// How it is executed.
    pub shape: SimulatedShape,
}

impl SimulatedTask {
    /// What it reads, what decides whether it is executed included.
    pub fn reads(&self) -> impl Iterator<Item = &BoxView> {
        self.inputs.iter().chain(self.shape.predicate())
    }
}

/// What a task writes.
#[derive(Clone, Debug)]
pub enum Target {
    /// A tensor of its own.
    Make {
        /// Its number.
        tensor: usize,
        /// Its elements.
        len: usize,
    },
    /// Elements that it reads too.
    Update(BoxView),
    /// Elements that it overwrites.
    Replace(BoxView),
}

/// A box of a tensor. Outputs are vectors: one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoxView {
    /// The tensor.
    pub tensor: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
}

impl BoxView {
    /// Whether two views share an element.
    pub fn overlaps(&self, other: &BoxView) -> bool {
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        self.tensor == other.tensor && meet(&self.rows, &other.rows) && meet(&self.columns, &other.columns)
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

/// How large programs are.
#[derive(Clone, Copy, Debug)]
pub struct ProgramSize {
    /// Tasks at most.
    pub tasks: usize,
    /// Scopes inside each other at most.
    pub depth: usize,
}

/// Draws a program.
pub fn draw(random: &mut Random, size: ProgramSize) -> SimulatedProgram {
    let shapes = HOSTS.to_vec();
    let visible = (0..HOSTS.len()).collect();
    let mut drawing = Drawing { random, size, shapes, visible, open_tasks: Vec::new(), tasks: 0 };
    let ops = drawing.ops(0, size.tasks);
    SimulatedProgram { ops, tasks: drawing.tasks, tensors: drawing.shapes.len() }
}

struct Drawing<'r> {
    random: &'r mut Random,
    size: ProgramSize,
    /// Rows and columns, by tensor.
    shapes: Vec<[usize; 2]>,
    /// Tensors of open scopes.
    visible: Vec<usize>,
    /// Tasks of open scopes.
    open_tasks: Vec<usize>,
    tasks: usize,
}

impl Drawing<'_> {
    fn ops(&mut self, depth: usize, budget: usize) -> Vec<Op> {
        let end = self.size.tasks.min(self.tasks + budget);
        let mut ops = Vec::new();
        while self.tasks < end {
            match self.random.below(16) {
                0..3 if depth < self.size.depth => ops.push(self.scope(depth, end)),
                3 => ops.push(Op::Read(self.view())),
                _ => ops.push(Op::Task(self.task())),
            }
        }
        ops
    }

    fn scope(&mut self, depth: usize, end: usize) -> Op {
        let (visible, open_tasks) = (self.visible.len(), self.open_tasks.len());
        let most = (end - self.tasks).min(24) as u64;
        let budget = self.random.between(1, most) as usize;
        let ops = self.ops(depth + 1, budget);
        self.visible.truncate(visible);
        self.open_tasks.truncate(open_tasks);
        Op::Scope(ops)
    }

    fn task(&mut self) -> SimulatedTask {
        let random = &mut *self.random;
        let class = CoreClass::ALL[random.below(3) as usize];
        let salt = random.bits() as i64;
        let kind = random.below(5);
        let target = match kind {
            0..2 => Target::Make { tensor: self.shapes.len(), len: self.random.between(1, 40) as usize },
            2..4 => Target::Update(self.view()),
            _ => Target::Replace(self.view()),
        };
        let written = match &target {
            Target::Make { .. } => None,
            Target::Update(view) | Target::Replace(view) => Some(view.clone()),
        };
        // Arguments that overlap with what the task writes are refused by the runtime; other tests see to that.
        let wanted = self.random.below(4);
        let inputs: Vec<BoxView> = (0..wanted).map(|_| self.view()).collect();
        let inputs = inputs.into_iter().filter(|view| written.as_ref().is_none_or(|w| !w.overlaps(view))).collect();
        let mut after = Vec::new();
        if !self.open_tasks.is_empty() && self.random.once_in(8) {
            after.push(self.open_tasks[self.random.below(self.open_tasks.len() as u64) as usize]);
        }
        if let Target::Make { tensor, len } = target {
            self.visible.push(tensor);
            self.shapes.push([1, len]);
        }
        let mut element = self.view();
        element.rows.end = element.rows.start + 1;
        element.columns.end = element.columns.start + 1;
        let own = matches!(target, Target::Make { tensor, .. } if tensor == element.tensor);
        let shape = match own {
            true => SimulatedShape::Ordinary,
            false => SimulatedShape::draw(self.random, &target, element),
        };
        let number = self.tasks;
        self.open_tasks.push(number);
        self.tasks += 1;
        SimulatedTask { number, class, salt, inputs, target, after, fails: false, shape }
    }

    fn view(&mut self) -> BoxView {
        let tensor = self.visible[self.random.below(self.visible.len() as u64) as usize];
        let [rows, columns] = self.shapes[tensor];
        BoxView { tensor, rows: self.range(rows), columns: self.range(columns) }
    }

    fn range(&mut self, extent: usize) -> Range<usize> {
        if self.random.once_in(3) {
            return 0..extent;
        }
        let start = self.random.below(extent as u64) as usize;
        start..self.random.between(start as u64 + 1, extent as u64) as usize
    }
}

impl SimulatedProgram {
    /// Lets the kernel of one task fail.
    pub fn fail(&mut self, number: usize) {
        for_each_task(&mut self.ops, &mut |task| {
            if task.number == number {
                (task.fails, task.shape) = (true, SimulatedShape::Ordinary);
            }
        });
    }

    /// Makes every task an ordinary one.
    pub fn make_ordinary(&mut self) {
        for_each_task(&mut self.ops, &mut |task| task.shape = SimulatedShape::Ordinary);
    }

    /// Lets the blocks of one task start together, as many as there are vector cores: of the first that makes a tensor, from `number`
    /// on. `None` if none does.
    pub fn make_cohort(&mut self, number: usize, blocks: u32) -> Option<usize> {
        let mut cohort = None;
        for_each_task(&mut self.ops, &mut |task| {
            let Target::Make { len, .. } = &mut task.target else { return };
            if task.number >= number && cohort.is_none() {
                *len = len.next_multiple_of(blocks as usize);
                (task.class, task.shape) = (CoreClass::Aiv, SimulatedShape::Cohort(*len as u32, 1));
                cohort = Some(task.number);
            }
        });
        cohort
    }

    /// The task whose kernel fails.
    pub fn failing(&self) -> Option<usize> {
        let mut failing = None;
        for_each_task(&mut self.ops.clone(), &mut |task| {
            if task.fails {
                failing = Some(task.number);
            }
        });
        failing
    }
}

fn for_each_task(ops: &mut [Op], each: &mut impl FnMut(&mut SimulatedTask)) {
    for op in ops {
        match op {
            Op::Task(task) => each(task),
            Op::Scope(ops) => for_each_task(ops, each),
            Op::Read(_) => {}
        }
    }
}
