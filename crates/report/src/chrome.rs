//! The picture as Chrome's JSON, for viewers that do not read Perfetto's form.

use std::io::{self, Write};

use plimsoll_trace::Trace;

use crate::picture::{Canvas, Drawn, Flows, Slice, Unit, draw};

/// Writes a trace; `out` should buffer.
///
/// # Errors
/// What `out` says.
pub fn write_chrome(trace: &Trace, flows: Flows, out: impl Write) -> io::Result<Drawn> {
    let mut canvas =
        ChromeCanvas { trace, out, names: Vec::new(), group: 0, lane: 0, counter: String::new(), first: true };
    let drawn = draw(trace, flows, &mut canvas)?;
    canvas.out.flush()?;
    Ok(drawn)
}

/// Groups are processes and lanes are threads, which is all the structure the form has.
struct ChromeCanvas<'t, W> {
    /// Knows what tasks are called.
    trace: &'t Trace,
    out: W,
    /// The names of slices as JSON strings, quotes included.
    names: Vec<String>,
    group: u32,
    lane: u32,
    /// The counter's name as a JSON string.
    counter: String,
    first: bool,
}

impl<W: Write> ChromeCanvas<'_, W> {
    fn separate(&mut self) -> io::Result<()> {
        let text: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(text)
    }

    fn metadata(&mut self, what: &str, lane: Option<u32>, name: &str, order: u32) -> io::Result<()> {
        let thread = lane.map_or(String::new(), |lane| format!(",\"tid\":{lane}"));
        let (group, name) = (self.group, quoted(name)?);
        self.separate()?;
        write!(self.out, r#"{{"ph":"M","name":"{what}_name","pid":{group}{thread},"args":{{"name":{name}}}}}"#)?;
        self.separate()?;
        write!(
            self.out,
            r#"{{"ph":"M","name":"{what}_sort_index","pid":{group}{thread},"args":{{"sort_index":{order}}}}}"#
        )
    }

    /// The fields that all events have.
    fn event(&mut self, phase: char, at_ns: u64) -> io::Result<()> {
        self.separate()?;
        let (group, lane, us, ns) = (self.group, self.lane, at_ns / 1000, at_ns % 1000);
        write!(self.out, r#"{{"ph":"{phase}","pid":{group},"tid":{lane},"ts":{us}.{ns:03}"#)
    }

    fn arrow(&mut self, phase: char, at_ns: u64, id: u64) -> io::Result<()> {
        self.event(phase, at_ns)?;
        // "e" binds an arrow's head to the slice around it instead of the next one.
        let bind = if phase == 'f' { ",\"bp\":\"e\"" } else { "" };
        write!(self.out, r#","cat":"dependency","name":"dependency","id":{id}{bind}}}"#)
    }
}

fn quoted(text: &str) -> io::Result<String> {
    serde_json::to_string(text).map_err(io::Error::from)
}

impl<W: Write> Canvas for ChromeCanvas<'_, W> {
    fn start(&mut self, title: &str, names: Vec<String>) -> io::Result<()> {
        self.names = names.iter().map(|name| quoted(name)).collect::<io::Result<_>>()?;
        let title = quoted(title)?;
        write!(self.out, r#"{{"displayTimeUnit":"ns","otherData":{{"run":{title}}},"traceEvents":["#)
    }

    fn group(&mut self, name: &str) -> io::Result<()> {
        self.group += 1;
        self.metadata("process", None, name, self.group)
    }

    fn lane(&mut self, name: &str) -> io::Result<()> {
        self.lane += 1;
        self.metadata("thread", Some(self.lane), name, self.lane)
    }

    fn counter(&mut self, name: &str, _: Unit) -> io::Result<()> {
        self.counter = quoted(name)?;
        Ok(())
    }

    fn begin(&mut self, at_ns: u64, slice: &Slice<'_>) -> io::Result<()> {
        self.event('B', at_ns)?;
        write!(self.out, r#","name":{},"args":{{"#, self.names[slice.name as usize])?;
        let mut comma = "";
        if let Some(word) = slice.task {
            write!(self.out, r#""task":"{}""#, self.trace.task_name(self.trace.id_and_epoch(word).0))?;
            comma = ",";
        }
        for (key, value) in slice.facts {
            write!(self.out, r#"{comma}"{}":{value}"#, key.name())?;
            comma = ",";
        }
        self.out.write_all(b"}}")?;
        for flow in slice.flows_out {
            self.arrow('s', at_ns, *flow)?;
        }
        for flow in slice.flows_in {
            self.arrow('f', at_ns, *flow)?;
        }
        Ok(())
    }

    fn end(&mut self, at_ns: u64) -> io::Result<()> {
        self.event('E', at_ns)?;
        self.out.write_all(b"}")
    }

    fn value(&mut self, at_ns: u64, value: u64) -> io::Result<()> {
        self.event('C', at_ns)?;
        write!(self.out, r#","name":{},"args":{{"value":{value}}}}}"#, self.counter)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }
}
