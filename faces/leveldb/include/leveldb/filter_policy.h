// Filters that recognize nearly all absent keys. Of the filter with which a database is opened,
// only the number of bits of NewBloomFilterPolicy() counts: the store makes its filters itself.

#ifndef EVENDB_LEVELDB_FILTER_POLICY_H_
#define EVENDB_LEVELDB_FILTER_POLICY_H_

#include <string>

#include "leveldb/export.h"

namespace leveldb {

class Slice;

class LEVELDB_EXPORT FilterPolicy {
 public:
  virtual ~FilterPolicy();

  virtual const char* Name() const = 0;
  // Appends a filter of `n` keys to `dst`.
  virtual void CreateFilter(const Slice* keys, int n, std::string* dst) const = 0;
  // False only if CreateFilter() made `filter` without `key`.
  virtual bool KeyMayMatch(const Slice& key, const Slice& filter) const = 0;
};

LEVELDB_EXPORT const FilterPolicy* NewBloomFilterPolicy(int bits_per_key);

}  // namespace leveldb

#endif
