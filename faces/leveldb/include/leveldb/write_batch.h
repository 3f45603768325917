// Writes that take effect together, in their order. If several writes have one key, the last one
// counts.

#ifndef EVENDB_LEVELDB_WRITE_BATCH_H_
#define EVENDB_LEVELDB_WRITE_BATCH_H_

#include <cstddef>

#include "leveldb/export.h"
#include "leveldb/status.h"

struct leveldb_writebatch_t;

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  // Gets the writes of a batch.
  class LEVELDB_EXPORT Handler {
   public:
    EVENDB_LEVELDB_OWN virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  EVENDB_LEVELDB_OWN WriteBatch();
  EVENDB_LEVELDB_OWN WriteBatch(const WriteBatch&);
  EVENDB_LEVELDB_OWN WriteBatch& operator=(const WriteBatch&);
  EVENDB_LEVELDB_OWN ~WriteBatch();

  EVENDB_LEVELDB_OWN void Put(const Slice& key, const Slice& value);
  EVENDB_LEVELDB_OWN void Delete(const Slice& key);
  EVENDB_LEVELDB_OWN void Clear();

  // The bytes that it would take in LevelDB's log.
  EVENDB_LEVELDB_OWN size_t ApproximateSize() const;

  EVENDB_LEVELDB_OWN void Append(const WriteBatch& source);
  EVENDB_LEVELDB_OWN Status Iterate(Handler* handler) const;

 private:
  friend struct Internals;

  leveldb_writebatch_t* batch_;
  size_t size_;
};

}  // namespace leveldb

#endif
