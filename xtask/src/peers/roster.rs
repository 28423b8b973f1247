//! Who takes part: ours, the Rust peers, and the C++ peers that this machine has. Builds them all.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::measure::PeerCase;
use super::sample::{self, Sample};
use crate::workspace::{Workspace, output, succeed};

pub(crate) const OURS: &str = "plimsoll";
pub(crate) const OURS_PREBUILT: &str = "plimsoll, prebuilt";
pub(crate) const STEALING: &str = "stealing";
/// Not a system of its own: the stealing floor with the time of inference added.
pub(crate) const FLOOR: &str = "floor: table + bare stealing";

pub(crate) struct Roster {
    pub(crate) systems: Vec<System>,
    /// One line for each peer that this machine does not have.
    pub(crate) absent: Vec<String>,
    ns_per_iteration: f64,
}

pub(crate) struct System {
    pub(crate) name: &'static str,
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// A C++ program: its compiler and flags, and the systems it serves.
struct Cpp {
    source: &'static str,
    package: &'static str,
    systems: &'static [&'static str],
    compilers: &'static [&'static str],
    flags: &'static [&'static str],
    /// pkg-config names; the first that is known adds its flags.
    pkg_config: &'static [&'static str],
}

/// The peers in Rust, all in one program.
const RUST: &[&str] = &[STEALING, "serial-kahn", "rayon", "rayon-inline"];
const GXX: &[&str] = &["g++"];
const CPP: [Cpp; 5] = [
    Cpp {
        source: "openmp",
        package: "OpenMP of gcc",
        systems: &["openmp-gcc"],
        compilers: GXX,
        flags: &["-std=c++17", "-fopenmp"],
        pkg_config: &[],
    },
    Cpp {
        source: "openmp",
        package: "OpenMP of clang",
        systems: &["openmp-clang"],
        compilers: &["clang++", "clang++-19", "clang++-16", "clang++-14"],
        flags: &["-std=c++17", "-fopenmp"],
        pkg_config: &[],
    },
    Cpp {
        source: "taskflow",
        package: "Taskflow",
        systems: &["taskflow", "taskflow-async"],
        compilers: GXX,
        flags: &["-std=c++20", "-pthread"], // from Taskflow 4 on, C++17 is not enough
        pkg_config: &[],
    },
    Cpp {
        source: "tbb",
        package: "TBB",
        systems: &["tbb-flow", "tbb-group-inline"],
        compilers: GXX,
        flags: &["-std=c++17"],
        pkg_config: &["tbb"],
    },
    Cpp {
        source: "starpu",
        package: "StarPU",
        systems: &["starpu-eager", "starpu-lws"],
        compilers: GXX,
        flags: &["-std=c++17"],
        pkg_config: &["starpu-1.4", "starpu-1.3"],
    },
];

impl Roster {
    /// Builds everyone. `only` names the wanted systems; empty means all.
    pub(crate) fn assemble(workspace: &Workspace, only: &[String], without_ours: bool) -> Result<Roster> {
        refuse_unknown(only)?;
        eprintln!("building the peers …");
        succeed(&mut workspace.cargo([
            "build",
            "--release",
            "--quiet",
            "-p",
            "xtask",
            "--features=peers",
            "--bin=rust-peers",
        ]))?;
        let rust = workspace.release("rust-peers");
        let calibrated = output(Command::new(&rust).arg("calibrate"))?;
        let ns_per_iteration = calibrated.trim().parse().context("rust-peers calibrate printed no number")?;

        let mut roster = Roster { systems: Vec::new(), absent: Vec::new(), ns_per_iteration };
        if !without_ours {
            roster.add(&[OURS, OURS_PREBUILT], &ours(workspace)?);
        }
        roster.add(RUST, &rust);
        let is_wanted = |name: &str| only.is_empty() || only.iter().any(|asked| asked == name);
        for peer in CPP.iter().filter(|peer| peer.systems.iter().any(|name| is_wanted(name))) {
            match peer.build(workspace)? {
                Some(program) => roster.add(peer.systems, &program),
                None => roster.absent.push(format!("without {}: `.ci/setup --peers` installs it", peer.package)),
            }
        }
        // Ours stays: the ratios need it.
        roster.systems.retain(|system| is_wanted(system.name) || system.is_ours());
        ensure!(!roster.systems.is_empty(), "none of these systems is here: {}", only.join(", "));
        Ok(roster)
    }

    fn add(&mut self, names: &[&'static str], program: &Path) {
        for name in names {
            let environment = match name.strip_prefix("starpu-") {
                Some(scheduler) => starpu_environment(scheduler),
                None => Vec::new(),
            };
            self.systems.push(System { name, program: program.to_path_buf(), environment });
        }
    }

    /// Kernel iterations for a grain: calibrated once, so that all peers are given the same work.
    pub(crate) fn iterations(&self, grain_ns: u64) -> u64 {
        (grain_ns as f64 / self.ns_per_iteration).round() as u64
    }
}

fn refuse_unknown(only: &[String]) -> Result<()> {
    let known: Vec<&str> = [OURS].iter().chain(RUST).chain(CPP.iter().flat_map(|peer| peer.systems)).copied().collect();
    match only.iter().find(|asked| !known.contains(&asked.as_str())) {
        Some(asked) => bail!("There is no system {asked:?} to compare with. There are: {}.", known.join(", ")),
        None => Ok(()),
    }
}

impl System {
    pub(crate) fn is_ours(&self) -> bool {
        self.name.starts_with(OURS)
    }

