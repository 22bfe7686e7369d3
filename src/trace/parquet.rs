//! Parquet files of a trace: one a table and run, written in large row groups, read lazily.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use polars::io::parquet::read::FileMetadata;
use polars::io::parquet::write::{BatchedWriter, StatisticsOptions};
use polars::polars_utils::compression::ZstdLevel;
use polars::prelude::{
    DataFrame, DataType, Expr, HiveOptions, IntoLazy, KeyValueMetadata, LazyFrame, NULL, ParallelStrategy,
    ParquetCompression, ParquetReader, ParquetWriter, PlRefPath, PlSmallStr, ScanArgsParquet, Schema, SerReader, col,
    lit,
};

use super::run::{REMEDY, open_of_run};
use super::table::{Buffer, Column, Kind, Shape, Table};
use super::unharmed::unharmed;
use super::version::{self, SCHEMA_VERSION};
use crate::files;

/// Rows of one row group. Large enough that a footer stays small over a day of samples (864 000 rows at 100 ms),
/// small enough that a group of the widest table takes about 13 MB on its way.
const ROW_GROUP_ROWS: usize = 65_536;

/// A run is written once and read often: what a higher level costs is a second for an hour of samples.
const ZSTD_LEVEL: i32 = 12;

/// Footer key of the schema's version.
const VERSION_KEY: &str = "shice.schema_version";
/// Footer key of the table's name: columns alone need not tell two tables apart.
const TABLE_KEY: &str = "shice.table";

/// Writes one table of one run. The file appears under its name only when it is complete.
pub struct Sink<T: Table> {
    path: PathBuf,
    rows: T::Buffer,
    writer: Option<BatchedWriter<BufWriter<File>>>,
}

impl<T: Table> Sink<T> {
    /// A sink for `<folder>/<table>.parquet`; no file is made before the first row.
    pub fn new(folder: &Path) -> Self {
        Self { path: table_path::<T>(folder), rows: T::Buffer::default(), writer: None }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn push(&mut self, row: T) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() >= ROW_GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<()> {
        let path = self.path.clone();
        let failed = || format!("cannot write {}", path.display());
        let frame = DataFrame::new_infer_height(self.rows.take()?).with_context(failed)?;
        if self.writer.is_none() {
            let file = files::create(&files::part_of(&self.path)).with_context(failed)?;
            self.writer = Some(writer::<T>(BufWriter::new(file), frame.schema()).with_context(failed)?);
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.write_batch(&frame).with_context(failed)
    }

    /// Completes the file and puts it in place; a table without rows leaves no file.
    ///
    /// # Errors
    /// The file could not be written, synced or renamed.
    pub fn close(mut self) -> Result<()> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        let Some(writer) = self.writer else { return Ok(()) };
        let part = files::part_of(&self.path);
        writer.finish().with_context(|| format!("cannot complete {}", part.display()))?;
        drop(writer);
        File::open(&part)
            .and_then(|file| file.sync_all())
            .with_context(|| format!("cannot sync {}", part.display()))?;
        files::put_in_place(&part, &self.path)
    }
}

fn writer<T: Table>(file: BufWriter<File>, schema: &Schema) -> Result<BatchedWriter<BufWriter<File>>> {
    let mut footer =
        vec![(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_owned()), (TABLE_KEY.to_owned(), T::NAME.to_owned())];
    footer.extend(
        T::COLUMNS.iter().map(|column| (format!("shice.column.{}", column.name), column.description.to_owned())),
    );
    Ok(ParquetWriter::new(file)
        .with_compression(ParquetCompression::Zstd(Some(ZstdLevel::try_new(ZSTD_LEVEL)?)))
        // A file of a run is read whole; on short runs the least and greatest values would weigh as much as the rest.
        .with_statistics(StatisticsOptions::empty())
        .with_key_value_metadata(Some(KeyValueMetadata::from_static(footer)))
        .set_parallel(false)
        .batched(schema)?)
}

/// `<folder>/<table>.parquet`.
pub fn table_path<T: Table>(folder: &Path) -> PathBuf {
    path_of(folder, T::NAME)
}

pub(super) fn path_of(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.parquet"))
}

/// The rows of a table, with exactly the columns of [`Table::COLUMNS`]: those that an older minor did not have are
/// null, those of a newer one are left out. `None` where the run has no such table.
///
/// # Errors
/// The file is truncated, no Parquet, of an unknown schema major, or holds another table; the file is named.
pub fn scan<T: Table>(folder: &Path) -> Result<Option<LazyFrame>> {
    let path = table_path::<T>(folder);
    if !path.exists() {
        return Ok(None);
    }
    open(&path, Shape::of::<T>()).map(Some)
}

/// As [`scan`], of a file that is there.
///
/// # Errors
/// As [`scan`].
pub(super) fn open(path: &Path, shape: Shape) -> Result<LazyFrame> {
    let (_, stored) = checked(path, shape)?;
    // One named file: neither its name nor its folders (`run=1`) are patterns.
    let options = ScanArgsParquet {
        glob: false,
        hive_options: HiveOptions { enabled: Some(false), ..HiveOptions::default() },
        ..ScanArgsParquet::default()
    };
    let scan = PlRefPath::try_from_path(path)
        .and_then(|path| LazyFrame::scan_parquet(path, options))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(scan.select(shape.columns.iter().map(|column| stored.read_as(column)).collect::<Vec<_>>()))
}

fn checked(path: &Path, shape: Shape) -> Result<(File, Stored)> {
    let file = open_of_run(path)?;
    let stored = unharmed(|| stored(&file))
        .with_context(|| format!("{} is damaged or no Parquet file; {REMEDY}", path.display()))?;
    version::check(stored.version.as_deref().unwrap_or_default())
        .with_context(|| format!("cannot use {}", path.display()))?;
    stored.refuse_another(shape).with_context(|| format!("cannot use {}; {REMEDY}", path.display()))?;
    Ok((file, stored))
}

/// A table's row groups one after the other: of a file of any length one group at a time is in memory.
pub struct Groups {
    path: PathBuf,
    file: File,
    shape: Shape,
    stored: Stored,
}

/// As [`scan`], to be read group by group.
///
/// # Errors
/// As [`scan`].
pub fn groups<T: Table>(folder: &Path) -> Result<Option<Groups>> {
    let (path, shape) = (table_path::<T>(folder), Shape::of::<T>());
    if !path.exists() {
        return Ok(None);
    }
    let (file, stored) = checked(&path, shape)?;
    Ok(Some(Groups { path, file, shape, stored }))
}

impl Groups {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.stored.footer.row_groups.len()
    }

