//! Memory of expressions and rows that DataFusion does not account.
//!
//! Sorts, aggregates and joins reserve what they keep in the gateway's pool. Functions do not: one call can
//! make gigabytes of a constant. IN: plans, physical plans, batches. OUT: the same, reserving. KEEPS: what a
//! function makes is reserved before it is made, and stays reserved until the last array that refers to it is
//! gone; a value longer than [`VALUE_BYTES_MAX`] is refused with 54000 and never made; what is folded while a
//! statement is planned stays small, for plans are kept.

mod functions;
mod growth;
mod operators;
mod pool;

pub(super) use functions::AccountFunctions;
pub(super) use operators::bounded;
pub(super) use pool::SharedPool;

use base::{Datum, SqlError, SqlState};
use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayData, ArrayRef, RecordBatch, make_array};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Arc;

/// The longest value, as in PostgreSQL.
pub const VALUE_BYTES_MAX: u64 = (1 << 30) - 1;

/// What a call makes is not accounted up to here: the operators around it account batches of this size.
const SMALL_BYTES: u64 = 64 << 10;

/// A constant that is longer is computed where it is needed, and not kept in the plan.
const FOLDED_BYTES_MAX: u64 = 4 << 10;

thread_local! {
    /// This thread is planning: what functions make now becomes part of a plan.
    static FOLDING: Cell<bool> = const { Cell::new(false) };
}

/// Plans with small constants only.
pub(super) fn folding<T>(plan: impl FnOnce() -> T) -> T {
    let _guard = Folding::begin();
    plan()
}

struct Folding(bool);

impl Folding {
    fn begin() -> Folding {
        Folding(FOLDING.replace(true))
    }
    fn is_on() -> bool {
        FOLDING.get()
    }
}

impl Drop for Folding {
    fn drop(&mut self) {
        FOLDING.set(self.0);
    }
}

/// Memory for bytes that are about to be made. Errors: there is no more (53200).
pub(super) fn reserve(pool: &Arc<dyn MemoryPool>, name: &str, bytes: u64) -> Result<MemoryReservation> {
    let memory = MemoryConsumer::new(name).register(pool);
    memory.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
    Ok(memory)
}

/// 54000: a value that is longer than any may be.
fn too_long() -> DataFusionError {
    let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
        .detail(format!("A value has at most {VALUE_BYTES_MAX} bytes."));
    DataFusionError::External(Box::new(error))
}

/// The array with its memory: whoever drops the last reference to its largest buffer gives it back. Buffers
/// that it shares with `inputs` are accounted by those.
fn held(array: ArrayRef, inputs: &[ArrayRef], memory: MemoryReservation) -> Result<ArrayRef> {
    let mut shared = BTreeSet::new();
    for input in inputs {
        each_buffer(&input.to_data(), &mut |buffer| _ = shared.insert(buffer.data_ptr()));
    }
    let data = array.to_data();
    drop(array);
    let (mut own_bytes, mut largest) = (0, None);
    each_buffer(&data, &mut |buffer| {
        if !shared.contains(&buffer.data_ptr()) {
            own_bytes += buffer.capacity();
            largest = largest.max(Some((buffer.len(), buffer.data_ptr())));
        }
    });
    let Some((_, largest)) = largest.filter(|_| own_bytes as u64 > SMALL_BYTES) else {
        return Ok(make_array(data));
    };
    memory.try_resize(own_bytes)?;
    attach(data, largest, &mut Some(memory)).map(make_array)
}

fn each_buffer(data: &ArrayData, visit: &mut dyn FnMut(&Buffer)) {
    data.buffers().iter().for_each(&mut *visit);
    data.child_data().iter().for_each(|child| each_buffer(child, visit));
}

