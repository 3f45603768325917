// Writes that take effect together, in their order. If several writes have one key, the last one
// counts.

#ifndef EVENDB_LEVELDB_WRITE_BATCH_H_
#define EVENDB_LEVELDB_WRITE_BATCH_H_

#include <cstddef>
#include <string>

#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT WriteBatch {
 public:
  // Gets the writes of a batch.
  class LEVELDB_EXPORT Handler {
   public:
    virtual ~Handler();
    virtual void Put(const Slice& key, const Slice& value) = 0;
    virtual void Delete(const Slice& key) = 0;
  };

  WriteBatch();
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  ~WriteBatch();

  void Put(const Slice& key, const Slice& value);
  void Delete(const Slice& key);
  void Clear();

  // The bytes that it would take in LevelDB's log.
  size_t ApproximateSize() const;

  void Append(const WriteBatch& source);
  Status Iterate(Handler* handler) const;

 private:
  friend struct Internals;

  // The writes as they would stand in LevelDB's log. A program copies the bytes without asking the
  // library; cpp/batch.cc shows their order.
  std::string bytes_;
};

}  // namespace leveldb

#endif
