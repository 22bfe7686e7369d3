//! How a table is declared: struct, columns, units and descriptions in one place.

use anyhow::Result;
use polars::prelude::Column as Series;

/// The type of a column's values on disk. Integers are signed: every reader of Parquet has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Text,
}

/// One column: its name (with the unit in it), type and meaning.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether it is one of those that say of what and when a row is; these are never null.
    pub key: bool,
    pub description: &'static str,
}

/// How the description of every counter begins.
const CUMULATIVE: &str = "Cumulative ";

impl Column {
    /// Whether it counts from the run's start and so never falls within one process, core or device.
    pub fn is_cumulative(&self) -> bool {
        self.description.starts_with(CUMULATIVE)
    }
}

/// Name and columns of a table, for what treats all tables alike.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub name: &'static str,
    pub columns: &'static [Column],
}

impl Shape {
    /// The shape of one table.
    pub fn of<T: Table>() -> Self {
        Self { name: T::NAME, columns: T::COLUMNS }
    }
}

/// A kind of sample, stored in one Parquet file a run.
pub trait Table: Sized + Send {
    /// File stem and the key in the journal.
    const NAME: &'static str;
    /// In the order in which they are stored.
    const COLUMNS: &'static [Column];
    /// Column-wise store of rows on their way to Parquet.
    type Buffer: Buffer<Row = Self>;
}

/// Rows of a table, column by column.
pub trait Buffer: Default {
    type Row;
    fn push(&mut self, row: Self::Row);
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Takes the rows out, as columns in the order of [`Table::COLUMNS`].
    fn take(&mut self) -> Result<Vec<Series>>;
}

/// A Rust type that can stand in a column.
pub trait Cell {
    const KIND: Kind;
}

impl Cell for i64 {
    const KIND: Kind = Kind::Integer;
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;
}

impl Cell for String {
    const KIND: Kind = Kind::Text;
}

/// Declares tables. Every column but the keys before `;` may be missing (null), so its field is an `Option`.
macro_rules! tables {
    ($(
        $(#[doc = $table_doc:literal])+
        $name:ident: $table:ident, $buffer:ident {
            $( $(#[doc = $key_doc:literal])+ $key:ident: $key_type:ty, )+
            ;
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty, )*
        }
    )+) => {
        $(
            $(#[doc = $table_doc])+
            #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            pub struct $table {
                $( $(#[doc = $key_doc])+ pub $key: $key_type, )+
                $( $(#[doc = $doc])+ #[serde(default, skip_serializing_if = "Option::is_none")] pub $field: Option<$type>, )*
            }

            #[doc = concat!("Rows of `", stringify!($name), "` on their way to Parquet.")]
            #[derive(Default)]
            pub struct $buffer {
                $( $key: Vec<$key_type>, )+
                $( $field: Vec<Option<$type>>, )*
            }

            impl $crate::trace::table::Buffer for $buffer {
                type Row = $table;

                fn push(&mut self, row: $table) {
                    $( self.$key.push(row.$key); )+
                    $( self.$field.push(row.$field); )*
                }

                fn len(&self) -> usize {
                    [$( self.$key.len() ),+][0]
                }

                fn take(&mut self) -> anyhow::Result<Vec<polars::prelude::Column>> {
                    use polars::prelude::{Column, NamedFrom, Series};
                    let rows = std::mem::take(self);
                    Ok(vec![
                        $( Column::from(Series::new(stringify!($key).into(), rows.$key)), )+
                        $( Column::from(Series::new(stringify!($field).into(), rows.$field)), )*
                    ])
                }
            }

            impl $crate::trace::Table for $table {
                const NAME: &'static str = stringify!($name);
                const COLUMNS: &'static [$crate::trace::Column] = &[
                    $( $crate::trace::Column {
                        name: stringify!($key),
                        kind: <$key_type as $crate::trace::table::Cell>::KIND,
                        key: true,
                        description: concat!($($key_doc),+).trim_ascii(),
                    }, )+
                    $( $crate::trace::Column {
                        name: stringify!($field),
                        kind: <$type as $crate::trace::table::Cell>::KIND,
                        key: false,
                        description: concat!($($doc),+).trim_ascii(),
                    }, )*
                ];
                type Buffer = $buffer;
            }
        )+

        /// Every table.
        pub const SHAPES: &[$crate::trace::table::Shape] = &[
            $( $crate::trace::table::Shape {
                name: <$table as $crate::trace::Table>::NAME,
                columns: <$table as $crate::trace::Table>::COLUMNS,
            }, )+
        ];

        /// One line of the journal: a row and the table that it belongs to.
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(clippy::large_enum_variant, reason = "a row lives on the stack from its reading to its line")]
        pub enum Row {
            $( $table($table), )+
        }

        $(
            impl From<$table> for Row {
                fn from(row: $table) -> Self {
                    Row::$table(row)
                }
            }
        )+

        /// The Parquet writers of one run, one a table.
        pub struct Sinks {
            $( $name: $crate::trace::parquet::Sink<$table>, )+
        }

        impl Sinks {
            /// Writers into `folder`; a table that gets no row leaves no file.
            pub fn new(folder: &std::path::Path) -> Self {
                Self { $( $name: $crate::trace::parquet::Sink::new(folder), )+ }
            }

            /// Adds one row to its table.
            ///
            /// # Errors
            /// The file could not be written.
            pub fn push(&mut self, row: Row) -> anyhow::Result<()> {
                match row {
                    $( Row::$table(row) => self.$name.push(row), )+
                }
            }

            /// Completes all files and puts them in their final places.
            ///
            /// # Errors
            /// A file could not be written, synced or renamed; final files are then untouched or whole.
            pub fn close(self) -> anyhow::Result<()> {
                $( self.$name.close()?; )+
                Ok(())
            }
        }
    };
}
pub(crate) use tables;