    /// The rows of one group, with the columns of these names. A name that the table does not have has no column.
    ///
    /// # Errors
    /// The file is damaged; it is named.
    pub fn read(&self, group: usize, names: &BTreeSet<PlSmallStr>) -> Result<LazyFrame> {
        let failed = || format!("{} is damaged; {REMEDY}", self.path.display());
        let columns = || self.shape.columns.iter().filter(|column| names.contains(column.name));
        let of_file = columns().filter(|column| self.stored.columns.contains(column.name));
        // A footer that knows this group only: the others are not looked at.
        let group = self.stored.footer.row_groups.get(group).with_context(failed)?.clone();
        let mut footer = self.stored.bare_footer.clone();
        footer.num_rows = group.num_rows();
        footer.row_groups = vec![group];
        let mut reader = ParquetReader::new(BufReader::new(&self.file))
            .read_parallel(ParallelStrategy::None)
            .with_columns(Some(of_file.map(|column| column.name.to_owned()).collect()));
        reader.set_metadata(Arc::new(footer));
        let frame = reader.finish().with_context(failed)?;
        Ok(frame.lazy().select(columns().map(|column| self.stored.read_as(column)).collect::<Vec<_>>()))
    }
}

/// What a file says of itself.
struct Stored {
    version: Option<String>,
    /// Absent in files that were written before it was kept.
    table: Option<String>,
    columns: Schema,
    footer: FileMetadata,
    /// Without its row groups.
    bare_footer: FileMetadata,
}

impl Stored {
    /// A column of a table, whether the file has it or not.
    fn read_as(&self, column: &Column) -> Expr {
        let value = if self.columns.contains(column.name) { col(column.name) } else { lit(NULL) };
        value.cast(data_type(column.kind)).alias(column.name)
    }

    /// A file that lies under another table's name would read as a table of nulls.
    fn refuse_another(&self, shape: Shape) -> Result<()> {
        if let Some(table) = self.table.as_deref().filter(|table| *table != shape.name) {
            bail!("it holds the table {table:?}, not {:?}", shape.name);
        }
        for column in shape.columns {
            match self.columns.get(column.name) {
                None if column.key => bail!("it is no table {:?}: it lacks the column {:?}", shape.name, column.name),
                Some(found) if !holds(found, column.kind) => {
                    bail!("its column {:?} is of the type {found}, not {}", column.name, data_type(column.kind));
                }
                _ => {}
            }
        }
        if !shape.columns.iter().any(|column| !column.key && self.columns.contains(column.name)) {
            bail!("it is no table {:?}: of its values it has no column", shape.name);
        }
        Ok(())
    }
}

fn stored(file: &File) -> Result<Stored> {
    let mut reader = ParquetReader::new(BufReader::new(file));
    let schema = reader.schema()?;
    let columns = schema.iter().map(|(name, field)| (name.clone(), DataType::from_arrow_field(field))).collect();
    let footer = FileMetadata::clone(reader.get_metadata()?);
    let mut bare_footer = footer.clone();
    bare_footer.row_groups.clear();
    let value = |key: &str| {
        let pair = footer.key_value_metadata().iter().flatten().find(|pair| pair.key == key);
        pair.and_then(|pair| pair.value.clone())
    };
    Ok(Stored { version: value(VERSION_KEY), table: value(TABLE_KEY), columns, footer, bare_footer })
}

/// Whether values of a stored type can stand for a column without losing anything.
fn holds(found: &DataType, kind: Kind) -> bool {
    match kind {
        Kind::Integer => found.is_integer() || *found == DataType::Null,
        Kind::Real => found.is_numeric() || *found == DataType::Null,
        Kind::Text => matches!(found, DataType::String | DataType::Null),
    }
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Integer => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Text => DataType::String,
    }
}