    /// One measurement with `tasks` tasks, which may be fewer than the case asks for.
    pub(crate) fn measure(&self, case: &PeerCase, tasks: u64, iterations: u64) -> Result<Sample> {
        if !self.is_ours() {
            return Sample::of_peer(&sample::run(&mut self.peer(case, tasks, iterations))?);
        }
        let mut command = Command::new(&self.program);
        command.args(["bench", "graph", "--shape", case.shape, "--tasks", &tasks.to_string()]);
        command.args(["--grain-ns", &case.grain_ns.to_string(), "--iterations", &iterations.to_string()]);
        command.args(["--workers", &case.workers.to_string()]);
        // A graph is prebuilt to be launched again.
        let again = self.name == OURS_PREBUILT;
        command.args(["--reps", if again { "3" } else { "1" }, "--json"]);
        if again {
            command.arg("--prebuilt");
        }
        Sample::of_ours(&sample::run(&mut command)?)
    }

    pub(crate) fn peer(&self, case: &PeerCase, tasks: u64, iterations: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--peer", self.name, "--shape", case.shape, "--tasks", &tasks.to_string()]);
        command.args(["--iterations", &iterations.to_string(), "--workers", &case.workers.to_string()]);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }
}

impl Cpp {
    /// None if the compiler or the library is not installed.
    fn build(&self, workspace: &Workspace) -> Result<Option<PathBuf>> {
        let directory = workspace.target.join("peers");
        std::fs::create_dir_all(&directory)?;
        let program = directory.join(self.systems[0]);
        let Some(compiler) = self.compilers.iter().copied().find(|name| crate::workspace::is_installed(name)) else {
            return Ok(None);
        };
        let library = self
            .pkg_config
            .iter()
            .find_map(|name| output(Command::new("pkg-config").args(["--cflags", "--libs", name])).ok());
        if library.is_none() && !self.pkg_config.is_empty() {
            return Ok(None);
        }
        let mut command = Command::new(compiler);
        command.args(["-O2", "-march=native", "-Wall"]).args(self.flags).args(include_flags(workspace));
        command.arg(workspace.root.join("peers/cpp").join(self.source).with_extension("cpp")).arg("-o").arg(&program);
        command.args(library.unwrap_or_default().split_whitespace());
        if compiler.starts_with("clang") {
            // Debian's libomp lies beside the compiler's own libraries, where the loader does not look.
            let path = output(Command::new(compiler).arg("-print-file-name=libomp.so"))?;
            let path = Path::new(path.trim()).canonicalize().ok();
            if let Some(directory) = path.as_deref().and_then(Path::parent) {
                command.arg(format!("-L{0}", directory.display())).arg(format!("-Wl,-rpath,{}", directory.display()));
            }
        }
        compile(&mut command).map(|built| built.then_some(program))
    }
}

/// False if a library or header is missing; an error of our own source is an error.
fn compile(command: &mut Command) -> Result<bool> {
    let result = command.output()?;
    let complaint = String::from_utf8_lossy(&result.stderr);
    let is_missing = |line: &str| {
        line.contains("No such file") || line.contains("file not found") || line.contains("cannot find -l")
    };
    match result.status.success() {
        true => Ok(true),
        false if complaint.lines().any(is_missing) => Ok(false),
        false => bail!("{}\n{complaint}", crate::workspace::shown(command)),
    }
}

/// Taskflow is headers alone: TASKFLOW_INCLUDE, or where `.ci/setup --peers` puts them, or where the system has them.
fn include_flags(workspace: &Workspace) -> Vec<String> {
    let vendored = workspace.root.join("peers/vendor").display().to_string();
    [std::env::var("TASKFLOW_INCLUDE").unwrap_or_default(), vendored]
        .into_iter()
        .filter(|directory| !directory.is_empty())
        .map(|directory| format!("-I{directory}"))
        .collect()
}

/// StarPU writes its performance models into a home of its own, and pins threads unless told not to, which nobody else
/// here does.
fn starpu_environment(scheduler: &str) -> Vec<(&'static str, String)> {
    let home = std::env::temp_dir().join("plimsoll-peers-starpu").display().to_string();
    vec![("STARPU_HOME", home), ("STARPU_WORKERS_NOBIND", "1".into()), ("STARPU_SCHED", scheduler.into())]
}

/// Builds ours and tries it once, so that a missing command is said before anything is measured.
fn ours(workspace: &Workspace) -> Result<PathBuf> {
    succeed(&mut workspace.cargo(["build", "--release", "--quiet", "-p", "plimsoll-cli"]))?;
    let program = workspace.release("plimsoll");
    let trial = PeerCase { shape: "chain", grain_ns: 0, workers: 1, tasks: 100 };
    let system = System { name: OURS, program: program.clone(), environment: Vec::new() };
    system.measure(&trial, trial.tasks, 0).context(
        "ours is not built: `plimsoll bench graph --json` does not work; `cargo xtask peers --peers-only` measures the peers alone",
    )?;
    Ok(program)
}
