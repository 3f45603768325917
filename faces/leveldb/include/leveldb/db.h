// LevelDB's C++ classes over EvenDB. The classes have the members, the virtual functions and the
// linker's names of LevelDB 1.23, in its order: a program that was compiled with LevelDB's headers
// runs with this library, and a program that was compiled with these runs with LevelDB's.

#ifndef EVENDB_LEVELDB_DB_H_
#define EVENDB_LEVELDB_DB_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "leveldb/export.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"

namespace leveldb {

// The version of the interface.
static const int kMajorVersion = 1;
static const int kMinorVersion = 23;

class WriteBatch;

// A moment of a database.
class LEVELDB_EXPORT Snapshot {
 protected:
  virtual ~Snapshot();
};

// Keys from `start` to below `limit`.
struct LEVELDB_EXPORT Range {
  Range() = default;
  Range(const Slice& s, const Slice& l) : start(s), limit(l) {}

  Slice start;
  Slice limit;
};

// An open database, which any number of threads may use at once. Destroying it closes it; its
// iterators must be destroyed before.
class LEVELDB_EXPORT DB {
 public:
  // Leaves null in `*dbptr` if it fails.
  static Status Open(const Options& options, const std::string& name, DB** dbptr);

  DB() = default;
  DB(const DB&) = delete;
  DB& operator=(const DB&) = delete;
  virtual ~DB();

  virtual Status Put(const WriteOptions& options, const Slice& key, const Slice& value) = 0;
  // No error if there is no such key.
  virtual Status Delete(const WriteOptions& options, const Slice& key) = 0;
  // Does all of the batch, or nothing.
  virtual Status Write(const WriteOptions& options, WriteBatch* updates) = 0;
  // NotFound if there is no such key; `*value` is then unchanged.
  virtual Status Get(const ReadOptions& options, const Slice& key, std::string* value) = 0;
  virtual Iterator* NewIterator(const ReadOptions& options) = 0;
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;
  // False for an unknown name; leveldb/c.h lists the names.
  virtual bool GetProperty(const Slice& property, std::string* value) = 0;
  // About how many bytes each range takes.
  virtual void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) = 0;
  // Compacts the range, which gives back unneeded room. Null is the end on that side.
  virtual void CompactRange(const Slice* begin, const Slice* end) = 0;
};

// For a database that nobody has open.
LEVELDB_EXPORT Status DestroyDB(const std::string& name, const Options& options);
LEVELDB_EXPORT Status RepairDB(const std::string& dbname, const Options& options);

// Not one of LevelDB's functions. As DB::Open(), with the layout of a database that is created:
// "chunks" or "guards". Null stands for the layout that the environment variable
// EVENDB_LEVELDB_LAYOUT names, or otherwise for chunks. An existing database keeps its layout.
LEVELDB_EXPORT Status OpenWithLayout(const Options& options, const std::string& name, const char* layout,
                                     DB** dbptr);

}  // namespace leveldb

#endif
