//! `plimsoll deps`: who waits for whom, why, and which dependencies data does not need.

use super::{ReadArgs, machine};
use crate::exit::in_calls;
use clap::Args;
use plimsoll::trace::TraceParts;
use plimsoll::{analyze, report};
use std::process::ExitCode;

/// Options of `deps`.
#[derive(Args)]
pub(crate) struct DepsCommand {
    #[command(flatten)]
    subject: ReadArgs,
    /// Show whom this task waits for and who waits for it
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Leave out dependencies that others imply
    #[arg(long)]
    reduced: bool,
    /// Write the graph for Graphviz
    #[arg(long, conflicts_with_all = ["json", "task"])]
    dot: bool,
}

impl DepsCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let reading = self.subject.open(TraceParts { deps: true, args: true, ..TraceParts::TASKS })?;
        let Some(mut graph) = analyze::graph(&reading.trace, self.reduced) else {
            return Err(in_calls(format!(
                "{} holds no dependencies. They were not recorded, or lie elsewhere. {}",
                reading.path.display(),
                reading.how_to_get_deps()
            )));
        };
        if self.dot {
            let facts = &reading.trace.facts;
            let label = machine(facts.virtual_time, facts.emulated, &facts.arch).unwrap_or_default();
            print!("{}", report::text::dot_with_label(&graph, &label));
            return Ok(ExitCode::SUCCESS);
        }
        let Some(task) = &self.task else {
            reading.answer(&graph, || report::text::graph(&graph), "plimsoll deps --dot · plimsoll critical-path")?;
            return Ok(ExitCode::SUCCESS);
        };
        // A graph that is told once has the tasks of later rounds under the names of its own.
        let told_once = !graph.nodes.iter().any(|node| node.task.contains('@'));
        let own = task.split_once('@').filter(|_| told_once).map_or(task.as_str(), |(name, _)| name);
        let Some(text) = report::text::neighbours(&graph, own) else {
            anyhow::bail!("{task} is not in the graph. Tasks are written as r2t17. Choose one of the run's.");
        };
        graph.nodes.retain(|node| node.task == own);
        graph.edges.retain(|edge| edge.pred == own || edge.succ == own);
        graph.false_dependencies.retain(|edge| edge.pred == own || edge.succ == own);
        reading.answer(&graph, || text, &format!("plimsoll critical-path --task {task}"))?;
        Ok(ExitCode::SUCCESS)
    }
}
