//! One measurement: a process that prints one JSON line, ours or a peer's.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::workspace::shown;

/// A peer that takes longer is stuck, or so slow that its figure does not matter.
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) tasks: u64,
    pub(crate) ns_per_task: f64,
    pub(crate) cpu_ns_per_task: f64,
    pub(crate) submit_ns_per_task: f64,
    /// To derive the edges with dense tables; Rust peers only.
    pub(crate) infer_ns_per_task: f64,
    pub(crate) peak_rss_bytes: u64,
}

impl Sample {
    /// Of a peer: see `peers/README.md`.
    pub(crate) fn of_peer(line: &Value) -> Result<Sample> {
        let tasks = count(line, "tasks")?;
        let per_task = |key: &str| -> Result<f64> { Ok(count(line, key)? as f64 / tasks as f64) };
        Ok(Sample {
            tasks,
            ns_per_task: per_task("total_ns")?,
            cpu_ns_per_task: per_task("cpu_ns")?,
            submit_ns_per_task: per_task("build_ns")?,
            infer_ns_per_task: per_task("infer_ns")?,
            peak_rss_bytes: count(line, "peak_rss_bytes")?,
        })
    }

    /// Of `plimsoll bench graph --json`.
    pub(crate) fn of_ours(object: &Value) -> Result<Sample> {
        let number = |key: &str| object[key].as_f64().with_context(|| format!("bench graph --json has no `{key}`"));
        Ok(Sample {
            tasks: count(object, "tasks")?,
            ns_per_task: number("ns_per_task")?,
            cpu_ns_per_task: number("cpu_ns_per_task")?,
            submit_ns_per_task: number("submit_ns_per_task")?,
            infer_ns_per_task: 0.0,
            peak_rss_bytes: count(object, "peak_rss_bytes")?,
        })
    }

    /// The same tasks with their edges derived first: the floor of a runtime that infers, as one figure.
    pub(crate) fn with_inference(&self) -> Sample {
        let inferring = self.infer_ns_per_task; // on one thread: wall and CPU time alike
        Sample {
            ns_per_task: self.ns_per_task + inferring,
            cpu_ns_per_task: self.cpu_ns_per_task + inferring,
            submit_ns_per_task: self.submit_ns_per_task + inferring,
            ..self.clone()
        }
    }
}

pub(crate) fn count(object: &Value, key: &str) -> Result<u64> {
    object[key].as_u64().with_context(|| format!("the line has no whole number `{key}`: {object}"))
}

/// Runs a process that prints one JSON object. Ours may print it over several lines.
pub(crate) fn run(command: &mut Command) -> Result<Value> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    // Reading in threads of their own: a full pipe must not stop the child, and the wait must end at the limit.
    let printed = collect(child.stdout.take().context("stdout is piped")?);
    let complaint = collect(child.stderr.take().context("stderr is piped")?);
    let Ok(printed) = printed.recv_timeout(TIME_LIMIT) else {
        child.kill()?;
        child.wait()?;
        bail!("took more than {} s", TIME_LIMIT.as_secs());
    };
    let status = child.wait()?;
    let complaint = complaint.recv().unwrap_or_default();
    ensure!(status.success(), "{} failed ({status}): {}", shown(command), complaint.trim());
    let begin = printed.find('{').with_context(|| format!("{} printed no JSON object", shown(command)))?;
    Ok(serde_json::from_str(&printed[begin..])?)
}

fn collect(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // An error means that the pipe broke: what was read so far is what there is.
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_peers_line_is_divided_by_its_tasks() -> Result<()> {
        let line = json!({"tasks": 10, "total_ns": 500, "cpu_ns": 900, "build_ns": 100, "infer_ns": 30,
            "peak_rss_bytes": 4096});
        let sample = Sample::of_peer(&line)?;
        assert_eq!((sample.ns_per_task, sample.cpu_ns_per_task), (50.0, 90.0));
        assert_eq!(sample.with_inference().ns_per_task, 53.0);
        assert!(Sample::of_peer(&json!({"tasks": 10})).is_err());
        Ok(())
    }

    #[test]
    fn a_failing_process_is_quoted() {
        let why = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).expect_err("it fails");
        assert!(why.to_string().contains("broken"), "{why}");
    }
}
