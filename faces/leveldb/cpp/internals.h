// The part that the sources of this folder share, and that programs do not see.

#ifndef EVENDB_LEVELDB_CPP_INTERNALS_H_
#define EVENDB_LEVELDB_CPP_INTERNALS_H_

#include "leveldb/c.h"
#include "leveldb/cache.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

namespace leveldb {

// Looks into classes of the headers.
struct Internals {
  static leveldb_writebatch_t* BatchOf(const WriteBatch& batch) { return batch.batch_; }
  static size_t& CapacityOf(Cache* cache) { return cache->capacity_; }
  static int& BitsPerKeyOf(FilterPolicy* policy) { return policy->bits_per_key_; }
  static int BitsPerKeyOf(const FilterPolicy& policy) { return policy.bits_per_key_; }
};

}  // namespace leveldb

#endif
