//! Columns of cells that are asked for one by one, and how they become a Parquet file.
//!
//! A trace is columns already, so a table is a list of functions from a row's number to a cell: nothing is copied but the
//! rows at hand.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use plimsoll_trace::MachineMark;

/// Rows that are written at a time: what a column holds of its cells at once.
const BATCH: usize = 16 << 10;
/// Rows of a row group: what an engine reads in one piece.
const GROUP: usize = 1 << 20;

/// The cells of a column, by row. A cell may be absent.
pub(super) enum ColumnCells<'t> {
    /// Whole numbers.
    Int(Box<dyn Fn(usize) -> Option<i64> + 't>),
    /// Numbers.
    Real(Box<dyn Fn(usize) -> Option<f64> + 't>),
    /// Yes or no.
    Flag(Box<dyn Fn(usize) -> Option<bool> + 't>),
    /// Texts; those that occur often are stored once.
    Text(Box<dyn Fn(usize) -> Option<String> + 't>),
    /// Texts by number: every number is turned into its text once.
    Name(Box<dyn Fn(usize) -> Option<u64> + 't>, Box<dyn Fn(u64) -> String + 't>),
}

/// A table in memory.
#[derive(Debug)]
pub struct PlainTable {
    /// Number of rows.
    pub rows: usize,
    /// Names and cells.
    pub columns: Vec<(&'static str, PlainColumn)>,
}

/// The cells of a column; any may be absent.
#[derive(Debug)]
pub enum PlainColumn {
    /// Whole numbers.
    Int(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
    /// Yes or no.
    Flag(Vec<Option<bool>>),
    /// Texts.
    Text(Vec<Option<String>>),
}

/// A table: its columns, and how many rows there are.
pub(super) struct ParquetTable<'t> {
    /// The file's name, without its ending.
    pub(super) name: &'static str,
    rows: usize,
    columns: Vec<(&'static str, ColumnCells<'t>)>,
}

impl<'t> ParquetTable<'t> {
    pub(super) fn new(name: &'static str, rows: usize) -> Self {
        Self { name, rows, columns: Vec::new() }
    }

    fn with(mut self, name: &'static str, cells: ColumnCells<'t>) -> Self {
        self.columns.push((name, cells));
        self
    }

    /// A column of whole numbers that are always there.
    pub(super) fn int(self, name: &'static str, cell: impl Fn(usize) -> u64 + 't) -> Self {
        // Ids of 64 bits keep their bits: few engines have numbers without a sign.
        self.with(name, ColumnCells::Int(Box::new(move |at| Some(cell(at) as i64))))
    }

    /// A column of whole numbers.
    pub(super) fn maybe_int(self, name: &'static str, cell: impl Fn(usize) -> Option<u64> + 't) -> Self {
        self.with(name, ColumnCells::Int(Box::new(move |at| cell(at).map(|value| value as i64))))
    }

    /// A column of numbers.
    pub(super) fn real(self, name: &'static str, cell: impl Fn(usize) -> Option<f64> + 't) -> Self {
        self.with(name, ColumnCells::Real(Box::new(cell)))
    }

    /// A column of yes or no.
    pub(super) fn flag(self, name: &'static str, cell: impl Fn(usize) -> bool + 't) -> Self {
        self.with(name, ColumnCells::Flag(Box::new(move |at| Some(cell(at)))))
    }

    /// A column of texts.
    pub(super) fn text(self, name: &'static str, cell: impl Fn(usize) -> Option<String> + 't) -> Self {
        self.with(name, ColumnCells::Text(Box::new(cell)))
    }

    /// A column of few texts, by number.
    pub(super) fn named(
        self,
        name: &'static str,
        cell: impl Fn(usize) -> Option<u64> + 't,
        text: impl Fn(u64) -> String + 't,
    ) -> Self {
        self.with(name, ColumnCells::Name(Box::new(cell), Box::new(text)))
    }

    /// The whole table in memory; its first column says which run it is of.
    pub(super) fn plain(self, run: &str) -> PlainTable {
        let mut columns = vec![("run", PlainColumn::Text(vec![Some(run.to_owned()); self.rows]))];
        columns.extend(self.columns.iter().map(|(name, cells)| (*name, cells.plain(self.rows))));
        PlainTable { rows: self.rows, columns }
    }

    /// Writes the table; its first column says which run it is of.
    pub(super) fn write(self, run: &str, mark: &MachineMark, out: &mut (impl Write + Send)) -> io::Result<()> {
        let owned = run.to_string();
        let mut columns = vec![("run", ColumnCells::Name(Box::new(|_| Some(0)), Box::new(move |_| owned.clone())))];
        columns.extend(self.columns);
        write_columns(self.name, self.rows, &columns, properties(&columns, mark), out).map_err(io_error)
    }
}

fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn write_columns(
    name: &str,
    rows: usize,
    columns: &[(&'static str, ColumnCells<'_>)],
    properties: WriterProperties,
    out: &mut (impl Write + Send),
) -> Result<(), ParquetError> {
    let fields = columns.iter().map(|(name, cells)| cells.field(name)).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder(name).with_fields(fields).build()?;
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut from = 0;
    while from < rows {
        let until = rows.min(from + GROUP);
        let mut group = writer.next_row_group()?;
        for (_, cells) in columns {
            if let Some(mut column) = group.next_column()? {
                cells.write(from..until, &mut column)?;
                column.close()?;
            }
        }
        group.close()?;
        from = until;
    }
    writer.close().map(drop)
}

fn properties(columns: &[(&'static str, ColumnCells<'_>)], mark: &MachineMark) -> WriterProperties {
    let fact = |key: &str, value: &str| KeyValue::new(key.to_string(), value.to_string());
    let mut facts = vec![fact("format", "plimsoll-tables"), fact("schema", "1")];
    if !mark.is_real() {
        facts.push(fact(MachineMark::COLUMN, &mark.cell()));
    }
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_created_by(format!("plimsoll {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(facts));
    for (name, cells) in columns {
        let path = ColumnPath::from(*name);
        properties = match cells {
            // Times and ids are near the ones before.
            ColumnCells::Int(_) => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            ColumnCells::Text(_) | ColumnCells::Name(..) => properties.set_column_dictionary_enabled(path, true),
            ColumnCells::Real(_) | ColumnCells::Flag(_) => properties,
        };
    }
    properties.build()
}

impl ColumnCells<'_> {
    fn plain(&self, rows: usize) -> PlainColumn {
        match self {
            ColumnCells::Int(cell) => PlainColumn::Int((0..rows).map(cell).collect()),
            ColumnCells::Real(cell) => PlainColumn::Real((0..rows).map(cell).collect()),
            ColumnCells::Flag(cell) => PlainColumn::Flag((0..rows).map(cell).collect()),
            ColumnCells::Text(cell) => PlainColumn::Text((0..rows).map(cell).collect()),
            ColumnCells::Name(cell, text) => PlainColumn::Text((0..rows).map(|at| cell(at).map(text)).collect()),
        }
    }

    fn field(&self, name: &str) -> Result<Arc<Type>, ParquetError> {
        let physical = match self {
            ColumnCells::Int(_) => Physical::INT64,
            ColumnCells::Real(_) => Physical::DOUBLE,
            ColumnCells::Flag(_) => Physical::BOOLEAN,
            ColumnCells::Text(_) | ColumnCells::Name(..) => Physical::BYTE_ARRAY,
        };
        let logical = matches!(self, ColumnCells::Text(_) | ColumnCells::Name(..)).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        field.with_logical_type(logical).build().map(Arc::new)
    }

    fn write(&self, rows: Range<usize>, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            ColumnCells::Int(cell) => write_cells::<Int64Type>(rows, column, cell),
            ColumnCells::Real(cell) => write_cells::<DoubleType>(rows, column, cell),
            ColumnCells::Flag(cell) => write_cells::<BoolType>(rows, column, cell),
            ColumnCells::Text(cell) => {
                write_cells::<ByteArrayType>(rows, column, |at| cell(at).map(|text| text.into_bytes().into()))
            }
            ColumnCells::Name(cell, text) => {
                let mut known: HashMap<u64, ByteArray> = HashMap::new();
                write_cells::<ByteArrayType>(rows, column, |at| {
                    let number = cell(at)?;
                    Some(known.entry(number).or_insert_with(|| text(number).into_bytes().into()).clone())
                })
            }
        }
    }
}

fn write_cells<T: DataType>(
    rows: Range<usize>,
    column: &mut SerializedColumnWriter<'_>,
    mut cell: impl FnMut(usize) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut present) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
    let mut from = rows.start;
    while from < rows.end {
        let until = rows.end.min(from + BATCH);
        values.clear();
        present.clear();
        for at in from..until {
            let value = cell(at);
            present.push(i16::from(value.is_some()));
            values.extend(value);
        }
        column.typed::<T>().write_batch(&values, Some(&present), None)?;
        from = until;
    }
    Ok(())
}
