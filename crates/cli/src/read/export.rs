//! `plimsoll export`: a run for a viewer or for the reference's tools.

use super::{ReadArgs, Reading};
use crate::exit::wrong;
use crate::wording::{reworded, wording_of};
use clap::{Args, ValueEnum};
use plimsoll::report::{self, Flows};
use plimsoll::trace::{Source, Trace, TraceParts};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `export`.
#[derive(Args)]
pub(crate) struct ExportCommand {
    #[command(flatten)]
    subject: ReadArgs,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Perfetto)]
    format: Format,
    /// Which steps from task to task to draw as arrows
    #[arg(long, value_enum, default_value_t = Arrows::Critical)]
    flows: Arrows,
    /// Where to write: a file, or a directory for `simpler` and `parquet`; beside the run if left out, and in a directory `simpler` beside
    /// files of the reference, which are never written over
    #[arg(long, short)]
    output: Option<PathBuf>,
    /// With `simpler`: write scope statistics in their first form too
    #[arg(long)]
    scopes_first_form: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A Perfetto trace, for ui.perfetto.dev
    Perfetto,
    /// Chrome JSON
    Chrome,
    /// The files of the reference system, as of mid 2026
    Simpler,
    /// The same in their newest form
    SimplerNewest,
    /// Parquet tables, for DuckDB and other SQL engines (docs/sql.md)
    Parquet,
}

impl Format {
    /// Whether it is made of files of the reference.
    fn is_simpler(self) -> bool {
        matches!(self, Format::Simpler | Format::SimplerNewest)
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Arrows {
    /// Those of the critical path
    Critical,
    /// Every dependency
    All,
    /// None
    None,
}

impl ExportCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.scopes_first_form && !self.format.is_simpler() {
            return Err(wrong(
                "--scopes-first-form writes a file of the reference system. Only --format simpler writes those. Add it.",
            ));
        }
        let flows = match self.flows {
            Arrows::Critical => Flows::Critical,
            Arrows::All => Flows::All,
            Arrows::None => Flows::None,
        };
        let deps = self.format.is_simpler() || self.format == Format::Parquet || flows != Flows::None;
        let reading = self.subject.open(TraceParts { deps, ..TraceParts::ALL })?;
        let Reading { trace, path, .. } = &reading;
        if flows == Flows::All && trace.deps.is_none() {
            let how = match &trace.manifest {
                Some(manifest) => {
                    wording_of(Some(manifest))(" Record them with `Flags::DEP_GEN` or `RecordOptions::profile`.")
                }
                None => String::new(),
            };
            eprintln!("plimsoll: there are no arrows to draw. No dependencies were recorded.{how}");
        }
        let beside = if path.is_dir() { path.clone() } else { path.parent().map(Path::to_owned).unwrap_or_default() };
        let written = match self.format {
            Format::Simpler | Format::SimplerNewest => self.write_simpler(trace, &beside)?,
            Format::Parquet => self.write_parquet(trace, path, &beside)?,
            Format::Perfetto => vec![self.write_picture(trace, flows, beside.join("trace.pftrace"))?],
            Format::Chrome => vec![self.write_picture(trace, flows, beside.join("trace.json"))?],
        };
        let next = match self.format {
            Format::Perfetto => "open it in ui.perfetto.dev",
            Format::Parquet => "duckdb, and the questions of docs/sql.md",
            _ => "",
        };
        let listed = || written.iter().map(|file| format!("{}\n", file.display())).collect();
        reading.answer(&serde_json::json!({ "files": written }), listed, next)?;
        Ok(ExitCode::SUCCESS)
    }

    fn write_simpler(&self, trace: &Trace, beside: &Path) -> anyhow::Result<Vec<PathBuf>> {
        // Files of the reference keep their names, so beside those that were read they get a directory of their own.
        let beside = match &trace.source {
            Source::Run(_) => beside.to_path_buf(),
            Source::Reference(_) => beside.join(report::simpler::DIR),
        };
        let dir = self.output.as_deref().unwrap_or(&beside);
        let worded = |error| reworded(error, trace.manifest.as_ref());
        let written = match self.format {
            Format::SimplerNewest => report::simpler::write_simpler_newest(trace, dir),
            _ => report::simpler::write_simpler(trace, dir),
        };
        let mut written = written.map_err(worded)?;
        if self.scopes_first_form {
            written.push(report::simpler::write_simpler_scopes_first(trace, dir).map_err(worded)?);
        }
        Ok(written)
    }

    /// Rows call the run what its directory is called. Captures of the reference lie in folders that are often called alike, so those
    /// are told apart by the folder around them, too.
    #[cfg(feature = "parquet")]
    fn write_parquet(&self, trace: &Trace, path: &Path, beside: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let dir = self.output.clone().unwrap_or_else(|| beside.join(report::parquet::DIR));
        let whole = beside.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let names = whole.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>();
        let told = if trace.manifest.is_some() { 1 } else { 2 };
        let run = names[names.len().saturating_sub(told)..].join("/");
        Ok(report::parquet::write_parquet(trace, &run, &dir)?)
    }

    #[cfg(not(feature = "parquet"))]
    fn write_parquet(&self, _: &Trace, _: &Path, _: &Path) -> anyhow::Result<Vec<PathBuf>> {
        Err(wrong(
            "This plimsoll cannot write Parquet. It was built without its feature `parquet`. Build it with `cargo build --release --features parquet`.",
        ))
    }

    fn write_picture(&self, trace: &Trace, flows: Flows, beside: PathBuf) -> anyhow::Result<PathBuf> {
        let file = self.output.clone().unwrap_or(beside);
        report::spare_sources(trace, &file)?;
        write_picture(trace, self.format == Format::Chrome, flows, &file)?;
        Ok(file)
    }
}

/// Writes a picture of a run.
fn write_picture(trace: &Trace, chrome: bool, flows: Flows, file: &Path) -> anyhow::Result<()> {
    report::write_whole(file, |out| match chrome {
        true => report::chrome::write_chrome(trace, flows, out).map(drop),
        false => report::perfetto::write_perfetto(trace, flows, out).map(drop),
    })?;
    Ok(())
}
