// A cache of a program's own objects. A database that is opened with one takes as its own memory
// what the cache has as capacity, and puts nothing into the cache.

#ifndef EVENDB_LEVELDB_CACHE_H_
#define EVENDB_LEVELDB_CACHE_H_

#include <cstddef>
#include <cstdint>

#include "leveldb/export.h"
#include "leveldb/slice.h"

namespace leveldb {

class LEVELDB_EXPORT Cache;

// The entry that was not used for the longest time goes first.
LEVELDB_EXPORT Cache* NewLRUCache(size_t capacity);

class LEVELDB_EXPORT Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  // Nobody may have a handle at that time.
  virtual ~Cache();

  // An entry that somebody uses. It stays until it is released.
  struct Handle {};

  // `deleter` is called when the entry is neither cached nor used any more.
  virtual Handle* Insert(const Slice& key, void* value, size_t charge,
                         void (*deleter)(const Slice& key, void* value)) = 0;
  // Null if there is none.
  virtual Handle* Lookup(const Slice& key) = 0;
  virtual void Release(Handle* handle) = 0;
  virtual void* Value(Handle* handle) = 0;
  virtual void Erase(const Slice& key) = 0;
  // A number that no other call returns. Users that share a cache distinguish their keys by it.
  virtual uint64_t NewId() = 0;
  // Takes out all entries that nobody uses.
  virtual void Prune() {}
  virtual size_t TotalCharge() const = 0;

 private:
  // Takes the place of a member of LevelDB's class, which nobody looks at either.
  void* unused_ = nullptr;
};

}  // namespace leveldb

#endif
