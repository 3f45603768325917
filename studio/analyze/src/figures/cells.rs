//! Rows of a query as cells of a figure, with fewer rows if a plot needs no more, and the figure
//! around them.

use crate::error::{Error, Result};
use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt32Type, UInt64Type};
use evendb_report::{Figure, Unit};
use serde_json::Value;

/// All cells of `batches`. Bytes become text, with escapes for bytes that are no text.
pub(super) fn cells(batches: &[RecordBatch]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell(column, row));
            rows.push(cells.collect::<Result<Vec<_>>>()?);
        }
    }
    Ok(rows)
}

fn cell(column: &ArrayRef, row: usize) -> Result<Value> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match column.data_type() {
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::Int64 => {
            let number = column.as_primitive::<Int64Type>().value(row);
            u64::try_from(number).map_or(number.into(), Value::from)
        }
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).into(),
        DataType::Utf8View => column.as_string_view().value(row).into(),
        DataType::Boolean => column.as_boolean().value(row).to_string().into(),
        DataType::Binary => text(column.as_binary::<i32>().value(row)),
        DataType::BinaryView => text(column.as_binary_view().value(row)),
        DataType::Null => Value::Null,
        other => return Err(Error::Query(format!("no cell can be made of {other}"))),
    })
}

fn text(bytes: &[u8]) -> Value {
    bytes.escape_ascii().to_string().into()
}

/// A row of a figure.
pub(super) type Row = Vec<Value>;

/// Fewer rows, for a plot whose x is logarithmic. In each run of rows that agree in the first `by`
/// cells, three sorts of rows are kept: the first, the last, and rows whose number in column `x` is
/// at least `growth` times that of the kept row before.
pub(super) struct Thin {
    by: usize,
    x: usize,
    growth: f64,
    kept: Vec<Row>,
    /// The last row, if it was not kept.
    last: Option<Row>,
    rows: u64,
}

impl Thin {
    pub(super) fn new(by: usize, x: usize, growth: f64) -> Thin {
        Thin {
            by,
            x,
            growth,
            kept: Vec::new(),
            last: None,
            rows: 0,
        }
    }

    /// The next row.
    pub(super) fn add(&mut self, row: Row) {
        self.rows += 1;
        let before = self.kept.last();
        let before = before.filter(|before| before[..self.by] == row[..self.by]);
        match before {
            None => {
                self.kept.extend(self.last.take());
                self.kept.push(row);
            }
            Some(before) if number(&row[self.x]) >= number(&before[self.x]) * self.growth => {
                self.last = None;
                self.kept.push(row);
            }
            Some(_) => self.last = Some(row),
        }
    }

    /// The rows that stay, and their number before, if some were removed.
    pub(super) fn finish(mut self) -> (Vec<Row>, Option<u64>) {
        self.kept.extend(self.last.take());
        let thinned = (self.rows > self.kept.len() as u64).then_some(self.rows);
        (self.kept, thinned)
    }
}

/// [`Thin`], for rows that are all there.
pub(super) fn thin(rows: Vec<Row>, by: usize, x: usize, growth: f64) -> (Vec<Row>, Option<u64>) {
    let mut thin = Thin::new(by, x, growth);
    rows.into_iter().for_each(|row| thin.add(row));
    thin.finish()
}

/// A text in the form of SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A whole number in the form of SQL, with the type of the tables' columns.
pub(super) fn whole(number: u64) -> String {
    format!("CAST({number} AS BIGINT UNSIGNED)")
}

/// A cell as a number. 0 if it is no number.
pub(super) fn number(cell: &Value) -> f64 {
    cell.as_f64().unwrap_or_default()
}

/// The words and columns of a figure.
pub(super) struct Words<'a> {
    pub id: &'a str,
    pub title: &'a str,
    pub about: &'a str,
    pub section: &'a str,
    pub columns: &'a [(&'a str, Unit)],
}

impl Words<'_> {
    /// An exact figure with these rows, without charts.
    pub(super) fn figure(&self, rows: Vec<Row>) -> Figure {
        Figure {
            rows,
            ..Figure::new(self.id, self.title, self.about, self.section, self.columns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_ends_of_each_run() {
        let row = |name: &str, x: u64| vec![Value::from(name), Value::from(x)];
        let mut rows: Vec<_> = (1..=1000).map(|x| row("a", x)).collect();
        rows.extend((1..=3).map(|x| row("b", x)));
        let (kept, before) = thin(rows, 1, 1, 2.0);
        let xs: Vec<_> = kept.iter().map(|row| row[1].as_u64().unwrap()).collect();
        assert_eq!(xs, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1, 2, 3]);
        assert_eq!(before, Some(1003));
    }
}
