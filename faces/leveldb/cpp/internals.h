// The part that the sources of this folder share, and that programs do not see.

#ifndef EVENDB_LEVELDB_CPP_INTERNALS_H_
#define EVENDB_LEVELDB_CPP_INTERNALS_H_

#include <cstdint>

#include "leveldb/c.h"
#include "leveldb/write_batch.h"

namespace leveldb {

// The caches, filter policies and environments that this library made, each with a number: the
// capacity of a cache, the bits of a filter policy, the disk of an environment in memory.
//
// The objects themselves have LevelDB's members, where a program's own class has anything. And it
// may have been compiled without type information, so its type cannot be asked for. Hence this table
// of addresses. Any number of threads may use it; it outlives all objects.
class Made {
 public:
  static void Add(const void* object, uintptr_t number);
  static void Remove(const void* object);
  // False for an object of the program's own.
  static bool Find(const void* object, uintptr_t* number);
};

// Looks into classes of the headers.
struct Internals {
  static const std::string& BytesOf(const WriteBatch& batch) { return batch.bytes_; }
};

}  // namespace leveldb

#endif
