// Files of LevelDB's own format, which EvenDB does not read: opening one fails.

#ifndef EVENDB_LEVELDB_TABLE_H_
#define EVENDB_LEVELDB_TABLE_H_

#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/iterator.h"

namespace leveldb {

class RandomAccessFile;
struct Options;
struct ReadOptions;

class LEVELDB_EXPORT Table {
 public:
  // Always NotSupported, with null in `*table`.
  static Status Open(const Options& options, RandomAccessFile* file, uint64_t file_size, Table** table);

  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();

  // There is no object that could be asked.
  Iterator* NewIterator(const ReadOptions&) const;
  uint64_t ApproximateOffsetOf(const Slice& key) const;

 private:
  Table() = default;

  // Takes the place of the one member of LevelDB's class.
  void* unused_ = nullptr;
};

}  // namespace leveldb

#endif
