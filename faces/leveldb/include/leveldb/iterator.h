// A place among sorted records, which moves both ways. A database's iterators see one moment,
// however long they live.

#ifndef EVENDB_LEVELDB_ITERATOR_H_
#define EVENDB_LEVELDB_ITERATOR_H_

#include "leveldb/export.h"
#include "leveldb/slice.h"
#include "leveldb/status.h"

namespace leveldb {

class LEVELDB_EXPORT Iterator {
 public:
  Iterator();
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator();

  // Whether it is at a record. A new one is not.
  virtual bool Valid() const = 0;
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  // To the first record at `target` or above.
  virtual void Seek(const Slice& target) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;

  // Lent until the iterator moves.
  virtual Slice key() const = 0;
  virtual Slice value() const = 0;

  // The error that ended it, if there is one.
  virtual Status status() const = 0;

  using CleanupFunction = void (*)(void* arg1, void* arg2);
  // Called when the iterator is destroyed, in the order in which they were registered.
  void RegisterCleanup(CleanupFunction function, void* arg1, void* arg2);

 private:
  struct Cleanup {
    CleanupFunction function;
    void* arg1;
    void* arg2;
    Cleanup* next;
  };

  // The first of a list, or nothing if it has no function.
  Cleanup cleanups_;
};

// An iterator that is never at a record.
LEVELDB_EXPORT Iterator* NewEmptyIterator();
LEVELDB_EXPORT Iterator* NewErrorIterator(const Status& status);

}  // namespace leveldb

#endif