/// The same data, whose buffer at an address owns the reservation.
fn attach(
    data: ArrayData,
    address: NonNull<u8>,
    memory: &mut Option<MemoryReservation>,
) -> Result<ArrayData> {
    let mut buffers = data.buffers().to_vec();
    let mut children = data.child_data().to_vec();
    if let Some(buffer) = buffers.iter_mut().find(|buffer| buffer.data_ptr() == address) {
        if let Some(memory) = memory.take() {
            let owned = Owned { buffer: std::mem::take(buffer), _memory: memory };
            *buffer = Buffer::from(Bytes::from_owner(owned));
        }
    } else {
        for child in &mut children {
            *child = attach(child.clone(), address, memory)?;
        }
    }
    let builder = data.into_builder().buffers(buffers).child_data(children).align_buffers(true);
    Ok(builder.build()?)
}

/// Bytes and the reservation that accounts for them.
struct Owned {
    buffer: Buffer,
    _memory: MemoryReservation,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// Rows of a session that are kept as values: their memory, counted as they come.
pub struct RowsMemory {
    memory: MemoryReservation,
    /// Beyond it the rows are refused, however much memory there is.
    bytes_max: usize,
    /// What to do about it.
    hint: &'static str,
}

impl RowsMemory {
    pub fn new(pool: &Arc<dyn MemoryPool>, what: &str, bytes_max: usize, hint: &'static str) -> RowsMemory {
        RowsMemory { memory: MemoryConsumer::new(what).register(pool), bytes_max, hint }
    }

    pub fn bytes(&self) -> usize {
        self.memory.size()
    }

    /// Errors: 53200.
    pub fn grow(&self, bytes: usize) -> base::error::SqlResult<()> {
        let name = self.memory.consumer().name();
        let out_of_memory = |detail: String| {
            SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory").detail(detail).hint(self.hint)
        };
        if self.memory.size().saturating_add(bytes) > self.bytes_max {
            let max_mib = self.bytes_max >> 20;
            return Err(out_of_memory(format!("{name} would take more than {max_mib} MiB.")));
        }
        self.memory
            .try_grow(bytes)
            .map_err(|e| out_of_memory(super::error::sql_error(e).into_fields().detail.unwrap_or_default()))
    }

    pub fn shrink(&self, bytes: usize) {
        self.memory.shrink(bytes.min(self.memory.size()));
    }

    pub fn clear(&self) {
        self.memory.free();
    }
}

/// Memory of a row of values.
pub fn row_bytes(values: &[Datum]) -> usize {
    let heap = |value: &Datum| match value {
        Datum::Text(text) => text.len() + 16,
        Datum::Bytes(bytes) => bytes.len() + 16,
        Datum::Json(text) => text.len() + 16,
        Datum::Array(elements) => {
            let texts = elements.iter().map(|element| match element {
                Datum::Text(text) | Datum::Json(text) => text.len() + 16,
                _ => 0,
            });
            size_of_val(elements.as_ref()) + texts.sum::<usize>()
        }
        _ => 0,
    };
    size_of::<Vec<Datum>>() + size_of_val(values) + values.iter().map(heap).sum::<usize>()
}

/// How many rows of a batch, from one on, have at most so many bytes as values, and how many bytes those have; one
/// row at least, `rows_max` at most. `padded`: columns that are shown with blanks up to a length.
pub fn rows_within(
    batch: &RecordBatch,
    padded: &[(usize, usize)],
    first: usize,
    rows_max: usize,
    bytes_max: usize,
) -> (usize, usize) {
    let fixed = size_of::<Datum>() * batch.num_columns() + size_of::<Vec<Datum>>();
    let long: Vec<&ArrayRef> =
        batch.columns().iter().filter(|column| functions::is_long(column.data_type())).collect();
    let (mut count, mut bytes) = (0, 0usize);
    let rows = rows_max.min(batch.num_rows() - first);
    while count < rows {
        let values = long.iter().map(|column| growth::bytes_at(column.as_ref(), first + count) as usize);
        let blanks = padded
            .iter()
            .filter(|(column, _)| batch.column(*column).is_valid(first + count))
            .map(|(_, length)| *length);
        let row = fixed + values.sum::<usize>() + blanks.sum::<usize>();
        if count > 0 && bytes + row > bytes_max {
            break;
        }
        (count, bytes) = (count + 1, bytes + row);
    }
    (count, bytes)
}
