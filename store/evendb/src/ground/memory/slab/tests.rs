//! Classes, and objects that keep their bytes while slabs are made and given back.

use super::*;
use proptest::prelude::*;

#[test]
fn classes_cover_all_sizes_without_much_waste() {
    for bytes in (1..=OBJECT_BYTES_MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
        let class = class_of(bytes).expect("small enough");
        assert!(class < CLASSES);
        let size = class_bytes(class);
        assert!(size >= bytes && size.is_multiple_of(ALIGN));
        assert!(size <= bytes + (bytes / 8).max(15), "{bytes} in {size}");
        assert_eq!(class_of(size), Some(class));
    }
    assert_eq!(class_bytes(CLASSES - 1), OBJECT_BYTES_MAX);
    assert_eq!(class_of(OBJECT_BYTES_MAX + 1), None);
}

/// An object that is filled with one byte, which is checked when it is freed.
struct Object {
    start: NonNull<u8>,
    bytes: usize,
    fill: u8,
}

// SAFETY: only this value has it, and any thread may free what another allocated.
unsafe impl Send for Object {}

impl Object {
    fn new(bytes: usize, fill: u8) -> Object {
        let start = allocate(bytes);
        assert!(start.addr().get().is_multiple_of(ALIGN));
        // SAFETY: the allocation has this number of bytes.
        unsafe { start.write_bytes(fill, bytes) };
        Object { start, bytes, fill }
    }

    fn is_sparse(&self) -> bool {
        // SAFETY: it lives.
        unsafe { is_sparse(self.start, self.bytes) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: written when it was made, and freed here alone.
        unsafe {
            let all = std::slice::from_raw_parts(self.start.as_ptr(), self.bytes);
            let is_whole = *all == *vec![self.fill; self.bytes];
            free(self.start, self.bytes);
            assert!(is_whole, "somebody else wrote to {} bytes", self.bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
    #[test]
    fn objects_keep_their_bytes(
        steps in prop::collection::vec(
            (any::<bool>(), 1usize..40_000, any::<u8>()),
            1..if cfg!(miri) { 60 } else { 400 },
        ),
        trim_every in 1usize..40,
    ) {
        let mut live: Vec<Object> = Vec::new();
        for (step, &(make, bytes, fill)) in steps.iter().enumerate() {
            if make || live.is_empty() {
                live.push(Object::new(bytes, fill));
            } else {
                live.swap_remove(bytes % live.len());
            }
            if step % trim_every == 0 {
                trim(0);
            }
        }
    }
}

/// No other test makes objects of this class.
#[test]
#[cfg_attr(
    feature = "general-allocator",
    ignore = "the general allocator has no slabs"
)]
fn copies_of_sparse_objects_leave_slabs_empty() {
    const BYTES: usize = 3500;
    const OBJECTS: usize = if cfg!(miri) { 360 } else { 1800 };
    let holes = || slabs::holes_of(class_of(BYTES).expect("small"));
    let mut live: Vec<Object> = (0..OBJECTS).map(|_| Object::new(BYTES, 5)).collect();
    assert!(live.iter().filter(|object| object.is_sparse()).count() < 18);
    // A quarter of the objects stays, spread over all slabs.
    let mut number = 0;
    live.retain(|_| {
        number += 1;
        number % 4 == 0
    });
    let before = holes();
    assert!(before > OBJECTS * 13 / 18 * BYTES);
    let moved = live.iter_mut().filter(|object| object.is_sparse());
    // The copy is made first: otherwise it would fill the hole that the object left.
    let moved = moved.map(|object| *object = Object::new(BYTES, 6));
    assert!(moved.count() > OBJECTS / 6);
    assert!(holes() < before / 4, "{} of {before}", holes());
    assert!(live.iter().filter(|object| object.is_sparse()).count() < 36);
    drop(live);
    assert!(holes() <= 64 << 10);
}

#[test]
fn threads_free_what_others_made() {
    const OBJECTS: usize = if cfg!(miri) { 50 } else { 3000 };
    let (send, receive) = std::sync::mpsc::channel::<Object>();
    let freeing = std::thread::spawn(move || receive.into_iter().for_each(drop));
    let makers: Vec<_> = (0..3)
        .map(|maker| {
            let send = send.clone();
            std::thread::spawn(move || {
                for n in 0..OBJECTS {
                    let object = Object::new(100 + (n * 37 + maker * 11) % 9000, 7);
                    let _ = send.send(object);
                }
            })
        })
        .collect();
    drop(send);
    for maker in makers {
        maker.join().expect("no panic");
    }
    freeing.join().expect("no panic");
}
