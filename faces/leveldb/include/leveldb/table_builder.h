// Files of LevelDB's own format, which EvenDB does not write: nothing comes into the file.

#ifndef EVENDB_LEVELDB_TABLE_BUILDER_H_
#define EVENDB_LEVELDB_TABLE_BUILDER_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/options.h"
#include "leveldb/status.h"

namespace leveldb {

class WritableFile;

// Its status is NotSupported from the beginning.
class LEVELDB_EXPORT TableBuilder {
 public:
  TableBuilder(const Options& options, WritableFile* file);
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  ~TableBuilder();

  Status ChangeOptions(const Options& options);
  void Add(const Slice& key, const Slice& value);
  void Flush();
  Status status() const;
  Status Finish();
  void Abandon();
  uint64_t NumEntries() const;
  uint64_t FileSize() const;

 private:
  // Takes the place of the one member of LevelDB's class.
  void* unused_ = nullptr;
};

}  // namespace leveldb

#endif
