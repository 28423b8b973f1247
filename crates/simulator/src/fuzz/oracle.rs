//! Serial execution in submission order, over plain vectors: what every run has to agree with.

use super::program::{FuzzView, HOST, ProgramStep, TaskAction};

/// All that can be seen of a run: the data of every read, then of every host buffer at the end.
pub type VisibleData = Vec<Vec<i64>>;

/// What a host buffer holds at first.
pub fn host_data(buffer: usize) -> Vec<i64> {
    let len = HOST[buffer].0.iter().product();
    (0..len).map(|i: usize| i as i64 * 7 + buffer as i64 * 1001).collect()
}

/// Folds what a task reads into a number that depends on every element and its place.
pub fn fold(values: impl Iterator<Item = i64>) -> i64 {
    values.fold(17, |sum, value| sum.wrapping_mul(31).wrapping_add(value))
}

/// The next value of an element: the order of two tasks that write it always shows.
pub fn mix(old: i64, with: i64, k: i64, place: usize) -> i64 {
    old.wrapping_mul(31).wrapping_add(with).wrapping_add(k).wrapping_add(place as i64)
}

/// What an orchestration writes to a view.
pub fn written(view: &FuzzView, k: i64) -> Vec<i64> {
    (0..view.elements.len()).map(|place| mix(3, 0, k, place)).collect()
}

/// What a program computes from what the host buffers hold at first.
pub fn run(steps: &[ProgramStep]) -> VisibleData {
    let (mut reads, hosts) = run_from(steps, (0..HOST.len()).map(host_data).collect());
    reads.extend(hosts);
    reads
}

/// What a program reads back, and leaves in host buffers that held this.
pub fn run_from(steps: &[ProgramStep], hosts: Vec<Vec<i64>>) -> (VisibleData, Vec<Vec<i64>>) {
    let mut serial = Serial { tensors: hosts, reads: vec![] };
    serial.scope(steps);
    (serial.reads, serial.tensors)
}

struct Serial {
    tensors: Vec<Vec<i64>>,
    reads: VisibleData,
}

impl Serial {
    fn scope(&mut self, steps: &[ProgramStep]) {
        let visible = self.tensors.len();
        for step in steps {
            match step {
                ProgramStep::Scope(steps) | ProgramStep::Manual(steps) => self.scope(steps),
                ProgramStep::Read(view) => self.reads.push(self.gather(view)),
                ProgramStep::Write(view, k) => {
                    let data = written(view, *k);
                    self.write(view, |_, place| data[place]);
                }
                ProgramStep::Task { kind, k, .. } => self.task(kind, *k),
            }
        }
        self.tensors.truncate(visible);
    }

    fn gather(&self, view: &FuzzView) -> Vec<i64> {
        view.elements.iter().map(|&at| self.tensors[view.tensor][at]).collect()
    }

    fn fold(&self, view: &FuzzView) -> i64 {
        fold(self.gather(view).into_iter())
    }

    fn write(&mut self, view: &FuzzView, value: impl Fn(i64, usize) -> i64) {
        for (place, &at) in view.elements.iter().enumerate() {
            let element = &mut self.tensors[view.tensor][at];
            *element = value(*element, place);
        }
    }

    fn task(&mut self, kind: &TaskAction, k: i64) {
        match kind {
            TaskAction::BumpIf(element, _, if_zero) if (self.gather(element) == [0]) != *if_zero => {}
            TaskAction::Dummy(_) => {}
            TaskAction::Bump(target)
            | TaskAction::BumpUntracked(target)
            | TaskAction::BumpBlocks(target, _)
            | TaskAction::BumpCohort(target, _)
            | TaskAction::BumpIf(_, target, _) => self.write(target, |old, place| mix(old, 0, k, place)),
            TaskAction::Mix(a, target)
            | TaskAction::MixUntracked(a, target)
            | TaskAction::MixParts(a, target, _)
            | TaskAction::MixCohort(a, target, _) => {
                let with = self.fold(a);
                self.write(target, |old, place| mix(old, with, k, place));
            }
            TaskAction::MixTwo(a, b, target) => {
                let with = mix(self.fold(a), self.fold(b), 0, 0);
                self.write(target, |old, place| mix(old, with, k, place));
            }
            TaskAction::Over(a, target) => {
                let with = self.fold(a);
                self.write(target, |_, place| mix(1, with, k, place));
            }
            TaskAction::Fill(target) => self.write(target, |_, place| mix(2, 0, k, place)),
            TaskAction::Make(a, shape) => {
                let with = self.fold(a);
                self.tensors.push((0..shape.iter().product()).map(|place| mix(1, with, k, place)).collect());
            }
            TaskAction::MakeNew(shape) => {
                self.tensors.push((0..shape.iter().product()).map(|place| mix(2, 0, k, place)).collect());
            }
            TaskAction::MixList(list, target) => {
                let with = fold(list.iter().map(|view| self.fold(view)));
                self.write(target, |old, place| mix(old, with, k, place));
            }
        }
    }
}
